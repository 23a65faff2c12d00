"""Operators without state: map, filter, flat map, and selecting, renaming and adding columns.

A function per row takes and returns dicts; use it for lessons and special cases. Expressions (`pyarrow.compute`) and
functions of whole batches are much faster. A function that raises leads to a `UserFunctionError` that names operator,
function and row.

Follows Flink's `StreamMap`, `StreamFilter` and `StreamFlatMap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kit.stream.backend.types.arrow_types import empty_batch
from kit.stream.operators.base import Operator
from kit.stream.operators.event_time import TimeColumn, columns_of, time_column_of
from kit.stream.operators.functions.returned import never_returns_a_value, never_runs, rows_made
from kit.stream.operators.hints import ONE_ROW
from kit.stream.operators.rows import AS_MAPPED, AS_TUPLES, Row, RowMaker, joined, pieces, rows_of
from kit.stream.operators.spec import (
    ResolvedSpec,
    SchemaError,
    UserFunctionError,
    check_function,
    check_made_of_rows,
    column_field,
    column_list,
    function_name,
    unique_names,
)

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


class BatchOperator(Operator):
    """The operator that emits a function's result for each batch."""

    def __init__(self, transform: BatchFunction) -> None:
        self._transform = transform

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Emit the transformed rows, if there are any."""
        result = self._transform(batch)
        if result.num_rows:
            self.context.output.emit(result)


@dataclass(frozen=True, eq=False, repr=False)
class _Transform(ResolvedSpec):
    """The base of the transforms: one input, and a function from batch to batch."""

    input_schema: pa.Schema

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the transformed rows of a batch."""
        raise NotImplementedError

    def create(self) -> BatchOperator:
        """Create one subtask's operator."""
        return BatchOperator(self.transform)

    def _resolve(self) -> None:
        self._set(input_schemas=(self.input_schema,), output_schema=self._output_schema())

    def _output_schema(self) -> pa.Schema:
        return self.input_schema

    def _call(self, function: Callable[[Any], Any], row: Row) -> Any:
        try:
            return function(row)
        except Exception as error:
            raise UserFunctionError.of(self.name, function, f"row {row}", error, ONE_ROW) from error

    def _call_batch(self, function: Callable[[Any], Any], batch: pa.RecordBatch) -> Any:
        try:
            return function(batch)
        except Exception as error:
            raise UserFunctionError.of_batch(self.name, function, batch, error) from error


# --- rows to rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Map(_Transform):
    """A map: `function` turns each row (a dict) into one row of the schema `returns`.

    With `arguments` it is called with the values of these columns, and returns a tuple with a value for each column of
    `returns` (the bare value if there is one). This avoids the dict, which is most of the cost of a small function.
    """

    function: Callable[..., Any]
    returns: pa.Schema
    arguments: tuple[str, ...] = ()

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function row by row."""
        call = self._of_arguments if self.arguments else self._of_rows
        return joined([call(piece) for piece in pieces(batch)]) if batch.num_rows else empty_batch(self.returns)

    def _of_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        given = rows_of(batch)
        rows = [self._call(self.function, row) for row in given]
        return RowMaker(self.name, self.function, instead=AS_MAPPED).batch(rows, self.returns, given)

    def _of_arguments(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made: list[Any] = []
        try:
            made.extend(map(self.function, *(batch.column(name).to_pylist() for name in self.arguments)))
            if len(made) < batch.num_rows:
                raise StopIteration  # the function's own: it ends `map`, too
        except Exception as error:
            row = batch.slice(len(made), 1).to_pylist()[0]
            raise UserFunctionError.of(self.name, self.function, f"row {row}", error) from error
        return RowMaker(self.name, self.function, AS_TUPLES).batch_of_tuples(made, self.returns, batch)

    def _output_schema(self) -> pa.Schema:
        check_function(self.function, self.name, "a function of a row (a dict)")
        unique_names((column_field(self.input_schema, name, self.name).name for name in self.arguments), self.name)
        check_made_of_rows(self.returns, self.name)
        return self.returns


@dataclass(frozen=True, eq=False, repr=False)
class FlatMap(_Transform):
    """A flat map: `function` turns each row (a dict) into any number of rows of the schema `returns`."""

    function: Callable[[Row], Iterable[Mapping[str, Any]]]
    returns: pa.Schema

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function row by row."""
        given: list[Row] = []
        rows: list[Mapping[str, Any]] = []
        for row in rows_of(batch):
            made = self._rows_of(row)
            rows += made
            given += [row] * len(made)
        return RowMaker(self.name, self.function).batch(rows, self.returns, given)

    def _rows_of(self, row: Row) -> list[Mapping[str, Any]]:
        try:
            return rows_made(self.function(row))
        except Exception as error:
            raise UserFunctionError.of(self.name, self.function, f"row {row}", error, ONE_ROW) from error

    def _output_schema(self) -> pa.Schema:
        check_function(self.function, self.name, "a function of a row (a dict)")
        check_made_of_rows(self.returns, self.name)
        return self.returns


