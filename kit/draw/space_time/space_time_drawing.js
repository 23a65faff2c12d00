// Draws the visible part of a space-time diagram with a pen: a canvas, or in a test a list. What is drawn and what it is
// called is in the document, its looks are in the document's table; this file only places it, as `space_time_drawing.py`
// does for the picture, method by method. Numerous arrows are drawn look by look, each in one path.
// `spots` are the places of marks that react to the pointer, `arrows` the drawn arrows, and `seen` the entries of the legend.

class Drawing {
  // `scene` is { run, lanes, x, xMs, width, top, height, scroll, chosen, cut, epoch, order, range: [a, b], ticks }.
  constructor(pen, scene) {
    Object.assign(this, { pen, scene, run: scene.run, sizes: scene.run.table.sizes, looks: scene.run.table.looks });
    this.shift = 0; // the distance by which the picture was moved to the left since
    this.spots = [];
    this.arrows = [];
    this.captions = [];
    this.seen = new Set();
    this.sampled = new Map();
    this.free = -Infinity;
  }

  draw() {
    const { pen, scene } = this;
    const { width, height, top } = scene;
    const below = (draw, from = top + scene.lanes.job + 4) => pen.below(from, width, height, draw);
    pen.begin(width, height);
    this.grid();
    this.layer(0);
    below(() => {
      this.bands();
      this.region();
      this.lines();
      this.cuts();
      this.layer(1);
    });
    pen.line("job", [0, this.y(0), width, this.y(0)]);
    below(() => this.travel(), top);
    below(() => {
      this.layer(2);
      this.barCaptions();
    });
    for (let layer = 3; layer < this.run.table.layers; layer++) this.layer(layer);
    return this;
  }

  // --- places ------------------------------------------------------------------------------------------------------

  // The JobMaster's line, lane 0, stays where it is when the others are scrolled.
  y(lane) {
    const { top, lanes, scroll } = this.scene;
    return top + lanes.y[lane] - (lane === 0 ? 0 : scroll);
  }

  room(lane) {
    return this.scene.lanes.room[lane];
  }

  isClose(lane) {
    return this.room(lane) < this.sizes.close;
  }

  isIn(y) {
    return y > this.scene.top - 30 && y < this.scene.height + 30;
  }

  isNear(x, margin) {
    return x >= -margin && x <= this.scene.width + margin;
  }

  // The place of a mark's beginning or end on the axis.
  at(n, ms) {
    return this.scene.order ? this.scene.x(n) : this.scene.xMs(ms);
  }

  // --- the ground --------------------------------------------------------------------------------------------------

  grid() {
    const { pen, scene } = this;
    for (const { x, words } of scene.ticks) {
      pen.line("grid", [x, scene.top, x, scene.height]);
      if (words) pen.text("tick", [x, scene.top - 9], words, { anchor: "middle" });
    }
  }

  bands() {
    const { pen, scene } = this;
    for (const { y, height } of scene.lanes.bands) {
      pen.box("band", [0, scene.top + y - scene.scroll, scene.width, height, 0]);
    }
  }

  // Draw the region of the checkpoint: what each task of its epoch did before it copied its state.
  region() {
    const { scene } = this;
    const points = scene.chosen === null ? [] : this.points(scene.chosen, scene.cut);
    if (points.length === 0) return;
    const begin = Math.max(-10, scene.x(scene.epoch?.since ?? 0));
    const all = this.withEnds(points);
    this.pen.area("region", [begin, all[1], ...all, begin, all.at(-1)], { checkpoint: scene.chosen });
  }

  // The points of a cut from top to bottom; for a cut that is not chosen, only the middle point of each band.
  points(id, cut) {
    const { scene } = this;
    const points = [];
    for (const group of scene.run.groups) {
      const band = scene.lanes.bands.find((each) => each.group === group);
      const there = (band ? band.sorted : group.lanes).filter((lane) => cut[lane] !== NEVER);
      if (band && id !== scene.chosen && there.length) {
        const middle = there.map((lane) => cut[lane]).sort((one, two) => one - two)[there.length >> 1];
        points.push(scene.x(middle), scene.top + band.y + band.height / 2 - scene.scroll);
      } else {
        for (const lane of there) points.push(scene.x(cut[lane]), this.y(lane));
      }
    }
    return points;
  }

  withEnds(points) {
    const more = this.sizes.cut_end;
    return [points[0], points[1] - more, ...points, points.at(-2), points.at(-1) + more];
  }

