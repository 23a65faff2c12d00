"""The metrics of a job's operators as one table, whichever host the job runs on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kit.machines.job.job_master import JobMaster
from kit.stream.operators.metrics import SPLITS_LEFT, STATE_BYTES
from kit.stream.operators.sources.source_coordinator import SourceCoordinator

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["operator", "subtask", "metric", "value", "own"]


def metrics_table(
    readings: Iterable[tuple[int, Mapping[str, Any]]], state_bytes: Mapping[tuple[str, int], int], master: JobMaster
) -> pd.DataFrame:
    """Return one row per operator, subtask and metric; a metric of the whole operator has no subtask.

    `readings` are subtasks with the metrics read of each of their operators; `own` marks those of user-defined
    functions.
    """
    import pandas as pd

    rows: list[tuple[str, Any, str, Any, bool]] = []
    for subtask, reading in readings:
        name = reading["name"]
        values = {**reading["values"], STATE_BYTES: state_bytes.get((reading["id"], subtask), 0)}
        rows += [(name, subtask, metric, value, False) for metric, value in values.items()]
        rows += [(name, subtask, metric, value, True) for metric, value in reading["own"].items()]
    rows += [(name, pd.NA, SPLITS_LEFT, left, False) for name, left in splits_left(master)]
    table = pd.DataFrame(rows, columns=COLUMNS, dtype=object)  # else a missing watermark makes all values floats
    return table.astype({"operator": str, "subtask": "Int64", "metric": str, "own": bool})


def state_bytes_of(master: JobMaster) -> dict[tuple[str, int], int]:
    """Return the bytes of state in the latest complete checkpoint, by operator id and subtask."""
    latest = master.checkpoints.store.latest
    states = {} if latest is None else latest.operator_states
    return {
        (operator_id, subtask): part.state_size
        for operator_id, state in states.items()
        for subtask, part in state.subtask_states.items()
    }


def splits_left(master: JobMaster) -> Iterable[tuple[str, int]]:
    """Yield each source and the number of its splits that have not been read to their end."""
    for operator_id in master.coordinators if master.epoch else ():
        source = master.coordinators[operator_id].coordinator
        if isinstance(source, SourceCoordinator):
            done, of = source.splits_done
            yield master.job.operator(operator_id).name, of - done
