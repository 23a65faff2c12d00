"""Places: the order of rows in sorted runs.

A place is a uint64: the key group in the upper 16 bits, and 48 bits of a hash of key and namespace. One number makes
search, merge and filter single calls of numpy, and hashes spread evenly. Different keys may have one place, although
hardly ever do: rows are compared by their keys too.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.keys.key_store import hashes, key_store

Places = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_HASH_BITS = 48
_MULTIPLIER = 0xBF58476D1CE4E5B9
_SHIFT = np.uint64(_HASH_BITS)
_DROPPED = np.uint64(64 - _HASH_BITS)


def places_of(keys: Sequence[pa.Array], max_parallelism: int) -> Places:
    """Return the place of each row; `keys` are the columns of its key and, if it has one, its namespace."""
    mixed = np.zeros(len(keys[0]), np.uint64)
    for column in keys:
        store = key_store(column.type)
        mixed ^= hashes(store, store.parts(column), len(column))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(_MULTIPLIER)
    groups = key_groups(keys[0], max_parallelism).astype(np.uint64)
    return (groups << _SHIFT) | (mixed >> _DROPPED)


def first_place(key_group: int) -> int:
    """Return the lowest place of a key group."""
    return key_group << _HASH_BITS


def group_of(places: Places) -> npt.NDArray[np.int64]:
    """Return the key group of each place."""
    return (places >> _SHIFT).astype(np.int64)


def same_keys(keys: Sequence[pa.Array], others: Sequence[pa.Array]) -> Mask:
    """Return where two rows have the same key and namespace, as states compare keys (NaN equals NaN)."""
    same = np.ones(len(keys[0]), np.bool_)
    rows = np.arange(len(keys[0]))
    for column, other in zip(keys, others, strict=True):
        store = key_store(column.type)
        store.append(store.parts(column), rows)
        same &= store.equal(rows, store.parts(other))
    return same


def tokens(keys: Sequence[pa.Array]) -> list[Hashable]:
    """Return for each row a Python value that is equal where keys and namespaces are."""
    columns: list[tuple[Any, Any]] = []
    for column in keys:
        store = key_store(column.type)
        columns.append((store, store.parts(column)))
    return [tuple(store.value(parts, row) for store, parts in columns) for row in range(len(keys[0]))]
