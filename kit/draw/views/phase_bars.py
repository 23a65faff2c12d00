"""The phases of one checkpoint: a row of bars per subtask, with the reason why an unfinished subtask waits.

For a vertex with many subtasks, the slowest are shown, and all that are outliers or not finished.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median

import pandas as pd

from kit.core.protocol.tasks import vertex_of
from kit.draw.view_html import answer, fold, view_html, words
from kit.draw.views.phase_rows import STYLE, PhaseRow, axis_html, legend_html, row_html
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
        return _Drawing(self.found, self.known, self.table).html()


class _Drawing:
    """The rows of one checkpoint."""

    def __init__(self, found: Journeys, known: CheckpointMoment, table: pd.DataFrame) -> None:
        self._known = known
        self._went = how_it_went(found, known)
        self._rows = phase_rows(found, known, table)
        self._until_ms = max([1.0, *(span.end_ms - known.triggered_ms for span in self._every_span)])

    @property
    def _every_span(self) -> Iterator[Span]:
        return chain.from_iterable(row.spans for row in self._rows)

    def html(self) -> str:
        """Return the view."""
        known = self._known
        kind = "Savepoint" if known.savepoint else "Checkpoint"
        meaning = {COMPLETED: "good", ABORTED: "bad"}.get(known.status, "waits")
        parts = [answer(f"{kind} {known.checkpoint_id} is {self._went}.", meaning), axis_html(self._until_ms)]
        by_vertex: dict[str, list[PhaseRow]] = defaultdict(list)
        for row in self._rows:
            by_vertex[vertex_of(row.task)].append(row)
        for vertex, rows in by_vertex.items():
            parts += self._vertex(vertex, rows)
        legend = legend_html(self._every_span, is_any_slow=any(row.usual_ms for row in self._rows))
        return view_html(VIEW.title, *parts, legend, styles=(STYLE,))

    def _vertex(self, vertex: str, rows: Sequence[PhaseRow]) -> Iterable[str]:
        if len(rows) <= MOST_ROWS:
            return map(self._html, rows)
        slowest = sorted(rows, key=lambda row: -row.length_ms)[:SLOWEST]
        noted = [row for row in rows if row in slowest or row.usual_ms or row.spans[-1].open]
        shown = noted[:MOST_SHOWN]
        rest = [row for row in rows if row not in shown]
        of_rest = [row.length_ms for row in rest]
        about = f"{duration(min(of_rest))} to {duration(max(of_rest))}, half of them within {duration(median(of_rest))}"
        others = fold(f"{len(rest)} more of {vertex}", about, "".join(map(self._html, rest)))
        return [*map(self._html, shown), others]

    def _html(self, row: PhaseRow) -> str:
        return row_html(row, self._known.triggered_ms, self._until_ms)


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


def phase_rows(found: Journeys, known: CheckpointMoment, table: pd.DataFrame) -> list[PhaseRow]:
    """Return the rows of a checkpoint's subtasks; `table` is that of `kit.why.phases.phases_of`."""
    by_task = table.set_index("task")
    slow: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for (task, phase), lengths in slow_phases(found, known).items():
        slow[task][phase] = lengths
    rows = []
    for task in known.expected:
        spans = spans_of_task(found, known, task)
        status, waits = by_task.loc[task, "status"], by_task.loc[task, "waits_for"]
        row = PhaseRow(task, spans, usual_ms={phase: usual for phase, (_, usual) in slow[task].items()})
        if status == "declined":
            note, is_bad = "declined", True
        elif waits:
            note, is_bad = waits_for(known, waits), True
        elif slow[task]:
            phase, (length, usual) = max(slow[task].items(), key=lambda each: each[1])
            look = next(span.look for span in spans if span.phase == phase)
            note, is_bad = f"{duration(length)} {SHORT[look]}, the others {duration(usual)}", True
        else:
            note, is_bad = duration(row.length_ms), False
        rows.append(replace(row, note=note, is_bad=is_bad))
    return rows


def phase_bars(subject: Subject) -> PhaseBars:
    """Return the phases of the subject's checkpoint."""
    found, checkpoint = subject.journeys, subject.checkpoint_id
    checkpoint = checkpoint if checkpoint in found.last.checkpoints else None
    table = phases_of(found, -1 if checkpoint is None else checkpoint)
    return PhaseBars(found, checkpoint, table)


VIEW = View("phases", "Phases", "Where did a checkpoint's time go, and who was slow?", phase_bars)
