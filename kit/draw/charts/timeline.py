"""Rows of bars over one time axis, as HTML: the steps of a checkpoint, and clocks with their remaining time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kit.draw.charts.round_numbers import round_step
from kit.draw.view_html import legend

STYLE = "timeline.css"
DONE, OPEN, BAD, GONE, LEFT, TICK = "done", "open", "bad", "gone", "left", "tick"
AXIS_PARTS = 4
WORDS = {
    DONE: "done",
    OPEN: "not answered yet",
    BAD: "failed",
    GONE: "time that is gone",
    LEFT: "time that is left",
    TICK: "an acknowledgement",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval, in ms, and its meaning: done, open, bad, gone, left."""

    start_ms: float
    end_ms: float
    meaning: str = DONE


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its name, its bars, its marked moments (`ticks_ms`), and a note in words."""

    name: str
    bars: tuple[Bar, ...]
    says: str
    ticks_ms: tuple[float, ...] = ()


def timeline(rows: Sequence[Row], start_ms: float, end_ms: float, *, axis: bool = True) -> str:
    """Draw the rows from `start_ms` to `end_ms`, with a legend and an axis in ms."""
    if not rows:
        return ""
    head = ""
    if axis:
        marks = _marks(max(end_ms - start_ms, 1.0))
        head = f'<span class="t-head"></span><span class="t-axis">{marks}</span><span class="t-head">ms</span>'
    drawn = "".join(_row(row, start_ms, max(end_ms, start_ms + 1)) for row in rows)
    occurring = {bar.meaning for row in rows for bar in row.bars} | {TICK for row in rows if row.ticks_ms}
    return f'<div class="t-rows">{head}{drawn}</div>' + legend(
        (kind, WORDS[kind]) for kind in WORDS if kind in occurring
    )


def _marks(length_ms: float) -> str:
    """Draw round numbers along the axis; the last one marks its end."""
    step = round_step(length_ms / AXIS_PARTS)
    at = [float(step * part) for part in range(AXIS_PARTS + 1) if step * part <= length_ms - step / 2]
    return "".join(f'<em style="left:{100 * ms / length_ms:g}%">{ms:,.0f}</em>' for ms in [*at, length_ms])


def _row(row: Row, start_ms: float, end_ms: float) -> str:
    def percent(at_ms: float) -> float:
        return round(100 * min(max((at_ms - start_ms) / (end_ms - start_ms), 0.0), 1.0), 2)

    bars = "".join(_bar(bar, percent(bar.start_ms), percent(bar.end_ms)) for bar in row.bars)
    ticks = "".join(f'<b style="left:min({percent(at):g}%, 100% - 2px)"></b>' for at in sorted(set(row.ticks_ms)))
    says = escape(row.says)
    return (
        f'<span class="t-name">{escape(row.name)}</span>'
        f'<span class="t-bar" role="img" aria-label="{escape(row.name)}: {says}" title="{says}">{bars}{ticks}</span>'
        f"<span>{says}</span>"
    )


def _bar(bar: Bar, left: float, right: float) -> str:
    """Draw a bar. One of no length at the right edge starts earlier, because it would be outside."""
    return f'<i class="{bar.meaning}" style="left:min({left:g}%, 100% - 3px);width:{max(right - left, 0):g}%"></i>'
