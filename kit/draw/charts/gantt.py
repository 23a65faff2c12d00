"""The phases of a checkpoint's subtasks as bars over time (`kit.why.phases`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kit.core.extras import naming_extras
from kit.draw.assets import light_colours
from kit.draw.picture import Chart
from kit.draw.views.phase_bars import phase_rows
from kit.draw.views.phase_rows import PHASE_INKS
from kit.run.checkpoint_path import Span, legend_of
from kit.run.durations import duration
from kit.run.journeys import journeys
from kit.run.moments.job_state import COMPLETED, CheckpointMoment
from kit.run.reason_words import ended_in_short
from kit.run.run import run_of
from kit.why.phases import phases_of

LONGEST_NOTE = 70


def gantt(run: Any, checkpoint: int | None = None) -> Chart:
    """Draw the phases of one checkpoint's subtasks as bars over time; by default of the last checkpoint that began.

    `run` is a Lab, a SparkJob or a Trace. Raises ValueError when it knows no such checkpoint.
    """
    with naming_extras():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from matplotlib.patches import Patch

    shown = run_of(run)
    found = journeys(shown)
    last = found.last
    number = max(last.checkpoints, default=None) if checkpoint is None else checkpoint
    if number is None or number not in last.checkpoints:
        known_ids = ", ".join(map(str, last.checkpoints)) or "none"
        asked = "no checkpoint yet" if checkpoint is None else f"no checkpoint {number}; there are: {known_ids}"
        raise ValueError(f"the run has {asked}")
    known = last.checkpoints[number]
    until = known.finished_ms if known.finished_ms is not None else last.at_ms
    rows = phase_rows(found, known, phases_of(found, number))
    figure = Figure(
        figsize=(9.4, 1.5 + 0.32 * max(1, len(known.expected))), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    )
    axes = figure.subplots()
    for place, row in enumerate(rows):
        _bars(axes, place, row.spans, known.triggered_ms)
        ends = max((span.end_ms for span in row.spans), default=until) - known.triggered_ms
        if row.is_bad:
            _note(axes, place, ends, until - known.triggered_ms, row.note)
    axes.set_yticks(range(len(known.expected)), known.expected, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.0, (until - known.triggered_ms) * 1.12))
    axes.set_xlabel("ms since the trigger")
    axes.set_title(_title(known), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    seen = [span for row in rows for span in row.spans if span.is_seen]
    inks = light_colours()
    handles = [Patch(facecolor=inks[PHASE_INKS[phase]], label=f"{phase}: {words}") for phase, words in legend_of(seen)]
    if any(span.open for span in seen):
        handles.append(Patch(facecolor="white", edgecolor=inks["quiet"], hatch="////", label="hatched: not finished"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return Chart(figure, _title(known))


def _note(axes: Any, row: int, ends_ms: float, until_ms: float, note: str) -> None:
    """Write a subtask's note after its bars, or at their end if space is short."""
    shown = note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"
    left = ends_ms < 0.6 * until_ms
    box = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 1.0}
    place = {"va": "center", "ha": "left" if left else "right", "fontsize": 9, "color": light_colours()["bad"]}
    axes.text(ends_ms + (0.01 if left else -0.01) * until_ms, row, shown, bbox=box, **place)


def _title(known: CheckpointMoment) -> str:
    number = known.checkpoint_id
    kind = "Savepoint" if known.savepoint else "Checkpoint"
    if known.status == COMPLETED:
        return f"{kind} {number}: complete after {duration(known.duration_ms)}"
    if known.finished_ms is not None:
        return f"{kind} {number}: aborted after {duration(known.duration_ms)}, {ended_in_short(known.reason)}"
    return f"{kind} {number}: under way, {len(known.missing)} of {len(known.expected)} still to come"


def _bars(axes: Any, row: int, spans: Sequence[Span], start_ms: int) -> None:
    for span in spans:
        if not span.is_seen:
            continue
        ink = light_colours()[PHASE_INKS[span.phase]]
        axes.barh(
            row,
            span.end_ms - span.start_ms,
            left=span.start_ms - start_ms,
            height=0.68,
            color="white" if span.open else ink,
            edgecolor=ink if span.open else "white",
            hatch="////" if span.open else None,
            linewidth=0.8,
        )
