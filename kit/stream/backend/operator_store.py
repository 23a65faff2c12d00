"""Operator state: lists and broadcast maps that belong to a subtask, not to keys.

A list state is a list of independent entries, for instance the splits of a source, which a rescale redistributes.
`SPLIT_DISTRIBUTE` assigns each entry to one subtask, and `UNION` all entries to all. A broadcast state is a map that
is the same on all subtasks; each gets one copy. Follows `DefaultOperatorStateBackend`.

The file is framed as `kit.stream.backend.files.framing` defines: a header, and a section for each entry. A section is
u32 state | u32 0 | u32 0, then an Arrow IPC record batch message, of one row (`element`) for an entry of a list, of all
rows (`key`, `value`) for a map. Every section has an offset of its own; the handle lists these, and a rescale
redistributes them. States are ordered by name and maps by key, so that equal state produces equal bytes; a state
without entries is not written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from kit.core.state.errors import StateDescriptorError, StateRestoreError, StateTypeError
from kit.core.state.handles import OperatorStateMode, StateMetaInfo
from kit.core.state.type_changes import TypeChange
from kit.stream.backend.files.framing import FramedFile, Piece, file_name, header, section, size_of, state_name
from kit.stream.backend.states.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateKind,
)
from kit.stream.backend.types.evolution import evolved, evolves, newest_type, refusal, type_changes
from kit.stream.backend.types.value_columns import sorted_items
from kit.stream.backend.types.value_types import Converter, MisfitError, converter, key_converter

MAGIC = b"OPERSTAT"


class EntryOffsets(Protocol):
    """The offsets of a file's entries, as in an OperatorStreamStateHandle."""

    @property
    def state_name_to_partition_offsets(self) -> Mapping[str, StateMetaInfo]: ...


class _Typed:
    """The common base of lists and maps: a name, a mode, and checks of added values."""

    def __init__(self, name: str, mode: OperatorStateMode) -> None:
        self.name = name
        self.mode = mode

    def _converted(
        self, arrow_type: pa.DataType, value: Any, of: Callable[[pa.DataType], Converter] = converter
    ) -> Any:
        try:
            if value is None:
                raise MisfitError("None is not a value")
            return of(arrow_type)(value)
        except MisfitError as error:
            raise StateTypeError(f"Operator state {self.name!r} ({arrow_type}) rejects {value!r}: {error}") from None


