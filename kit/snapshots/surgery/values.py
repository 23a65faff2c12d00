"""Values changed by a function of Arrow columns, and encoded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import LIST, TIMER, KeyedState
from kit.snapshots.formats.rows import PairDecoder, PairEncoder, Rows
from kit.snapshots.serializers.types import Sequential, Type, as_column
from kit.snapshots.surgery.drafts import ChangePairs

MapValues = Callable[[pa.Table], pa.Array | pa.ChunkedArray | pa.Table]
"""A function of the rows of one key group that returns the new values."""


def with_values(name: str, function: MapValues) -> ChangePairs:
    """Return the change that gives a state new values. Unchanged values keep their bytes."""

    def change(state: KeyedState, group: int, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Decode the pairs, call the function, and encode what differs."""
        if state.name != name or not pairs:
            return pairs
        type_ = _value_type(state)
        rows = Rows(state)
        decoder = PairDecoder(state, 0)
        for key, value in pairs:
            decoder.add(rows, group, key, value)
        table = rows.table()
        before = type_.from_arrow(table["value"].combine_chunks())
        after = type_.from_arrow(_new_values(function(table), table.num_rows, type_))
        found, held = list(pairs), rows.raw()
        for place, value in enumerate(after):
            if value != before[place]:
                found[place] = (pairs[place][0], _encoded(state, held[place][3], value))
        return found

    return change


def _value_type(state: KeyedState) -> Type:
    """Return the type of the column of values. Raises CheckpointError for a state whose values cannot be changed."""
    if state.kind == TIMER:
        raise CheckpointError("timers have no values that could be changed")
    if state.item.is_opaque:
        raise CheckpointError(f"values of {state.item.name} are not encoded here, since only Java code can read them")
    return Sequential("List", state.item) if state.kind == LIST else state.item


def _new_values(found: Any, many: int, type_: Type) -> pa.Array:
    """Return what the function returned as a column of the state's type. Raises CheckpointError."""
    if isinstance(found, pa.Table):
        if "value" not in found.column_names:
            raise CheckpointError(f"the function returned columns {', '.join(found.column_names)} without 'value'")
        found = found["value"]
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array) or len(found) != many:
        size = f"{len(found):,} values" if isinstance(found, pa.Array) else f"a {type(found).__name__}"
        raise CheckpointError(f"the function returned {size} for {many:,} rows: return an Arrow array with as many")
    try:
        return as_column(found, type_)
    except (pa.ArrowException, ValueError) as error:
        raise CheckpointError(
            f"the function returned values of type {found.type}, expected {type_.arrow} for {type_.name}: {error}"
        ) from None


def _encoded(state: KeyedState, old: Any, value: Any) -> bytes:
    """Return the bytes of a new value; with TTL it keeps its time of last access, or a list those of its elements."""
    if state.kind == LIST and not value:
        raise CheckpointError("the function returned an empty list: delete the key instead")
    if not state.has_ttl or (value is None and state.map_key is not None):
        return PairEncoder(state).value(value)
    if old is None:
        raise CheckpointError("an entry without a value has no time of last access, so it cannot get a value")
    if state.kind == LIST:
        if len(value) != len(old):
            raise CheckpointError(
                f"the function returned a list of {len(value)} elements for one of {len(old)}, but each element has "
                "the time of its last access: return as many, or use bootstrap with a column last_access"
            )
        return PairEncoder(state).value([(access, new) for (access, _), new in zip(old, value, strict=True)])
    return PairEncoder(state).value((old[0], value))
