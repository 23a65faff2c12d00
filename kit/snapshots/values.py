"""The values in a snapshot's files, as tables: read piece by piece with the readers that a restore uses.

State that Flink wrote, and the runs of incremental state, are decoded as an opened checkpoint decodes them
(`kit.snapshots.checkpoints`).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kit.core.metadata import hook_states
from kit.core.protocol.elements import Buffer
from kit.core.state.errors import StateError
from kit.core.state.handles import IncrementalRemoteKeyedStateHandle
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer
from kit.run.sizes import size_text
from kit.snapshots import state_tables
from kit.snapshots.checkpoints.keyed_parts import ArrowKeyedPart, KeyedPart, StateInfo, parts_of
from kit.snapshots.checkpoints.operator_parts import OperatorPart, operator_parts_of
from kit.snapshots.checkpoints.state_bytes import StateBytes
from kit.snapshots.formats.headers import TIMER
from kit.snapshots.formats.rows import Rows
from kit.snapshots.pieces import (
    ARRIVED,
    BROADCAST,
    COORDINATOR,
    KEYED,
    MODES,
    NOT_SENT,
    RAW_KEYED,
    RAW_OPERATOR,
    SPLIT,
    UNION,
    Piece,
)
from kit.snapshots.serializers.reading import NO_DECODERS
from kit.snapshots.source import Snapshot, inline_bytes
from kit.snapshots.state_tables import StateTable, StateTables
from kit.stream.backend.files.framing import state_kind, state_name
from kit.stream.backend.files.snapshot import EVENT_TIMERS, PROCESSING_TIMERS, KeyedStateFile
from kit.stream.backend.files.snapshot import MAGIC as KEYED_MAGIC
from kit.stream.backend.operator_store import MAGIC as OPERATOR_MAGIC
from kit.stream.backend.operator_store import OperatorStateFile
from kit.stream.backend.timers import EVENT_TIMER_PREFIX, PROCESSING_TIMER_PREFIX
from kit.stream.connectors.sink import COMMITTABLES_STATE
from kit.stream.operators.sources.source_operator import SPLITS_STATE

MOST_BYTES = 64_000_000
"""The most bytes that are read to show values."""
_NOT_READ = f"what is beyond the first {MOST_BYTES // 1_000_000} MB was not read"
MOST_REASONS = 6
"""The most reasons for unreadable state that are listed in full."""
FoundRows = Iterator[tuple[str, str, pa.Table]]
"""Kind, name and rows of state."""
_CHANNELS = {
    ARRIVED: "sent before the barrier, taken after the state was copied",
    NOT_SENT: "not sent yet when the barrier overtook it",
}


def values_of(snapshot: Snapshot) -> StateTables:
    """Return the tables of all readable state; `note` lists the rest."""
    reader = _Reader(snapshot)
    tables: dict[tuple[str, str, str], list[pa.Table]] = {}
    for piece in snapshot.pieces:
        for kind, name, rows in reader.rows(piece):
            tables.setdefault((kind, piece.operator, name), []).append(rows)
    for kind, operator, name, rows in reader.operator_state():
        tables.setdefault((kind, operator, name), []).append(rows)
    for key, parts in reader.keyed_state().items():
        tables[key] = [*tables.get(key, ()), *_alike(parts)]
    for master in () if snapshot.metadata is None else hook_states(snapshot.metadata.master_states):
        master_rows = pa.table({"version": [master.version], "value": [_as_text(master.data)]})
        tables[state_tables.MASTER, "", master.name] = [master_rows]
    found = [StateTable(*key, pa.concat_tables(parts, promote_options="permissive")) for key, parts in tables.items()]
    return StateTables(f"What checkpoint {snapshot.checkpoint_id} holds", found, reader.note)


Keyed = dict[tuple[str, str, str], list[tuple[str, str, Rows | pa.Table]]]
"""By kind, operator and name: task, domain of timers, and rows: decoded ones of Flink, or the kit's columns."""


