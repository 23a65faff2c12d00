"""The read loop of a source task: one request to the host at a time, and pauses while the source must wait.

The loop is a small machine within the task. It is *idle* (a turn may request the next batch), *reading* (the host
reads), or *waiting* (for a timer, for a split from its coordinator, or for rows in a split). The host may take long for
a read: barriers and messages are handled meanwhile. The host watches splits without rows, also during a read of the
others. Follows Flink's `SourceOperatorStreamTask`; its `getAvailableFuture` is `RowsAvailable`.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from kit.core.protocol.commands import AwaitRows, ReadSplit, ScheduleTimer
from kit.core.protocol.events import RowsAvailable, SplitRead
from kit.core.protocol.notes import SplitsPaused, SplitsResumed
from kit.core.protocol.words import ProtocolMessage
from kit.stream.operators.sources.source_operator import Exhausted, ReadRequest, SourceOperator, WaitUntil

SOURCE_TIMER = "source"


class SourceActions(Protocol):
    """The calls of the loop to its task."""

    cause: str

    @property
    def at(self) -> int:
        """The host's time in ms."""

    @property
    def event_id(self) -> str:
        """The id of the event being handled."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""


class SourceLoop:
    """The reading of one source operator."""

    without_effect: ClassVar = frozenset({"_woken_by"})

    def __init__(self, source: SourceOperator, operator_id: str, task: SourceActions) -> None:
        self.operator = source
        self._operator_id = operator_id
        self._task = task
        self._reading = False
        self._waiting = False
        self._is_paused = False
        self._woken_by = ""
        """The id of the event that last allowed the source to continue."""

    @property
    def available(self) -> bool:
        """True if a turn would do something."""
        return not (self._reading or self._waiting)

    def take_turn(self, max_rows: int | None = None) -> bool:
        """Ask for the next batch, or start waiting; return False if nothing is left to read.

        `max_rows` limits the batch; None: the source's own limits hold.
        """
        self._task.cause = self._woken_by
        step = self.operator.next_read(self._task.at)
        if isinstance(step, Exhausted):
            return False
        self._watch()
        self._note_pause()
        if isinstance(step, ReadRequest):
            self._reading = True
            rows = step.max_rows if max_rows is None else min(step.max_rows, max_rows)
            self._task.emit(
                ReadSplit(operator_id=self._operator_id, split=step.split, position=step.position, max_rows=rows)
            )
        else:
            self._waiting = True
            if isinstance(step, WaitUntil):
                self._task.emit(ScheduleTimer(timer=SOURCE_TIMER, due_ms=step.due_ms))
        return True

    def _note_pause(self) -> None:
        """Record that alignment pauses all splits with rows, or that it no longer does."""
        paused = self.operator.paused
        if paused is not None:
            self._task.emit(SplitsPaused(splits=dict(paused.splits), max_watermark_ms=paused.max_watermark_ms))
        elif self._is_paused:
            self._task.emit(SplitsResumed())
        self._is_paused = paused is not None

    def _watch(self) -> None:
        """Report the splits that have no rows now to the host, if they differ from the last report."""
        watch = self.operator.changed_watch()
        if watch is not None:
            every_ms = self.operator.poll_every_ms
            self._task.emit(AwaitRows(operator_id=self._operator_id, splits=watch, every_ms=every_ms))

    def wake(self) -> None:
        """Continue: what the source waited for may have come."""
        self._waiting = False
        self._woken_by = self._task.event_id

    def rows_available(self, event: RowsAvailable) -> None:
        """Splits have rows again."""
        self.operator.rows_available(event.split_ids)
        self.wake()

    def read_ended(self) -> None:
        """End the request, which the host has answered."""
        self._reading = False
        self._woken_by = self._task.event_id

    def take(self, read: SplitRead) -> None:
        """Pass the rows that were read to the operator."""
        self.operator.on_split_read(read.split_id, read.batch, read.position, read.finished)

    def __repr__(self) -> str:
        state = "reading" if self._reading else "waiting" if self._waiting else "idle"
        return f"SourceLoop({self.operator!r}, {state})"