class OperatorListState(_Typed):
    """A list of entries, each of which may move to another subtask on a rescale."""

    def __init__(self, name: str, mode: OperatorStateMode, element_type: pa.DataType) -> None:
        super().__init__(name, mode)
        self.element_type = element_type
        self._elements: list[Any] = []

    def __repr__(self) -> str:
        return f"OperatorListState({self.name!r}, {self.mode.name}, {len(self._elements)} of {self.element_type})"

    def __len__(self) -> int:
        return len(self._elements)

    def get(self) -> list[Any]:
        """Return a copy of the list."""
        return list(self._elements)

    def add(self, value: Any) -> None:
        """Append one entry."""
        self._elements.append(self._converted(self.element_type, value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Append entries: all of them, or none if one does not fit."""
        self._elements += [self._converted(self.element_type, value) for value in values]

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list."""
        self._elements = [self._converted(self.element_type, value) for value in values]

    def clear(self) -> None:
        """Empty the list."""
        self._elements = []

    def schema(self) -> pa.Schema:
        """Return the columns of an entry."""
        return _schema([pa.field("element", self.element_type, nullable=False)], self.name, StateKind.LIST)

    def batches(self) -> list[pa.RecordBatch]:
        """Return one row for each entry."""
        elements = pa.array(self._elements, self.element_type)
        whole = pa.RecordBatch.from_arrays([elements], schema=self.schema())
        return [whole.slice(row, 1) for row in range(len(elements))]

    def take_in(self, batch: pa.RecordBatch) -> None:
        """Append restored entries, which may be of an older type."""
        self._elements += evolved(batch.column(0), self.element_type).to_pylist()

    def copy(self) -> OperatorListState:
        """Return a copy of the list."""
        copied = OperatorListState(self.name, self.mode, self.element_type)
        copied._elements = list(self._elements)
        return copied


class BroadcastState(_Typed):
    """A map that must be the same on every subtask."""

    def __init__(self, name: str, key_type: pa.DataType, value_type: pa.DataType) -> None:
        super().__init__(name, OperatorStateMode.BROADCAST)
        self.key_type = key_type
        self.value_type = value_type
        self._entries: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"BroadcastState({self.name!r}, {len(self._entries)} of {self.key_type} to {self.value_type})"

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Any) -> Any:
        """Return the value under `key`, or None."""
        return self._entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value under `key`."""
        self._entries[self._converted(self.key_type, key, key_converter)] = self._converted(self.value_type, value)

    def put_all(self, entries: Mapping[Any, Any]) -> None:
        """Set many entries: all of them, or none if one does not fit."""
        self._entries |= {
            self._converted(self.key_type, key, key_converter): self._converted(self.value_type, value)
            for key, value in entries.items()
        }

    def remove(self, key: Any) -> None:
        """Remove the entry under `key`, if there is one."""
        self._entries.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Return True if there is an entry under `key`."""
        return key in self._entries

    def items(self) -> list[tuple[Any, Any]]:
        """Return the entries, in the order of a checkpoint: by key."""
        return sorted_items(self._entries)

    def clear(self) -> None:
        """Empty the map."""
        self._entries = {}

    def schema(self) -> pa.Schema:
        """Return the columns of the map."""
        fields = [pa.field("key", self.key_type, nullable=False), pa.field("value", self.value_type, nullable=False)]
        return _schema(fields, self.name, StateKind.MAP)

    def batches(self) -> list[pa.RecordBatch]:
        """Return all entries at once: a broadcast state is not divided."""
        items = self.items()
        columns = [
            pa.array([key for key, _ in items], self.key_type),
            pa.array([value for _, value in items], self.value_type),
        ]
        return [pa.RecordBatch.from_arrays(columns, schema=self.schema())]

    def take_in(self, batch: pa.RecordBatch) -> None:
        """Set restored entries, whose values may be of an older type."""
        values = evolved(batch.column(1), self.value_type)
        self._entries |= zip(batch.column(0).to_pylist(), values.to_pylist(), strict=True)

    def copy(self) -> BroadcastState:
        """Return a copy of the map."""
        copied = BroadcastState(self.name, self.key_type, self.value_type)
        copied._entries = dict(self._entries)
        return copied


OperatorStateEntry = OperatorListState | BroadcastState


def check_types(
    declared: Iterable[StateDescriptor], layout: EntryOffsets, file: OperatorStateFile
) -> dict[str, list[TypeChange]]:
    """Compare the states in a file with declared lists and broadcast maps, by the file's header alone.

    A declared list may be split or united: its mode is the stored one. Return the changes of type that a restore
    accepts, by state. Raises StateDescriptorError.
    """
    modes = {name: info.mode for name, info in layout.state_name_to_partition_offsets.items()}
    store, changes = OperatorStateStore(), dict[str, list[TypeChange]]()
    for descriptor in declared:
        if isinstance(descriptor, MapStateDescriptor):
            store.broadcast_state(descriptor)
        elif isinstance(descriptor, ListStateDescriptor):
            is_united = modes.get(descriptor.name) is OperatorStateMode.UNION
            (store.union_list_state if is_united else store.list_state)(descriptor)
    for schema in file.schemas:
        name = state_name(schema)
        if name in store.states:
            state = store._restored(schema, modes[name], file.name, "")
            changes[name] = type_changes(schema.field(-1).type, _values(state))
    return changes


@dataclass(frozen=True, slots=True)
class OperatorStateSnapshot:
    """The operator state of one subtask at one moment: at least one entry."""

    states: tuple[OperatorStateEntry, ...]

    def encode(self) -> tuple[bytes, dict[str, StateMetaInfo]]:
        """Return the file, and for each state its mode and its entries' offsets. A pure function, for any thread."""
        pieces: list[Piece] = header(MAGIC, [state.schema() for state in self.states])
        position = size_of(pieces)
        layout = {}
        for number, state in enumerate(self.states):
            offsets = []
            for batch in state.batches():
                entry = section((number, 0, 0), [batch.serialize()])
                offsets.append(position)
                pieces += entry
                position += size_of(entry)
            layout[state.name] = StateMetaInfo(tuple(offsets), state.mode)
        return b"".join(pieces), layout


class OperatorStateFile(FramedFile):
    """A file of operator state, read an entry at a time."""

    magic = MAGIC
    what = "operator state"

    def entry(self, name: str, offset: int) -> pa.RecordBatch:
        """Return the rows of the entry of state `name` at `offset`."""
        where = f"the entry of {name!r} at offset {offset}"
        (number, _, _), body = self.section(where, offset)
        batch = self.batch(where, number, pa.BufferReader(body))
        if state_name(batch.schema) != name:
            raise self._damaged(where, f"an entry of {state_name(batch.schema)!r} is there")
        return batch


class OperatorStateStore:
    """All operator state of one subtask, by name."""

    def __init__(self) -> None:
        self._states: dict[str, OperatorStateEntry] = {}
        self._registered: set[str] = set()

    def __repr__(self) -> str:
        return f"OperatorStateStore({', '.join(f'{name} {len(s)}' for name, s in sorted(self._states.items()))})"

    @property
    def states(self) -> Mapping[str, OperatorStateEntry]:
        """The existing lists and maps, by name."""
        return self._states

    def list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return the list of this name, whose entries a rescale redistributes; registered, or adopted if restored."""
        return self._list(descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def union_list_state(self, descriptor: ListStateDescriptor) -> OperatorListState:
        """Return the list of this name, all of whose entries go to all subtasks on a restore."""
        return self._list(descriptor, OperatorStateMode.UNION)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState:
        """Return the map of this name, the same on all subtasks."""
        _check_no_ttl(descriptor)
        stored = descriptor.stored_type
        wanted = BroadcastState(descriptor.name, stored.key_type, stored.item_type)
        state = self._registered_as(wanted)
        assert isinstance(state, BroadcastState)
        return state

    def snapshot(self) -> OperatorStateSnapshot | None:
        """Take the synchronous part of a snapshot: copy lists and maps without their elements. None without entries."""
        states = tuple(state.copy() for _, state in sorted(self._states.items()) if len(state))
        return OperatorStateSnapshot(states) if states else None

    def close(self) -> None:
        """Release all state, because the subtask ends. Snapshots that were taken keep theirs."""
        self._states.clear()
        self._registered.clear()

    def restore(self, parts: Iterable[tuple[EntryOffsets, bytes | pa.Buffer]]) -> None:
        """Restore the entries that handles list from their files, in this order.

        States may be registered before or after. Raises StateRestoreError for damaged files, and StateDescriptorError
        if a stored state has another type or mode than the registered one.
        """
        origins: dict[str, str] = defaultdict(str)
        for handle, data in parts:
            file = OperatorStateFile(data, file_name(handle))
            for name, info in handle.state_name_to_partition_offsets.items():
                for offset in info.offsets:
                    batch = file.entry(name, offset)
                    self._restored(batch.schema, info.mode, file.name, origins[name]).take_in(batch)
                    origins[name] = file.name

    def _list(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> OperatorListState:
        _check_no_ttl(descriptor)
        state = self._registered_as(OperatorListState(descriptor.name, mode, descriptor.stored_type.value_type))
        assert isinstance(state, OperatorListState)
        return state

    def _registered_as(self, wanted: OperatorStateEntry) -> OperatorStateEntry:
        state = self._states.setdefault(wanted.name, wanted)
        if not _same(state, wanted):
            is_restored = wanted.name not in self._registered
            if not is_restored or not _becomes(state, wanted):
                raise StateDescriptorError(
                    f"Operator state {wanted.name!r} was {'restored' if is_restored else 'registered'} as "
                    f"{_described(state)}, and is requested as {_described(wanted)}: "
                    + (_advice(state, wanted) if is_restored else "use another name, or the same descriptor")
                )
            state = self._states[wanted.name] = _evolved(state, wanted)
        self._registered.add(wanted.name)
        return state

    def _restored(self, schema: pa.Schema, mode: OperatorStateMode, file: str, other_file: str) -> OperatorStateEntry:
        name = state_name(schema)
        found: OperatorStateEntry
        if schema.names == ["key", "value"]:
            found = BroadcastState(name, schema.field("key").type, schema.field("value").type)
        else:
            found = OperatorListState(name, mode, schema.field("element").type)
        state = self._states.setdefault(name, found)
        if _same(state, found):
            return state
        is_newer = newest_type([_values(state), _values(found)]) == _values(found)
        if is_newer and name not in self._registered and _becomes(state, found):
            state = self._states[name] = _evolved(state, found)
        if _becomes(found, state):
            return state
        if other_file:
            raise StateRestoreError(
                f"Operator state {name!r} is {_described(state)} in {other_file!r}, and {_described(found)} in {file!r}"
            )
        raise StateDescriptorError(
            f"Operator state {name!r} was registered as {_described(state)}, and is stored as {_described(found)} in "
            f"{file!r}: {_advice(found, state)}"
        )


def _schema(fields: list[pa.Field], name: str, kind: StateKind) -> pa.Schema:
    return pa.schema(fields, {"state": name, "kind": str(kind)})


def _check_no_ttl(descriptor: ListStateDescriptor | MapStateDescriptor) -> None:
    if descriptor.ttl is not None:
        raise StateDescriptorError(
            f"Operator state {descriptor.name!r} has a TTL, but only keyed state expires, as in Flink: remove the TTL, "
            "or use the descriptor behind key_by"
        )


def _same(one: OperatorStateEntry, other: OperatorStateEntry) -> bool:
    return one.mode is other.mode and one.schema() == other.schema()


def _values(state: OperatorStateEntry) -> pa.DataType:
    """Return the type of the entries of a list, or of the values of a map."""
    return state.schema().field(-1).type


def _differs_in_values_only(one: OperatorStateEntry, other: OperatorStateEntry) -> bool:
    return one.mode is other.mode and list(one.schema())[:-1] == list(other.schema())[:-1]


def _becomes(stored: OperatorStateEntry, wanted: OperatorStateEntry) -> bool:
    """Return True if stored entries can be restored as those of a newer job."""
    return _differs_in_values_only(stored, wanted) and evolves(_values(stored), _values(wanted))


def _advice(stored: OperatorStateEntry, wanted: OperatorStateEntry) -> str:
    if _differs_in_values_only(stored, wanted):
        return refusal(_values(stored), _values(wanted))
    return "use another name, or the descriptor it was stored with"


def _evolved(stored: OperatorStateEntry, wanted: OperatorStateEntry) -> OperatorStateEntry:
    """Return an entry of a newer type with the values of a stored one."""
    for batch in stored.batches():
        wanted.take_in(batch)
    return wanted


def _described(state: OperatorStateEntry) -> str:
    types = " to ".join(str(field.type) for field in state.schema())
    return f"{state.mode.name} of {types}"
