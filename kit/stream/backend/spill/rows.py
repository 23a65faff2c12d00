"""The rows of a state as runs hold them, and the merge of several runs.

A row is an entry of the state, or the note that a key has none any more. Its columns:

    place     uint64: where it is in a run (`kit.stream.backend.spill.places`)
    added     int32: the interval between two snapshots in which the entry was added
    changed   int32: the interval in which it last changed, or was removed
    is_entry  bool: False for the note that the key has no entry
    key, namespace (if the state has namespaces), value, last_access (if it has a TTL)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.picking import numbers_column
from kit.stream.backend.spill.places import Places, Rows, same_keys, tokens

FIXED = (
    pa.field("place", pa.uint64(), nullable=False),
    pa.field("added", pa.int32(), nullable=False),
    pa.field("changed", pa.int32(), nullable=False),
    pa.field("is_entry", pa.bool_(), nullable=False),
)
"""The columns before those of the state."""

Unexpired = Callable[[pa.Table], pa.Table]
"""Leaves out of entries those that have expired, and what has expired of lists and maps."""
_NUMBER = "number"


def made_rows(
    schema: pa.Schema,
    at: Places,
    added: npt.NDArray[np.int32],
    changed: npt.NDArray[np.int32],
    is_entry: npt.NDArray[np.bool_],
    keys: Sequence[pa.Array],
    values: Sequence[pa.Array],
) -> pa.Table:
    """Return rows from their columns; `values` are those behind the keys, and have the entries only."""
    if not is_entry.all():
        numbers = pa.array(np.cumsum(is_entry) - 1, mask=~is_entry)
        values = [column.take(numbers) for column in values]
    fixed = [pa.array(column) for column in (at, added, changed, is_entry)]
    return pa.Table.from_arrays([*fixed, *keys, *values], schema=schema)


def key_columns(rows: pa.Table | pa.RecordBatch) -> list[pa.Array]:
    """Return the columns of keys and namespaces, each as one array."""
    names = [name for name in ("key", "namespace") if name in rows.schema.names]
    return [one(rows.column(name)) for name in names]


def places(rows: pa.Table | pa.RecordBatch) -> Places:
    """Return the places of rows."""
    return one(rows.column("place")).to_numpy()


def intervals(rows: pa.Table, name: str) -> npt.NDArray[np.int32]:
    """Return the column `added` or `changed` as numpy numbers."""
    return one(rows.column(name)).to_numpy()


def are_entries(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows are entries."""
    return one(rows.column("is_entry")).to_numpy(zero_copy_only=False)


def taken(rows: pa.Table, numbers: Rows) -> pa.Table:
    """Return the rows with these numbers, in their order."""
    return rows.take(numbers_column(numbers))


def with_notes(rows: pa.Table, unexpired: Unexpired) -> pa.Table:
    """Return the rows, where expired entries are notes that their keys have none."""
    entries = np.flatnonzero(are_entries(rows))
    left = unexpired(taken(rows, entries).append_column(_NUMBER, pa.array(entries)))
    is_entry = np.zeros(rows.num_rows, np.bool_)
    is_entry[one(left.column(_NUMBER)).to_numpy()] = True
    keys = key_columns(rows)
    values = [one(left.column(name)) for name in rows.schema.names[len(FIXED) + len(keys) :]]
    added, changed = intervals(rows, "added"), intervals(rows, "changed")
    return made_rows(rows.schema, places(rows), added, changed, is_entry, keys, values)


def newest(parts: Sequence[pa.Table]) -> pa.Table:
    """Return one row for each key, the newest, in the order of places; `parts` begin with the newest."""
    joined = pa.concat_tables(parts).combine_chunks()
    at = places(joined)
    order = np.argsort(at, kind="stable")  # fast: the parts are sorted
    at = at.take(order)
    again = np.flatnonzero(at[1:] == at[:-1]) + 1
    if not len(again):
        return taken(joined, order)
    keys, before = (key_columns(taken(joined, order[rows])) for rows in (again, again - 1))
    hidden = np.zeros(len(order), np.bool_)
    if same_keys(keys, before).all():
        hidden[again] = True
    else:
        hidden[_hidden_twins(joined, order, at, again)] = True
    return taken(joined, order[~hidden])


def _hidden_twins(joined: pa.Table, order: Rows, at: Places, again: Rows) -> list[int]:
    """Return the rows hidden by newer ones of their key, where different keys have one place."""
    rows = np.union1d(again, again - 1)
    seen, hidden = set(), []
    for row, place, token in zip(rows.tolist(), at[rows].tolist(), tokens(key_columns(taken(joined, order[rows])))):
        if (place, token) in seen:
            hidden.append(row)
        seen.add((place, token))
    return hidden


def one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
