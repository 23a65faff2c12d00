// Steps through a film: the frames of a run as differences between scenes (see kit/draw/frames.py).
//
// The same module is the front end of the notebook's Stepper (through anywidget) and the script of an exported page,
// where a few lines stand in for the widget's model. It decides nothing: what is drawn where was decided in Python.

const SVG = "http://www.w3.org/2000/svg";
const KEYFRAME_EVERY = 32;

// The scenes of a film, by number. Keyframes are kept, so a jump costs at most KEYFRAME_EVERY small merges.
class Scenes {
  constructor({ frames, looks }) {
    this.frames = frames;
    this.looks = looks;
    this.keyframes = [];
  }

  at(index) {
    const nearest = Math.floor(index / KEYFRAME_EVERY);
    let have = Math.min(nearest, this.keyframes.length - 1);
    let scene = have < 0 ? new Map() : this.keyframes[have];
    let next = have < 0 ? 0 : have * KEYFRAME_EVERY + 1;
    for (; next <= index; next += 1) {
      scene = this.advance(scene, next);
      if (next % KEYFRAME_EVERY === 0) this.keyframes[next / KEYFRAME_EVERY] = scene;
    }
    return scene;
  }

  advance(scene, index) {
    const frame = this.frames[index];
    const fresh = index === 0 || frame.stage !== this.frames[index - 1].stage;
    const result = fresh ? new Map() : new Map(scene);
    for (const [name, changes] of Object.entries(frame.set)) {
      if (changes === null) {
        result.delete(name);
        continue;
      }
      const { look, ...rest } = changes;
      const sprite = { ...(look === undefined ? result.get(name) : this.looks[look]) };
      for (const [key, value] of Object.entries(rest)) {
        if (value === null) delete sprite[key];
        else sprite[key] = value;
      }
      result.set(name, sprite);
    }
    return result;
  }
}

// The picture: an svg whose elements follow the scene that is shown.
class Picture {
  constructor(film) {
    this.film = film;
    this.scenes = new Scenes(film);
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("class", "kit-stage");
    this.svg.setAttribute("role", "img");
    this.stage = -1;
  }

  show(index) {
    const { stage } = this.film.frames[index];
    if (stage !== this.stage) this.setTheStage(stage);
    const scene = this.scenes.at(index);
    for (const [name, node] of this.nodes) {
      if (!scene.has(name)) {
        node.remove();
        this.nodes.delete(name);
        this.shown.delete(name);
      }
    }
    for (const [name, sprite] of scene) this.draw(name, sprite);
    this.svg.setAttribute("aria-label", scene.get("what")?.text ?? "");
  }

  setTheStage(stage) {
    const { width, height, svg } = this.film.stages[stage];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.maxWidth = `${Math.round(width * 1.15)}px`;
    this.svg.innerHTML = svg;
    this.layers = new Map([...this.svg.querySelectorAll("[data-layer]")].map((g) => [g.dataset.layer, g]));
    this.nodes = new Map();
    this.shown = new Map();
    this.stage = stage;
  }

  draw(name, sprite) {
    const before = this.shown.get(name);
    if (before === sprite) return;
    let node = this.nodes.get(name);
    if (node === undefined) {
      node = document.createElementNS(SVG, sprite.tag);
      node.setAttribute("data-name", name);
      this.layers.get(sprite.layer).append(node);
      this.nodes.set(name, node);
    }
    for (const key of Object.keys(before ?? {})) if (!(key in sprite)) node.removeAttribute(key);
    for (const [key, value] of Object.entries(sprite)) {
      if (key === "tag" || key === "layer" || before?.[key] === value) continue;
      if (key === "text") node.textContent = value;
      else node.setAttribute(key, value);
    }
    this.shown.set(name, sprite);
  }
}

function button(label, hint, act) {
  const node = document.createElement("button");
  node.type = "button";
  node.textContent = label;
  node.title = hint;
  node.addEventListener("click", act);
  return node;
}

// What these do with a key is theirs, not the picture's.
const TYPED_INTO = { SELECT: () => true, BUTTON: (key) => key === " ", INPUT: (key, node) => key === " " && node.type === "checkbox" };

