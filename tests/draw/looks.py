"""The jobs, sizes and themes for the tests of appearance, and the measurements.

Six jobs from 2 to 200 subtasks, three widths, two themes. `WRONG` measures every front end that shows a run, and the
screenshots go into the folder that `KIT_LOOKS` names (`make looks`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from kit import Lab
from kit.hosts.lab.jobs.ready_jobs import Join
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.memory_sources import CollectionSource
from kit.stream.connectors.sink import CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig

WIDTHS = (390, 1366, 2560)
THEMES = ("light", "dark")
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def source() -> CollectionSource:
    """Forty rows, one in a buffer."""
    return CollectionSource([{"k": "abcd"[n % 4], "n": n} for n in range(40)], SCHEMA, batch_rows=1)


def chain(vertices: int, parallelism: int, **checkpoint: bool) -> StreamEnvironment:
    """Vertices one after the other, with all channels between two of them."""
    settings = CheckpointConfig(interval_ms=40, **checkpoint)
    env = StreamEnvironment("chain", parallelism=parallelism, checkpoint=settings)
    stream = env.from_source(source(), uid="in")
    for number in range(vertices - 1):
        stream = stream.key_by("k").aggregate(n=sum_("n")).uid(f"sum of what came {number}")
    stream.sink_to(CollectSink("out"), uid="out")
    return env


def two_inputs(parallelism: int) -> StreamEnvironment:
    """Two sources, and an operator that both send to."""
    env = StreamEnvironment("two inputs", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=40))
    left, right = (env.from_source(source(), uid=side).key_by("k") for side in ("orders", "payments"))
    both = left.connect(right).process(Join, returns=SCHEMA).uid("matched by their key")
    both.sink_to(CollectSink("out"), uid="out")
    return env


JOBS = {
    "2 subtasks": (lambda: chain(2, 1), 40),
    "6 subtasks, two inputs": (lambda: two_inputs(2), 200),
    "20 subtasks, unaligned": (lambda: chain(4, 5, unaligned=True), 600),
    "30 stages, 60 subtasks": (lambda: chain(30, 2), 900),
    "120 subtasks, two inputs": (lambda: two_inputs(40), 900),
    "200 subtasks": (lambda: chain(4, 50), 1_200),
}
"""How to make each job, and the step at which it is asked for a checkpoint."""


def run_of_job(name: str) -> Lab:
    """A run of one of the jobs, in the middle of a checkpoint."""
    make, steps = JOBS[name]
    lab = Lab(make(), seed=1)
    for _ in range(steps):
        lab.step()
    lab.trigger_checkpoint()
    lab.run_until(record="SnapshotWritten")
    for _ in range(steps // 8):
        lab.step()
    return lab


def are_kept() -> bool:
    """Return True if screenshots are asked for, with `KIT_LOOKS`."""
    return bool(os.environ.get("KIT_LOOKS"))


def photograph(part: Any, *named: object, **options: Any) -> None:
    """Take a screenshot of a page or a part of it, if screenshots are asked for; `options` are playwright's."""
    if are_kept():
        part.screenshot(path=picture_file(Path(), *named), **options)


def picture_file(folder: Path, *named: object) -> Path:
    """Return the path of a screenshot: below the folder that `KIT_LOOKS` names, or else the test's own."""
    asked = os.environ.get("KIT_LOOKS")
    name = " ".join(str(each) for each in named).replace(",", "").replace("/", " ").replace(" ", "-")
    file = (Path(asked) if asked else folder) / f"{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


