"""Values as numbers, and functions of numbers as tables that are evaluated for whole arrays at once.

A state of the world is a row of small numbers. `Interned` gives equal values equal numbers; a `Function` is computed
once for each argument and looked up afterwards; `RowSet` remembers which rows were seen, by 64 bits of each. All three
keep their keys in a hash table of numpy arrays with open addressing: a probe of a million keys is a few array accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=Hashable)
Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int32]

_FIRST_CAPACITY = 1 << 10
ZERO: Ids = np.zeros(1, np.int32)
"""The second argument of a function of one number."""
_FREE = np.uint64(0)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(keys: Keys) -> Keys:
    """Return well distributed bits of each key (the finalizer of SplitMix64); overflow is intended."""
    keys = (keys ^ (keys >> np.uint64(30))) * _MIX_1
    keys = (keys ^ (keys >> np.uint64(27))) * _MIX_2
    mixed_keys: Keys = keys ^ (keys >> np.uint64(31))
    return mixed_keys


class Interned(Generic[T]):
    """Values by number, numbers by value; counted from 0."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        """Return the number of a value, a new one if necessary."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(value)
        return known

    def __getitem__(self, number: int) -> T:
        return self.values[number]

    def __len__(self) -> int:
        return len(self.values)


class _OpenTable:
    """Keys in open addressing; 0 is not a key."""

    def __init__(self) -> None:
        self._keys: Keys = np.zeros(_FIRST_CAPACITY, np.uint64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        """The size of the table in memory."""
        return self._keys.nbytes

    def _places(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Return the place of each key, or else the free place for it."""
        mask = np.uint64(len(self._keys) - 1)
        at = (mixed(keys) & mask).astype(np.int64)
        found = self._keys[at]
        left = np.flatnonzero((found != keys) & (found != _FREE))
        while len(left):
            at[left] = (at[left] + 1) & int(mask)
            found = self._keys[at[left]]
            left = left[(found != keys[left]) & (found != _FREE)]
        return at

    def _put(self, keys: Keys) -> None:
        """Add keys that are all different and not present yet."""
        while len(keys):
            at = self._places(keys)
            self._keys[at] = keys
            lost = self._keys[at] != keys
            self._used += int(len(keys) - np.count_nonzero(lost))
            keys = keys[lost]


class RowSet(_OpenTable):
    """The set of rows seen before, by 64 bits of each."""

    def add(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Add keys, all different; return for each whether it is new."""
        if (self._used + len(keys)) * 10 > len(self._keys) * 6:
            self._grow(self._used + len(keys))
        new: npt.NDArray[np.bool_] = self._keys[self._places(keys)] == _FREE
        self._put(keys[new])
        return new

    def _grow(self, wanted: int) -> None:
        old = self._keys[self._keys != _FREE]
        capacity = len(self._keys)
        while wanted * 10 > capacity * 6:
            capacity *= 2
        self._keys, self._used = np.zeros(capacity, np.uint64), 0
        self._put(old)


class Function(_OpenTable):
    """A function from two numbers to one, computed once for each pair; `of` evaluates it for arrays."""

    def __init__(self, work_out: Callable[[int, int], int]) -> None:
        super().__init__()
        self._work_out = work_out
        self._results: Ids = np.zeros(_FIRST_CAPACITY, np.int32)

    def of(self, first: Ids, second: Ids = ZERO) -> Ids:
        """Return the results for pairs of numbers."""
        keys = pair_keys(first, second)
        at = self._places(keys)
        missing = self._keys[at] == _FREE
        if missing.any():
            for key in np.unique(keys[missing]).tolist():
                result = self._work_out((key >> 32) - 1, key & 0xFFFFFFFF)
                self._add(key, result)
            at = self._places(keys)
        results: Ids = self._results[at]
        return results

    def holds(self, first: Ids, second: Ids = ZERO) -> npt.NDArray[np.bool_]:
        """Return where the result is True."""
        found: npt.NDArray[np.bool_] = self.of(first, second) != 0
        return found

    def arguments(self) -> list[tuple[int, int]]:
        """Return the pairs for which it was computed."""
        return [((key >> 32) - 1, key & 0xFFFFFFFF) for key in self._keys[self._keys != _FREE].tolist()]

    def _add(self, key: int, result: int) -> None:
        if self._used * 2 > len(self._keys):
            kept = self._keys != _FREE
            keys, results = self._keys[kept], self._results[kept]
            capacity = 4 * len(self._keys)
            self._keys, self._results, self._used = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32), 0
            self._put(keys)
            self._results[self._places(keys)] = results
        one = np.array([key], np.uint64)
        place = self._places(one)
        self._used += int(self._keys[place[0]] == _FREE)
        self._keys[place] = one
        self._results[place] = result


def of_one(work_out: Callable[[int], int]) -> Function:
    """Return a function of one number, computed once for each."""
    return Function(lambda number, _: work_out(number))


def pair_keys(first: Ids, second: Ids) -> Keys:
    """Return two numbers as one key, never 0."""
    return ((first.astype(np.uint64) + np.uint64(1)) << np.uint64(32)) | second.astype(np.uint64)


class Column:
    """A growing list of numbers by number, which is read for an array of numbers at once."""

    def __init__(self, kind: Any = np.int32, width: int = 0) -> None:
        self._rows = np.zeros((_FIRST_CAPACITY, width) if width else _FIRST_CAPACITY, kind)
        self._used = 0

    def append(self, row: Any) -> None:
        """Append a number."""
        if self._used == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[self._used] = row
        self._used += 1

    def set(self, number: int, row: Any) -> None:
        """Replace a number."""
        self._rows[number] = row

    def of(self, numbers: Any) -> Any:
        """Return the entries with these numbers."""
        return self._rows[numbers]

    def __len__(self) -> int:
        return self._used


__all__ = ["Column", "Function", "Ids", "Interned", "Keys", "RowSet", "Rows", "mixed", "of_one", "pair_keys"]
