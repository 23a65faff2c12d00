"""Aggregate functions as data: what is kept for them, how rows are folded in, and what they come to.

`count()`, `count("delay")`, `sum_("delay")`, `min_("delay")`, `max_("delay")`, `avg("delay")`: as in SQL, nulls are
passed over, and but for a count the aggregate of nothing is null. Each is kept as one or two numbers a key (`KINDS`),
so that a batch is folded in column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.operators.spec import SchemaError, column_field, unique_names
from kit.state.descriptors import ReducingStateDescriptor


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its kind, the column it is of (None: of rows), and the name of the column it makes."""

    kind: str
    column: str | None
    name: str

    def as_(self, name: str) -> Aggregate:
        """The same under another name."""
        return replace(self, name=name)

    def __repr__(self) -> str:
        return f"{self.kind}({self.column or ''})"


def count(column: str | None = None) -> Aggregate:
    """The number of rows, or of those where `column` is not null (int64)."""
    return Aggregate("count", column, "count" if column is None else f"count_{column}")


def sum_(column: str) -> Aggregate:
    """The sum (int64 of integers, wrapping around as in Java; double of floats; a duration of durations)."""
    return Aggregate("sum", column, f"sum_{column}")


def min_(column: str) -> Aggregate:
    """The smallest value, of the column's type."""
    return Aggregate("min", column, f"min_{column}")


def max_(column: str) -> Aggregate:
    """The largest value, of the column's type."""
    return Aggregate("max", column, f"max_{column}")


def avg(column: str) -> Aggregate:
    """The mean (double)."""
    return Aggregate("avg", column, f"avg_{column}")


def _sum_type(found: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(found) and not pa.types.is_uint64(found):
        return pa.int64()
    if pa.types.is_float32(found) or pa.types.is_float64(found):
        return pa.float64()
    return found if pa.types.is_duration(found) else None


def _mean_type(found: pa.DataType) -> pa.DataType | None:
    return None if pa.types.is_duration(found) else _sum_type(found)


def _order_type(found: pa.DataType) -> pa.DataType | None:
    number = pa.types.is_integer(found) or pa.types.is_float32(found) or pa.types.is_float64(found)
    return found if number or (pa.types.is_temporal(found) and not pa.types.is_interval(found)) else None


def _count_type(_: pa.DataType) -> pa.DataType:
    return pa.int64()


def _mean(total: pa.Array, rows: pa.Array) -> pa.Array:
    return pc.divide(total.cast(pa.float64()), rows.cast(pa.float64()))


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a kind of aggregate keeps: (suffix of the state field, how it reduces, type of the column -> type kept)."""

    parts: tuple[tuple[str, str, Callable[[pa.DataType], pa.DataType | None]], ...]
    wants: str
    result: Callable[..., pa.Array] | None = None


KINDS: Mapping[str, _Kind] = {
    "count": _Kind((("", "count", _count_type),), "any column"),
    "sum": _Kind((("", "sum", _sum_type),), "integers (but uint64), floats or durations"),
    "min": _Kind((("", "min", _order_type),), "numbers, dates or times"),
    "max": _Kind((("", "max", _order_type),), "numbers, dates or times"),
    "avg": _Kind(
        ((".sum", "sum", _mean_type), (".count", "count", _count_type)), "integers (but uint64) or floats", _mean
    ),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """One number kept a key: a field of the state, folded by `word` from `column`."""

    field: pa.Field
    word: str
    column: str | None


class AggregateSet:
    """Several aggregates over one schema: the state that holds them, and the columns that they make.

    Raises SchemaError for a column that is not there, has a type that the aggregate cannot take, or is made twice.
    """

    def __init__(self, aggregates: Iterable[Aggregate], schema: pa.Schema, operator: str) -> None:
        self.aggregates = tuple(aggregates)
        if not self.aggregates:
            raise SchemaError(f"{operator}: no aggregates were given; count() is the simplest one")
        self._parts = [_parts_of(aggregate, schema, operator) for aggregate in self.aggregates]
        unique_names((part.field.name for parts in self._parts for part in parts), operator)
        self.fields = [
            pa.field(aggregate.name, pa.float64() if KINDS[aggregate.kind].result else parts[0].field.type)
            for aggregate, parts in zip(self.aggregates, self._parts, strict=True)
        ]

    def descriptor(self, name: str) -> ReducingStateDescriptor:
        """The reducing state that holds all of them."""
        parts = [part for parts in self._parts for part in parts]
        reduce = {part.field.name: part.word for part in parts}
        return ReducingStateDescriptor(name, pa.struct([part.field for part in parts]), reduce)

    def inputs(self, batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, npt.NDArray[np.bool_]] | None]:
        """What a batch adds to the state: values and validity by field."""
        values: dict[str, pa.Array] = {}
        validity: dict[str, npt.NDArray[np.bool_]] = {}
        for part in (part for parts in self._parts for part in parts if part.column is not None):
            column = batch.column(part.column)
            if part.word != "count":
                values[part.field.name] = column if column.type == part.field.type else column.cast(part.field.type)
            elif column.null_count:
                validity[part.field.name] = column.is_valid().to_numpy(zero_copy_only=False)
        return values, validity or None

    def results(self, state: pa.StructArray) -> list[pa.Array]:
        """What the state comes to: one column an aggregate."""
        columns = iter(state.flatten())
        kept = [[next(columns) for _ in parts] for parts in self._parts]
        results = []
        for aggregate, parts in zip(self.aggregates, kept, strict=True):
            result = KINDS[aggregate.kind].result
            results.append(parts[0] if result is None else result(*parts))
        return results


def _parts_of(aggregate: Aggregate, schema: pa.Schema, operator: str) -> Sequence[_Part]:
    kind = KINDS.get(aggregate.kind)
    if kind is None:
        raise SchemaError(f"{operator}: there is no aggregate {aggregate.kind!r}; there are {', '.join(KINDS)}")
    found = pa.null() if aggregate.column is None else column_field(schema, aggregate.column, operator).type
    parts: list[_Part] = []
    for suffix, word, type_of in kind.parts:
        kept = type_of(found)
        if kept is None:
            raise SchemaError(
                f"{operator}: {aggregate!r} needs {kind.wants}, but column {aggregate.column!r} is {found}"
            )
        parts.append(_Part(pa.field(aggregate.name + suffix, kept), word, aggregate.column))
    return parts


class FirstRows:
    """Finds, without sorting, the rows of a batch at which each slot comes up first."""

    def __init__(self) -> None:
        self._row_of = np.empty(0, np.int64)

    def of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The first row of each slot, ascending. Written backwards, the first row is the one that stays."""
        rows = np.arange(len(slots))
        highest = int(slots.max(initial=-1))
        if highest >= len(self._row_of):
            self._row_of = np.empty(2 * highest + 2, np.int64)
        self._row_of[slots[::-1]] = rows[::-1]
        return rows[self._row_of[slots] == rows]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One thing or several, as a tuple."""
    return (value,) if isinstance(value, str | Aggregate) else tuple(value)


def named_aggregates(aggregates: tuple[Aggregate, ...], named: Mapping[str, Aggregate]) -> tuple[Aggregate, ...]:
    """Aggregates as `aggregate(count(), delay=sum_("arr_delay"))` gives them."""
    return (*aggregates, *(aggregate.as_(name) for name, aggregate in named.items()))
