"""The deletion of keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.given_keys import key_column, plain_key
from kit.snapshots.python_values import python_values
from kit.snapshots.serializers.types import Type, column
from kit.snapshots.surgery.key_hashes import key_of

Keys = Collection[Any] | Callable[[pa.Array], Any]
"""Keys, or a function that takes an Arrow array of keys and returns True for some of them."""


class KeyDeletion:
    """The change that deletes keys. A key of several fields is a tuple, or a dict with their names.

    It counts the rows that it deletes: those of a state in a key group once, however often the change is carried out.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._wanted = set() if callable(keys) else {plain_key(each) for each in keys}
        self._rows: dict[tuple[str, int], int] = {}

    @property
    def description(self) -> str:
        """The keys to delete, and after the change the number of rows that were deleted."""
        many = (
            "where the function is True"
            if callable(self._keys)
            else f"{len(self._wanted)} key{'s' * (len(self._wanted) != 1)}"
        )
        if not self._rows:
            return many
        states = {name for (name, _), rows in self._rows.items() if rows}
        return f"{many}: {sum(self._rows.values()):,} rows of {len(states)} state{'s' * (len(states) != 1)}"

    def __call__(self, state: KeyedState, group: int, pairs: Sequence[Pair]) -> Sequence[Pair]:
        if not pairs:
            return pairs
        if state.key.is_opaque:
            raise CheckpointError(f"keys of type {state.key.name} are not decoded here, so none can be chosen")
        there = column(state.key, [key_of(state, key) for key, _ in pairs])
        marks = self._marks(there)
        if len(marks) != len(pairs):
            raise CheckpointError(
                f"the function returned {len(marks)} values for {len(pairs)} keys: return True or False for each key"
            )
        kept = [pair for pair, mark in zip(pairs, marks, strict=True) if not mark]
        self._rows[state.name, group] = len(pairs) - len(kept)
        return kept

    def _marks(self, there: pa.Array) -> list[Any]:
        """Return for each key whether it is deleted."""
        if not callable(self._keys):
            return [plain_key(each) in self._wanted for each in python_values(there)]
        marks = self._keys(there)
        return marks.to_pylist() if isinstance(marks, pa.Array | pa.ChunkedArray) else list(marks)


def check_keys(keys: Keys, type_: Type, operator: str) -> None:
    """Raise CheckpointError if a key is not of the type of an operator's keys: it would delete nothing."""
    for key in () if callable(keys) else keys:
        try:
            key_column(key, type_)
        except CheckpointError as error:
            raise CheckpointError(f"operator {operator!r}: {error}") from None