@dataclass(frozen=True, eq=False, repr=False)
class MapBatches(_Transform):
    """A map of batches: `function` turns each record batch into one of the schema `returns` (None: the input's)."""

    function: BatchFunction
    returns: pa.Schema | None = None

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Call the function, and check what it returns."""
        result = self._call_batch(self.function, batch)
        if isinstance(result, pa.RecordBatch) and result.schema.equals(self.output_schema):
            return result
        found = column_list(result.schema) if isinstance(result, pa.RecordBatch) else type(result).__name__
        wrong = TypeError(
            f"it returned {found}, expected a record batch of "
            f"{column_list(self.output_schema)}; declare what it makes: returns={{...}}"
        )
        raise UserFunctionError.of(self.name, self.function, f"a batch of {batch.num_rows} rows", wrong)

    def _output_schema(self) -> pa.Schema:
        check_function(self.function, self.name, "a function of a record batch")
        return self.input_schema if self.returns is None else self.returns


# --- filter ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Filter(_Transform):
    """A filter that keeps the rows for which `predicate` is true.

    `predicate` is an expression (`pyarrow.compute.field("delay") > 0`) or a function of a row (a dict). With `batched`
    the function takes a record batch and returns a boolean array. A null counts as false.
    """

    predicate: pc.Expression | Callable[[Any], Any]
    batched: bool = False

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are kept."""
        if isinstance(self.predicate, pc.Expression):
            return batch.filter(self.predicate)
        if not self.batched:
            return batch.filter(pa.array([self._is_kept(row) for row in rows_of(batch)], pa.bool_()))
        mask = self._call_batch(self.predicate, batch)
        try:
            return batch.filter(pa.array(mask, pa.bool_()))
        except (pa.ArrowException, TypeError, ValueError) as error:
            at = f"a batch of {batch.num_rows} rows, expected as many booleans"
            raise UserFunctionError.of(self.name, self.predicate, at, error) from error

    def _is_kept(self, row: Row) -> bool:
        try:
            found = self.predicate(row)
            if found is not True and found is not False and never_runs(found):
                raise TypeError(f"it returned a {type(found).__name__}, which is always true: return True or False")
            return bool(found)
        except Exception as error:
            raise UserFunctionError.of(self.name, self.predicate, f"row {row}", error, ONE_ROW) from error

    def _output_schema(self) -> pa.Schema:
        if not isinstance(self.predicate, pc.Expression):
            check_function(self.predicate, self.name, 'a function of a row, or an expression: pc.field("n") > 0')
            if never_returns_a_value(self.predicate):
                raise TypeError(
                    f"{self.name}: {function_name(self.predicate)} returns nothing, so no row would be kept: begin its "
                    "result with `return`"
                )
        else:
            try:
                empty_batch(self.input_schema).filter(self.predicate)
            except (pa.ArrowException, KeyError) as error:
                raise _wrong_expression(self.name, self.predicate, self.input_schema, error) from error
        return self.input_schema


# --- columns --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Select(_Transform):
    """A selection of columns, in this order."""

    columns: tuple[str, ...]

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected columns."""
        return batch.select(list(self.columns))

    def _output_schema(self) -> pa.Schema:
        fields = [column_field(self.input_schema, column, self.name) for column in self.columns]
        unique_names(self.columns, self.name)
        return pa.schema(fields)


@dataclass(frozen=True, eq=False, repr=False)
class Rename(_Transform):
    """Columns under new names, given as {old: new}; the others are unchanged."""

    names: Mapping[str, str]

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same columns under their new names."""
        return pa.RecordBatch.from_arrays(batch.columns, schema=self.output_schema)

    def event_time(self, inputs: Sequence[TimeColumn | None]) -> TimeColumn | None:
        """Return the columns under their new names."""
        (given,) = inputs
        return None if given is None else time_column_of(self.names.get(each, each) for each in columns_of(given))

    def _output_schema(self) -> pa.Schema:
        for old, new in self.names.items():
            column_field(self.input_schema, old, self.name)
            if not isinstance(new, str):
                raise SchemaError(f"{self.name}: the new name of {old!r} is {new!r}, but must be a text")
        fields = [column.with_name(self.names.get(column.name, column.name)) for column in self.input_schema]
        unique_names((column.name for column in fields), self.name)
        return pa.schema(fields)


@dataclass(frozen=True, eq=False, repr=False)
class WithColumn(_Transform):
    """An added or replaced column.

    `value` is an expression, or a function from record batch to array of Arrow type `type`.
    """

    column: str
    value: pc.Expression | Callable[[pa.RecordBatch], Any]
    type: pa.DataType | None = None

    def transform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the column."""
        added = evaluate(self.value, batch) if isinstance(self.value, pc.Expression) else self._made(batch)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {self.column: added}
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=self.output_schema)

    def _made(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the function's result for a batch, checked."""
        made = self._call_batch(self.value, batch)
        try:
            column = pa.array(made, self.type)
            if len(column) != batch.num_rows:
                raise ValueError(f"it returned {len(column)} values")
        except (pa.ArrowException, TypeError, ValueError) as error:
            at = f"a batch of {batch.num_rows} rows, expected as many values of type {self.type}"
            raise UserFunctionError.of(self.name, self.value, at, error) from error
        return column

    def _output_schema(self) -> pa.Schema:
        if isinstance(self.value, pc.Expression):
            try:
                made = evaluate(self.value, empty_batch(self.input_schema)).type
            except (pa.ArrowException, KeyError) as error:
                raise _wrong_expression(self.name, self.value, self.input_schema, error) from error
        else:
            takes = 'an expression, such as pc.field("n") * 2 or pc.scalar(0), or a function of batches'
            check_function(self.value, self.name, takes)
            if self.type is None:
                raise SchemaError(f"{self.name}: the type of column {self.column!r} is not known; give it as `type`")
            made = self.type
        fields = {column.name: column for column in self.input_schema} | {self.column: pa.field(self.column, made)}
        return pa.schema(list(fields.values()))


def evaluate(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return the values of an expression over the rows of a batch."""
    from pyarrow import acero  # imports pandas

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"]), [source])
    return project.to_table(use_threads=False).column(0).combine_chunks()


def _wrong_expression(operator: str, expression: pc.Expression, schema: pa.Schema, error: Exception) -> SchemaError:
    said = str(error).splitlines()[0]
    return SchemaError(f"{operator}: {expression} does not fit: {said}; the columns are {column_list(schema)}")
