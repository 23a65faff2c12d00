// The camera over the picture: zoom, pan, fit, and an overview if the picture is larger than the view. It never makes
// texts smaller by itself; the user pans to the rest.

const LARGEST = 3;
const SMALLEST = 0.28;
const LARGEST_AT_FIRST = 1.15;
const MAP_WIDTH = 190;
const MAP_HEIGHT = 64;
const LEAST_MAP_HEIGHT = 24;
const DRAG_PX = 4;

class Camera {
  constructor(picture) {
    this.picture = picture;
    this.root = document.createElement("div");
    this.root.className = "kit-viewport";
    this.map = svgNode("svg", { class: "kit-map", role: "img", preserveAspectRatio: "none", "aria-label": "overview: click to go there" });
    this.map.innerHTML = "<title>the whole picture; click or drag to go there</title>";
    this.root.append(picture.svg);
    this.x = this.y = 0;
    this.scale = 1;
    this.measure();
    this.pointers = new Map();
    this.root.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.root.addEventListener("pointerdown", (event) => this.down(event));
    this.root.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) this.root.addEventListener(name, (event) => this.up(event));
    this.map.addEventListener("pointerdown", (event) => {
      this.glide(false);
      this.map.setPointerCapture(event.pointerId);
      this.goOnMap(event);
    });
    this.map.addEventListener("pointermove", (event) => event.buttons && this.goOnMap(event));
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.root);
  }

  // Measure the viewport when it changes, and not at each step, because measuring forces a layout of the page.
  measure() {
    this.width = this.root.clientWidth || 900;
    this.height = this.root.clientHeight || 300;
  }

  // Adjust to another picture, or to another size.
  setTheStage() {
    this.measure();
    const { width, height } = this.picture.size;
    const isGiven = getComputedStyle(this.root).flexGrow !== "0"; // the page around it sets the height
    const room = isGiven ? this.height : Math.max(260, Math.min(640, Math.round(window.innerHeight * 0.6)));
    const whole = Math.min(this.width / width, room / height);
    this.fits = whole;
    this.scale = whole >= 1 ? Math.min(whole, LARGEST_AT_FIRST) : 1;
    this.root.style.height = `${Math.round(Math.min(height * this.scale, room))}px`;
    this.measure();
    this.x = this.y = 0;
    this.drawMap();
    this.apply();
  }

  resized() {
    const size = `${this.root.clientWidth} ${getComputedStyle(this.root).flexGrow === "0" ? "" : this.root.clientHeight}`;
    if (this.picture.stage < 0 || size === this.lastSize) return;
    this.lastSize = size;
    this.setTheStage();
    this.onResize?.();
  }

  fit() {
    const { width, height } = this.picture.size;
    this.fits = Math.min(this.width / width, this.height / height);
    this.scale = Math.max(this.smallest, Math.min(this.fits, LARGEST_AT_FIRST));
    this.apply();
  }

  // Below this scale the boxes would be dots; the overview shows all of a longer picture.
  get smallest() {
    return Math.min(1, Math.max(this.fits, SMALLEST));
  }

  // Zoom around a point of the viewport.
  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const scale = Math.min(LARGEST, Math.max(this.smallest, this.scale * factor));
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.apply();
  }

  pan(dx, dy) {
    this.x += dx / this.scale;
    this.y += dy / this.scale;
    this.apply();
  }

  // Bring a box into view, with some of its surroundings, unless it is visible.
  reveal(box, smooth) {
    if (!box || !this.covers()) return;
    const [x, y, width, height] = box;
    const [room, tall] = [this.width / this.scale, this.height / this.scale];
    const air = Math.min(60, room / 8);
    const near = (from, size, at, all) => {
      if (from >= at + 4 && from + size <= at + all - 4) return at;
      return size + 2 * air > all || from < at ? from - air : from + size + air - all;
    };
    const [nextX, nextY] = [near(x, width, this.x, room), near(y, height, this.y, tall)];
    if (nextX === this.x && nextY === this.y) return;
    [this.x, this.y] = [nextX, nextY];
    this.picture.world.classList.toggle("kit-glide", smooth);
    this.apply();
  }

  // Return true if some of the picture is out of view.
  covers() {
    const { width, height } = this.picture.size;
    return width * this.scale > this.width + 1 || height * this.scale > this.height + 1;
  }

  apply() {
    const { width, height } = this.picture.size;
    const within = (at, size, room) => (size <= room ? (size - room) / 2 : Math.min(Math.max(at, 0), size - room));
    this.x = within(this.x, width, this.width / this.scale);
    this.y = within(this.y, height, this.height / this.scale);
    const { scale, x, y } = this;
    this.picture.world.setAttribute("transform", `translate(${-x * scale} ${-y * scale}) scale(${scale})`);
    if (scale !== this.lastScale) this.picture.scaled(scale);
    this.lastScale = scale;
    this.root.classList.toggle("kit-wide", this.covers());
    this.map.style.display = this.covers() ? "" : "none";
    this.frame?.setAttribute("x", Math.max(0, x));
    this.frame?.setAttribute("y", Math.max(0, y));
    this.frame?.setAttribute("width", Math.min(width, this.width / scale));
    this.frame?.setAttribute("height", Math.min(height, this.height / scale));
  }

  // --- the overview -------------------------------------------------------------------------------------------------

  drawMap() {
    const { width, height, boxes } = this.picture.size;
    const ratio = Math.min(MAP_WIDTH / width, MAP_HEIGHT / height);
    this.map.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.map.style.width = `${Math.round(width * ratio)}px`;
    this.map.style.height = `${Math.max(LEAST_MAP_HEIGHT, Math.round(height * ratio))}px`;
    this.map.querySelectorAll("rect").forEach((node) => node.remove());
    this.spots = new Map();
    for (const [name, [x, y, w, h]] of Object.entries(boxes)) {
      const spot = svgNode("rect", { x, y, width: w, height: h, rx: 8 });
      this.map.append(spot);
      this.spots.set(`t:${name}`, spot);
    }
    this.frame = svgNode("rect", { class: "kit-frame" });
    this.map.append(this.frame);
    this.lastScale = undefined;
  }

  // The boxes in the overview look like those of the picture.
  showMap() {
    if (!this.covers()) return;
    for (const [name, spot] of this.spots) {
      const look = this.picture.shown.get(name)?.class ?? "";
      if (spot.getAttribute("class") !== look) spot.setAttribute("class", look);
    }
  }

  goOnMap(event) {
    const box = this.map.getBoundingClientRect();
    const { width, height } = this.picture.size;
    this.x = ((event.clientX - box.left) / box.width) * width - this.width / this.scale / 2;
    this.y = ((event.clientY - box.top) / box.height) * height - this.height / this.scale / 2;
    this.apply();
  }

  // --- hands --------------------------------------------------------------------------------------------------------

  wheel(event) {
    const box = this.root.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.glide(false);
      this.zoom(Math.exp(-event.deltaY / 240), event.clientX - box.left, event.clientY - box.top);
      return;
    }
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (!sideways || !this.covers() || Math.abs(sideways) < Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
    event.preventDefault();
    this.glide(false);
    this.pan(sideways, 0);
  }

  glide(on) {
    this.picture.world.classList.toggle("kit-glide", on);
  }

  down(event) {
    if (event.button) return;
    this.glide(false);
    this.dragged = false;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, from: [event.clientX, event.clientY] });
  }

  move(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (pointer === undefined) return;
    const [dx, dy] = [event.clientX - pointer.x, event.clientY - pointer.y];
    if (!this.dragged && Math.hypot(event.clientX - pointer.from[0], event.clientY - pointer.from[1]) < DRAG_PX) return;
    if (!this.dragged) this.root.setPointerCapture(event.pointerId);
    this.dragged = true;
    const before = this.spread();
    [pointer.x, pointer.y] = [event.clientX, event.clientY];
    if (this.pointers.size === 2) {
      const box = this.root.getBoundingClientRect();
      const now = this.spread();
      this.zoom(now.length / Math.max(1, before.length), now.x - box.left, now.y - box.top);
    } else {
      this.pan(-dx, -dy);
    }
  }

  up(event) {
    this.pointers.delete(event.pointerId);
  }

  // Return the middle between two fingers, and their distance.
  spread() {
    const [a, b = a] = [...this.pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, length: Math.hypot(a.x - b.x, a.y - b.y) };
  }

  close() {
    this.watch.disconnect();
  }
}
