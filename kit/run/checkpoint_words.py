"""Sentences about one checkpoint of a run: what crossed its cut, how it went, which tasks were slow or are awaited."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from statistics import median
from typing import NamedTuple

from kit.core.protocol.tasks import vertex_of
from kit.run.checkpoint_path import BARRIER, EITHER, PHASES, TRIGGER, Path, Span, spans_of
from kit.run.durations import duration
from kit.run.journeys import Journeys
from kit.run.moments.job_state import ABORTED, PENDING, CheckpointMoment, Moment
from kit.run.reason_words import ended_in_short

OUTLIER = 2.0
"""The factor over the median of the operator's subtasks from which a time is marked, if it also exceeds the median by
`OUTLIER_MS`.
"""
OUTLIER_MS = 5
SHARE = 0.1
"""The share of a checkpoint's duration that a phase must take to count as slow."""

DOING = {
    TRIGGER: "went by before it was triggered",
    EITHER: "went by before it began",
    BARRIER: "went by before the first barrier arrived",
    "alignment": "it waited for the other barriers",
    "sync": "it copied its state",
    "async": "it wrote the copy",
    "in_flight": "it captured and wrote in-flight data",
    "ack": "its acknowledgement was under way",
}
"""What a subtask spent its time on, by look; `PHASE_WORDS` describes a subtask that is still in the phase."""


class Crossed(NamedTuple):
    """The numbers of buffers and records that crossed a cut, in each direction."""

    buffers_in_flight: int = 0
    records_in_flight: int = 0
    buffers_against: int = 0
    records_against: int = 0


def what_crossed(known: CheckpointMoment, crossed: Crossed, copied: Container[str], is_detailed: bool) -> str:
    """Describe in one line what the picture of a checkpoint's cut shows.

    `copied` are the tasks that copied their state; `is_detailed` says whether the run records buffers.
    """
    what = f"{'Savepoint' if known.savepoint else 'Checkpoint'} {known.checkpoint_id}"
    copied_tasks = [task for task in known.expected if task in copied]
    if not copied_tasks:
        return f"{what}: no task has copied its state for it yet"
    if len(copied_tasks) < len(known.expected):
        so_far = "had copied their state when it ended" if known.status == ABORTED else "have copied their state"
        return f"{what}: {len(copied_tasks)} of {len(known.expected)} tasks {so_far}"
    if crossed.buffers_against:
        amount = _counted(crossed.buffers_against, crossed.records_against)
        return f"{what}: {amount} crossed its cut backwards; a restore would repeat them"
    if crossed.buffers_in_flight:
        kept = "it was aborted, and keeps nothing" if known.status == ABORTED else "it keeps them"
        amount = _counted(crossed.buffers_in_flight, crossed.records_in_flight)
        return f"{what}: {amount} crossed its cut in flight; {kept}"
    if is_detailed:
        return f"{what}: nothing crosses its cut, so the tasks' states alone are consistent"
    return f"{what}: its cut through the tasks, and the barriers that drew it"


def _counted(buffers: int, rows: int) -> str:
    return f"{buffers:,} {'buffer' if buffers == 1 else 'buffers'} with {rows:,} {'record' if rows == 1 else 'records'}"


def how_it_went(found: Journeys, known: CheckpointMoment) -> str:
    """Describe the checkpoint's course, and name the tasks that were slow or are awaited."""
    if known.status == PENDING:
        missing = len(known.missing)
        return f"under way: {missing} of {len(known.expected)} acknowledgements are still to come"
    if known.status == ABORTED:
        return f"aborted after {duration(known.duration_ms)}: {ended_in_short(known.reason)}"
    took = took_ms(found, known)
    last = max(took, key=lambda task: took[task], default="")
    if not last:
        return f"complete after {duration(known.duration_ms)}"
    spans = spans_of_task(found, known, last)
    longest = max(spans, key=lambda span: span.end_ms - span.start_ms, default=None)
    phase = ""
    if longest is not None and longest.is_seen:
        phase = f": {duration(longest.end_ms - longest.start_ms)} of its {duration(took[last])} {DOING[longest.look]}"
    return f"complete after {duration(known.duration_ms)}; {last} was the last to acknowledge{phase}"


def took_ms(found: Journeys, known: CheckpointMoment) -> dict[str, float]:
    """Return the time from the trigger to each task's acknowledgement, in ms."""
    paths = ((task, found.paths.get((known.checkpoint_id, task))) for task in known.expected)
    return {
        task: path.ends["ack"] - known.triggered_ms for task, path in paths if path is not None and "ack" in path.ends
    }


def spans_of_task(found: Journeys, known: CheckpointMoment, task: str) -> list[Span]:
    """Return the phases of a task's path through a checkpoint; none if the task does not take part."""
    if task not in known.expected:
        return []
    last: Moment = found.last
    until = last.at_ms if known.finished_ms is None else known.finished_ms
    path = found.paths.get((known.checkpoint_id, task), Path())
    return spans_of(path, known.triggered_ms, until, begins_with(known, task))


def begins_with(known: CheckpointMoment, task: str) -> str:
    """Return what a task waits for before it begins a checkpoint: `TRIGGER`, `BARRIER`, or `EITHER` if unknown."""
    return EITHER if known.triggers is None else TRIGGER if task in known.triggers else BARRIER


def outliers(took: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the tasks that took much longer than others of their operator: their time and the operator's median, in
    ms.
    """
    by_vertex: dict[str, list[float]] = {}
    for task, length in took.items():
        by_vertex.setdefault(vertex_of(task), []).append(length)
    usual = {vertex: median(lengths) for vertex, lengths in by_vertex.items()}
    return {
        task: (length, usual[vertex_of(task)])
        for task, length in took.items()
        if length > max(OUTLIER * usual[vertex_of(task)], usual[vertex_of(task)] + OUTLIER_MS)
    }


def slow_phases(found: Journeys, known: CheckpointMoment) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the phases that took a task much longer than its operator's others, and much of the checkpoint's time.

    The result maps task and phase to the time of the task and the median of the operator, in ms.
    """
    spans = [(task, span) for task in known.expected for span in spans_of_task(found, known, task)]
    least = SHARE * max((span.end_ms - known.triggered_ms for _, span in spans), default=0)
    slow: dict[tuple[str, str], tuple[float, float]] = {}
    for phase in PHASES:
        lengths = {task: float(span.end_ms - span.start_ms) for task, span in spans if span.phase == phase}
        slow |= {(task, phase): times for task, times in outliers(lengths).items() if times[0] >= least}
    return slow


def enumerated(names: Iterable[str], most: int = 3) -> str:
    """List the first names, and count the others."""
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(all_names[:most]) + (f" and {more} more" if more > 0 else "")
