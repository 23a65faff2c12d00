"""Event-time windows: state for each key and window, emitted when the watermark passes the end.

An assigner determines the windows of a row (`kit.stream.operators.windows.window_assigners`), and the contents
determine what is kept of the rows (`kit.stream.operators.windows.window_contents`). The state of a window is kept under
its key with its id as namespace, and a timer at its last millisecond makes it fire. One batch holds all windows that a
watermark makes due, by end, key group and key, so that two hosts emit the same.

A window is cleared `allowed_lateness_ms` after it fired. Until then a row that belongs to it makes it fire again, once
for each batch. A row whose windows have all been cleared is *late*: it goes to the side output for late rows, or is
dropped and counted. Windows that merge are in `kit.stream.operators.windows.merging_window_operator`.

Follows Flink's `WindowOperator` with `EventTimeTrigger`; Flink fires a late window again for each row, not each batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from kit.stream.backend.states.state_definition import Aspects
from kit.stream.operators.aggregates import Aggregate, AggregateSet, aggregate_aspects, as_tuple
from kit.stream.operators.base import Operator
from kit.stream.operators.spec import check_function, row_type, unique_names
from kit.stream.operators.windows.local_window_aggregate import assigned_partials, partial_schema
from kit.stream.operators.windows.merging_window_operator import MergingWindowOperator
from kit.stream.operators.windows.window_assigners import Times
from kit.stream.operators.windows.window_contents import (
    AggregatedContents,
    ListedContents,
    ReducedContents,
    ReduceFunction,
    WindowContents,
    WindowFunction,
)
from kit.stream.operators.windows.window_operator import WindowOperator, WindowSpec, bound_type

WINDOW_START = "window_start"
WINDOW_END = "window_end"


@dataclass(frozen=True, eq=False, repr=False)
class _Window(WindowSpec):
    def create(self) -> Operator:
        """Create one subtask's operator."""
        return MergingWindowOperator(self) if self.assigner.merges else WindowOperator(self)


@dataclass(frozen=True, eq=False, repr=False)
class WindowAggregate(_Window):
    """The aggregates of each key and window of `time_column` (timestamp, or int64 ms).

    Emits keys, `window_start`, `window_end` (timestamps in ms if the time is a timestamp, else int64 ms) and
    aggregates.
    """

    aggregates: tuple[Aggregate, ...]
    two_phase: bool = field(default=False, kw_only=True)
    """True if the input is partial totals (`kit.stream.operators.windows.local_window_aggregate`)."""

    def assigned(self, batch: pa.RecordBatch) -> tuple[Times, Times | None, Times]:
        """Return the event times of the rows, and the row number and id of each of their windows."""
        return assigned_partials(batch, self.assigner) if self.two_phase else super().assigned(batch)

    def state_aspects(self) -> Aspects:
        """Return the aggregates too."""
        return {**super().state_aspects(), "aggregates": aggregate_aspects(self.aggregates)}

    def contents(self) -> WindowContents:
        """Return contents that keep the aggregates' numbers."""
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        return AggregatedContents(totals, self.output_schema, len(self.keys), two_phase=self.two_phase)

    def _window_schema(self) -> pa.Schema:
        self._set(aggregates=as_tuple(self.aggregates))
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        bound = bound_type(self.input_schema, self.time_column, self.name)
        bounds = [pa.field(WINDOW_START, bound), pa.field(WINDOW_END, bound)]
        fields = [self.input_schema.field(key) for key in self.keys] + bounds + totals.fields
        unique_names((column.name for column in fields), self.name)
        return pa.schema(fields)

    def _taken_schema(self) -> pa.Schema:
        if not self.two_phase:
            return self.input_schema
        if self.assigner.merges:
            raise ValueError(
                f"{self.name}: two_phase with {self.assigner!r}, whose windows depend on rows that are elsewhere: use "
                "windows that do not merge, or one phase"
            )
        if self.late_tag is not None:
            raise ValueError(
                f"{self.name}: two_phase with {self.late_tag!r}, which takes late rows, but only totals of rows "
                "cross the exchange: use one phase"
            )
        return partial_schema(self.input_schema, self.keys, self.aggregates, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class WindowReduce(_Window):
    """The rows of each key and window, reduced to one by `function`, which takes two rows and returns one."""

    function: ReduceFunction

    def contents(self) -> WindowContents:
        """Return contents that keep one row."""
        return ReducedContents(self.function, self.input_schema, self.name)

    def _window_schema(self) -> pa.Schema:
        check_function(self.function, self.name, "a function of two rows (dicts)")
        row_type(self.input_schema, self.name)
        return self.input_schema


@dataclass(frozen=True, eq=False, repr=False)
class WindowProcess(_Window):
    """The results of `function` for the key, the `Window` and the list of its rows: rows of the schema `returns`."""

    function: WindowFunction
    returns: pa.Schema | None = None

    def contents(self) -> WindowContents:
        """Return contents that keep all rows."""
        return ListedContents(self.function, self.input_schema, self.output_schema, self.name)

    def _window_schema(self) -> pa.Schema:
        check_function(self.function, self.name, "a function of the key, the window and its rows (dicts)")
        row_type(self.input_schema, self.name)
        return self.input_schema if self.returns is None else self.returns
