"""Operators that call a user-defined function row by row: the contexts of functions of all kinds, and their calls.

A function is an object of the user's class, one per subtask. For each input it has a hook (`process_element`, ...) and
a context. The context lets it emit rows, also to side outputs, and on a keyed input use state and timers of the row's
key. The output for one batch or watermark leaves as one batch. Rows are processed one by one, in order. Work that is
common to all rows of a batch is done once, before or after: rows become dicts, keys are looked up
(`kit.stream.backend.keys.key_run`), and emitted rows become columns.

Follows Flink's `ProcessOperator`, `KeyedProcessOperator` and `KeyedCoProcessOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from kit.core.arguments.signposts import CONTEXT, no_attribute
from kit.stream.backend.states.descriptors import StateDescriptor
from kit.stream.backend.states.keyed_states import KeyedState
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.timers import DueTimers, TimerService, time_of_timer
from kit.stream.backend.types.arrow_types import as_type
from kit.stream.backend.types.exact_values import ONE_HAS_A_ZONE, same_clock
from kit.stream.operators.base import Operator
from kit.stream.operators.checkpoint_listener import CheckpointListener
from kit.stream.operators.event_time import TimeColumn, columns_of
from kit.stream.operators.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from kit.stream.operators.functions.returned import ROWS, Returned, never_runs
from kit.stream.operators.metrics import MetricGroup
from kit.stream.operators.rows import Row, RowMaker, joined, pieces, rows_of
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import SchemaError, UserFunctionError, column_field, key_type_of
from kit.stream.operators.watermarks import check_time_column, event_times_ms


@dataclass(frozen=True, slots=True)
class FunctionInput:
    """One input of a function: its columns, its key (none if it is not keyed), and the column of its event time."""

    schema: pa.Schema
    keys: tuple[str, ...] = ()
    time_column: TimeColumn | None = None

    def key_type(self, operator: str) -> pa.DataType | None:
        """Return the type of its key, None if it is not keyed. Raises SchemaError for columns that do not exist."""
        if self.time_column is not None:
            check_time_column(self.schema, self.time_column, operator)
        return key_type_of(self.schema, self.keys, operator) if self.keys else None

    @property
    def timed(self) -> TimeColumn:
        """The column of its event time, for an operator that needs one."""
        if self.time_column is None:
            raise SchemaError(f"an input with {', '.join(self.schema.names)} has no event time: name its column")
        return self.time_column

    def keys_of(self, batch: pa.RecordBatch, key_type: pa.DataType) -> pa.Array:
        """Return the keys of the rows. A key of several columns has the names of the first input."""
        if len(self.keys) == 1:
            return as_type(batch.column(self.keys[0]), key_type)
        fields = list(key_type)
        columns = [as_type(batch.column(key), field.type) for key, field in zip(self.keys, fields, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=fields)


def check_one_clock(first: FunctionInput, second: FunctionInput, operator: str) -> None:
    """Raise SchemaError for two inputs with event times that cannot be compared."""
    named = [columns_of(each.time_column)[0] for each in (first, second) if each.time_column is not None]
    if len(named) < 2:
        return
    types = [column_field(each.schema, name, operator).type for each, name in zip((first, second), named, strict=True)]
    if not same_clock(*types):
        raise SchemaError(
            f"{operator}: event time of the first stream is column {named[0]!r} ({types[0]}), and "
            f"{named[1]!r} of the second ({types[1]}) {ONE_HAS_A_ZONE}"
        )


def key_aspects(inputs: Iterable[FunctionInput]) -> Aspects:
    """Return the key columns, of two keyed inputs those of each."""
    keys = [list(given.keys) for given in inputs if given.keys]
    return {"key_by": keys[0] if len(keys) == 1 else keys} if keys else {}


class TimeView:
    """A function's view of time, and its metrics."""

    _operator: FunctionOperator

    if not TYPE_CHECKING:  # else mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, CONTEXT)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._operator._name!r})"

    @property
    def metrics(self) -> MetricGroup:
        """The counters, gauges, meters and histograms of this subtask (`kit.stream.operators.metrics`)."""
        return self._operator.context.metrics

    @property
    def current_watermark_ms(self) -> int:
        """The current event time, in ms."""
        return self._operator.context.current_watermark_ms

    @property
    def current_processing_time_ms(self) -> int:
        """The host's time, in ms."""
        return self._operator.context.processing_time_ms


