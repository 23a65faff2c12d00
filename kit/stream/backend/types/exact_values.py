"""Python values that Arrow would silently replace by other ones.

`pyarrow.array` drops the zone of a datetime in a column that has none, and treats a datetime without a zone as UTC in a
column that has one. It drops the time of a datetime among dates, and the fraction of a number among whole numbers. Rows
of two meanings would then meet under one key or in one window.

`exact_array` makes the same array and raises `InexactError` for such values. The markers of pandas for missing values
of any type, `NaT` and `NA`, are null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from operator import countOf
from typing import Any

import numpy as np
import pyarrow as pa

from kit.core.arrow_kinds import Family, kind_of

Reason = Callable[[Any], str | None]
"""Returns why Arrow would change a value that is not None; None for a value that it keeps."""

ONE_HAS_A_ZONE = "differs in having a time zone: give both a time zone, or none"
"""Completes the message about two timestamps that `same_clock` rejects."""

_NONE = type(None)
_NUMBERS = frozenset({int, float})
_BY_NUMPY = {int: pa.int64(), float: pa.float64()}
"""Types of values that NumPy converts, as exactly as Arrow and in half the time."""
_MISSING = frozenset({"NaTType", "NAType"})
"""The types of the markers of pandas, by name, since pandas may not be imported."""


class InexactError(TypeError):
    """A value that Arrow would replace by another one; the message says why, and `number` is its position."""

    def __init__(self, reason: str, number: int) -> None:
        super().__init__(reason)
        self.number = number


def types_of(values: Sequence[Any]) -> set[type]:
    """Return the types of the values. To count one type takes half the time of a set, and most sequences have one."""
    only = type(values[0]) if len(values) else _NONE
    return {only} if countOf(map(type, values), only) == len(values) else set(map(type, values))


def exact_array(values: Sequence[Any], arrow_type: pa.DataType | None = None) -> pa.Array:
    """Return the values as Arrow, of the inferred type unless one is given.

    Raises InexactError, and what Arrow raises for a value that it cannot convert.
    """
    types = types_of(values)
    if any(each.__name__ in _MISSING for each in types):
        values = [None if type(value).__name__ in _MISSING else value for value in values]
        types = types_of(values)
    if len(types) == 1 and arrow_type is not None and _BY_NUMPY.get(*types) == arrow_type:
        with suppress(OverflowError):  # Arrow's message has the value
            return pa.array(np.fromiter(values, arrow_type.to_pandas_dtype(), len(values)))
    try:
        array = pa.array(values, arrow_type)
    except (pa.ArrowException, TypeError, ValueError):
        check_exact(values, _guessed(values) if arrow_type is None else arrow_type)  # its message may be more specific
        raise
    check_exact(values, array.type, types)
    return array


def _guessed(values: Sequence[Any]) -> pa.DataType:
    return pa.array([value for value in values if value is not None][:1]).type


def check_exact(values: Sequence[Any], arrow_type: pa.DataType, types: set[type] | None = None) -> None:
    """Raise InexactError for the first value that Arrow would make another value of `arrow_type`."""
    if pa.types.is_nested(arrow_type):
        for inner, inner_type, owners in _within(values, arrow_type):
            try:
                check_exact(inner, inner_type)
            except InexactError as error:
                raise InexactError(str(error), owners[error.number]) from None
        return
    kept, reason = _rule(arrow_type)
    if reason is None:
        return
    types = types_of(values) if types is None else types
    if kept.issuperset(types) and (not pa.types.is_timestamp(arrow_type) or _have_zones(values, arrow_type.tz)):
        return
    for number, value in enumerate(values):
        if value is not None and (why := reason(value)):
            raise InexactError(why, number)
    if kind_of(arrow_type).is_time and types & _NUMBERS and types - _NUMBERS - {_NONE}:
        number = next(number for number, value in enumerate(values) if type(value) in (int, float))
        raise InexactError(f"it is a number without a unit, and the column has {arrow_type}", number)


def _within(values: Sequence[Any], arrow_type: pa.DataType) -> Iterator[tuple[list[Any], pa.DataType, list[int]]]:
    """Yield all values at each place within structs, lists or maps, with their type and the numbers of their owners."""
    if pa.types.is_struct(arrow_type):
        owners = [number for number, value in enumerate(values) if isinstance(value, Mapping)]
        for field in arrow_type:
            yield [values[number].get(field.name) for number in owners], field.type, owners
    elif pa.types.is_map(arrow_type):
        items = [value.items() if isinstance(value, Mapping) else value or () for value in values]
        owners = [number for number, value in enumerate(items) for _ in value]
        yield [key for value in items for key, _ in value], arrow_type.key_type, owners
        yield [item for value in items for _, item in value], arrow_type.item_type, owners
    elif not pa.types.is_union(arrow_type):
        lists = [value if isinstance(value, list | tuple | np.ndarray) else () for value in values]
        owners = [number for number, value in enumerate(lists) for _ in value]
        yield [each for value in lists for each in value], arrow_type.value_type, owners


def same_clock(one: pa.DataType, other: pa.DataType) -> bool:
    """Return False for two timestamps if exactly one has a time zone.

    Moments and local times cannot be compared; asked to cast, Arrow would take local times for UTC.
    """
    both = pa.types.is_timestamp(one) and pa.types.is_timestamp(other)
    return not both or (one.tz is None) == (other.tz is None)


@lru_cache(maxsize=256)
def _rule(arrow_type: pa.DataType) -> tuple[frozenset[type], Reason | None]:
    """Return the Python types that a column always keeps, and the question about a value of another type.

    Of datetimes a column keeps those that have a zone if it has one.
    """
    kind = kind_of(arrow_type)
    if kind.family is Family.TIMESTAMP:
        return frozenset({dt.datetime, _NONE}), _has_no_zone(arrow_type.tz) if arrow_type.tz else _has_zone
    if kind.family in (Family.TEXT, Family.BYTES) and kind.python is None:
        return frozenset(), None
    return _RULES.get(kind.family, (frozenset(), None))


def _have_zones(values: Iterable[dt.datetime | None], zone: str | None) -> bool:
    """Return True if all datetimes have a zone where `zone` is one, and none has one where it is None."""
    zones = {value.tzinfo for value in values if value is not None}
    return None not in zones if zone else zones <= {None}


def _not_whole(value: Any) -> str | None:
    if isinstance(value, bool | np.bool_):
        return "it is a bool, and the column has whole numbers"
    if isinstance(value, float | np.floating | Decimal) and value != value // 1:
        return "it has a fraction, and the column has whole numbers"
    return None


def _never(kinds: Any, why: str) -> Reason:
    """Return a function that gives this reason for every value of these types."""
    return lambda value: why if isinstance(value, kinds) else None


def _has_zone(value: Any) -> str | None:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return f"it has a time zone ({value.tzinfo}), and the column has none: give all of them one, or none"
    return _is_a_date(value)


def _has_no_zone(zone: str) -> Reason:
    def reason(value: Any) -> str | None:
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            return f"it has no time zone, and the column has one ({zone}): give all of them one, or none"
        return _is_a_date(value)

    return reason


def _is_a_date(value: Any) -> str | None:
    is_date = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return "it is a date, and the column has datetimes" if is_date else None


def _has_zone_as_a_time(value: Any) -> str | None:
    has_zone = isinstance(value, dt.time) and value.tzinfo is not None
    return f"it has a time zone ({value.tzinfo}), and a column of times has none" if has_zone else None


_RULES: dict[Family, tuple[frozenset[type], Reason]] = {
    Family.INTEGER: (frozenset({int, _NONE}), _not_whole),
    Family.FLOAT: (
        frozenset({float, int, _NONE}),
        _never(bool | np.bool_, "it is a bool, and the column has numbers"),
    ),
    Family.DATE: (frozenset({dt.date, _NONE}), _never(dt.datetime, "it is a datetime, and the column has dates")),
    Family.TIME: (frozenset({_NONE}), _has_zone_as_a_time),
    Family.TEXT: (
        frozenset({str, _NONE}),
        _never(bytes | bytearray | memoryview, "it is bytes, and the column has text"),
    ),
    Family.BYTES: (frozenset({bytes, _NONE}), _never(str, "it is text, and the column has bytes")),
}
"""The rule of each family that has one, but for timestamps, whose rule depends on the zone."""
