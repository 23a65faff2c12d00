"""Event-time windows: something kept for each key and window, which comes out when the watermark passes the end.

An assigner says which windows a row belongs to (`kit.operators.window_assigners`), the contents what is kept of the
rows (`kit.operators.window_contents`). The state of a window lies under its key with its start as namespace, and a
timer at its last millisecond makes it fire: one batch holds all windows that a watermark makes due, by end, key group
and key, so that two hosts emit the same.

A window is cleared `allowed_lateness_ms` after it fired. Until then a row that belongs to it makes it fire again, once
for each batch. A row whose windows have all been cleared is *late*: it goes to the side output for late rows, or is
dropped and counted. Sessions, whose windows merge, are in `kit.operators.session_window`.

Follows Flink's `WindowOperator` with `EventTimeTrigger`; Flink fires a late window anew for each row, not each batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.operators.aggregates import Aggregate, AggregateSet, FirstRows, as_tuple
from kit.operators.base import Operator
from kit.operators.side_output import OutputTag
from kit.operators.spec import ResolvedSpec, SchemaError, column_field, key_type_of, keys_of, unique_names
from kit.operators.watermarks import check_time_column, event_times_ms
from kit.operators.window_assigners import EventTimeSessionWindows, Times, WindowAssigner
from kit.operators.window_contents import (
    AggregatedContents,
    ListedContents,
    ReducedContents,
    ReduceFunction,
    WindowContents,
    WindowFunction,
)
from kit.protocol.elements import MAX_WATERMARK_MS

WINDOW_START = "window_start"
WINDOW_END = "window_end"


@dataclass(frozen=True, eq=False, repr=False)
class _WindowSpec(ResolvedSpec):
    """What all window operators are told: see the settings of `WindowedStream`."""

    input_schema: pa.Schema
    keys: tuple[str, ...]
    assigner: WindowAssigner | EventTimeSessionWindows
    time_column: str
    allowed_lateness_ms: int = field(default=0, kw_only=True)
    late_tag: OutputTag | None = field(default=None, kw_only=True)

    def contents(self) -> WindowContents:
        """What one subtask keeps of a window."""
        raise NotImplementedError

    def _window_schema(self) -> pa.Schema:
        raise NotImplementedError

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys))
        key_type = key_type_of(self.input_schema, self.keys, self.name)
        check_time_column(self.input_schema, self.time_column, self.name)
        if self.allowed_lateness_ms < 0:
            raise ValueError(f"{self.name}: allowed_lateness_ms is {self.allowed_lateness_ms}, but must be 0 or more")
        if self.late_tag is not None and not self.late_tag.schema.equals(self.input_schema):
            raise SchemaError(f"{self.name}: {self.late_tag!r} takes late rows, so its columns must be the stream's")
        schema = self._window_schema()
        self._set(input_schemas=(self.input_schema,), output_schema=schema, key_type=key_type)

    def create(self) -> Operator:
        """One subtask's operator."""
        if isinstance(self.assigner, EventTimeSessionWindows):
            from kit.operators.session_window import SessionWindowOperator

            return SessionWindowOperator(self)
        return WindowOperator(self)


@dataclass(frozen=True, eq=False, repr=False)
class WindowAggregate(_WindowSpec):
    """`aggregates` for each key and window of `time_column` (timestamp, or int64 ms).

    Emits keys, `window_start`, `window_end` (timestamps in ms where the time is a timestamp, else int64 ms) and
    aggregates.
    """

    aggregates: tuple[Aggregate, ...]

    def contents(self) -> WindowContents:
        """The aggregates' numbers."""
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        return AggregatedContents(totals, self.output_schema, len(self.keys))

    def _window_schema(self) -> pa.Schema:
        self._set(aggregates=as_tuple(self.aggregates))
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        time = column_field(self.input_schema, self.time_column, self.name).type
        bound = pa.timestamp("ms", time.tz) if pa.types.is_timestamp(time) else pa.int64()
        bounds = [pa.field(WINDOW_START, bound), pa.field(WINDOW_END, bound)]
        fields = [self.input_schema.field(key) for key in self.keys] + bounds + totals.fields
        unique_names((column.name for column in fields), self.name)
        return pa.schema(fields)


@dataclass(frozen=True, eq=False, repr=False)
class WindowReduce(_WindowSpec):
    """The rows of each key and window reduced to one by `function`, which takes two rows and gives one."""

    function: ReduceFunction

    def contents(self) -> WindowContents:
        """One row."""
        return ReducedContents(self.function, self.input_schema, self.name)

    def _window_schema(self) -> pa.Schema:
        return self.input_schema


@dataclass(frozen=True, eq=False, repr=False)
class WindowProcess(_WindowSpec):
    """What `function` makes of the key, the `Window` and the list of its rows: rows of the schema `returns`."""

    function: WindowFunction
    returns: pa.Schema | None = None

    def contents(self) -> WindowContents:
        """All rows."""
        return ListedContents(self.function, self.input_schema, self.output_schema, self.name)

    def _window_schema(self) -> pa.Schema:
        return self.input_schema if self.returns is None else self.returns


