"""Leftover files: of the workers of an epoch, and of a driver that died or a job that has ended.

A task that writes its snapshot while the job fails may never acknowledge it, so the names of its files are unknown. But
it wrote them into the checkpoint's directory, and after all workers have left, nothing more is written there: then the
whole directory is deleted. What a driver leaves behind is everything that is not kept (`remove_orphans`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kit.core.protocol.commands import DiscardState, RemoveOrphans
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.coordinator.completed.shared_state_registry import shared_file_names
from kit.machines.coordinator.coordinator import CheckpointCoordinator


class Leftovers:
    """The directories of the checkpoints that this epoch began, except for those known to be complete."""

    def __init__(self, checkpoints: CheckpointCoordinator) -> None:
        self._checkpoints = checkpoints
        self._begun: dict[int, str] = {}

    def begin(self, checkpoint_id: int, location: str) -> None:
        """Record the directory of a checkpoint that began."""
        self._begun = {
            each: where for each, where in self._begun.items() if not self._checkpoints.ledger.is_completed(each)
        }
        self._begun[checkpoint_id] = location

    def sweep(self) -> list[DiscardState]:
        """Return what must be deleted of aborted checkpoints, after all workers of the epoch have left."""
        begun, self._begun = self._begun, {}
        return [
            DiscardState(paths=(), location=location, checkpoint_id=checkpoint_id, everything=True)
            for checkpoint_id, location in begun.items()
            if not (checkpoint_id in self._checkpoints.pending or self._checkpoints.ledger.is_completed(checkpoint_id))
        ]

    def __repr__(self) -> str:
        return f"Leftovers({', '.join(f'chk-{each}' for each in self._begun) or 'none'})"


def remove_orphans(kept: Collection[CompletedCheckpoint], others: Iterable[int]) -> RemoveOrphans:
    """Return the command that deletes all but these checkpoints with their shared files, and the ids `others`."""
    states = [state for checkpoint in kept for state in checkpoint.operator_states.values()]
    ids = {*others, *(checkpoint.checkpoint_id for checkpoint in kept)}
    return RemoveOrphans(keep=tuple(sorted(ids)), shared=shared_file_names(states))
