"""The figures of a job's checkpoints: two tables and some settings, the same for a job of Flink and of the kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kit.run.statistics import CheckpointStatistics

if TYPE_CHECKING:
    import pandas as pd

CHECKPOINTS = {
    "checkpoint_id": "int64",
    "kind": "object",
    "status": "object",
    "duration_ms": "Int64",
    "checkpointed_bytes": "Int64",
    "full_bytes": "Int64",
    "processed_bytes": "Int64",
    "persisted_bytes": "Int64",
    "acknowledged": "Int64",
    "subtasks": "Int64",
    "failure": "object",
}
"""A checkpoint or savepoint; `kind` is CHECKPOINT or SAVEPOINT, `status` COMPLETED, FAILED or PENDING."""
SUBTASKS = {
    "checkpoint_id": "int64",
    "vertex": "object",
    "subtask": "int64",
    "status": "object",
    "start_delay_ms": "Int64",
    "alignment_ms": "Int64",
    "sync_ms": "Int64",
    "async_ms": "Int64",
    "duration_ms": "Int64",
    "checkpointed_bytes": "Int64",
    "processed_bytes": "Int64",
    "persisted_bytes": "Int64",
    "unaligned": "boolean",
}
"""A subtask's part of a checkpoint. `status` is acknowledged, reported (its figures came after the checkpoint had
failed) or missing."""
SETTINGS = {
    "interval": "interval_ms",
    "timeout": "timeout_ms",
    "min_pause": "min_pause_ms",
    "max_concurrent": "max_concurrent",
    "unaligned_checkpoints": "unaligned",
    "aligned_checkpoint_timeout": "aligned_timeout_ms",
    "tolerable_failed_checkpoints": "tolerable_failures",
}
"""The kit's names of settings, by those in the answers of Flink's REST API."""
PHASES = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")


@dataclass(frozen=True, repr=False)
class CheckpointFigures:
    """The checkpoints of one job, newest first, their subtasks, and the settings that are known.

    Settings have the kit's names: interval_ms, timeout_ms, min_pause_ms, max_concurrent, unaligned,
    aligned_timeout_ms, tolerable_failures. One that is missing is not known.
    """

    name: str
    checkpoints: pd.DataFrame
    subtasks: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = self.checkpoints["status"].value_counts()
        summary = ", ".join(f"{count} {status}" for status, count in counts.items())
        return f"CheckpointFigures({self.name}: {summary or 'no checkpoints'})"


def tables(
    name: str, checkpoints: list[dict[str, Any]], subtasks: list[dict[str, Any]], settings: Mapping[str, Any]
) -> CheckpointFigures:
    """Return the figures with the types of `CHECKPOINTS` and `SUBTASKS`."""
    import pandas as pd

    return CheckpointFigures(
        name,
        pd.DataFrame(checkpoints, columns=list(CHECKPOINTS)).astype(CHECKPOINTS),
        pd.DataFrame(subtasks, columns=list(SUBTASKS)).astype(SUBTASKS),
        dict(settings),
    )


def figures_of(statistics: CheckpointStatistics, name: str = "job") -> CheckpointFigures:
    """Return the figures of a run of the kit, from the statistics of a Lab or a SparkJob."""
    checkpoints, subtasks = [], []
    for row in statistics.history.to_dict("records"):
        number = int(row["id"])
        kind = "SAVEPOINT" if "savepoint" in str(row["kind"]).lower() else "CHECKPOINT"
        failure = statistics.detail(number)["failure"] or ""
        checkpoints.append({**row, "checkpoint_id": number, "kind": kind, "failure": failure})
        for part in statistics.subtasks(number).to_dict("records"):
            status = part["status"] if part["status"] in ("acknowledged", "reported") else "missing"
            duration_ms = part["end_to_end_ms"]
            subtasks.append({**part, "checkpoint_id": number, "status": status, "duration_ms": duration_ms})
    settings = statistics.configuration
    known = {
        name: settings[name] for name in settings.index if name in SETTINGS.values() and settings[name] is not None
    }
    return tables(name, checkpoints, subtasks, known)
