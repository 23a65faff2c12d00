"""The response times of the stepper, the space-time diagram and the explorer.

Measured are the times from a click to the picture, from a step of a lab to the page, and from opening a run to its
first picture; the frames of the space-time diagram while it is moved; and the time from running a cell in JupyterLab to
the painted explorer of a large job.

The page is the widget's own module with a model that stands in for Jupyter's, in a browser without a display. A
picture counts when it has been painted: a task posted in the animation frame runs after that. So a step waits for the
next frame of the screen, at 60 a second, and its median cannot be below some 8 ms. What the kernel does is measured on
the processor, what the page does by the clock.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, sync_playwright

from benchmarks._options import options
from kit.core.trace.trace import Trace
from kit.draw.assets import stage_css, stage_js
from kit.draw.space_time.space_time_page import export_space_time
from kit.hosts.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors.memory_sources import CollectionSource
from kit.stream.connectors.sink import CollectSink
from kit.stream.operators.aggregates import sum_
from kit.stream.settings.job_settings import CheckpointConfig
from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook
from widgets import Stepper

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
FRAME_MS = 1_000 / 60
LIMITS_MS = {"20 subtasks": 20, "200 subtasks": 50, "alive": 50, "first": 1_000, "long": 3_000, "opened": 3_000}


@dataclass(frozen=True)
class Sizes:
    """The sizes to measure: vertices and subtasks of the labs, clicks, frames, and the records of a trace."""

    labs: tuple[tuple[int, int], ...] = ((4, 5), (4, 50))
    steps: int = 60
    rested_steps: int = 15
    lab_steps: int = 25
    frames: int = 300
    long_run: int = 100_000
    long_rows: int = 8_000
    opened: int = 3
    """How often JupyterLab opens the explorer; 0 for never."""


SMALLEST = Sizes(((2, 1),), steps=2, rested_steps=1, lab_steps=2, frames=4, long_run=100, long_rows=20, opened=0)

MODEL = """
window.sent = 0;
window.heard = {};
const values = JSON.parse(document.getElementById("state").textContent);
window.model = {
  get: (name) => values[name],
  set: (name, value) => { values[name] = value; },
  save_changes: () => { window.sent += 1; },
  send: () => { window.sent += 1; },
  on: (name, act) => { (window.heard[name] ??= []).push(act); },
  off: () => {},
};
window.painted = () => new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now());
  channel.port2.postMessage(0);
}));
stage.initialize({ model: window.model });
stage.render({ model: window.model, el: document.getElementById("stage") });
window.first = window.painted();
"""

CLICKS = """
async ([count, rest_ms]) => {
  const step = document.querySelector(".kit-controls button[aria-label=Step]");
  document.querySelector(".kit-player").dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
  await window.painted();
  const took = [];
  for (let n = 0; n < count; n += 1) {
    await new Promise((done) => setTimeout(done, rest_ms + (n * 5) % 16));
    const began = performance.now();
    step.click();
    took.push((await window.painted()) - began);
  }
  return took;
}
"""

PLAY = """
async () => {
  await new Promise((done) => setTimeout(done, 400));
  const before = window.sent;
  const player = document.querySelector(".kit-player");
  document.querySelector(".kit-controls select").value = "250";
  player.dispatchEvent(new KeyboardEvent("keydown", { key: "Home", bubbles: true }));
  player.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
  await new Promise((done) => setTimeout(done, 2500));
  return [window.sent - before, document.querySelector(".kit-count").textContent];
}
"""

NEWS = """
async ([film, value]) => {
  const began = performance.now();
  window.heard["msg:custom"].forEach((act) => act({ film }));
  window.model.set("value", value);
  window.heard["change:value"].forEach((act) => act());
  return (await window.painted()) - began;
}
"""

SCROLL = """
async ([frames, act]) => {
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const kind = pane.constructor.prototype, { draw } = kind;
  const [gaps, own] = [[], []];
  kind.draw = function () { const began = performance.now(); draw.call(this); own.push(performance.now() - began); };
  let before = await next();
  for (let n = 0; n < frames; n += 1) {
    if (act === "moved") pane.pan(n < frames / 2 ? 14 : -14); else pane.zoom(1 + 0.02 * Math.sin(n / 20), 400);
    const now = await next();
    gaps.push(now - before);
    before = now;
  }
  kind.draw = draw;
  return [gaps, own];
}
"""
"""Frames while the space-time diagram is moved sideways, or zoomed: milliseconds between two of them, and how long the
main thread drew for each.
"""


LARGE = """
import kit
from kit.hosts.lab import Lab, ready_job
kit.show("keyed-sum").close()  # what is imported once is not measured
lab = Lab(ready_job("keyed-sum", parallelism=100, max_parallelism=128, rows=400))
lab.run_until(record="AllTasksRunning")
"""
OPENED = """
async (source) => {
  const { content } = window.panel;
  const before = new Set(document.querySelectorAll(".kit-explorer"));
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  content.model.sharedModel.addCell({ cell_type: "code", source });
  content.activeCellIndex = content.model.sharedModel.cells.length - 1;
  const began = performance.now();
  window.jupyterapp.commands.execute("notebook:run-cell");
  for (;;) {
    await frame();
    const app = [...document.querySelectorAll(".kit-explorer")].find((each) => !before.has(each));
    if (app?.querySelector(".kit-viewport [data-name]") && app.querySelector(".kit-action")) break;
  }
  await frame();
  return performance.now() - began;
}
"""
"""Milliseconds from running a cell until its explorer is painted: the stage, and the panel beside it."""


def job(vertices: int, parallelism: int, rows: int = 600) -> StreamEnvironment:
    """A chain of vertices, each joined to the next by all channels, a row a buffer."""
    env = StreamEnvironment("chain", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=50))
    data = [{"letter": "abcdefgh"[n % 8], "n": n} for n in range(rows)]
    stream = env.from_source(CollectionSource(data, batch_rows=1), uid="letters")
    for number in range(vertices - 1):
        stream = stream.key_by("letter").aggregate(n=sum_("n")).uid(f"totals {number}")
    stream.sink_to(CollectSink("out"), uid="out")
    return env


def page_of(stepper: Stepper, folder: Path) -> Path:
    """The widget's page, with a stand-in for its model."""
    state = {
        "film": stepper.film,
        "value": stepper.value,
        "n": stepper.n,
        "selected": "",
        "item_details": {},
        "offers": [],
    }
    data = json.dumps(state, separators=(",", ":")).replace("</", "<\\/")
    script = stage_js().replace("export default {", "const stage = {")
    path = folder / "stepper.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><style>{stage_css()}</style><div id="stage"></div>'
        f'<script type="application/json" id="state">{data}</script><script type="module">{script}{MODEL}</script>',
        encoding="utf-8",
    )
    return path


