"""Last access: the column of a snapshot with the times from which entries with TTL live on.

It stands beside the values and has their structure: one time for a value, one for each element of a list, one under
each key of a map. A column of the same name shows the times in checkpoints of Flink. Flink: `TtlValue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

from kit.stream.backend.states.descriptors import StateKind

COLUMN = "last_access"
TIME = pa.timestamp("ms", "UTC")


def access_type(kind: StateKind, stored_type: pa.DataType) -> pa.DataType:
    """Return the type of the column for values of a state."""
    if kind is StateKind.LIST:
        return pa.list_(TIME)
    return pa.map_(stored_type.key_type, TIME) if kind is StateKind.MAP else TIME


def has_last_access(schema: pa.Schema) -> bool:
    """Return True if the entries of a stored state have a TTL."""
    return COLUMN in schema.names


def times_within(column: pa.Array) -> Iterator[list[int]]:
    """Yield the times, in ms, of each list or map."""
    times = (column.items if pa.types.is_map(column.type) else column.values).view(pa.int64()).to_pylist()
    offsets = column.offsets.to_pylist()
    for begin, end in pairwise(offsets):
        yield times[begin:end]
