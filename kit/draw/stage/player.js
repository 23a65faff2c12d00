// The player: the frames to step through, the present one, and automatic play; around it the stage with its camera, the
// JobMaster above it and the details beside it.

const SAVE_AFTER_MS = 150;
const MOTION_MS = 240;
const SAY_AFTER_MS = 700;
const ANSWER_WITHIN_MS = 5000;
const GONE = "gone:"; // a channel that does not exist in this epoch
const STEP_HINT = "one step on (right arrow)";
const PRESENT_HINT = "to the present, with all that has happened since (n)";

// The icons of the control row, as paths in a square of 16.
const ICONS = {
  start: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11L13 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  step: "M4 3v10l6-5zM11 3h2v10h-2z",
  checkpoint: "M2 2h1.6v12H2zM4.2 3H9l-1.4 2.5L9 8H4.2zM10 8.5l4 3-4 3z",
  failure: "M6.5 1 1.5 8.5h3L3.5 14l5.5-7.5H6zM10 8.5l4 3-4 3z",
  restore: "M6 2.2A4.6 4.6 0 1 0 10.6 7H9a3 3 0 1 1-3-3v2l3.4-2.9L6 .2zM10 8.5l4 3-4 3z",
  now: "M2 7h6V3.5L12 8l-4 4.5V9H2zM12.4 3H14v10h-1.6z",
};

function icon(name) {
  const picture = svgNode("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" });
  picture.append(svgNode("path", { d: ICONS[name], fill: "currentColor" }));
  return picture;
}

function button(label, hint, act, attributes = {}) {
  return make("button", { type: "button", title: hint, click: act, ...attributes }, label);
}

// A button that shows an icon, and its name on hover.
function iconButton(name, label, hint, act) {
  return button(icon(name), `${label}: ${hint}`, act, { class: "kit-icon", "aria-label": label });
}

// These elements handle keys themselves.
const TYPED_INTO = {
  SELECT: () => true,
  TEXTAREA: () => true,
  BUTTON: (key) => key === " " || key === "Enter",
  INPUT: (key, node) => (node.type === "checkbox" ? key === " " : node.type !== "range"),
};

class Player {
  constructor(model, el) {
    this.model = model;
    this.film = model.get("film");
    this.alive = Boolean(model.send);
    this.timer = null;
    this.picture = new Picture(this.film);
    this.known = new FilmMoment(this.film, facts(this.film));
    this.camera = new Camera(this.picture);
    this.job = new JobPanel((selected) => this.pick(selected));
    this.legend = new Legend();
    this.details = new Details({
      pick: (selected) => this.pick(selected),
      go: (index) => this.go(index),
      act: (key) => this.model.send({ do: key }),
      open: (vertex) => this.open(vertex),
      canOpen: (vertex) => this.canOpen(vertex),
    });
    this.root = make("div", { class: `kit-player kit-picture${this.alive ? "" : " kit-offline"}`, tabindex: 0, role: "application", "aria-label": "a run, step by step" });
    this.note = make("p", { class: "kit-note" });
    this.tip = make("div", { class: "kit-tip", "aria-hidden": "true" });
    this.live = make("div", { class: "kit-announcer", "aria-live": "polite" });
    this.tip.hidden = true;
    this.middle = make("div", { class: "kit-middle" },
      make("div", { class: "kit-stage-side" }, this.view(), this.legend.root), this.details.root);
    this.root.append(this.controls(), this.ticks(), this.note, this.job.words, this.job.root, this.middle, this.tip, this.live);
    el.replaceChildren(this.root);
    this.listen();
    this.choose(false);
    this.go(model.get("value") ?? 0, false);
  }