def ms(deed: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function; return its milliseconds of processor time, and its result."""
    began = time.process_time()
    result = deed()
    return (time.process_time() - began) * 1e3, result


def opened(page: Page, path: Path) -> float:
    """Milliseconds from the beginning of the page to its first picture."""
    page.goto(path.as_uri())
    page.wait_for_function("window.first !== undefined")
    return float(page.evaluate("async () => await window.first"))


def tell(what: str, took_ms: float, limit_ms: float, more: str = "") -> bool:
    """Print one row; return True if it is within its limit."""
    print(f"{what:50} {took_ms:9.1f} ms   at most {limit_ms:6,.0f} ms   {more}", flush=True)
    return took_ms <= limit_ms


def of_a_lab(page: Page, folder: Path, vertices: int, parallelism: int, sizes: Sizes) -> list[bool]:
    """Measure a lab after its first checkpoint: open it, step through it, play it, continue it."""
    name = f"{vertices * parallelism} subtasks"
    lab = Lab(job(vertices, parallelism), seed=1)
    lab.run_until(checkpoint=1)
    kernel_ms, stepper = ms(lambda: Stepper(lab))
    path = page_of(stepper, folder)
    first_ms = opened(page, path)
    shown = f"{kernel_ms:.0f} in the kernel, {first_ms:.0f} in the page; {path.stat().st_size / 1e6:.1f} MB"
    within = [
        tell(f"{name}: first picture of {len(lab.trace):,} records", kernel_ms + first_ms, LIMITS_MS["first"], shown)
    ]
    stepper.send = lambda content, buffers=None: None  # type: ignore[method-assign]
    rest_ms, _ = ms(lambda: stepper._heard(None, {"wanted": "pictures"}, None))
    path = page_of(stepper, folder)
    opened(page, path)
    print(f"{name}: the other pictures, while nobody waits     {rest_ms:.0f} ms; {path.stat().st_size / 1e6:.1f} MB")
    for pace, count, rest_ms in (("in a row", sizes.steps, 7), ("after a rest", sizes.rested_steps, 300)):
        clicks = page.evaluate(CLICKS, [count, rest_ms])
        longest = f"longest {max(clicks):.0f} ms"
        within.append(tell(f"{name}: click to picture, {pace}", median(clicks), LIMITS_MS.get(name, math.inf), longest))
    sent, where = page.evaluate(PLAY)
    print(f"{name}: sent to the kernel while it played      {sent} messages ({where})")
    within.append(sent == 0)
    news: list[dict[str, Any]] = []
    stepper.send = lambda content, buffers=None: news.append(content)  # type: ignore[method-assign]
    page.reload()
    page.wait_for_function("window.first !== undefined")
    took = []
    for _ in range(sizes.lab_steps):
        step_ms, _ = ms(lambda: (lab.step(), stepper.refresh()))
        took.append(step_ms + page.evaluate(NEWS, [news[-1]["film"], stepper.value]))
    within.append(tell(f"{name}: a step of the lab to the picture", median(took), LIMITS_MS["alive"]))
    return within + of_a_scroll(page, folder, lab, sizes.frames)


def of_a_scroll(page: Page, folder: Path, lab: Lab, frames: int) -> list[bool]:
    """The space-time diagram of a lab, moved and zoomed frame by frame."""
    page.goto(export_space_time(lab, folder / "space-time.html").as_uri())
    page.wait_for_function("() => window.pane?.drawMs !== undefined")
    within = []
    for act in ("moved", "zoomed"):
        page.get_by_role("button", name="checkpoint", exact=True).click()
        page.wait_for_timeout(500)
        gaps, own = page.evaluate(SCROLL, [frames, act])
        late = sum(gap > 1.5 * FRAME_MS for gap in gaps)
        shown = f"{late} of {frames} frames late; the main thread {median(own):.1f} a frame, at most {max(own):.1f}"
        what = f"space-time of {len(lab.trace):,} records {act}: a frame"
        within.append(tell(what, median(gaps), 1.05 * FRAME_MS, shown))
    return within


def of_a_long_trace(page: Page, folder: Path, sizes: Sizes) -> list[bool]:
    """A trace read from a file."""
    lab = Lab(job(2, 2, rows=sizes.long_rows), seed=1)
    lab.run_until(lambda lab: len(lab.trace) >= sizes.long_run)  # type: ignore[misc]
    trace = Trace.load(lab.trace.save(folder / "run.jsonl"))
    kernel_ms, stepper = ms(lambda: Stepper(trace))
    path = page_of(stepper, folder)
    first_ms = opened(page, path)
    shown = f"{kernel_ms:.0f} in the kernel, {first_ms:.0f} in the page; {path.stat().st_size / 1e6:.1f} MB"
    return [tell(f"a trace of {len(trace):,} records: first picture", kernel_ms + first_ms, LIMITS_MS["long"], shown)]


def of_the_explorer(page: Page, folder: Path, times: int) -> list[bool]:
    """The explorer of 200 subtasks that run, in JupyterLab: by the clock, since kernel and page take turns."""
    write_notebook(folder / "notebooks" / "large.ipynb", [LARGE])
    with jupyter_lab(folder) as address:
        notebook = Notebook(page, address, "large.ipynb")
        notebook.run_all()
        took = [page.evaluate(OPENED, "lab.show()") for _ in range(times)]
    longest = f"longest {max(took):.0f} ms"
    return [tell("200 subtasks: the explorer opened in JupyterLab", median(took), LIMITS_MS["opened"], longest)]


def main() -> int:
    """Return the number of limits that are exceeded; at the smallest size they do not count."""
    given = options(__doc__).parse_args()
    sizes = SMALLEST if given.smallest else Sizes()
    within: list[bool] = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=QUIET)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        Stepper(Lab(job(1, 1, 4)))  # what is imported once is not measured
        for vertices, parallelism in sizes.labs:
            within += of_a_lab(page, Path(name), vertices, parallelism, sizes)
        within += of_a_long_trace(page, Path(name), sizes)
        if sizes.opened:
            within += of_the_explorer(page, Path(name), sizes.opened)
        browser.close()
    print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")
    return 0 if given.smallest else within.count(False)


if __name__ == "__main__":
    raise SystemExit(main())
