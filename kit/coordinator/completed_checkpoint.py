"""A checkpoint that stands: all acked, its metadata written. Nothing in it changes any more.

Follows Flink's `CompletedCheckpoint`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.coordinator.shared_state_registry import private_files
from kit.protocol.commands import DiscardState
from kit.protocol.properties import CheckpointProperties
from kit.state.operator_state import MasterState, OperatorState

DISCARDED_AT = {
    "FINISHED": "discard_finished",
    "CANCELED": "discard_cancelled",
    "FAILED": "discard_failed",
    "SUSPENDED": "discard_suspended",
}
"""The property that says whether a job of this status takes its checkpoints with it."""
GLOBALLY_TERMINAL = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""The ends of a job after which nobody takes it up again."""


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """One checkpoint or savepoint. `path` is its `_metadata`, `location` the directory that holds it.

    `restored_properties` are those found in the metadata when the job was restored from it; None otherwise, and before
    metadata version 4.
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

    @property
    def state_size(self) -> int:
        """Size of all state, in bytes, shared parts included."""
        return sum(state.state_size for state in self.operator_states.values())

    def should_be_discarded_at(self, job_status: str) -> bool:
        """Whether the job takes this checkpoint with it when it ends in this status."""
        return job_status in DISCARDED_AT and bool(getattr(self.properties, DISCARDED_AT[job_status]))

    def discard(self) -> DiscardState:
        """The command that deletes it, and its entry in the durable store: metadata first, so that no half checkpoint
        can be mistaken for a whole one.

        Shared files stay: they are the registry's.
        """
        files = (file for state in self.operator_states.values() for file in private_files(state))
        return DiscardState(
            paths=tuple(dict.fromkeys((self.path, *files))),
            location=self.location,
            checkpoint_id=self.checkpoint_id,
            stored=True,
        )

    def __repr__(self) -> str:
        return f"CompletedCheckpoint({self.checkpoint_id}, {self.properties.snapshot_type.name}, {self.state_size} B)"
