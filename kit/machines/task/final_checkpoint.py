"""The checkpoint that a task waits for after its last record.

The output since a task's last checkpoint is published only by the next one. So after the end of its data a task waits
until a checkpoint that began after that is complete. With stop-with-savepoint it waits for that savepoint and no other.

Follows Flink's `StreamTask.finalCheckpointCompleted` and `syncSavepoint`.
"""

from __future__ import annotations


class FinalCheckpoint:
    """The last checkpoint of one task; `required` if the job takes checkpoints after tasks finish."""

    def __init__(self, *, required: bool) -> None:
        self._required = required
        self._checkpoint_id: int | None = None
        self._savepoint_id: int | None = None
        self._completed = False

    def begin(self, checkpoint_id: int) -> None:
        """Record a checkpoint that was taken after the end of data; only the first counts."""
        if self._checkpoint_id is None:
            self._checkpoint_id = checkpoint_id

    def stop_with(self, savepoint_id: int) -> None:
        """Stop with this savepoint. Flink: `setSynchronousSavepoint`, in 1.11 `setSynchronousSavepointId`."""
        self._savepoint_id = savepoint_id

    def is_stopped_with(self, checkpoint_id: int) -> bool:
        """Return True if the task stops with this savepoint, and so cannot continue without it."""
        return checkpoint_id == self._savepoint_id

    def complete(self, checkpoint_id: int) -> None:
        """Record that a checkpoint is complete."""
        if self._savepoint_id is not None:
            self._completed |= checkpoint_id == self._savepoint_id
        elif self._checkpoint_id is not None and checkpoint_id >= self._checkpoint_id:
            self._completed = True

    @property
    def is_awaited(self) -> bool:
        """True if the task must wait for it."""
        return (self._required or self._savepoint_id is not None) and not self._completed

    def __repr__(self) -> str:
        known = self._savepoint_id if self._savepoint_id is not None else self._checkpoint_id
        state = "completed" if self._completed else "awaited" if self.is_awaited else "not needed"
        return f"FinalCheckpoint({'none yet' if known is None else f'chk-{known}'}, {state})"
