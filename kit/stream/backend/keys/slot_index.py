"""Slot index: from codes to dense slots, a batch at a time.

A *code* is an int64 for a key, a namespace or a time (`kit.stream.backend.keys.key_codec`). An index maps tuples of
`width` codes to *slots*: small dense numbers, the positions of the tuple's state in plain numpy columns. Freed slots
are reused.

There are two ways to find a slot, and the index switches between them as it grows:

- *direct*: `slot_at[code - base]`, while there is one code and the codes are close together;
- *hashed*: open addressing with linear probing, with every step taken for all unresolved rows of the batch at once. Two
  new rows that meet at one free place both write their claim. The row whose claim is read back has won, and the other
  one continues.

`freeze` gives a reader the columns without a copy: new slots are outside its view, and a slot within it is written
again only after the columns were copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
Slots = npt.NDArray[np.int64]

ABSENT = -1  # no such tuple
_EMPTY, _REMOVED = -1, -2  # a place without a slot
_FIRST_CLAIM = -3  # a row's claim on a place: -3, -4, ...
_MIN_DIRECT_SPAN = 1 << 14
_DIRECT_SPAN_PER_SLOT = 4
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
_UINT64 = 0xFFFFFFFFFFFFFFFF
_BLOCK_ROWS = 1 << 16
_MOST_USED = 0.45
"""The highest load factor: half the memory of a third without a measurable cost; at a half, look-ups are a fifth
slower."""
_NO_SLOTS = np.empty(0, np.int64)
FEW_ROWS = 16
"""The number of rows up to which rows are processed one by one, here and elsewhere: faster than the passes."""
_MANY_LEFT, _AHEAD = 512, np.arange(1, 13)
"""With at most `_MANY_LEFT` unresolved rows, many places are examined at once: one pass per place would make the last
few rows as slow as the first thousands."""
_FEW_LEFT = 24
"""The number of rows, not yet added, up to which they are added one by one, for the same reason."""
MOST_KNOWN = 1 << 14


def lowest(numbers: npt.NDArray[np.int64]) -> int:
    """Return the smallest of at least one number."""
    return min(numbers.tolist()) if len(numbers) <= FEW_ROWS else int(numbers.min())


def extended(column: npt.NDArray[Any], capacity: int, initial: Any = 0) -> npt.NDArray[Any]:
    """Return a longer copy of a column; what is new is `initial`."""
    longer = np.zeros(capacity, column.dtype)
    longer[: len(column)] = column
    if initial:
        longer[len(column) :] = initial
    return longer


class LookupCache(dict[Any, int]):
    """A cache of earlier look-ups. Its owner removes entries that are no longer valid."""

    __slots__ = ()

    def __setitem__(self, what: Any, found: int) -> None:
        if len(self) >= MOST_KNOWN:
            self.clear()
        super().__setitem__(what, found)

    def __deepcopy__(self, memo: dict[int, object]) -> LookupCache:
        """Return an empty cache: a copy of a world fills its own."""
        return LookupCache()


class LastResult:
    """The results that the reader of a frozen index leaves for the readers of the next ones, in any thread."""

    def __init__(self) -> None:
        self.order: Any = None

    def __deepcopy__(self, memo: dict[int, object]) -> LastResult:
        """Return an empty one: a copy of a world computes its own."""
        return LastResult()


class FrozenIndex:
    """The content of an index at one moment. The slots in use are computed on demand.

    `removals` counts how often slots were freed until then: while it does not change, a slot keeps its codes.
    """

    def __init__(
        self, columns: tuple[Codes, ...], unused: Slots, removals: int = 0, last_result: LastResult | None = None
    ) -> None:
        self.columns = columns
        self.removals = removals
        self.last_result = last_result or LastResult()
        self._unused = unused

    def __len__(self) -> int:
        return self.size - len(self._unused)

    @property
    def size(self) -> int:
        """The number above all slots."""
        return len(self.columns[0])

    @cached_property
    def slots(self) -> Slots:
        """The slots in use, ascending."""
        if not len(self._unused):
            return np.arange(len(self.columns[0]))
        in_use = np.ones(len(self.columns[0]), np.bool_)
        in_use[self._unused] = False
        return np.flatnonzero(in_use)


class SlotIndex:
    """A map from tuples of `width` int64 codes to slots 0, 1, 2, ..."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.growth = 2.0
        """The factor by which the columns grow when they are full."""
        self.columns: list[Codes]
        self.live: npt.NDArray[np.bool_]
        self.size: int  # slots ever allocated: all slots in use are below
        self._free: Slots
        self._frozen_size: int  # a reader may still read the slots below
        self._known = LookupCache()  # the slots of rows in small batches, all in use
        self._removals = 0
        self._last_result = LastResult()
        self._places: _DirectPlaces | _HashedPlaces
        self._restart()

    def __len__(self) -> int:
        return self.size - len(self._free)

    def __repr__(self) -> str:
        return f"SlotIndex({len(self)} slots, {self._places!r})"

    @property
    def capacity(self) -> int:
        """The number of slots before the columns grow."""
        return len(self.live)

    def slots_in_use(self) -> Slots:
        """Return all slots in use, ascending."""
        return np.arange(self.size) if not len(self._free) else np.flatnonzero(self.live[: self.size])

    def find(self, codes: Sequence[Codes]) -> Slots:
        """Return the slot of each row, `ABSENT` if it has none."""
        return self._places.find(codes)

    def find_or_add(self, codes: Sequence[Codes]) -> tuple[Slots, Slots]:
        """Return the slot of each row, and the slots that are new."""
        if len(codes[0]) <= FEW_ROWS:
            return self._find_or_add_few(codes)
        slots = self._places.find(codes)
        if slots.min() >= 0:
            return slots, slots[:0]
        missing = np.flatnonzero(slots < 0)
        missing_codes = [column.take(missing) for column in codes]
        self._make_room(missing_codes)
        slots[missing], added = self._places.add(missing_codes)
        return slots, added

    def _find_or_add_few(self, codes: Sequence[Codes]) -> tuple[Slots, Slots]:
        rows, known = list(zip(*[column.tolist() for column in codes])), self._known
        slots, added = list(map(known.get, rows)), []
        if None in slots:
            for number, row in enumerate(rows):
                slot = self._places.find_one(row)
                if slot == ABSENT:
                    slot = self.add_one(row)
                    added.append(slot)
                slots[number] = known[row] = slot
        return np.array(slots, np.int64), np.array(added, np.int64) if added else _NO_SLOTS

    def load(self, codes: Sequence[Codes]) -> None:
        """Assign slots 0, 1, 2, ... to distinct tuples at once, in an empty index, which takes over the arrays."""
        assert not len(self), f"{self!r} is not empty"
        self._restart()
        self.size = len(codes[0])
        self.columns = [*codes]
        self.live = np.ones(self.size, np.bool_)
        low, high = int(codes[0].min()), int(codes[0].max())
        if self._are_close(low, high, self.size):
            self._places = _DirectPlaces(self, low, high)
        else:
            self._places = _HashedPlaces(self, self.size)
            self._places.fill()

    def find_one(self, codes: Sequence[int]) -> int:
        """Return the slot of one tuple, or `ABSENT`."""
        return self._places.find_one(codes)

    def add_one(self, codes: Sequence[int]) -> int:
        """Return the slot of one tuple that has none yet."""
        if not self._places.has_room_for_one(codes):
            self._make_room([np.array([code], np.int64) for code in codes])
        return self._places.add_one(codes)

    def remove(self, slots: Slots) -> None:
        """Free distinct slots in use."""
        self._removals += 1
        if len(slots) == len(self):
            self._restart()
            return
        self._places.remove(slots)
        self._known.clear()
        self.live[slots] = False
        self._free = np.concatenate((self._free, slots))

    def freeze(self, unset: Slots | None = None) -> FrozenIndex:
        """Return the slots in use, except those in `unset`, and their codes, safe from later changes."""
        self._frozen_size = self.size
        unused = self._free if unset is None else np.concatenate((self._free, unset))
        columns = tuple(column[: self.size] for column in self.columns)
        return FrozenIndex(columns, unused, self._removals, self._last_result)

    def validate(self) -> None:
        """Check that live slots, free slots and places agree. Raises AssertionError."""
        slots = self.slots_in_use()
        assert len(slots) == len(self) == np.count_nonzero(self.live)
        assert not self.live[self._free].any()
        assert len(np.unique(self._free)) == len(self._free)
        assert np.array_equal(self.find([column.take(slots) for column in self.columns]), slots)

    # ---- for the places -----------------------------------------------------------------------------------------

    def allocate(self, codes: Sequence[Codes]) -> Slots:
        """Allocate a slot for each row, freed ones first, and record its codes."""
        wanted = len(codes[0])
        reused = self._free[len(self._free) - min(wanted, len(self._free)) :]
        self._free = self._free[: len(self._free) - len(reused)]
        fresh = np.arange(self.size, self.size + wanted - len(reused))
        self.size += len(fresh)
        if self.size > self.capacity:
            self._grow(max(self.size, int(self.capacity * self.growth), 16))
        slots = np.concatenate((reused, fresh)) if len(reused) else fresh
        if len(reused):
            self._let_readers_be()
        for column, values in zip(self.columns, codes, strict=True):
            column[slots] = values
        self.live[slots] = True
        return slots

    def allocate_one(self, codes: Sequence[int]) -> int:
        """Allocate a slot for one row."""
        if len(self._free):
            slot = self._free.item(-1)
            self._free = self._free[:-1]
            self._let_readers_be()
        else:
            slot = self.size
            self.size += 1
            if self.size > self.capacity:
                self._grow(max(self.size, int(self.capacity * self.growth), 16))
        for column, code in zip(self.columns, codes):
            column[slot] = code
        self.live[slot] = True
        return slot

    def _let_readers_be(self) -> None:
        """Copy the columns before writing slots that a reader may still read."""
        if self._frozen_size:
            self.columns = [column.copy() for column in self.columns]
            self._frozen_size = 0

    def _grow(self, capacity: int) -> None:
        self.columns = [extended(column, capacity) for column in self.columns]
        self.live = extended(self.live, capacity)
        self._frozen_size = 0

    def _restart(self) -> None:
        """Reset the index, including its memory: a closed window leaves nothing behind."""
        self.columns = [np.empty(0, np.int64) for _ in range(self.width)]
        self.live = np.zeros(0, np.bool_)
        self.size = self._frozen_size = 0
        self._free = np.empty(0, np.int64)
        self._known.clear()
        self._places = _HashedPlaces(self, 0)

    def _make_room(self, codes: Sequence[Codes]) -> None:
        """Make room in the places for all rows of `codes`, switching to the other kind if that pays."""
        if self._places.has_room_for(codes):
            return
        rows = len(self) + len(codes[0])
        if self.width == 1:
            in_use = self.columns[0][self.slots_in_use()]
            low = min(int(codes[0].min()), int(in_use.min(initial=np.iinfo(np.int64).max)))
            high = max(int(codes[0].max()), int(in_use.max(initial=np.iinfo(np.int64).min)))
            if self._are_close(low, high, rows):
                self._places = _DirectPlaces(self, low, high)
                return
        self._places = _HashedPlaces(self, rows)
        self._places.fill()

    def _are_close(self, low: int, high: int, rows: int) -> bool:
        """Return True if this number of rows between two codes is found directly."""
        return self.width == 1 and high - low < max(_MIN_DIRECT_SPAN, _DIRECT_SPAN_PER_SLOT * rows)


