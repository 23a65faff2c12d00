"""Keys as users give them: in the type of a state's keys, as columns of Arrow, and as values that compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.python_values import python_values
from kit.snapshots.serializers.types import Type, column

KeyType: TypeAlias = Type | pa.DataType
"""The type of a key: one of Flink's serializers, or for state of the kit Arrow's."""

_NAN = object()
"""Stands for every NaN: as keys they are the same, although Python holds them for different numbers."""


def key_from_text(text: str, type_: KeyType) -> Any:
    """Return the key that a text means: the text itself for strings, ISO 8601 for times, JSON for all others.

    A key of several fields is a JSON list of their values, or an object with their names. Raises CheckpointError.
    """
    try:
        return value_from_text(text, _arrow(type_))
    except (ValueError, TypeError, KeyError, pa.ArrowException) as error:
        raise _not_of(text, type_, str(error)) from None


def value_from_text(text: str, arrow: pa.DataType) -> Any:
    """Return the value of an Arrow type that a text means, as `key_from_text` does.

    Raises ValueError, TypeError, KeyError or pyarrow.ArrowException if it means none.
    """
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return text
    return _from_json(json.loads(text) if _is_json(arrow) else text, arrow)


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


def key_column(key: Any, type_: KeyType) -> pa.Array:
    """Return the key as a column of one row. Raises CheckpointError for a key that is not of the type."""
    if isinstance(type_, Type) and type_.is_opaque:
        raise CheckpointError(f"keys of type {type_.name} are not decoded here, so none can be chosen")
    arrow = _arrow(type_)
    if isinstance(key, list | tuple) and pa.types.is_struct(arrow) and len(key) == arrow.num_fields:
        key = dict(zip((field.name for field in arrow), key, strict=True))
    try:
        made = column(type_, [key]) if isinstance(type_, Type) else pa.array([key], type_)
        (found,) = python_values(made)
    except (CheckpointError, pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _not_of(key, type_, str(error)) from None
    if key is None or isinstance(key, bool) != isinstance(found, bool) or plain_key(found) != plain_key(key):
        raise _not_of(key, type_, f"it is a {type(key).__name__}")
    return made


def _arrow(type_: KeyType) -> pa.DataType:
    return type_.arrow if isinstance(type_, Type) else type_


def _not_of(key: Any, type_: KeyType, why: str) -> CheckpointError:
    name = type_.name if isinstance(type_, Type) else str(type_)
    return CheckpointError(f"{key!r} is no key of type {name} ({why}): give a key of that type")


def plain_key(key: Any) -> Any:
    """Return a key that can be compared: a dict as the tuple of its values, and every NaN as the same object."""
    if isinstance(key, dict):
        return tuple(plain_key(each) for each in key.values())
    if isinstance(key, list | tuple):
        return tuple(map(plain_key, key))
    return _NAN if isinstance(key, float) and math.isnan(key) else key