// The controls: which frames are shown, which one is now, and whether they run by themselves.
class Player {
  constructor(model, el) {
    this.model = model;
    this.film = model.get("film");
    this.picture = new Picture(this.film);
    this.timer = null;
    this.root = document.createElement("div");
    this.root.className = "kit-player";
    this.root.tabIndex = 0;
    this.note = document.createElement("p");
    this.note.className = "kit-note";
    this.told = document.createElement("div");
    this.told.className = "kit-told kit-picture";
    this.root.append(this.controls(), this.ticks(), this.note, this.picture.svg, this.told, this.help());
    this.root.addEventListener("click", (event) => this.pick(event));
    el.replaceChildren(this.root);
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.choose(false);
    this.go(model.get("value") ?? 0, false);
  }

  // Another film of the same run: what had been chosen stays chosen.
  take(film, index) {
    this.film = film;
    const picture = new Picture(film);
    this.picture.svg.replaceWith(picture.svg);
    this.picture = picture;
    this.now = index;
    this.choose(this.every.checked);
  }

  controls() {
    const bar = document.createElement("div");
    bar.className = "kit-controls";
    this.play = button("▶ Play", "play or pause (space)", () => this.toggle());
    this.present = button("Now ⇥", "to the present, with all that has happened since (n)", () => this.toPresent());
    this.slider = document.createElement("input");
    this.slider.type = "range";
    this.slider.min = 0;
    this.slider.setAttribute("aria-label", "step");
    this.slider.addEventListener("input", () => this.go(this.visible[Number(this.slider.value)]));
    this.count = document.createElement("span");
    this.count.className = "kit-count";
    this.every = document.createElement("input");
    this.every.type = "checkbox";
    this.every.addEventListener("change", () => this.choose(this.every.checked));
    const every = document.createElement("label");
    every.append(this.every, " every step");
    every.title = "also the steps that only move records, set clocks or prepare files (e)";
    this.speed = document.createElement("select");
    this.speed.title = "how fast it plays";
    for (const [label, ms] of [["slow", 1600], ["normal", 800], ["fast", 250]]) {
      this.speed.add(new Option(label, ms, ms === 800, ms === 800));
    }
    bar.append(
      button("|◀ Start", "to the start (home)", () => this.go(0)),
      button("◀ Back", "one step back (left arrow)", () => this.move(-1)),
      this.play,
      button("Step ▶", "one step on (right arrow)", () => this.move(1)),
      button("Checkpoint ⇥", "to the next trigger, completion or abort of a checkpoint (c, back: C)", () => this.jump("checkpoint", 1)),
      button("Failure ⇥", "to the next failure (f, back: F)", () => this.jump("failure", 1)),
      button("Restore ⇥", "to the next restore (r, back: R)", () => this.jump("restore", 1)),
      this.speed,
      every,
      this.count,
    );
    if (this.model.send) bar.insertBefore(this.present, this.speed);
    return bar;
  }

  ticks() {
    const box = document.createElement("div");
    box.className = "kit-slider";
    this.marks = document.createElement("div");
    this.marks.className = "kit-marks";
    box.append(this.slider, this.marks);
    return box;
  }

  help() {
    const text = document.createElement("div");
    text.className = "kit-help";
    text.textContent = "Keys: ← → one step, space plays, c the next checkpoint, f failure, r restore, e every step, home and end";
    text.textContent += this.model.send ? ", n the present." : ".";
    return text;
  }

  // Which frames are stepped through: the story, or every frame.
  choose(every) {
    this.every.checked = every;
    const all = this.film.frames.map((_, index) => index);
    this.visible = every ? all : all.filter((index) => this.film.frames[index].told);
    this.slider.max = this.visible.length - 1;
    this.marks.replaceChildren();
    this.visible.forEach((index, position) => {
      const { mark } = this.film.frames[index];
      if (!mark) return;
      const tick = document.createElement("i");
      tick.className = mark;
      tick.style.left = `${(100 * position) / Math.max(1, this.visible.length - 1)}%`;
      this.marks.append(tick);
    });
    if (this.now !== undefined) this.go(this.now, false);
  }

  // The kernel knows whether there is more by now. What it is asked overtakes values still on their way to it, so the
  // frame shown is said with it, and where it leads to is the kernel's to say.
  ask(wanted) {
    this.model.send({ wanted, value: this.now, edition: this.film.edition });
  }