class _DirectPlaces:
    """A slot for each code in a range of codes."""

    def __init__(self, index: SlotIndex, low: int, high: int) -> None:
        slack = (high - low) // 4  # on both sides, so that a growing range is not copied for every batch
        self._index = index
        self._base = max(low - slack, np.iinfo(np.int64).min)
        self._slot_at = np.full(high - self._base + 1 + slack, _EMPTY, np.int32)
        slots = index.slots_in_use()
        self._slot_at[index.columns[0][slots] - self._base] = slots

    def __repr__(self) -> str:
        return f"direct, span {len(self._slot_at)}"

    def find(self, codes: Sequence[Codes]) -> Slots:
        offsets = codes[0] - self._base
        if self._covers(offsets):
            return self._slot_at.take(offsets).astype(np.int64)
        slots = np.full(len(offsets), ABSENT, np.int64)
        inside = np.flatnonzero(offsets.view(np.uint64) < len(self._slot_at))
        slots[inside] = self._slot_at[offsets[inside]]
        return slots

    def find_one(self, codes: Sequence[int]) -> int:
        offset = codes[0] - self._base
        return self._slot_at.item(offset) if 0 <= offset < len(self._slot_at) else ABSENT

    def has_room_for(self, codes: Sequence[Codes]) -> bool:
        return self._covers(codes[0] - self._base)

    def add(self, codes: Sequence[Codes]) -> tuple[Slots, Slots]:
        offsets = codes[0] - self._base
        self._slot_at[offsets] = _FIRST_CLAIM - np.arange(len(offsets))
        won = np.flatnonzero(self._slot_at[offsets] == _FIRST_CLAIM - np.arange(len(offsets)))
        added = self._index.allocate([codes[0][won]])
        self._slot_at[offsets[won]] = added
        return self._slot_at[offsets].astype(np.int64), added

    def has_room_for_one(self, codes: Sequence[int]) -> bool:
        return 0 <= codes[0] - self._base < len(self._slot_at)

    def add_one(self, codes: Sequence[int]) -> int:
        slot = self._slot_at[codes[0] - self._base] = self._index.allocate_one(codes)
        return slot

    def remove(self, slots: Slots) -> None:
        self._slot_at[self._index.columns[0][slots] - self._base] = _EMPTY

    def _covers(self, offsets: Codes) -> bool:
        # A negative offset is a huge unsigned one: one pass checks both ends.
        return bool(offsets.view(np.uint64).max() < len(self._slot_at)) if len(offsets) else True


