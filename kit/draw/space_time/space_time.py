"""A run as a space-time diagram: a line per machine, time from left to right, and each checkpoint's cut through them.

It is the picture of Chandy and Lamport's paper, drawn from a real run. Messages and elements are arrows. While an
element waits in a queue, at its sender or at its receiver, its arrow runs along that task's line. A checkpoint's cut is
the broad line through the points at which the tasks copied their state. Everything left of it is in the checkpoint.
Elements that cross it from left to right are in flight; an unaligned checkpoint contains these too. Elements that cross
from right to left would be repeated by a restore; they occur with at-least-once only.

The picture is drawn from the same document as the page (`space_time_data.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from math import inf
from typing import Any

import pandas as pd

from kit.core.markup import Markup, element
from kit.draw.picture import LEAST_WIDTH, Svg, light_svg
from kit.draw.shapes import moved, text
from kit.draw.space_time.space_time_data import SpaceTimeFeed
from kit.draw.space_time.space_time_drawing import Drawing, Primitive, legend_of
from kit.draw.space_time.space_time_looks import CHOSEN, CP, SIZES, STYLES
from kit.draw.stage.scene import colour, fit
from kit.run.durations import duration
from kit.run.journeys import Crossing, Journeys

LEFT, RIGHT, TOP = 148.0, 24.0, 58.0
"""The margins of the diagram: the names of its lines, and the sentences above it."""
WIDTH = LEAST_WIDTH - LEFT - RIGHT
LEGEND_ROW = 22
NONE_COPIED = "no task has copied its state for a checkpoint"


def space_time(
    run: Any, checkpoint: int | None = None, *, since_ms: float | None = None, until_ms: float | None = None
) -> SpaceTime:
    """Draw the space-time diagram of a Lab, a SparkJob or a Trace.

    It shows the time around one checkpoint, by default the last for which a task copied its state; or the time between
    two times, counted from the beginning of the run.

    Raises ValueError if the run has no such checkpoint, or does not contain both times.
    """
    feed = SpaceTimeFeed(run)
    document, found = feed.changes(), feed.found
    last = found.last
    if checkpoint is not None and checkpoint not in last.checkpoints:
        known_ids = ", ".join(map(str, last.checkpoints)) or "none"
        raise ValueError(f"the run has no checkpoint {checkpoint}; there are: {known_ids}")
    checkpoint = max(found.cuts, default=None) if checkpoint is None else checkpoint
    if checkpoint is not None and since_ms is None and until_ms is None:
        return SpaceTime(found, checkpoint, *_around(found, checkpoint), document)
    begin, end = float(last.began_ms), float(last.at_ms)
    since = begin if since_ms is None else begin + since_ms
    until = end if until_ms is None else min(end, begin + until_ms)
    if since >= until and (since_ms, until_ms) != (None, None):
        raise ValueError(f"nothing happens from {duration(since - begin)} on: the run lasts {duration(end - begin)}")
    return SpaceTime(found, checkpoint, since, until, document)


def _around(found: Journeys, checkpoint: int) -> tuple[float, float]:
    """Return the interval from before a checkpoint's trigger until its in-flight elements were taken, or until shortly
    after its end if they were taken much later.
    """
    last, known = found.last, found.last.checkpoints[checkpoint]
    finished = last.at_ms if known.finished_ms is None else known.finished_ms
    took = finished - known.triggered_ms
    cut = found.cuts.get(checkpoint)
    in_flight = [each for each in found.elements if each.crossing(cut) is Crossing.IN_FLIGHT]
    taken = [each.taken.at_ms for each in in_flight if each.taken is not None]
    until = max([finished, *(at_ms for at_ms in taken if at_ms <= finished + took)])
    margin = max(SIZES["least_margin"], SIZES["margin"] * took)
    return max(last.began_ms, known.triggered_ms - margin), min(last.at_ms, until + margin)


@dataclass(frozen=True)
class SpaceTime:
    """A space-time diagram, which a notebook displays.

    `checkpoint` is the one whose cut divides the elements. Times are those of the trace, in ms.
    """

    found: Journeys
    checkpoint: int | None
    since_ms: float
    until_ms: float
    document: Mapping[str, Any] = field(repr=False)
    """What the run's diagram can show: see `space_time_data`."""

    def to_pandas(self) -> pd.DataFrame:
        """Return the elements of the whole run, and their side of the cut: see `Journeys.to_pandas`."""
        return self.found.to_pandas(self.checkpoint)

    def svg(self) -> Svg:
        """The picture."""
        drawing = self.drawing()
        primitives = drawing.primitives()
        bottom = TOP + drawing.height
        legend, height = self._legend(drawing, bottom + 24)
        box = element("rect", x=-6, width=WIDTH + 12, height=drawing.height)
        parts = [
            f'<defs><clipPath id="kit-space-time-clip">{box}</clipPath></defs><style>{_rules(primitives)}</style>',
            *self._sentences(),
            *self._names(drawing),
            moved(LEFT, TOP, Markup(f'<g clip-path="url(#kit-space-time-clip)">{_svg(primitives)}</g>')),
            *legend,
        ]
        drawn = element("g", *map(Markup, parts), class_="kit-space-time")
        return light_svg(LEAST_WIDTH, height, drawn, self.caption, "space_time.css")

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()._repr_html_()

    def __repr__(self) -> str:
        return f"SpaceTime({self.caption})"

    @property
    def caption(self) -> str:
        """A one-line description of the picture."""
        known = self._known
        return NONE_COPIED if known is None else str(known["said"])

    @property
    def outcome(self) -> str:
        """The outcome of the checkpoint, and the task that was last."""
        known = self._known
        return "" if known is None else str(known["went"])

    @property
    def _known(self) -> Mapping[str, Any] | None:
        return next((each for each in self.document["checkpoints"] if each["id"] == self.checkpoint), None)

    def drawing(self) -> Drawing:
        """Return the drawing of the diagram."""
        began = self.found.last.began_ms
        interval = (self.since_ms - began, self.until_ms - began)
        return Drawing(self.document, self.checkpoint, interval, WIDTH)

    def _sentences(self) -> Iterator[Markup]:
        for y, look, size, words in ((30, "title", 16, self.caption), (51, "under", 12.5, self.outcome)):
            words = words[:1].upper() + words[1:]
            yield text(24, y, look, fit(words, LEAST_WIDTH - 48, size, bold=look == "title"))

    def _names(self, drawing: Drawing) -> Iterator[Markup]:
        """Return the names of the lines, and of vertices with many subtasks."""
        lanes = self.document["lanes"]
        counts = {group["name"]: len(group["lanes"]) for group in self.document["groups"]}
        names = [(drawing.y[lane], lanes[lane]) for lane in drawing.y]
        names += [(y, f"{name} ×{counts[name]}") for name, y in drawing.headers.items()]
        for y, name in names:
            shown = fit(name, LEFT - 36, 12, bold=True)
            yield element(
                "text", shown, element("title", name), class_="lane-name", x=LEFT - 12, y=TOP + y + 4, text_anchor="end"
            )

    def _legend(self, drawing: Drawing, top: float) -> tuple[list[Markup], float]:
        """Return a legend of what was drawn, and its lower end."""
        own = f"var(--kit-{colour(self.checkpoint or 0)})"
        drawn, x, y = [], 24.0, top
        for sign, words in legend_of(drawing):
            width = 34 + 6.3 * len(words) + 18
            if x + width > LEAST_WIDTH - 12 and x > 24:
                x, y = 24.0, y + LEGEND_ROW
            drawn.append(moved(x, y - 7, Markup(sign.replace(CHOSEN, own)), text(34, 11, "", words)))
            x += width
        return drawn, y + 20


