"""Window assigners: the windows of event time that a row belongs to.

Each kind of window is a `WindowAssigner`; to add a kind, add a class. Tumbling windows are adjacent, sliding ones
overlap: both follow from the row's time alone. A session does not: it grows with each row that comes within the gap,
and two sessions that meet become one.

Follows Flink's `WindowAssigner`, `TumblingEventTimeWindows`, `SlidingEventTimeWindows` and `EventTimeSessionWindows`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kit.core.arguments.durations import settle_durations
from kit.core.arguments.signposts import WINDOWS, SignedType
from kit.stream.operators.windows.saturating_times import aligned, shifted

Times = npt.NDArray[np.int64]


class WindowAssigner(metaclass=SignedType):
    """A kind of window: the windows of rows, and the bounds of each window. All times are ms since 1970.

    A window is identified by an int64, its *id*, unique among the windows of a key: its start, unless `starts` is
    overridden. Ids are in checkpoints, so they must not change once a kind has been used. Columns of ids, starts and
    ends are int64 numpy arrays. An assigner is immutable, and compared and displayed by its settings: a frozen
    dataclass.

    Bounds stop at the ends of int64 (`kit.stream.operators.windows.saturating_times`).

    Windows that merge (`merges`) become one if they overlap or touch, as sessions do. Then each row makes one window,
    and of two windows the one that starts later must not end earlier.

    Follows `WindowAssigner` and `MergingWindowAssigner`.
    """

    class_signs = WINDOWS

    __slots__ = ()

    merges: ClassVar[bool] = False

    @abstractmethod
    def assign(self, times_ms: Times) -> tuple[Times | None, Times]:
        """Return the windows of rows with these event times: a row number and an id for each.

        None for the row numbers means that each row has one window, in order.
        """

    def starts(self, windows: Times) -> Times:
        """Return the start of each window."""
        return windows

    @abstractmethod
    def ends(self, windows: Times) -> Times:
        """Return the end of each window, excluded."""


def checked_assigner(assigner: object) -> WindowAssigner:
    """Return the assigner. Raises TypeError unless it is a kind of window."""
    if not isinstance(assigner, WindowAssigner):
        raise TypeError(
            f"window() takes a kind of window, such as TumblingEventTimeWindows(60_000), but was given {assigner!r}"
        )
    return assigner


def assigner_aspect(assigner: WindowAssigner) -> str:
    """Return the kind of window in a snapshot's definition: its class, and the settings that are plain values."""
    names: list[str] = [each.name for each in fields(assigner)] if is_dataclass(assigner) else []
    settings = [(name, getattr(assigner, name)) for name in names]
    plain = [f"{name}={value!r}" for name, value in settings if isinstance(value, int | float | str)]
    return f"{type(assigner).__name__}({', '.join(plain)})"


@dataclass(frozen=True, slots=True)
class TumblingEventTimeWindows(WindowAssigner):
    """Adjacent windows of `size_ms`, aligned to 1970 plus `offset_ms`.

    `TumblingEventTimeWindows(60_000)`, or `TumblingEventTimeWindows("1min")`.
    """

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        settle_durations(self, "size_ms", "offset_ms")
        if self.size_ms < 1 or abs(self.offset_ms) >= self.size_ms:
            raise ValueError(f"{self!r}: size_ms must be 1 or more, and offset_ms smaller than it")

    def assign(self, times_ms: Times) -> tuple[None, Times]:
        """Return each row's window."""
        return None, aligned(times_ms, self.size_ms, self.offset_ms)

    def ends(self, windows: Times) -> Times:
        """Return the starts of the windows after these."""
        return shifted(windows, self.size_ms)


@dataclass(frozen=True, slots=True)
class SlidingEventTimeWindows(WindowAssigner):
    """Windows of `size_ms`, one every `slide_ms`, aligned to 1970 plus `offset_ms`.

    `SlidingEventTimeWindows(60_000, 10_000)` is the last minute, every ten seconds; a row is in six windows. If the
    slide exceeds the size there are gaps, and rows in them are in no window.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        settle_durations(self, "size_ms", "slide_ms", "offset_ms")
        if self.size_ms < 1 or self.slide_ms < 1 or abs(self.offset_ms) >= self.slide_ms:
            raise ValueError(f"{self!r}: size_ms and slide_ms must be 1 or more, and offset_ms smaller than slide_ms")

    def assign(self, times_ms: Times) -> tuple[Times, Times]:
        """Return each row's windows, the latest first."""
        last = aligned(times_ms, self.slide_ms, self.offset_ms)
        most = -(-self.size_ms // self.slide_ms)
        starts = last[:, None] - np.arange(most) * self.slide_ms
        is_in = starts > shifted(times_ms, -self.size_ms)[:, None]
        is_in[:, 0] |= times_ms - last < self.size_ms  # also at the smallest int64
        rows, nth = np.nonzero(is_in & (starts <= last[:, None]))
        return rows, starts[rows, nth]

    def ends(self, windows: Times) -> Times:
        """Return the ends of the windows."""
        return shifted(windows, self.size_ms)


@dataclass(frozen=True, slots=True)
class EventTimeSessionWindows(WindowAssigner):
    """Sessions: rows of a key belong together while the time between one and the next is at most `gap_ms`.

    `EventTimeSessionWindows(30_000)`; a session ends `gap_ms` after its last row.
    """

    gap_ms: int

    merges = True

    def __post_init__(self) -> None:
        settle_durations(self, "gap_ms")
        if self.gap_ms < 1:
            raise ValueError(f"{self!r}: gap_ms must be 1 or more")

    def assign(self, times_ms: Times) -> tuple[None, Times]:
        """Return a session for each row."""
        return None, times_ms

    def ends(self, windows: Times) -> Times:
        """Return the ends of sessions of one row."""
        return shifted(windows, self.gap_ms)
