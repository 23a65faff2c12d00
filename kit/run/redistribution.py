"""The state that each restore assigned to each subtask, as a table of the trace's `StateAssigned` records.

`rescaling` draws it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kit.core.protocol.notes import StateAssigned
from kit.core.trace.trace import Trace
from kit.run.moments.job_state import RestoreMoment
from kit.run.reading import moment_at

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = [
    "epoch",
    "checkpoint_id",
    "operator",
    "task",
    "kind",
    "from",
    "first_group",
    "last_group",
    "entries",
    "bytes",
]


def restores_of(run: Any) -> tuple[RestoreMoment, ...]:
    """Return every restore of a Lab, a SparkJob or a Trace, oldest first."""
    return moment_at(run).restores


def restores_table(trace: Trace) -> pd.DataFrame:
    """Return one row per epoch, task, operator and kind of state that a restore assigned."""
    import pandas as pd

    rows = [
        {"epoch": note.epoch, "checkpoint_id": note.checkpoint_id, **row}
        for note in (record.note(StateAssigned) for record in trace if record.is_a(StateAssigned))
        for row in note.assignments
    ]
    columns = ["epoch", "checkpoint_id", "operator", "task", "kind", "from", "key_groups", "entries", "bytes"]
    return pd.DataFrame(rows, columns=columns)


def redistribution(run: Any) -> pd.DataFrame:
    """Return one row per restore, operator, new subtask and kind of state, of a Lab, a SparkJob or a Trace.

    Columns: epoch, checkpoint_id, operator, task, kind ("keyed", "raw keyed", "operator", "raw operator", "in flight,
    input" or "in flight, output"), from (list of old subtask indices), first_group and last_group (Int64; for keyed
    state), entries, bytes.
    """
    import pandas as pd

    rows = []
    for restore in restores_of(run):
        for row in restore.assignments:
            first, last = row.get("key_groups") or (None, None)
            head = [restore.epoch, restore.checkpoint_id, row["operator"], row["task"], row["kind"]]
            rows.append([*head, list(row["from"]), first, last, row.get("entries"), row.get("bytes")])
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype(dict.fromkeys(("first_group", "last_group", "entries", "bytes"), "Int64"))