  lines() {
    const { pen, scene } = this;
    const { epochs } = scene.run;
    epochs.forEach((each, k) => {
      const begin = Math.max(0, scene.x(k === 0 ? 0 : each.since));
      const end = Math.min(scene.width, k + 1 < epochs.length ? scene.x(epochs[k + 1].since) : scene.width);
      if (end < 0 || begin > scene.width) return;
      const there = each.lanes.filter((lane) => this.isIn(this.y(lane)));
      const line = (lane) => [begin, this.y(lane), end, this.y(lane)];
      // lines in a band are close together, and would hide the band if drawn like others
      pen.lines("close lane", there.filter((lane) => this.isClose(lane)).flatMap(line));
      pen.lines("lane", there.filter((lane) => !this.isClose(lane)).flatMap(line));
    });
  }

  // --- checkpoints and incidents -----------------------------------------------------------------------------------

  cuts() {
    const { scene } = this;
    for (const each of scene.run.checkpoints.values()) {
      if (!this.isCutSeen(each)) continue;
      const isChosen = each.id === scene.chosen;
      if (scene.x(each.last) >= 0 && scene.x(each.first) <= scene.width) this.seen.add(isChosen ? "cut" : "other cuts");
      const points = this.withEnds(this.points(each.id, scene.run.cutOf(each.id)));
      this.pen.line(isChosen ? "cut" : "other cut", points, { checkpoint: each.id });
    }
  }

  isCutSeen({ cut, first, last }) {
    return cut.length > 0 && this.scene.x(last) > -40 && this.scene.x(first) < this.scene.width + 40;
  }

  // Draw the marks of a layer: of each checkpoint, and then the run's.
  layer(layer) {
    const { scene, run } = this;
    for (const known of run.checkpoints.values()) {
      if (!this.isSeen(known)) continue;
      for (const mark of known.layers[layer]) {
        if (known.id === scene.chosen || !mark.look.only_chosen) this.mark(mark, known);
      }
    }
    for (const mark of run.layers[layer]) this.mark(mark, null);
  }

  isSeen({ extent: { since, since_ms, until, until_ms } }) {
    return this.at(since, since_ms) < this.scene.width + 80 && (until === NEVER || this.at(until, until_ms) > -80);
  }

  mark(mark, known) {
    const { name, look } = mark;
    const y = this.y(mark.lane);
    if (mark.lane !== 0 && !this.isIn(y)) return;
    const isOther = look.has_other && known?.id !== this.scene.chosen;
    const style = isOther ? `other ${name}` : name;
    const x = this.at(mark.since, mark.since_ms);
    const spots = this[look.shape](mark, style, x, y, { checkpoint: known?.id ?? NEVER }, isOther);
    if (!spots) return;
    for (const entry of look.legend ?? []) this.seen.add(entry);
    for (const [left, top, w, h] of spots) this.spots.push({ x: left, y: top, w, h, mark, known });
  }

  // Each shape returns the places where it reacts to the pointer; nothing if it is not drawn.

  epoch(mark, style, x) {
    if (!this.isNear(x, 5)) return null;
    const { top, height } = this.scene;
    this.pen.line(style, [x, top, x, height]);
    this.pen.text(`${style} words`, [x + 5, height - 10], mark.words);
    return [[x - 4, top, 8, height]];
  }

  bar(mark, style, begin, line, options) {
    const { pen, scene, sizes } = this;
    const room = this.room(mark.lane);
    const end = this.at(mark.until, mark.until_ms);
    const outset = style === "slow" ? 1 : 0;
    const width = Math.max(end - begin, 2 * outset);
    if (room < sizes.room_for_bars || end < 0 || begin > scene.width || width <= 0) return null;
    const [high, share] = sizes.bar;
    const y = line + sizes.below, height = Math.min(high, room * share);
    pen.box(style, [begin - outset, y - outset, width + 2 * outset, height + 2 * outset, 0], options);
    if (mark.words && room >= sizes.room_for_captions) {
      const isOpen = style.endsWith(" open");
      const x = isOpen ? Math.min(end, scene.width - 4) : Math.max(4, Math.min(begin, scene.width - 140));
      this.captions.push([[x, y + height + 7], mark.words, isOpen ? { anchor: "end", most: x - 4 } : {}]);
    }
    return [[begin - 1, y - 2, width + 2, height + 4]];
  }

  // Draw the captions of bars above all arrows.
  barCaptions() {
    if (this.captions.length > this.sizes.most_captions) return;
    for (const [at, words, options] of this.captions) this.pen.text("caption", at, words, options);
  }

  square(mark, style, x, y, options, isOther) {
    if (!this.isNear(x, 6) || (isOther && this.isClose(mark.lane))) return null;
    const half = Math.min(this.sizes.square[isOther ? 1 : 0], Math.max(1.6, 0.2 * this.room(mark.lane)));
    this.pen.box(style, [x - half, y - half, 2 * half, 2 * half, 0], options);
    return [[x - half - 2, y - half - 2, 2 * half + 4, 2 * half + 4]];
  }

