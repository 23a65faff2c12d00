"""Arithmetic of event times that stops at the ends of int64 instead of overflowing.

A window near the largest time would otherwise end before it begins, and a numpy column overflows in silence. In Flink,
whose longs wrap around, such windows fire at the wrong time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS

Times = npt.NDArray[np.int64]


def shifted(times_ms: Times, by_ms: int) -> Times:
    """Return the times `by_ms` later (earlier if it is negative), but none beyond the ends of int64."""
    if _are_inside(times_ms, abs(by_ms)):
        return times_ms + by_ms
    if by_ms >= 0:
        return np.where(times_ms > MAX_WATERMARK_MS - by_ms, MAX_WATERMARK_MS, times_ms + by_ms)
    return np.where(times_ms < MIN_WATERMARK_MS - by_ms, MIN_WATERMARK_MS, times_ms + by_ms)


def aligned(times_ms: Times, size_ms: int, offset_ms: int) -> Times:
    """Return the last multiple of `size_ms`, plus `offset_ms`, up to each time; the smallest int64 if it is less."""
    if _are_inside(times_ms, 2 * size_ms):
        return (times_ms - offset_ms) // size_ms * size_ms + offset_ms
    since_ms = (times_ms % size_ms - offset_ms) % size_ms
    return np.where(times_ms < MIN_WATERMARK_MS + since_ms, MIN_WATERMARK_MS, times_ms - since_ms)


def _are_inside(times_ms: Times, by_ms: int) -> bool:
    """Return True if all times are at least `by_ms` away from the ends of int64."""
    if not len(times_ms):
        return True
    return bool(times_ms.min() >= MIN_WATERMARK_MS + by_ms and times_ms.max() <= MAX_WATERMARK_MS - by_ms)
