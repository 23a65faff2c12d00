"""Row order: the rows of a large state in the order of a checkpoint, by key group and then by key.

Keys keep their order, so the order of one snapshot is remembered for the next (`slot_index.LastResult`), which only
determines the new and the removed rows. The new ones are sorted separately and merged in. If a row's key is its own
code, removed rows are found by comparing codes. Codes of interned keys may have been reused meanwhile, so these are
sorted again once a row was removed.

The remembered order affects only the speed of a snapshot: the bytes are the same without it. All large steps run within
numpy and Arrow, which let other threads run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.stream.backend.files.sorting import order_of_rows
from kit.stream.backend.keys.key_codec import Codes, Decoder
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.keys.slot_index import FrozenIndex

Slots = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

SPAN_ROWS = 1 << 16
"""The number of rows that are sorted by key, and encoded, at a time. Smaller orders are not remembered."""


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """The slots of all rows in order, their codes, and the number of rows of each key group.

    `size` and `removals` are those of the index at that moment.
    """

    slots: Slots
    columns: tuple[Codes, ...]
    counts: npt.NDArray[np.int64]
    size: int
    removals: int

    def __repr__(self) -> str:
        return f"RowOrder({len(self.slots)} rows in {np.count_nonzero(self.counts)} key groups)"

    def spans(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield ranges of adjacent key groups that are large enough to process together.

        Each has the first group and the one after the last, the first of their rows and the one after the last.
        """
        return _spans(self.counts)


def row_order(
    index: FrozenIndex, decoders: Sequence[Decoder], key_column: int, max_parallelism: int, last: RowOrder | None
) -> RowOrder:
    """Return the rows of `index` in order; `last` is any order of the same index's rows at another moment."""
    by_codes = not any(decoder.interned for decoder in decoders)
    if last is None or not (by_codes or last.removals == index.removals):
        return _sorted(index, index.slots, decoders, key_column, max_parallelism)
    there, new = _what_changed(index, last)
    if len(new) and not (by_codes and len(decoders) == 1):
        return _sorted(index, index.slots, decoders, key_column, max_parallelism)
    kept = last if there is None else _without(last, there)
    if not len(new):
        return RowOrder(kept.slots, kept.columns, kept.counts, index.size, index.removals)
    return _merged(kept, _sorted(index, new, decoders, key_column, max_parallelism))


def _what_changed(index: FrozenIndex, last: RowOrder) -> tuple[Mask | None, npt.NDArray[np.int64]]:
    """Return which rows of `last` still exist (None: all), and the slots that are not among these."""
    size = index.size
    if index.removals == last.removals and len(index) == size and len(last.slots) == last.size <= size:
        return None, np.arange(len(last.slots), size)
    left = np.zeros(max(size, last.size), np.bool_)
    left[index.slots] = True
    there = left.take(last.slots)
    if index.removals != last.removals:
        for now, before in zip(index.columns, last.columns, strict=True):
            there &= now.take(last.slots, mode="clip") == before
    left[last.slots[there]] = False
    return there, np.flatnonzero(left)


def _without(order: RowOrder, there: Mask) -> RowOrder:
    """Return the rows that still exist."""
    groups = np.repeat(np.arange(len(order.counts)), order.counts)[there]
    columns = tuple(column[there] for column in order.columns)
    counts = np.bincount(groups, minlength=len(order.counts))
    return RowOrder(order.slots[there], columns, counts, order.size, order.removals)


def _merged(some: RowOrder, new: RowOrder) -> RowOrder:
    """Merge the rows of two orders whose codes are their ranks."""
    ends, new_ends = some.counts.cumsum(), new.counts.cumsum()
    (codes,), (new_codes,) = some.columns, new.columns
    places = np.arange(len(new_codes))
    for group in np.flatnonzero(new.counts).tolist():
        end, new_end = int(ends[group]), int(new_ends[group])
        begin, new_begin = end - int(some.counts[group]), new_end - int(new.counts[group])
        places[new_begin:new_end] += begin + codes[begin:end].searchsorted(new_codes[new_begin:new_end])
    old = np.ones(len(codes) + len(new_codes), np.bool_)
    old[places] = False

    def both(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
        merged = np.empty(len(old), one.dtype)
        merged[old], merged[places] = one, other
        return merged

    slots, counts = both(some.slots, new.slots), some.counts + new.counts
    return RowOrder(slots, (both(codes, new_codes),), counts, new.size, new.removals)


def _sorted(
    index: FrozenIndex, slots: npt.NDArray[np.int64], decoders: Sequence[Decoder], key_column: int, max_parallelism: int
) -> RowOrder:
    """Return the rows of these slots, sorted: by key group first, then span by span."""
    groups = key_groups(decoders[key_column].decode(index.columns[key_column].take(slots)), max_parallelism)
    counts = np.bincount(groups, minlength=max_parallelism)
    in_order = slots.take(np.argsort(groups, kind="stable")).astype(np.int32)
    columns = tuple(column.take(in_order) for column in index.columns)
    for first, behind, begin, end in _spans(counts):
        span = [column[begin:end] for column in columns]
        order = order_of_rows([decoder.ranks(column) for decoder, column in zip(decoders, span, strict=True)])
        if behind > first + 1:
            groups = np.repeat(np.arange(first, behind), counts[first:behind])
            order = order.take(np.argsort(groups.take(order).astype(np.uint16), kind="stable"))
        in_order[begin:end] = in_order[begin:end].take(order)
        for column in columns:
            column[begin:end] = column[begin:end].take(order)
    return RowOrder(in_order, columns, counts, index.size, index.removals)


def _spans(counts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int, int]]:
    ends = counts.cumsum()
    first = 0
    while first < len(ends):
        begin = int(ends[first] - counts[first])
        behind = max(first + 1, int(np.searchsorted(ends, begin + SPAN_ROWS, side="right")))
        yield first, behind, begin, int(ends[behind - 1])
        first = behind
