"""Event-time windows: aggregates per key and window, emitted when the watermark passes the window's end.

An assigner says which windows a row belongs to; the state of a window is kept under its key with its start as
namespace, and a timer at its last millisecond makes it fire: one batch holds all windows that a watermark makes due,
by end, key group and key, so that two hosts emit the same. Their state is cleared then. A row whose windows have all
fired already is *late*: it is dropped and counted.

Follows Flink's `WindowOperator` with `EventTimeTrigger`, `TumblingEventTimeWindows` and no allowed lateness.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.operators.aggregates import Aggregate, AggregateSet, FirstRows, as_tuple
from kit.operators.base import Operator
from kit.operators.spec import ResolvedSpec, column_field, key_columns, key_type_of, keys_of, unique_names
from kit.operators.watermarks import check_time_column, event_times_ms

Times = npt.NDArray[np.int64]

WINDOW_START = "window_start"
WINDOW_END = "window_end"


class WindowAssigner(Protocol):
    """Which windows rows belong to."""

    def assign(self, times_ms: Times) -> tuple[Times | None, Times]:
        """The windows of rows with these event times: a row number (None: each row has one, in order) and a start for
        each.
        """

    def ends(self, starts_ms: Times) -> Times:
        """The end of each window, excluded, in ms."""


@dataclass(frozen=True, slots=True)
class TumblingEventTimeWindows:
    """Windows of `size_ms` side by side, aligned to 1970 plus `offset_ms`. Follows `TumblingEventTimeWindows`."""

    size_ms: int
    offset_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms < 1 or abs(self.offset_ms) >= self.size_ms:
            raise ValueError(f"{self!r}: size_ms must be 1 or more, and offset_ms smaller than it")

    def assign(self, times_ms: Times) -> tuple[None, Times]:
        """Each row's one window."""
        return None, (times_ms - self.offset_ms) // self.size_ms * self.size_ms + self.offset_ms

    def ends(self, starts_ms: Times) -> Times:
        """The starts of the windows after these."""
        return starts_ms + self.size_ms


@dataclass(frozen=True, eq=False, repr=False)
class WindowAggregate(ResolvedSpec):
    """`aggregates` for each key and window of `time_column` (timestamp, or int64 ms).

    Emits keys, `window_start`, `window_end` (timestamps in ms where the time is a timestamp, else int64 ms) and
    aggregates.
    """

    input_schema: pa.Schema
    keys: tuple[str, ...]
    assigner: WindowAssigner
    aggregates: tuple[Aggregate, ...]
    time_column: str

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys), aggregates=as_tuple(self.aggregates))
        schema, name = self.input_schema, self.name
        key_type = key_type_of(schema, self.keys, name)
        check_time_column(schema, self.time_column, name)
        totals = AggregateSet(self.aggregates, schema, name)
        time = column_field(schema, self.time_column, name).type
        bound = pa.timestamp("ms", time.tz) if pa.types.is_timestamp(time) else pa.int64()
        bounds = [pa.field(WINDOW_START, bound), pa.field(WINDOW_END, bound)]
        fields = [schema.field(key) for key in self.keys] + bounds + totals.fields
        unique_names((field.name for field in fields), name)
        self._set(input_schemas=(schema,), output_schema=pa.schema(fields), key_type=key_type)

    def create(self) -> WindowAggregateOperator:
        """One subtask's operator."""
        return WindowAggregateOperator(self)


class WindowAggregateOperator(Operator):
    """Folds rows into windows and fires those that are due. `late_rows_dropped` counts what came too late."""

    def __init__(self, spec: WindowAggregate) -> None:
        self._spec = spec
        self._totals = AggregateSet(spec.aggregates, spec.input_schema, spec.name)
        self._first_rows = FirstRows()
        self.late_rows_dropped = 0

    def initialize_state(self) -> None:
        """Register the contents of the windows, and the timers that fire them."""
        backend = self.context.keyed_state
        self._table = backend.table(self._totals.descriptor("window-contents"), pa.int64())
        self._timers = backend.timer_service("window-timers", pa.int64())

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Fold the rows into their windows."""
        spec = self._spec
        rows, starts = spec.assigner.assign(event_times_ms(batch, spec.time_column, spec.name))
        if rows is not None:
            batch = batch.take(pa.array(rows))
        last_ms = spec.assigner.ends(starts) - 1
        late = last_ms <= self.context.current_watermark_ms
        if late.any():
            self.late_rows_dropped += int(late.sum())
            batch, starts, last_ms = batch.filter(pa.array(~late)), starts[~late], last_ms[~late]
        if batch.num_rows == 0:
            return
        keys = keys_of(batch, spec.keys)
        slots = self._table.slots(keys, starts)
        self._table.reduce(slots, *self._totals.inputs(batch))
        first = self._first_rows.of(slots)
        self._timers.register_event_time(keys.take(pa.array(first)), last_ms[first], starts[first])

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end before the watermark or with it, then hand it on."""
        due = self._timers.advance(timestamp_ms)
        if due.namespaces is not None and len(due.keys):
            keys, starts = due.keys, due.namespaces.to_numpy()
            slots = self._table.slots(keys, starts, create=False)
            self._emit(keys, starts, self._table.get(slots))
            self._table.clear(slots)
        self.context.output.emit_watermark(timestamp_ms)

    def _emit(self, keys: pa.Array, starts: Times, state: pa.StructArray) -> None:
        schema: pa.Schema = self._spec.output_schema
        bound = schema.field(WINDOW_START).type
        bounds = [pa.array(times).view(bound) for times in (starts, self._spec.assigner.ends(starts))]
        columns = key_columns(keys, len(self._spec.keys)) + bounds + self._totals.results(state)
        self.context.output.emit(pa.RecordBatch.from_arrays(columns, schema=schema))
