"""Entries as both designs store them: 96 bytes of state, with a key of eight.

A key is stored as its *code*, a bijective mix of its 64 bits, and sorted by it. The top bits of the code stand for the
key group, so the order is "by key group, then by key" with a key order that spreads. (The kit's key groups are Flink's,
which are not a prefix of such a mix. There the order needs both.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint64]
LAST = np.dtype("V88")
"""A last value: eleven fields of eight bytes, copied as one."""
ENTRY_BYTES = 8 + 8 + LAST.itemsize


def codes_of(keys: npt.NDArray[np.int64]) -> Codes:
    """Return the code of each key: the last steps of splitmix64, which can be undone."""
    codes = keys.view(np.uint64) ^ (keys.view(np.uint64) >> np.uint64(30))
    codes *= np.uint64(0xBF58476D1CE4E5B9)
    codes ^= codes >> np.uint64(27)
    codes *= np.uint64(0x94D049BB133111EB)
    codes ^= codes >> np.uint64(31)
    return codes


@dataclass(slots=True)
class Entries:
    """Entries in columns. One that is not `full` is a delta: its sum is added to that of older entries of its key."""

    codes: Codes
    full: npt.NDArray[np.bool_]
    sums: npt.NDArray[np.int64]
    lasts: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Entries:
        return Entries(self.codes[rows], self.full[rows], self.sums[rows], self.lasts[rows])


def no_entries(rows: int = 0) -> Entries:
    """Return entries of value zero, which are deltas."""
    columns = np.zeros(rows, np.uint64), np.zeros(rows, np.bool_), np.zeros(rows, np.int64), np.zeros(rows, LAST)
    return Entries(*columns)


def merged(parts: Sequence[Entries], *, oldest: bool) -> Entries:
    """Merge entries of the same range of codes, the newest part first, into one entry for each code.

    With `oldest`, nothing older exists, so all results are full.
    """
    codes = np.concatenate([part.codes for part in parts])
    order = np.argsort(codes, kind="stable")  # fast: the parts are sorted
    codes = codes.take(order)
    full, sums = (np.concatenate([getattr(part, name) for part in parts]).take(order) for name in ("full", "sums"))
    lasts = np.concatenate([part.lasts for part in parts])
    first = np.ones(len(codes), np.bool_)
    first[1:] = codes[1:] != codes[:-1]
    starts = np.flatnonzero(first)
    if len(starts) < len(codes):
        newer_full = np.cumsum(full) - full
        hidden = newer_full != newer_full[starts].repeat(np.diff(np.append(starts, len(codes))))
        sums[hidden] = 0
        sums = np.add.reduceat(sums, starts)
        full = np.logical_or.reduceat(full, starts)
    return Entries(codes[starts], full | oldest, sums, lasts.take(order[starts]))
