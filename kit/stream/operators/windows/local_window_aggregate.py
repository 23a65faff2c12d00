"""The first of two phases of an aggregation by window: only totals by key and window cross the exchange.

Partial totals are sent before the watermark that makes one of their windows fire, so none is ever late. A row behind
the watermark is sent by itself, with its time, because the window behind the exchange decides if it is late.

Follows Flink SQL's `LocalSlicingWindowAggOperator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kit.core.event_time import MAX_WATERMARK_MS
from kit.stream.backend.picking import rows_at
from kit.stream.operators.aggregates import Aggregate, AggregateSet, as_tuple
from kit.stream.operators.event_time import TimeColumn
from kit.stream.operators.local_aggregate import MOST_PARTIALS, LocalOperator, PartialTotals
from kit.stream.operators.spec import ResolvedSpec, key_type_of
from kit.stream.operators.watermarks import check_time_column, event_times_ms
from kit.stream.operators.windows.window_assigners import Times, WindowAssigner

WINDOW, TIME = "(window)", "(time)"
"""The columns of partial totals for their window, or for the event time of a row that was sent by itself, in ms."""


def partial_schema(schema: pa.Schema, keys: Sequence[str], aggregates: Sequence[Aggregate], operator: str) -> pa.Schema:
    """Return the columns of partial totals: key, window or time, and the numbers that the aggregates keep."""
    before = [*map(schema.field, keys), pa.field(WINDOW, pa.int64()), pa.field(TIME, pa.int64())]
    return AggregateSet(aggregates, schema, operator).partial_schema(before)


def assigned_partials(batch: pa.RecordBatch, assigner: WindowAssigner) -> tuple[Times, Times | None, Times]:
    """Return the event times of partial totals, and the row number and id of each of their windows.

    Totals of several rows have their window, and the end of event time, since they are not late.
    """
    windows, times = batch.column(WINDOW), batch.column(TIME)
    if not windows.null_count:
        return np.full(len(windows), MAX_WATERMARK_MS), None, windows.to_numpy()
    alone = np.flatnonzero(windows.is_null().to_numpy(zero_copy_only=False))
    together = np.flatnonzero(windows.is_valid().to_numpy(zero_copy_only=False))
    rows, windows_alone = assigner.assign(times.drop_null().to_numpy())
    alone_rows = alone if rows is None else alone[rows]
    return (
        times.fill_null(MAX_WATERMARK_MS).to_numpy(),
        np.concatenate((together, alone_rows)),
        np.concatenate((windows.drop_null().to_numpy(), windows_alone)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class LocalWindowAggregate(ResolvedSpec):
    """Partial totals of `aggregates` for each key and window of `time_column`."""

    input_schema: pa.Schema
    keys: tuple[str, ...]
    assigner: WindowAssigner
    time_column: TimeColumn
    aggregates: tuple[Aggregate, ...]

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys), aggregates=as_tuple(self.aggregates))
        key_type_of(self.input_schema, self.keys, self.name)
        check_time_column(self.input_schema, self.time_column, self.name)
        schema = partial_schema(self.input_schema, self.keys, self.aggregates, self.name)
        self._set(input_schemas=(self.input_schema,), output_schema=schema)

    def create(self) -> LocalWindowAggregateOperator:
        """Create one subtask's operator."""
        return LocalWindowAggregateOperator(self)


class LocalWindowAggregateOperator(LocalOperator):
    """The operator that keeps partial totals of windows, and sends them before a watermark that fires one of these."""

    def __init__(self, spec: LocalWindowAggregate) -> None:
        self._spec = spec
        self._partials = PartialTotals(spec, pa.int64())
        self._first_end_ms = MAX_WATERMARK_MS
        """The end of the window that fires first."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Fold the rows in, except for those behind the watermark, which are sent."""
        spec = self._spec
        times = event_times_ms(batch, spec.time_column, spec.name)
        behind = times <= self.context.current_watermark_ms
        if behind.any():
            self._send_alone(batch.filter(pa.array(behind)), times[behind])
            batch, times = batch.filter(pa.array(~behind)), times[~behind]
        rows, windows = spec.assigner.assign(times)
        if not len(windows):
            return
        self._first_end_ms = min(self._first_end_ms, int(spec.assigner.ends(windows).min()))
        self._partials.add(batch if rows is None else rows_at(batch, rows), windows)
        if len(self._partials) >= MOST_PARTIALS:
            self.send()

    def process_watermark(self, timestamp_ms: int) -> None:
        """Send the partial totals if the watermark makes a window fire, then the watermark."""
        if self._first_end_ms - 1 <= timestamp_ms:
            self.send()
        self.context.output.emit_watermark(timestamp_ms)

    def send(self) -> None:
        """Send the partial totals."""
        self._first_end_ms = MAX_WATERMARK_MS
        if len(self._partials):
            keys, windows, partials = self._partials.take()
            self._emit(keys, windows, pa.nulls(len(keys[0]), pa.int64()), partials)

    def _send_alone(self, batch: pa.RecordBatch, times: Times) -> None:
        """Send each row as totals of itself, with its time instead of a window."""
        alone = PartialTotals(self._spec, pa.int64())
        alone.add(batch, np.arange(batch.num_rows))
        keys, _, partials = alone.take()
        self._emit(keys, pa.nulls(len(times), pa.int64()), pa.array(times), partials)

    def _emit(self, keys: list[pa.Array], windows: pa.Array | None, times: pa.Array, partials: list[pa.Array]) -> None:
        columns = [*keys, windows, times, *partials]
        self.context.output.emit(pa.RecordBatch.from_arrays(columns, schema=self._spec.output_schema))
