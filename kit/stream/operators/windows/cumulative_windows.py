"""Cumulative windows: for example the rows since midnight, reported again every hour.

Follows the cumulative windows of Flink's SQL (`CUMULATE`, `CumulativeWindowAssigner`, since 1.13); its stream classes
have none. Flink keeps a row once for all windows of a period; here each window has a state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kit.core.arguments.durations import settle_durations
from kit.core.event_time import MAX_WATERMARK_MS
from kit.stream.operators.windows.saturating_times import aligned, shifted
from kit.stream.operators.windows.window_assigners import Times, WindowAssigner


@dataclass(frozen=True, slots=True)
class CumulativeEventTimeWindows(WindowAssigner):
    """Windows with a common start every `size_ms`, whose ends are `step_ms` apart, up to `size_ms`.

    They are aligned to 1970 plus `offset_ms`. `CumulativeEventTimeWindows(86_400_000, 3_600_000)` has for each hour the
    rows since midnight; a row of the first hour is in 24 windows, one of the last in one. Raises ValueError unless
    `size_ms` is a multiple of `step_ms`.
    """

    size_ms: int
    step_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        settle_durations(self, "size_ms", "step_ms", "offset_ms")
        if self.step_ms < 1 or self.size_ms < 1 or self.size_ms % self.step_ms or abs(self.offset_ms) >= self.size_ms:
            raise ValueError(
                f"{self!r}: step_ms must be 1 or more, size_ms a multiple of it, and offset_ms smaller than size_ms"
            )

    def assign(self, times_ms: Times) -> tuple[Times, Times]:
        """Return each row's windows, the earliest end first. Many have the same start, so their ids are ends."""
        starts = aligned(times_ms, self.size_ms, self.offset_ms)
        ends = starts[:, None] + np.arange(self.step_ms, self.size_ms + 1, self.step_ms)
        is_in = ends > times_ms[:, None]
        overflows = ends < starts[:, None]
        if overflows.any():  # all of these are one window, which ends with int64
            ends[overflows] = MAX_WATERMARK_MS
            is_in |= overflows
            is_in[:, 1:] &= ~overflows[:, :-1]
        rows, nth = np.nonzero(is_in)
        return rows, ends[rows, nth]

    def starts(self, windows: Times) -> Times:
        """Return the start of the period that each window is in."""
        return aligned(shifted(windows, -1), self.size_ms, self.offset_ms)

    def ends(self, windows: Times) -> Times:
        """Return the ids."""
        return windows
