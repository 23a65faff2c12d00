"""The phases of subtasks as rows of bars on one axis, for finished and pending checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from kit.run.checkpoint_path import Span, legend_of
from kit.run.durations import duration

STYLE = "phase_bars.css"
TICKS = 4


def axis_html(until_ms: float) -> str:
    """Return the axis of all rows, from the trigger on."""
    marks = (
        f'<i style="left:{100 * step / TICKS:g}%"><span>{duration(round(until_ms * step / TICKS))}</span></i>'
        for step in range(TICKS + 1)
    )
    return f'<div class="ph-row ph-axis"><span></span><div class="ph-track">{"".join(marks)}</div></div>'


def row_html(
    task: str,
    spans: Sequence[Span],
    began_ms: float,
    until_ms: float,
    told: tuple[str, str],
    usual_ms: Mapping[str, float] | None = None,
) -> str:
    """Return the row of one subtask. `told` is the note after its bars and its style ("bad" or empty). `usual_ms` is
    the time that the others of its operator took, for the phases in which it was much slower.
    """
    usual_ms = usual_ms or {}
    bars = "".join(
        _bar(span, began_ms, until_ms, usual_ms.get(span.phase)) for span in spans if span.is_seen or span.open
    )
    return (
        f'<div class="ph-row"><span class="ph-name" title="{escape(task)}"><bdi dir="ltr">{escape(task)}</bdi></span>'
        f'<div class="ph-track">{bars}</div><span class="ph-told {told[1]}">{escape(told[0])}</span></div>'
    )


def _bar(span: Span, began_ms: float, until_ms: float, usual_ms: float | None) -> str:
    length = span.end_ms - span.start_ms
    left, width = (100 * at / until_ms for at in (span.start_ms - began_ms, length))
    looks = f"{span.phase}{' open' if span.open else ''}{'' if usual_ms is None else ' slow'}"
    told = f"{span.words}: {duration(length)}{', not finished' if span.open else ''}"
    told += "" if usual_ms is None else f"; the others of its operator {duration(usual_ms)}"
    return f'<i class="{looks}" style="left:{left:.2f}%;width:{width:.2f}%" title="{escape(told)}"></i>'


def legend_html(spans: Iterable[Span], *, is_any_slow: bool = False) -> str:
    """Return a legend of the colours that occur in these bars."""
    spans = list(spans)
    signs = [(f'<i class="{phase}"></i>', words) for phase, words in legend_of(spans)]
    if any(span.open for span in spans):
        signs.append(('<i class="open"></i>', "not finished"))
    if is_any_slow:
        signs.append(('<i class="slow"></i>', "much longer than at the others of its operator"))
    listed = "".join(f"<span>{sign}{escape(told)}</span>" for sign, told in signs)
    return f'<div class="v-legend ph-legend">{listed}</div>'