WRONG = """
(root) => {
  const wrong = new Set();
  const room = root.getBoundingClientRect();
  const said = (node) => node.textContent.trim().replace(/\\s+/g, " ").slice(0, 50);
  const named = (node) => said(node) || node.ariaLabel || node.outerHTML.slice(0, 60);
  // what is seen of a box where its ancestors cut it, and whether one of them hides the rest for good
  const seen = (node, box) => {
    let { left, right, top, bottom } = box, cut = false, told = false, mute = false;
    for (let at = node; at && at !== root.parentElement; at = at.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(at);
      const outer = at instanceof SVGElement && at.tagName !== "svg";
      if (outer || (overflowX === "visible" && overflowY === "visible")) continue;
      const clip = at.getBoundingClientRect();
      const hides = [overflowX, overflowY].some((each) => each === "hidden" || each === "clip");
      const lost = overflowX === "hidden" ? Math.max(clip.left - left, right - clip.right) : 0;
      const under = overflowY === "hidden" ? Math.max(clip.top - top, bottom - clip.bottom) : 0;
      if (hides && (lost > 2 || under > 4)) cut = true;
      if (hides && lost > 2 && getComputedStyle(at).textOverflow === "ellipsis") told = true;
      if (hides && lost > 2 && !told) mute = true;
      [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
      [top, bottom] = [Math.max(top, clip.top), Math.min(bottom, clip.bottom)];
    }
    return { left, right, top, bottom, cut, mute };
  };
  const texts = [];
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("style, script, template, noscript, title, option")) continue;
    if (parent.tagName === "DETAILS" && !parent.open) continue;
    if (parent.closest(".kit-announcer, .kit-st-live, .kit-named > .widget-label")) continue; // for screen readers
    if (parent.closest(".kit-tip, .kit-st-tip, [data-layer=elements], .fa")) continue;
    if (!parent.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const inSvg = parent.closest("svg");
    const stage = parent.closest(".kit-viewport");
    let px = parseFloat(getComputedStyle(parent).fontSize);
    if (inSvg) px *= parent.getScreenCTM().a;
    const range = document.createRange();
    range.selectNodeContents(node);
    const lines = inSvg ? 1 : range.getClientRects().length;
    if (lines > 2 && node.data.trim().length < 2.5 * lines) wrong.add(`a letter in a line: ${said(parent)}`);
    for (const box of inSvg ? [parent.getBoundingClientRect()] : range.getClientRects()) {
      const at = seen(parent, box);
      const whole = at.right - at.left > 1 && at.bottom - at.top > 1;
      if (at.cut && !stage && !parent.closest("[title], .kit-map")) wrong.add(`cut off: ${said(parent)}`);
      if (at.mute && !inSvg && !stage) wrong.add(`cut off without a sign of it: ${said(parent)}`);
      if (!whole) continue;
      if (px < 9.95) wrong.add(`${px.toFixed(1)} px: ${said(parent)}`);
      if (at.right > room.right + 2 || at.left < room.left - 2) wrong.add(`out of its room: ${said(parent)}`);
      texts.push({ node, parent, ...at });
    }
  }
  for (const canvas of root.querySelectorAll("canvas")) {
    const frame = canvas.getBoundingClientRect();
    if (!canvas.checkVisibility() || frame.width < 2) continue;
    for (const { text, x, y, width, px } of canvas.kitTexts ?? []) {
      const [left, top] = [frame.left + x, frame.top + y - px / 2];
      if (!/\\p{L}{2}/u.test(text) || top > frame.bottom - px || top < frame.top) continue;
      if (px < 9.95) wrong.add(`${px.toFixed(1)} px: ${text}`);
      if (left < frame.left - 1 || left + width > frame.right + 1) wrong.add(`cut off: ${text}`);
      const parent = { tagName: "canvas", textContent: text };
      texts.push({ node: {}, parent, left, right: left + width, top, bottom: top + px });
    }
  }
  // what lies over the rest on a ground of its own
  const over = (node) => node.closest?.(".kit-details, .kit-notice, .kit-legend, .kit-help p") ?? null;
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((a, i) => {
    for (let j = i + 1; j < texts.length && texts[j].top < a.bottom - 3; j++) {
      const b = texts[j];
      if (over(a.parent) !== over(b.parent)) continue;
      if (a.node === b.node || (a.parent.tagName === "tspan" && a.parent.parentNode === b.parent.parentNode)) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 4) wrong.add(`${said(a.parent)} | ${said(b.parent)}`);
    }
  });
  const controls = [...root.querySelectorAll("button, select, input, textarea, .noUi-target")]
    .filter((node) => node.checkVisibility() && node.offsetWidth > 1)
    .map((node) => ({ node, ...seen(node, node.getBoundingClientRect()) }))
    .filter((at) => at.right - at.left > 1 && at.bottom - at.top > 1);
  controls.forEach((a, i) => {
    if (a.right > room.right + 2 || a.left < room.left - 2) wrong.add(`out of its room: ${named(a.node)}`);
    if (a.cut && a.node.matches("select, input, textarea")) wrong.add(`cut off: ${named(a.node)}`);
    for (const b of controls.slice(i + 1)) {
      if (a.node.contains(b.node) || b.node.contains(a.node) || over(a.node) !== over(b.node)) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1.5 && high > 1.5) wrong.add(`${named(a.node)} on ${named(b.node)}`);
    }
  });
  for (const badge of root.querySelectorAll(".kit-viewport rect.badge")) {
    const over = badge.getBoundingClientRect();
    const name = root.querySelector(`[data-name="${badge.dataset.name.replace(/badge$/, "name")}"]`);
    if (name && name.getBoundingClientRect().right > over.left + 1) wrong.add(`under its badge: ${said(name)}`);
  }
  const blocks = [...root.querySelectorAll(".kit-player > *:not([hidden]):not(.kit-tip):not(.kit-announcer)")]
    .map((node) => node.getBoundingClientRect()).filter((box) => box.height > 0);
  blocks.slice(1).forEach((box, i) => {
    if (box.top < blocks[i].bottom - 1) wrong.add(`block ${i + 1} of the stage lies on the one above`);
  });
  return [...wrong];
}
"""
"""What is wrong in an element: texts below 10 px, over each other, cut off and not told otherwise, or out of its room;
controls on each other. What moves on the stage is left out, and so is what is panned to. What is written on a canvas
is measured where `KEEP_TEXTS` ran before the page did.
"""

KEEP_TEXTS = """
(() => {
  const drawn = CanvasRenderingContext2D.prototype;
  const { fillText, fillRect } = drawn;
  drawn.fillText = function (text, x, y, ...rest) {
    const at = this.getTransform(), width = this.measureText(text).width;
    const before = { center: width / 2, right: width, end: width }[this.textAlign] ?? 0;
    const size = parseFloat(/([\\d.]+)px/.exec(this.font)[1]);
    const box = { width: at.a * width, px: at.d * size, x: at.a * (x - before) + at.e, y: at.d * y + at.f };
    for (const name in box) box[name] /= window.devicePixelRatio || 1;
    (this.canvas.kitTexts ??= []).push({ text: String(text), ...box });
    return fillText.call(this, text, x, y, ...rest);
  };
  drawn.fillRect = function (x, y, width, height) {
    const at = this.getTransform();
    const isAll = x <= 0 && y <= 0 && at.a * width >= this.canvas.width - 2 && at.d * height >= this.canvas.height - 2;
    if (isAll && this.globalAlpha === 1) this.canvas.kitTexts = [];
    return fillRect.call(this, x, y, width, height);
  };
})();
"""
"""Notes what is written on each canvas (`kitTexts`, in its own px) until it is painted over."""

SETTLED = """
async () => {
  for (let n = 0; n < 3; n++) await new Promise((done) => requestAnimationFrame(done));
  await new Promise((done) => setTimeout(done, 350));
}
"""