  words(mark, style, x, y) {
    if (!this.isNear(x, 20)) return null;
    this.text(x, y, `${style} words`, this.isClose(mark.lane) ? mark.words[0] : mark.words);
    return [[x - 20, y - 8, 40, 16]];
  }

  span(mark, style, begin, y, options) {
    const end = mark.until === NEVER ? this.scene.width + 20 : this.at(mark.until, mark.until_ms);
    if (end < -70 || begin > this.scene.width + 20) return null;
    this.pen.line(style, [begin, y, end, y], options);
    return [[begin, y - 3, end - begin, 6]];
  }

  plate(mark, style, x, y, options) {
    return this.isNear(x, 20) ? [this.number(mark.words, x, y, this.sizes.plate, style, options)] : null;
  }

  // Draw the number of a checkpoint on its colour; returns the place.
  number(words, x, y, [height, least, letter, radius], style, options) {
    const width = least + letter * words.length;
    const at = [x - width / 2, y - height / 2, width, height];
    this.pen.box(style, [...at, radius], options);
    this.pen.text(`${style} words`, [x, y + 0.5], words, { anchor: "middle" });
    return at;
  }

  end(mark, style, x, y) {
    if (!this.isNear(x, 20)) return null;
    const { dot, end_words: above } = this.sizes;
    const half = this.halfOf(mark.words, `${style} words`);
    if (x - half > this.free) {
      this.text(x, y + above, `${style} words`, mark.words);
      this.free = x + half + 12;
    }
    this.pen.dot(style, [x, y, dot]);
    return [[x - 8, y + above - 7, 16, 30]];
  }

  triangle(mark, style, x, y) {
    if (!this.isNear(x, 6)) return null;
    this.pen.area(style, this.sizes.triangle.map((at, k) => at + (k % 2 ? y : x)));
    return [[x - 7, y - 8, 14, 15]];
  }

  halfOf(words, style) {
    return (this.sizes.letter * this.run.table.styles[style].size * words.length) / 2;
  }

  // Draw words around a place, or beside it at the edges.
  text(x, y, style, words) {
    const half = this.halfOf(words, style);
    this.pen.text(style, [x, y], words, { anchor: x > this.scene.width - half ? "end" : x < half ? "" : "middle" });
  }

  // --- arrows ------------------------------------------------------------------------------------------------------

  // Draw what travels in the interval, look by look.
  travel() {
    const { run, scene } = this;
    const [a, b] = scene.range;
    const found = new Map();
    for (const name of ["letters", "elements"]) {
      const { source, target, checkpoint } = run[name];
      run.between(name, a, b, (i) => {
        if (source[i] < 0 || target[i] < 0) return;
        const above = this.y(source[i]), below = this.y(target[i]);
        if (!this.isIn(above) && !this.isIn(below) && (above < scene.top) === (below < scene.top)) return;
        const look = run.lookOf(name, i, scene.chosen);
        const key = look === "barrier" ? `barrier ${checkpoint[i] % 4}` : look;
        const rows = found.get(key);
        if (rows) rows.push(i); else found.set(key, [i]);
      });
    }
    for (const look of run.table.arrows) {
      for (const key of look === "barrier" ? [0, 1, 2, 3].map((hue) => `barrier ${hue}`) : [look]) {
        const rows = found.get(key);
        if (rows) this.ofLook(look, look === "letter" ? "letters" : "elements", rows);
      }
    }
  }

  // Of very many, leave out those that look the same, then every n-th one.
  thinned(look, table, rows) {
    if (rows.length <= this.sizes.many || this.looks[look].crosses) return rows;
    const { scene } = this;
    const { source, target, sent, start } = table;
    const last = new Map();
    const lanes = scene.run.lanes.length;
    const apart = rows.filter((i) => {
      const way = source[i] * lanes + target[i];
      const x = scene.x(sent[i] === NEVER ? start[i] : sent[i]);
      if (x - (last.get(way) ?? -Infinity) < this.sizes.apart) return false;
      last.set(way, x);
      return true;
    });
    const every = Math.ceil(apart.length / this.sizes.many);
    if (every === 1) return apart;
    this.sampled.set(look, Math.max(every, this.sampled.get(look) ?? 1));
    return apart.filter((_, k) => k % every === 0);
  }

