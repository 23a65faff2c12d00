// Draws the visible part of a space-time diagram on a canvas. Numerous items are drawn style by style, each in one path.
// `spots` has the drawn items that react to the pointer, and `seen` the kinds that occur, for the legend.

const TAU = Math.PI * 2;
const WAIT = 4.5;
const MOST_HEADS = 900;
const NUMBERED = 16;
const PLAIN = 250; // more lines than this are thin and solid, because dashes and width take most of a frame
const MANY = 900;
const MOST_CAPTIONS = 6; // more would hide their subjects; hovering over a bar shows the same
const NEVER = -1;

const STYLES = {
  records: { ink: "line", width: 1, wait: 3, fade: 0.75 },
  AFTER: { ink: "line", width: 1, wait: 3, fade: 0.9, dash: [8, 4] },
  BEFORE: { ink: "ink-2", width: 1.5, wait: 3, fade: 1 },
  sign: { ink: "line", width: 1, wait: 2, fade: 0.9, dash: [1.5, 3] },
  IN_FLIGHT: { ink: "in-flight", width: 2, wait: 4.5, fade: 1 },
  AGAINST: { ink: "against", width: 2.2, wait: 4.5, fade: 1, dash: [6, 3] },
  letter: { ink: "line", width: 1, wait: 0, fade: 0.9, dash: [4, 3] },
};
const PHASE_INKS = {
  trigger: "line-2", begin: "line-2", start_delay: "line-2", alignment: "align-solid", sync: "bad-solid", async: "accent",
  in_flight: "capture", ack: "good-solid",
};

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.inks = {};
    this.spots = [];
    this.seen = new Set();
  }

  // Read the theme's colours at the canvas.
  readInks() {
    const style = getComputedStyle(this.canvas);
    const names = ["paper", "card", "raised", "ink", "ink-2", "quiet", "line", "line-2", "faint", "strong", "accent",
      "good", "bad", "good-solid", "bad-solid", "align-solid", "in-flight", "against", "capture", "cp0", "cp1", "cp2", "cp3",
      "on-cp", "on-accent"];
    for (const name of names) this.inks[name] = style.getPropertyValue(`--kit-${name}`).trim() || "#888888";
    this.font = style.getPropertyValue("--kit-font") || "sans-serif";
  }

  ofCheckpoint(id) {
    return this.inks[`cp${((id % 4) + 4) % 4}`];
  }

  // `scene` is { run, lanes, x, width, top, height, scroll, chosen, cursor, range: [a, b], order, ms }.
  draw(scene) {
    this.scene = scene;
    this.shift = 0; // the distance by which the picture was moved to the left since
    this.spots = [];
    this.captions = [];
    this.seen = new Set();
    this.sampled = new Map();
    const { ctx } = this;
    const ratio = window.devicePixelRatio || 1;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = this.inks.paper;
    ctx.fillRect(0, 0, scene.width, scene.height);
    ctx.lineJoin = ctx.lineCap = "round";
    this.grid();
    this.clipped(() => {
      this.bands();
      this.region();
      this.lines();
      this.cuts();
      this.phases();
    });
    this.jobLine();
    this.clipped(() => this.travel(), true);
    this.clipped(() => { this.copies(); this.losses(); this.caption(); });
    this.flags();
    this.marks();
    this.future();
  }

  clipped(draw, withJob = false) {
    const { ctx, scene } = this;
    const begin = withJob ? scene.top : scene.top + scene.lanes.job + 4;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, begin, scene.width, scene.height - begin);
    ctx.clip();
    draw();
    ctx.restore();
  }

  y(task) {
    return this.scene.top + this.scene.lanes.y[task] - this.scene.scroll;
  }

  isIn(y) {
    return y > this.scene.top - 30 && y < this.scene.height + 30;
  }

  get jobY() {
    return this.scene.top + this.scene.lanes.job - 8;
  }

  // Begin a path through these points.
  path(points) {
    this.ctx.beginPath();
    for (const [x, y] of points) this.ctx.lineTo(x, y);
  }

  line(...points) {
    this.path(points);
    this.ctx.stroke();
  }

  // Draw the number of a checkpoint on its colour.
  plate(number, x, y, half, height, radius, size, hue) {
    const { ctx } = this;
    ctx.fillStyle = hue;
    ctx.beginPath();
    ctx.roundRect(x - half, y - height / 2, 2 * half, height, radius);
    ctx.fill();
    ctx.font = `700 ${size}px ${this.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillStyle = this.inks["on-cp"];
    ctx.fillText(String(number), x, y + 0.5);
  }

  text(text, x, y, { ink = "ink", size = 11, weight = 400, align = "left", most = Infinity } = {}) {
    const { ctx } = this;
    ctx.font = `${weight} ${size}px ${this.font}`;
    ctx.textAlign = align;
    ctx.textBaseline = "middle";
    let shown = text;
    if (ctx.measureText(text).width > most) {
      let low = 0, high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (ctx.measureText(`${text.slice(0, middle)}…`).width <= most) low = middle; else high = middle - 1;
      }
      if (low < 4) return 0;
      shown = `${text.slice(0, low)}…`;
    }
    const { width } = ctx.measureText(shown);
    const left = x - width * ({ center: 0.5, right: 1 }[align] ?? 0);
    ctx.globalAlpha = 0.85; // a ground, for lines run below the text
    ctx.fillStyle = this.inks.paper;
    ctx.fillRect(left - 2, y - size * 0.62, width + 4, size * 1.24);
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.inks[ink] ?? ink;
    ctx.fillText(shown, x, y);
    return width;
  }

  // --- what lies below -------------------------------------------------------------------------------------------

  grid() {
    const { ctx, scene } = this;
    const base = scene.top - 9;
    for (const { x, label } of scene.ticks) {
      ctx.strokeStyle = this.inks.faint;
      ctx.lineWidth = 1;
      this.line([x, scene.top], [x, scene.height]);
      this.text(label, x, base, { ink: "quiet", size: 10.5, align: "center" });
    }
    for (const each of scene.run.epochs) {
      if (each.epoch === scene.run.epochs[0]?.epoch) continue;
      const x = scene.x(each.since);
      if (x < -5 || x > scene.width + 5) continue;
      ctx.strokeStyle = this.inks.quiet;
      ctx.setLineDash([2, 4]);
      this.line([x, scene.top], [x, scene.height]);
      ctx.setLineDash([]);
      const back = each.restored === NEVER ? "" : `, from checkpoint ${each.restored}`;
      const told = `epoch ${each.epoch}${back}`;
      this.text(told, x + 5, scene.height - 10, { ink: "ink-2", size: 10.5, weight: 600 });
      this.spots.push({ x: x - 4, y: scene.top, w: 8, h: scene.height, told: `${told}: all tasks are deployed anew`, pick: "" });
    }
  }

  bands() {
    const { ctx, scene } = this;
    ctx.fillStyle = this.inks.card;
    for (const { y, height } of scene.lanes.bands) ctx.fillRect(0, scene.top + y - scene.scroll, scene.width, height);
  }

  // Draw the region of the checkpoint: everything that each task of its epoch did before it copied its state.
  region() {
    const { ctx, scene } = this;
    if (scene.chosen === null) return;
    const points = this.cutPoints(scene.chosen, scene.cut);
    if (points.length === 0) return;
    const begin = Math.max(-10, scene.x(scene.epoch?.since ?? 0));
    ctx.fillStyle = this.ofCheckpoint(scene.chosen);
    ctx.globalAlpha = 0.07;
    this.path([[begin, points[0][1] - 12], ...this.withEnds(points), [begin, points.at(-1)[1] + 12]]);
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  // The points of a cut from top to bottom; for a cut that is not chosen, only the middle point of each band.
  cutPoints(id, cut) {
    const { scene } = this;
    const points = [];
    for (const group of scene.run.groups) {
      const band = scene.lanes.bands.find((each) => each.group === group);
      const there = (band ? band.sorted : group.tasks).filter((task) => cut[task] !== NEVER);
      if (band && id !== scene.chosen && there.length) {
        const middle = there.map((task) => cut[task]).sort((one, two) => one - two)[there.length >> 1];
        points.push([scene.x(middle), scene.top + band.y + band.height / 2 - scene.scroll]);
      } else {
        for (const task of there) points.push([scene.x(cut[task]), this.y(task)]);
      }
    }
    return points;
  }

  withEnds(points) {
    const first = points[0], last = points.at(-1);
    return [[first[0], first[1] - 12], ...points, [last[0], last[1] + 12]];
  }

  lines() {
    const { ctx, scene } = this;
    const epochs = scene.run.epochs;
    epochs.forEach((each, k) => {
      const begin = Math.max(0, scene.x(k === 0 ? 0 : each.since));
      const end = Math.min(scene.width, k + 1 < epochs.length ? scene.x(epochs[k + 1].since) : scene.width);
      if (end < 0 || begin > scene.width) return;
      ctx.strokeStyle = this.inks.line;
      // items in a band are close together, and would hide the band if drawn like others
      const isClose = (task) => scene.lanes.room[task] < 12;
      for (const close of [true, false]) {
        ctx.beginPath();
        for (const task of each.tasks) {
          const y = this.y(task);
          if (isClose(task) !== close || !this.isIn(y)) continue;
          ctx.moveTo(begin, y);
          ctx.lineTo(end, y);
        }
        ctx.lineWidth = close ? 0.5 : 1.2;
        ctx.globalAlpha = close ? 0.3 : 1;
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
    });
  }

  jobLine() {
    const { ctx, scene } = this;
    ctx.strokeStyle = this.inks["ink-2"];
    ctx.lineWidth = 1.6;
    this.line([0, this.jobY], [scene.width, this.jobY]);
  }

  // --- checkpoints -------------------------------------------------------------------------------------------------

  cuts() {
    const { ctx, scene } = this;
    for (const each of scene.run.checkpoints.values()) {
      if (!this.isCutSeen(each)) continue;
      const isChosen = each.id === scene.chosen;
      const points = this.cutPoints(each.id, scene.run.cutOf(each.id));
      if (scene.x(each.last) >= 0 && scene.x(each.first) <= scene.width) this.seen.add(isChosen ? "cut" : "other cuts");
      ctx.strokeStyle = this.ofCheckpoint(each.id);
      ctx.lineWidth = isChosen ? 9 : 5;
      ctx.globalAlpha = isChosen ? 0.34 : 0.2;
      this.line(...this.withEnds(points));
      ctx.globalAlpha = 1;
    }
  }

  isCutSeen({ cut, first, last }) {
    return cut.length > 0 && this.scene.x(last) > -40 && this.scene.x(first) < this.scene.width + 40;
  }

  copies() {
    const { ctx, scene } = this;
    for (const each of scene.run.checkpoints.values()) {
      if (!this.isCutSeen(each)) continue;
      const isChosen = each.id === scene.chosen;
      for (const [task, n] of each.cut) {
        const x = scene.x(n), y = this.y(task);
        if (x < -6 || x > scene.width + 6 || !this.isIn(y)) continue;
        if (!isChosen && scene.lanes.room[task] < 12) continue;
        const half = Math.min(isChosen ? 5 : 3.5, Math.max(1.6, 0.2 * scene.lanes.room[task]));
        ctx.fillStyle = this.ofCheckpoint(each.id);
        ctx.globalAlpha = isChosen ? 1 : 0.5;
        ctx.fillRect(x - half, y - half, 2 * half, 2 * half);
        ctx.globalAlpha = 1;
        this.spots.push({
          x: x - half - 2, y: y - half - 2, w: 2 * half + 4, h: 2 * half + 4, pick: `checkpoint:${each.id}`,
          told: () => `${scene.run.tasks[task]} copies its state for checkpoint ${each.id}, ${scene.when(n)}`,
        });
      }
    }
  }

  phases() {
    const { ctx, scene } = this;
    const known = scene.run.checkpoints.get(scene.chosen);
    if (!known) return;
    const { order, run } = scene;
    for (const [task, phase, since, until, sinceMs, untilMs, open, usual, waits] of known.phases) {
      const room = scene.lanes.room[task];
      const y = this.y(task) + 8;
      if (room < 20 || !this.isIn(y)) continue;
      const name = run.phases[phase];
      const begin = order ? scene.x(since) : scene.xMs(sinceMs);
      const end = order ? scene.x(until) : scene.xMs(untilMs);
      if (end < 0 || begin > scene.width) continue;
      const ink = this.inks[PHASE_INKS[name]];
      const height = Math.min(8, room * 0.2);
      const w = Math.max(end - begin, usual === NEVER ? 0 : 2);
      if (w <= 0) continue;
      this.seen.add(name);
      ctx.fillStyle = ink;
      ctx.globalAlpha = open ? 0.25 : 0.9;
      ctx.fillRect(begin, y, w, height);
      ctx.globalAlpha = 1;
      const length = duration(untilMs - sinceMs);
      let told = `${run.tasks[task]} ${run.words.phases[name]}: ${length}`;
      if (open) {
        this.seen.add("open");
        ctx.strokeStyle = ink;
        ctx.setLineDash([3, 2]);
        ctx.lineWidth = 1.4;
        ctx.strokeRect(begin, y, w, height);
        ctx.setLineDash([]);
        const waitsFor = `${known.finished === NEVER ? "waits" : "waited"} for ${waits}`;
        told += `, not finished${waits ? `. It ${waitsFor}` : ""}`;
        if (waits && room >= 28) {
          const at = Math.min(end, scene.width - 4);
          this.captions.push([waitsFor, at, y + height + 7, { align: "right", most: at - 4 }]);
        }
      }
      if (usual !== NEVER && !open) {
        this.seen.add("slow");
        told += `. The others of its operator: ${duration(usual)}`;
        ctx.strokeStyle = this.inks.bad;
        ctx.lineWidth = 1.6;
        ctx.strokeRect(begin - 1, y - 1, w + 2, height + 2);
        const at = Math.max(4, Math.min(begin, scene.width - 140));
        if (room >= 28) this.captions.push([`${length}, the others ${duration(usual)}`, at, y + height + 7, {}]);
      }
      this.spots.push({ x: begin - 1, y: y - 2, w: w + 2, h: height + 4, told, pick: `checkpoint:${known.id}` });
    }
  }

  // Draw the captions of bars above all elements and messages.
  caption() {
    if (this.captions.length > MOST_CAPTIONS) return;
    for (const [words, x, y, how] of this.captions) this.text(words, x, y, { ink: "bad", size: 10.5, ...how });
  }

  flags() {
    const { ctx, scene } = this;
    const y = this.jobY;
    let free = -Infinity;
    for (const each of scene.run.checkpoints.values()) {
      const x = scene.x(each.triggered);
      const end = each.finished === NEVER ? scene.width + 20 : scene.x(each.finished);
      if (end < -70 || x > scene.width + 20) continue;
      const ink = this.ofCheckpoint(each.id);
      const isChosen = each.id === scene.chosen;
      ctx.strokeStyle = ink;
      ctx.lineWidth = isChosen ? 6 : 3;
      ctx.globalAlpha = isChosen ? 0.5 : 0.3;
      this.line([x, y], [end, y]);
      ctx.globalAlpha = 1;
      const told = `${each.said}. ${each.went[0]?.toUpperCase() ?? ""}${each.went.slice(1)}`;
      const pick = `checkpoint:${each.id}`;
      const size = 9 + 7 * String(each.id).length;
      this.plate(each.id, x, y, size / 2, 18, 3, 11, ink);
      this.spots.push({ x: x - size / 2, y: y - 9, w: size, h: 18, told, pick });
      if (each.finished === NEVER) continue;
      const done = each.status === "completed";
      const label = done ? `✓ ${each.id}` : `✗ ${each.id} aborted`;
      if (end > free) {
        const w = this.text(label, end, y - 17, { ink: done ? "good" : "bad", size: 11, weight: 700, align: "center" });
        free = end + w / 2 + 24;
      }
      ctx.fillStyle = done ? this.inks["good-solid"] : this.inks["bad-solid"];
      ctx.beginPath();
      ctx.arc(end, y, 4, 0, TAU);
      ctx.fill();
      this.spots.push({ x: end - 8, y: y - 24, w: 16, h: 30, told, pick });
    }
  }

  losses() {
    const { scene } = this;
    for (const [task, n] of scene.run.losses) {
      const x = scene.x(n), y = this.y(task);
      if (x < -20 || x > scene.width + 20 || !this.isIn(y)) continue;
      this.text(scene.lanes.room[task] > 12 ? "✗ lost" : "✗", x, y, { ink: "bad", size: 12, weight: 700, align: "center" });
      this.spots.push({ x: x - 20, y: y - 8, w: 40, h: 16, pick: `task:${scene.run.tasks[task]}`,
        told: () => `${scene.run.tasks[task]} is lost, ${scene.when(n)}` });
    }
  }

  marks() {
    const { ctx, scene } = this;
    for (const { kind, text, n } of scene.run.marks) {
      const x = scene.x(n);
      if (x < -6 || x > scene.width + 6) continue;
      const ink = kind === "restore" ? this.inks.accent : this.inks["bad-solid"];
      const y = this.jobY;
      ctx.fillStyle = ink;
      ctx.strokeStyle = this.inks.paper;
      ctx.lineWidth = 1.2;
      this.path([[x - 6.5, y - 7], [x + 6.5, y - 7], [x, y + 6]]);
      ctx.closePath();
      ctx.fill();
      ctx.stroke();
      this.seen.add(kind);
      this.spots.push({ x: x - 7, y: y - 8, w: 14, h: 15, told: () => `${text}, ${scene.when(n)}`, pick: "job" });
    }
  }

  // --- what travels ------------------------------------------------------------------------------------------------

  travel() {
    const { scene } = this;
    const { run } = scene;
    const { elements } = run;
    const [a, b] = scene.range;
    const byStyle = new Map();
    const epoch = scene.epoch?.epoch;
    const crossed = scene.chosen !== null;
    const put = (style, i) => {
      const rows = byStyle.get(style);
      if (rows) rows.push(i); else byStyle.set(style, [i]);
    };
    run.between("elements", a, b, (i) => {
      const source = elements.source[i], target = elements.target[i];
      if (source < 0 || target < 0) return;
      if (!this.isIn(this.y(source)) && !this.isIn(this.y(target))
        && (this.y(source) < scene.top) === (this.y(target) < scene.top)) return;
      if (elements.kind[i] === run.BARRIER) put(`barrier ${elements.checkpoint[i] % 4}`, i);
      else if (elements.kind[i] !== run.BUFFER) put("sign", i);
      else put((crossed && run.crossing(i, scene.cut, epoch)) || "records", i);
    });
    this.letterRows = [];
    run.between("letters", a, b, (i) => { if (run.letters.task[i] >= 0) this.letterRows.push(i); });
    this.letters();
    this.visible = [];
    const order = ["sign", "AFTER", "records", "BEFORE", "barrier 0", "barrier 1", "barrier 2", "barrier 3", "IN_FLIGHT", "AGAINST"];
    for (const style of order) {
      const rows = byStyle.get(style);
      if (rows) this.elements(style, this.thinned(style, rows));
    }
  }

  // Of very many items, leave out those that look the same, then every n-th one; keep those that cross the cut.
  thinned(style, rows) {
    if (rows.length <= MANY || style === "IN_FLIGHT" || style === "AGAINST") return rows;
    const { scene } = this;
    const { source, target, sent, made } = scene.run.elements;
    const last = new Map();
    const tasks = scene.run.tasks.length;
    const apart = rows.filter((i) => {
      const way = source[i] * tasks + target[i];
      const x = scene.x(sent[i] === NEVER ? made[i] : sent[i]);
      if (x - (last.get(way) ?? -Infinity) < 1.5) return false;
      last.set(way, x);
      return true;
    });
    const every = Math.ceil(apart.length / MANY);
    if (every === 1) return apart;
    const name = style.startsWith("barrier") ? "barrier" : style;
    this.sampled.set(name, Math.max(every, this.sampled.get(name) ?? 1));
    return apart.filter((i) => i % every === 0);
  }

  elements(style, rows) {
    const { ctx, scene } = this;
    const { elements } = scene.run;
    const isBarrier = style.startsWith("barrier");
    const looks = isBarrier
      ? { ink: `cp${style.slice(8)}`, width: rows.length > 60 ? 1.4 : 2.6, wait: 5, fade: 1 }
      : STYLES[style];
    this.seen.add(isBarrier ? "barrier" : style);
    const now = scene.run.n;
    const shapes = [];
    for (const i of rows) {
      const over = elements.over[i] === NEVER ? now : elements.over[i];
      const sent = elements.sent[i] === NEVER ? over : elements.sent[i];
      const received = elements.received[i] === NEVER ? over : elements.received[i];
      const ys = this.y(elements.source[i]), yt = this.y(elements.target[i]);
      const sign = yt >= ys ? 1 : -1;
      const isTiny = Math.min(scene.lanes.room[elements.source[i]], scene.lanes.room[elements.target[i]]) < 12;
      const away = isTiny ? 0 : WAIT * sign;
      const arrives = elements.received[i] !== NEVER;
      shapes.push({
        i, style, sign, ys, yt, made: scene.x(elements.made[i]), sent: scene.x(sent), received: scene.x(received),
        over: scene.x(over), leaves: elements.sent[i] !== NEVER, arrives, away,
        to: arrives ? yt - away : (ys + yt) / 2, taken: arrives && elements.over[i] !== NEVER && !elements.lost[i],
        lost: elements.lost[i] === 1, room: Math.min(scene.lanes.room[elements.source[i]], scene.lanes.room[elements.target[i]]),
      });
    }
    ctx.strokeStyle = ctx.fillStyle = this.inks[looks.ink];
    const crosses = style === "IN_FLIGHT" || style === "AGAINST";
    const crowd = crosses ? 1 : Math.max(0.22, Math.min(1, 150 / rows.length));
    ctx.globalAlpha = looks.fade * crowd;
    const isMany = rows.length > PLAIN && !crosses;
    ctx.lineWidth = isMany ? 1 : looks.width;
    ctx.setLineDash(isMany ? [] : (looks.dash ?? []));
    ctx.beginPath();
    for (const each of shapes) {
      if (!each.leaves) continue;
      ctx.moveTo(each.sent, each.ys);
      ctx.lineTo(each.received, each.to);
    }
    ctx.stroke();
    ctx.setLineDash([]);
    const isCrowd = isMany || (scene.lanes.bands.length > 0 && rows.length > 100);
    // waiting elements are drawn along their own line, never on the neighbour's
    const closest = shapes.reduce((least, { room }) => Math.min(least, room), Infinity);
    ctx.lineWidth = isCrowd ? Math.min(1, 0.6 * closest) : Math.min(looks.wait, Math.max(1, 0.6 * closest));
    ctx.globalAlpha *= isBarrier || crosses ? 0.85 : 0.5;
    ctx.lineCap = "butt";
    ctx.beginPath();
    let waits = false;
    for (const each of shapes) {
      if (each.sent - each.made > 0.5) { ctx.moveTo(each.made, each.ys + each.away); ctx.lineTo(each.sent, each.ys + each.away); waits = true; }
      if (each.arrives && each.over - each.received > 0.5) {
        ctx.moveTo(each.received, each.to);
        ctx.lineTo(each.over, each.to);
        waits = true;
      }
    }
    ctx.stroke();
    if (waits) this.seen.add("wait");
    ctx.lineCap = "round";
    ctx.globalAlpha = looks.fade * crowd;
    if (isBarrier && rows.length <= NUMBERED) this.numbers(shapes, Number(style.slice(8)));
    this.heads(shapes, isBarrier || looks.width > 1.5 ? 7 : 5.5, 10);
    ctx.globalAlpha = 1;
    this.visible.push(...shapes);
  }

  // Draw the heads of arrows that were taken, and a sign where an item was lost.
  heads(shapes, size, lostSize) {
    const { ctx } = this;
    if (shapes.length > MOST_HEADS) return;
    ctx.beginPath();
    for (const { over, yt, sign, taken } of shapes) {
      if (!taken) continue;
      ctx.moveTo(over, yt);
      ctx.lineTo(over - size / 2, yt - sign * size);
      ctx.lineTo(over + size / 2, yt - sign * size);
    }
    ctx.fill();
    for (const { lost, over, leaves, to, ys, away } of shapes) {
      if (lost) this.text("✗", over, leaves ? to : ys + away, { ink: "bad", size: lostSize, align: "center" });
    }
  }

  // Draw a barrier's number on its arrow.
  numbers(shapes, hue) {
    for (const { i, sent, received, ys, to, leaves } of shapes) {
      if (!leaves) continue;
      const number = this.scene.run.elements.checkpoint[i];
      const half = 3 + 3.5 * String(number).length;
      this.plate(number, sent + 0.35 * (received - sent), ys + 0.35 * (to - ys), half, 14, 2, 10, this.inks[`cp${hue}`]);
    }
    this.ctx.fillStyle = this.inks[`cp${hue}`];
  }

  letters() {
    const { ctx, scene } = this;
    const { letters } = scene.run;
    const rows = this.letterRows;
    if (rows.length === 0) return;
    this.seen.add("letter");
    const look = STYLES.letter;
    ctx.strokeStyle = ctx.fillStyle = this.inks[look.ink];
    ctx.lineWidth = look.width;
    ctx.globalAlpha = Math.max(0.15, Math.min(look.fade, 120 / rows.length));
    ctx.setLineDash(rows.length > PLAIN ? [] : look.dash);
    this.letterShapes = rows.map((i) => {
      const job = this.jobY, task = this.y(letters.task[i]);
      const arrives = letters.over[i] !== NEVER && !letters.lost[i];
      const [ys, yt] = letters.out[i] ? [job, task] : [task, job];
      const x = scene.x(letters.over[i] === NEVER ? scene.run.n : letters.over[i]);
      return { i, sent: scene.x(letters.sent[i]), received: x, over: x, ys, yt, to: arrives ? yt : (ys + yt) / 2, arrives,
        taken: arrives, lost: letters.lost[i], leaves: true, sign: yt > ys ? 1 : -1, style: "letter" };
    });
    ctx.beginPath();
    for (const each of this.letterShapes) { ctx.moveTo(each.sent, each.ys); ctx.lineTo(each.over, each.to); }
    ctx.stroke();
    ctx.setLineDash([]);
    this.heads(this.letterShapes, 5, 11);
    ctx.globalAlpha = 1;
  }

  // --- the cursor --------------------------------------------------------------------------------------------------

  future() {
    const { ctx, scene } = this;
    const x = scene.x(scene.cursor);
    if (x < scene.width) {
      ctx.globalAlpha = 0.68;
      ctx.fillStyle = this.inks.paper;
      ctx.fillRect(Math.max(0, x), scene.top - 1, scene.width - Math.max(0, x), scene.height);
      ctx.globalAlpha = 1;
    }
    if (x < -1 || x > scene.width + 1) return;
    ctx.strokeStyle = this.inks.strong;
    ctx.lineWidth = 1.4;
    const { top } = scene;
    this.line([x, top - 20], [x, scene.height]);
    ctx.fillStyle = this.inks.strong;
    this.path([[x - 6, top - 22], [x + 6, top - 22], [x + 6, top - 14], [x, top - 7], [x - 6, top - 14]]);
    ctx.fill();
  }

  // --- pointing ----------------------------------------------------------------------------------------------------

  // Return the item at a point of the canvas: a spot, or the nearest arrow of an element or a message.
  at(px, py) {
    px += this.shift ?? 0;
    for (let i = this.spots.length - 1; i >= 0; i--) {
      const { x, y, w, h } = this.spots[i];
      if (px >= x && px <= x + w && py >= y && py <= y + h && w < 60) return this.spots[i];
    }
    let best = null, least = 6;
    const see = (each, isLetter) => {
      const loud = each.style === "IN_FLIGHT" || each.style === "AGAINST" || each.style.startsWith("barrier") ? 1.5 : 0;
      let d = each.leaves ? distance(px, py, each.sent, each.ys, each.received, each.to) : Infinity;
      if (!isLetter) {
        if (each.sent > each.made) d = Math.min(d, distance(px, py, each.made, each.ys + each.away, each.sent, each.ys + each.away));
        if (each.arrives) d = Math.min(d, distance(px, py, each.received, each.to, each.over, each.to));
      }
      if (d - loud < least) { least = d - loud; best = isLetter ? { letter: each.i } : { element: each.i }; }
    };
    for (const each of this.letterRows?.length ? this.letterShapes : []) see(each, true);
    for (const each of this.visible ?? []) see(each, false);
    if (best !== null) return best;
    return this.spots.findLast(({ x, y, w, h }) => px >= x && px <= x + w && py >= y && py <= y + h) ?? null;
  }
}

function distance(px, py, x1, y1, x2, y2) {
  const dx = x2 - x1, dy = y2 - y1;
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / length));
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
}
