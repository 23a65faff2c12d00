"""A task's single processing-time timer: the host fires it when the earliest timer of any operator is due.

Follows Flink's `ProcessingTimeService`.
"""

from __future__ import annotations

from typing import Protocol

from kit.core.protocol.commands import ScheduleTimer
from kit.core.protocol.words import ProtocolMessage
from kit.machines.task.chain import OperatorChain

PROCESSING_TIME_TIMER = "processing-time"


class TimerOwner(Protocol):
    """The calls of the timer to its task."""

    chain: OperatorChain

    @property
    def at(self) -> int:
        """The host's time in ms."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""


class ProcessingTimer:
    """A timer set no later than the earliest processing-time timer of any operator."""

    def __init__(self, task: TimerOwner) -> None:
        self._task = task
        self._due_ms: int | None = None

    def arm(self) -> None:
        """Set the timer again, if an operator has set an earlier one."""
        due_ms = self._task.chain.next_processing_time_ms()
        if due_ms is not None and (self._due_ms is None or due_ms < self._due_ms):
            self._due_ms = due_ms
            self._task.emit(ScheduleTimer(timer=PROCESSING_TIME_TIMER, due_ms=due_ms))

    def fire(self) -> None:
        """Let the operators fire what is due."""
        self._due_ms = None
        self._task.chain.on_processing_time(self._task.at)
        self.arm()

    def validate(self) -> None:
        """Check that the host will wake the task for the earliest timer of its operators."""
        due_ms = self._task.chain.next_processing_time_ms()
        armed = due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms)
        assert armed, f"an operator has a processing-time timer at {due_ms} ms, but {self!r}"

    def __repr__(self) -> str:
        return f"ProcessingTimer({'not set' if self._due_ms is None else f'{self._due_ms} ms'})"