  ofLook(name, table, rows) {
    const { pen, sizes } = this;
    const look = this.looks[name];
    for (const entry of look.legend) this.seen.add(entry);
    const placed = this.thinned(name, this.run[table], rows).map((i) => this.place(table, i, name, look));
    const many = placed.length;
    const { checkpoint } = placed[0];
    const opacity = look.crosses ? 1 : Math.max(sizes.faintest, Math.min(1, sizes.crowd / many));
    const isPlain = many > sizes.plain && !look.crosses;
    const ways = [], waits = [], heads = [];
    for (const { leaves, sent, above, received, to, start, away, arrives, over } of placed) {
      if (leaves) ways.push(sent, above, received, to);
      if (!look.waits) continue;
      if (sent - start > 0.5) waits.push(start, above + away, sent, above + away);
      if (arrives && over - received > 0.5) waits.push(received, to, over, to);
    }
    const [most, width] = sizes.thin;
    const widest = many > most && !look.crosses ? width : Infinity;
    pen.lines(isPlain ? `${name} plain` : name, ways, { checkpoint, opacity, widest });
    if (waits.length) {
      // what waits is drawn along its own line, never on the neighbour's
      const closest = placed.reduce((least, { room }) => Math.min(least, room), Infinity);
      const isCrowd = isPlain || (this.scene.lanes.bands.length > 0 && many > 100);
      const widest = isCrowd ? Math.min(1, 0.6 * closest) : Math.max(1, 0.6 * closest);
      pen.lines(`${name} wait`, waits, { checkpoint, opacity, widest });
      this.seen.add("wait");
    }
    if (name === "barrier" && many <= sizes.numbered) this.numbers(placed);
    this.arrows.push(...placed);
    if (many > sizes.many) return;
    for (const { taken, over, below, sign } of placed) {
      const side = look.head / 2, back = below - sign * look.head;
      if (taken) heads.push(over, below, over - side, back, over + side, back);
    }
    pen.triangles(`${name} head`, heads, { checkpoint, opacity });
    for (const { lost, over, leaves, to, above, away } of placed) {
      if (!lost) continue;
      this.seen.add("lost");
      pen.text("lost sign", [over, leaves ? to : above + away], "✗", { anchor: "middle" });
    }
  }

  // Return where an arrow is drawn: its times on the axis, and the heights of its ends.
  place(name, i, lookName, look) {
    const { scene, sizes } = this;
    const table = this.run[name];
    const end = table.over[i] === NEVER ? this.run.n : table.over[i];
    const source = table.source[i], target = table.target[i];
    const above = this.y(source), below = this.y(target);
    const sign = below >= above ? 1 : -1;
    const isClose = Math.min(this.room(source), this.room(target)) < sizes.close;
    const away = look.waits && !isClose ? sizes.wait * sign : 0;
    const arrives = table.received[i] !== NEVER;
    return {
      name, i, look, lookName, sign, above, below, away, arrives,
      checkpoint: table.checkpoint[i], start: scene.x(table.start[i]), over: scene.x(end),
      sent: scene.x(table.sent[i] === NEVER ? end : table.sent[i]),
      received: scene.x(table.received[i] === NEVER ? end : table.received[i]),
      leaves: table.sent[i] !== NEVER, to: arrives ? below - away : (above + below) / 2,
      taken: arrives && table.over[i] !== NEVER && !table.lost[i], lost: table.lost[i] === 1,
      room: Math.min(this.room(source), this.room(target)),
    };
  }

  // Draw a barrier's number on its arrow.
  numbers(placed) {
    for (const { checkpoint, sent, received, above, to, leaves } of placed) {
      if (!leaves) continue;
      const words = String(checkpoint);
      const x = sent + 0.35 * (received - sent), y = above + 0.35 * (to - above);
      this.number(words, x, y, this.sizes.small_plate, "barrier flag", { checkpoint });
    }
  }

  // --- pointing ----------------------------------------------------------------------------------------------------

  // Return what is at a point of the canvas: a spot, or the nearest arrow.
  find(px, py) {
    px += this.shift;
    const isOn = ({ x, y, w, h }) => px >= x && px <= x + w && py >= y && py <= y + h;
    const spot = this.spots.findLast((each) => each.w < 60 && isOn(each));
    if (spot) return spot;
    let best = null, least = 6;
    for (const each of this.arrows) {
      const { start, sent, above, away, received, to, over, leaves, arrives, look, lookName } = each;
      let d = leaves ? distance(px, py, sent, above, received, to) : Infinity;
      if (look.waits && sent > start) d = Math.min(d, distance(px, py, start, above + away, sent, above + away));
      if (look.waits && arrives) d = Math.min(d, distance(px, py, received, to, over, to));
      d -= look.crosses || lookName === "barrier" ? 1.5 : 0;
      if (d < least) { least = d; best = each; }
    }
    return best ?? this.spots.findLast(isOn) ?? null;
  }
}

function distance(px, py, x1, y1, x2, y2) {
  const dx = x2 - x1, dy = y2 - y1;
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.max(0, Math.min(1, ((px - x1) * dx + (py - y1) * dy) / length));
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy);
}
