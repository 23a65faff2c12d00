"""A complete checkpoint: all have acknowledged, and its metadata is written. It never changes from then on.

Follows Flink's `CompletedCheckpoint`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kit.core.html_tables import NOTEBOOK_ROWS, frame_html, notebook_html
from kit.core.protocol.commands import DiscardState
from kit.core.protocol.properties import CheckpointProperties
from kit.core.state.operator_state import MasterState, OperatorState
from kit.machines.coordinator.completed.shared_state_registry import private_files

if TYPE_CHECKING:
    import pandas as pd

DISCARDED_AT = {
    "FINISHED": "discard_finished",
    "CANCELED": "discard_cancelled",
    "FAILED": "discard_failed",
    "SUSPENDED": "discard_suspended",
}
"""The property that says if a job that ends in this status discards its checkpoints."""
GLOBALLY_TERMINAL = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""The terminal statuses after which no driver resumes the job."""


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """One checkpoint or savepoint. `path` is its `_metadata`, `location` the directory that holds it.

    `restored_properties` are those in the metadata of the snapshot that the job was restored from. They are None for
    other checkpoints, and before metadata version 4.

    Follows Flink's `CompletedCheckpoint`.
    """

    job_id: str
    checkpoint_id: int
    timestamp_ms: int
    completed_at_ms: int
    operator_states: Mapping[str, OperatorState]
    master_states: Sequence[MasterState]
    properties: CheckpointProperties
    location: str
    path: str
    restored_properties: CheckpointProperties | None = None
    is_claimed: bool = False
    """True for a snapshot that another job had taken, or the user, and that the job has owned since its restore."""

    @property
    def state_size(self) -> int:
        """Size of all state, in bytes, including shared parts."""
        return sum(state.state_size for state in self.operator_states.values())

    def should_be_discarded_at(self, job_status: str) -> bool:
        """Return True if the checkpoint is discarded when the job ends in this status."""
        return job_status in DISCARDED_AT and bool(getattr(self.properties, DISCARDED_AT[job_status]))

    def discard(self) -> DiscardState:
        """Return the command that deletes the checkpoint and its entry in the durable store.

        The metadata goes first, so that an incomplete checkpoint cannot be mistaken for a complete one. Shared files
        stay: the registry owns them.
        """
        files = (file for state in self.operator_states.values() for file in private_files(state))
        return DiscardState(
            paths=tuple(dict.fromkeys((self.path, *files))),
            location=self.location,
            checkpoint_id=self.checkpoint_id,
            stored=True,
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per operator: its names, parallelism, subtasks and bytes.

        The columns are operator, operator_id, parallelism, max_parallelism, subtasks (with state), bytes.
        """
        import pandas as pd

        rows = [
            (
                state.label,
                state.operator_id,
                state.parallelism,
                state.max_parallelism,
                sum(subtask.has_state() for subtask in state.subtask_states.values()),
                state.state_size,
            )
            for state in self.operator_states.values()
        ]
        columns = ["operator", "operator_id", "parallelism", "max_parallelism", "subtasks", "bytes"]
        return pd.DataFrame(rows, columns=columns)

    def _repr_html_(self) -> str:
        shown = frame_html(self.to_pandas(), NOTEBOOK_ROWS, all_in=".to_pandas()")
        return notebook_html(f"{self!r} in {self.location}", shown)

    def __repr__(self) -> str:
        return f"CompletedCheckpoint({self.checkpoint_id}, {self.properties.snapshot_type.name}, {self.state_size} B)"