class _HashedPlaces:
    """Open addressing, at most `_MOST_USED` full counting removed places: most rows are resolved by the first look."""

    def __init__(self, index: SlotIndex, rows: int) -> None:
        bits = max(4, (int(rows / _MOST_USED) - 1).bit_length())
        self._index = index
        self._shift = 64 - bits
        self._mask = (1 << bits) - 1
        self._table = np.full(1 << bits, _EMPTY, np.int32)
        self._used = 0

    def __repr__(self) -> str:
        return f"hashed, {len(self._table)} places, {self._used} used"

    def find(self, codes: Sequence[Codes]) -> Slots:
        at = self._home(codes)
        slots = self._table.take(at).astype(np.int64)
        unresolved = self._elsewhere(slots, codes)
        at, codes = at[unresolved], [column[unresolved] for column in codes]
        while len(unresolved) > _MANY_LEFT:
            at = (at + 1) & self._mask
            found = self._table.take(at).astype(np.int64)
            slots[unresolved] = found
            keep = self._elsewhere(found, codes)
            unresolved, at, codes = unresolved[keep], at[keep], [column[keep] for column in codes]
        slots[unresolved] = self._find_ahead(at, codes)
        return slots

    def _find_ahead(self, at: Slots, codes: Sequence[Codes]) -> Slots:
        """Return the slots of a few rows, which are not at the places up to `at`: many places are examined together."""
        slots, left = np.full(len(at), ABSENT, np.int64), np.arange(len(at))
        while len(left):
            there = self._table.take((at[left, np.newaxis] + _AHEAD) & self._mask)
            taken = np.maximum(there, 0)
            found = there >= 0
            for column, wanted in zip(self._index.columns, codes, strict=True):
                found &= column.take(taken) == wanted[left, np.newaxis]
            ends = found | (there == _EMPTY)
            first = ends.argmax(axis=1)
            rows = np.arange(len(left))
            slots[left] = np.where(found[rows, first], there[rows, first], ABSENT)
            left = left[~ends[rows, first]]
            at = at + len(_AHEAD)
        return slots

    def find_one(self, codes: Sequence[int]) -> int:
        return max(ABSENT, self._table.item(self._place_of_one(self._home_of_one(codes), codes)))

    def _place_of_one(self, at: int, codes: Sequence[int]) -> int:
        """Return the place of a tuple from `at` on, or else the first empty one."""
        table, columns = self._table, self._index.columns
        while (slot := table.item(at)) != _EMPTY:
            if slot >= 0:
                for column, code in zip(columns, codes):
                    if column.item(slot) != code:
                        break
                else:
                    return at
            at = (at + 1) & self._mask
        return at

    def has_room_for(self, codes: Sequence[Codes]) -> bool:
        return self._used + len(codes[0]) <= _MOST_USED * len(self._table)

    def has_room_for_one(self, codes: Sequence[int]) -> bool:
        return self._used + 1 <= _MOST_USED * len(self._table)

    def add_one(self, codes: Sequence[int]) -> int:
        at = self._home_of_one(codes)
        while self._table.item(at) != _EMPTY:
            at = (at + 1) & self._mask
        slot = self._table[at] = self._index.allocate_one(codes)
        self._used += 1
        return slot

    def add(self, codes: Sequence[Codes]) -> tuple[Slots, Slots]:
        slots = np.empty(len(codes[0]), np.int64)
        added = []
        unresolved, at = np.arange(len(slots)), self._home(codes)
        while len(unresolved) > _FEW_LEFT:
            new = self._claim(unresolved, at, codes)
            added.append(new)
            found = self._table.take(at).astype(np.int64)
            matches = self._matches(found, [column[unresolved] for column in codes])
            slots[unresolved[matches]] = found[matches]
            unresolved, at = unresolved[~matches], (at[~matches] + 1) & self._mask
        added.append(self._add_few(unresolved, at, codes, slots))
        return slots, np.concatenate(added)

    def _add_few(self, rows: Slots, at: Slots, codes: Sequence[Codes], slots: Slots) -> Slots:
        """Set the slots of the remaining rows, one by one; return the new ones."""
        added = []
        tuples = zip(*[column[rows].tolist() for column in codes])
        for row, start, wanted in zip(rows.tolist(), at.tolist(), tuples):
            place = self._place_of_one(start, wanted)
            if self._table.item(place) == _EMPTY:
                self._table[place] = self._index.allocate_one(wanted)
                self._used += 1
                added.append(self._table.item(place))
            slots[row] = self._table.item(place)
        return np.array(added, np.int64)

    def _claim(self, rows: Slots, at: Slots, codes: Sequence[Codes]) -> Slots:
        """Assign a slot to one row at each empty place of `at`; return the new slots."""
        free = np.flatnonzero(self._table.take(at) == _EMPTY)
        places, claims = at[free], _FIRST_CLAIM - free
        self._table[places] = claims
        won = self._table[places] == claims
        new = self._index.allocate([column[rows[free[won]]] for column in codes])
        self._table[places[won]] = new
        self._used += len(new)
        return new

    def fill(self) -> None:
        """Insert all slots in use into an empty table.

        All write to their home places; those that are not read back there continue with the next place.
        """
        table = self._table
        for slots, at in self._homes():
            table[at] = slots
        lost = [(slots[gone], at[gone]) for slots, at in self._homes() if len(gone := self._gone(slots, at))]
        if lost:
            left, at = map(np.concatenate, zip(*lost, strict=True))
            while len(left):
                at = (at + 1) & self._mask
                free = np.flatnonzero(table.take(at) == _EMPTY)
                table[at[free]] = left[free]
                gone = self._gone(left, at)
                left, at = left[gone], at[gone]
        self._used = len(self._index)

    def _homes(self) -> Iterator[tuple[npt.NDArray[np.int32], Slots]]:
        """Yield the slots in use and their homes, in pieces that stay in the cache: new memory costs more."""
        index = self._index
        in_use = None if len(index) == index.size else index.slots_in_use().astype(np.int32)
        for begin in range(0, len(index), _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, len(index))
            if in_use is None:
                slots, codes = np.arange(begin, end, dtype=np.int32), [c[begin:end] for c in index.columns]
            else:
                slots = in_use[begin:end]
                codes = [column.take(slots) for column in index.columns]
            yield slots, self._home(codes)

    def _gone(self, slots: npt.NDArray[np.int32], at: Slots) -> Slots:
        """Return the slots whose claim on a place was overwritten, or never made."""
        return np.flatnonzero(self._table.take(at) != slots)

    def remove(self, slots: Slots) -> None:
        left, at = slots, self._home([column.take(slots) for column in self._index.columns])
        while len(left):
            here = self._table.take(at) == left
            self._table[at[here]] = _REMOVED
            left, at = left[~here], (at[~here] + 1) & self._mask

    def _matches(self, slots: Slots, codes: Sequence[Codes]) -> npt.NDArray[np.bool_]:
        if not self._index.size:
            return np.zeros(len(slots), np.bool_)
        matches = slots >= 0
        for column, wanted in zip(self._index.columns, codes, strict=True):
            matches &= column.take(slots, mode="wrap") == wanted
        return matches

    def _elsewhere(self, slots: Slots, codes: Sequence[Codes]) -> Slots:
        """Return the rows that must try the next place: this one has another tuple, or one was removed from it."""
        if not self._index.size or not len(slots):
            return slots[:0]
        other = self._index.columns[0].take(slots) != codes[0]  # -1 and -2 read the last element, and are set below
        for column, wanted in zip(self._index.columns[1:], codes[1:], strict=True):
            other |= column.take(slots) != wanted
        if slots.min() < 0:
            other |= slots == _REMOVED
            other &= slots != _EMPTY
        return np.flatnonzero(other)

    def _home(self, codes: Sequence[Codes]) -> Slots:
        mixed = codes[0].view(np.uint64) >> np.uint64(32)
        mixed ^= codes[0].view(np.uint64)
        mixed *= np.uint64(_MULTIPLIERS[0])
        for column, factor in zip(codes[1:], _MULTIPLIERS[1:], strict=False):
            mixed ^= mixed >> np.uint64(32)
            mixed += column.view(np.uint64)
            mixed *= np.uint64(factor)
        mixed >>= np.uint64(self._shift)
        return mixed.view(np.int64)

    def _home_of_one(self, codes: Sequence[int]) -> int:
        code = codes[0] & _UINT64
        mixed = ((code ^ code >> 32) * _MULTIPLIERS[0]) & _UINT64
        for code, factor in zip(codes[1:], _MULTIPLIERS[1:], strict=False):
            mixed = (((mixed ^ mixed >> 32) + code) * factor) & _UINT64
        return mixed >> self._shift
