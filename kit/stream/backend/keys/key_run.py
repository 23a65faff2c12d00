"""A key run: a batch that a user's function processes one row at a time.

The function's state calls concern the key of its row. In a key run the keys are looked up together. The distinct ones
are numbered, a state looks all of them up at its first use, and from then on a row's entry is found by its key's
number. Timers are collected by number too, and set or deleted together at the end of the run; of several calls for one
timer the last counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arrow_kinds import Family, kind_of
from kit.stream.backend.keys.key_columns import as_codes
from kit.stream.backend.types.decimals import sortable

Numbers = npt.NDArray[np.int64]


class Postponed(Protocol):
    """The interface of an object that postponed work to the end of a run."""

    def settle(self, run: KeyRun) -> None:
        """Do the postponed work."""


@dataclass(slots=True, eq=False)
class KeyRun:
    """The state of a run: `keys` are the distinct keys, `position` is the number of the present row's key."""

    keys: pa.Array
    position: int = 0
    postponed: list[Postponed] = field(default_factory=list)
    _values: list[Any] | None = None

    @property
    def key(self) -> Any:
        """The row's key as a Python value; for several columns a new dict."""
        if pa.types.is_nested(self.keys.type):
            return self.keys[self.position].as_py()
        if self._values is None:
            self._values = self.keys.to_pylist()
        return self._values[self.position]


def numbered(keys: pa.Array) -> tuple[Numbers, pa.Array]:
    """Return each key's number among the distinct keys, and these, numbered in order of appearance."""
    numbers = _numbers(keys)
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return numbers, keys.take(pa.array(first))


def _numbers(keys: pa.Array) -> Numbers:
    """Return equal numbers for equal keys, from 0 on in order of appearance."""
    if pa.types.is_struct(keys.type):
        numbers = np.zeros(len(keys), np.int64)
        for column in keys.flatten():
            part = _numbers(column)
            numbers = _numbers(pa.array(numbers * (int(part.max(initial=0)) + 1) + part))
        return numbers
    if kind_of(keys.type).family is Family.FLOAT:  # by their bits, with one NaN, as in states
        codes = as_codes(keys.fill_null(0).to_numpy(zero_copy_only=False))
        keys = pa.array(codes, mask=keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None)
    return sortable(keys).dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
