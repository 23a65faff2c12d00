"""The conversion of a user's rows, which are dicts, to columns: all of the declared ones and no others.

The columns of a stream are known before the job runs, and are the same in all its subtasks and after each restore. So
they are never guessed from the first row of a function: they are those of its input, or those given as `returns`, and
every row is checked against them. A row without one of the columns, with an additional one, or with a value that its
column cannot hold, raises a `UserFunctionError`. It names operator, function, row and column, and says how to declare
the columns. None is a value of every nullable column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.arrow_kinds import kind_of
from kit.stream.backend.types.arrow_types import type_in_rows
from kit.stream.backend.types.exact_values import InexactError, exact_array, types_of
from kit.stream.operators.spec import UserFunctionError, batch_of, column_list, function_name, shorten

Row = dict[str, Any]
Columns = Sequence[Sequence[Any]]

AS_RETURNS = "give every row these columns (None where there is no value), or declare what it makes: returns={columns}"
AS_MAPPED = "map makes one row of each: flat_map makes any number of rows, and filter leaves rows out"
AS_REDUCED = (
    "what a reduce function gives has the columns of what it takes: add or drop columns with map, before or after"
)

AS_TUPLES = "expected a tuple with a value for each column it was declared to make, in this order: {columns}"

ROWS_AT_ONCE = 4_096

_LONGEST_LIST = 400


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch a few thousand rows at a time.

    That many Python objects stay in the processor's cache, where a function per row costs half of what it costs among
    those of a whole batch.
    """
    for start in range(0, batch.num_rows, ROWS_AT_ONCE):
        yield batch.slice(start, ROWS_AT_ONCE)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches, at least one, as one."""
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows of a batch as dicts, like `to_pylist`, but in half the time for few columns."""
    names, columns = batch.schema.names, [column.to_pylist() for column in batch.columns]
    match names:
        case []:
            return batch.to_pylist()  # the rows exist nevertheless
        case [a]:
            return [{a: x} for x in columns[0]]
        case [a, b]:
            return [{a: x, b: y} for x, y in zip(*columns, strict=True)]
        case [a, b, c]:
            return [{a: x, b: y, c: z} for x, y, z in zip(*columns, strict=True)]
        case [a, b, c, d]:
            return [{a: w, b: x, c: y, d: z} for w, x, y, z in zip(*columns, strict=True)]
    return [dict(zip(names, values)) for values in zip(*columns, strict=True)]


def _columns_of(rows: Sequence[Any], names: Sequence[str]) -> Columns | None:
    """Return the values by column of rows that are dicts with exactly these keys; None for others."""
    if types_of(rows) != {dict} or set(map(len, rows)) != {len(names)}:
        return None
    try:
        return [[row[name] for row in rows] for name in names]
    except KeyError:
        return None


def _columns_of_tuples(rows: Sequence[Any], width: int) -> Columns | None:
    """Return the values by column of rows that are tuples of this many values; None for others."""
    if types_of(rows) != {tuple}:
        return None
    try:
        columns = list(zip(*rows, strict=True))
    except ValueError:
        return None
    return columns if len(columns) == width else None


