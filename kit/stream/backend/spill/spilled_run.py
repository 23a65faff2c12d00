"""Spilled runs: immutable files of rows in the order of their places.

A file is a sequence of blocks (`kit.stream.backend.spill.blocks`). In memory a run keeps, for each block, its first
place (the fence), its offset and the latest interval in which one of its rows changed, and for all rows a Bloom filter.
Rows with one place are in one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.picking import rows_at
from kit.stream.backend.spill.blocks import Blocks, FoundRows, blocks_for
from kit.stream.backend.spill.bloom_filter import BloomFilter
from kit.stream.backend.spill.places import Places, Rows, same_keys
from kit.stream.backend.spill.rows import intervals, places
from kit.stream.backend.spill.spill_space import SpillFile, SpillSpace

GAP_BYTES = 1 << 14
"""Bytes that are read although nobody asked for them, instead of a second read: as long as they take."""
PIECE_BYTES = 1 << 21
"""Bytes that are read and decoded before the rows wanted of them are taken."""
_NO_INTERVAL = -1


class SpilledRun:
    """A finished run."""

    is_in_order = True

    def __init__(
        self,
        file: SpillFile,
        blocks: Blocks,
        rows: int,
        fences: Places,
        offsets: npt.NDArray[np.int64],
        changed: npt.NDArray[np.int32],
        bloom_filter: BloomFilter,
    ) -> None:
        self.rows = rows
        self.fences = fences
        self.latest_change = int(changed.max(initial=_NO_INTERVAL))
        self._file = file
        self._blocks = blocks
        self._offsets = offsets
        self._changed = changed
        self._filter = bloom_filter

    def __repr__(self) -> str:
        return f"SpilledRun({self.rows} rows in {len(self.fences)} blocks, {self.size} B)"

    def __deepcopy__(self, memo: dict[int, object]) -> SpilledRun:
        """Return the run itself: it is immutable, so copies of a world share it."""
        return self

    @property
    def size(self) -> int:
        """The size of its file in bytes."""
        return self._file.size

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of its fences, offsets and filter."""
        return self.fences.nbytes + self._offsets.nbytes + self._changed.nbytes + self._filter.nbytes

    def find(self, wanted: Places, keys: Sequence[pa.Array]) -> tuple[Rows, list[pa.Table]]:
        """Return which of some distinct keys, whose places ascend, have a row here, and these rows in that order."""
        maybe = np.flatnonzero(self._filter.may_contain(wanted))
        blocks = np.searchsorted(self.fences, wanted.take(maybe), side="right") - 1
        inside = blocks >= 0
        maybe, blocks = maybe[inside], blocks[inside]
        numbers, found = [maybe[:0]], []
        for begin, end, rows in self._pieces(blocks):
            some = maybe[begin:end]
            which, at = _matches(rows, wanted.take(some), [rows_at(column, some) for column in keys])
            if len(which):
                numbers.append(some[which])
                found.append(rows.take(at))
        return np.concatenate(numbers), found

    def between(self, low: int, behind: int, after: int | None = None) -> pa.Table:
        """Return the rows with places from `low` to below `behind`; if `after` is an interval, without blocks where
        nothing changed after it.
        """
        begin = max(0, int(np.searchsorted(self.fences, np.uint64(low), side="right")) - 1)
        end = int(np.searchsorted(self.fences, np.uint64(behind - 1), side="right"))
        wanted = begin + np.flatnonzero(self._changed[begin:end] > (_NO_INTERVAL if after is None else after))
        rows = self._blocks.decode(self._read(wanted))
        at = rows.places()
        first, last = np.searchsorted(at, np.uint64(low)), np.searchsorted(at, np.uint64(behind - 1), side="right")
        return rows.between(int(first), int(last))

    def _pieces(self, blocks: Rows) -> Iterator[tuple[int, int, FoundRows]]:
        """Read the blocks of ascending look-ups, a piece at a time.

        Yield the first look-up of each piece, the one behind its last, and the rows.
        """
        if not len(blocks):
            return
        starts = np.append(0, np.flatnonzero(np.diff(blocks)) + 1)
        distinct = blocks[starts]
        ends = np.append(starts[1:], len(blocks))
        sizes = np.cumsum(self._offsets[distinct + 1] - self._offsets[distinct])
        at = 0
        while at < len(distinct):
            before = int(sizes[at - 1]) if at else 0
            last = max(at + 1, int(np.searchsorted(sizes, before + PIECE_BYTES, side="right")))
            yield int(starts[at]), int(ends[last - 1]), self._blocks.decode(self._read(distinct[at:last]))
            at = last

    def _read(self, blocks: Rows) -> list[tuple[Any, list[tuple[int, int]]]]:
        """Read blocks, given in ascending order; those that are close together at once."""
        if not len(blocks):
            return []
        begins, ends = self._offsets[blocks], self._offsets[blocks + 1]
        apart = np.append(0, np.flatnonzero(begins[1:] - ends[:-1] > GAP_BYTES) + 1)
        parts = []
        for first, behind in pairwise([*apart.tolist(), len(blocks)]):
            base = int(begins[first])
            data = self._file.read(base, int(ends[behind - 1]) - base)
            where = zip((begins[first:behind] - base).tolist(), (ends[first:behind] - base).tolist(), strict=True)
            parts.append((data, list(where)))
        return parts


