"""Where the time of a checkpoint went, as a table: the phases of every subtask, finished or not.

The phases are those of `kit.run.checkpoint_path`, read from the times of the trace's records. So a subtask that never
finished shows how far it came and what it waits for; its last phase is open and lasts until the checkpoint's end, or
the trace's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.run.checkpoint_path import PHASES, Path
from kit.run.checkpoint_words import spans_of_task
from kit.run.job_state import PENDING, CheckpointMoment
from kit.run.journeys import Journeys, journeys
from kit.run.run import Run, run_of
from kit.run.stage import stage_for
from kit.run.waiting import Waiting

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