def _alike(parts: list[tuple[str, str, Rows | pa.Table]]) -> list[pa.Table]:
    """Return the tables of several tasks with the same columns: times are text in all of them or in none."""
    tables = [_table(rows) for _, _, rows in parts]
    if len({table.schema for table in tables}) > 1:
        tables = [_table(rows, text=True) for _, _, rows in parts]
    return [
        _with_text(_with_text(table, "domain", domain) if domain else table, "task", task)
        for table, (task, domain, _) in zip(tables, parts, strict=True)
    ]


def _table(rows: Rows | pa.Table, *, text: bool = False) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else rows.table(text=text)


@dataclass
class _Reader:
    snapshot: Snapshot
    data: dict[tuple[str, bool], pa.Buffer | None] = field(default_factory=dict)
    read_bytes: int = 0
    missing: set[str] = field(default_factory=set)
    undecoded: dict[tuple[str, str], int] = field(default_factory=dict)
    """The bytes of state that are not decoded, by operator and reason."""

    def __post_init__(self) -> None:
        metadata = self.snapshot.metadata
        self._inline = {} if metadata is None else inline_bytes(metadata)
        self._labels = {each.operator_id: each.operator for each in self.snapshot.pieces}

    @property
    def note(self) -> str:
        """A text about the state that was not read, with the reasons."""
        kept = (f"{operator}: {size_text(size)} of state, {why}" for (operator, why), size in self.undecoded.items())
        names = [*sorted(kept), *sorted(self.missing)]
        more = [f"and {len(names) - MOST_REASONS} more"] if len(names) > MOST_REASONS else []
        return "; ".join([*names[:MOST_REASONS], *more])

    def rows(self, piece: Piece) -> Iterator[tuple[str, str, pa.Table]]:
        """Yield kind, name and rows of the content of a piece."""
        read = _READ.get(piece.kind)
        data = None if read is None else self._bytes(piece)
        if read is None or data is None:
            return
        try:
            for kind, name, rows in read(piece, data):
                task = f"{piece.operator}/{piece.subtask}" if piece.subtask is not None else piece.operator
                yield kind, name, _with_text(rows, "task", task)
        except _ForeignError:
            return
        except (StateError, OSError, ValueError, pa.ArrowException) as error:
            self.missing.add(f"{piece.operator}/{piece.subtask}: {error}")

    def keyed_state(self) -> Keyed:
        """Return the keyed state that Flink wrote, and the kit's in runs; what cannot be decoded is counted."""
        found: Keyed = {}
        for operator, label, subtask, state, source in self._subtasks():
            for handle in state.managed_keyed_state:
                try:
                    for part in parts_of((handle,), (), source, operator.max_parallelism, NO_DECODERS):
                        if isinstance(part, KeyedPart):
                            self._decode(part, label, f"{label}/{subtask}", found)
                        elif isinstance(handle, IncrementalRemoteKeyedStateHandle):
                            _merge(part, label, f"{label}/{subtask}", found)
                except StateError as error:
                    self._not_decoded(label, error, handle.state_size)
        return found

    def _decode(self, part: KeyedPart, label: str, task: str, found: Keyed) -> None:
        for name, state in part.states.items():
            rows = Rows(state)
            try:
                part.decode(name, part.groups(), lambda _, into=rows: into)  # type: ignore[misc]
            except StateError as error:
                self._not_decoded(label, error, 0)
                continue
            if rows.is_empty:
                continue
            domain, key = "", (state_tables.KEYED, label, name)
            if state.kind == TIMER:
                domain = "processing time" if "/processing_" in name else "event time"
                key = state_tables.TIMERS, label, name.partition("/")[2].partition("_")[2]
            found.setdefault(key, []).append((task, domain, rows))

    def operator_state(self) -> Iterator[tuple[str, str, str, pa.Table]]:
        """Yield kind, operator, name and rows of the operator state that Flink wrote."""
        for _, label, subtask, state, source in self._subtasks():
            lists = state.managed_operator_state
            try:
                streams = (source.stream(each.delegate) for each in lists)
                for each in operator_parts_of(iter(lists), streams, NO_DECODERS):
                    for info in each.infos() if isinstance(each, OperatorPart) else ():
                        rows = each.table(info.name)
                        if rows is not None and rows.num_rows:
                            rows = _with_text(rows, "task", f"{label}/{subtask}")
                            yield MODES[info.kind], label, info.name, rows
            except StateError as error:
                self._not_decoded(label, error, sum(each.state_size for each in lists))

    def _subtasks(self) -> Iterator[tuple[OperatorState, str, int, OperatorSubtaskState, StateBytes]]:
        """Yield the subtasks whose files can be read, with their operators, up to a number of bytes."""
        metadata, files, read = self.snapshot.metadata, self.snapshot.files, 0
        if metadata is None or files is None:
            return
        source = StateBytes(files, posixpath.dirname(self.snapshot.path))
        for operator in metadata.operator_states:
            label = self._labels.get(operator.operator_id, operator.label)
            for subtask, state in sorted(operator.subtask_states.items()):
                read += state.state_size
                if read > MOST_BYTES:
                    self.missing.add(_NOT_READ)
                    return
                yield operator, label, subtask, state, source

    def _not_decoded(self, label: str, error: StateError, size: int) -> None:
        place = label, str(error)
        self.undecoded[place] = self.undecoded.get(place, 0) + size

    def _bytes(self, piece: Piece) -> pa.Buffer | None:
        key = piece.file, piece.inline
        if key not in self.data:
            self.data[key] = self._load(piece)
        return self.data[key]

    def _load(self, piece: Piece) -> pa.Buffer | None:
        if piece.inline:
            held = self._inline.get(piece.file)
            return None if held is None else pa.py_buffer(held)
        if self.snapshot.files is None:
            return None
        try:
            data = self.snapshot.files.read(piece.file) if self.read_bytes < MOST_BYTES else None
        except (OSError, StateError) as error:
            self.missing.add(str(error))
            return None
        if data is None:
            self.missing.add(_NOT_READ)
        else:
            self.read_bytes += data.size
        return data


