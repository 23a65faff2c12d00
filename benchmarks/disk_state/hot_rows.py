"""The cache of both designs: hot rows in the kit's `SlotIndex` and columns, written back at checkpoints.

A row is complete if it holds the state of its key, and a delta if the rest is on disk. It is dirty if it was written
since it was last sent to the store. When the cache is full, the rows that were not used for the longest time leave; if
too few of these are clean, all dirty rows are written first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.disk_state.entries import LAST, Entries, codes_of
from kit.stream.backend.keys.slot_index import SlotIndex

KEPT = 0.75
"""The share of the rows that stays when the cache is full. If all rows are deltas, none stays: the next row of the same
key finds nothing in memory that it needs."""
_ROW_BYTES = 8 + LAST.itemsize + 1 + 1 + 4
_KEY_BYTES = 8 + 1
_AT_ONCE = 1 << 15
Rows = npt.NDArray[np.int64]


def rows_within(memory_bytes: int) -> int:
    """Return the number of rows that fit, with the places by which `SlotIndex` finds them: 2 to the n, half used."""
    rows = memory_bytes // (_ROW_BYTES + _KEY_BYTES)
    while bytes_of(rows) > memory_bytes:
        rows = rows * 99 // 100
    return rows


def bytes_of(rows: int) -> int:
    """Return the memory of this number of rows."""
    return rows * (_ROW_BYTES + _KEY_BYTES) + (4 << max(4, (int(rows / 0.45) - 1).bit_length()))


@dataclass(slots=True)
class Counts:
    """Counts of rows and entries, and the time of each activity."""

    rows: int = 0
    misses: int = 0
    evictions: int = 0
    flushed: int = 0
    flushes: int = 0
    read_s: float = 0.0
    write_s: float = 0.0
    evict_s: float = 0.0


class HotRows:
    """Rows of the state in memory, above a store of the others.

    With `answers`, each row of input needs the new state of its key, so a miss reads the store. Without, a store that
    `accumulates` takes deltas, and nothing is read.
    """

    def __init__(self, store: Any, capacity: int, *, answers: bool) -> None:
        self._store = store
        self.capacity = capacity
        self._reads = answers or not store.accumulates
        self._answers = answers
        self.index = SlotIndex(1)
        self._sums = np.zeros(capacity, np.int64)
        self._lasts = np.zeros(capacity, LAST)
        self._full, self._dirty = np.zeros(capacity, np.bool_), np.zeros(capacity, np.bool_)
        self._used = np.zeros(capacity, np.uint32)
        self._batches = 0
        self._kept = int(KEPT * capacity) if self._reads else 0
        self.counts = Counts()

    def update(self, keys: Rows, values: Rows, lasts: npt.NDArray[np.void]) -> Rows | None:
        """Add values to the sums of keys, and set their last values. Return the new sums, if they were asked for."""
        if self.index.size + len(keys) > self.capacity:
            self._make_room(len(keys))
        slots = self._slots(keys)
        np.add.at(self._sums, slots, values)
        self._lasts[slots] = lasts  # of equal slots the last one wins
        self._dirty[slots] = True
        self.counts.rows += len(keys)
        return self._sums.take(slots) if self._answers else None

    def fill(self, keys: Rows, sums: Rows, lasts: npt.NDArray[np.void]) -> None:
        """Let an empty cache hold the state of distinct keys as the store has it."""
        slots, _ = self.index.find_or_add([keys])
        self._sums[slots], self._lasts[slots], self._full[slots] = sums, lasts, True

    def get(self, keys: Rows) -> tuple[Rows, npt.NDArray[np.void]]:
        """Return sums and last values of distinct keys, whatever has to be read. The cache does not change."""
        slots = self.index.find([keys])
        sums, lasts = np.zeros(len(keys), np.int64), np.zeros(len(keys), LAST)
        here = np.flatnonzero(slots >= 0)
        elsewhere = np.flatnonzero((slots < 0) | ~self._full[slots])
        codes = codes_of(keys[elsewhere])
        order = np.argsort(codes)
        found = self._store.read(codes[order])
        sums[elsewhere[order]], lasts[elsewhere[order]] = found.sums, found.lasts
        sums[here] += self._sums[slots[here]]
        lasts[here] = self._lasts[slots[here]]
        return sums, lasts

    def checkpoint(self, directory: Path) -> None:
        """Write what changed, and give the files of the state a second name."""
        self._write_dirty()
        self._store.checkpoint(directory)

    def _slots(self, keys: Rows) -> Rows:
        slots, added = self.index.find_or_add([keys])
        self._batches += 1
        self._used[slots] = self._batches
        self.counts.misses += len(added)
        if not len(added):
            return slots
        self._sums[added], self._full[added] = 0, False
        if self._reads:
            codes = codes_of(self.index.columns[0][added])
            order = np.argsort(codes)
            started = time.perf_counter()
            found = self._store.read(codes[order])
            self.counts.read_s += time.perf_counter() - started
            slots_read = added[order]
            self._sums[slots_read], self._lasts[slots_read] = found.sums, found.lasts
            self._full[added] = True
        return slots

    def _make_room(self, rows: int) -> None:
        """Free slots, enough for a batch."""
        if rows > self.capacity:
            raise ValueError(f"A batch has {rows} rows, but only {self.capacity} fit into memory: set a larger budget")
        size = self.index.size
        clean = np.flatnonzero(~self._dirty[:size])
        leaving = size - min(self._kept, self.capacity - rows)
        if len(clean) < leaving:
            self._write_dirty()
            clean = np.arange(size)
        started = time.perf_counter()
        oldest = clean[np.argpartition(self._used[clean], leaving - 1)[:leaving]]
        stays = np.ones(size, np.bool_)
        stays[oldest] = False
        kept = np.flatnonzero(stays)
        codes = self.index.columns[0][kept]
        self.index = SlotIndex(1)
        if len(kept):
            self.index.load([codes])
        for column in (self._sums, self._lasts, self._full, self._dirty, self._used):
            for begin in range(0, len(kept), _AT_ONCE):  # a row moves down only, so the rows above are still there
                some = kept[begin : begin + _AT_ONCE]
                column[begin : begin + len(some)] = column.take(some)
        self.counts.evictions += leaving
        self.counts.evict_s += time.perf_counter() - started

    def _write_dirty(self) -> None:
        dirty = np.flatnonzero(self._dirty[: self.index.size])
        if not len(dirty):
            return
        started = time.perf_counter()
        codes = codes_of(self.index.columns[0][dirty])
        order = np.argsort(codes)
        self._store.write(self._chunks(codes[order], dirty[order]), len(dirty))
        self._dirty[: self.index.size] = False
        deltas = dirty[~self._full[dirty]]
        self._sums[deltas] = 0
        self.counts.flushed += len(dirty)
        self.counts.flushes += 1
        self.counts.write_s += time.perf_counter() - started

    def _chunks(self, codes: npt.NDArray[np.uint64], slots: Rows) -> Iterator[Entries]:
        for begin in range(0, len(slots), _AT_ONCE):
            some = slots[begin : begin + _AT_ONCE]
            columns = self._full.take(some), self._sums.take(some), self._lasts.take(some)
            yield Entries(codes[begin : begin + _AT_ONCE], *columns)