def _fitting(columns: Columns | None, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return values by column as a batch, or None if one of them does not fit."""
    if columns is None:
        return None
    try:
        batch = batch_of(columns, schema)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError):
        return None
    for column, values in zip(schema, columns, strict=True):
        if pa.types.is_nested(column.type) and any(
            True for value in values for _ in _misnamed_inside(value, column.type)
        ):
            return None
    has_forbidden_null = any(
        column.null_count and not field.nullable for field, column in zip(schema, batch.columns, strict=True)
    )
    return None if has_forbidden_null else batch


@dataclass(frozen=True, slots=True)
class RowMaker:
    """A function that makes rows for an operator.

    `remedy` says what to do about rows that do not fit, and may refer to the `{columns}` of such a row; `instead` says
    what to do about anything that is not a row.
    """

    operator: str
    function: Callable[..., Any]
    remedy: str = AS_RETURNS
    instead: str = ""

    def batch(self, rows: Sequence[Any], schema: pa.Schema, given: Sequence[Row]) -> pa.RecordBatch:
        """Return the rows as columns; `given` has for each the row it was made from. Raises UserFunctionError."""
        batch = _fitting(_columns_of(rows, schema.names), schema)
        if batch is not None:
            return batch
        for row, source in zip(rows, given, strict=True):
            self.check(row, schema, f"row {source}")
        return batch_of([[row[name] for row in rows] for name in schema.names], schema)

    def batch_of_tuples(self, made: Sequence[Any], schema: pa.Schema, given: pa.RecordBatch) -> pa.RecordBatch:
        """Return tuples with a value for each column as columns; with one column, bare values."""
        names = schema.names
        if len(names) == 1:
            made = [(value,) for value in made]
        batch = _fitting(_columns_of_tuples(made, len(names)), schema)
        if batch is not None:
            return batch
        sources = given.to_pylist()
        for row, source in zip(made, sources, strict=True):
            if not isinstance(row, tuple) or len(row) != len(names):
                raise self._misfit(row, f"row {source}", self.remedy.format(columns=column_list(schema, _LONGEST_LIST)))
        return self.batch([dict(zip(names, row, strict=True)) for row in made], schema, sources)

    def check(self, row: Any, schema: pa.Schema, at: str) -> None:
        """Raise UserFunctionError unless the row, made from what `at` describes, fits the columns."""
        problem = _misfit(row, schema)
        if problem:
            remedy = self.instead
            if isinstance(row, Mapping) or not remedy:
                columns = _declaration(row, schema) if isinstance(row, Mapping) else "{...}"
                remedy = self.remedy.replace("{columns}", columns)
            raise self._misfit(row, at, f"{problem}\n  {remedy}")

    def _misfit(self, row: Any, at: str, said: str) -> UserFunctionError:
        name = function_name(self.function)
        made = shorten(repr(row))
        return UserFunctionError(
            f"{self.operator}: function {name} failed on {shorten(at)}, of which it made {made}\n  {said}"
        )


def _misfit(row: Any, schema: pa.Schema) -> str:
    """Return what is wrong with a row, or ""."""
    if not isinstance(row, Mapping):
        columns = column_list(schema, _LONGEST_LIST)
        return f"a row is a dict with the columns {columns}, and this is of type {type(row).__name__}"
    if row.keys() != set(schema.names):
        return misnamed(row, schema)
    for column in schema:
        value = row[column.name]
        why = _why_not(value, column)
        if why is not None:
            of_type = "" if value is None else f" ({type(value).__name__})"
            null = "" if column.nullable else " not null"
            found = f"{shorten(repr(value))}{of_type} does not fit"
            return f"column {column.name!r} is {column.type}{null}, and {found}{why and f': {why}'}"
    for column in schema:  # Arrow itself would drop and fill in the keys of dicts within a row
        for keys in _misnamed_inside(row[column.name], column.type):
            return f"column {column.name!r} is {column.type}, and a dict in it has the keys {quoted(keys) or 'none'}"
    return ""


def _misnamed_inside(value: Any, type: pa.DataType) -> Iterator[Iterable[str]]:
    """Yield the keys of each dict in a value that differ from those of its struct."""
    if isinstance(value, Mapping) and pa.types.is_struct(type):
        if value.keys() != {each.name for each in type}:
            yield value.keys()
        else:
            for each in type:
                yield from _misnamed_inside(value[each.name], each.type)
    elif isinstance(value, list | tuple) and _holds_nested(type):
        for item in value:
            yield from _misnamed_inside(item, type.value_type)


def _holds_nested(type: pa.DataType) -> bool:
    is_list = pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    return is_list and pa.types.is_nested(type.value_type)


def misnamed(row: Mapping[str, Any], schema: pa.Schema) -> str:
    """Return the missing or additional columns of a row, or of columns by name; "" if they are those of the schema."""
    missing = [name for name in schema.names if name not in row]
    new = [name for name in row if name not in schema.names]
    if not missing and not new:
        return ""
    lacks = [f"there is no column {quoted(missing)}"] if missing else []
    has = [f"column {each!r} is not among those declared" for each in new[:3]]
    return (
        f"{', and '.join(lacks + has)}; it has {shorten(quoted(row))}; "
        f"declared are {column_list(schema, _LONGEST_LIST)}"
    )


def _why_not(value: Any, column: pa.Field) -> str | None:
    """Return why a column cannot hold a value, "" without a specific reason, or None if it can."""
    try:
        array = exact_array([value], type_in_rows(column.type) or column.type)
    except InexactError as error:
        return str(error)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError):
        return ""
    return "" if array.null_count and not column.nullable else None


def quoted(names: Iterable[Any]) -> str:
    """Return names for a message: `'carrier', 'delay'`."""
    return ", ".join(map(repr, names))


# --- how to declare a row's columns -----------------------------------------------------------------------------------

_SPELLED = {
    pa.bool_(): "pa.bool_()",
    pa.float16(): "pa.float16()",
    pa.float32(): "pa.float32()",
    pa.float64(): "pa.float64()",
    pa.date32(): "pa.date32()",
    pa.date64(): "pa.date64()",
}


def spelled(type: pa.DataType) -> str:
    """Return a type in the notation of Python: `pa.int64()`; `...` for an unknown one."""
    if type in _SPELLED:
        return _SPELLED[type]
    if kind_of(type).python in (int, str, bytes):
        return f"pa.{type}()"
    if pa.types.is_timestamp(type):
        return f"pa.timestamp({json.dumps(type.unit)}" + (f", {json.dumps(type.tz)})" if type.tz else ")")
    if pa.types.is_decimal128(type):
        return f"pa.decimal128({type.precision}, {type.scale})"
    if pa.types.is_list(type):
        return f"pa.list_({spelled(type.value_type)})"
    if pa.types.is_struct(type):
        return "pa.struct({" + ", ".join(f"{json.dumps(each.name)}: {spelled(each.type)}" for each in type) + "})"
    return "..."


def _declaration(row: Mapping[str, Any], schema: pa.Schema) -> str:
    """Return a declaration of the row's columns: the stream's types if they fit, else the values' own."""
    return "{" + ", ".join(f"{json.dumps(name)}: {_type_of(name, row[name], schema)}" for name in row) + "}"


def _type_of(name: str, value: Any, schema: pa.Schema) -> str:
    if name in schema.names and (value is None or _why_not(value, schema.field(name)) is None):
        return spelled(schema.field(name).type)
    try:
        return spelled(pa.array([value]).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return "..."
