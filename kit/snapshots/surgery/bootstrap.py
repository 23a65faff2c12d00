"""Rows of a table as the keyed state of an operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.arrow_kinds import kind_of
from kit.core.metadata.primitives import DataOutput
from kit.core.state.errors import CheckpointError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KEY_VALUE, LIST, MAP, TIMER, KeyedState
from kit.snapshots.formats.rows import PairEncoder
from kit.snapshots.serializers.declared import list_of, map_of, snapshot_of, ttl_of, type_of, versioned, void_namespace
from kit.snapshots.serializers.temporal import LAST_ACCESS
from kit.snapshots.serializers.types import Sequential, Type, as_column

KEY, VALUE, MAP_KEY, NAMESPACE, ACCESS = "key", "value", "map_key", "namespace", "last_access"


def as_table(rows: Any) -> pa.Table:
    """Return a DataFrame or a table as a table. Raises CheckpointError unless it has a key and a value."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    missing = [name for name in (KEY, VALUE) if name not in table.column_names]
    if missing:
        raise CheckpointError(
            f"the rows have columns {', '.join(table.column_names)}, expected key and value, of a map state map_key too"
        )
    return table.combine_chunks()


def declared(name: str, rows: pa.Table) -> tuple[bytes, KeyedState]:
    """Return the key's serializer and a state with the types of the rows' columns. Raises CheckpointError.

    The state has a TTL if the rows have last accesses.
    """
    key, value = snapshot_of(rows[KEY].type, is_key=True), rows[VALUE].type
    is_list = MAP_KEY not in rows.column_names and kind_of(value).python is list
    item = snapshot_of(value.value_type if is_list else value)
    if ACCESS in rows.column_names:
        item = ttl_of(item)
    if MAP_KEY in rows.column_names:
        kind, stored = MAP, map_of(snapshot_of(rows[MAP_KEY].type), item)
    else:
        kind, stored = (LIST, list_of(item)) if is_list else ("VALUE", item)
    out = DataOutput()
    out.utf(name)
    out.int32(KEY_VALUE)
    out.int32(1)
    out.utf("KEYED_STATE_TYPE")
    out.utf(kind)
    out.int32(2)
    for role, snapshot in (("NAMESPACE_SERIALIZER", void_namespace()), ("VALUE_SERIALIZER", stored)):
        out.utf(role)
        out += versioned(snapshot)
    state = KeyedState(name, kind, type_of(key), type_of(void_namespace()), type_of(stored), bytes(out))
    return versioned(key), state


def pairs_of(state: KeyedState, rows: pa.Table) -> list[Pair]:
    """Return the rows as pairs of a state. Raises CheckpointError for rows that do not have its types."""
    if state.kind == TIMER:
        raise CheckpointError("timers cannot be made from rows")
    if state.key.is_opaque or state.value.is_opaque:
        raise CheckpointError(f"a state of {state.key.name} and {state.value.name} is not encoded here")
    if state.map_key is not None and MAP_KEY not in rows.column_names and pa.types.is_map(rows[VALUE].type):
        rows = _by_entry(rows)
    encoder, many = PairEncoder(state), rows.num_rows
    keys = _column(rows, KEY, state.key)
    namespaces = _column(rows, NAMESPACE, state.namespace) if state.has_namespace else [None] * many
    map_keys = [None] * many if state.map_key is None else _column(rows, MAP_KEY, state.map_key)
    values = _column(rows, VALUE, Sequential("List", state.item) if state.kind == LIST else state.item)
    if state.has_ttl:
        values = _with_times(state, rows, values)
    return [
        (encoder.key(key, namespace, map_key), encoder.value(value))
        for key, namespace, map_key, value in zip(keys, namespaces, map_keys, values, strict=True)
        if state.kind != LIST or value
    ]


def _by_entry(rows: pa.Table) -> pa.Table:
    """Return a row for each entry of the maps that a map state of the kit has as its values, with its last access."""
    maps = rows[VALUE].combine_chunks()
    offsets = maps.offsets.to_numpy()
    parts = {MAP_KEY: maps.keys, VALUE: maps.items}
    if ACCESS in rows.column_names:
        parts[ACCESS] = rows[ACCESS].combine_chunks().items  # in the order of the values
    entries = {name: part.slice(offsets[0], offsets[-1] - offsets[0]) for name, part in parts.items()}
    of_rows = rows.drop_columns([name for name in (VALUE, ACCESS) if name in rows.column_names])
    made = of_rows.take(np.repeat(np.arange(len(maps)), np.diff(offsets)))
    for name, entry in entries.items():
        made = made.append_column(name, entry)
    return made


def _with_times(state: KeyedState, rows: pa.Table, values: list[Any]) -> list[Any]:
    """Return values with the times of their last access, each element of a list with its own."""
    if state.kind != LIST:
        times = _column(rows, ACCESS, LAST_ACCESS)
        if None in times:
            raise CheckpointError(f"column {ACCESS!r} has a null, expected the time of each row's last access")
        return list(zip(times, values, strict=True))
    found = []
    for times, elements in zip(_column(rows, ACCESS, Sequential("List", LAST_ACCESS)), values, strict=True):
        if len(times or ()) != len(elements or ()):
            raise CheckpointError(
                f"a list of {len(elements or ())} elements has {len(times or ())} times in column {ACCESS!r}, expected "
                "one for each"
            )
        found.append(list(zip(times or (), elements or (), strict=True)))
    return found


def _column(rows: pa.Table, name: str, type_: Type) -> list[Any]:
    if name not in rows.column_names:
        raise CheckpointError(f"the rows have no column {name!r}, expected one of {type_.arrow} for {type_.name}")
    column = rows[name]
    try:
        array = as_column(column, type_)
    except (pa.ArrowException, ValueError) as error:
        raise CheckpointError(
            f"column {name!r} is of type {column.type}, expected {type_.arrow} for {type_.name}: {error}"
        ) from None
    return type_.from_arrow(array)