class RunWriter:
    """Writes a run of at most `most_rows` rows, in ascending order, in any number of chunks.

    Its places are from `first` to below `behind`.
    """

    def __init__(self, space: SpillSpace, schema: pa.Schema, most_rows: int, first: int, behind: int) -> None:
        self._file = space.create()
        self._blocks = blocks_for(schema)
        self._filter = BloomFilter(most_rows, first, behind)
        self._fences: list[Places] = []
        self._changed: list[npt.NDArray[np.int32]] = []
        self._ends = [0]
        self._rows = 0

    @property
    def size(self) -> int:
        """The bytes written so far."""
        return self._ends[-1]

    def add(self, rows: pa.Table) -> None:
        """Write rows whose places are above those of all earlier ones."""
        if not rows.num_rows:
            return
        rows = rows.combine_chunks()
        at = places(rows)
        starts = starts_of(at, max(1, self._blocks.block_bytes * rows.num_rows // max(1, rows.nbytes)))
        pieces, sizes = self._blocks.encode(rows, starts)
        for piece in pieces:
            self._file.write(piece)
        self._ends += (self._ends[-1] + np.cumsum(sizes)).tolist()
        self._fences.append(at[starts])
        self._changed.append(np.maximum.reduceat(intervals(rows, "changed"), starts))
        self._filter.add(at)
        self._rows += rows.num_rows

    def finish(self) -> SpilledRun:
        """Return the run."""
        fences = np.concatenate([np.empty(0, np.uint64), *self._fences])
        changed = np.concatenate([np.empty(0, np.int32), *self._changed])
        offsets = np.array(self._ends, np.int64)
        return SpilledRun(self._file.finish(), self._blocks, self._rows, fences, offsets, changed, self._filter)


def starts_of(at: Places, rows: int) -> Rows:
    """Return where parts of about this many rows begin; rows with one place, which ascend, stay together."""
    starts = np.arange(0, len(at), rows)
    while len(split := np.flatnonzero((starts > 0) & (at[starts] == at[starts - 1]))):
        starts[split] -= 1
    return np.unique(starts)


def _matches(rows: FoundRows, wanted: Places, keys: list[pa.Array]) -> tuple[Rows, Rows]:
    """Return the numbers of wanted keys that are among the rows, ascending, and the row of each."""
    there = rows.places()
    numbers, at = np.arange(len(wanted)), np.searchsorted(there, wanted)
    found, where = [numbers[:0]], [numbers[:0]]
    while len(numbers):
        inside = np.flatnonzero(at < len(there))
        inside = inside[there[at[inside]] == wanted[numbers[inside]]]
        numbers, at = numbers[inside], at[inside]
        hit = same_keys([rows_at(column, numbers) for column in keys], rows.keys(at))
        found.append(numbers[hit])
        where.append(at[hit])
        numbers, at = numbers[~hit], at[~hit] + 1  # another key with the same place: look at the row behind it
    numbers, at = np.concatenate(found), np.concatenate(where)
    order = np.argsort(numbers)
    return numbers[order], at[order]
