"""The heap keyed state backend: the keyed state of one subtask, columnar and in memory.

Batch operators ask for tables, functions that process one key at a time for states, and both for timers:

    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 63), max_parallelism=128)
    table = backend.table(ReducingStateDescriptor("flights", pa.int64(), "count"))
    table.reduce(table.slots(carriers))

    backend.set_current_key("UA")
    backend.state(ValueStateDescriptor("last", pa.int64())).update(17)

Snapshots are full (`kit.stream.backend.files.snapshot` describes what is written) or, with `incremental`, runs of what
has changed since an earlier one (`kit.stream.backend.runs`). Follows `HeapKeyedStateBackend` with its
`HeapRestoreOperation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import ceil
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, overload

import numpy as np
import pyarrow as pa

from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.handles import NO_OFFSET_SET, IncrementalRemoteKeyedStateHandle, KeyGroupRange
from kit.core.state.type_changes import TypeChange
from kit.stream.backend.files.framing import Piece, Sliceable, file_name, state_kind, state_name
from kit.stream.backend.files.row_order import SPAN_ROWS
from kit.stream.backend.files.snapshot import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    KeyedSnapshot,
    KeyedStateFile,
    Layout,
    StateRows,
)
from kit.stream.backend.keys.changed_rows import ChangedRows, Columns, Intervals
from kit.stream.backend.keys.key_context import KeyContext
from kit.stream.backend.keys.key_hashing import infer_key_type, key_groups
from kit.stream.backend.runs.copied_rows import copied_rows, removed_rows
from kit.stream.backend.runs.incremental_snapshots import IncrementalSnapshots, Run
from kit.stream.backend.runs.restored_runs import in_layers
from kit.stream.backend.runs.run_file import REMOVED, RunSnapshot
from kit.stream.backend.spill.cold_rows import ColdRows
from kit.stream.backend.spill.memory_budget import MemoryBudget
from kit.stream.backend.spill.resident_rows import ResidentRows
from kit.stream.backend.spill.rows import key_columns
from kit.stream.backend.states import last_access
from kit.stream.backend.states.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
    aspects_of_values,
)
from kit.stream.backend.states.keyed_states import (
    KINDS,
    TTL_KINDS,
    AggregatingState,
    KeyedState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from kit.stream.backend.states.last_access import has_last_access
from kit.stream.backend.states.state_definition import Aspects, StateDefinition, aspects_of
from kit.stream.backend.states.tables import StateTable, one_array
from kit.stream.backend.states.ttl_table import TtlTable
from kit.stream.backend.timers import EVENT_TIMER_PREFIX, PROCESSING_TIMER_PREFIX, TimerQueue, TimerService
from kit.stream.backend.ttl_time_provider import TtlTimeProvider
from kit.stream.backend.types.evolution import evolved, newest_type, ttl_changes, type_changes

_ROWS_AT_ONCE = 1 << 16
"""The rows that are processed before room is made, if memory has a limit."""
LEFT_ON_DISK_BYTES = 1 << 25
"""The size from which on restored rows that exceed memory are not sorted before the job starts: that takes long."""
MOST_LEFT_RUNS = 40
"""The most runs of a state that are left so: each is searched for each batch, until a merge has put them in order."""
_NOTED = 0.5
"""The share of the memory budget from which on it is noted when rows are used."""


class KeyGroupOffsets(Protocol):
    """The offsets of a file's key groups, as in a KeyGroupsStateHandle."""

    @property
    def key_group_range(self) -> KeyGroupRange: ...
    @property
    def offsets(self) -> tuple[int, ...]: ...


class _StoredRows(NamedTuple):
    file: str
    key_group: int
    batch: pa.RecordBatch