class WindowOperatorBase(Operator):
    """What windows that merge and those that do not have in common: late rows, timers, firing.

    `late_rows_dropped` counts what came too late, where there is no side output for it (`numLateRecordsDropped`).
    """

    def __init__(self, spec: _WindowSpec) -> None:
        self._spec = spec
        self._contents = spec.contents()
        self._first_rows = FirstRows()
        self.late_rows_dropped = 0

    def initialize_state(self) -> None:
        """Register the contents of the windows, and the timers that fire and clear them."""
        backend = self.context.keyed_state
        self._table = backend.table(self._contents.descriptor, pa.int64())
        self._timers = backend.timer_service("window-timers", pa.int64())

    def _clears_at(self, last_ms: Times) -> Times:
        """When windows are cleared that fire at `last_ms`."""
        lateness: int = self._spec.allowed_lateness_ms
        if not lateness:
            return last_ms
        return np.where(last_ms > MAX_WATERMARK_MS - lateness, MAX_WATERMARK_MS, last_ms + lateness)

    def _register(self, keys: pa.Array, last_ms: Times, windows: Times) -> npt.NDArray[np.bool_]:
        """Let windows fire and be cleared in time; which of them are overdue, and fire right now."""
        overdue: npt.NDArray[np.bool_] = last_ms <= self.context.current_watermark_ms
        if overdue.any():
            chosen = np.flatnonzero(~overdue)
            self._timers.register_event_time(keys.take(pa.array(chosen)), last_ms[chosen], windows[chosen])
        else:
            self._timers.register_event_time(keys, last_ms, windows)
        if self._spec.allowed_lateness_ms:
            self._timers.register_event_time(keys, self._clears_at(last_ms), windows)
        return overdue

    def _set_aside(self, batch: pa.RecordBatch, late: npt.NDArray[np.bool_]) -> None:
        """Rows that came too late, if any."""
        if self._spec.late_tag is not None:
            self.context.output.emit_to(self._spec.late_tag.name, batch.filter(pa.array(late)))
        else:
            self.late_rows_dropped += int(late.sum())

    def _fire(self, keys: pa.Array, windows: Times, starts: Times, ends: Times) -> None:
        if len(keys):
            slots = self._table.slots(keys, windows, create=False)
            self.context.output.emit(self._contents.results(keys, starts, ends, self._table.get(slots)))


class WindowOperator(WindowOperatorBase):
    """Takes rows into the windows of their time, and fires those that are due."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Take the rows into their windows."""
        spec = self._spec
        assigner: Any = spec.assigner
        times = event_times_ms(batch, spec.time_column, spec.name)
        rows, starts = assigner.assign(times)
        last_ms = assigner.ends(starts) - 1
        late = times + spec.allowed_lateness_ms <= self.context.current_watermark_ms
        if late.any():  # unless a window is still open for the row
            is_open = self._clears_at(last_ms) > self.context.current_watermark_ms
            rows = np.flatnonzero(is_open) if rows is None else rows[is_open]
            starts, last_ms = starts[is_open], last_ms[is_open]
            late[rows] = False
            self._set_aside(batch, late)
        if not len(starts):
            return
        if rows is not None:
            batch = batch.take(pa.array(rows))
        keys = keys_of(batch, spec.keys)
        slots = self._table.slots(keys, starts)
        self._contents.add(self._table, slots, batch)
        first = self._first_rows.of(slots)
        keys, starts, last_ms = keys.take(pa.array(first)), starts[first], last_ms[first]
        overdue = self._register(keys, last_ms, starts)
        if overdue.any():
            keys, starts = keys.filter(pa.array(overdue)), starts[overdue]
            self._fire(keys, starts, starts, assigner.ends(starts))

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end before the watermark or with it, clear what is overdue, then hand it on."""
        due = self._timers.advance(timestamp_ms)
        if due.namespaces is not None and len(due.keys):
            keys, starts = due.keys, due.namespaces.to_numpy()
            ends = self._spec.assigner.ends(starts)  # type: ignore[union-attr]
            fires = due.timestamps_ms == ends - 1
            self._fire(*where(fires, keys, starts, starts, ends))
            keys, starts = where(due.timestamps_ms == self._clears_at(ends - 1), keys, starts)
            self._table.clear(self._table.slots(keys, starts, create=False))
        self.context.output.emit_watermark(timestamp_ms)


def where(mask: npt.NDArray[np.bool_], keys: pa.Array, *columns: Times) -> Any:
    """Some columns, at the rows for which `mask` holds."""
    if mask.all():
        return keys, *columns
    return keys.filter(pa.array(mask)), *(column[mask] for column in columns)
