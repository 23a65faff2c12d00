"""The phases of subtasks as rows of bars on one axis, for finished and pending checkpoints.

A `PhaseRow` is one subtask's row. The explorer's view and the monitor draw it as HTML, `kit.draw.gantt` as a chart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from kit.run.checkpoint_path import EITHER, TRIGGER, WHOLE_ASYNC, Span, legend_of
from kit.run.durations import duration

STYLE = "phase_bars.css"
TICKS = 4
PHASE_INKS = {
    "start_delay": "line-2",
    "alignment": "align-solid",
    "sync": "bad-solid",
    "async": "accent",
    "in_flight": "capture",
    "ack": "good-solid",
}
"""The theme's colour of each phase."""
LOOK_INKS = {
    TRIGGER: PHASE_INKS["start_delay"],
    EITHER: PHASE_INKS["start_delay"],
    WHOLE_ASYNC: PHASE_INKS["async"],
    **PHASE_INKS,
}
"""The colour of each look of a span."""
OPEN_WORDS = "not finished"
SLOW_WORDS = "much longer than at the others of its operator"


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One subtask's phases, with the note after its bars. A bad note explains a wait, a decline or a slow phase.

    `usual_ms` is, for each phase in which the subtask was much slower, the time that the others of its operator took.
    """

    task: str
    spans: Sequence[Span]
    note: str = ""
    is_bad: bool = False
    usual_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def length_ms(self) -> float:
        """The time from the trigger until the subtask was done, or until now."""
        return sum(span.end_ms - span.start_ms for span in self.spans)


def axis_html(until_ms: float) -> str:
    """Return the axis of all rows, from the trigger on."""
    marks = (
        f'<i style="left:{100 * step / TICKS:g}%"><span>{duration(round(until_ms * step / TICKS))}</span></i>'
        for step in range(TICKS + 1)
    )
    return f'<div class="ph-row ph-axis"><span></span><div class="ph-track">{"".join(marks)}</div></div>'


def row_html(row: PhaseRow, began_ms: float, until_ms: float) -> str:
    """Return the row of one subtask, on an axis of `until_ms` that begins at `began_ms`."""
    bars = "".join(
        _bar(span, began_ms, until_ms, row.usual_ms.get(span.phase)) for span in row.spans if span.is_seen or span.open
    )
    task = escape(row.task)
    return (
        f'<div class="ph-row"><span class="ph-name" title="{task}"><bdi dir="ltr">{task}</bdi></span>'
        f'<div class="ph-track">{bars}</div><span class="ph-note {"bad" if row.is_bad else ""}">'
        f"{escape(row.note)}</span></div>"
    )


def _bar(span: Span, began_ms: float, until_ms: float, usual_ms: float | None) -> str:
    length = span.end_ms - span.start_ms
    left, width = (100 * at / until_ms for at in (span.start_ms - began_ms, length))
    looks = f"{span.phase}{' open' if span.open else ''}{'' if usual_ms is None else ' slow'}"
    place = f"left:{left:.2f}%;width:{width:.2f}%;{_ink(span.phase)}"
    return f'<i class="{looks}" style="{place}" title="{escape(_bar_hint(span, usual_ms))}"></i>'


def _ink(phase: str) -> str:
    return f"background-color:var(--kit-{PHASE_INKS[phase]});border-color:var(--kit-{PHASE_INKS[phase]})"


def _bar_hint(span: Span, usual_ms: float | None) -> str:
    words = f"{span.words}: {duration(span.end_ms - span.start_ms)}{f', {OPEN_WORDS}' if span.open else ''}"
    return words if usual_ms is None else f"{words}; the others of its operator {duration(usual_ms)}"


def legend_html(spans: Iterable[Span], *, is_any_slow: bool = False) -> str:
    """Return a legend of the colours that occur in these bars."""
    spans = list(spans)
    signs = [(f'<i style="{_ink(phase)}"></i>', words) for phase, words in legend_of(spans)]
    if any(span.open for span in spans):
        signs.append(('<i class="open"></i>', OPEN_WORDS))
    if is_any_slow:
        signs.append(('<i class="slow"></i>', SLOW_WORDS))
    listed = "".join(f"<span>{sign}{escape(words)}</span>" for sign, words in signs)
    return f'<div class="v-legend ph-legend">{listed}</div>'
