"""The checkpoint that tasks wait for which have seen all their input: the JobMaster asks for it itself.

One that fails is tried again after a while where no periodic one follows anyhow. The timer belongs to the epoch: when
its workers leave, or the checkpoint is asked for again for another reason, it is over.
"""

from __future__ import annotations

from collections.abc import Callable

from kit.core.protocol.commands import CancelTimer, CompleteRequest, ScheduleTimer
from kit.core.protocol.events import RequestCheckpoint
from kit.core.protocol.words import Word
from kit.machines.coordinator.coordinator import CheckpointCoordinator

LAST_CHECKPOINT_TIMER = "last-checkpoint"
LAST_CHECKPOINT_AGAIN_MS = 1_000
"""So long after it has failed it is tried again."""
OWN_REQUEST = -1
"""The number of requests that the JobMaster makes itself: nobody waits for the answer."""


class LastCheckpoint:
    """Asks for it, and again when it failed; whether there is to be one the JobMaster knows."""

    def __init__(self, checkpoints: CheckpointCoordinator, emit: Callable[[Word], None]) -> None:
        self._checkpoints, self._emit = checkpoints, emit
        self._retries = False

    def take(self) -> None:
        """Begin it now."""
        self.forget()
        self._checkpoints.handle(RequestCheckpoint(request_id=OWN_REQUEST))

    def answered(self, word: CompleteRequest, at: int) -> bool:
        """Take note of the answer to it, at this time in ms; False for the answer to somebody else's request."""
        if word.request_id != OWN_REQUEST:
            return False
        if word.error and not (self._checkpoints.config.is_periodic or self._checkpoints.ledger.took_last_checkpoint):
            self._retries = True
            self._emit(ScheduleTimer(timer=LAST_CHECKPOINT_TIMER, due_ms=at + LAST_CHECKPOINT_AGAIN_MS))
        return True

    def is_due_again(self, timer: str) -> bool:
        """Whether this timer, which fired, is that of the next attempt, and one is still wanted."""
        if timer != LAST_CHECKPOINT_TIMER or not self._retries:
            return False
        self._retries = False
        return True

    def forget(self) -> None:
        """There is no next attempt."""
        if self._retries:
            self._retries = False
            self._emit(CancelTimer(timer=LAST_CHECKPOINT_TIMER))

    def __repr__(self) -> str:
        return f"LastCheckpoint({'to be tried again' if self._retries else 'nothing to be tried again'})"
