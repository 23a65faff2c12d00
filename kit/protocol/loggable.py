"""What a trace says of a value: small, JSON-like, and nothing of it may change later.

Columns and bytes are counted, not kept: a trace of a long run would hold all the data that ever flowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any

import pyarrow as pa

PLAIN = frozenset({bool, int, float, str, type(None)})
"""What is said of values of these types are the values themselves."""


def loggable(value: Any) -> Any:
    """A small JSON-like description of a value: columns and bytes are counted, not kept."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview | pa.Buffer):
        return {"bytes": len(value)}
    if isinstance(value, pa.RecordBatch | pa.Table):
        return {"rows": value.num_rows, "bytes": value.nbytes}
    if hasattr(value, "to_loggable"):
        return value.to_loggable()
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {
            name: loggable(each)
            for name, each in zip(field_names(type(value)), field_values(value), strict=True)
            if not callable(each)
        }
    if isinstance(value, tuple | list) and PLAIN.issuperset(map(type, value)):
        return list(value)
    if isinstance(value, Mapping):
        return {str(key): loggable(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [loggable(item) for item in value]
    return repr(value)


def field_names(kind: type[Any]) -> tuple[str, ...]:
    """The names of a dataclass's fields, looked up once."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return names


def field_values(value: Any) -> tuple[Any, ...]:
    """The values of a dataclass's fields, in order."""
    kind = type(value)
    values = _FIELD_VALUES.get(kind)
    if values is None:
        values = _FIELD_VALUES[kind] = _getter(field_names(kind))
    return values(value)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}
_FIELD_VALUES: dict[type[Any], Callable[[Any], tuple[Any, ...]]] = {}
