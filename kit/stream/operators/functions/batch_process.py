"""A function per batch on a keyed stream: state and timers for all its keys at once.

A `KeyedProcessFunction` is called for each row, with the state of its key. A `KeyedBatchFunction` is called for each
batch, and reads and writes state as columns with an entry for each row. It can do the same a hundred times as fast, if
its work can be expressed in columns. A key can have several rows in a batch. They all read one entry, the last of their
updates wins, `add` adds all of them in order, and `ctx.rows_before` distinguishes them.

Follows Flink's `KeyedProcessOperator`; Flink itself goes row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.state.errors import StateDescriptorError
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.states.descriptors import StateDescriptor
from kit.stream.backend.states.keyed_states import KINDS
from kit.stream.backend.states.tables import StateTable, Values
from kit.stream.backend.states.ttl_table import TtlTable
from kit.stream.backend.timers import DueTimers
from kit.stream.backend.types.exact_values import ONE_HAS_A_ZONE, InexactError, exact_array, same_clock
from kit.stream.operators.functions.function_operator import KeyedFunctionOperator, TimeView
from kit.stream.operators.functions.process import FunctionSpec, ProcessFunction
from kit.stream.operators.functions.returned import Returned
from kit.stream.operators.rows import misnamed
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import UserFunctionError, column_list, shorten
from kit.stream.operators.watermarks import event_times_ms

Mask = Any  # a bool column of Arrow or numpy that selects rows; None for all of them
Numbers = npt.NDArray[np.int64]

BATCHES = Returned((pa.RecordBatch, Mapping), "batch", "a record batch, or columns by name")
"""The values that a hook called with batches may return."""
Batch: TypeAlias = pa.RecordBatch | Mapping[str, Any]
EmittedBatches: TypeAlias = Batch | tuple[OutputTag, Batch] | Iterable[Batch | tuple[OutputTag, Batch]] | None
"""The values that a hook may return (`kit.stream.operators.functions.returned`)."""


class BatchState:
    """One state, with an entry for each row of the current batch."""

    def __init__(self, table: StateTable, keys: pa.Array) -> None:
        self._table = table
        self._keys = keys

    def __repr__(self) -> str:
        return f"BatchState({self._table.name!r}, {len(self._keys)} rows)"

    def get(self) -> pa.Array:
        """Return the entry of each row's key; the descriptor's default, or null, for one without an entry."""
        entries = self._table.get(self._table.slots(self._keys, create=False))
        default = self._table.default
        if not entries.null_count or default is None:
            return entries
        return pc.if_else(entries.is_valid(), entries, pa.scalar(default, entries.type)).cast(entries.type)

    def update(self, values: Values, where: Mask = None) -> None:
        """Set the entry of each row's key; a null removes it. `values` is one value, or one for each selected row."""
        slots = self._table.slots(_meant(self._keys, where))
        self._table.put(slots, self._column(values, len(slots), self._table.stored_type))

    def add(self, values: Values = None, where: Mask = None) -> None:
        """Fold a value into the entry of each row's key (reducing state), or append it to its list."""
        slots = self._table.slots(_meant(self._keys, where))
        self._table.add(slots, self._column(values, len(slots), self._table.added_type))

    def clear(self, where: Mask = None) -> None:
        """Remove the entry of each row's key."""
        self._table.clear(self._table.slots(_meant(self._keys, where), create=False))

    @staticmethod
    def _column(values: Values, rows: int, arrow_type: pa.DataType) -> Values:
        if isinstance(values, (bool, int, float, str, bytes)):
            return pa.repeat(pa.scalar(values, arrow_type), rows)
        return values


class TtlBatchState(BatchState):
    """One state with TTL, with an entry for each row: all rows of a key see the same entry, or that it has expired.

    Each call accesses the state once for each row of the batch.
    """

    _table: TtlTable

    def get(self) -> pa.Array:
        """Return the entry of each row's key, null for one without an entry or with one that has expired."""
        self._table.check_others(len(self._keys))
        return self._table.look_at(self._table.slots(self._keys, create=False))

    def update(self, values: Values, where: Mask = None) -> None:
        """Set the entry of each row's key; a null removes it. `values` is one value, or one for each selected row."""
        self._table.check_others(len(self._keys))
        super().update(values, where)

    def add(self, values: Values = None, where: Mask = None) -> None:
        """Fold a value into the entry of each row's key (reducing state), or append it to its list."""
        self._table.check_others(len(self._keys))
        super().add(values, where)


