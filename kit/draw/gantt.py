"""Where the time of a checkpoint went: the phases of every subtask, finished or not.

A subtask's path through a checkpoint has five phases. *Start delay*: from the trigger until its first barrier (or, at
a source, the trigger's message) is there. *Alignment*: until the last barrier is there. *Sync*: the copy of its
state, while it does nothing else. *Async*: until its files are written. *Ack*: until the coordinator has its
acknowledgement. All of it is read from the times of the trace's records, so a subtask that never finished shows how
far it came; its last phase is open and lasts until the checkpoint's end, or the trace's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from kit.draw.checkpoint_path import Path
from kit.draw.job_state import COMPLETED, Moment, is_of_the_job_master, task_of
from kit.draw.kinds import kind_of
from kit.draw.moment import moment_at
from kit.draw.picture import Chart
from kit.draw.run import run_of
from kit.protocol.trace import TraceRecord

PHASES = ("start_delay", "alignment", "sync", "async", "ack")
PHASE_COLOURS = {
    "start_delay": "#c3cbd5",
    "alignment": "#e69f00",
    "sync": "#d55e00",
    "async": "#56b4e9",
    "ack": "#009e73",
}
PHASE_WORDS = {
    "start_delay": "waits for the first barrier",
    "alignment": "waits for the other barriers",
    "sync": "copies its state",
    "async": "writes the copy",
    "ack": "acknowledgement under way",
}
COLUMNS = ["checkpoint_id", "task", "status", "open_phase", *(f"{phase}_ms" for phase in PHASES), "total_ms", "bytes"]


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of a subtask's path; an open one lasts until the checkpoint's end, or the trace's."""

    phase: str
    start_ms: int
    end_ms: int
    open: bool


def phases(run: Any, checkpoint: int | None = None) -> pd.DataFrame:
    """One row per checkpoint and subtask, or those of one checkpoint, of a Lab, a SparkJob or a Trace.

    Columns: checkpoint_id, task, status ("acknowledged", "declined", "unfinished"), open_phase (the phase an
    unfinished subtask is in, else ""), start_delay_ms, alignment_ms, sync_ms, async_ms, ack_ms, total_ms (Int64; what
    has not begun is missing, an open phase is as long as it lasted), bytes (Int64).
    """
    records = run_of(run).trace
    last = moment_at(records)
    paths = _paths(records)
    rows = []
    for checkpoint_id, known in last.checkpoints.items():
        if checkpoint not in (None, checkpoint_id):
            continue
        until = known.finished_ms if known.finished_ms is not None else last.at_ms
        for task in known.expected:
            path = paths.get((checkpoint_id, task), Path())
            spans = spans_of(path, known.triggered_ms, until)
            lengths: dict[str, int] = {span.phase: span.end_ms - span.start_ms for span in spans}
            open_phase = next((span.phase for span in spans if span.open), "")
            rows.append(
                [
                    checkpoint_id,
                    task,
                    "declined" if path.declined_ms is not None else "unfinished" if open_phase else "acknowledged",
                    open_phase,
                    *(lengths.get(phase) for phase in PHASES),
                    sum(lengths.values()),
                    path.bytes_written,
                ]
            )
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({name: "Int64" for name in COLUMNS if name.endswith("_ms") or name == "bytes"})


def gantt(run: Any, checkpoint: int | None = None) -> Chart:
    """The phases of one checkpoint's subtasks as bars over time, by default of the last checkpoint that began.

    `run` is a Lab, a SparkJob or a Trace. Raises ValueError when it knows no such checkpoint.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    records = run_of(run).trace
    last = moment_at(records)
    number = max(last.checkpoints, default=None) if checkpoint is None else checkpoint
    if number is None or number not in last.checkpoints:
        there = ", ".join(map(str, last.checkpoints)) or "none"
        asked = "no checkpoint yet" if checkpoint is None else f"no checkpoint {number}; there are: {there}"
        raise ValueError(f"the run has {asked}")
    known = last.checkpoints[number]
    until = known.finished_ms if known.finished_ms is not None else last.at_ms
    paths = _paths(records)
    figure = Figure(
        figsize=(12.0, 1.5 + 0.32 * max(1, len(known.expected))), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    )
    axes = figure.subplots()
    for row, task in enumerate(known.expected):
        path = paths.get((number, task), Path())
        spans = spans_of(path, known.triggered_ms, until)
        _bars(axes, row, spans, known.triggered_ms)
        if path.declined_ms is not None:
            axes.text(path.declined_ms - known.triggered_ms, row, " ✗ declined", va="center", fontsize=9)
        elif spans and spans[-1].open:
            axes.text(until - known.triggered_ms, row, " not done", va="center", fontsize=9, color="#a33a00")
    axes.set_yticks(range(len(known.expected)), known.expected, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.0, (until - known.triggered_ms) * 1.12))
    axes.set_xlabel("ms since the trigger")
    axes.set_title(_title(last, number), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(facecolor=PHASE_COLOURS[phase], label=f"{phase}: {PHASE_WORDS[phase]}") for phase in PHASES]
    handles.append(Patch(facecolor="white", edgecolor="#54606f", hatch="////", label="hatched: not finished"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return Chart(figure, _title(last, number))


def _title(last: Moment, number: int) -> str:
    known = last.checkpoints[number]
    kind = "Savepoint" if known.savepoint else "Checkpoint"
    if known.status == COMPLETED:
        return f"{kind} {number}: complete after {known.duration_ms} ms"
    if known.finished_ms is not None:
        return f"{kind} {number}: aborted after {known.duration_ms} ms, {known.reason.replace('_', ' ').lower()}"
    return f"{kind} {number}: under way, {len(known.missing)} of {len(known.expected)} still to come"


def _bars(axes: Any, row: int, spans: Sequence[Span], start_ms: int) -> None:
    for span in spans:
        axes.barh(
            row,
            max(span.end_ms - span.start_ms, 0),
            left=span.start_ms - start_ms,
            height=0.68,
            color=PHASE_COLOURS[span.phase] if not span.open else "white",
            edgecolor=PHASE_COLOURS[span.phase] if span.open else "white",
            hatch="////" if span.open else None,
            linewidth=0.8,
        )


def _paths(records: Sequence[TraceRecord]) -> dict[tuple[int, str], Path]:
    """Each subtask's path through each checkpoint, from the records that tell of it."""
    paths: dict[tuple[int, str], Path] = {}
    for record in records:
        side = kind_of(record).side(record.role)
        if record.checkpoint_id is None or side is None or side.path is None:
            continue
        task = task_of(record)
        if is_of_the_job_master(record):  # the JobMaster's record of what a task said
            task = record.data["task"]
        side.path(paths.setdefault((record.checkpoint_id, task), Path()), record)
    return paths


def spans_of(path: Path, start_ms: int, until_ms: int) -> list[Span]:
    """The phases one after the other; the first without an end is open, and the last. Between hosts clocks may differ a
    little: no span is shorter than nothing.
    """
    spans: list[Span] = []
    at = start_ms
    until = path.declined_ms if path.declined_ms is not None else until_ms
    for phase in PHASES:
        end = path.ends.get(phase)
        if end is None:
            # the sync part ends with the event that the async part begins in: until the files are written both are one
            shown = "async" if phase == "sync" else phase
            return [*spans, Span(shown, at, max(at, until), open=True)]
        spans.append(Span(phase, at, max(at, end), open=False))
        at = max(at, end)
    return spans