  toPresent() {
    this.go(this.film.frames.length - 1, !this.model.send);
    if (this.model.send) this.ask("present");
  }

  get position() {
    const position = this.visible.findLastIndex((index) => index <= this.now);
    return Math.max(0, position);
  }

  move(by) {
    const position = Math.min(Math.max(this.position + by, 0), this.visible.length - 1);
    this.go(this.visible[position]);
    return position;
  }

  jump(mark, by) {
    for (let i = this.now + by; i >= 0 && i < this.film.frames.length; i += by) {
      if (this.film.frames[i].mark === mark) return this.go(i);
    }
    return undefined;
  }

  go(index, tell = true) {
    this.now = Math.min(Math.max(index, 0), this.film.frames.length - 1);
    this.picture.show(this.now);
    this.slider.value = this.position;
    const { at, n } = this.film.frames[this.now];
    const note = this.film.notes?.findLast(([before]) => before < Math.max(n, 1))?.[1] ?? "";
    this.note.textContent = note;
    this.note.hidden = !note;
    this.count.textContent = `step ${this.position} of ${this.visible.length - 1}, ${at} ms`;
    const more = this.visible.length - 1 - this.position;
    this.present.textContent = more ? `Now ⇥ ${more} more` : "Now ⇥";
    this.present.classList.toggle("kit-more", more > 0);
    if (tell && this.model.get("value") !== this.now) {
      this.model.set("value", this.now);
      this.model.set("n", n);
      this.model.save_changes();
    }
    this.details();
  }

  pick(event) {
    const name = event.target.dataset?.name;
    if (name === undefined) return;
    this.model.set("picked", pickOf(name));
    this.model.save_changes();
    this.details();
  }

  // What the kernel says of the thing that was clicked, and what it offers to do with it.
  details() {
    const picked = this.model.get("picked") ?? "";
    const told = this.model.get("told") ?? {};
    const said = document.createElement("div");
    if (told.picked === picked && told.n === this.model.get("n")) said.innerHTML = told.html;
    const offers = (this.model.get("offers") ?? []).filter(({ on }) => on === picked);
    const acts = offers.map(({ key, label, hint, why_not }) => {
      const act = button(label, why_not || hint, () => this.model.send({ do: key }));
      act.disabled = Boolean(why_not);
      return act;
    });
    this.told.replaceChildren(picked, ...acts, said);
    this.told.hidden = !picked;
  }

  toggle(on = this.timer === null) {
    clearTimeout(this.timer);
    this.timer = null;
    this.play.textContent = on ? "❚❚ Pause" : "▶ Play";
    if (!on) return;
    if (this.position === this.visible.length - 1) this.go(0);
    const tick = () => {
      if (this.move(1) === this.visible.length - 1) this.toggle(false);
      else this.timer = setTimeout(tick, Number(this.speed.value));
    };
    this.timer = setTimeout(tick, 200);
  }

  // All plain keys end here: the notebook would cut the cell at an x, and run it at an Enter.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
    event.stopPropagation();
    if (TYPED_INTO[event.target.tagName]?.(event.key, event.target)) return;
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
    };
    const act = acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }
}

// The thing that a sprite belongs to.
function pickOf(sprite) {
  const [kind, ...rest] = sprite.split(":");
  if (kind === "t") return `${rest[0].includes("/") ? "task" : "vertex"}:${rest[0]}`;
  if (kind === "m") return `task:${rest[0]}`;
  if (kind.startsWith("l")) return `lane:${kind.split(".")[0]}`;
  return "job";
}

function render({ model, el }) {
  const player = new Player(model, el);
  const follow = () => player.go(model.get("value"), false);
  const take = () => player.take(model.get("film"), model.get("value"));
  const ask = () => player.ask("news");
  const details = () => player.details();
  const about = ["change:picked", "change:told", "change:offers"];
  about.forEach((name) => model.on(name, details));
  model.on("change:value", follow);
  model.on("change:film", take);
  model.on("change:news", ask);
  return () => {
    player.toggle(false);
    model.off("change:value", follow);
    model.off("change:film", take);
    model.off("change:news", ask);
    about.forEach((name) => model.off(name, details));
  };
}

export default { render };
