"""State tables: all entries of one named state, in columns.

A table is a `SlotIndex` from (key, namespace) to slots, and a value column by slot. Operators that work on batches ask
it for the slots of a batch once and then read, write or reduce whole columns:

    slots = table.slots(keys)                       # int64, one per row
    table.reduce(slots, {"flights": ones, "delay": delays})
    totals = table.get(slots)                       # Arrow, one per row

A `KeyedState` is the same table seen by a function that works on one key at a time. What is specific to a kind of state
(how its entries are kept, added to and merged) is in a file of its own; `kit.stream.backend.states.keyed_states` lists
them. Follows `StateTable`; as in Flink, a namespace (a window, for instance) is part of the entry's key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.errors import StateDescriptorError, StateError, StateTypeError
from kit.stream.backend.files.snapshot import Layout
from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.keys.changed_rows import ChangedRows, Columns
from kit.stream.backend.keys.key_codec import Column, KeyCodec, codec_for
from kit.stream.backend.keys.key_context import KeyContext
from kit.stream.backend.keys.key_run import KeyRun
from kit.stream.backend.keys.slot_index import ABSENT, FrozenIndex, SlotIndex, lowest
from kit.stream.backend.spill.places import places_of
from kit.stream.backend.spill.resident_rows import BYTES_PER_ROW, ResidentRows
from kit.stream.backend.spill.rows import FIXED, Unexpired, intervals, key_columns, made_rows, newest
from kit.stream.backend.spill.snapshot_run import SnapshotRun
from kit.stream.backend.spill.spilled_run import starts_of
from kit.stream.backend.spill.spilled_state import SpilledState
from kit.stream.backend.states.descriptors import StateDescriptor, StateKind, aspects_of_values
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.types.arrow_types import as_type, has_nanosecond_times, stored_type
from kit.stream.backend.types.evolution import evolves, refusal
from kit.stream.backend.types.value_columns import FrozenColumn, StructColumn, ValueColumn, column_for
from kit.stream.backend.types.value_types import MisfitError, converter

Slots = npt.NDArray[np.int64]
Values = Any  # an Arrow or numpy column; for a struct also a mapping of these, or a record batch

_ROWS_AT_ONCE = 1 << 16
_SAMPLED_ROWS = 256
_STALE = 1.25
_INDEX_BYTES, _CODE_BYTES = 14, 8
"""Bytes of an index for each slot, besides its codes: its place, and two marks."""


class KeyedState:
    """A table as user functions see it: the state of the current key, in one namespace. All kinds have `clear`.

    Written values are checked against the state's Arrow type at once (StateTypeError names state, type and value).
    """

    __slots__ = ("_namespace", "_table")

    def __init__(self, table: StateTable, namespace: Any = None) -> None:
        self._table = table
        self._namespace = namespace

    def __repr__(self) -> str:
        namespace = "" if self._namespace is None else f", namespace {self._namespace!r}"
        return f"{type(self).__name__}({self._table.name!r}{namespace})"

    def clear(self) -> None:
        """Remove the entry of the current key."""
        self._set(None)

    def _slot(self) -> int:
        return self._table.current_slot(self._namespace, create=False)

    def _slot_to_write(self) -> int:
        return self._table.current_slot(self._namespace, create=True)

    def _read(self) -> Any:
        table = self._table
        run = table.context.run
        if run is None or not table.in_runs:
            return table.read(self._slot())
        value = (table.run if table.run.of is run else table.begin(run)).entries[run.position]
        return fresh(value) if table.nested else value

    def _write(self, value: Any) -> None:
        self._set(self._table.converted(value, self._table.convert))

    def _set(self, value: Any) -> None:
        """Set the entry of the current key to a converted value; None removes it."""
        table = self._table
        run = table.context.run
        if run is not None and table.in_runs:
            within = table.run if table.run.of is run else table.begin(run)
            within.entries[run.position] = value
            within.changed[run.position] = 1
        elif value is not None:
            table.write(self._slot_to_write(), value)
        else:
            table.clear_current(self._namespace)


@dataclass(slots=True, eq=False)
class Within:
    """A table within a key run: by number of the key the slot, or the entry and whether it has changed."""

    of: KeyRun | None = None
    slots: list[int] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    changed: bytearray = field(default_factory=bytearray)
    accesses: list[int] = field(default_factory=list)
    now_ms: int = 0
    limit_ms: int = 0
    """With TTL: the time of the last access of each entry, the time of the run, and that until which accesses have
    expired, in ms.
    """


class StateTable:
    """The entries of one state: a value for each (key, namespace) that has one."""

    # What was looked up for the last row; a run ends with its batch.
    without_effect: ClassVar = frozenset({"_looked_up", "_current_slot", "run"})

    kind: ClassVar[StateKind]
    view: ClassVar[type[KeyedState]]
    """The class for a function that works on one key at a time."""
    in_batches: ClassVar[bool] = True
    """True if functions that work on batches may use it."""
    by_value: ClassVar[bool] = True
    """True if entries are set as a whole, and not changed in place."""
    expires: ClassVar[bool] = False
    """True if entries have a TTL (`kit.stream.backend.states.ttl_table`)."""

    def __init__(
        self, context: KeyContext, name: str, stored_type: pa.DataType, namespace_type: pa.DataType | None
    ) -> None:
        self.context = context
        self.name = name
        self.stored_type = stored_type
        self.namespace_type = namespace_type
        self.namespace_codec = None if namespace_type is None else codec_for(namespace_type, "namespace")
        self.descriptor: StateDescriptor | None = None
        self.aspects: Aspects = {}
        """The definition of its values, if its descriptor or its snapshot says so."""
        self.index = SlotIndex(1 if namespace_type is None else 2)
        self.column = self.new_column()
        self.changes: ChangedRows | None = None
        """What changed since earlier snapshots, if they are incremental."""
        self.resident: ResidentRows | None = None
        """What is known of the entries in memory, and those that are on disk, if there may be such."""
        self.convert = converter(stored_type)
        self._unset = np.zeros(0, np.bool_)  # allocated slots whose entry was not written yet
        self._unset_slots = np.empty(0, np.int64)
        self._bytes, self._bytes_at = 0.0, -1  # what an entry took, and how many there were then
        self._looked_up = -1  # the turn of the key context for which `_current_slot` is valid
        self._current_slot = ABSENT
        self.run = Within()
        self.nested = self.by_value and pa.types.is_nested(stored_type)
        self.in_runs = self.by_value and namespace_type is None and not has_nanosecond_times(stored_type)

    def __len__(self) -> int:
        in_memory = len(self.index) - len(self._unset_slots)
        return in_memory if self.resident is None else in_memory + len(self.resident.cold)

    def __repr__(self) -> str:
        by = "" if self.namespace_type is None else f" by {self.namespace_type}"
        return f"{type(self).__name__}({self.name!r}, {self.kind} of {self.stored_type}{by}, {len(self)} entries)"

    def attach(self, descriptor: StateDescriptor, namespace_type: pa.DataType | None) -> None:
        """Let `descriptor` define how entries are reduced and what is read without an entry.

        Raises StateDescriptorError if the table was registered or restored with another kind or type.
        """
        found = (self.kind, self.stored_type, self.namespace_type)
        wanted = (descriptor.kind, descriptor.stored_type, namespace_type)
        if self.descriptor is not None and self.descriptor.ttl != descriptor.ttl:
            raise StateDescriptorError(
                f"State {self.name!r} was registered with {_described_ttl(self.descriptor)}, and is requested with "
                f"{_described_ttl(descriptor)}: use another name, or the same descriptor"
            )
        if found != wanted:
            origin, advice = "registered", "use another name, or the same descriptor"
            if self.descriptor is None:
                origin, advice = "restored", _advice(found, wanted)
            raise StateDescriptorError(
                f"State {self.name!r} was {origin} as {_described(*found)}, and is requested as {_described(*wanted)}: "
                f"{advice}"
            )
        self.adopt(descriptor)
        self.descriptor = descriptor
        self.aspects = aspects_of_values(descriptor)

    def check_restored(self, kind: StateKind, stored_type: pa.DataType, namespace_type: pa.DataType | None) -> None:
        """Raise StateDescriptorError if a checkpoint holds something under this name that cannot become it."""
        stored, registered = (kind, stored_type, namespace_type), (self.kind, self.stored_type, self.namespace_type)
        if not _becomes(stored, registered):
            raise StateDescriptorError(
                f"State {self.name!r} was registered as {_described(*registered)}, and is stored as "
                f"{_described(*stored)}: {_advice(stored, registered)}"
            )

    def becomes(self, descriptor: StateDescriptor, namespace_type: pa.DataType | None) -> bool:
        """Return True if this state was restored, and its entries have to be converted for a newer descriptor.

        The descriptor has a newer type, or its TTL was switched on or off.
        """
        stored = (self.kind, self.stored_type, namespace_type)
        wanted = (descriptor.kind, descriptor.stored_type, self.namespace_type)
        is_as_before = stored == wanted and self.expires == (descriptor.ttl is not None)
        return self.descriptor is None and not is_as_before and _becomes(stored, wanted)

    # ---- overridden by kinds of state --------------------------------------------------------------------------------

    def track(self, changes: ChangedRows) -> None:
        """Note all later changes there, for incremental snapshots."""
        self.changes = changes
        self.column.track(changes)

    def new_column(self) -> ValueColumn:
        """Create the column that keeps the entries."""
        return column_for(self.stored_type)

    def adopt(self, descriptor: StateDescriptor) -> None:
        """Take over the remaining properties of a descriptor of the table's kind and type."""

    @property
    def default(self) -> Any:
        """The value that is read without an entry."""
        return None

    @property
    def added_type(self) -> pa.DataType:
        """The type of the values that `add` takes."""
        return self.stored_type

    def add(self, slots: Slots, values: Values = None) -> None:
        """Add a value to each row's entry, in row order.

        It is appended to a list, or folded into a reducing state's entry or an aggregating state's accumulator.
        """
        raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: nothing can be added to it")

    def reduce(self, slots: Slots, values: Values = None, validity: Values = None) -> None:
        """Fold a value into each row's entry, in row order; an integer sum wraps around as in Java.

        `values` is a column; for a struct it is a mapping from field to column, a struct column or a record batch. A
        field that is only counted needs none. Nulls, and rows where `validity` (bool; or a mapping by field) is False,
        are skipped. An entry that met nothing else is null in that field (a count is 0), and a value that is no struct
        has no entry then. A sum of decimals or of uint64 that its type cannot hold raises StateOverflowError.
        """
        raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: only a reducing state reduces")

    def combine(self, slots: Slots, values: Values) -> None:
        """Fold already reduced values, such as entries of another table, into the entries, in row order: counts add up.

        Otherwise as `reduce`.
        """
        raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: only a reducing state reduces")

    def merge(self, into: Slots, slots: Slots) -> None:
        """Fold the entry of each of `slots` into that of `into`, in row order, and remove it (`mergeNamespaces`).

        For reducing and aggregating states and lists. No slot may be in both.
        """
        raise StateDescriptorError(f"State {self.name!r} is of kind {self.kind}: its entries do not merge")

    def freeze(self) -> tuple[FrozenIndex, tuple[FrozenColumn, ...]]:
        """Return the entries at this moment, safe from later changes: the synchronous part of a snapshot."""
        return self.index.freeze(self._unset_slots), self.freeze_values()

    def changed_after(self, interval: int) -> tuple[Slots, list[Columns]]:
        """Return the slots of entries that changed after an interval, and the keys of those that were removed."""
        assert self.changes is not None, f"{self!r} does not track changes"
        slots, gone = self.changes.after(interval, self.index, self._unset if len(self._unset_slots) else None)
        removed = self.changes.removed_after(interval)
        return slots, [*removed, self.key_columns(gone)] if len(gone) else removed

    def values_at(self, slots: Slots) -> tuple[pa.Array, ...]:
        """Return the columns of entries behind their keys in a snapshot: their values."""
        return (self.get(slots),)

    def restore(
        self, keys: Column, namespaces: Column | None, values: Values, accesses: pa.ChunkedArray | None = None
    ) -> None:
        """Set entries; `accesses` are their last accesses, if they have a TTL."""
        assert accesses is None, f"{self!r} has no TTL"
        self._set_all(keys, namespaces, values)

    def _set_all(self, keys: Column, namespaces: Column | None, values: Values) -> None:
        is_loaded = isinstance(values, pa.ChunkedArray) and self.load(keys, namespaces, values)
        if not is_loaded:
            self.put(self.slots(keys, namespaces), values)

    # ---- slots --------------------------------------------------------------------------------------------------

    def slots(self, keys: Column, namespaces: Column | None = None, create: bool = True) -> Slots:
        """Return the slot of each (key, namespace): int64, -1 if there is none and `create` is False.

        A created slot becomes an entry with its first `put` or `reduce`. Slots are valid until they are cleared, or
        until `make_room` of the backend, if it keeps entries on disk; these come into memory here.
        """
        adds = create or self.has_cold
        codes = [self.context.codes(keys, adds)]
        if self.namespace_codec is None:
            if namespaces is not None:
                raise StateTypeError(f"State {self.name!r} has no namespaces: register it with a namespace_type")
        else:
            if namespaces is None:
                raise StateTypeError(f"State {self.name!r} needs a namespace ({self.namespace_type}) for each key")
            codes.append(self.namespace_codec.encode(namespaces, adds))
            if len(codes[0]) != len(codes[1]):
                raise StateError(f"State {self.name!r}: {len(codes[0])} keys and {len(codes[1])} namespaces")
        if not adds:
            return self.index.find(codes)
        slots, added = self.index.find_or_add(codes)
        if len(added):
            self._take_in(added)
        if self.resident is not None:
            self.resident.use(slots)
            if not create:
                slots = np.where(self._unset[slots], ABSENT, slots)
                self._free(added[self._unset[added]])
        return slots

    def load(self, keys: pa.ChunkedArray, namespaces: pa.ChunkedArray | None, values: pa.ChunkedArray) -> bool:
        """Set all entries of an empty table at once; the keys are known to belong to this subtask.

        The columns have the same chunks. In each chunk the order of a checkpoint begins again, with other keys. Returns
        False and does nothing, unless that order shows that no key occurs twice.
        """
        codecs = self._codecs
        if (
            self.has_cold
            or len(self.index)
            or not len(values)
            or values.null_count
            or any(codec.interned for codec in codecs)
        ):
            return False
        columns = [keys] if namespaces is None else [keys, namespaces]
        loaded = [np.empty(len(values), np.int64) for _ in columns]
        for begin, chunks in _side_by_side(columns):
            codes = [codec.encode(chunk, create=True) for codec, chunk in zip(codecs, chunks, strict=True)]
            if not _ascend(codes):
                return False
            for into, some in zip(loaded, codes, strict=True):
                into[begin : begin + len(some)] = some
        self.index.load(loaded)
        self.column.ensure(self.index.capacity)
        self._unset = np.zeros(self.index.capacity, np.bool_)
        if self.changes is not None:
            self.changes.add(np.arange(len(values)), self.index.capacity)
        for begin, (chunk,) in _side_by_side([values]):
            self.column.put(np.arange(begin, begin + len(chunk)), self.as_column(chunk, len(chunk)))
        return True

    def keys(self, slots: Slots) -> pa.Array:
        """Return the key of each slot."""
        return self.context.codec.decode(self.index.columns[0].take(slots))

    def namespaces(self, slots: Slots) -> pa.Array | None:
        """Return the namespace of each slot, or None if the state has no namespaces."""
        if self.namespace_codec is None:
            return None
        return self.namespace_codec.decode(self.index.columns[1].take(slots))

    @property
    def _codecs(self) -> list[KeyCodec]:
        return [codec for codec in (self.context.codec, self.namespace_codec) if codec is not None]

    def key_columns(self, slots: Slots) -> Columns:
        """Return the key of each slot, and its namespace if the state has some."""
        namespaces = self.namespaces(slots)
        return (self.keys(slots),) if namespaces is None else (self.keys(slots), namespaces)

    def is_entry(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return True for each slot in use that is an entry already, not one whose first value is still to come."""
        return ~self._unset[slots] if len(self._unset_slots) else np.ones(len(slots), np.bool_)

    def entries(self) -> Slots:
        """Return the slots of all entries, ascending."""
        slots = self.index.slots_in_use()
        return slots[~self._unset[slots]] if len(self._unset_slots) else slots

    def clear(self, slots: Slots) -> None:
        """Remove entries; their slots are reused. Slots without an entry and -1 are ignored."""
        slots = distinct(slots[slots >= 0], self.index.size)
        slots = slots[self.index.live[slots]]
        if self.resident is not None:  # the slot of a removed entry goes on hiding the row on disk
            slots = slots[~(self._unset[slots] & self.resident.is_behind[slots])]
        if not len(slots):
            return
        if self.changes is not None:
            self.changes.remove(slots, self.key_columns)
        if self.resident is not None:
            hiding = slots[self.resident.is_behind[slots]]
            if len(hiding):
                self._looked_up, self.run = -1, Within()
                self._reset(hiding)
                self.mark_unset(hiding)
                slots = slots[~self.resident.is_behind[slots]]
        self._free(slots)

    def _free(self, slots: Slots) -> None:
        """Let slots be used for other entries."""
        if not len(slots):
            return
        self._looked_up, self.run = -1, Within()
        codes = [column.take(slots) for column in self.index.columns]
        self._reset(slots)
        if len(self._unset_slots):
            self.mark_set(slots)
        self.index.remove(slots)
        self.context.release(codes[0])
        if self.namespace_codec is not None:
            self.namespace_codec.release(codes[1])

    # ---- on disk ------------------------------------------------------------------------------------------------

    def spill(self, resident: ResidentRows) -> None:
        """Let entries be on disk. The table is new."""
        self.resident = resident
        self.index.growth = 1.25
        self.track(resident)

    @property
    def has_cold(self) -> bool:
        """True if some entries may be on disk."""
        return self.resident is not None and bool(self.resident.cold.runs)

    def begin_event(self, number: int, *, notes_use: bool) -> None:
        """Let what is used from now on count as used in this event, if `notes_use`."""
        if self.resident is not None:
            self.resident.event, self.resident.notes_use = number, notes_use

    def discard(self) -> None:
        """Forget all entries: another table has taken them over."""
        self._free(self.index.slots_in_use())
        self.resident = None

    @property
    def row_schema(self) -> pa.Schema:
        """The columns of rows on disk."""
        fields = [*FIXED, pa.field("key", self.context.codec.type, nullable=False)]
        if self.namespace_type is not None:
            fields.append(pa.field("namespace", self.namespace_type, nullable=False))
        return pa.schema([*fields, *self.value_fields])

    @property
    def value_fields(self) -> list[pa.Field]:
        """The columns of entries behind their keys."""
        return [pa.field("value", self.stored_type)]

    def bytes_per_row(self) -> float:
        """Return about how many bytes an entry in memory takes. It is looked at again once there are more or fewer."""
        if self._bytes_at <= len(self.index) <= _STALE * self._bytes_at:
            return self._bytes
        sample = np.arange(0, self.index.size, max(1, self.index.size // _SAMPLED_ROWS))
        sample = sample[self.index.live[sample] & ~self._unset[sample]]
        keys = sum(_CODE_BYTES + codec.bytes_per_key for codec in self._codecs)
        self._bytes = self.index.growth * (_INDEX_BYTES + BYTES_PER_ROW + keys) + self._value_bytes(sample)
        self._bytes_at = len(self.index)
        return self._bytes

    def with_cold(self, layout: Layout, after: int | None = None, *, without_expired: bool = False) -> SpilledState:
        """Return the entries in memory and on disk at this moment: all, or those that changed after an interval.

        `without_expired` leaves out those that a full snapshot leaves out.
        """
        assert self.resident is not None, f"{self!r} is in memory only"
        cold, size = self.resident.cold, self.index.size
        is_entry, (_, changed) = ~self._unset[:size], self.resident.intervals_of(np.arange(size))
        rows, runs = len(self), cold.runs
        if after is not None:
            in_memory = is_entry & (changed > after) & self.index.live[:size]
            rows = int(np.count_nonzero(in_memory)) + cold.changed_after(after)
            runs = tuple(run for run in runs if run.latest_change > after)
        index, values = self.index.freeze(), self.freeze_values()
        unexpired = self.unexpired() if without_expired else None
        return SpilledState(
            layout, index, is_entry, changed, values, runs, cold.span, cold.schema, rows, after, unexpired
        )

    def freeze_values(self) -> tuple[FrozenColumn, ...]:
        """Return the columns of entries behind their keys, at this moment."""
        return (self.column.freeze(self.index.size),)

    def unexpired(self) -> Unexpired | None:
        """Return what leaves expired rows out of a full snapshot, None if nothing is to be left out."""
        return None

    def unexpired_in_merges(self) -> Unexpired | None:
        """Return what leaves expired rows out of merges that begin now, None if nothing is to be left out."""
        return None

    def evict(self, rows: int) -> None:
        """Move entries out of memory, those that were not used for longest."""
        assert self.resident is not None, f"{self!r} is in memory only"
        cold = self.resident.cold
        slots = self.resident.oldest(self.index.slots_in_use(), rows)
        unset = self._unset[slots]
        self.resident.remove(slots[unset], self.key_columns)  # entries that began again, and got no value
        entries = slots[~unset]
        written = np.concatenate(
            (entries[self.resident.is_written[entries]], slots[unset & self.resident.is_behind[slots]])
        )
        expired: list[pa.Table] = []
        if len(written):
            expired = cold.write(self._rows_in_order(written), len(written), self.unexpired_in_merges())
        cold.count(self.resident.intervals_of(entries)[1], 1)
        self._free(slots)
        for cleaned in expired:
            self._cleaned_on_disk(cleaned, self.resident)

    def _cleaned_on_disk(self, rows: pa.Table, resident: ResidentRows) -> None:
        """Forget entries that a merge left out. If one is in memory, it has to be written again.

        The next incremental snapshot does not say that they were removed: in its earlier runs they have expired too.
        """
        columns = zip(self._codecs, key_columns(rows), strict=True)
        slots = self.index.find([codec.encode(keys, create=False) for codec, keys in columns])
        resident.is_written[slots[slots >= 0]] = True
        resident.cold.count(intervals(rows, "changed")[slots < 0], -1)

    @property
    def runs_left_on_disk(self) -> int:
        """The number of restored runs if all entries are in such runs, and more can be left; else 0."""
        return 0 if self.resident is None or len(self.index) else self.resident.cold.adopted

    def leave_on_disk(self, key_groups: Mapping[int, pa.RecordBatch], *, are_entries: bool = True) -> bool:
        """Set entries, or without `are_entries` remove them, and leave the rows where they are: those of each key group
        in the columns of a snapshot, for removals without values. No entry is in memory yet.

        Returns False and does nothing if the keys do not ascend.
        """
        assert self.resident is not None, f"{self!r} is in memory only"
        cold, interval = self.resident.cold, self.resident.interval
        try:
            run = SnapshotRun(cold.schema, key_groups, self.context.max_parallelism, interval, are_entries=are_entries)
        except ValueError:
            return False
        cold.adopt(run)
        if not are_entries:
            for rows in key_groups.values():
                self.resident.remove_keys(tuple(key_columns(rows)))
        return True

    def load_on_disk(self, pieces: Iterable[pa.Table], rows: int) -> None:
        """Set all entries of an empty table without bringing them into memory; a key that occurs twice counts once.

        Each piece has the columns of a snapshot, and the rows of whole key groups, which ascend.
        """
        assert self.resident is not None, f"{self!r} is in memory only"
        cold, interval = self.resident.cold, self.resident.interval

        def in_order() -> Iterator[pa.Table]:
            for piece in pieces:
                keys = key_columns(piece)
                at = places_of(keys, self.context.max_parallelism)
                added, are_entries = np.full(len(at), interval, np.int32), np.ones(len(at), np.bool_)
                values = piece.columns[len(keys) :]
                found = newest([made_rows(cold.schema, at, added, added, are_entries, keys, values)])
                cold.count(intervals(found, "changed"), 1)
                yield found

        cold.write(in_order(), rows)

    def _rows_in_order(self, slots: Slots) -> Iterator[pa.Table]:
        """Yield the rows of slots in the order of their places; an unset slot notes that its key has none."""
        assert self.resident is not None
        pieces = range(0, len(slots), _ROWS_AT_ONCE)
        at = np.concatenate(
            [
                places_of(self.key_columns(slots[begin : begin + _ROWS_AT_ONCE]), self.context.max_parallelism)
                for begin in pieces
            ]
        )
        order = np.argsort(at, kind="stable")
        starts = starts_of(at[order], _ROWS_AT_ONCE).tolist()
        for begin, end in pairwise([*starts, len(order)]):
            some = order[begin:end]
            added, changed = self.resident.intervals_of(slots[some])
            is_entry = self.is_entry(slots[some])
            keys, values = self.key_columns(slots[some]), self.values_at(slots[some][is_entry])
            yield made_rows(self.resident.cold.schema, at[some], added, changed, is_entry, keys, values)

    def _fetch(self, added: Slots) -> None:
        """Bring the entries of new slots into memory, as far as there are any on disk."""
        assert self.resident is not None
        numbers, rows = self.resident.cold.find(self.key_columns(added))
        if not len(numbers):
            return
        slots = added[numbers]
        self._put_back(slots, rows)
        changed = intervals(rows, "changed")
        self.resident.fetched(slots, intervals(rows, "added"), changed)
        self.resident.cold.count(changed, -1)

    def _put_back(self, slots: Slots, rows: pa.Table) -> None:
        self.column.put(slots, one_array(rows["value"]))
        self.mark_set(slots)

    def _reset(self, slots: Slots) -> None:
        """Let the columns of slots be as if they had never been set."""
        self.column.clear(slots)

    def _value_bytes(self, sample: Slots) -> float:
        """Return about how many bytes the values of an entry take, judged by those in some slots."""
        return self.index.growth * self.column.bytes_per_row(sample)

    # ---- columns ------------------------------------------------------------------------------------------------

    def get(self, slots: Slots) -> pa.Array:
        """Return the entry of each slot, null if there is none."""
        absent = slots < 0
        if len(self._unset_slots):
            absent |= self._unset[slots]
        if not absent.any():
            return self.column.get(slots)
        present = self.column.get(slots[~absent])
        return present.take(pa.array(np.cumsum(~absent) - 1, mask=absent))

    def get_fields(self, slots: Slots) -> list[pa.Array]:
        """Return the fields of a struct state's entries, which all exist: `get(slots).flatten()`."""
        assert isinstance(self.column, StructColumn), f"{self!r} is not a state of structs"
        return [column.get(slots) for column in self.column.fields.values()]

    def put(self, slots: Slots, values: Values) -> None:
        """Set entries; of equal slots the last wins. A null clears the entry, as `update(None)` does."""
        self.check_slots(slots)
        column = self.as_column(values, len(slots))
        if column.null_count:
            reversed_slots, last = np.unique(slots[::-1], return_index=True)
            rows = len(slots) - 1 - last
            valid = column.is_valid().to_numpy(zero_copy_only=False)[rows]
            self._put(reversed_slots[valid], column.take(pa.array(rows[valid])))
            self.clear(reversed_slots[~valid])
        else:
            self._put(slots, column)

    # ---- one entry ----------------------------------------------------------------------------------------------

    def current_slot(self, namespace: Any, create: bool) -> int:
        """Return the slot of the current key, or -1."""
        plain, run = self.namespace_codec is None, self.context.run
        if run is not None and plain:
            return self._slot_in(run, create)
        if plain and self._looked_up == self.context.turn and (self._current_slot >= 0 or not create):
            return self._current_slot
        adds = create or self.has_cold
        codes = [self.context.current_code(adds)]
        if self.namespace_codec is not None:
            codes.append(self.namespace_codec.encode_one(namespace, adds))
        slot = self.index.find_one(codes)
        is_new = slot == ABSENT and adds
        if is_new:
            slot = self.index.add_one(codes)
            self._take_in(np.array([slot]))
        if self.resident is not None and slot != ABSENT:
            self.resident.use(slot)
            if not create and self._unset.item(slot):
                self._free(np.array([slot] if is_new else [], np.int64))
                return ABSENT
        if plain:
            self._looked_up, self._current_slot = self.context.turn, slot
        return slot

    def _slot_in(self, run: KeyRun, create: bool) -> int:
        """Return the slot of the current key in a run: all its keys are looked up together."""
        if self.run.of is not run:
            self.run = Within(run, self.slots(run.keys, create=False).tolist())
        slot = self.run.slots[run.position]
        if slot == ABSENT and create:
            codes = [self.context.current_code(create)]
            slot = ABSENT if self.resident is None else self.index.find_one(codes)  # it may hide a row on disk
            if slot == ABSENT:
                slot = self.index.add_one(codes)
                self._take_in(np.array([slot]))
            self.run.slots[run.position] = slot
        return slot

    def begin(self, run: KeyRun) -> Within:
        """Read the entries of all keys of a run; they are used there, and written back when it ends."""
        return self._begin(run, self.slots(run.keys, create=False))

    def _begin(self, run: KeyRun, slots: Slots) -> Within:
        entries = self.get(slots).to_pylist()
        run.postponed.append(self)
        self.run = Within(run, [], entries, bytearray(len(entries)))
        return self.run

    def settle(self, run: KeyRun) -> None:
        """Write back what a run has changed."""
        within, self.run = self.run, Within()
        changed = np.flatnonzero(np.frombuffer(within.changed, np.bool_))
        if not len(changed):
            return
        keys = run.keys.take(pa.array(changed))
        values = pa.array([within.entries[position] for position in changed.tolist()], self.stored_type)
        if values.null_count:
            self.clear(self.slots(keys.filter(values.is_null()), create=False))
            keys, values = keys.filter(values.is_valid()), values.drop_null()
        if len(values):
            self._put(self.slots(keys), values)

    def clear_current(self, namespace: Any) -> None:
        """Remove the entry of the current key, if there is one."""
        slot = self.current_slot(namespace, create=False)
        if slot == ABSENT:
            return
        within, run = self.run, self.context.run
        self.clear(np.array([slot]))
        if run is not None and within.of is run:  # the slots of its other keys remain valid
            self.run = within
            within.slots[run.position] = ABSENT

    def read(self, slot: int) -> Any:
        """Return the entry of a slot as a Python value, None if there is none."""
        if slot < 0 or self._unset.item(slot):
            return None
        value = self.column.get_one(slot)
        return fresh(value) if self.nested else value

    def write(self, slot: int, value: Any) -> None:
        """Set the entry of a slot to a converted value."""
        self.column.put_one(slot, value)
        if len(self._unset_slots):
            self.mark_set(np.array([slot]))

    def converted(self, value: Any, convert: Any) -> Any:
        """Return the value as its type holds it. Raises StateTypeError if it does not fit."""
        try:
            if value is None:
                raise MisfitError("None is not a value")
            return convert(value)
        except MisfitError as error:
            raise StateTypeError(
                f"State {self.name!r} ({self.kind} of {self.stored_type}) rejects {value!r}: {error}"
            ) from None

    # ---- for kinds ----------------------------------------------------------------------------------------------

    def is_unset(self, slot: int) -> bool:
        """Return True if the slot was allocated but its entry was not written yet."""
        return self._unset.item(slot)

    @property
    def unset_slots(self) -> Slots:
        """The allocated slots whose entry was not written yet."""
        return self._unset_slots

    def mark_unset(self, slots: Slots) -> None:
        """Mark entries as not written yet; they keep their slots."""
        self._unset[slots] = True
        self._unset_slots = np.concatenate((self._unset_slots, slots))

    def mark_set(self, slots: Slots) -> Slots:
        """Mark entries as written; return the slots that were not before."""
        if not len(self._unset_slots):
            return slots[:0]
        self._unset[slots] = False
        still = self._unset[self._unset_slots]
        fresh = self._unset_slots[~still]
        self._unset_slots = self._unset_slots[still]
        return fresh

    def as_column(self, values: Values, rows: int) -> pa.Array:
        """Return the values of one column as the stored type; their number must be that of the rows."""
        if isinstance(values, np.ndarray):
            values = pa.array(values)
        column = one_array(values)
        if len(column) != rows:
            raise StateError(f"State {self.name!r}: {rows} slots and {len(column)} values")
        if column.type != self.stored_type:
            try:
                if stored_type(column.type) == self.stored_type:
                    return as_type(column, self.stored_type)
                if pa.types.is_nested(column.type):
                    raise pa.ArrowInvalid("another structure")
                column = column.cast(self.stored_type)
            except pa.ArrowException as error:
                raise StateTypeError(
                    f"State {self.name!r} ({self.kind} of {self.stored_type}) cannot take {column.type}: {error}"
                ) from None
        return column

    def check_slots(self, slots: Slots) -> None:
        """Raise StateError unless every slot can be written."""
        if len(slots) and lowest(slots) < 0:
            raise StateError(
                f"State {self.name!r}: a slot is -1, which has no entry to write; look slots up with create"
            )

    # ---- within -------------------------------------------------------------------------------------------------

    def _take_in(self, added: Slots) -> None:
        """Prepare new slots: room for their entries, their codes counted, their keys checked."""
        self._looked_up = -1
        codes = [column.take(added) for column in self.index.columns]
        misplaced = self.context.misplaced(codes[0])
        self.context.codec.retain(codes[0])
        if self.namespace_codec is not None:
            self.namespace_codec.retain(codes[1])
        capacity = self.index.capacity
        self.column.ensure(capacity)
        if len(self._unset) < capacity:
            self._unset = np.concatenate((self._unset, np.zeros(capacity - len(self._unset), np.bool_)))
        self._unset[added] = True
        self._unset_slots = np.concatenate((self._unset_slots, added))
        if self.changes is not None:
            self.changes.add(added, capacity)
        if misplaced:
            self.clear(added)
            raise StateError(f"State {self.name!r}: {misplaced}")
        if self.has_cold:
            self._fetch(added)

    def _put(self, slots: Slots, column: pa.Array) -> None:
        self.column.put(slots, column)
        self.mark_set(slots)


def fresh(value: Any) -> Any:
    """Return a copy of a value that can be changed without changing the stored one."""
    if isinstance(value, dict):
        return {name: fresh(part) for name, part in value.items()}
    return [fresh(part) for part in value] if isinstance(value, list) else value


_Declared = tuple[StateKind, pa.DataType, pa.DataType | None]
"""The kind of a state, the type of its entries and that of its namespaces."""


def _becomes(stored: _Declared, wanted: _Declared) -> bool:
    """Return True if stored entries can be restored as those of a newer job."""
    return (stored[0], stored[2]) == (wanted[0], wanted[2]) and evolves(stored[1], wanted[1])


def _advice(stored: _Declared, wanted: _Declared) -> str:
    if (stored[0], stored[2]) == (wanted[0], wanted[2]):
        return refusal(stored[1], wanted[1])
    return "use another name, or the descriptor it was stored with"


def _described_ttl(descriptor: StateDescriptor) -> str:
    return "no TTL" if descriptor.ttl is None else f"{descriptor.ttl}"


def _described(kind: StateKind, stored_type: pa.DataType, namespace_type: pa.DataType | None) -> str:
    return f"{kind} of {stored_type}" + ("" if namespace_type is None else f" by namespace {namespace_type}")


def one_array(values: Values) -> Any:
    """Return the same values as one array, if they have chunks."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _side_by_side(columns: list[pa.ChunkedArray]) -> Iterator[tuple[int, list[pa.Array]]]:
    """Yield the chunks of columns, which have the same lengths, with the number of their first row."""
    begin = 0
    for chunks in zip(*(column.iterchunks() for column in columns), strict=True):
        yield begin, list(chunks)
        begin += len(chunks[0])


def _ascend(codes: list[Slots]) -> bool:
    """Return True if each row comes after the one before it, by the first column and then by the next."""
    after = codes[-1][1:] > codes[-1][:-1]
    for column in codes[-2::-1]:
        after &= column[1:] == column[:-1]
        after |= column[1:] > column[:-1]
    return bool(after.all())
