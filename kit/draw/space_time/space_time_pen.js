// Draws lines, areas, boxes, dots and texts on a canvas, with the styles of the document's table (`Style` in
// `space_time_looks.py`). Coordinates are flat arrays: x, y, x, y, ...

const OF_PAGE = ["paper", "card", "quiet", "ink-2", "accent", "bad-solid", "strong", "cp0", "cp1", "cp2", "cp3"];

class Pen {
  constructor(canvas, styles) {
    this.canvas = canvas;
    this.ctx = canvas.getContext("2d");
    this.styles = styles;
    this.inks = {};
  }

  // Read the theme's colours at the canvas.
  readInks() {
    const css = getComputedStyle(this.canvas);
    const inks = new Set(OF_PAGE);
    for (const { stroke, fill } of Object.values(this.styles)) for (const ink of [stroke, fill]) if (ink) inks.add(ink);
    for (const ink of inks) this.inks[ink] = css.getPropertyValue(`--kit-${ink}`).trim() || "#888888";
    this.font = css.getPropertyValue("--kit-font") || "sans-serif";
  }

  ink(name, checkpoint = 0) {
    return this.inks[name === "cp" ? `cp${((checkpoint % 4) + 4) % 4}` : name];
  }

  // Begin a picture of this size.
  begin(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const { ctx } = this;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.globalAlpha = 1;
    ctx.fillStyle = this.inks.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.lineJoin = "round";
  }

  // Draw what `draw` draws, as far as it is below this height.
  below(top, width, height, draw) {
    this.ctx.save();
    this.ctx.beginPath();
    this.ctx.rect(0, top, width, height - top);
    this.ctx.clip();
    draw();
    this.ctx.restore();
  }

  line(style, at, options) {
    this.ctx.beginPath();
    for (let k = 0; k < at.length; k += 2) this.ctx.lineTo(at[k], at[k + 1]);
    this.stroke(style, options);
  }

  // Draw many lines of two points.
  lines(style, at, options) {
    const { ctx } = this;
    ctx.beginPath();
    for (let k = 0; k < at.length; k += 4) {
      ctx.moveTo(at[k], at[k + 1]);
      ctx.lineTo(at[k + 2], at[k + 3]);
    }
    this.stroke(style, options);
  }

  area(style, at, options) {
    this.ctx.beginPath();
    for (let k = 0; k < at.length; k += 2) this.ctx.lineTo(at[k], at[k + 1]);
    this.ctx.closePath();
    this.paint(style, options);
  }

  // Fill many triangles. To close each path would take more time than to fill it.
  triangles(style, at, options) {
    const { ctx } = this;
    ctx.beginPath();
    for (let k = 0; k < at.length; k += 6) {
      ctx.moveTo(at[k], at[k + 1]);
      ctx.lineTo(at[k + 2], at[k + 3]);
      ctx.lineTo(at[k + 4], at[k + 5]);
    }
    this.paint(style, options);
  }

  box(style, [x, y, width, height, radius], options) {
    this.ctx.beginPath();
    if (radius) this.ctx.roundRect(x, y, width, height, radius); else this.ctx.rect(x, y, width, height);
    this.paint(style, options);
  }

  dot(style, [x, y, radius], options) {
    this.ctx.beginPath();
    this.ctx.arc(x, y, radius, 0, Math.PI * 2);
    this.paint(style, options);
  }

  // Fill the path and draw its outline, as far as the style has them.
  paint(name, options = {}) {
    const { ctx } = this;
    const { stroke, fill, opacity = 1, fill_opacity = 1 } = this.styles[name];
    if (fill) {
      ctx.globalAlpha = opacity * fill_opacity * (options.opacity ?? 1);
      ctx.fillStyle = this.ink(fill, options.checkpoint);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
    if (stroke) this.stroke(name, options);
  }

  stroke(name, { checkpoint, opacity = 1, widest = Infinity } = {}) {
    const { ctx } = this;
    const style = this.styles[name];
    ctx.strokeStyle = this.ink(style.stroke, checkpoint);
    ctx.lineWidth = Math.min(style.width ?? 1, widest);
    ctx.lineCap = style.is_butt ? "butt" : "round";
    ctx.globalAlpha = (style.opacity ?? 1) * opacity;
    ctx.setLineDash(style.dash ?? []);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  }

  text(name, [x, y], words, { anchor = "", most = Infinity, checkpoint } = {}) {
    const { ctx } = this;
    const { fill, size, weight = 400, has_halo } = this.styles[name];
    ctx.font = `${weight} ${size}px ${this.font}`;
    ctx.textAlign = { middle: "center", end: "right" }[anchor] ?? "left";
    ctx.textBaseline = "middle";
    const shown = this.cut(words, most);
    if (has_halo) { // lines run below the text
      ctx.strokeStyle = this.inks.paper;
      ctx.lineWidth = 3;
      ctx.globalAlpha = 0.85;
      ctx.strokeText(shown, x, y);
      ctx.globalAlpha = 1;
    }
    ctx.fillStyle = this.ink(fill, checkpoint);
    ctx.fillText(shown, x, y);
  }

  // Cut words, with an ellipsis, to a width; too little room leaves nothing.
  cut(words, most) {
    const { ctx } = this;
    if (most === Infinity || ctx.measureText(words).width <= most) return words;
    let low = 0, high = words.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (ctx.measureText(`${words.slice(0, middle)}…`).width <= most) low = middle; else high = middle - 1;
    }
    return low < 4 ? "" : `${words.slice(0, low)}…`;
  }
}
