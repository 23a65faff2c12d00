"""The operator of windows that do not merge: rows are added to the windows of their time, and watermarks fire them.

It also has the common parts of all windows: the settings (`WindowSpec`), late rows, the timers that fire and clear.

Follows Flink's `WindowOperator`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arguments.durations import settle_durations
from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol.notes import LateRowsDropped
from kit.stream.backend.keys.slot_index import FEW_ROWS, extended, lowest
from kit.stream.backend.picking import rows_at
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.states.tables import one_array
from kit.stream.operators.aggregates import FirstRows, as_tuple
from kit.stream.operators.base import Operator
from kit.stream.operators.event_time import TimeColumn, columns_of, time_aspect
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import ResolvedSpec, SchemaError, column_field, key_type_of, keys_of
from kit.stream.operators.watermarks import check_time_column, event_times_ms
from kit.stream.operators.windows.window_assigners import Times, WindowAssigner, assigner_aspect
from kit.stream.operators.windows.window_contents import WindowContents

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class WindowSpec(ResolvedSpec):
    """The settings of all window operators: see `WindowedStream`."""

    input_schema: pa.Schema
    keys: tuple[str, ...]
    assigner: WindowAssigner
    time_column: TimeColumn
    allowed_lateness_ms: int = field(default=0, kw_only=True)
    late_tag: OutputTag | None = field(default=None, kw_only=True)

    def state_aspects(self) -> Aspects:
        """Return the key, the kind of window, and the column of the time."""
        return {
            "key_by": list(self.keys),
            "window": assigner_aspect(self.assigner),
            "time": time_aspect(self.time_column),
        }

    def contents(self) -> WindowContents:
        """Return the contents that one subtask keeps of a window."""
        raise NotImplementedError

    def assigned(self, batch: pa.RecordBatch) -> tuple[Times, Times | None, Times]:
        """Return the event times of the rows, and the row number and id of each of their windows, as `assign` does."""
        times = event_times_ms(batch, self.time_column, self.name)
        return times, *self.assigner.assign(times)

    def _window_schema(self) -> pa.Schema:
        raise NotImplementedError

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys))
        key_type = key_type_of(self.input_schema, self.keys, self.name)
        check_time_column(self.input_schema, self.time_column, self.name)
        settle_durations(self, "allowed_lateness_ms")
        if self.allowed_lateness_ms < 0:
            raise ValueError(f"{self.name}: allowed_lateness_ms is {self.allowed_lateness_ms}, but must be 0 or more")
        if self.late_tag is not None and not self.late_tag.schema.equals(self.input_schema):
            raise SchemaError(f"{self.name}: {self.late_tag!r} takes late rows, so its columns must be the stream's")
        schema = self._window_schema()
        self._set(input_schemas=(self._taken_schema(),), output_schema=schema, key_type=key_type)

    def _taken_schema(self) -> pa.Schema:
        """Return the columns of the input, in which a first phase may have made other rows of those of the stream."""
        return self.input_schema


def bound_type(schema: pa.Schema, time_column: TimeColumn, operator: str) -> pa.DataType:
    """Return the type of a window's bounds: ms, with the time zone of the records' event time if that has one."""
    time = column_field(schema, columns_of(time_column)[0], operator).type
    return pa.timestamp("ms", time.tz) if pa.types.is_timestamp(time) else pa.int64()


class WindowOperatorBase(Operator):
    """The common base of merging and other windows: late rows, timers, firing."""

    def __init__(self, spec: WindowSpec) -> None:
        self._spec = spec
        self._contents = spec.contents()
        self._first_rows = FirstRows()

    def initialize_state(self) -> None:
        """Register the contents of the windows, and the timers that fire and clear them."""
        backend = self.context.keyed_state
        self._table = backend.table(self._contents.descriptor, pa.int64())
        self._timers = backend.timer_service("window-timers", pa.int64())

    def open(self) -> None:
        """Set timers that clear restored windows by the present lateness; most of them exist already."""
        if not self._spec.allowed_lateness_ms:
            return
        for keys, windows in self.context.keyed_state.keys(self._table):
            _, ends = self._bounds_in_ms(keys, windows.to_numpy())
            self._timers.event_time.register(keys, self._clears_at(ends - 1), windows)

    def windows(self) -> pa.Table:
        """Return the open windows: `key`, `start_ms`, `end_ms` and their contents (`value`)."""
        rows = self.context.keyed_state.all_rows(self._table)
        starts, ends = self._bounds_seen(one_array(rows["key"]), one_array(rows["namespace"]))
        columns = {"key": rows["key"], "start_ms": starts, "end_ms": ends, "value": rows["value"]}
        return pa.table(columns).combine_chunks()

    def _bounds_seen(self, keys: pa.Array, windows: pa.Array) -> tuple[Times, Times]:
        """Return what `_bounds_in_ms` returns, without a change of the state."""
        return self._bounds_in_ms(keys, windows.to_numpy())

    def _bounds_in_ms(self, keys: pa.Array, windows: Times) -> tuple[Times, Times]:
        assigner = self._spec.assigner
        return assigner.starts(windows), assigner.ends(windows)

    def _clears_at(self, last_ms: Times) -> Times:
        """Return the time at which windows that fire at `last_ms` are cleared."""
        lateness: int = self._spec.allowed_lateness_ms
        if not lateness:
            return last_ms
        return np.where(last_ms > MAX_WATERMARK_MS - lateness, MAX_WATERMARK_MS, last_ms + lateness)

    def _register(self, keys: pa.Array, last_ms: Times, windows: Times, known: Mask | None = None) -> Mask | None:
        """Set the timers that fire and clear windows. Return the overdue ones, which fire now, or None.

        `known` are those whose timers exist.
        """
        overdue: Mask | None = None
        if lowest(last_ms) <= self.context.current_watermark_ms:
            overdue = last_ms <= self.context.current_watermark_ms
        if known is not None:
            keys, last_ms, windows = where(~known, keys, last_ms, windows)
        if not len(windows):
            return overdue
        times = [last_ms, self._clears_at(last_ms)] if self._spec.allowed_lateness_ms else [last_ms]
        if overdue is None:
            self._timers.event_time.register_several(keys, times, windows)
            return None
        ahead = last_ms > self.context.current_watermark_ms
        self._timers.event_time.register(*where(ahead, keys, last_ms, windows))
        self._timers.event_time.register_several(keys, times[1:], windows)
        return overdue

    def _set_aside(self, batch: pa.RecordBatch, times: Times, late: npt.NDArray[np.bool_]) -> None:
        """Count late rows, or send them to the side output."""
        if self._spec.late_tag is not None:
            self.context.output.emit_to(self._spec.late_tag.name, batch.filter(pa.array(late)))
        else:
            self.context.count_late(LateRowsDropped, times[late], self.context.current_watermark_ms)

    def _fire(self, keys: pa.Array, windows: Times, starts: Times, ends: Times) -> None:
        if len(keys):
            slots = self._table.slots(keys, windows, create=False)
            self.context.output.emit(self._contents.results(keys, starts, ends, self._table.get(slots)))


class WindowOperator(WindowOperatorBase):
    """The operator that adds rows to the windows of their time, and fires due ones."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self._registered = np.zeros(0, np.bool_)
        """The slots whose window had its timers registered by this operator: looking each of them up again for every
        batch that has a row of the window was a third of what windows cost. None at first after a restore.
        """

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Add the rows to their windows."""
        spec = self._spec
        times, rows, windows = spec.assigned(batch)
        last_ms = spec.assigner.ends(windows) - 1
        if len(times) and lowest(times) + spec.allowed_lateness_ms <= self.context.current_watermark_ms:
            late = times <= self.context.current_watermark_ms - spec.allowed_lateness_ms
            # unless a window is still open for the row
            is_open = self._clears_at(last_ms) > self.context.current_watermark_ms
            rows = np.flatnonzero(is_open) if rows is None else rows[is_open]
            windows, last_ms = windows[is_open], last_ms[is_open]
            late[rows] = False
            self._set_aside(batch, times, late)
        if not len(windows):
            return
        if rows is not None:
            batch = rows_at(batch, rows)
        keys = keys_of(batch, spec.keys)
        slots = self._table.slots(keys, windows)
        known: Mask | None = None
        if len(slots) > FEW_ROWS or lowest(last_ms) <= self.context.current_watermark_ms:
            # Register all of a few rows: setting a timer again is harmless, and finding the first rows takes longer.
            first = self._first_rows.of(slots)
            keys, windows, last_ms = rows_at(keys, first), windows[first], last_ms[first]
            known = self._note_registered(slots[first])
        self._contents.add(self._table, slots, batch)
        overdue = self._register(keys, last_ms, windows, known)
        if overdue is not None:
            self._fire(*where(overdue, keys, windows, spec.assigner.starts(windows), last_ms + 1))

    def _note_registered(self, slots: npt.NDArray[np.int64]) -> Mask:
        """Return which windows, given by distinct slots, have timers, and note that all of them have now. A new window
        may have the slot of a removed one.
        """
        size = int(slots.max()) + 1
        if size > len(self._registered):
            self._registered = extended(self._registered, max(size, 2 * len(self._registered)))
        known = self._registered[slots] & self._table.is_entry(slots)
        self._registered[slots] = True
        return known

    def _process_due(self, keys: pa.Array, windows: Times, times_ms: Times) -> None:
        assigner = self._spec.assigner
        starts, ends = assigner.starts(windows), assigner.ends(windows)
        self._fire(*where(times_ms == ends - 1, keys, windows, starts, ends))
        keys, windows = where(times_ms >= self._clears_at(ends - 1), keys, windows)
        self._table.clear(self._table.slots(keys, windows, create=False))

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end at or before the watermark, clear overdue ones, then pass the watermark on."""
        due = self._timers.advance(timestamp_ms)
        if due.namespaces is not None and len(due.keys):
            for piece in self.context.keyed_state.pieces(len(due.keys)):
                self._process_due(due.keys[piece], due.namespaces[piece].to_numpy(), due.timestamps_ms[piece])
        self.context.output.emit_watermark(timestamp_ms)


def where(mask: Mask, keys: pa.Array, *columns: Times) -> Any:
    """Return some columns at the rows for which `mask` is True."""
    if mask.all():
        return keys, *columns
    return keys.filter(pa.array(mask)), *(column[mask] for column in columns)
