"""One key of a keyed state: its key group, so that nothing else is read, and its rows.

The key group of a key follows from its Java hash code. For the key of a user's class only that class knows it; then all
key groups are read for the rows of the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kit.core.state.errors import CheckpointError
from kit.snapshots.python_values import python_values
from kit.snapshots.serializers.types import Type, column
from kit.snapshots.surgery.key_hashes import has_known_hash, hash_of
from kit.snapshots.surgery.keys import plain_key
from kit.stream.backend.keys.key_hashing import assign_to_key_group, key_group_for_hash

KeyType: TypeAlias = Type | pa.DataType
"""The type of a key: one of Flink's serializers, or for state of the kit Arrow's."""


class OneKey:
    """A key in the type of a state's keys. Raises CheckpointError for a key that is not of this type."""

    def __init__(self, key: Any, type_: KeyType) -> None:
        self._type = type_
        self._column = _column_of(key, type_)
        (self.value,) = python_values(self._column)

    def key_group(self, max_parallelism: int) -> int | None:
        """Return its key group, None if only a class of the user knows how such keys are hashed."""
        if not isinstance(self._type, Type):
            return assign_to_key_group(self.value, max_parallelism, self._type)
        if not has_known_hash(self._type):
            return None
        (stored,) = self._type.from_arrow(self._column)
        return key_group_for_hash(hash_of(self._type, stored), max_parallelism)

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows of the key, of a table with a column `key`."""
        if not table.num_rows or "key" not in table.column_names:
            return table.slice(0, 0)
        keys = table["key"]
        if keys.type == self._column.type and not pa.types.is_nested(keys.type) and not pa.types.is_floating(keys.type):
            return table.filter(pc.equal(keys, self._column[0]))
        wanted = plain_key(self.value)
        return table.filter(pa.array([_is_same(plain_key(each), wanted) for each in python_values(keys)], pa.bool_()))


def _is_same(one: Any, other: Any) -> bool:
    """Return True for equal keys; a NaN is the same key as another NaN."""
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124


def key_from_text(text: str, type_: KeyType) -> Any:
    """Return the key that a text means: the text itself for strings, ISO 8601 for times, JSON for all others.

    A key of several fields is a JSON list of their values, or an object with their names. Raises CheckpointError.
    """
    arrow = _arrow(type_)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return text
    try:
        return _from_json(json.loads(text) if _is_json(arrow) else text, arrow)
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise _not_of(text, type_, str(error)) from None


def _is_json(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_nested(arrow) or pa.types.is_primitive(arrow)) and not pa.types.is_temporal(arrow)


def _from_json(value: Any, arrow: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(arrow):
        parts = [value[field.name] for field in arrow] if isinstance(value, Mapping) else list(value)
        if len(parts) != arrow.num_fields or (isinstance(value, Mapping) and len(value) != arrow.num_fields):
            names = ", ".join(field.name for field in arrow)
            raise ValueError(f"found {len(value)} fields, expected {arrow.num_fields}: {names}")
        return {field.name: _from_json(part, field.type) for field, part in zip(arrow, parts, strict=True)}
    if pa.types.is_list(arrow):
        return [_from_json(each, arrow.value_type) for each in value]
    if pa.types.is_binary(arrow):
        return bytes.fromhex(value)
    if pa.types.is_decimal(arrow) or pa.types.is_temporal(arrow):
        return pa.scalar(str(value)).cast(arrow).as_py()
    return value


def _column_of(key: Any, type_: KeyType) -> pa.Array:
    """Return the key as a column of one row."""
    if isinstance(type_, Type) and type_.is_opaque:
        raise CheckpointError(f"keys of type {type_.name} are not decoded here, so none can be looked up")
    arrow = _arrow(type_)
    if isinstance(key, list | tuple) and pa.types.is_struct(arrow) and len(key) == arrow.num_fields:
        key = dict(zip((field.name for field in arrow), key, strict=True))
    try:
        made = column(type_, [key]) if isinstance(type_, Type) else pa.array([key], type_)
        (found,) = python_values(made)
    except (CheckpointError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _not_of(key, type_, str(error)) from None
    if (
        key is None
        or isinstance(key, bool) != isinstance(found, bool)
        or not _is_same(plain_key(found), plain_key(key))
    ):
        raise _not_of(key, type_, f"it is a {type(key).__name__}")
    return made


def _arrow(type_: KeyType) -> pa.DataType:
    return type_.arrow if isinstance(type_, Type) else type_


def _not_of(key: Any, type_: KeyType, why: str) -> CheckpointError:
    name = type_.name if isinstance(type_, Type) else str(type_)
    return CheckpointError(f"{key!r} is no key of type {name} ({why}): give a key of that type")
