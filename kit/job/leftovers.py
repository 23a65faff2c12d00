"""What the workers of an epoch may have written for checkpoints that never completed.

A task that writes its part of a checkpoint while the job fails may never get to acknowledge it, so nobody knows the
names of its files. But it wrote them into the checkpoint's directory, and once all workers have left nothing more is
written there: then the directory goes as a whole.
"""

from __future__ import annotations

from kit.coordinator.coordinator import CheckpointCoordinator
from kit.protocol.commands import DiscardState


class Leftovers:
    """The directories of the checkpoints that this epoch began, but for those known to be complete."""

    def __init__(self, checkpoints: CheckpointCoordinator) -> None:
        self._checkpoints = checkpoints
        self._begun: dict[int, str] = {}

    def begin(self, checkpoint_id: int, location: str) -> None:
        """A checkpoint has got its directory."""
        self._begun = {each: where for each, where in self._begun.items() if not self._checkpoints.is_completed(each)}
        self._begun[checkpoint_id] = location

    def sweep(self) -> list[DiscardState]:
        """All workers of the epoch have left: what is to be removed of its aborted checkpoints."""
        begun, self._begun = self._begun, {}
        return [
            DiscardState(paths=(), location=location, checkpoint_id=checkpoint_id, everything=True)
            for checkpoint_id, location in begun.items()
            if not (checkpoint_id in self._checkpoints.pending or self._checkpoints.is_completed(checkpoint_id))
        ]

    def __repr__(self) -> str:
        return f"Leftovers({', '.join(f'chk-{each}' for each in self._begun) or 'none'})"