  listen() {
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("pointermove", (event) => this.hover(event));
    this.root.addEventListener("pointerleave", () => this.hover(null));
    this.camera.root.addEventListener("click", (event) => this.click(event));
    this.camera.root.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation(); // the space bar would also play
      this.click(event);
    });
  }

  // Take another film, and keep the settings.
  take(film, index) {
    this.film = film;
    this.picture.take(film);
    this.known = new FilmMoment(film, facts(film));
    this.now = index;
    this.choose(this.every.checked);
  }

  // Take new frames after this one, or frames inserted before it.
  goesOn({ keep, replaced, frames, go }) {
    this.picture.forget(keep);
    this.known.track.forget(keep);
    this.known.stage = undefined;
    const last = this.film.frames.length - 1;
    this.stepping = undefined;
    if (go !== undefined) this.now = go;
    else if (this.now >= keep) this.now = Math.max(0, Math.min(replaced ? this.now + frames.length - replaced : this.now, last));
    this.choose(this.every.checked);
  }

  // Frames got their pictures, perhaps the awaited one.
  drawn() {
    if (this.awaits && !isOwed(this.film.frames[this.now])) this.go(this.now, false);
  }

  // --- what there is to press ---------------------------------------------------------------------------------------

  controls() {
    this.play = iconButton("play", "Play", "play or pause (space)", () => this.toggle());
    this.onward = iconButton("step", "Step", STEP_HINT, () => this.move(1));
    this.present = iconButton("now", "Now", PRESENT_HINT, () => this.toPresent());
    this.more = make("span", { class: "kit-more-steps" });
    this.present.append(this.more);
    this.count = make("span", { class: "kit-count" });
    this.every = make("input", { type: "checkbox" });
    this.every.addEventListener("change", () => this.choose(this.every.checked));
    const every = make("label", { title: "also the steps that only move records, set clocks or prepare files (e)" }, this.every, " every step");
    this.speed = make("select", { title: "how fast it plays", "aria-label": "speed" });
    for (const [label, ms] of [["slow", 1600], ["normal", 800], ["fast", 250]]) {
      this.speed.add(new Option(label, ms, ms === 800, ms === 800));
    }
    const bar = make("div", { class: "kit-controls" },
      iconButton("start", "Start", "to the start (home)", () => this.go(0)),
      iconButton("back", "Back", "one step back (left arrow)", () => this.move(-1)),
      this.play,
      this.onward,
      iconButton("checkpoint", "Next checkpoint", "to the next trigger, completion or abort of a checkpoint (c, back: C)", () => this.jump("checkpoint", 1)),
      iconButton("failure", "Next failure", "to the next failure (f, back: F)", () => this.jump("failure", 1)),
      iconButton("restore", "Next restore", "to the next restore (r, back: R)", () => this.jump("restore", 1)),
      this.speed,
      every,
      this.count);
    if (this.alive) bar.insertBefore(this.present, this.speed);
    return bar;
  }

  ticks() {
    this.slider = make("input", { type: "range", min: 0, "aria-label": "step" });
    this.slider.addEventListener("input", () => this.go(this.visible[Number(this.slider.value)]));
    this.marks = make("div", { class: "kit-marks" });
    return make("div", { class: "kit-slider" }, this.slider, this.marks);
  }

  view() {
    this.follow = make("input", { type: "checkbox" });
    this.follow.checked = true;
    const follow = make("label", { title: "keep the task that acts in view (o)" }, this.follow, " follow");
    this.signs = button("legend", "what the signs in the picture mean", () => this.showLegend(), { class: "kit-signs", "aria-expanded": "false" });
    return make("div", { class: "kit-frame-of-view" }, this.camera.root,
      make("div", { class: "kit-zoom", role: "group", "aria-label": "view" },
        button("+", "larger (+, or Ctrl and the wheel)", () => this.camera.zoom(1.25), { "aria-label": "larger" }),
        button("−", "smaller (-)", () => this.camera.zoom(0.8), { "aria-label": "smaller" }),
        button("fit", "all of it (0)", () => this.camera.fit()),
        follow, this.signs, this.help(), this.camera.map));
  }

  // Where there is little room, the legend is shown on request, over the picture.
  showLegend() {
    const open = this.root.classList.toggle("kit-with-legend");
    this.signs.setAttribute("aria-expanded", String(open));
  }

  help() {
    const more = this.alive ? ", n the present" : "";
    const text = `Keys: ← → one step, space plays, c the next checkpoint, f failure, r restore, e every step, home and end${more}; + − 0 zoom, Shift and an arrow pans, o follows, Escape closes the details.`;
    return make("details", { class: "kit-help" }, make("summary", {}, "keys"), make("p", {}, text, make("br"),
      "Click a task, a channel, a message or a checkpoint for its details; drag the picture to move it."));
  }

  // Choose the frames to step through: the story, or all.
  choose(every) {
    this.every.checked = every;
    const { frames } = this.film;
    this.visible = [];
    frames.forEach((frame, index) => {
      if (every || frame.in_story || index === frames.length - 1) this.visible.push(index);
    });
    this.slider.max = this.visible.length - 1;
    this.marks.replaceChildren();
    this.visible.forEach((index, position) => {
      const { mark } = frames[index];
      if (!mark) return;
      const tick = make("i", { class: mark });
      tick.style.left = `${(100 * position) / Math.max(1, this.visible.length - 1)}%`;
      this.marks.append(tick);
    });
    let count = -1;
    this.counts = frames.map(({ skipped = 0 }) => (count += 1 + skipped));
    if (this.now !== undefined) this.go(this.now, false);
  }

  // --- where it is --------------------------------------------------------------------------------------------------

  // Ask the kernel for more frames. The request may overtake synchronized values, so it includes the frame shown, and the
  // kernel chooses the next one.
  ask(wanted) {
    this.model.send({ wanted, value: this.now, edition: this.film.edition });
  }

  toPresent() {
    this.go(this.film.frames.length - 1, !this.alive);
    if (this.alive) this.ask("present");
  }

  // Return the number of steps up to a frame: the lab's own count, or else the events that machines have handled.
  stepOf(index) {
    return this.film.frames[index].step ?? this.counts[index];
  }

  get position() {
    return Math.max(0, this.visible.findLastIndex((index) => index <= this.now));
  }

  get isLast() {
    return this.position === this.visible.length - 1;
  }

  // At its end a live run can take another step: one at a time, and only if the kernel is at the same end.
  get canGoOn() {
    return this.alive && Boolean(this.model.get("goes_on"));
  }

  stepOn() {
    const now = performance.now();
    if (this.stepping > now - ANSWER_WITHIN_MS) return;
    this.stepping = now;
    this.save();
    this.model.send({ wanted: "step" });
  }

  move(by) {
    if (by > 0 && this.isLast && this.canGoOn) {
      this.stepOn();
      return this.position;
    }
    const gap = this.film.frames[by > 0 ? this.now + 1 : this.now];
    if (this.alive && this.every.checked && gap?.skipped) {
      this.model.send({ wanted: "between", frame: this.film.frames.indexOf(gap), by, edition: this.film.edition });
      return this.position;
    }
    const position = Math.min(Math.max(this.position + by, 0), this.visible.length - 1);
    this.go(this.visible[position]);
    return position;
  }

  jump(mark, by) {
    for (let i = this.now + by; i >= 0 && i < this.film.frames.length; i += by) {
      if (this.film.frames[i].mark === mark) return this.go(i);
    }
    if (by > 0 && this.alive) this.model.send({ wanted: "mark", mark });
    return undefined;
  }

  go(index, tell = true) {
    const { frames } = this.film;
    this.now = Math.min(Math.max(index, 0), frames.length - 1);
    const frame = frames[this.now];
    this.awaits = isOwed(frame);
    this.root.classList.toggle("kit-awaits", this.awaits);
    this.place(frame);
    if (tell) this.tell(frame);
    if (this.awaits) {
      this.model.send?.({ wanted: "pictures", upto: this.now });
      if (this.picture.stage < 0) this.showAtFirst(frames.findLastIndex((each) => !isOwed(each)));
      return;
    }
    this.hurry();
    const other = this.picture.show(this.now);
    if (other) this.setTheStage();
    this.known.at(this.now);
    if (other) this.keepPicked();
    this.job.show(frame, this.known);
    this.camera.showMap();
    if (this.follow.checked && frame.by && frame.by !== "job") this.camera.reveal(this.boxOf(`task:${frame.by}`), this.timer !== null);
    if (this.model.get("selected")) this.detail();
    this.tip.hidden = true; // it was about another moment
    clearTimeout(this.later);
    this.later = setTimeout(() => this.afterwards(frame), SAVE_AFTER_MS);
  }

  // Channels have other numbers in another shape of the job, so find the selected channel by its ends.
  keepPicked() {
    const selected = this.model.get("selected") ?? "";
    const ends = selected === this.chosen?.selected ? this.chosen.ends : selected.startsWith(GONE) ? selected.slice(GONE.length) : undefined;
    if (ends === undefined) return;
    const found = [...this.known.ends].find(([, each]) => each.join(" → ") === ends);
    const now = found ? `channel:${found[0]}` : `${GONE}${ends}`;
    if (now === selected) return;
    this.chosen = found ? { selected: now, ends } : undefined;
    this.model.set("selected", now);
    this.unsaved = true;
  }

  setTheStage() {
    this.camera.setTheStage();
    for (const opener of this.picture.world.querySelectorAll("[data-open]")) {
      opener.classList.toggle("kit-can", this.canOpen(opener.dataset.open));
    }
  }

  canOpen(vertex) {
    return this.alive || Boolean(this.film.opened?.[vertex]);
  }

  // Draw each subtask of a vertex, or one box again. A kernel draws them; a page contains them.
  async open(vertex) {
    if (this.alive) {
      this.model.send({ open: vertex });
      return;
    }
    if (!this.canOpen(vertex)) return;
    this.whole ??= this.film;
    this.isOpen = this.isOpen === vertex ? undefined : vertex;
    this.take(this.isOpen ? await withOpen(this.whole, vertex) : this.whole, this.now);
    this.camera.reveal(this.boxOf(`vertex:${vertex}`) ?? this.boxOf(`task:${vertex}/0`), false);
  }

  // Show some picture until the awaited one arrives.
  showAtFirst(index) {
    this.picture.show(index);
    this.setTheStage();
    this.known.at(index);
  }

  // The position in the run, in numbers.
  place(frame) {
    this.slider.value = this.position;
    this.slider.setAttribute("aria-valuetext", `step ${this.stepOf(this.now)}: ${frame.words[0]}`);
    const note = this.film.notes?.findLast(([before]) => before < Math.max(frame.n, 1))?.[1] ?? "";
    this.note.textContent = note;
    this.note.hidden = !note;
    const [step, end] = [this.stepOf(this.now), this.stepOf(this.film.frames.length - 1)];
    const left = this.every.checked && !this.alive && frame.skipped ? `; ${frame.skipped} before it left out` : "";
    this.count.textContent = `step ${step.toLocaleString("en")} of ${end.toLocaleString("en")}, ${duration(frame.at)}${left}`;
    this.count.title = this.every.checked ? "" : "Only the steps that matter most are shown; “every step” shows those between.";
    const more = this.visible.length - 1 - this.position;
    this.more.textContent = more ? String(end - step) : "";
    this.present.title = `Now: ${PRESENT_HINT}${more ? `; ${end - step} more steps` : ""}`;
    this.present.classList.toggle("kit-more", more > 0);
    this.onward.disabled = !more && !this.canGoOn;
    this.onward.title = this.onward.disabled ? "this is the end of the run" : STEP_HINT;
  }

  // If the user steps again during an animation, show pictures without animation.
  hurry() {
    const now = performance.now();
    const quick = now - (this.went ?? -Infinity) < MOTION_MS;
    if (quick !== this.quick) this.root.classList.toggle("kit-quick", quick);
    [this.quick, this.went] = [quick, now];
  }

  // Other views on the page follow at once. The kernel receives only the resting position, so automatic play sends nothing.
  tell(frame) {
    if (this.model.get("value") === this.now) return;
    this.model.set("value", this.now);
    this.model.set("n", frame.n);
    this.unsaved = true;
    if (!this.alive) this.save();
  }

  afterwards(frame) {
    this.legend.show(this.film, this.picture.world);
    if (this.timer !== null) return;
    this.save();
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.live.textContent = frame.words.filter(Boolean).join(". ")), SAY_AFTER_MS);
  }

  save() {
    if (this.unsaved) this.model.save_changes();
    this.unsaved = false;
  }

  toggle(on = this.timer === null) {
    clearTimeout(this.timer);
    this.timer = null;
    this.play.replaceChildren(icon(on ? "pause" : "play"));
    this.play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) {
      this.save();
      return;
    }
    if (this.isLast && !this.canGoOn) this.go(0);
    const tick = () => {
      if (this.move(1) === this.visible.length - 1 && !this.canGoOn) this.toggle(false);
      else this.timer = setTimeout(tick, Number(this.speed.value));
    };
    this.timer = setTimeout(tick, 200);
  }

  // --- what is looked at --------------------------------------------------------------------------------------------

  click(event) {
    if (this.camera.dragged) {
      this.camera.dragged = false;
      return;
    }
    this.answerBeside(event.target);
    const opener = event.target.closest("[data-open]");
    if (opener) this.open(opener.dataset.open);
    else this.pick(this.thing(event.target, event));
  }

  // Where the answer lies over the picture, it leaves the clicked item in view.
  answerBeside(node) {
    const [item, room] = [node.getBoundingClientRect(), this.middle.getBoundingClientRect()];
    this.middle.classList.toggle("kit-answer-left", item.left + item.right > room.left + room.right);
  }

  // Return the name of the item that an element of the page shows; a tab of messages is its oldest message.
  thing(node, point) {
    if (node.dataset?.lane !== undefined && point.clientX !== undefined) node = nearestLane(node, point);
    const name = pickOf(node, this.film.stages[this.picture.stage]);
    if (!name.startsWith("mail:")) return name;
    const [, task, toTask] = name.match(/^mail:(.*):(in|out)$/);
    const found = this.known.all("message:").find(([, message]) => message[1] === task && message[2] === (toTask === "in"));
    return found ? `message:${found[0]}` : `task:${task}`;
  }

  pick(selected) {
    this.model.set("selected", selected);
    this.model.save_changes();
    this.detail();
    if (selected) this.camera.reveal(this.boxOf(selected), true);
  }

  boxOf(selected) {
    const { boxes, lanes } = this.film.stages[this.picture.stage];
    const [kind, name] = split(selected);
    if (kind === "task") return boxes[name] ?? boxes[name.slice(0, name.lastIndexOf("/"))];
    if (kind === "vertex") return boxes[name];
    if (kind === "lane") return boxes[lanes[name]?.[1]];
    return kind === "channel" ? boxes[this.known.ends.get(Number(name))?.[1]] : undefined;
  }

  detail() {
    const selected = this.model.get("selected") ?? "";
    const ends = selected.startsWith("channel:") ? this.known.ends?.get(Number(split(selected)[1])) : undefined;
    this.chosen = ends && { selected, ends: ends.join(" → ") };
    this.picture.select(selected);
    this.details.show(this.known, selected, {
      added: this.model.get("item_details"),
      offers: this.model.get("offers"),
      n: this.model.get("n") ?? this.film.frames[this.now].n,
    });
    this.root.classList.toggle("kit-detailed", Boolean(selected));
  }

  hover(event) {
    const inside = event && !event.buttons && this.camera.root.contains(event.target) && event.pointerType !== "touch";
    const selected = inside ? this.thing(event.target, event) : "";
    this.tip.hidden = !selected;
    if (!selected) return;
    const text = summary(this.known, selected);
    if (this.tip.textContent !== text) this.tip.textContent = text;
    const room = this.root.getBoundingClientRect();
    const x = Math.min(event.clientX - room.left + 14, Math.max(0, room.width - this.tip.offsetWidth - 4));
    this.tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(event.clientY - room.top + 18)}px)`;
  }

  // Stop all plain keys here: the notebook would cut the cell at an x, and run it at an Enter.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    event.stopPropagation();
    if (TYPED_INTO[event.target.tagName]?.(event.key, event.target)) return;
    const pans = { ArrowRight: [120, 0], ArrowLeft: [-120, 0], ArrowUp: [0, -90], ArrowDown: [0, 90] };
    const acts = {
      ArrowRight: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      Home: () => this.go(0),
      End: () => this.go(this.visible[this.visible.length - 1]),
      " ": () => this.toggle(),
      c: () => this.jump("checkpoint", 1),
      C: () => this.jump("checkpoint", -1),
      f: () => this.jump("failure", 1),
      F: () => this.jump("failure", -1),
      r: () => this.jump("restore", 1),
      R: () => this.jump("restore", -1),
      e: () => this.choose(!this.every.checked),
      n: () => this.toPresent(),
      o: () => (this.follow.checked = !this.follow.checked),
      "+": () => this.camera.zoom(1.25),
      "-": () => this.camera.zoom(0.8),
      0: () => this.camera.fit(),
      Escape: () => this.pick(""),
    };
    const act = event.shiftKey && pans[event.key] ? () => this.camera.pan(...pans[event.key]) : acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }

  close() {
    this.toggle(false);
    clearTimeout(this.later);
    clearTimeout(this.saying);
    this.camera.close();
  }
}