class HeapKeyedStateBackend:
    """All keyed states and timers of one subtask.

    A Flink job chooses its `StateBackend`; this one is like Flink's `HashMapStateBackend`. `clock` is needed for state
    with TTL.
    """

    def __init__(
        self,
        key_type: pa.DataType,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        definition: StateDefinition | None = None,
        clock: TtlTimeProvider | None = None,
        incremental: IncrementalSnapshots | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.key_type = key_type
        self.definition = definition or StateDefinition()
        self.key_group_range = key_group_range
        self.max_parallelism = max_parallelism
        self._context = KeyContext(key_type, key_group_range, max_parallelism, clock)
        self._tables: dict[str, StateTable] = {}
        self._timers: dict[str, TimerService] = {}
        self._incremental = incremental
        self._intervals = Intervals() if incremental is None else incremental.intervals
        self._budget = budget
        self._events = 0

    def __repr__(self) -> str:
        states = ", ".join(f"{name} {len(table)}" for name, table in sorted(self._tables.items()))
        span = f"{self.key_group_range.start}-{self.key_group_range.end}"
        return f"HeapKeyedStateBackend(key groups {span}, keys {self.key_type}, entries: {states or 'none'})"

    # ---- states -------------------------------------------------------------------------------------------------

    def table(self, descriptor: StateDescriptor, namespace_type: pa.DataType | None = None) -> StateTable:
        """Return the table of a state, registered on first use; a restored one is adopted.

        Raises StateDescriptorError if a state of this name has another kind, type, namespace or definition.
        """
        table = self._tables.get(descriptor.name)
        if table is None:
            shape = descriptor.kind, descriptor.stored_type, namespace_type
            table = self._new_table(descriptor.name, *shape, expires=descriptor.ttl is not None)
        if table.descriptor is not descriptor or table.namespace_type != namespace_type:
            if table.descriptor is None:
                self.definition.check(table.name, table.aspects, aspects_of_values(descriptor))
            if table.becomes(descriptor, namespace_type):
                table = self._evolved_table(table, descriptor)
            table.attach(descriptor, namespace_type)
        return table

    @property
    def entries(self) -> int:
        """The number of entries of all states together: of each one per key, or per key and namespace."""
        return sum(map(len, self._tables.values()))

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The existing tables, by the name of their state."""
        return self._tables

    @property
    def timer_services(self) -> Mapping[str, TimerService]:
        """The existing timer services, by name."""
        return self._timers

    def timer_service(self, name: str, namespace_type: pa.DataType | None = None) -> TimerService:
        """Return the timers of this name, registered on first use; restored ones are adopted.

        Flink: `InternalTimeServiceManager`, an operator's `timeServiceManager`.
        """
        service = self._timers.get(name)
        if service is None:
            service = self._timers[name] = TimerService(name, self._context, namespace_type)
            if self._incremental is not None:
                for queue in (service.event_time, service.processing_time):
                    queue.changes = ChangedRows(self._incremental.intervals)
        if service.event_time.namespace_type != namespace_type:
            raise StateDescriptorError(
                f"Timers {name!r} have namespaces of type {service.event_time.namespace_type}, "
                f"and are requested with {namespace_type}"
            )
        return service

    @property
    def current_key(self) -> Any:
        """The key that states use."""
        return self._context.current_key

    def set_current_key(self, key: Any) -> None:
        """Set the key that states use. It is checked when a state first uses it."""
        self._context.set_current_key(key)

    def keys_selected(self, rows: int) -> None:
        """Report that a batch with this number of rows uses the state of their keys."""
        self._context.keys_selected(rows)

    def in_turn(self, keys: pa.Array) -> Iterator[None]:
        """Set the key of states and timers to one key after another.

        Writes and timer requests take effect after the last key.
        """
        return self._context.in_turn(keys)

    @overload
    def state(
        self, descriptor: ValueStateDescriptor, namespace: Any = ..., namespace_type: pa.DataType | None = ...
    ) -> ValueState: ...
    @overload
    def state(
        self, descriptor: ListStateDescriptor, namespace: Any = ..., namespace_type: pa.DataType | None = ...
    ) -> ListState: ...
    @overload
    def state(
        self, descriptor: MapStateDescriptor, namespace: Any = ..., namespace_type: pa.DataType | None = ...
    ) -> MapState: ...
    @overload
    def state(
        self, descriptor: ReducingStateDescriptor, namespace: Any = ..., namespace_type: pa.DataType | None = ...
    ) -> ReducingState: ...
    @overload
    def state(
        self, descriptor: AggregatingStateDescriptor, namespace: Any = ..., namespace_type: pa.DataType | None = ...
    ) -> AggregatingState: ...
    def state(
        self, descriptor: StateDescriptor, namespace: Any = None, namespace_type: pa.DataType | None = None
    ) -> KeyedState:
        """Return the state of the current key (`getPartitionedState`).

        The type of a namespace that is an int or a string is inferred.
        """
        if namespace is not None and namespace_type is None:
            namespace_type = infer_key_type(namespace)
        table = self.table(descriptor, namespace_type)
        return table.view(table, namespace)

    def _new_table(
        self,
        name: str,
        kind: StateKind,
        stored_type: pa.DataType,
        namespace_type: pa.DataType | None,
        *,
        expires: bool,
    ) -> StateTable:
        tables: Mapping[StateKind, type[StateTable]] = TTL_KINDS if expires else KINDS
        table = self._tables[name] = tables[kind](self._context, name, stored_type, namespace_type)
        if self._budget is not None:
            cold = ColdRows(self._budget.space, table.row_schema, self.key_group_range, self.max_parallelism)
            table.spill(ResidentRows(self._intervals, cold))
        elif self._incremental is not None:
            table.track(ChangedRows(self._intervals))
        return table

    def _evolved_table(self, table: StateTable, descriptor: StateDescriptor) -> StateTable:
        """Replace a restored table by one with the same entries in a newer type, or with or without TTL."""
        expires = descriptor.ttl is not None
        new = self._new_table(table.name, table.kind, descriptor.stored_type, table.namespace_type, expires=expires)
        new.aspects = table.aspects
        for rows in self.rows(table):
            values = evolved(one_array(rows["value"]), descriptor.stored_type)
            accesses = rows[last_access.COLUMN] if expires and table.expires else None
            new.restore(rows["key"], _namespaces(rows), values, accesses)
            self.make_room()
        table.discard()
        if self._incremental is not None:
            self._incremental.restart()  # the new table does not know when its entries changed
        return new

    # ---- memory -------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Move entries to disk if they exceed the memory budget, between two events: no slot is valid afterwards."""
        budget = self._budget
        if budget is None:
            return
        self._events += 1
        tables = list(self._tables.values())
        bytes_of_rows = sum(len(table.index) * table.bytes_per_row() for table in tables)
        kept = budget.kept(bytes_of_rows, sum(cold.bytes_in_memory for cold in self.cold_rows.values()))
        for table in tables:
            if kept < 1 and len(table.index):
                table.evict(ceil(len(table.index) * (1 - kept)))
            table.begin_event(self._events, notes_use=bytes_of_rows > _NOTED * budget.most_bytes)
        if any(table.has_cold for table in tables):
            budget.space.return_memory()

    def pieces(self, rows: int) -> Iterator[slice]:
        """Yield the numbers of rows that are to be processed: all at once if memory has no limit, else in pieces.

        After each piece there is room again, and no slot is valid any more.
        """
        at_once = rows if self._budget is None else _ROWS_AT_ONCE
        for begin in range(0, rows, max(1, at_once)):
            yield slice(begin, min(begin + at_once, rows))
            self.make_room()

    @property
    def cold_rows(self) -> Mapping[str, ColdRows]:
        """The rows on disk, by the name of their state; none if all state is in memory."""
        each = self._tables.items()
        return {name: table.resident.cold for name, table in each if table.resident is not None}

    def rows(self, table: StateTable) -> Iterator[pa.Table]:
        """Yield all entries of a table, wherever they are, in the columns of a snapshot; none of the parts is empty.

        The entries are those at the first step; the caller may change the table between two steps.
        """
        layout = self._layout(table)
        schema = pa.schema(layout.fields)
        if table.has_cold:
            for rows in table.with_cold(layout).tables(self.max_parallelism):
                yield rows.select(schema.names).cast(schema)
            return
        slots = table.entries()
        if len(slots):
            yield pa.Table.from_arrays([*table.key_columns(slots), *table.values_at(slots)], schema=schema)

    def all_rows(self, table: StateTable) -> pa.Table:
        """Return all entries of a table as one: for small state, and for a look at it, which changes nothing."""
        return pa.concat_tables([pa.schema(self._layout(table).fields).empty_table(), *self.rows(table)])

    def keys(self, table: StateTable) -> Iterator[Columns]:
        """Yield the keys and namespaces of all entries of a table, as `rows` yields the entries."""
        if table.has_cold:
            yield from (tuple(key_columns(rows)) for rows in self.rows(table))
        elif len(table):
            yield table.key_columns(table.entries())

    # ---- snapshot -----------------------------------------------------------------------------------------------

    def snapshot(self) -> KeyedSnapshot | None:
        """Take the synchronous part of a snapshot: encode nothing and copy no large array. None without state."""
        frozen = (self._freeze_table(table) for _, table in sorted(self._tables.items()) if len(table))
        states = [state for state in frozen if state.rows]
        for queue, kind in self._queues():
            if len(queue):
                states.append(self._layout_of_timers(queue, kind).with_rows(queue.index.freeze(), ()))
        return KeyedSnapshot(self.key_group_range, self.max_parallelism, tuple(states)) if states else None

    def snapshot_run(
        self, checkpoint_id: int, name: str, sharing: SharingFilesStrategy
    ) -> tuple[tuple[Run, ...], RunSnapshot | None]:
        """Take the synchronous part of an incremental snapshot.

        Return its runs, oldest first, and the content of the one called `name`, None if nothing has changed.
        """
        incremental = self._incremental
        assert incremental is not None, f"{self!r} takes no incremental snapshots"
        reused = incremental.to_reuse(sharing)
        snapshot = self._changes_after(reused[-1].last_interval) if reused else self.snapshot()
        rows = 0 if snapshot is None else sum(state.rows for state in snapshot.states)
        runs = incremental.taken(checkpoint_id, reused, name, rows)
        return runs, None if snapshot is None else RunSnapshot(snapshot)

    def _changes_after(self, interval: int) -> KeyedSnapshot | None:
        """Copy what has changed after an interval; None if nothing has."""
        states: list[StateRows] = []
        for _, table in sorted(self._tables.items()):
            slots, removed = table.changed_after(interval)
            layout = self._layout(table)
            if not table.has_cold:
                states += copied_rows(layout, table.index, slots, table.values_at(slots), removed)
                continue
            changed = table.with_cold(layout, interval)
            states += [changed] if changed.rows else []
            states += [removed_rows(layout, removed)] if removed else []
        for queue, kind in self._queues():
            assert queue.changes is not None
            slots, _ = queue.changes.after(interval, queue.index)
            removed = queue.changes.removed_after(interval)
            states += copied_rows(self._layout_of_timers(queue, kind), queue.index, slots, (), removed)
        return KeyedSnapshot(self.key_group_range, self.max_parallelism, tuple(states)) if states else None

    def _layout(self, table: StateTable) -> Layout:
        fields = [pa.field("key", self.key_type, nullable=False)]
        decoders = [self._context.codec.freeze()]
        if table.namespace_codec is not None:
            fields.append(pa.field("namespace", table.namespace_type, nullable=False))
            decoders.append(table.namespace_codec.freeze())
        fields.append(pa.field("value", table.stored_type))
        if isinstance(table, TtlTable):
            fields.append(pa.field(last_access.COLUMN, table.access_type))
        aspects = {**self.definition.aspects, **table.aspects}
        return Layout(table.name, str(table.kind), tuple(fields), tuple(decoders), 0, aspects)

    def _freeze_table(self, table: StateTable) -> StateRows:
        if table.has_cold:
            return table.with_cold(self._layout(table), without_expired=True)
        return self._layout(table).with_rows(*table.freeze())

    def _queues(self) -> Iterator[tuple[TimerQueue, str]]:
        """Yield the queues of timers with their kinds, in the order of a snapshot."""
        for _, service in sorted(self._timers.items()):
            yield service.event_time, EVENT_TIMERS
            yield service.processing_time, PROCESSING_TIMERS

    def _layout_of_timers(self, queue: TimerQueue, kind: str) -> Layout:
        fields = [pa.field("timestamp_ms", pa.int64(), nullable=False), pa.field("key", self.key_type, nullable=False)]
        if queue.namespace_type is not None:
            fields.append(pa.field("namespace", queue.namespace_type, nullable=False))
        decoders = tuple(codec.freeze() for codec in queue.decoders())
        return Layout(queue.name, kind, tuple(fields), decoders, 1, self.definition.aspects)

    def run_written(self, checkpoint_id: int, handle: IncrementalRemoteKeyedStateHandle) -> None:
        """Note that an incremental snapshot is written."""
        if self._incremental is not None:
            self._incremental.written(checkpoint_id, handle)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Let incremental snapshots build on this one."""
        if self._incremental is None or not self._incremental.complete(checkpoint_id):
            return
        first = self._incremental.first_interval
        for each in self._tracked():
            each.forget_removed(first)
        for cold in self.cold_rows.values():
            cold.forget_intervals(first)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Let no incremental snapshot build on this one."""
        if self._incremental is not None:
            self._incremental.aborted(checkpoint_id)

    def _tracked(self) -> Iterator[ChangedRows]:
        of_tables = (table.changes for table in self._tables.values())
        return filter(None, chain(of_tables, (queue.changes for queue, _ in self._queues())))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Do nothing: which files a subsumed checkpoint shares is known to the coordinator."""

    def close(self) -> None:
        """Release all state, because the subtask ends. Snapshots that were taken keep theirs."""
        self._tables.clear()
        self._timers.clear()

    # ---- restore ------------------------------------------------------------------------------------------------

    def restore(self, parts: Iterable[tuple[KeyGroupOffsets, Piece | Sliceable]]) -> None:
        """Restore the key groups of this subtask's range from files of any number of subtasks.

        Each part is a handle (its key group range and offsets) and the bytes of its file, or the wanted ones
        (`kit.stream.backend.files.partial_file`); of an incremental handle, its `RestoredRun`s. States may be
        registered before or after. Raises StateRestoreError for damaged files, and StateDescriptorError if a stored
        state has another type than the registered one, or another definition
        (`kit.stream.backend.states.state_definition`).
        """
        parts = list(parts)
        for number, layer in enumerate(in_layers(parts)):
            if self._incremental is not None:
                self._incremental.intervals.now = number
            self._restore_layer(layer, is_first=number == 0)
        if self._incremental is not None:
            self._incremental.restored(self.key_group_range, parts)

    def _restore_layer(self, parts: list[tuple[KeyGroupOffsets, Piece | Sliceable]], *, is_first: bool) -> None:
        """Restore full files and first runs, or else runs that come after these: their keys may be there already."""
        stored: dict[tuple[str, str], list[_StoredRows]] = defaultdict(list)
        seen: dict[int, str] = {}
        for handle, data in parts:
            file = KeyedStateFile(data, file_name(handle))
            for key_group, offset in self._own_sections(handle):
                if key_group in seen:
                    raise StateRestoreError(f"Key group {key_group} is in {seen[key_group]!r} and in {file.name!r}")
                seen[key_group] = file.name
                for number, batch in file.key_group(key_group, offset):
                    schema = file.schemas[number]
                    rows = _StoredRows(file.name, key_group, batch)
                    stored[state_kind(schema), state_name(schema)].append(rows)
        for (kind, name), rows_of_state in stored.items():
            if kind.startswith(REMOVED):
                self._take_out(kind.removeprefix(REMOVED), name, rows_of_state)
        for (kind, name), rows_of_state in stored.items():
            if not kind.startswith(REMOVED):
                if self._budget is not None:
                    rows_of_state.sort(key=attrgetter("key_group"))
                self._take_in(kind, name, rows_of_state, is_first=is_first)

    def check_fits(self, file: KeyedStateFile) -> dict[str, list[TypeChange]]:
        """Raise as `restore` does where a file holds keys or states of other types, or made from something else.

        Return the changes of type that a restore accepts, by state.
        """
        changes: dict[str, list[TypeChange]] = {}
        for schema in file.schemas:
            name, aspects = state_name(schema), aspects_of(schema)
            self.definition.check(name, aspects)
            self._check_schema(schema, name, file.name)
            table = self._tables.get(name)
            if table is None or "value" not in schema.names:  # timers, or the keys of removed entries
                continue
            stored_type = schema.field("value").type
            table.check_restored(StateKind(state_kind(schema)), stored_type, _namespace_type(schema))
            self.definition.check(name, self.definition.without_shared(aspects), table.aspects)
            changes[name] = [
                *ttl_changes(has_last_access(schema), table.expires),
                *type_changes(stored_type, table.stored_type),
            ]
        return changes

    def _own_sections(self, handle: KeyGroupOffsets) -> Iterator[tuple[int, int]]:
        start = handle.key_group_range.start
        for key_group in handle.key_group_range.intersect(self.key_group_range):
            offset = handle.offsets[key_group - start]
            if offset != NO_OFFSET_SET:
                yield key_group, offset

    def _take_out(self, kind: str, name: str, stored: list[_StoredRows]) -> None:
        """Remove the entries or timers of a restored state with these keys."""
        for file, schema in {rows.file: rows.batch.schema for rows in stored}.items():
            self._check_schema(schema, name, file)
        self._check_key_groups(stored, name)
        keys = _joined(name, stored, None)
        if kind in {EVENT_TIMERS, PROCESSING_TIMERS}:
            namespaces = _namespaces(keys)
            queue = self._restored_queue(kind, name, None if namespaces is None else namespaces.type)
            queue.delete(keys["key"], keys["timestamp_ms"], namespaces)
        elif name in self._tables:
            table = self._tables[name]
            may_stay = 0 < table.runs_left_on_disk < MOST_LEFT_RUNS
            if may_stay and _left_on_disk(table, keys.to_batches(), stored, are_entries=False):
                return
            for piece in self.pieces(keys.num_rows):
                some = keys[piece]
                table.clear(table.slots(some["key"], _namespaces(some), create=False))

    def _take_in(self, kind: str, name: str, stored: list[_StoredRows], *, is_first: bool) -> None:
        schemas = {rows.file: rows.batch.schema for rows in stored}  # all rows of a file have its schema
        aspects: dict[str, Any] = {}
        for file, schema in schemas.items():
            aspects |= aspects_of(schema)
            self.definition.check(name, aspects)
            self._check_schema(schema, name, file)
        self._check_key_groups(stored, name)
        if kind in {EVENT_TIMERS, PROCESSING_TIMERS}:
            table = _joined(name, stored, None)
            namespaces = _namespaces(table)
            queue = self._restored_queue(kind, name, None if namespaces is None else namespaces.type)
            queue.register(table["key"], table["timestamp_ms"], namespaces)
            found = len(queue)
        else:
            state = self._restored_table(StateKind(kind), name, schemas, self.definition.without_shared(aspects))
            table = _joined(name, stored, state)
            if state.kind is StateKind.REDUCING:  # earlier versions wrote an entry for a key that had met only nulls
                table = table.filter(table["value"].is_valid()) if table["value"].null_count else table
            is_whole = table.num_rows == sum(rows.batch.num_rows for rows in stored)
            if not (is_whole and self._set_on_disk(state, table, stored, is_first=is_first)):
                for piece in self.pieces(table.num_rows):
                    some = table[piece]
                    accesses = some[last_access.COLUMN] if state.expires else None
                    state.restore(some["key"], _namespaces(some), some["value"], accesses)
            found = len(state) if is_first else 0
        if is_first and found != table.num_rows:
            raise StateRestoreError(
                f"State {name!r} has {table.num_rows} rows for {found} entries in {stored[0].file!r}"
            )

    def _set_on_disk(self, state: StateTable, rows: pa.Table, stored: list[_StoredRows], *, is_first: bool) -> bool:
        """Set restored entries without bringing them into memory: where they are, or sorted.

        Return False, and do nothing, if they are few or have to be changed.
        """
        if state.runs_left_on_disk:
            may_stay = state.runs_left_on_disk < MOST_LEFT_RUNS and _is_plain(state, rows)
            return may_stay and _left_on_disk(state, rows.to_batches(), stored)
        if not (is_first and self._exceeds_memory(state, rows)):
            return False
        if not (rows.nbytes >= LEFT_ON_DISK_BYTES and _left_on_disk(state, rows.to_batches(), stored)):
            state.load_on_disk(_by_key_groups(rows, stored), rows.num_rows)
        return True

    def _exceeds_memory(self, state: StateTable, rows: pa.Table) -> bool:
        """Return True if restored rows are the first of a state, and have no room in memory."""
        if self._budget is None or len(state) or not _is_plain(state, rows):
            return False
        return rows.num_rows * state.bytes_per_row() > self._budget.most_bytes

    def _restored_queue(self, kind: str, name: str, namespace_type: pa.DataType | None) -> TimerQueue:
        prefix = EVENT_TIMER_PREFIX if kind == EVENT_TIMERS else PROCESSING_TIMER_PREFIX
        if not name.startswith(prefix):
            raise StateRestoreError(f"State {name!r} holds {kind}, but its name does not begin with {prefix!r}")
        service = self.timer_service(name.removeprefix(prefix), namespace_type)
        return service.event_time if kind == EVENT_TIMERS else service.processing_time

    def _restored_table(
        self, kind: StateKind, name: str, schemas: Mapping[str, pa.Schema], aspects: Aspects
    ) -> StateTable:
        """Return the table for the rows of all files, whose types may be of jobs before and after a change."""
        table = self._tables.get(name)
        if table is None:
            newest = newest_type([schema.field("value").type for schema in schemas.values()])
            if newest is None:
                raise _differs(name, schemas)
            expires = any(map(has_last_access, schemas.values()))  # elsewhere it was switched on or off, and not used
            namespace_type = _namespace_type(next(iter(schemas.values())))
            table = self._new_table(name, kind, newest, namespace_type, expires=expires)
            table.aspects = aspects
            return table
        for schema in schemas.values():
            table.check_restored(kind, schema.field("value").type, _namespace_type(schema))
        self.definition.check(name, aspects, table.aspects)
        return table

    def _check_schema(self, schema: pa.Schema, name: str, file: str) -> None:
        if schema.field("key").type != self.key_type:
            raise StateRestoreError(
                f"State {name!r} in {file!r} has keys of type {schema.field('key').type}, this operator's are "
                f"{self.key_type}"
            )
        written = int(schema.metadata[b"max_parallelism"])
        if written != self.max_parallelism:
            raise StateRestoreError(
                f"State {name!r} in {file!r} was written with maximum parallelism {written}, this operator has "
                f"{self.max_parallelism}: key groups would not match"
            )

    def _check_key_groups(self, stored: list[_StoredRows], name: str) -> None:
        for together in _together(stored):
            keys = pa.chunked_array([rows.batch.column("key") for rows in together]).combine_chunks()
            place = np.repeat(np.arange(len(together)), [rows.batch.num_rows for rows in together])
            expected = np.array([rows.key_group for rows in together])[place]
            groups = key_groups(keys, self.max_parallelism)
            wrong = np.flatnonzero(groups != expected)
            if len(wrong):
                row = wrong[0]
                raise StateRestoreError(
                    f"State {name!r} in {together[place[row]].file!r}: key {keys[row].as_py()!r} is stored under key "
                    f"group {expected[row]} and belongs to {groups[row]}"
                )


def _together(stored: list[_StoredRows]) -> Iterator[list[_StoredRows]]:
    """Yield batches that are checked at once: many small ones would each cost as much as a large one."""
    together: list[_StoredRows] = []
    count = 0
    for rows in stored:
        together.append(rows)
        count += rows.batch.num_rows
        if count >= SPAN_ROWS:
            yield together
            together, count = [], 0
    if together:
        yield together


def _is_plain(state: StateTable, rows: pa.Table) -> bool:
    """Return True if rows can be entries without a change: none is null, and no last access is unknown, that is now."""
    return not rows["value"].null_count and not (state.expires and rows[last_access.COLUMN].null_count)


def _left_on_disk(
    state: StateTable, batches: list[pa.RecordBatch], stored: list[_StoredRows], *, are_entries: bool = True
) -> bool:
    """Leave the rows where they are, if each key group has one batch of them; return True if that was done."""
    key_groups = dict(zip((each.key_group for each in stored), batches))
    return len(key_groups) == len(stored) and state.leave_on_disk(key_groups, are_entries=are_entries)


def _by_key_groups(rows: pa.Table, stored: list[_StoredRows]) -> Iterator[pa.Table]:
    """Yield the rows of whole key groups, which come in order, many of them at once."""
    begin = end = 0
    for each in stored:
        end += each.batch.num_rows
        if end - begin >= SPAN_ROWS:
            yield rows.slice(begin, end - begin)
            begin = end
    if end > begin:
        yield rows.slice(begin, end - begin)


def _joined(name: str, stored: list[_StoredRows], state: StateTable | None) -> pa.Table:
    """Return the rows of all files as one table, with the columns of the state for which they are; None for timers."""
    batches = [rows.batch for rows in stored]
    if state is not None:
        batches = [_with_values(batch, state) for batch in batches]
    if any(not batch.schema.equals(batches[0].schema) for batch in batches):
        raise _differs(name, {rows.file: rows.batch.schema for rows in stored})
    return pa.Table.from_batches(batches)


def _with_values(batch: pa.RecordBatch, state: StateTable) -> pa.RecordBatch:
    """Return rows with values in the state's type, and with last accesses, null if unknown, if the state has a TTL."""
    place = batch.schema.get_field_index("value")
    if batch.schema.field(place).type != state.stored_type:
        field = batch.schema.field(place).with_type(state.stored_type)
        batch = batch.set_column(place, field, evolved(batch.column(place), state.stored_type))
    is_known = has_last_access(batch.schema)
    if isinstance(state, TtlTable) and not is_known:
        field = pa.field(last_access.COLUMN, state.access_type)
        return batch.append_column(field, pa.nulls(batch.num_rows, state.access_type))
    return batch if state.expires or not is_known else batch.drop_columns([last_access.COLUMN])


def _namespaces(table: pa.Table) -> pa.ChunkedArray | None:
    return table["namespace"] if "namespace" in table.column_names else None


def _namespace_type(schema: pa.Schema) -> pa.DataType | None:
    return schema.field("namespace").type if "namespace" in schema.names else None


def _differs(name: str, schemas: Mapping[str, pa.Schema]) -> StateRestoreError:
    columns = [f"{_columns(schema)} in {file!r}" for file, schema in schemas.items()]
    return StateRestoreError(f"State {name!r} has columns {', and '.join(dict.fromkeys(columns))}")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