class ProcessFunctionContext(TimeView):
    """A function's view of the operator.

    `timestamp_ms` is the row's event time (None for a row without one).
    """

    def __init__(self, operator: FunctionOperator) -> None:
        self._operator = operator
        self.timestamp_ms: int | None = None

    def emit(self, row: Row) -> None:
        """Emit a row."""
        operator = self._operator
        operator.made.append(row)
        operator.made_of.append(operator.at)

    def output(self, tag: OutputTag, row: Row) -> None:
        """Emit a row to a side output: `side_output(tag)` of the stream."""
        self._operator.set_aside(tag, row)


class TimerServiceView(TimeView):
    """Timers of the current key (`TimerService`); registering one twice has no further effect.

    A timer's time is in whole ms since 1970; anything else raises StateTypeError.
    """

    _operator: KeyedFunctionOperator

    def __init__(self, operator: KeyedFunctionOperator) -> None:
        self._operator = operator

    def __call__(self) -> TimerServiceView:
        """Return the timers themselves: PyFlink's `ctx.timer_service()`."""
        return self

    def register_event_time_timer(self, timestamp_ms: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp_ms`."""
        self._operator.timers.event_time.register_one(time_of_timer(timestamp_ms))

    def register_processing_time_timer(self, timestamp_ms: int) -> None:
        """Call `on_timer` when the host's time reaches `timestamp_ms`."""
        self._operator.timers.processing_time.register_one(time_of_timer(timestamp_ms))

    def delete_event_time_timer(self, timestamp_ms: int) -> None:
        """Delete an event-time timer."""
        self._operator.timers.event_time.delete_one(time_of_timer(timestamp_ms))

    def delete_processing_time_timer(self, timestamp_ms: int) -> None:
        """Delete a processing-time timer."""
        self._operator.timers.processing_time.delete_one(time_of_timer(timestamp_ms))


class KeyedProcessFunctionContext(ProcessFunctionContext):
    """A function's view of a keyed input.

    `timestamp_ms` is the event time of the row or timer (None for a row without one), `timer_service` the timers of its
    key.
    """

    # Views of user-defined state by its address; the tables are included.
    without_effect: ClassVar = frozenset({"_states"})

    _operator: KeyedFunctionOperator

    def __init__(self, operator: KeyedFunctionOperator) -> None:
        super().__init__(operator)
        self.timer_service = TimerServiceView(operator)
        self._states: dict[int, KeyedState] = {}
        self._descriptors: list[StateDescriptor] = []  # kept, so that their ids are not reused

    @property
    def current_key(self) -> Any:
        """The key of the row or timer: a dict if it has several columns."""
        return self._operator.context.keyed_state.current_key

    def state(self, descriptor: StateDescriptor) -> KeyedState:
        """Return the state of this name for the current key, of the descriptor's kind."""
        state = self._states.get(id(descriptor))
        if state is None:
            state = self._states[id(descriptor)] = self._operator.state(descriptor)
            self._descriptors.append(descriptor)
        return state


class FunctionOperator(Operator):
    """The operator that calls `hooks[i]` of the function for rows of input `i`, with the i-th context."""

    def __init__(
        self, name: str, function: Any, returns: pa.Schema, inputs: Sequence[FunctionInput], hooks: Sequence[str]
    ) -> None:
        self._name = name
        self._returns = returns
        self._inputs = tuple(inputs)
        self._hooks = tuple(hooks)
        self.at: Row = {}
        """The row that the function was called with."""
        self.made: list[Row] = []
        self.made_of: list[Row] = []
        """The rows to emit, and the row from which each was made."""
        self._columns: list[pa.RecordBatch] = []
        """Earlier output for rows of the same batch."""
        self._aside: dict[OutputTag, tuple[list[Row], list[Row]]] = {}
        self.function = function

    @property
    def checkpoint_listener(self) -> CheckpointListener | None:
        """The function, if it is a listener."""
        return self.function if isinstance(self.function, CheckpointListener) else None

    def create_contexts(self) -> list[Any]:
        """Return the function's context for each input; `open` gets the first."""
        return [ProcessFunctionContext(self) for _ in self._inputs]

    def initialize_state(self) -> None:
        """Let a function with operator state of its own restore it."""
        if isinstance(self.function, CheckpointedFunction):
            given = FunctionInitializationContext(self.context)
            self.call("no row yet", self.function.initialize_state, given)

    def snapshot_state(self, checkpoint_id: int) -> None:
        """Let a function with operator state of its own write it."""
        if isinstance(self.function, CheckpointedFunction):
            taken = FunctionSnapshotContext(checkpoint_id, self.context)
            self.call(f"checkpoint {checkpoint_id}", self.function.snapshot_state, taken)

    def open(self) -> None:
        """Let the function prepare."""
        self._contexts = self.create_contexts()
        self.call("no row yet", self.function.open, self._contexts[0])

    def set_aside(self, tag: OutputTag, row: Row) -> None:
        """Keep a row for a side output."""
        rows, given = self._aside.setdefault(tag, ([], []))
        rows.append(row)
        given.append(self.at)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Call the hook for each row, then emit the results."""
        given, context = self._inputs[input_index], self._contexts[input_index]
        hook = getattr(self.function, self._hooks[input_index])
        times: Iterator[int | None] = repeat(None)
        if given.time_column is not None:
            times = iter(event_times_ms(batch, given.time_column, self._name).tolist())
        turns: Iterator[None] = repeat(None)
        if given.keys:
            keyed_state = self.context.keyed_state
            turns = keyed_state.in_turn(given.keys_of(batch, keyed_state.key_type))
        for piece in pieces(batch):
            for self.at, _, context.timestamp_ms in zip(rows_of(piece), turns, times):  # the rows end first
                try:
                    made = hook(self.at, context)
                    if made is not None:
                        ROWS.emit(made, context)
                except Exception as error:
                    raise UserFunctionError.of(self._name, hook, f"row {self.at}", error) from error
            self._set_made_down()
        if given.keys:
            next(turns, None)  # ends the run, in which states and timers apply what was written
        self.emit_collected()

    def _set_made_down(self) -> None:
        """Turn the rows that the function has emitted so far into columns."""
        if self.made:
            rows, given = self.made, self.made_of
            self.made, self.made_of = [], []
            hook = getattr(self.function, self._hooks[0])
            self._columns.append(RowMaker(self._name, hook).batch(rows, self._returns, given))

    def call(self, at: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a user's function; errors name it and what it was called with."""
        try:
            if never_runs(function(*arguments)):
                raise TypeError("it runs nothing, since it yields or is async: only functions of rows and timers yield")
        except Exception as error:
            raise UserFunctionError.of(self._name, function, at, error) from error

    def call_and_emit(self, at: str, emitting: Returned, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function, and emit what it returned; the last of `arguments` is its context."""
        try:
            made = function(*arguments)
            if made is not None:
                emitting.emit(made, arguments[-1])
        except Exception as error:
            raise UserFunctionError.of(self._name, function, at, error) from error

    def emit_collected(self) -> None:
        """Send on what the function has emitted."""
        self._set_made_down()
        if self._columns:
            columns, self._columns = self._columns, []
            self.context.output.emit(joined(columns))
        hook = getattr(self.function, self._hooks[0])
        aside, self._aside = self._aside, {}
        for tag, (rows, given) in aside.items():
            maker = RowMaker(self._name, hook, tag.remedy)
            self.context.output.emit_to(tag.name, maker.batch(rows, tag.schema, given))


class KeyedFunctionOperator(FunctionOperator):
    """The operator for a keyed stream: with state, and timers that call `on_timer`."""

    timers: TimerService

    def create_contexts(self) -> list[Any]:
        """Return the function's context for each input, and for `on_timer`."""
        return [KeyedProcessFunctionContext(self) for _ in self._inputs]

    def initialize_state(self) -> None:
        """Register the timers."""
        super().initialize_state()
        self.timers = self.context.keyed_state.timer_service("user-timers")

    def state(self, descriptor: StateDescriptor) -> KeyedState:
        """Return the state of the current key."""
        return self.context.keyed_state.state(descriptor)

    def process_watermark(self, timestamp_ms: int) -> None:
        """Fire the event-time timers that are due, then send the watermark on."""
        self._fire(lambda: self.timers.advance(timestamp_ms))
        self.context.output.emit_watermark(timestamp_ms)

    def on_processing_time(self, now_ms: int) -> None:
        """Fire the processing-time timers that are due."""
        self._fire(lambda: self.timers.advance_processing_time(now_ms))

    def next_processing_time_ms(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return self.timers.next_processing_time_ms()

    def _fire(self, due: Callable[[], DueTimers]) -> None:
        """Call `on_timer` until nothing is due: a timer that fires may register another that is."""
        context = self._contexts[0]
        while len((timers := due()).timestamps_ms):
            turns = self.context.keyed_state.in_turn(timers.keys)
            for _, key, timestamp_ms in zip(turns, timers.keys.to_pylist(), timers.timestamps_ms.tolist()):
                self.at = {"timer": timestamp_ms, "key": key}
                context.timestamp_ms = timestamp_ms
                at = f"the timer at {timestamp_ms} of key {key!r}"
                self.call_and_emit(at, ROWS, self.function.on_timer, timestamp_ms, context)
        self.emit_collected()