def _merge(part: ArrowKeyedPart, label: str, task: str, found: Keyed) -> None:
    """Add the rows that the kit's runs leave together, in the columns of a full snapshot."""
    for info in part.infos():
        parts = [rows for _, rows in part.tables(info.name, part.groups()) if rows.num_rows]
        if parts:
            rows, (key, domain) = pa.concat_tables(parts), _place_of(info, label)
            first = ["time_ms", "key_group"] if domain else []
            rows = rows.select([*first, *(each for each in rows.column_names if each not in first)])
            found.setdefault(key, []).append((task, domain, rows))


def _place_of(info: StateInfo, label: str) -> tuple[tuple[str, str, str], str]:
    """Return the table of the kit's state, and the domain of its timers."""
    for prefix, domain in ((EVENT_TIMER_PREFIX, "event time"), (PROCESSING_TIMER_PREFIX, "processing time")):
        if info.kind == TIMER and info.name.startswith(prefix):
            return (state_tables.TIMERS, label, info.name.removeprefix(prefix)), domain
    return (state_tables.KEYED, label, info.name), ""


def _with_text(rows: pa.Table, name: str, text: str) -> pa.Table:
    return rows.add_column(0, name, pa.array([text] * rows.num_rows, pa.string()))


class _ForeignError(Exception):
    """Bytes that another program wrote."""


