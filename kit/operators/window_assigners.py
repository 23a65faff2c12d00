"""Which windows of event time a row belongs to.

Tumbling windows lie side by side, sliding ones overlap: both are known from the row's time alone. A session is not: it
grows with each row that comes within the gap, and two sessions that meet become one.

Follows Flink's `TumblingEventTimeWindows`, `SlidingEventTimeWindows` and `EventTimeSessionWindows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


class WindowAssigner(Protocol):
    """Which windows rows belong to."""

    def assign(self, times_ms: Times) -> tuple[Times | None, Times]:
        """The windows of rows with these event times: a row number (None: each row has one, in order) and a start for
        each.
        """

    def ends(self, starts_ms: Times) -> Times:
        """The end of each window, excluded, in ms."""


@dataclass(frozen=True, slots=True)
class TumblingEventTimeWindows:
    """Windows of `size_ms` side by side, aligned to 1970 plus `offset_ms`: `TumblingEventTimeWindows(60_000)`."""

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms < 1 or abs(self.offset_ms) >= self.size_ms:
            raise ValueError(f"{self!r}: size_ms must be 1 or more, and offset_ms smaller than it")

    def assign(self, times_ms: Times) -> tuple[None, Times]:
        """Each row's one window."""
        return None, (times_ms - self.offset_ms) // self.size_ms * self.size_ms + self.offset_ms

    def ends(self, starts_ms: Times) -> Times:
        """The starts of the windows after these."""
        return starts_ms + self.size_ms


@dataclass(frozen=True, slots=True)
class SlidingEventTimeWindows:
    """Windows of `size_ms`, one every `slide_ms`, aligned to 1970 plus `offset_ms`.

    `SlidingEventTimeWindows(60_000, 10_000)`: the last minute, every ten seconds; a row is in six windows. With a
    slide above the size there are gaps, and rows in them are in no window.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms < 1 or self.slide_ms < 1 or abs(self.offset_ms) >= self.slide_ms:
            raise ValueError(f"{self!r}: size_ms and slide_ms must be 1 or more, and offset_ms smaller than slide_ms")

    def assign(self, times_ms: Times) -> tuple[Times, Times]:
        """Each row's windows, the latest first."""
        last = (times_ms - self.offset_ms) // self.slide_ms * self.slide_ms + self.offset_ms
        most = -(-self.size_ms // self.slide_ms)
        starts = last[:, None] - np.arange(most) * self.slide_ms
        rows, nth = np.nonzero(starts > (times_ms - self.size_ms)[:, None])
        return rows, starts[rows, nth]

    def ends(self, starts_ms: Times) -> Times:
        """The ends of the windows."""
        return starts_ms + self.size_ms


@dataclass(frozen=True, slots=True)
class EventTimeSessionWindows:
    """Sessions: rows of a key belong together while no more than `gap_ms` lie between one and the next.

    `EventTimeSessionWindows(30_000)`; a session ends `gap_ms` after its last row.
    """

    gap_ms: int

    def __post_init__(self) -> None:
        if self.gap_ms < 1:
            raise ValueError(f"{self!r}: gap_ms must be 1 or more")
