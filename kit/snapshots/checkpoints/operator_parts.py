"""Operator state of one subtask: the entries of its lists, its broadcast maps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError, StateRestoreError
from kit.core.state.handles import OperatorStateMode, OperatorStreamStateHandle
from kit.snapshots.checkpoints.keyed_parts import StateInfo
from kit.snapshots.checkpoints.state_bytes import FileCheck, How, Stream
from kit.snapshots.checkpoints.versioned_items import ITEMS, decoded_items, is_versioned
from kit.snapshots.formats.compression import decompressed
from kit.snapshots.formats.headers import read_operator_header
from kit.snapshots.formats.operator_state import read_entry
from kit.snapshots.serializers.reading import Decoders
from kit.snapshots.serializers.types import column
from kit.stream.backend.operator_store import MAGIC, OperatorStateFile


class OperatorPart:
    """Operator state in Flink's layout."""

    def __init__(self, handle: OperatorStreamStateHandle, stream: Stream, decoders: Decoders) -> None:
        self._stream = stream
        self._offsets = {name: info.offsets for name, info in handle.state_name_to_partition_offsets.items()}
        every = sorted({offset for offsets in self._offsets.values() for offset in offsets})
        if every and not 0 <= every[0] <= every[-1] <= stream.size:
            stream.read(every[0] if every[0] < 0 else every[-1], 1)
        self._ends = dict(pairwise([*every, stream.size]))
        with stream.damage_from(0):
            self.header = read_operator_header(stream.read(0, every[0] if every else stream.size), decoders)

    def infos(self) -> list[StateInfo]:
        """Return the states."""
        return [
            StateInfo(
                state.name,
                state.mode,
                "" if state.key is None else state.key.name,
                "",
                state.value.name,
                {"value": state.value} if state.key is None else {"key": state.key, "value": state.value},
            )
            for state in self.header.states.values()
        ]

    def file_check(self) -> FileCheck:
        """Return the check of the file."""
        return FileCheck(self._stream.name, self._stream.size, self._check)

    def _check(self) -> How:
        for name in self._offsets:
            self.table(name)
        return How.CHECKSUMS if self.header.is_compressed and self._ends else How.LAYOUT

    def raw_entries(self, name: str) -> list[bytes]:
        """Return the bytes of each entry of a list, or of a broadcast map. Raises CheckpointError."""
        found: list[bytes] = []
        for offset in self._offsets.get(name, ()):
            held = self._stream.read(offset, self._ends[offset] - offset)
            with self._stream.damage_from(offset):
                found.append(decompressed(held) if self.header.is_compressed else held)
        return found

    def entries(self, name: str) -> list[Any]:
        """Return the elements of a list, or of a broadcast map its pairs. Raises CheckpointError."""
        state = self.header.states.get(name)
        if state is None:
            return []
        found: list[Any] = []
        for offset in self._offsets.get(name, ()):
            held = self._stream.read(offset, self._ends[offset] - offset)
            with self._stream.damage_from(offset):
                entry = read_entry(self.header, state, held)
            found += entry if state.key is not None else [entry]
        return found

    def table(self, name: str) -> pa.Table | None:
        """Return the elements as columns: entry and value, of a broadcast map key and value. None without any."""
        state = self.header.states.get(name)
        if state is None:
            return None
        found = self.entries(name)
        if state.key is not None:
            pairs = list(zip(*found, strict=True)) or [(), ()]
            return pa.table({"key": column(state.key, pairs[0]), "value": column(state.value, pairs[1])})
        items = _items(name, found)
        if items is None:
            entry = pa.array(range(len(found)), pa.int64())
            return pa.table({"entry": entry, "value": column(state.value, found)})
        fields = dict.fromkeys(field for _, each in items for field in each)
        columns = {field: pa.array([each.get(field) for _, each in items]) for field in fields}
        return pa.table({"entry": pa.array([entry for entry, _ in items], pa.int64()), **columns})


def _items(name: str, values: list[Any]) -> list[tuple[int, dict[str, Any]]] | None:
    """Return the items that a source or a sink keeps, with the entry they are in; None if these are other values."""
    if name not in ITEMS or not values or not all(is_versioned(each) for each in values):
        return None
    decoded = [decoded_items(name, each) for each in values]
    if any(each is None for each in decoded):
        return None
    return [(entry, each) for entry, items in enumerate(decoded) for each in items or ()]


class OwnOperatorPart:
    """Operator state that the kit wrote."""

    def __init__(self, handle: OperatorStreamStateHandle, stream: Stream) -> None:
        self._states = handle.state_name_to_partition_offsets
        self._file, self._name, self._size = OperatorStateFile(stream, stream.name), stream.name, stream.size

    def infos(self) -> list[StateInfo]:
        """Return the states."""
        return [
            StateInfo(name, OperatorStateMode(info.mode).name, "", "", self._type(name))
            for name, info in self._states.items()
        ]

    def file_check(self) -> FileCheck:
        """Return the check of the file."""
        return FileCheck(self._name, self._size, self._check)

    def _check(self) -> How:
        for name in self._states:
            self.table(name)
        return How.LAYOUT

    def _type(self, name: str) -> str:
        for schema in self._file.schemas:
            if (schema.metadata or {}).get(b"state") == name.encode():
                return ", ".join(f"{field.name}: {field.type}" for field in schema)
        return ""

    def table(self, name: str) -> pa.Table | None:
        """Return the elements as columns. None without any."""
        info = self._states.get(name)
        if info is None:
            return None
        parts = []
        for entry, offset in enumerate(info.offsets):
            try:
                rows = pa.Table.from_batches([self._file.entry(name, offset)]).replace_schema_metadata(None)
            except StateRestoreError as error:
                raise CheckpointError(str(error)) from error
            if info.mode is not OperatorStateMode.BROADCAST:
                rows = _flat(rows)
                rows = rows.add_column(0, "entry", pa.array([entry] * rows.num_rows, pa.int64()))
            parts.append(rows)
        return pa.concat_tables(parts) if parts else None


def _flat(rows: pa.Table) -> pa.Table:
    """Return the fields of elements that are structs, the splits of a source say, as columns."""
    if rows.column_names == ["element"] and pa.types.is_struct(rows["element"].type):
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(each) for each in rows["element"].chunks])
    return rows.rename_columns(["value"]) if rows.column_names == ["element"] else rows


def operator_parts_of(
    handles: Iterator[OperatorStreamStateHandle], streams: Iterator[Stream], decoders: Decoders
) -> Iterator[OperatorPart | OwnOperatorPart]:
    """Yield the parts of one subtask's managed operator state. Raises CheckpointError."""
    for handle, stream in zip(handles, streams, strict=True):
        if stream.size == 0:
            continue
        if stream.read(0, min(len(MAGIC), stream.size)) == MAGIC:
            yield OwnOperatorPart(handle, stream)
        else:
            yield OperatorPart(handle, stream, decoders)