def _keyed(piece: Piece, data: pa.Buffer) -> FoundRows:
    assert piece.key_group is not None
    if data[: len(KEYED_MAGIC)].to_pybytes() != KEYED_MAGIC:
        raise _ForeignError
    for _, batch in KeyedStateFile(data, piece.file).key_group(piece.key_group, piece.start):
        kind, name = state_kind(batch.schema), state_name(batch.schema)
        rows = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        group = pa.array([piece.key_group] * rows.num_rows, pa.int32())
        if kind in (EVENT_TIMERS, PROCESSING_TIMERS):
            domain = kind.removesuffix(" timers").replace("event-time", "event time").replace("-", " ")
            name = name.removeprefix(EVENT_TIMER_PREFIX).removeprefix(PROCESSING_TIMER_PREFIX)
            rows = _with_text(rows.rename_columns(["time_ms", *rows.column_names[1:]]), "domain", domain)
            yield state_tables.TIMERS, name, rows.add_column(2, "key_group", group)
        else:
            yield state_tables.KEYED, name, rows.add_column(0, "key_group", group)


def _entry(piece: Piece, data: pa.Buffer) -> FoundRows:
    if data[: len(OPERATOR_MAGIC)].to_pybytes() != OPERATOR_MAGIC:
        raise _ForeignError
    batch = OperatorStateFile(data, piece.file).entry(piece.name, piece.start)
    rows = pa.Table.from_batches([batch]).replace_schema_metadata(None)
    if piece.kind == BROADCAST:
        yield BROADCAST, piece.name, rows
        return
    for kind, state in ((state_tables.SOURCE, SPLITS_STATE), (state_tables.STAGED, COMMITTABLES_STATE)):
        if piece.name == state.name and rows["element"].type == state.element_type:
            parts = [pa.RecordBatch.from_struct_array(part) for part in rows["element"].chunks]
            yield kind, piece.operator, pa.Table.from_batches(parts)
            return
    entry = pa.array([piece.entry] * rows.num_rows, pa.int64())
    yield piece.kind, piece.name, rows.rename_columns(["value"]).add_column(0, "entry", entry)


def _buffer(piece: Piece, data: pa.Buffer) -> FoundRows:
    serializer, source = ChannelStateSerializer(), pa.BufferReader(data)
    source.seek(piece.start)
    for element in serializer.read_data(source, serializer.read_length(source)):
        records = element.batch.to_pylist() if isinstance(element, Buffer) else [None]
        texts = [repr(element) if record is None else json.dumps(record, default=str) for record in records]
        rows = pa.table(
            {"place": [_CHANNELS[piece.kind]] * len(texts), "entry": [piece.entry] * len(texts), "record": texts}
        )
        yield state_tables.IN_FLIGHT, piece.name, rows


def _raw(piece: Piece, data: pa.Buffer) -> FoundRows:
    held = data.slice(piece.start, piece.size).to_pybytes()
    rows = pa.table({"key_group": pa.array([piece.key_group], pa.int32()), "value": pa.array([held], pa.binary())})
    yield state_tables.RAW, piece.kind, rows


def _coordinator(piece: Piece, data: pa.Buffer) -> FoundRows:
    yield state_tables.COORDINATOR, piece.operator, pa.table({"value": [_as_text(data.to_pybytes())]})


def _as_text(data: bytes) -> str:
    """Return bytes as text if they are valid text, otherwise in hexadecimal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return text if text.isprintable() else data.hex()


_READ = {
    KEYED: _keyed,
    SPLIT: _entry,
    UNION: _entry,
    BROADCAST: _entry,
    RAW_KEYED: _raw,
    RAW_OPERATOR: _raw,
    ARRIVED: _buffer,
    NOT_SENT: _buffer,
    COORDINATOR: _coordinator,
}


def positions(tables: StateTables) -> Iterable[tuple[str, str, int]]:
    """Yield task, split and position of every source in the snapshot."""
    for table in tables.of(state_tables.SOURCE):
        for row in table.rows.to_pylist():
            yield row["task"], row["split"], row["position"]


def rows_in_flight(tables: StateTables) -> list[dict[str, Any]]:
    """Return the in-flight records in the snapshot."""
    return [row for table in tables.of(state_tables.IN_FLIGHT) for row in table.rows.to_pylist()]
