"""The window join: pairs of rows with the same key in the same window of event time.

The rows of each side are kept once, however many windows they are in. A timer at the last millisecond of each window
makes it fire: then all rows of both sides whose times are in it are paired. Rows are removed when their last window has
fired. A row whose windows have all fired is late: it is dropped and counted.

Pairs are emitted in the order of windows (by end, key group and key), then of left rows, then of right rows, both by
time. Follows Flink's `JoinedStreams`, an inner join; sessions cannot be joined here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kit.core.protocol.notes import LateRowsDropped
from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.timers import DueTimers
from kit.stream.operators.base import Operator
from kit.stream.operators.event_time import TimeColumn, time_aspect
from kit.stream.operators.functions.function_operator import FunctionInput, key_aspects
from kit.stream.operators.spec import ResolvedSpec
from kit.stream.operators.watermarks import event_times_ms
from kit.stream.operators.windows.join import PairColumns, key_type_of_both, slices
from kit.stream.operators.windows.key_time_index import expand
from kit.stream.operators.windows.row_buffer import RowBuffer
from kit.stream.operators.windows.window_assigners import Times, WindowAssigner, assigner_aspect
from kit.stream.operators.windows.window_operator import bound_type


@dataclass(frozen=True, eq=False, repr=False)
class WindowJoin(ResolvedSpec):
    """Pairs of rows of one window; both inputs have a key and event time."""

    left: FunctionInput
    right: FunctionInput
    assigner: WindowAssigner
    window_time: str | None = None
    """The name of an additional column: the last millisecond of the pair's window."""

    def _resolve(self) -> None:
        if self.assigner.merges:
            raise ValueError(
                f"{self.name}: sessions of two streams cannot be joined; take tumbling or sliding windows, or "
                "interval_join"
            )
        key_type = key_type_of_both(self.left, self.right, self.name)
        schemas = (self.left.schema, self.right.schema)
        self._set(input_schemas=schemas, output_schema=self.columns().schema, key_type=key_type)

    def state_aspects(self) -> Aspects:
        """Return the keys, the kind of window, and the columns of the times."""
        sides = (self.left, self.right)
        time = [time_aspect(side.timed) for side in sides]
        return {**key_aspects(sides), "window": assigner_aspect(self.assigner), "time": time}

    def event_time(self, inputs: Sequence[TimeColumn | None]) -> TimeColumn | None:
        """Return the column of the window's time, if there is one; pairs are emitted when their window is over."""
        return self.window_time

    def columns(self) -> PairColumns:
        """The columns of a pair."""
        added = []
        if self.window_time is not None:
            added = [pa.field(self.window_time, bound_type(self.left.schema, self.left.timed, self.name))]
        return PairColumns(self.left, self.right, self.name, added)

    def create(self) -> WindowJoinOperator:
        """Create one subtask's operator."""
        return WindowJoinOperator(self)


class WindowJoinOperator(Operator):
    """The operator that keeps the rows of both sides and pairs them when a window fires."""

    def __init__(self, spec: WindowJoin) -> None:
        self._spec = spec
        self._columns = spec.columns()
        self._inputs = (spec.left, spec.right)

    def initialize_state(self) -> None:
        """Register the rows of both sides, and the timers of the windows."""
        backend, name = self.context.keyed_state, self._spec.name
        self._timers = backend.timer_service("window-timers", pa.int64())
        self._left, self._right = self._buffers = (
            RowBuffer(backend, "left-rows", self._spec.left, name, self._kept_until),
            RowBuffer(backend, "right-rows", self._spec.right, name, self._kept_until),
        )

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Keep the rows of windows that will still fire."""
        given, assigner = self._inputs[input_index], self._spec.assigner
        times = event_times_ms(batch, given.timed, self._spec.name)
        rows, windows = assigner.assign(times)
        if rows is None:
            rows = np.arange(len(times))
        last_ms = assigner.ends(windows) - 1
        is_open = last_ms > self.context.current_watermark_ms
        rows, windows, last_ms = rows[is_open], windows[is_open], last_ms[is_open]
        keys = given.keys_of(batch, self.context.keyed_state.key_type)
        self._timers.event_time.register(keys.take(pa.array(rows)), last_ms, windows)
        kept = distinct(rows, len(times))
        without_window = np.delete(times, kept)
        late = without_window[without_window <= self.context.current_watermark_ms]
        self.context.count_late(LateRowsDropped, late, self.context.current_watermark_ms)
        self._buffers[input_index].add(batch.take(pa.array(kept)), times[kept])

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the windows that end at or before the watermark, remove their rows, then pass the watermark on."""
        due = self._timers.advance(timestamp_ms)
        if len(due.keys):
            self._fire(due)
        for buffer in self._buffers:
            buffer.expire(timestamp_ms)
        self.context.output.emit_watermark(timestamp_ms)

    def _fire(self, due: DueTimers) -> None:
        assert due.namespaces is not None
        starts = self._spec.assigner.starts(due.namespaces.to_numpy())
        first_right, end_right = self._right.between(due.keys, starts, due.timestamps_ms)
        windows, left = expand(*self._left.between(due.keys, starts, due.timestamps_ms))
        some, right = expand(first_right[windows], end_right[windows])
        for left_rows, right_rows, of in slices(left[some], right, windows[some]):
            added = [due.timestamps_ms[of]] * len(self._columns.added)
            self.context.output.emit(
                self._columns.pairs(self._left.rows(left_rows), self._right.rows(right_rows), added)
            )

    def _kept_until(self, times: Times) -> Times:
        """Return when the last window of each row fires."""
        rows, windows = self._spec.assigner.assign(times)
        last_ms = self._spec.assigner.ends(windows) - 1
        if rows is None:
            return last_ms
        until = times.copy()
        np.maximum.at(until, rows, last_ms)
        return until
