"""Aggregate functions as data: their state, how rows are folded in, and their results.

`count()`, `count("delay")`, `sum_("delay")`, `min_("delay")`, `max_("delay")`, `avg("delay")`: as in Spark SQL, nulls
are ignored, and except for a count the aggregate of no values is null. A NaN is a value: a sum or a mean with one is
NaN. NaN is larger than any number, so `max_` returns it if there is one, and `min_` only if there is nothing else.
(pandas ignores NaN: convert NaN to null for that.) Each aggregate is kept as one or two numbers per key (`KINDS`), so a
batch is folded in column by column. How rows are divided into batches makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import Family, kind_of
from kit.core.state.errors import StateOverflowError
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.states.descriptors import ReducingStateDescriptor, has_order
from kit.stream.backend.states.tables import StateTable
from kit.stream.backend.types.arrow_types import as_type, stored_type
from kit.stream.operators.spec import SchemaError, column_field, shorten, unique_names


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its kind, its column (None: rows), and the name of the resulting column."""

    kind: str
    column: str | None
    name: str

    def __post_init__(self) -> None:
        if not (isinstance(self.column, str) or (self.column is None and self.kind == "count")):
            raise SchemaError(f"{self.kind}: a column is named by a string, found {shorten(repr(self.column))}")

    def as_(self, name: str) -> Aggregate:
        """Return the same aggregate under another name."""
        return replace(self, name=name)

    def __repr__(self) -> str:
        return f"{self.kind}({self.column or ''})"


def count(column: str | None = None) -> Aggregate:
    """Count the rows, or those where `column` is not null (int64)."""
    return Aggregate("count", column, "count" if column is None else f"count_{column}")


def sum_(column: str) -> Aggregate:
    """Sum a column: int64 for integers (wrapping around as in Java), double for floats, a duration for durations.

    The sum of decimals is exact, with ten digits more than the column (38 at most); that of uint64 is a uint64. If the
    result does not fit one of these, the job fails with a StateOverflowError that names the key.
    """
    return Aggregate("sum", column, f"sum_{column}")


def min_(column: str) -> Aggregate:
    """Take the smallest value, of the column's type: numbers, decimals, dates, times, strings, bytes or bools.

    Strings are compared by their UTF-8 bytes, as in Spark SQL; a NaN is larger than any number.
    """
    return Aggregate("min", column, f"min_{column}")


def max_(column: str) -> Aggregate:
    """Take the largest value, of the column's type; compared as by `min_`."""
    return Aggregate("max", column, f"max_{column}")


def avg(column: str) -> Aggregate:
    """Average a column: double for numbers; for decimals a decimal with four more digits, rounded half up.

    A decimal has 38 digits at most, before and behind the point together. The internal sum is kept as `sum_` keeps it,
    except that of uint64, which has 38 digits.
    """
    return Aggregate("avg", column, f"avg_{column}")


def _sum_type(found: pa.DataType) -> pa.DataType | None:
    found = stored_type(found)
    match kind_of(found).family:
        case Family.INTEGER:
            return found if found.equals(pa.uint64()) else pa.int64()
        case Family.FLOAT:
            return pa.float64()
        case Family.DECIMAL:
            return _decimal(found, found.precision + 10, found.scale)
        case Family.DURATION:
            return found
    return None


def _total_type(found: pa.DataType) -> pa.DataType | None:
    """Return the type in which the sum of a mean is kept."""
    total = _sum_type(found)
    if total is None or kind_of(total).family is Family.DURATION:
        return None
    return pa.decimal128(38, 0) if pa.types.is_uint64(total) else total


def _mean_type(found: pa.DataType) -> pa.DataType:
    found = stored_type(found)
    return (
        _decimal(found, found.precision + 4, found.scale + 4)
        if kind_of(found).family is Family.DECIMAL
        else pa.float64()
    )


def _order_type(found: pa.DataType) -> pa.DataType | None:
    found = stored_type(found)
    if kind_of(found).family is Family.DECIMAL:
        return _decimal(found, found.precision, found.scale)
    return found if has_order(found) else None


