"""A run of rows: a batch that a user's function works on one row at a time.

What a function asks of a state concerns the key of its row. In a run the keys are looked at together: their distinct
ones are numbered, a state looks all of them up at its first use, and from then on a row's entry is found by its key's
number. Timers are remembered by number too, and set or deleted when the run ends, all in one go: of what was asked for
one timer the last stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.keys.key_columns import as_codes

Numbers = npt.NDArray[np.int64]


class Postponed(Protocol):
    """What has put something off to the end of a run."""

    def settle(self, run: KeyRun) -> None:
        """Do it."""


@dataclass(slots=True, eq=False)
class KeyRun:
    """`keys` are the distinct keys; `position` is the number among them of the row's key."""

    keys: pa.Array
    position: int = 0
    postponed: list[Postponed] = field(default_factory=list)
    _values: list[Any] | None = None

    @property
    def key(self) -> Any:
        """The row's key as Python has it; of several columns a dict of its own."""
        if pa.types.is_nested(self.keys.type):
            return self.keys[self.position].as_py()
        if self._values is None:
            self._values = self.keys.to_pylist()
        return self._values[self.position]


def numbered(keys: pa.Array) -> tuple[Numbers, pa.Array]:
    """For each key its number among the distinct ones, and these: numbered as they come."""
    numbers = _numbers(keys)
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return numbers, keys.take(pa.array(first))


def _numbers(keys: pa.Array) -> Numbers:
    """Equal numbers for equal keys, from 0 on in order of appearance."""
    if pa.types.is_struct(keys.type):
        numbers = np.zeros(len(keys), np.int64)
        for column in keys.flatten():
            part = _numbers(column)
            numbers = _numbers(pa.array(numbers * (int(part.max(initial=0)) + 1) + part))
        return numbers
    if pa.types.is_floating(keys.type):  # by their bits, with one NaN, as states tell them apart
        codes = as_codes(keys.fill_null(0).to_numpy(zero_copy_only=False))
        keys = pa.array(codes, mask=keys.is_null().to_numpy(zero_copy_only=False) if keys.null_count else None)
    elif pa.types.is_decimal(keys.type) and keys.type.bit_width < 128:
        keys = keys.cast(pa.decimal128(keys.type.precision, keys.type.scale))
    return keys.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
