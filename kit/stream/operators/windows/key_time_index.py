"""Rows sorted by key and time, so that a key's rows between two times are found by bisection, a batch at a time.

An index is built from keyed state and kept beside it. It holds no values, only numbers, and is never written to a
checkpoint. The part of the state's key that separates rows of one key (a row number, the start of a window) is kept
here too, as extra columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.keys.key_codec import Column, codec_for

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class KeyTimeIndex:
    """Rows by (code of the key, time); of equal ones the row that was added first comes first.

    `columns` are the codes, the times and the extra columns, all int64, in that order.
    """

    def __init__(self, key_type: pa.DataType, extras: int) -> None:
        self.codec = codec_for(key_type)
        self.columns: list[Numbers] = [np.empty(0, np.int64) for _ in range(2 + extras)]

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"KeyTimeIndex({len(self)} rows)"

    def codes(self, keys: Column, create: bool = False) -> Numbers:
        """Return the code of each key; without `create`, a key without rows gets a code that occurs nowhere."""
        return self.codec.encode(keys, create)

    def forget_unused(self, codes: Numbers) -> None:
        """Release codes that were created for rows that may not be added."""
        once = distinct(codes)
        self.codec.retain(once)
        self.codec.release(once)

    def add(self, codes: Numbers, times: Numbers, *extras: Numbers) -> None:
        """Add rows, given in any order."""
        if not len(codes):
            return
        self.codec.retain(codes)
        order = np.lexsort((times, codes))
        added = [column[order] for column in (codes, times, *extras)]
        at = self.position(added[0], added[1], after_equal=True)
        self.columns = [np.insert(column, at, more) for column, more in zip(self.columns, added, strict=True)]

    def remove(self, rows: Mask | Numbers) -> None:
        """Remove rows, given by position or by mask."""
        gone = self.columns[0][rows]
        if len(gone):
            self.columns = [np.delete(column, rows) for column in self.columns]
            self.codec.release(gone)

    def position(self, codes: Numbers, values: Numbers, *, after_equal: bool = False, column: int = 1) -> Numbers:
        """Return the position of the first row of each code that is not before a value.

        With `after_equal` it is the first row after the value. `column` is the one compared, which must ascend within a
        code.
        """
        return self._bisect(*self._rows_of(codes), self.columns[column], values, after_equal)

    def between(self, codes: Numbers, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
        """Return for each code where its rows from time `low` to `high`, both included, begin and end."""
        first, end = self._rows_of(codes)
        begin = self._bisect(first, end, self.columns[1], low, False)
        return begin, self._bisect(begin, end, self.columns[1], high, True)

    def _rows_of(self, codes: Numbers) -> tuple[Numbers, Numbers]:
        """Return the position of the first row of each code, and the one after its last."""
        order = np.argsort(codes)  # in order, the search stays in the processor's cache
        ascending = codes[order]
        first, end = np.empty_like(order), np.empty_like(order)
        first[order] = np.searchsorted(self.columns[0], ascending, "left")
        end[order] = np.searchsorted(self.columns[0], ascending, "right")
        return first, end

    @staticmethod
    def _bisect(low: Numbers, high: Numbers, compared: Numbers, values: Numbers, after_equal: bool) -> Numbers:
        """Return the position of a value in each range [low, high) of ascending numbers."""
        while (searching := low < high).any():
            middle = (low + high) >> 1
            found = compared.take(middle, mode="clip")
            before = searching & ((found <= values) if after_equal else (found < values))
            low = np.where(before, middle + 1, low)
            high = np.where(searching & ~before, middle, high)
        return low


def expand(low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """Return the positions in each range [low, high), one range after the other: (number of the range, position)."""
    counts = np.maximum(high - low, 0)
    ranges = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return ranges, np.arange(len(ranges)) - before[ranges] + low[ranges]
