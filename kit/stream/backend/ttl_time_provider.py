"""The clock of state with TTL. Follows `TtlTimeProvider`."""

from __future__ import annotations

from typing import Protocol


class TtlTimeProvider(Protocol):
    """A clock that stands still during one event, so that all state accesses in it see one time."""

    @property
    def processing_time_ms(self) -> int:
        """The processing time, in ms."""