def _class(each: Primitive) -> str:
    own = f"-{colour(each.checkpoint)}" if CP in (STYLES[each.style].stroke, STYLES[each.style].fill) else ""
    return re.sub(r"\W", "-", each.style) + own


def _rules(primitives: Iterable[Primitive]) -> str:
    """Return the rules of the styles that occur."""
    used = {_class(each): each for each in primitives}
    return "".join(
        f".kit-space-time .{name}{{{STYLES[each.style].css(f'var(--kit-{colour(each.checkpoint)})')}}}"
        for name, each in used.items()
    )


def _svg(primitives: Iterable[Primitive]) -> str:
    """Return the primitives as SVG. Neighbours with the same hint share it."""
    parts = []
    for hint, alike in groupby(primitives, key=lambda each: each.hint):
        drawn = "".join(map(_element, alike))
        parts.append(f"<g><title>{escape(hint)}</title>{drawn}</g>" if hint else drawn)
    return "".join(parts)


def _element(each: Primitive) -> str:
    look = f'class="{_class(each)}"' + (f' opacity="{each.opacity:.3g}"' if each.opacity < 1 else "")
    at = [f"{round(place, 1):g}" for place in each.at]
    if each.shape in ("line", "area"):
        points = "L".join(f"{x} {y}" for x, y in zip(at[::2], at[1::2], strict=True))
        width = f' style="stroke-width:{each.widest:g}"' if each.widest < STYLES[each.style].width else ""
        return f'<path {look}{width} d="M{points}{"z" if each.shape == "area" else ""}"/>'
    if each.shape == "box":
        x, y, width, height, radius = at
        return f'<rect {look} x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'
    if each.shape == "dot":
        return f'<circle {look} cx="{at[0]}" cy="{at[1]}" r="{at[2]}"/>'
    size, weight = STYLES[each.style].size, STYLES[each.style].weight
    words = each.words if each.most == inf else fit(each.words, each.most, size, bold=weight > 400)
    anchor = f' text-anchor="{each.anchor}"' if each.anchor else ""
    return f'<text {look} x="{at[0]}" y="{each.at[1] + 0.35 * size:.1f}"{anchor}>{escape(words)}</text>'
