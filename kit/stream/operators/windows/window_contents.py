"""The contents of a window: what is kept of its rows, and what is emitted when it fires.

Aggregates are kept as numbers in columns and are the fastest; a reduce function keeps one row; a window function gets
all rows, so all are kept.

Follows Flink's `AggregateFunction`, `ReduceFunction` and `ProcessWindowFunction` behind `WindowedStream`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.states.descriptors import ListStateDescriptor, ReducingStateDescriptor, StateDescriptor
from kit.stream.backend.states.tables import StateTable
from kit.stream.operators.aggregates import AggregateSet
from kit.stream.operators.functions.returned import rows_made
from kit.stream.operators.rows import AS_REDUCED, Row, RowMaker
from kit.stream.operators.spec import UserFunctionError, as_rows, key_columns, row_type
from kit.stream.operators.windows.window_assigners import Times

Slots = npt.NDArray[np.int64]
ReduceFunction = Callable[[Row, Row], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Window:
    """The window that a window function gets: from `start_ms` up to `end_ms`, excluded."""

    start_ms: int
    end_ms: int


WindowFunction = Callable[[Any, Window, list[Row]], Iterable[Mapping[str, Any]]]


class WindowContents(Protocol):
    """The state of a window, by (key, window), and the rows made from it."""

    descriptor: StateDescriptor

    def add(self, table: StateTable, slots: Slots, batch: pa.RecordBatch) -> None:
        """Add each row to the window at its slot."""

    def results(self, keys: pa.Array, starts: Times, ends: Times, state: pa.Array) -> pa.RecordBatch:
        """Return the output of the windows."""


class AggregatedContents:
    """The numbers of an `AggregateSet`, emitted as key, window bounds and aggregates.

    With `two_phase`, what is added are partial totals.
    """

    def __init__(self, totals: AggregateSet, schema: pa.Schema, keys: int, *, two_phase: bool) -> None:
        self.descriptor: StateDescriptor = totals.descriptor("window-contents")
        self._totals = totals
        self._fold = totals.add_partials if two_phase else totals.add
        self._schema = schema
        self._keys = keys

    def add(self, table: StateTable, slots: Slots, batch: pa.RecordBatch) -> None:
        """Fold the rows in, column by column."""
        self._fold(table, slots, batch)

    def results(self, keys: pa.Array, starts: Times, ends: Times, state: pa.StructArray) -> pa.RecordBatch:
        """Return one row for each window."""
        bounds = [pa.array(times).view(self._schema.field(self._keys).type) for times in (starts, ends)]
        columns = key_columns(keys, self._schema.types[: self._keys]) + bounds + self._totals.results(state.flatten())
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


class ReducedContents:
    """The rows of a window reduced to one, which is emitted, by a function of two rows."""

    def __init__(self, function: ReduceFunction, schema: pa.Schema, operator: str) -> None:
        self._function = function
        self._schema = schema
        self._maker = RowMaker(operator, function, AS_REDUCED)
        row = row_type(schema, operator)
        self.descriptor: StateDescriptor = ReducingStateDescriptor("window-contents", row, self._reduce)

    def add(self, table: StateTable, slots: Slots, batch: pa.RecordBatch) -> None:
        """Reduce row by row."""
        table.reduce(slots, batch.to_struct_array())

    def results(self, keys: pa.Array, starts: Times, ends: Times, state: pa.StructArray) -> pa.RecordBatch:
        """Return the row of each window."""
        return as_rows(state, self._schema)

    def _reduce(self, one: Row, other: Row) -> Mapping[str, Any]:
        at = f"rows {one} and {other}"
        try:
            row = self._function(one, other)
        except Exception as error:
            raise UserFunctionError.of(self._maker.operator, self._function, at, error) from error
        if row is not one and row is not other:
            self._maker.check(row, self._schema, at)
        return row


class ListedContents:
    """All rows of a window, for a function of (key, window, rows)."""

    def __init__(self, function: WindowFunction, schema: pa.Schema, returns: pa.Schema, operator: str) -> None:
        self._function = function
        self._returns = returns
        self._operator = operator
        self.descriptor: StateDescriptor = ListStateDescriptor("window-contents", row_type(schema, operator))

    def add(self, table: StateTable, slots: Slots, batch: pa.RecordBatch) -> None:
        """Keep the rows."""
        table.add(slots, batch.to_struct_array())

    def results(self, keys: pa.Array, starts: Times, ends: Times, state: pa.ListArray) -> pa.RecordBatch:
        """Call the function for each window."""
        made: list[Mapping[str, Any]] = []
        given: list[Row] = []
        windows = zip(keys.to_pylist(), starts.tolist(), ends.tolist(), state.to_pylist(), strict=True)
        for key, start, end, rows in windows:
            rows_made = self._call(key, Window(start, end), rows)
            made += rows_made
            given += [{"key": key, "window": (start, end)}] * len(rows_made)
        return RowMaker(self._operator, self._function).batch(made, self._returns, given)

    def _call(self, key: Any, window: Window, rows: list[Row]) -> list[Mapping[str, Any]]:
        try:
            return rows_made(self._function(key, window, rows))
        except Exception as error:
            at = f"key {key!r} and {window!r} with {len(rows)} rows"
            raise UserFunctionError.of(self._operator, self._function, at, error) from error