class BatchTimers:
    """The timers of the current batch's keys, one for each selected row."""

    def __init__(self, operator: KeyedBatchOperator, keys: pa.Array) -> None:
        self._timers = operator.timers
        self._keys = keys

    def register_event_time_timers(self, timestamps_ms: Any, where: Mask = None) -> None:
        """Call `on_timers` when the watermark reaches each `timestamps_ms`."""
        self._timers.event_time.register(_meant(self._keys, where), timestamps_ms)

    def register_processing_time_timers(self, timestamps_ms: Any, where: Mask = None) -> None:
        """Call `on_timers` when the host's time reaches each `timestamps_ms`."""
        self._timers.processing_time.register(_meant(self._keys, where), timestamps_ms)

    def delete_event_time_timers(self, timestamps_ms: Any, where: Mask = None) -> None:
        """Delete event-time timers, if they exist."""
        self._timers.event_time.delete(_meant(self._keys, where), timestamps_ms)

    def delete_processing_time_timers(self, timestamps_ms: Any, where: Mask = None) -> None:
        """Delete processing-time timers, if they exist."""
        self._timers.processing_time.delete(_meant(self._keys, where), timestamps_ms)


class BatchContext(TimeView):
    """A function's view of one batch, or of the timers that fire.

    `keys` has the key of each row or timer (structs if the key has several columns), `timestamps_ms` their event time
    (int64; None if the stream has none), and `timer_service` registers timers of these keys.
    """

    _operator: KeyedBatchOperator

    def __init__(self, operator: KeyedBatchOperator, keys: pa.Array, timestamps_ms: Numbers | None) -> None:
        self._operator = operator
        self.keys = keys
        self.timestamps_ms = timestamps_ms
        self.timer_service = BatchTimers(operator, keys)

    @property
    def rows_before(self) -> Numbers:
        """For each row the number of earlier rows of the batch with the same key: 0 for the first."""
        return self._counted[0]

    @property
    def rows_after(self) -> Numbers:
        """For each row the number of later rows of the batch with the same key: 0 for the last."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[Numbers, Numbers]:
        codes = codec_for(self.keys.type).encode(self.keys, create=True)
        order = np.argsort(codes, kind="stable")
        ascending, rows = codes[order], np.arange(len(codes))
        begins = np.ones(len(codes), np.bool_)
        begins[1:] = ascending[1:] != ascending[:-1]
        first = np.flatnonzero(begins)
        lengths = np.diff(np.append(first, len(codes)))
        before, after = np.empty_like(rows), np.empty_like(rows)
        before[order] = rows - np.repeat(first, lengths)
        after[order] = np.repeat(first + lengths, lengths) - rows - 1
        return before, after

    def state(self, descriptor: StateDescriptor) -> BatchState:
        """Return the state of this name, for the current keys: a value, a reducing or a list state."""
        if not KINDS[descriptor.kind].in_batches:
            *others, last = (kind for kind, table in KINDS.items() if table.in_batches)
            raise StateDescriptorError(
                f"State {descriptor.name!r} is of kind {descriptor.kind}, which cannot be read in columns: use a "
                f"{', '.join(others)} or {last} state, or process() row by row"
            )
        table = self._operator.context.keyed_state.table(descriptor)
        return TtlBatchState(table, self.keys) if isinstance(table, TtlTable) else BatchState(table, self.keys)

    def emit(self, batch: pa.RecordBatch | Mapping[str, Any]) -> None:
        """Emit rows: a record batch, or columns by name."""
        batch = _as_batch(batch, self._operator.returns, "declare what it makes: returns={...}")
        if batch.num_rows:
            self._operator.context.output.emit(batch)

    def output(self, tag: OutputTag, batch: pa.RecordBatch | Mapping[str, Any]) -> None:
        """Emit rows to a side output: `side_output(tag)` of the stream."""
        batch = _as_batch(batch, tag.schema, f"declare the columns in OutputTag({tag.name!r}, {{...}})")
        if batch.num_rows:
            self._operator.context.output.emit_to(tag.name, batch)


class KeyedBatchFunction:
    """The base of a user's function; only `process_batch` is required.

    Each hook gets a `BatchContext`: keys, state, timers and output of the batch.
    """

    def open(self, ctx: BatchContext) -> None:
        """Prepare; called once before the first batch, with a `BatchContext` whose `keys` has no rows."""

    def process_batch(self, batch: pa.RecordBatch, ctx: BatchContext) -> EmittedBatches:
        """Process a batch, and emit any number: `ctx.emit(batch)` or `yield batch`. `ctx` is a `BatchContext`."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_batch(batch, ctx)")

    def on_timers(self, ctx: BatchContext) -> EmittedBatches:
        """Handle timers that fire: `ctx.keys` and `ctx.timestamps_ms` have a row for each, the earliest first.

        `ctx` is a `BatchContext`.
        """


