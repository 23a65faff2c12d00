"""The checkpoint that tasks wait for after they have seen all their input: the JobMaster requests it itself.

One that fails is tried again after a while, unless a periodic one follows. The timer belongs to the epoch. It is
cancelled when the epoch's workers leave, or when the checkpoint is requested for another reason.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.commands import CancelTimer, CompleteRequest, ScheduleTimer
from kit.core.protocol.events import RequestCheckpoint
from kit.core.protocol.words import ProtocolMessage
from kit.machines.coordinator.coordinator import CheckpointCoordinator

LAST_CHECKPOINT_TIMER = "last-checkpoint"
LAST_CHECKPOINT_AGAIN_MS = 1_000
"""The delay before a failed one is tried again."""
OWN_REQUEST = -1
"""The id of requests that the JobMaster makes itself: no user waits for the answer."""


class LastCheckpoint:
    """The request for it, and its retries; the JobMaster decides if it is needed."""

    def __init__(self, checkpoints: CheckpointCoordinator, emit: Callable[[ProtocolMessage], None]) -> None:
        self._checkpoints, self._emit = checkpoints, emit
        self._retries = False

    def take(self) -> None:
        """Request it now."""
        self.forget()
        self._checkpoints.handle(RequestCheckpoint(request_id=OWN_REQUEST))

    def answered(self, word: CompleteRequest, at: int) -> bool:
        """Handle the answer to it, at this time in ms; return False for the answer to another request."""
        if word.request_id != OWN_REQUEST:
            return False
        if word.error and not (self._checkpoints.config.is_periodic or self._checkpoints.ledger.took_last_checkpoint):
            self._retries = True
            self._emit(ScheduleTimer(timer=LAST_CHECKPOINT_TIMER, due_ms=at + LAST_CHECKPOINT_AGAIN_MS))
        return True

    def is_due_again(self, timer: str) -> bool:
        """Return True if this timer, which fired, is that of a retry that is still wanted."""
        if timer != LAST_CHECKPOINT_TIMER or not self._retries:
            return False
        self._retries = False
        return True

    def forget(self) -> None:
        """Cancel the retry."""
        if self._retries:
            self._retries = False
            self._emit(CancelTimer(timer=LAST_CHECKPOINT_TIMER))

    def __repr__(self) -> str:
        return f"LastCheckpoint({'to be tried again' if self._retries else 'nothing to be tried again'})"
