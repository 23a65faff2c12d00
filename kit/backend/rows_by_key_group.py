"""Rows by key group: the entries of a large state, brought together key group by key group.

To read a column of ten million rows in the order of its key groups means to fetch every line of memory as often as it
holds rows. So the rows are cut into blocks that fit a cache, each block is brought into order by itself, and what the
blocks have for a key group is then copied as a piece. All of that happens within numpy, which lets other threads run as
long as the pieces are large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.backend.key_codec import Decoder
from kit.backend.key_hashing import key_groups
from kit.backend.slot_index import FrozenIndex

Slots = npt.NDArray[np.int64]

BLOCK_ROWS = 1 << 20
"""Eight bytes for each of them fit the last-level cache. With a sixteenth of that a task that goes on meanwhile keeps
81 % of its rate instead of 96 %: while Python copies small pieces it does not let go of its lock.
"""
SPAN_ROWS = 1 << 16
"""So many are sorted by key, and encoded, at a time."""


class RowsByKeyGroup:
    """The rows of `index` by the key group of the keys in `key_column`; `counts` says how many each group has."""

    def __init__(self, index: FrozenIndex, key_column: int, keys: Decoder, max_parallelism: int) -> None:
        self._blocks: list[Slots] = []  # slots, by key group
        self._groups: list[npt.NDArray[Any]] = []  # of these, where they are not in order
        counts = []
        for start in range(0, len(index), BLOCK_ROWS):
            slots = index.slots_of(np.arange(start, min(start + BLOCK_ROWS, len(index))))
            groups = key_groups(keys.decode(index.columns[key_column].take(slots)), max_parallelism)
            counts.append(np.bincount(groups, minlength=max_parallelism))
            if len(index) > SPAN_ROWS:
                slots = slots.take(np.argsort(groups, kind="stable"))
            else:  # it is brought into order once, by key too
                self._groups.append(groups)
            self._blocks.append(slots)
        self._counts = np.array(counts, np.int64).reshape(-1, max_parallelism)
        self.counts: npt.NDArray[np.int64] = self._counts.sum(axis=0)

    def __repr__(self) -> str:
        return f"RowsByKeyGroup({self.counts.sum()} rows in {np.count_nonzero(self.counts)} key groups)"

    def gathered(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The elements of a column, given by slot, of all rows, in order of their key groups."""
        return self._joined([column.take(slots) for slots in self._blocks]) if self._blocks else column[:0]

    def _joined(self, blocks: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if len(blocks) == 1:
            return blocks[0]
        ends = self._counts.cumsum(axis=1)
        starts = (ends - self._counts).T.tolist()
        return np.concatenate(
            [
                block[start:end]
                for of_group in zip(starts, ends.T.tolist(), strict=True)
                for block, start, end in zip(blocks, *of_group, strict=True)
            ]
        )

    def groups(self, first: int, behind: int) -> npt.NDArray[Any]:
        """The key group of each row of a span, from the group `first` up to that before `behind`."""
        if self._groups:
            return self._joined(self._groups)
        return np.repeat(np.arange(first, behind), self.counts[first:behind])

    def spans(self) -> Iterator[tuple[int, int, int, int]]:
        """Neighbouring key groups, enough of them at a time to be worth the while: the first group and the one behind
        the last, the first of their rows and the one behind the last.
        """
        ends = self.counts.cumsum()
        first = 0
        while first < len(ends):
            begin = int(ends[first] - self.counts[first])
            behind = max(first + 1, int(np.searchsorted(ends, begin + SPAN_ROWS, side="right")))
            yield first, behind, begin, int(ends[behind - 1])
            first = behind