class KeyedBatchProcess(FunctionSpec):
    """A `KeyedBatchFunction`; its one input has a key."""

    kinds = (ProcessFunction, KeyedBatchFunction)
    hooks = ("process_batch",)
    rows = False

    def create(self) -> KeyedBatchOperator:
        """Create one subtask's operator."""
        return KeyedBatchOperator(self.name, self.function(), self.returns, self.inputs, self.hooks)


class KeyedBatchOperator(KeyedFunctionOperator):
    """The operator that calls the function with whole batches."""

    @property
    def returns(self) -> pa.Schema:
        """The columns of the output."""
        return self._returns

    def create_contexts(self) -> list[BatchContext]:
        """Return the context for `open`."""
        return [BatchContext(self, pa.array([], self.context.keyed_state.key_type), None)]

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Call the hook with the batch."""
        (given,) = self._inputs
        self.context.keyed_state.keys_selected(batch.num_rows)
        times = None if given.time_column is None else event_times_ms(batch, given.time_column, self._name)
        context = BatchContext(self, given.keys_of(batch, self.context.keyed_state.key_type), times)
        try:
            made = self.function.process_batch(batch, context)
            if made is not None:
                BATCHES.emit(made, context)
        except Exception as error:
            raise UserFunctionError.of_batch(self._name, self.function.process_batch, batch, error) from error

    def _fire(self, due: Callable[[], DueTimers]) -> None:
        """Call `on_timers` until nothing is due: a timer that fires may register another that is."""
        while len((timers := due()).timestamps_ms):
            self.context.keyed_state.keys_selected(len(timers.keys))
            at = f"{len(timers.keys)} timers, the first at {timers.timestamps_ms[0]} of key {timers.keys[0]}"
            context = BatchContext(self, timers.keys, timers.timestamps_ms)
            self.call_and_emit(at, BATCHES, self.function.on_timers, context)


def _meant(keys: pa.Array, where: Mask) -> pa.Array:
    return keys if where is None else keys.filter(pa.array(where, pa.bool_()))


def _as_batch(batch: pa.RecordBatch | Mapping[str, Any], schema: pa.Schema, remedy: str) -> pa.RecordBatch:
    if isinstance(batch, pa.RecordBatch):
        if not batch.schema.equals(schema):
            found, declared = column_list(batch.schema), column_list(schema)
            raise TypeError(f"a batch of {found} does not fit: declared are {declared}; {remedy}")
        return batch
    if problem := misnamed(batch, schema):
        raise TypeError(f"{problem}; {remedy}")
    columns = {column.name: _as_column(batch[column.name], column) for column in schema}
    return pa.RecordBatch.from_pydict(columns, schema=schema)


def _as_column(values: Any, column: pa.Field) -> Any:
    """Return the values of a column, those of a list as Arrow. Raises TypeError for values that Arrow would change."""
    if isinstance(values, list | tuple):
        try:
            return exact_array(values, column.type)
        except InexactError as error:
            value = shorten(repr(values[error.number]))
            raise TypeError(f"column {column.name!r} is {column.type}, and {value} does not fit: {error}") from None
    if isinstance(values, pa.Array | pa.ChunkedArray) and not same_clock(column.type, values.type):
        raise TypeError(f"column {column.name!r} is {column.type}, and {values.type} {ONE_HAS_A_ZONE}")
    return values
