"""A function per row with state and timers of the row's key: whatever the other operators cannot say.

Write a class derived from `KeyedProcessFunction`. For each row the context gives the states and timers of that row's
key; a timer calls `on_timer` with the key it was set for. Rows are handled one by one, in order: this is for lessons
and for odd cases, not for speed.

Follows Flink's `KeyedProcessFunction` and `KeyedProcessOperator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.operators.aggregates import as_tuple
from kit.operators.base import Operator
from kit.operators.spec import ResolvedSpec, UserFunctionError, key_type_of, keys_of
from kit.operators.transform import Row, rows_to_batch
from kit.operators.watermarks import check_time_column, event_times_ms
from kit.state.descriptors import StateDescriptor, StateKind
from kit.state.keyed_states import KeyedState
from kit.state.timers import DueTimers


class KeyedProcessFunction:
    """What a user writes: all hooks but `process_element` may be left out."""

    def open(self, ctx: ProcessContext) -> None:
        """Called once before the first row."""

    def process_element(self, row: Row, ctx: ProcessContext) -> None:
        """Called for each row, a dict; `ctx.emit(...)` what comes of it."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_element(row, ctx)")

    def on_timer(self, timestamp_ms: int, ctx: ProcessContext) -> None:
        """Called when a timer fires, for the key it was registered for."""


class TimerServiceView:
    """Timers of the current key (`TimerService`): registering one twice is registering it once."""

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._operator = operator

    @property
    def current_processing_time_ms(self) -> int:
        """The host's time, in ms."""
        return self._operator.context.processing_time_ms

    @property
    def current_watermark_ms(self) -> int:
        """Event time as it is known to have passed, in ms."""
        return self._operator.context.current_watermark_ms

    def register_event_time_timer(self, timestamp_ms: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp_ms`."""
        self._operator.timers.register_event_time_timer(timestamp_ms)

    def register_processing_time_timer(self, timestamp_ms: int) -> None:
        """Call `on_timer` when the host's time reaches `timestamp_ms`."""
        self._operator.timers.register_processing_time_timer(timestamp_ms)

    def delete_event_time_timer(self, timestamp_ms: int) -> None:
        """Forget an event-time timer."""
        self._operator.timers.delete_event_time_timer(timestamp_ms)

    def delete_processing_time_timer(self, timestamp_ms: int) -> None:
        """Forget a processing-time timer."""
        self._operator.timers.delete_processing_time_timer(timestamp_ms)


class ProcessContext:
    """What a function sees of the operator.

    `current_key` is the key of the row or timer (a dict when the key has several columns), `timestamp_ms` its event
    time (None for a row without one), `timer_service` the timers of that key.
    """

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._operator = operator
        self.timer_service = TimerServiceView(operator)
        self.current_key: Any = None
        self.timestamp_ms: int | None = None

    def state(self, descriptor: StateDescriptor) -> KeyedState:
        """The state of this name for the current key, of the kind that the descriptor says."""
        return self._operator.state(descriptor)

    def emit(self, row: Row) -> None:
        """Hand a row on."""
        self._operator.collect(row)


@dataclass(frozen=True, eq=False, repr=False)
class KeyedProcess(ResolvedSpec):
    """`function` is the class (or what else makes one `KeyedProcessFunction` a subtask); its rows have the schema
    `returns`.

    `time_column`, when given, is where a row's `ctx.timestamp_ms` comes from.
    """

    input_schema: pa.Schema
    keys: tuple[str, ...]
    function: Callable[[], KeyedProcessFunction]
    returns: pa.Schema
    time_column: str | None = None

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys))
        if not callable(self.function):
            raise TypeError(f"{self.name}: give the class {type(self.function).__name__} itself, not an object of it")
        if self.time_column is not None:
            check_time_column(self.input_schema, self.time_column, self.name)
        key_type = key_type_of(self.input_schema, self.keys, self.name)
        self._set(input_schemas=(self.input_schema,), output_schema=self.returns, key_type=key_type)

    def create(self) -> KeyedProcessOperator:
        """One subtask's operator."""
        return KeyedProcessOperator(self)


class KeyedProcessOperator(Operator):
    """Calls the function for rows and timers; what it emits leaves as one batch for each batch or watermark."""

    def __init__(self, spec: KeyedProcess) -> None:
        self._spec = spec
        self._function = spec.function()
        self._rows: list[Row] = []
        self._given: list[Row] = []
        self._at: Row = {}

    def initialize_state(self) -> None:
        """Register the timers."""
        self.timers = self.context.keyed_state.timer_service("user-timers")

    def open(self) -> None:
        """Let the function prepare."""
        self._context = ProcessContext(self)
        self._call("no row yet", self._function.open, self._context)

    def state(self, descriptor: StateDescriptor) -> KeyedState:
        """The state of the current key."""
        backend = self.context.keyed_state
        of_kind: dict[StateKind, Callable[[Any], KeyedState]] = {
            StateKind.VALUE: backend.value_state,
            StateKind.LIST: backend.list_state,
            StateKind.MAP: backend.map_state,
            StateKind.REDUCING: backend.reducing_state,
            StateKind.AGGREGATING: backend.aggregating_state,
        }
        return of_kind[descriptor.kind](descriptor)

    def collect(self, row: Row) -> None:
        """Keep a row to be emitted."""
        self._rows.append(row)
        self._given.append(self._at)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Call the function for each row, then emit what it made."""
        column = self._spec.time_column
        times = [None] * batch.num_rows
        if column is not None:
            times = event_times_ms(batch, column, self._spec.name).tolist()
        keys = keys_of(batch, self._spec.keys).to_pylist()
        for row, key, time in zip(batch.to_pylist(), keys, times, strict=True):
            self._at = row
            self._turn_to(key, time)
            self._call(f"row {row}", self._function.process_element, row, self._context)
        self._emit()

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers that are due, then hand the watermark on."""
        self._fire(lambda: self.timers.advance(timestamp_ms))
        self.context.output.emit_watermark(timestamp_ms)

    def on_processing_time(self, now_ms: int) -> None:
        """Fire the processing-time timers that are due."""
        self._fire(lambda: self.timers.advance_processing_time(now_ms))

    def next_processing_time_ms(self) -> int | None:
        """When the next processing-time timer is due."""
        return self.timers.next_processing_time_ms()

    def _fire(self, due: Callable[[], DueTimers]) -> None:
        """Call `on_timer` until nothing is due: a timer that fires may register another that is."""
        while len((timers := due()).timestamps_ms):
            for timestamp_ms, key in zip(timers.timestamps_ms.tolist(), timers.keys.to_pylist(), strict=True):
                self._at = {"timer": timestamp_ms, "key": key}
                self._turn_to(key, timestamp_ms)
                at = f"the timer at {timestamp_ms} of key {key!r}"
                self._call(at, self._function.on_timer, timestamp_ms, self._context)
        self._emit()

    def _turn_to(self, key: Any, timestamp_ms: int | None) -> None:
        self.context.keyed_state.set_current_key(key)
        self._context.current_key = key
        self._context.timestamp_ms = timestamp_ms

    def _call(self, at: str, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            raise UserFunctionError.of(self._spec.name, function, at, error) from error

    def _emit(self) -> None:
        if self._rows:
            rows, given, self._rows, self._given = self._rows, self._given, [], []
            function = self._function.process_element
            self.context.output.emit(rows_to_batch(rows, self._spec.returns, self._spec.name, function, given))
