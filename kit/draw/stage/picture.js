// The picture: an SVG whose elements follow the scene of the frame.

const SVG = "http://www.w3.org/2000/svg";
const HITS_WITHIN = 60; // samples along a lane, to find the nearer of two
const MOST_TAB_STOPS = 60; // of a larger job, the details of the JobMaster lead to each task and channel
const TITLE_PX = 12;
const TITLE_PITCH = 350; // from a box to that of the next rank, less a margin

function svgNode(tag, attributes = {}) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

class Picture {
  constructor(film) {
    this.svg = svgNode("svg", { class: "kit-stage", role: "group" });
    this.world = svgNode("g", { class: "kit-world" });
    this.svg.append(this.world);
    this.take(film);
  }

  take(film) {
    this.film = film;
    this.scenes = sprites(film);
    this.stage = -1;
  }

  forget(from) {
    this.scenes.forget(from);
    if (this.stage >= 0 && this.film.stages[this.stage] === undefined) this.stage = -1;
  }

  get size() {
    return this.film.stages[this.stage];
  }

  // Draw a frame; return true if its stage differs from that of the frame before.
  show(index) {
    const { stage, words } = this.film.frames[index];
    const other = stage !== this.stage;
    if (other) this.setTheStage(stage);
    const scene = this.scenes.at(index);
    for (const [name, node] of this.nodes) {
      if (!scene.has(name)) {
        node.remove();
        this.nodes.delete(name);
        this.hits.get(name)?.remove();
        this.hits.delete(name);
        this.shown.delete(name);
      }
    }
    for (const [name, sprite] of scene) this.draw(name, sprite);
    this.mark();
    this.svg.setAttribute("aria-label", words[0]);
    return other;
  }

  setTheStage(stage) {
    this.world.innerHTML = this.film.stages[stage].svg;
    this.layers = new Map([...this.world.querySelectorAll("[data-layer]")].map((g) => [g.dataset.layer, g]));
    this.titles = [...this.world.querySelectorAll("[data-full]")].map((group) => {
      const y = Number(group.querySelector("text").getAttribute("y"));
      const far = svgNode("text", { class: "far-title", x: group.dataset.left, y });
      group.append(far);
      return { far, y, full: group.dataset.full };
    });
    this.nodes = new Map();
    this.hits = new Map();
    this.shown = new Map();
    this.stage = stage;
    const { tasks, lanes, closed, vertices } = this.size;
    const isFew = tasks.length + Object.keys(lanes).length <= MOST_TAB_STOPS;
    this.stops = new Set(isFew ? [...tasks, ...vertices.map(([name]) => name).filter((name) => closed.includes(name))] : []);
  }

  // Let the Tab key reach an item, and Enter choose it.
  reach(node, label) {
    for (const [key, value] of Object.entries({ tabindex: 0, role: "button", "aria-label": label })) node.setAttribute(key, value);
  }

  draw(name, sprite) {
    const before = this.shown.get(name);
    if (before === sprite) return;
    let node = this.nodes.get(name);
    if (node === undefined) {
      node = svgNode(sprite.tag, { "data-name": name });
      this.layers.get(sprite.layer).append(node);
      this.nodes.set(name, node);
      if (name in this.size.lanes) {
        const hit = svgNode("path", { class: "lane-hit", "data-lane": name });
        this.layers.get(sprite.layer).prepend(hit); // below all lanes, so that an exact hit goes first
        this.hits.set(name, hit);
        const [from, to] = this.size.lanes[name];
        if (this.stops.size) this.reach(hit, `from ${from} to ${to}`);
      }
      if (name.startsWith("t:") && this.stops.has(name.slice(2))) this.reach(node, name.slice(2));
    }
    for (const key of Object.keys(before ?? {})) if (!(key in sprite)) node.removeAttribute(key);
    for (const [key, value] of Object.entries(sprite)) {
      if (key === "tag" || key === "layer" || before?.[key] === value) continue;
      if (key === "text") node.textContent = value;
      else node.setAttribute(key, value);
      if (key === "d") this.hits.get(name)?.setAttribute(key, value);
    }
    this.shown.set(name, sprite);
  }

  // At a small scale texts would be unreadable: keep only the vertices' names, at their size, cut to the space.
  scaled(scale) {
    const far = scale < 0.98;
    this.svg.classList.toggle("kit-far", far);
    if (!far) return;
    const most = Math.floor((TITLE_PITCH * scale) / (TITLE_PX * 0.72));
    for (const { far: node, y, full } of this.titles) {
      node.setAttribute("y", Math.max(y, (TITLE_PX + 1) / scale)); // within the picture
      node.style.fontSize = `${TITLE_PX / scale}px`;
      node.textContent = full.length <= most ? full : most < 6 ? "" : `${full.slice(0, most - 1)}…`;
    }
  }

  // Draw a ring around the selected item.
  select(selected) {
    this.selected = selected;
    this.mark();
  }

  mark() {
    const name = this.selected ? spriteOf(this.selected, this.film.stages[this.stage]) : "";
    const node = this.hits.get(name) ?? this.nodes.get(name); // a lane keeps its colour, with a ring around it
    if (this.ringed === node) return;
    this.ringed?.classList.remove("selected");
    this.ringed = node;
    node?.classList.add("selected");
  }
}

// Of the lanes whose wide, invisible lines contain a point, return the one whose visible line is nearest.
function nearestLane(node, { clientX, clientY }) {
  const hits = document.elementsFromPoint(clientX, clientY).filter((each) => each.dataset?.lane !== undefined);
  if (hits.length < 2) return node;
  const away = (hit) => {
    const [matrix, length] = [hit.getScreenCTM(), hit.getTotalLength()];
    let least = Infinity;
    for (let n = 0; n <= HITS_WITHIN; n += 1) {
      const at = hit.getPointAtLength((length * n) / HITS_WITHIN).matrixTransform(matrix);
      least = Math.min(least, Math.hypot(at.x - clientX, at.y - clientY));
    }
    return least;
  };
  return hits.reduce((best, hit) => (away(hit) < away(best) ? hit : best));
}

// Return the item to which an element of the picture belongs; `stage` has the lanes that are one channel.
function pickOf(node, stage) {
  const pick = node.closest("[data-pick]");
  if (pick) return pick.dataset.pick;
  const name = node.dataset?.name ?? node.dataset?.lane;
  if (name === undefined) return "";
  const [head] = name.split(/[:.]/);
  if (head === "t") {
    const thing = name.split(":").slice(1).join(":").replace(/:(name|line|detail|badge|sign)$/, "");
    return stage.tasks.includes(thing) ? `task:${thing}` : `vertex:${thing}`;
  }
  if (head === "m") return `mail:${name.slice(2).replace(/:text$/, "")}`;
  const lane = stage.lanes[head];
  if (lane === undefined) return "";
  return lane[2].length === 1 ? `channel:${lane[2][0]}` : `lane:${head}`;
}

// Return the sprite of an item.
function spriteOf(selected, stage) {
  const [kind, name] = split(selected);
  if (kind === "task" || kind === "vertex") return `t:${name}`;
  if (kind === "lane") return name;
  if (kind !== "channel") return "";
  return Object.keys(stage.lanes).find((lane) => stage.lanes[lane][2].includes(Number(name))) ?? "";
}
