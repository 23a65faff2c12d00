"""The time in which a task could have emitted rows, and whether it had any: what idleness is measured by.

A task that is held back is not idle: its outputs may be full, its process may have been suspended, or a long call of a
function may have kept its thread. In none of these cases does it know whether there are rows. So its clock counts a
span between two events only if the outputs were writable, and if the span is not much longer than the time after which
a timer should have looked.

Follows Flink's `PausableRelativeClock`, which backpressure pauses. Flink's clock counts a suspension of the process.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class _Outputs(Protocol):
    @property
    def writable(self) -> bool:
        """True if every output has room."""


class _Channel(Protocol):
    @property
    def queued_buffers(self) -> int:
        """The number of buffers that wait here."""


class _Source(Protocol):
    @property
    def has_nothing(self) -> bool:
        """True if the source could be read and has no rows."""

    @property
    def is_paused(self) -> bool:
        """True if the source has rows that alignment does not let it read."""


class TaskActivity:
    """The clock of one task that runs while the task could emit; `source` is None for a task with inputs.

    `look_every_ms` is the time after which a timer looks for idleness; None if the task has no operator that does, and
    then the clock stands.
    """

    def __init__(
        self, outputs: _Outputs, inputs: Iterable[_Channel], source: _Source | None, look_every_ms: int | None
    ) -> None:
        self.ms = 0
        """The time, in ms, in which the task could have emitted."""
        self._outputs = outputs
        self._inputs = inputs
        self._source = source
        self._longest_ms = None if look_every_ms is None else look_every_ms + max(look_every_ms // 4, 1)
        self._seen_at_ms: int | None = None

    def observe(self, at_ms: int) -> None:
        """Count the time since the last event; called before an event is handled, at the host's time `at_ms`."""
        if self._longest_ms is None:
            return
        if self._seen_at_ms is not None and self._outputs.writable:
            span_ms = at_ms - self._seen_at_ms
            if span_ms <= self._longest_ms:
                self.ms += span_ms
        self._seen_at_ms = at_ms

    @property
    def has_nothing(self) -> bool:
        """True if the task can emit and there are no rows for it: its source has none, or no input has a buffer."""
        if not self._outputs.writable:
            return False
        if self._source is not None:
            return self._source.has_nothing
        return not any(channel.queued_buffers for channel in self._inputs)

    @property
    def is_paused(self) -> bool:
        """True if alignment pauses all splits of the task's source that have rows."""
        return self._source is not None and self._source.is_paused

    def __repr__(self) -> str:
        return f"TaskActivity({self.ms} ms)"
