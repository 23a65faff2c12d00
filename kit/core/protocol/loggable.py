"""Descriptions of values for a trace: small, JSON-like and immutable.

Columns and bytes are counted, not kept: otherwise the trace of a long run would hold all data that ever flowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from operator import attrgetter, methodcaller
from typing import Any

import pyarrow as pa

from kit.core.arrow_size import size_of

PLAIN = frozenset({bool, int, float, str, type(None)})
"""Types whose values describe themselves."""


def loggable(value: Any) -> Any:
    """Return a small JSON-like description of a value: columns and bytes are counted, not kept."""
    kind = type(value)
    if kind in PLAIN:
        return value
    return (_HOW.get(kind) or _how_for(kind))(value)


def _of_fields(value: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(value).__name__}
    for name, each in zip(field_names(type(value)), field_values(value), strict=True):
        if type(each) in PLAIN:
            facts[name] = each
        elif not callable(each):
            facts[name] = loggable(each)
    return facts


def _of_items(value: Iterable[Any]) -> list[Any]:
    if type(value) is tuple and PLAIN.issuperset(map(type, value)):
        return [*value]
    return [each if type(each) in PLAIN else loggable(each) for each in value]


def _how_for(kind: type[Any]) -> Callable[[Any], Any]:
    """Return the function that describes values of a type; it is looked up once."""
    known = [how for base, how in _KINDS if issubclass(kind, base)]
    if known:
        how = known[0]
    elif hasattr(kind, "to_loggable"):
        how = methodcaller("to_loggable")
    elif is_dataclass(kind):
        how = _of_fields
    elif issubclass(kind, Mapping):
        how = _of_mapping
    else:
        how = _of_items if issubclass(kind, Iterable) else repr
    _HOW[kind] = how
    return how


def _of_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): loggable(item) for key, item in value.items()}


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; they are looked up once."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def field_values(value: Any) -> tuple[Any, ...]:
    """Return the values of a dataclass's fields, in order."""
    return values_getter(type(value))(value)


def values_getter(kind: type[Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that gets the values of a dataclass's fields; it is made once."""
    values = _FIELD_VALUES.get(kind)
    if values is None:
        values = _FIELD_VALUES[kind] = _getter(field_names(kind))
    return values


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda value: ()
    value_of = attrgetter(*names)
    return lambda value: (value_of(value),)


_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}
_FIELD_VALUES: dict[type[Any], Callable[[Any], tuple[Any, ...]]] = {}

_KINDS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (StrEnum, lambda value: value.value),
    (Enum, lambda value: value.name),
    ((bool, int, float, str), lambda value: value),
    ((bytes, bytearray, memoryview, pa.Buffer), lambda value: {"bytes": len(value)}),
    ((pa.RecordBatch, pa.Table), lambda value: {"rows": value.num_rows, "bytes": size_of(value)}),
)
"""The descriptions of values of these types; the first match applies."""
_HOW: dict[type[Any], Callable[[Any], Any]] = {}
