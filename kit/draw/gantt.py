"""Where the time of a checkpoint went: the phases of every subtask, finished or not.

The phases are those of `kit.draw.checkpoint_path`, read from the times of the trace's records. So a subtask that never
finished shows how far it came and what it waits for; its last phase is open and lasts until the checkpoint's end, or
the trace's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kit.draw.assets import light_colours
from kit.draw.checkpoint_path import PHASES, Path, Span, legend_of
from kit.draw.checkpoint_words import slow_phases, spans_of_task
from kit.draw.durations import duration
from kit.draw.job_state import COMPLETED, PENDING, CheckpointMoment
from kit.draw.journeys import Journeys, journeys
from kit.draw.picture import Chart
from kit.draw.run import Run, run_of
from kit.draw.stage import stage_for
from kit.draw.waiting import Waiting

if TYPE_CHECKING:
    import pandas as pd

PHASE_INKS = {
    "start_delay": "line-2",
    "alignment": "align-solid",
    "sync": "bad-solid",
    "async": "accent",
    "in_flight": "capture",
    "ack": "good-solid",
}
"""The theme's names of the phases' colours."""
COLUMNS = [
    "checkpoint_id",
    "task",
    "status",
    "open_phase",
    *(f"{phase}_ms" for phase in PHASES),
    "total_ms",
    "bytes",
    "waits_for",
]
LONGEST_NOTE = 70


def phases(run: Any, checkpoint: int | None = None) -> pd.DataFrame:
    """One row per checkpoint and subtask, or those of one checkpoint, of a Lab, a SparkJob or a Trace.

    Columns: checkpoint_id, task, status ("acknowledged", "declined", "unfinished"), open_phase (the phase an
    unfinished subtask is in, else ""), start_delay_ms, alignment_ms, sync_ms, async_ms, in_flight_ms (what Flink counts
    as a part of async), ack_ms, total_ms (Int64; what has not begun is missing, an open phase is as long as it lasted),
    bytes (Int64), waits_for (what an unfinished one waits for, or waited for when the checkpoint ended, in words; else
    "").
    """
    shown = run_of(run)
    return phases_of(shown, journeys(shown), checkpoint)


def phases_of(run: Run, found: Journeys, checkpoint: int | None = None) -> pd.DataFrame:
    """The same of a run whose journeys are known."""
    import pandas as pd

    rows = [
        row
        for number, known in found.last.checkpoints.items()
        if checkpoint in (None, number)
        for row in _rows(found, known, waiting_in(run, found, known))
    ]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({name: "Int64" for name in COLUMNS if name.endswith("_ms") or name == "bytes"})


def waiting_in(run: Run, found: Journeys, known: CheckpointMoment) -> Waiting:
    """Who waits for what in a checkpoint of a run."""
    life = found.lives.get(known.checkpoint_id)
    epoch = found.last.epoch if life is None else found.epoch_at(life.triggered)
    return Waiting(found, known, stage_for(run.known, epoch).ends() if run.known else {})


def waits_for(known: CheckpointMoment, what: str) -> str:
    """What an unfinished task waits for; in the past tense once the checkpoint is over."""
    return f"{'waits' if known.status == PENDING else 'waited'} for {what}"


def waits_in(run: Run, found: Journeys, known: CheckpointMoment) -> dict[str, str]:
    """What each task waits for that has not finished a checkpoint."""
    waiting = waiting_in(run, found, known)
    rows = _rows(found, known, waiting)
    return {row[1]: row[-1] for row in rows if row[-1]}


def _rows(found: Journeys, known: CheckpointMoment, waiting: Waiting) -> list[list[Any]]:
    rows = []
    for task in known.expected:
        path = found.paths.get((known.checkpoint_id, task), Path())
        spans = spans_of_task(found, known, task)
        lengths: dict[str, int] = {span.phase: span.end_ms - span.start_ms for span in spans}
        open_phase = next((span.phase for span in spans if span.open), "")
        status = "declined" if path.declined_ms is not None else "unfinished" if open_phase else "acknowledged"
        times = (lengths.get(phase) for phase in PHASES)
        waits = waiting.of(task, open_phase) if status == "unfinished" else ""
        took = sum(lengths.values())
        rows.append([known.checkpoint_id, task, status, open_phase, *times, took, path.bytes_written, waits])
    return rows


def gantt(run: Any, checkpoint: int | None = None) -> Chart:
    """The phases of one checkpoint's subtasks as bars over time, by default of the last checkpoint that began.

    `run` is a Lab, a SparkJob or a Trace. Raises ValueError when it knows no such checkpoint.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    shown = run_of(run)
    found = journeys(shown)
    last = found.last
    number = max(last.checkpoints, default=None) if checkpoint is None else checkpoint
    if number is None or number not in last.checkpoints:
        there = ", ".join(map(str, last.checkpoints)) or "none"
        asked = "no checkpoint yet" if checkpoint is None else f"no checkpoint {number}; there are: {there}"
        raise ValueError(f"the run has {asked}")
    known = last.checkpoints[number]
    until = known.finished_ms if known.finished_ms is not None else last.at_ms
    table = phases_of(shown, found, number).set_index("task")
    slow = _slow(found, known)
    figure = Figure(
        figsize=(9.4, 1.5 + 0.32 * max(1, len(known.expected))), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    )
    axes = figure.subplots()
    drawn = {task: spans_of_task(found, known, task) for task in known.expected}
    for row, (task, spans) in enumerate(drawn.items()):
        _bars(axes, row, spans, known.triggered_ms)
        ends = max((span.end_ms for span in spans), default=until) - known.triggered_ms
        declined, waits = table.loc[task, "status"] == "declined", table.loc[task, "waits_for"]
        note = "✗ declined" if declined else waits_for(known, waits) if waits else slow.get(task, "")
        if note:
            _note(axes, row, ends, until - known.triggered_ms, note)
    axes.set_yticks(range(len(known.expected)), known.expected, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.0, (until - known.triggered_ms) * 1.12))
    axes.set_xlabel("ms since the trigger")
    axes.set_title(_title(known), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    seen = [span for spans in drawn.values() for span in spans if span.is_seen]
    handles = [
        Patch(facecolor=light_colours()[PHASE_INKS[phase]], label=f"{phase}: {words}")
        for phase, words in legend_of(seen)
    ]
    if any(span.open for span in seen):
        quiet = light_colours()["quiet"]
        handles.append(Patch(facecolor="white", edgecolor=quiet, hatch="////", label="hatched: not finished"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return Chart(figure, _title(known))


def _slow(found: Journeys, known: CheckpointMoment) -> dict[str, str]:
    """Of each subtask that was much slower than its operator's others what to say of the phase that made it so."""
    return {
        task: f"{phase.replace('_', ' ')} {duration(length)}, the others {duration(usual)}"
        for (task, phase), (length, usual) in slow_phases(found, known).items()
    }


def _note(axes: Any, row: int, ends_ms: float, until_ms: float, note: str) -> None:
    """What is said of a subtask: behind its bars, or, where there is no room, at their end."""
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
        return f"{kind} {number}: aborted after {duration(known.duration_ms)}, {known.reason.replace('_', ' ').lower()}"
    return f"{kind} {number}: under way, {len(known.missing)} of {len(known.expected)} still to come"


def _bars(axes: Any, row: int, spans: Sequence[Span], start_ms: int) -> None:
    inks = light_colours()
    for span in filter(lambda each: each.is_seen, spans):
        axes.barh(
            row,
            span.end_ms - span.start_ms,
            left=span.start_ms - start_ms,
            height=0.68,
            color=inks[PHASE_INKS[span.phase]] if not span.open else "white",
            edgecolor=inks[PHASE_INKS[span.phase]] if span.open else "white",
            hatch="////" if span.open else None,
            linewidth=0.8,
        )
