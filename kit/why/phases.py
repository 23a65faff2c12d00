"""The phases of a checkpoint's subtasks, finished or not, as a table.

The phases are those of `kit.run.checkpoint_path`, from the times of the trace's records. So an unfinished subtask also
has its phases, and what it waits for. Its last phase is open, and lasts until the end of the checkpoint or of the
trace.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from kit.core.protocol.notes import CheckpointAborted, CheckpointCompleted
from kit.run.checkpoint_path import PHASES, Path
from kit.run.checkpoint_words import spans_of_task
from kit.run.journeys import Journeys, journeys
from kit.run.moments.job_state import COMPLETED, PENDING, CheckpointMoment
from kit.why.acknowledgement import outline
from kit.why.evidence import Evidence
from kit.why.waits import missing

if TYPE_CHECKING:
    import pandas as pd

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


def phases(run: Any, checkpoint: int | None = None) -> pd.DataFrame:
    """Return one row per checkpoint and subtask of a Lab, a SparkJob or a Trace, or only those of one checkpoint.

    Columns: checkpoint_id, task, status ("acknowledged", "declined", "unfinished"), open_phase (the phase of an
    unfinished subtask, else ""), start_delay_ms, alignment_ms, sync_ms, async_ms, in_flight_ms (which Flink counts as a
    part of async), ack_ms, total_ms (Int64; missing if not started; an open phase counts so far), bytes (Int64), and
    waits_for (a text about what an unfinished subtask waits for, or waited for at the end; else "").
    """
    return phases_of(journeys(run), checkpoint)


def phases_of(found: Journeys, checkpoint: int | None = None) -> pd.DataFrame:
    """Return the same for a run whose journeys are known."""
    import pandas as pd

    rows = [
        row
        for number, known in found.last.checkpoints.items()
        if checkpoint in (None, number)
        for row in _rows(found, known)
    ]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({name: "Int64" for name in COLUMNS if name.endswith("_ms") or name == "bytes"})


class Waiting:
    """The waits of the tasks that have not finished a checkpoint, now or just before the event that ended it."""

    def __init__(self, found: Journeys, known: CheckpointMoment) -> None:
        self._found = found
        self._known = known

    @cached_property
    def _then(self) -> Evidence:
        evidence = Evidence(self._found.reading, self._found.last.n)
        if self._known.status == PENDING:
            return evidence
        kind = CheckpointCompleted if self._known.status == COMPLETED else CheckpointAborted
        ended = evidence.last(kind, checkpoint_id=self._known.checkpoint_id)
        return evidence if ended is None else evidence.before(ended)

    def of(self, task: str) -> str:
        """Describe what a task waits for; "" for one that no longer exists."""
        return outline(self._then, missing(self._then, task, self._known.checkpoint_id)).awaits


def waits_for(known: CheckpointMoment, what: str) -> str:
    """Return the text about an unfinished task's wait, in the past tense if the checkpoint has ended."""
    return f"{'waits' if known.status == PENDING else 'waited'} for {what}"


def _rows(found: Journeys, known: CheckpointMoment) -> list[list[Any]]:
    rows, waiting = [], Waiting(found, known)
    for task in known.expected:
        path = found.paths.get((known.checkpoint_id, task), Path())
        spans = spans_of_task(found, known, task)
        lengths: dict[str, int] = {span.phase: span.end_ms - span.start_ms for span in spans}
        open_phase = next((span.phase for span in spans if span.open), "")
        status = "declined" if path.declined_ms is not None else "unfinished" if open_phase else "acknowledged"
        times = (lengths.get(phase) for phase in PHASES)
        waits = waiting.of(task) if status == "unfinished" else ""
        took = sum(lengths.values())
        rows.append([known.checkpoint_id, task, status, open_phase, *times, took, path.bytes_written, waits])
    return rows
