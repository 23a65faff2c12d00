// The space-time diagram of a run: pan, zoom, point, choose. `new SpaceTimePane(root, data, { go, pick })` draws the data
// of `kit/draw/space_time/space_time_data.py`; `show(n)` moves its cursor, `take(data)` adds new data. The other parts are in
// `space_time_run.js`, `space_time_lanes.js`, `space_time_drawing.js` and `space_time_pen.js`.

const MAP = 34;
const MOST_HEIGHT = 620;
const LEAST_SPAN = 6;
const ANNOUNCE_MS = 700;
const GLIDES_FROM = 250; // with more items in view, drawing takes longer than a frame
const BESIDE = 0.7; // a fraction of the view, to its left and its right
const SETTLES_AFTER_MS = 140;
const NUMBERS = new Intl.NumberFormat("en");
const KEYS = "← → step the cursor, Shift a tenth of what is seen; [ ] from checkpoint to checkpoint; + − zoom; 0 all";

class SpaceTimePane {
  constructor(root, data, { go = () => {}, pick = () => {} } = {}) {
    this.root = root;
    this.go = go;
    this.pick = pick;
    this.order = true;
    this.choice = "auto";
    this.opened = new Set();
    this.pointers = new Map();
    this.build();
    this.run = new SpaceTimeRun(data);
    this.n = this.run.n;
    this.px = this.run.table.sizes;
    this.pen = new Pen(this.canvas, this.run.table.styles);
    this.watch();
    this.renew();
    this.tellMeasure();
    this.fitTo(this.chosen);
  }

  // --- what it is made of ------------------------------------------------------------------------------------------

  build() {
    this.root.classList.add("kit-picture", "kit-st");
    this.root.innerHTML = `
      <div class="kit-st-bar" role="toolbar" aria-label="Space-time diagram">
        <label>Cut of <select class="kit-st-choice" aria-label="Checkpoint whose cut sorts the records"></select></label>
        <span class="kit-st-axis" role="radiogroup" aria-label="What is drawn from left to right">
          <button type="button" role="radio" data-order="1" title="every record has its place, also where many come at once">order</button
          ><button type="button" role="radio" data-order="" title="as long as it took, in ms">time</button></span>
        <span class="kit-st-zoom">
          <button type="button" data-do="out" aria-label="Zoom out" title="Zoom out (−)">−</button
          ><button type="button" data-do="in" aria-label="Zoom in" title="Zoom in (+)">+</button
          ><button type="button" data-do="checkpoint" title="Show the checkpoint from its trigger to its end">checkpoint</button
          ><button type="button" data-do="all" title="Show the whole run (0)">whole run</button></span>
      </div>
      <p class="kit-st-said"></p><p class="kit-st-went"></p>
      <div class="kit-st-map"><canvas role="img" aria-label="The whole run; drag to choose what is seen"></canvas></div>
      <div class="kit-st-main" tabindex="0" role="group" aria-label="Space-time diagram. ${KEYS}" title="">
        <div class="kit-st-names"><div class="kit-st-job"></div><div class="kit-st-tasks"><div></div></div></div>
        <div class="kit-st-view"><canvas role="img"></canvas>
          <div class="kit-st-scroll" aria-hidden="true"><div></div></div></div>
      </div>
      <div class="kit-st-legend" role="group" aria-label="Legend"></div>
      <p class="kit-st-hint">Drag to pan, Ctrl and wheel or pinch to zoom, drag the ruler to move the cursor. ${KEYS}.</p>
      <div class="kit-st-tip" role="tooltip" hidden></div>
      <div class="kit-st-live" aria-live="polite"></div>`;
    const find = (selector) => this.root.querySelector(selector);
    Object.assign(this, {
      select: find(".kit-st-choice"), saidLine: find(".kit-st-said"), wentLine: find(".kit-st-went"),
      map: find(".kit-st-map canvas"), main: find(".kit-st-main"), names: find(".kit-st-tasks > div"),
      namesBox: find(".kit-st-names"), jobName: find(".kit-st-job"), view: find(".kit-st-view"),
      canvas: find(".kit-st-view canvas"), scroller: find(".kit-st-scroll"), spacer: find(".kit-st-scroll > div"),
      legend: find(".kit-st-legend"), tip: find(".kit-st-tip"), live: find(".kit-st-live"),
    });
    const job = document.createElement("button");
    Object.assign(job, { type: "button", textContent: "JobMaster", title: "the JobMaster", className: "kit-st-name" });
    job.addEventListener("click", () => this.pick("job"));
    this.jobName.append(job);
  }