def _decimal(found: pa.DataType, precision: int, scale: int) -> pa.DataType:
    """Return a decimal of this many digits, bounded like `DecimalType.bounded` of Spark, without a negative scale."""
    if found.scale < 0:
        precision, scale = precision - found.scale, scale - found.scale
    if pa.types.is_decimal256(found):
        return pa.decimal256(min(76, precision), min(76, scale))
    return pa.decimal128(min(38, precision), min(38, scale))


def _mean(total: pa.Array, rows: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Divide the totals by the numbers of rows: null without rows."""
    if not pa.types.is_decimal(wanted):
        return pc.divide(total.cast(pa.float64(), safe=False), rows.cast(pa.float64()))
    digits = Context(prec=200, rounding=ROUND_HALF_UP)
    unit = Decimal(1).scaleb(-wanted.scale)
    means = [
        None if each is None else digits.divide(each, Decimal(count)).quantize(unit, context=digits)
        for each, count in zip(total.to_pylist(), rows.to_pylist(), strict=True)
    ]
    try:
        return pa.array(means, wanted)
    except pa.ArrowInvalid:
        largest = max((mean for mean in means if mean is not None), key=abs)
        raise StateOverflowError(
            f"avg: the mean {largest} does not fit {wanted}: average a column of fewer digits, or floats"
        ) from None


@dataclass(frozen=True, slots=True)
class _Kind:
    """The state of a kind of aggregate: (suffix of the state field, how it reduces, type of the column -> type kept).

    `result` computes the result, of the type that `result_type` returns for the column; without it, the first field is
    the result.
    """

    parts: tuple[tuple[str, str, Callable[[pa.DataType], pa.DataType | None]], ...]
    wants: str
    result: Callable[..., pa.Array] | None = None
    result_type: Callable[[pa.DataType], pa.DataType] | None = None


_ORDERED = "numbers, decimals, dates, times, strings, bytes or bools"
_COUNT = ("count", lambda _: pa.int64())
KINDS: Mapping[str, _Kind] = {
    "count": _Kind((("", *_COUNT),), "any column"),
    "sum": _Kind((("", "sum", _sum_type),), "numbers, decimals or durations"),
    "min": _Kind((("", "min", _order_type),), _ORDERED),
    "max": _Kind((("", "max", _order_type),), _ORDERED),
    "avg": _Kind(((".sum", "sum", _total_type), (".count", *_COUNT)), "numbers or decimals", _mean, _mean_type),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """One number kept per key: a field of the state, folded by `word` from `column`."""

    field: pa.Field
    word: str
    column: str | None


class AggregateSet:
    """Several aggregates over one schema: the state that holds them, and the columns that they produce.

    Raises SchemaError for a column that does not exist, has a type that the aggregate cannot take, or is produced
    twice.
    """

    def __init__(self, aggregates: Iterable[Aggregate], schema: pa.Schema, operator: str) -> None:
        self.aggregates = tuple(aggregates)
        if not self.aggregates:
            raise SchemaError(f"{operator}: no aggregates were given; count() is the simplest one")
        self._operator = operator
        self._parts = [_parts_of(aggregate, schema, operator) for aggregate in self.aggregates]
        unique_names((part.field.name for parts in self._parts for part in parts), operator)
        self.fields = [
            pa.field(aggregate.name, _result_type(aggregate, parts, schema))
            for aggregate, parts in zip(self.aggregates, self._parts, strict=True)
        ]

    def descriptor(self, name: str) -> ReducingStateDescriptor:
        """Return the reducing state that holds all of them."""
        parts = [part for parts in self._parts for part in parts]
        reduce = {part.field.name: part.word for part in parts}
        return ReducingStateDescriptor(name, pa.struct([part.field for part in parts]), reduce)

    def _inputs(self, batch: pa.RecordBatch) -> tuple[dict[str, pa.Array], dict[str, npt.NDArray[np.bool_]] | None]:
        """Return what a batch adds to the state: values and validity by field."""
        values: dict[str, pa.Array] = {}
        validity: dict[str, npt.NDArray[np.bool_]] = {}
        for part in (part for parts in self._parts for part in parts if part.column is not None):
            column = batch.column(part.column)
            if part.word != "count":
                values[part.field.name] = _as_kept(column, part.field.type)
            elif column.null_count:
                validity[part.field.name] = column.is_valid().to_numpy(zero_copy_only=False)
        return values, validity or None

    def add(self, table: StateTable, slots: npt.NDArray[np.int64], batch: pa.RecordBatch) -> None:
        """Fold the rows of a batch into the entries at their slots."""
        table.reduce(slots, *self._inputs(batch))

    def partial_schema(self, before: Iterable[pa.Field]) -> pa.Schema:
        """Return the columns of partial totals: those `before`, and a column for each field of the state."""
        fields = [*before, *(part.field for parts in self._parts for part in parts)]
        unique_names((field.name for field in fields), self._operator)
        return pa.schema(fields)

    def add_partials(self, table: StateTable, slots: npt.NDArray[np.int64], batch: pa.RecordBatch) -> None:
        """Fold the partial totals of a batch into the entries at their slots."""
        names = [part.field.name for parts in self._parts for part in parts]
        table.combine(slots, {name: batch.column(name) for name in names})

    def results(self, state: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the results for the fields of the state: one column per aggregate."""
        columns = iter(state)
        kept = [[next(columns) for _ in parts] for parts in self._parts]
        results = []
        for aggregate, parts, made in zip(self.aggregates, kept, self.fields, strict=True):
            result = KINDS[aggregate.kind].result
            results.append(parts[0] if result is None else result(*parts, made.type))
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


def _result_type(aggregate: Aggregate, parts: Sequence[_Part], schema: pa.Schema) -> pa.DataType:
    result_type = KINDS[aggregate.kind].result_type
    return parts[0].field.type if result_type is None else result_type(schema.field(aggregate.column).type)


def _as_kept(column: pa.Array, kept: pa.DataType) -> pa.Array:
    if column.type == kept:
        return column
    plain = as_type(column, stored_type(column.type))
    if pa.types.is_uint64(plain.type) and pa.types.is_decimal(kept):
        plain = plain.cast(pa.decimal128(20, 0))
    return plain if plain.type == kept else plain.cast(kept)


def aggregate_aspects(aggregates: Iterable[Aggregate]) -> dict[str, str]:
    """Return the aggregates as a snapshot's definition holds them."""
    return {aggregate.name: repr(aggregate) for aggregate in aggregates}


_ONLY_ROW = np.zeros(1, np.int64)


class FirstRows:
    """A finder, without sorting, of the rows of a batch at which each slot first appears."""

    def __init__(self) -> None:
        self._row_of = np.empty(0, np.int64)

    def of(self, slots: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the first row of each slot, ascending. Written backwards, the first row is the one that remains."""
        if len(slots) == 1:
            return _ONLY_ROW
        if len(slots) <= FEW_ROWS:
            row_of: dict[int, int] = {}
            for row, slot in enumerate(slots.tolist()):
                row_of.setdefault(slot, row)
            return np.fromiter(row_of.values(), np.int64)
        rows = np.arange(len(slots))
        highest = int(slots.max(initial=-1))
        if highest >= len(self._row_of):
            self._row_of = np.empty(2 * highest + 2, np.int64)
        self._row_of[slots[::-1]] = rows[::-1]
        return rows[self._row_of[slots] == rows]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    return (value,) if isinstance(value, str | Aggregate) else tuple(value)


def named_aggregates(aggregates: tuple[Aggregate, ...], named: Mapping[str, Aggregate]) -> tuple[Aggregate, ...]:
    """Return aggregates as `aggregate(count(), delay=sum_("arr_delay"))` passes them.

    Raises TypeError for anything else.
    """
    for name, found in (*(("", each) for each in aggregates), *named.items()):
        if not isinstance(found, Aggregate):
            given = f"{name}={shorten(repr(found))}" if name else shorten(repr(found))
            expected = "aggregates, such as total=sum_('n') and rows=count()"
            raise TypeError(f"aggregate takes {expected}; found {given} ({type(found).__name__})")
    return (*aggregates, *(aggregate.as_(name) for name, aggregate in named.items()))
