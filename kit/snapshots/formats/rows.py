"""The rows of one keyed state, on their way to columns.

Columns: key_group, key, namespace (where the state has one); then of a map state map_key; then value, and last_access
with TTL. Timers have key_group, key, namespace and time_ms. A list state has one row per key; its value is the list.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.formats.headers import LIST, TIMER, KeyedState
from kit.snapshots.serializers.basic import LONG
from kit.snapshots.serializers.opaque import cannot_be_read
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.temporal import LAST_ACCESS
from kit.snapshots.serializers.types import Sequential, Type, column
from kit.snapshots.serializers.writing import Writer

JOINER, SIZE_BYTES = 0x2C, 4
_SIGN = np.uint64(1 << 63)


class Measures(dict[str, tuple[int, int]]):
    """The entries and the bytes of states, by name."""

    def add(self, name: str, many: int, size: int) -> None:
        """Add entries and bytes to those of a state."""
        before = self.get(name, (0, 0))
        self[name] = before[0] + many, before[1] + size


class Rows:
    """Rows of one state, added one by one, or many at once where all have the same size."""

    def __init__(self, state: KeyedState) -> None:
        self.state = state
        self._groups: list[int] = []
        self._keys: list[Any] = []
        self._namespaces: list[Any] = []
        self._map_keys: list[Any] = []
        self._values: list[Any] = []
        self._whole: list[pa.Table] = []

    def add(self, group: int, key: Any, namespace: Any, map_key: Any, value: Any) -> None:
        """Add one row. `value` is as stored: with TTL a pair, of a list all elements, of a timer its time."""
        self._groups.append(group)
        self._keys.append(key)
        self._namespaces.append(namespace)
        self._map_keys.append(map_key)
        self._values.append(value)

    def add_all(self, group: int, data: np.ndarray[Any, Any]) -> None:
        """Add many rows: an array with the fields key, namespace, value and, of a map, map_key."""
        state = self.state
        columns = {"key_group": pa.array(np.full(len(data), group, np.int32))}
        columns["key"] = state.key.from_numpy(data["key"])
        if state.has_namespace:
            columns["namespace"] = state.namespace.from_numpy(data["namespace"])
        if state.map_key is not None:
            columns["map_key"] = state.map_key.from_numpy(data["map_key"])
        if state.kind == TIMER:
            flipped = data["value"].astype(np.uint64) ^ _SIGN
            columns["time_ms"] = pa.array(flipped.view(np.int64))
        elif state.has_ttl:
            columns["value"] = state.item.from_numpy(data["value"]["value"])
            columns["last_access"] = LONG.from_numpy(data["value"]["last_access"]).cast(LAST_ACCESS.arrow)
        else:
            columns["value"] = state.item.from_numpy(data["value"])
        self._whole.append(pa.table(columns))

    def raw(self) -> list[tuple[Any, Any, Any, Any]]:
        """Return key, namespace, map key and value of the rows that were added one by one."""
        return list(zip(self._keys, self._namespaces, self._map_keys, self._values, strict=True))

    @property
    def is_empty(self) -> bool:
        """True if there are no rows."""
        return not self._groups and not any(each.num_rows for each in self._whole)

    def table(self, *, text: bool = False) -> pa.Table:
        """Return all rows as columns; with `text` all times are ISO 8601 text."""
        parts = list(self._whole)
        if self._groups or not parts:
            parts.append(self._columns(text=text))
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def _columns(self, *, text: bool) -> pa.Table:
        state = self.state
        columns = {"key_group": pa.array(self._groups, pa.int32()), "key": column(state.key, self._keys, text=text)}
        if state.has_namespace:
            columns["namespace"] = column(state.namespace, self._namespaces, text=text)
        if state.kind == TIMER:
            columns["time_ms"] = pa.array(self._values, pa.int64())
            return pa.table(columns)
        if state.map_key is not None:
            columns["map_key"] = column(state.map_key, self._map_keys, text=text)
        values, of = self._values, state.item if state.kind != LIST else Sequential("List", state.item)
        if not state.has_ttl:
            columns["value"] = column(of, values, text=text)
        elif state.kind == LIST:
            columns["value"] = column(of, [[value for _, value in each] for each in values], text=text)
            of_lists = [[access for access, _ in each] for each in values]
            columns["last_access"] = pa.array(of_lists, pa.list_(LAST_ACCESS.arrow))
        else:
            columns["value"] = column(of, [None if each is None else each[1] for each in values], text=text)
            accesses = [None if each is None else each[0] for each in values]
            columns["last_access"] = pa.array(accesses, LAST_ACCESS.arrow)
        return pa.table(columns)


class PairDecoder:
    """Decodes rows stored as a key's bytes and a value's, as in canonical savepoints and in RocksDB.

    A key is the key group, the key, the namespace, and a map's key; `prefix` is the number of bytes of the key group.
    Flink: `CompositeKeySerializationUtils`.
    """

    def __init__(self, state: KeyedState, prefix: int) -> None:
        self.state, self._prefix = state, prefix

    def add(self, rows: Rows, group: int, key_bytes: bytes, value_bytes: bytes) -> None:
        """Decode one pair. Raises CheckpointError; the place of an error counts the bytes of key, length and value."""
        state = self.state
        reader = Reader(key_bytes, self._prefix)
        for part in (state.key, state.namespace):
            if part.is_opaque:
                raise cannot_be_read(state.name, part)
        if state.kind == TIMER:
            time_ms, key, namespace = state.value.read(reader)
            rows.add(group, key, namespace, None, time_ms)
            return
        key = state.key.read(reader)
        if state.lengths_in_key:
            _skip_length(reader, reader.at - self._prefix)
        start = reader.at
        namespace = state.namespace.read(reader)
        if state.lengths_in_key:
            _skip_length(reader, reader.at - start)
        map_key = None if state.map_key is None else state.map_key.read(reader)
        if reader.left:
            raise reader.error(f"{reader.left} more bytes of a key", f"the end of a key of state {state.name!r}")
        try:
            value = self._value(value_bytes)
        except DamagedError as error:
            raise error.moved(len(key_bytes) + SIZE_BYTES) from error
        rows.add(group, key, namespace, map_key, value)

    def _value(self, value_bytes: bytes) -> Any:
        state, reader = self.state, Reader(value_bytes)
        if state.kind == LIST:
            return _joined(reader, state)
        if state.map_key is not None and reader.boolean():
            return None  # some backends write a serialized null behind the flag
        if state.item.is_opaque:
            return read_opaque(reader, state)
        found = state.stored.read(reader)
        if reader.left:
            raise reader.error(f"{reader.left} more bytes of a value", f"the end of a value of state {state.name!r}")
        return found


def read_opaque(reader: Reader, state: KeyedState) -> Any:
    """Return a value that cannot be decoded: its bytes, and with TTL its time before them."""
    return (reader.int64(), state.item.read(reader)) if state.has_ttl else state.item.read(reader)


class PairEncoder:
    """Encodes rows as `PairDecoder` decodes them, without the key group."""

    def __init__(self, state: KeyedState) -> None:
        self.state = state

    def key(self, key: Any, namespace: Any = None, map_key: Any = None) -> bytes:
        """Return the bytes of a key."""
        state = self.state
        of_map = b"" if state.map_key is None else encoded(state.map_key, map_key)
        return composite_key(state, encoded(state.key, key), encoded(state.namespace, namespace), of_map)

    def value(self, value: Any) -> bytes:
        """Return the bytes of a value, in the form in which `Rows` has it. A list must not be empty."""
        state = self.state
        if state.kind == LIST:
            return bytes([JOINER]).join(encoded(state.stored, each) for each in value)
        if state.map_key is None:
            return encoded(state.stored, value)
        return b"\1" if value is None else b"\0" + encoded(state.stored, value)


def encoded(type_: Type, value: Any) -> bytes:
    """Return the bytes of one value. Raises CheckpointError for one that does not have this type."""
    out = Writer()
    try:
        type_.write(out, value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the value {value!r} is not of type {type_.name}: {error}") from None
    return bytes(out)


def composite_key(state: KeyedState, key: bytes, namespace: bytes, map_key: bytes = b"") -> bytes:
    """Return a key as `PairDecoder` reads it, without the key group, from the bytes of its parts."""
    if not state.lengths_in_key:
        return key + namespace + map_key
    return key + _length(len(key)) + namespace + _length(len(namespace)) + map_key


def _length(length: int) -> bytes:
    """Return a length in as many bytes as it needs, the lowest first."""
    return length.to_bytes(max(1, (length.bit_length() + 7) // 8), "little")


def _skip_length(reader: Reader, length: int) -> None:
    """Skip the length that Flink writes behind a key when neither key nor namespace has a fixed one."""
    reader.skip(1)
    while length := length >> 8:
        reader.skip(1)


def _joined(reader: Reader, state: KeyedState) -> list[Any]:
    """Read the elements of a list: only a comma's byte stands between them."""
    if state.item.is_opaque:
        raise cannot_be_read(state.name, state.item)
    found = []
    while reader.left:
        found.append(state.stored.read(reader))
        if reader.left and (byte := reader.uint8()) != JOINER:
            raise reader.error(f"byte {byte:#x} behind an element of a list", f"{JOINER:#x}")
    return found


def pair_layout(state: KeyedState, prefix: int) -> np.dtype[Any] | None:
    """Return the layout of one pair with the lengths before its key and value; None unless all have the same."""
    group = ("group", "V1" if prefix == 1 else "V2")
    parts: dict[str, Any] = {"key": state.key.dtype, "namespace": state.namespace.dtype}
    behind: dict[str, Any] = {} if state.kind == TIMER else {"value": state.stored.dtype}
    if state.kind == TIMER:
        parts = {"value": ">u8", **parts}
    elif state.map_key is not None:
        parts, behind = {**parts, "map_key": state.map_key.dtype}, {"null": "u1", **behind}
    if state.kind == LIST or any(each is None for each in (*parts.values(), *behind.values())):
        return None
    return np.dtype([("key_size", ">i4"), group, *parts.items(), ("value_size", ">i4"), *behind.items()])