  watch() {
    const { root } = this;
    this.stop = new AbortController();
    const on = (target, type, act, options = {}) => target.addEventListener(type, act, { signal: this.stop.signal, ...options });
    on(this.select, "change", () => { this.choose(this.select.value); this.fitTo(this.chosen); });
    on(root.querySelector(".kit-st-axis"), "click", (event) => {
      if (event.target.dataset.order !== undefined) this.measure(event.target.dataset.order === "1");
    });
    on(root.querySelector(".kit-st-zoom"), "click", (event) => this.act(event.target.dataset.do));
    on(this.main, "keydown", (event) => this.key(event));
    on(this.view, "wheel", (event) => this.wheel(event), { passive: false });
    on(this.view, "pointerdown", (event) => this.press(event));
    on(this.view, "pointermove", (event) => this.move(event));
    on(this.view, "pointerup", (event) => this.release(event));
    on(this.view, "pointercancel", (event) => this.release(event));
    on(this.view, "pointerleave", () => this.point(null));
    on(this.view, "dblclick", (event) => this.zoom(0.5, this.place(event).x));
    on(this.scroller, "scroll", () => { this.scroll = this.scroller.scrollTop; this.ask(); });
    on(this.map, "pointerdown", (event) => { this.map.setPointerCapture(event.pointerId); this.mapTo(event); });
    on(this.map, "pointermove", (event) => { if (event.buttons) this.mapTo(event); });
    on(document, "visibilitychange", () => this.ask());
    this.sizes = new ResizeObserver(([{ contentRect }]) => {
      this.isHidden = contentRect.width === 0;
      this.stale = true;
      this.ask();
    });
    this.isHidden = true; // according to the observer so far
    this.sizes.observe(this.root);
    this.themes = new MutationObserver(() => { this.inked = false; this.ask(); });
    for (const node of [document.documentElement, document.body]) {
      this.themes.observe(node, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "data-jp-theme-name", "class"] });
    }
    this.scroll = 0;
    this.stale = true;
  }

  close() {
    this.stop.abort();
    this.sizes.disconnect();
    this.themes.disconnect();
    clearTimeout(this.settling);
    cancelAnimationFrame(this.asked);
    this.root.replaceChildren();
  }

  // --- the run and the cursor --------------------------------------------------------------------------------------

  take(data) {
    const atEnd = this.n >= this.run.n;
    const wasIn = this.isSeen(this.u(this.run.n));
    this.run.take(data);
    this.layer = undefined;
    if (atEnd || this.n > this.run.n) this.n = this.run.n;
    this.renew();
    if (atEnd && wasIn && !this.isSeen(this.u(this.n))) this.follow();
    this.ask();
  }

  // Forget the data; the next data are the whole run.
  forget() {
    this.run.edition = NEVER;
  }

  show(n) {
    if (n === this.n) return;
    this.n = Math.max(0, Math.min(n, this.run.n));
    this.choose(this.choice);
    this.follow();
    this.announce();
    this.ask();
  }

  // Update the choices and the lines, which depend on the run and not on the view.
  renew() {
    this.cut = undefined;
    const options = [["auto", "the one at the cursor"]];
    for (const each of this.run.checkpoints.values()) options.push([String(each.id), each.label]);
    const key = options.join();
    if (key !== this.optionsKey) {
      this.optionsKey = key;
      this.select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
      this.select.value = this.choice;
    }
    this.choose(this.choice);
  }

  choose(choice) {
    this.choice = String(choice);
    this.select.value = this.choice;
    this.chosen = this.choice === "auto" ? this.run.checkpointAt(this.n) : Number(this.choice);
    const cut = this.run.cutOf(this.chosen);
    if (this.cut?.join() !== cut.join()) {
      this.cut = cut;
      this.layOut();
    }
    this.say(this.run.checkpoints.get(this.chosen));
    this.root.style.setProperty("--kit-st-chosen", `var(--kit-cp${(this.chosen ?? 0) % 4})`);
    this.ask();
  }

  moveTo(n) {
    const to = Math.max(0, Math.min(Math.round(n), this.run.n));
    if (to === this.n) return;
    this.n = to;
    this.choose(this.choice);
    this.go(to);
    this.announce();
  }

  // Describe a checkpoint; anything after the cursor is described as later.
  say(known) {
    let said = known?.said ?? "No checkpoint has begun";
    let went = known?.went ?? "";
    if (known && this.n < known.triggered) {
      went = `it begins later, at ${this.ms(known.triggered)}`;
      said = `${known.said.split(":", 1)[0]} has not begun at the cursor`;
    } else if (known && this.n < known.finished) {
      went = `under way at the cursor; later ${went}`;
    }
    this.saidLine.textContent = said;
    this.wentLine.textContent = went ? went[0].toUpperCase() + went.slice(1) : "";
  }

  // Place the lines, which depends on the open vertices and, in a closed band, on the cut.
  layOut() {
    this.lanes = new Lanes(this.run, this.opened, this.cut, MOST_HEIGHT - this.px.ruler);
    this.stale = true;
  }

  announce() {
    clearTimeout(this.saying);
    this.saying = setTimeout(() => { this.live.textContent = `record ${this.n} of ${this.run.n}, ${this.ms(this.n)}`; }, ANNOUNCE_MS);
  }

  // --- time --------------------------------------------------------------------------------------------------------

  ms(n) {
    return duration(this.run.ms[n]);
  }

  // A record's place on the axis: its number, or its time.
  u(n) {
    return this.order ? n : this.run.ms[Math.min(n, this.run.n)];
  }

  recordAt(u) {
    return this.order ? Math.round(u) : this.run.recordAt(u);
  }

  get whole() {
    return this.order ? [0, Math.max(1, this.run.n)] : [this.run.late[0], Math.max(this.run.late[0] + 1, this.run.late[this.run.n])];
  }

  isSeen(u) {
    return this.window !== undefined && u >= this.window[0] && u <= this.window[1];
  }

  showInterval(a, b) {
    const [first, last] = this.whole;
    const most = (last - first) * 1.04;
    const span = Math.min(most, Math.max(this.order ? LEAST_SPAN : 2, b - a));
    let begin = (a + b) / 2 - span / 2;
    begin = Math.max(first - 0.02 * (last - first), Math.min(begin, last + 0.02 * (last - first) - span));
    this.window = [begin, begin + span];
    this.ask();
  }

  zoom(factor, px = null) {
    const [a, b] = this.window;
    const share = px === null ? (this.isSeen(this.u(this.n)) ? (this.u(this.n) - a) / (b - a) : 0.5) : px / this.width;
    const at = a + share * (b - a);
    const span = (b - a) * factor;
    this.showInterval(at - share * span, at + (1 - share) * span);
  }

  pan(px) {
    const [a, b] = this.window;
    this.glides = true;
    const by = (px / this.width) * (b - a);
    this.showInterval(a + by, b + by);
  }

  follow() {
    if (!this.window || this.isSeen(this.u(this.n))) return;
    const [a, b] = this.window;
    const at = this.u(this.n), span = b - a;
    if (at > b) this.showInterval(at - 0.8 * span, at + 0.2 * span); else this.showInterval(at - 0.2 * span, at + 0.8 * span);
  }

  fitTo(id) {
    const known = this.run.checkpoints.get(id);
    if (!known) { this.showInterval(...this.whole); return; }
    const begin = this.u(known.triggered);
    const end = this.u(Math.max(known.finished === NEVER ? this.run.n : known.finished, ...known.cut.map(([, n]) => n)));
    const margin = Math.max(this.px.least_margin, this.px.margin * (end - begin));
    this.showInterval(begin - margin, end + margin);
  }

  measure(order) {
    if (order === this.order) return;
    const seen = this.window.map((u) => this.recordAt(u));
    this.order = order;
    this.tellMeasure();
    this.showInterval(this.u(Math.max(0, seen[0])), this.u(Math.min(this.run.n, seen[1])));
  }

  tellMeasure() {
    for (const each of this.root.querySelectorAll("[data-order]")) {
      each.setAttribute("aria-checked", String((each.dataset.order === "1") === this.order));
    }
  }

  act(what) {
    if (what === "in") this.zoom(0.6);
    else if (what === "out") this.zoom(1 / 0.6);
    else if (what === "all") this.showInterval(...this.whole);
    else if (what === "checkpoint") this.fitTo(this.chosen);
  }

  // --- drawing -----------------------------------------------------------------------------------------------------

  ask() {
    this.asked ??= requestAnimationFrame(() => { this.asked = undefined; this.draw(); });
  }

  size() {
    if (!this.stale) return;
    this.stale = false;
    const width = this.view.clientWidth;
    const height = Math.min(MOST_HEIGHT, this.px.ruler + this.lanes.height);
    this.width = width;
    this.height = height;
    this.main.style.height = `${height}px`;
    const ratio = window.devicePixelRatio || 1;
    const fit = (canvas, w, h) => {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
      canvas.style.width = `${w}px`;
      canvas.style.height = `${h}px`;
    };
    fit(this.canvas, width, height);
    this.mapWidth = this.map.parentNode.clientWidth;
    fit(this.map, this.mapWidth, MAP);
    this.scroller.style.top = `${this.px.ruler + this.lanes.job}px`;
    this.spacer.style.height = `${this.lanes.height - this.lanes.job}px`;
    this.label();
  }

  label() {
    this.jobName.style.top = `${this.px.ruler + this.lanes.job - 8}px`;
    this.names.replaceChildren(...this.lanes.labels.map(({ y, text, lane, group, fold, count, isTall }) => {
      const name = document.createElement("button");
      name.type = "button";
      name.className = `kit-st-name${isTall ? " kit-st-tall" : ""}`;
      name.style.top = `${y - this.lanes.job}px`;
      name.title = fold ? `${group.title}: ${count} subtasks; ${fold === "closed" ? "open" : "close"}` : text;
      const shown = document.createElement("span"); // cut in the middle if it does not fit, because neighbours differ at the end
      const [, head, tail] = (fold && !isTall ? /^(.*?)(.{3})?$/ : /^(.*?)(.{0,6}\/\d+|.{6})?$/).exec(text);
      shown.textContent = head;
      const both = document.createElement("i");
      both.append(shown, tail ?? "");
      name.append(both);
      if (fold) {
        name.setAttribute("aria-expanded", fold === "open");
        const many = document.createElement("b");
        name.setAttribute("aria-label", `${text} ×${count}`);
        many.textContent = `×${count} ${fold === "open" ? "▾" : "▸"}`;
        name.append(many);
        name.addEventListener("click", () => this.fold(group.name));
      } else {
        name.setAttribute("aria-label", text);
        name.addEventListener("click", () => this.pick(`task:${this.run.lanes[lane]}`));
      }
      return name;
    }));
  }

  fold(name) {
    if (!this.opened.delete(name)) this.opened.add(name);
    this.layOut();
    this.pick(`vertex:${name}`);
    this.ask();
  }

  draw() {
    if (!this.root.isConnected) return;
    if (this.view.clientWidth === 0) {
      // The observer does not report an element hidden for less than a frame, as when JupyterLab changes its theme.
      if (!this.isHidden && this.root.clientWidth === 0) this.ask();
      return;
    }
    const glides = this.glides && this.inked && !this.stale && this.drawing?.arrows.length > GLIDES_FROM;
    this.glides = false;
    if (glides) {
      this.glide();
      return;
    }
    const began = performance.now();
    this.size();
    if (!this.inked) { this.pen.readInks(); this.inked = true; }
    this.drawing = new Drawing(this.pen, this.scene(...this.window, this.width)).draw();
    this.drawCursor();
    this.drawn = this.window;
    this.drawMap();
    this.names.style.transform = `translateY(${-this.scroll}px)`;
    this.canvas.setAttribute("aria-label", `${this.saidLine.textContent}. ${this.wentLine.textContent}`);
    this.explain();
    this.drawMs = performance.now() - began;
  }

  // Return what to draw of an interval of the run, on this number of pixels.
  scene(a, b, width) {
    const scale = width / (b - a);
    const { run, order } = this;
    const ms = run.ms;
    const known = run.checkpoints.get(this.chosen);
    return {
      run, lanes: this.lanes, width, height: this.height, top: this.px.ruler, scroll: this.scroll, chosen: this.chosen,
      cut: this.cut, order, ticks: this.ticks(a, b, width),
      x: order ? (n) => (n - a) * scale : (n) => (ms[n] - a) * scale, xMs: (at) => (at - a) * scale,
      epoch: known ? run.epochs.find((each) => each.epoch === known.epoch) : null,
      range: [this.recordAt(Math.max(a, this.whole[0])) - 1, order ? Math.ceil(b) : run.recordAt(b + 1) + 1],
      when: (n) => `at ${this.ms(n)}`,
    };
  }

  // While the user pans, shift a picture that is wider than the view, because drawing many items takes longer than a
  // frame. When the movement stops, draw it again.
  glide() {
    const [a, b] = this.window;
    const span = b - a;
    const about = [this.n, this.run.n, this.order, this.chosen, this.scroll, this.width, this.height, this.pen.inks.paper];
    const key = [...about, Math.round(1e6 * this.width / span)].join();
    if (this.layer?.key !== key || this.layer.lanes !== this.lanes || a < this.layer.a || b > this.layer.b) {
      const canvas = this.layer?.pen.canvas ?? document.createElement("canvas");
      const width = Math.round(this.width * (1 + 2 * BESIDE));
      const ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== this.canvas.height) {
        [canvas.width, canvas.height] = [Math.round(width * ratio), this.canvas.height];
      }
      const pen = this.layer?.pen ?? new Pen(canvas, this.run.table.styles);
      Object.assign(pen, { inks: this.pen.inks, font: this.pen.font });
      const beside = (span * (width / this.width - 1)) / 2;
      new Drawing(pen, this.scene(a - beside, b + beside, width)).draw();
      this.layer = { key, lanes: this.lanes, pen, a: a - beside, b: b + beside };
    }
    const ratio = this.canvas.width / this.width;
    const { ctx } = this.pen;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(this.layer.pen.canvas, -Math.round(((a - this.layer.a) / span) * this.width * ratio), 0);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawCursor();
    this.drawing.shift = ((a - this.drawn[0]) / span) * this.width;
    this.drawMap();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.ask(), SETTLES_AFTER_MS);
  }

  ticks(a, b, width) {
    const scale = width / (b - a);
    const rough = (b - a) / Math.max(2, width / 110);
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((f) => f * size).find((s) => s >= rough));
    const cursor = (this.u(this.n) - a) * scale;
    const found = [];
    for (let at = Math.ceil(a / step) * step; at <= b; at += step) {
      if (at < this.whole[0] || at > this.whole[1]) continue;
      const x = (at - a) * scale;
      at += 0; // turn -0 into 0, which is shown without a sign
      const label = this.order ? `${NUMBERS.format(at)} · ${this.ms(at)}` : duration(at);
      const half = 3.2 * label.length;
      const isUnderCursor = Math.abs(x - cursor) < half + 8;
      if (x > half && x < width - half) found.push({ x, words: isUnderCursor ? "" : label });
    }
    return found;
  }

  // Draw the cursor, and fade what comes after it.
  drawCursor() {
    const { width, height, px: { ruler }, pen: { ctx, inks } } = this;
    const [a, b] = this.window;
    const x = ((this.u(this.n) - a) / (b - a)) * width;
    if (x < width) {
      ctx.globalAlpha = 0.68;
      ctx.fillStyle = inks.paper;
      ctx.fillRect(Math.max(0, x), ruler - 1, width - Math.max(0, x), height);
      ctx.globalAlpha = 1;
    }
    if (x < -1 || x > width + 1) return;
    ctx.strokeStyle = ctx.fillStyle = inks.strong;
    ctx.lineWidth = 1.4;
    ctx.beginPath();
    ctx.moveTo(x, ruler - 20);
    ctx.lineTo(x, height);
    ctx.stroke();
    ctx.beginPath();
    for (const [dx, dy] of [[-6, -22], [6, -22], [6, -14], [0, -7], [-6, -14]]) ctx.lineTo(x + dx, ruler + dy);
    ctx.fill();
  }

  drawMap() {
    const { run, pen } = this;
    const ctx = this.map.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [first, last] = this.whole;
    const width = this.mapWidth;
    const x = (n) => ((this.u(n) - first) / (last - first)) * width;
    ctx.fillStyle = pen.inks.card;
    ctx.fillRect(0, 0, width, MAP);
    let row = 0;
    for (const each of run.checkpoints.values()) {
      const begin = x(each.triggered), end = each.finished === NEVER ? width : x(each.finished);
      ctx.fillStyle = pen.ink("cp", each.id);
      ctx.globalAlpha = each.id === this.chosen ? 1 : 0.55;
      const y = 4 + (row++ % 3) * 9;
      ctx.fillRect(begin, y, Math.max(2, end - begin), 7);
      if (each.status === "aborted") { ctx.fillStyle = pen.inks["bad-solid"]; ctx.fillRect(end - 1.5, y - 1, 3, 9); }
    }
    ctx.globalAlpha = 1;
    for (const { name, look, since } of run.layers.flat()) {
      if (look.shape !== "triangle") continue;
      ctx.fillStyle = pen.ink(run.table.styles[name].fill);
      ctx.fillRect(x(since) - 1, 0, 2, MAP);
    }
    const [a, b] = this.window.map((u) => ((u - first) / (last - first)) * width);
    ctx.fillStyle = pen.inks.paper;
    ctx.globalAlpha = 0.6;
    ctx.fillRect(0, 0, Math.max(0, a), MAP);
    ctx.fillRect(b, 0, width - b, MAP);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = pen.inks["ink-2"];
    ctx.lineWidth = 1.5;
    ctx.strokeRect(Math.max(0.75, a), 0.75, Math.min(width - 0.75, b) - Math.max(0.75, a), MAP - 1.5);
    ctx.fillStyle = pen.inks.strong;
    ctx.fillRect(x(this.n) - 0.75, 0, 1.5, MAP);
  }

  explain() {
    const entries = this.run.legend(this.drawing);
    const key = entries.map(([words]) => words).join();
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.innerHTML = entries.map(([words, sign]) =>
      `<span><svg width="26" height="14" aria-hidden="true">${sign}</svg>${words}</span>`).join("");
  }

  // --- pointing ----------------------------------------------------------------------------------------------------

  place(event) {
    const box = this.view.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  press(event) {
    if (event.button !== 0) return;
    const at = this.place(event);
    this.main.focus({ preventScroll: true });
    this.pointers.set(event.pointerId, at);
    this.view.setPointerCapture(event.pointerId);
    const cursor = ((this.u(this.n) - this.window[0]) / (this.window[1] - this.window[0])) * this.width;
    const scrubs = at.y < this.px.ruler || (Math.abs(at.x - cursor) < 5 && !this.drawing.find(at.x, at.y));
    this.dragged = { how: this.pointers.size > 1 ? "pinch" : scrubs ? "scrub" : "pan", from: at, moved: false };
    if (at.y < this.px.ruler && !this.drawing.find(at.x, at.y)) this.scrub(at.x);
    event.preventDefault();
  }

  move(event) {
    const at = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) { this.point(at); return; }
    this.pointers.set(event.pointerId, at);
    const { dragged } = this;
    if (Math.hypot(at.x - dragged.from.x, at.y - dragged.from.y) > 4) dragged.moved = true;
    if (this.pointers.size > 1) {
      const [one, two] = [...this.pointers.values()];
      const apart = Math.hypot(one.x - two.x, one.y - two.y);
      if (dragged.apart) this.zoom(dragged.apart / apart, (one.x + two.x) / 2);
      dragged.apart = apart;
      dragged.moved = true;
    } else if (dragged.how === "scrub") {
      this.scrub(at.x);
    } else if (dragged.moved) {
      this.pan(before.x - at.x);
      this.scroller.scrollTop += before.y - at.y;
    }
    this.point(null);
  }

  release(event) {
    if (!this.pointers.delete(event.pointerId) || this.pointers.size > 0) return;
    const { dragged } = this;
    if (dragged.moved || event.type === "pointercancel") return;
    const found = this.drawing.find(dragged.from.x, dragged.from.y);
    const name = found ? this.nameOf(found) : "";
    if (name) {
      this.moveInto(found);
      this.pick(name);
    }
    else if (dragged.how === "pan") this.scrub(dragged.from.x);
  }

  // Move the cursor to a moment at which the arrow is under way, unless it is already.
  moveInto({ name, i }) {
    if (!name) return;
    const { start, received, over } = this.run[name];
    const end = over[i] === NEVER ? this.run.n + 1 : over[i];
    if (this.n >= start[i] && this.n < end) return;
    this.moveTo(Math.max(start[i], (received[i] === NEVER ? end : received[i]) - 1));
  }

  scrub(px) {
    const [a, b] = this.window;
    this.moveTo(this.recordAt(a + (px / this.width) * (b - a)));
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.008), this.place(event).x);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan(event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX);
    } else if (this.spacer.clientHeight > this.scroller.clientHeight) {
      const before = this.scroller.scrollTop;
      this.scroller.scrollTop += event.deltaY;
      if (this.scroller.scrollTop === before) return;
    } else {
      return;
    }
    event.preventDefault();
  }

  mapTo(event) {
    const box = this.map.getBoundingClientRect();
    const [first, last] = this.whole;
    const [a, b] = this.window;
    const at = first + ((event.clientX - box.left) / box.width) * (last - first);
    this.showInterval(at - (b - a) / 2, at + (b - a) / 2);
  }

  key(event) {
    const step = event.shiftKey ? Math.max(1, Math.round((this.recordAt(this.window[1]) - this.recordAt(this.window[0])) / 10)) : 1;
    const acts = {
      ArrowRight: () => this.moveTo(this.n + step), ArrowLeft: () => this.moveTo(this.n - step),
      Home: () => this.moveTo(0), End: () => this.moveTo(this.run.n),
      "]": () => this.toCheckpoint(1), "[": () => this.toCheckpoint(-1),
      "+": () => this.act("in"), "=": () => this.act("in"), "-": () => this.act("out"), 0: () => this.act("all"),
    };
    const act = acts[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
    this.follow();
  }

  toCheckpoint(by) {
    const all = [...this.run.checkpoints.keys()];
    const to = all[Math.max(0, Math.min(all.length - 1, all.indexOf(this.chosen) + by))];
    if (to === undefined) return;
    this.choose(to);
    this.fitTo(to);
  }

  nameOf({ mark, known, name, i, look }) {
    return mark ? this.run.pick(mark, known) : `${look.picks}:${this.run[name].pick[i]}`;
  }

  point(at) {
    const found = at && this.drawing.find(at.x, at.y);
    this.view.style.cursor = at && at.y < this.px.ruler ? "ew-resize" : found ? "pointer" : "grab";
    this.tip.hidden = !found;
    if (!found) return;
    const { mark, known, name, i, lookName } = found;
    const lines = mark ? [this.run.hint(mark, known)] : this.run.arrowHint(name, i, lookName, this.chosen);
    this.tip.replaceChildren(...lines.map((text) => { const p = document.createElement("p"); p.textContent = text; return p; }));
    const root = this.root.getBoundingClientRect(), view = this.view.getBoundingClientRect();
    const x = view.left - root.left + at.x, y = view.top - root.top + at.y;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, root.width - this.tip.offsetWidth - 6))}px`;
    this.tip.style.top = `${y + 18}px`;
  }
}
