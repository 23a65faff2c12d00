"""The phases of one checkpoint: a row of bars per subtask, with the reason why an unfinished subtask waits.

For a vertex with many subtasks, the slowest are shown, and all that are outliers or not finished.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

import pandas as pd

from kit.core.protocol.tasks import vertex_of
from kit.draw.view_html import answer, fold, view_html, words
from kit.draw.views.phase_rows import STYLE, axis_html, legend_html, row_html
from kit.draw.views.view import View
from kit.run.checkpoint_path import BARRIER, EITHER, TRIGGER, Span
from kit.run.checkpoint_words import how_it_went, slow_phases, spans_of_task
from kit.run.durations import duration
from kit.run.journeys import Journeys
from kit.run.moments.job_state import ABORTED, COMPLETED, CheckpointMoment
from kit.run.subject import Subject
from kit.why.phases import phases_of, waits_for

MOST_ROWS = 12
"""The most subtasks of a vertex that are all shown at first."""
SLOWEST, MOST_SHOWN = 3, 6


@dataclass(frozen=True)
class PhaseBars:
    """The phases of a checkpoint's subtasks; `checkpoint` is None if the run has none yet."""

    found: Journeys
    checkpoint: int | None
    table: pd.DataFrame

    @property
    def known(self) -> CheckpointMoment | None:
        """The checkpoint as its coordinator sees it."""
        return None if self.checkpoint is None else self.found.last.checkpoints[self.checkpoint]

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per subtask: see `kit.draw.phases`."""
        return self.table

    def __repr__(self) -> str:
        known = self.known
        if known is None:
            return "PhaseBars(no checkpoint)"
        return f"PhaseBars({known.checkpoint_id}: {how_it_went(self.found, known)})"

    def _repr_html_(self) -> str:
        if self.known is None:
            return view_html(VIEW.title, words("No checkpoint has begun yet."))
        return _Drawing(self.found, self.known, self.table.set_index("task")).html()


class _Drawing:
    """The rows of one checkpoint; `table` has a row per task."""

    def __init__(self, found: Journeys, known: CheckpointMoment, table: pd.DataFrame) -> None:
        self._known, self._table = known, table
        self._went = how_it_went(found, known)
        self._spans = {task: spans_of_task(found, known, task) for task in known.expected}
        self._slow = slow_phases(found, known)
        """The outliers, by task and phase: their duration and that of the operator's other subtasks, in ms."""
        self._until_ms = max([1.0, *(span.end_ms - known.triggered_ms for span in self._every)])

    @property
    def _every(self) -> Iterator[Span]:
        return chain.from_iterable(self._spans.values())

    def html(self) -> str:
        """Return the view."""
        known = self._known
        kind = "Savepoint" if known.savepoint else "Checkpoint"
        meaning = {COMPLETED: "good", ABORTED: "bad"}.get(known.status, "waits")
        parts = [answer(f"{kind} {known.checkpoint_id} is {self._went}.", meaning), axis_html(self._until_ms)]
        by_vertex: dict[str, list[str]] = defaultdict(list)
        for task in self._spans:
            by_vertex[vertex_of(task)].append(task)
        for vertex, tasks in by_vertex.items():
            parts += self._vertex(vertex, tasks)
        legend = legend_html(self._every, is_any_slow=bool(self._slow))
        return view_html(VIEW.title, *parts, legend, styles=(STYLE,))

    def _vertex(self, vertex: str, tasks: Sequence[str]) -> Iterable[str]:
        if len(tasks) <= MOST_ROWS:
            return map(self._row, tasks)
        lengths = {task: self._length(task) for task in tasks}
        slowest = sorted(tasks, key=lambda task: -lengths[task])[:SLOWEST]
        noted = {task for task, _ in self._slow} | {task for task, spans in self._spans.items() if spans[-1].open}
        shown = [task for task in tasks if task in slowest or task in noted][:MOST_SHOWN]
        rest = [task for task in tasks if task not in shown]
        of_rest = [lengths[task] for task in rest]
        about = f"{duration(min(of_rest))} to {duration(max(of_rest))}, half of them within {duration(median(of_rest))}"
        others = fold(f"{len(rest)} more of {vertex}", about, "".join(map(self._row, rest)))
        return [*map(self._row, shown), others]

    def _length(self, task: str) -> int:
        return sum(span.end_ms - span.start_ms for span in self._spans[task])

    def _row(self, task: str) -> str:
        usual = {phase: usual for (of_task, phase), (_, usual) in self._slow.items() if of_task == task}
        began_ms = self._known.triggered_ms
        return row_html(task, self._spans[task], began_ms, self._until_ms, self._told(task), usual)

    def _told(self, task: str) -> tuple[str, str]:
        """Return the note after a subtask's bars, and its style."""
        row = self._table.loc[task]
        if row["status"] == "declined":
            return "declined", "bad"
        if row["waits_for"]:
            return waits_for(self._known, row["waits_for"]), "bad"
        slow = [(phase, usual) for (of_task, phase), usual in self._slow.items() if of_task == task]
        if slow:
            phase, (length, usual) = max(slow, key=lambda each: each[1])
            look = next(span.look for span in self._spans[task] if span.phase == phase)
            return f"{duration(length)} {SHORT[look]}, the others {duration(usual)}", "bad"
        return duration(self._length(task)), ""


SHORT = {
    TRIGGER: "until the trigger",
    EITHER: "until it began",
    BARRIER: "until the first barrier",
    "alignment": "waiting for other barriers",
    "sync": "copying",
    "async": "writing",
    "in_flight": "capturing in-flight data",
    "ack": "for the acknowledgement",
}


def phase_bars(subject: Subject) -> PhaseBars:
    """Return the phases of the subject's checkpoint."""
    found, checkpoint = subject.journeys, subject.checkpoint_id
    checkpoint = checkpoint if checkpoint in found.last.checkpoints else None
    table = phases_of(found, -1 if checkpoint is None else checkpoint)
    return PhaseBars(found, checkpoint, table)


VIEW = View("phases", "Phases", "Where did a checkpoint's time go, and who was slow?", phase_bars)
