"""The picture and the page draw the same: the primitives, the hints and the legend of both, for several runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from kit.core.trace.trace import Trace
from kit.draw import SpaceTime, phases, space_time
from kit.draw.space_time.space_time import WIDTH
from kit.draw.space_time.space_time_drawing import Drawing, Primitive, legend_of
from kit.draw.space_time.space_time_looks import ARROWS, CP, LOOKS, STYLES
from kit.draw.space_time.space_time_page import export_space_time
from tests.draw.labs import lab_of
from tests.draw.script import story
from tests.several_run import moments

DRAWN = """
([chosen, since, until, width]) => {
  for (const group of pane.run.groups) pane.opened.add(group.name);
  pane.moveTo(0); // the cursor covers the time below it
  pane.choose(chosen ?? "none");
  if (chosen === null) pane.chosen = null;
  pane.layOut();
  pane.measure(false);
  const drawn = [];
  const put = (shape, style, at, options = {}, words = "") => {
    const { checkpoint = -1, opacity = 1, widest = null, anchor = "", most = null } = options;
    drawn.push([shape, style, [...at], checkpoint, opacity, widest, words, anchor, most]);
  };
  const some = (shape, size) => (style, at, options) => {
    for (let k = 0; k < at.length; k += size) put(shape, style, at.slice(k, k + size), options);
  };
  const pen = {
    begin() {}, below(top, w, h, draw) { draw(); }, lines: some("line", 4), triangles: some("area", 6),
    line: (...all) => put("line", ...all), area: (...all) => put("area", ...all), box: (...all) => put("box", ...all),
    dot: (...all) => put("dot", ...all), text: (style, at, words, options) => put("text", style, at, options, words),
  };
  pane.width = width;
  pane.height = pane.px.ruler + pane.lanes.height; // all lines, without a scroll bar
  pane.scroll = 0;
  const drawing = new pane.drawing.constructor(pen, pane.scene(since, until, width)).draw();
  const { run } = pane;
  const hints = [
    ...drawing.spots.map(({ mark, known }) => run.hint(mark, known)),
    ...drawing.arrows.map(({ name, i, lookName }) => run.arrowHint(name, i, lookName, pane.chosen).join("\\n")),
  ];
  return { drawn, hints, legend: run.legend(drawing) };
}
"""
"""What the page's script draws of an interval when its pen is a list: the primitives, hints and the legend."""


def unaligned() -> Trace:
    lab = lab_of(2, unaligned=True)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(checkpoint=2)
    return lab.trace


def at_least_once() -> Trace:
    lab = lab_of(4, mode="at_least_once")
    lab.run_until(checkpoint=2)
    return lab.trace


def aborted() -> Trace:
    lab = lab_of(1)
    lab.run_until(record="BarrierAligned")
    lab.faults.kill(0)
    lab.run_until(checkpoint=2)
    return lab.trace


def under_way() -> Trace:
    lab = lab_of(1)
    lab.run_until(record="BarrierAligned")
    return lab.trace


def capturing() -> Trace:
    """An unaligned checkpoint whose in-flight data is being written, after a worker froze for a while."""
    lab = lab_of(2, unaligned=True)
    lab.run_until(record="CheckpointPending")
    lab.faults.freeze(0)
    lab.faults.thaw(0)
    lab.run_until(lambda lab: any(phases(lab).query("open_phase == 'in_flight'")["in_flight_ms"] > 0))
    return lab.trace


def slow() -> Trace:
    lab = lab_of(1, rows=200, parallelism=6)
    lab.run_until(checkpoint=1)
    return lab.trace


def no_checkpoint() -> Trace:
    lab = lab_of(1)
    lab.run_until(record="AllTasksRunning")
    return lab.trace


def crowded() -> Trace:
    """A checkpoint with so many barriers that only a part is drawn."""
    lab = lab_of(1, rows=31, parallelism=31)
    lab.run_until(checkpoint=1)
    return lab.trace


def several() -> Trace:
    """A run with two pending checkpoints, and earlier ones that ended in several ways."""
    return next(lab.fork().trace for moment, lab, _ in moments() if moment == "6 and 7 are pending")


RUNS = (unaligned, at_least_once, aborted, under_way, capturing, slow, no_checkpoint, crowded, several, story)
NOT_IN_THE_LAB = ("phase begin", "phase whole_async", "phase sync open")
"""Phases of a run whose trace does not say more, and the copy of a state, which is not known before it has ended."""
Shape = tuple[Any, ...]


def normal(each: Primitive | list[Any]) -> Shape:
    """Return a primitive without what cannot be seen: a checkpoint that colours nothing, and fractions of px."""
    if isinstance(each, Primitive):
        parts: list[Any] = [each.shape, each.style, each.at, each.checkpoint, each.opacity, each.widest]
        parts += [each.words, each.anchor, each.most]
    else:
        parts = [float("inf") if part is None else part for part in each]
    shape, style, at, checkpoint, opacity, widest, *text = parts
    look = STYLES[style]
    hue = checkpoint % 4 if CP in (look.stroke, look.fill) else None
    places = tuple(round(place) for place in at)
    width, most = float(min(look.width, widest)), round(min(text[2], 1e6))
    return shape, style, places, hue, round(float(opacity), 3), width, *text[:2], most


def of_page(page: Page, diagram: SpaceTime, path: Path) -> dict[str, Any]:
    page.goto(path.as_uri())
    page.wait_for_function("() => window.pane?.drawMs !== undefined")
    began = diagram.found.last.began_ms
    view = [diagram.checkpoint, diagram.since_ms - began, diagram.until_ms - began, WIDTH]
    found: dict[str, Any] = page.evaluate(DRAWN, view)
    return found


def order_of(shapes: list[Shape]) -> list[str]:
    """Return the looks in the order in which they are drawn, without the parts of arrows."""
    return [name for name in dict.fromkeys(shape[1] for shape in shapes) if name in LOOKS or name in ("job", "cut")]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.__name__)
def test_the_picture_and_the_page_draw_the_same(run: Callable[[], Trace], page: Page, tmp_path: Path) -> None:
    trace = Trace.load(run().save(tmp_path / "run.jsonl"))
    path = export_space_time(trace, tmp_path / "run.html")
    for diagram in diagrams(trace):
        drawing: Drawing = diagram.drawing()
        primitives = drawing.primitives()
        picture, drawn = [normal(each) for each in primitives], of_page(page, diagram, path)
        shapes = [normal(each) for each in drawn["drawn"]]
        assert sorted(map(repr, picture)) == sorted(map(repr, shapes))
        assert order_of(picture) == order_of(shapes)
        assert {each.hint for each in primitives if each.hint} == set(drawn["hints"])
        assert legend_of(drawing) == [(sign, words) for words, sign in drawn["legend"]]


def diagrams(trace: Trace) -> list[SpaceTime]:
    """Return the diagram around each checkpoint, and that of the whole run."""
    found = space_time(trace, since_ms=0)
    return [found, *(space_time(trace, number) for number in found.found.cuts)]


def test_the_runs_show_every_kind_of_thing() -> None:
    seen = {each.style for run in RUNS for diagram in diagrams(run()) for each in diagram.drawing().primitives()}
    names = {f"{name} words" if look.shape == "words" else name for name, look in LOOKS.items()}
    assert {name for name in names - seen if not name.startswith(NOT_IN_THE_LAB)} == set()
    assert set(ARROWS) <= seen
