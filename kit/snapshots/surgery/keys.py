"""The deletion of keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.python_values import python_values
from kit.snapshots.serializers.types import column
from kit.snapshots.surgery.drafts import ChangePairs
from kit.snapshots.surgery.key_hashes import key_of

Keys = Collection[Any] | Callable[[pa.Array], Any]
"""Keys, or a function that takes an Arrow array of keys and returns True for some of them."""


def without_keys(keys: Keys) -> ChangePairs:
    """Return the change that deletes keys. A key of several fields is a tuple, or a dict with their names."""
    wanted = set() if callable(keys) else {_plain(each) for each in keys}

    def change(state: KeyedState, group: int, pairs: Sequence[Pair]) -> Sequence[Pair]:
        if not pairs:
            return pairs
        if state.key.is_opaque:
            raise CheckpointError(f"keys of type {state.key.name} are not decoded here, so none can be chosen")
        there = column(state.key, [key_of(state, key) for key, _ in pairs])
        deleted = keys(there) if callable(keys) else [_plain(each) in wanted for each in python_values(there)]
        marks = deleted.to_pylist() if isinstance(deleted, pa.Array | pa.ChunkedArray) else list(deleted)
        if len(marks) != len(pairs):
            raise CheckpointError(
                f"the function returned {len(marks)} values for {len(pairs)} keys: return True or False for each key"
            )
        return [pair for pair, mark in zip(pairs, marks, strict=True) if not mark]

    return change


def _plain(key: Any) -> Any:
    """Return a key that can be compared: a dict as the tuple of its values."""
    if isinstance(key, dict):
        return tuple(_plain(each) for each in key.values())
    return tuple(map(_plain, key)) if isinstance(key, list | tuple) else key
