"""Keyed snapshots: what a keyed backend writes at a checkpoint, and how it is read back.

A snapshot is taken in two steps. ``backend.snapshot()`` is the synchronous part: it copies the columns that may change
and nothing else. ``KeyedSnapshot.encode()`` is the asynchronous part: a pure function of the copy, for any thread.

The file, integers little endian, everything padded to 8 bytes:

    header    magic "KEYSTATE" | u32 states | u64 length | u32 crc | length bytes: an Arrow IPC schema message a state
    section   u32 key group | u32 frames | u32 0 | u64 length | u32 crc | length bytes: frame, frame, ...
    frame     u32 state | u32 0 | an Arrow IPC record batch message

There is a section for each key group that has rows, in order, and in it a frame for each state that has rows there. A
schema message followed by the batches of its state is an Arrow IPC stream; its metadata holds the state's name, kind
and maximum parallelism. A state's columns are ``key``, ``namespace`` if it has namespaces, and ``value``; timers have
``timestamp_ms``, ``key`` and ``namespace``. One key group can be read from the header and its section alone.

The bytes depend on the state's content only: states are ordered by name, rows by key and namespace (timers by timestamp
first), maps by key. So two hosts that hold the same state write the same file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.state.errors import StateRestoreError
from kit.state.handles import NO_OFFSET_SET, KeyGroupRange
from kit.state.key_codec import Decoder, order_of_rows
from kit.state.key_groups import key_groups
from kit.state.slot_index import FrozenIndex
from kit.state.value_columns import FrozenColumn

MAGIC = b"KEYSTATE"
EVENT_TIMERS, PROCESSING_TIMERS = "event-time timers", "processing-time timers"

_HEADER = struct.Struct("<8sIQ")
_SECTION = struct.Struct("<IIIQ")
_CRC = struct.Struct("<I")  # of the header or section before it, and all that follows it
_FRAME = struct.Struct("<II")
_PREFIX_BYTES = _HEADER.size + _CRC.size
assert _HEADER.size == _SECTION.size


# ---- writing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrozenState:
    """One state or timer queue at one moment: code columns with their decoders, and for a state its values."""

    name: str
    kind: str
    fields: tuple[pa.Field, ...]
    index: FrozenIndex
    decoders: tuple[Decoder, ...]
    key_column: int
    values: FrozenColumn | None

    def schema(self, max_parallelism: int) -> pa.Schema:
        """The columns, with the state's name, kind and maximum parallelism as metadata."""
        metadata = {"state": self.name, "kind": self.kind, "max_parallelism": str(max_parallelism)}
        return pa.schema(self.fields, metadata)

    def rows(self, max_parallelism: int) -> tuple[pa.RecordBatch, npt.NDArray[np.uint16]]:
        """All rows in the order of a checkpoint, and the key group of each."""
        codes = [self.index.codes(column) for column in range(len(self.decoders))]
        keys = self.decoders[self.key_column].decode(codes[self.key_column])
        groups = key_groups(keys, max_parallelism)
        order = order_of_rows([decoder.ranks(column) for decoder, column in zip(self.decoders, codes, strict=True)])
        order = order[np.argsort(groups.take(order), kind="stable")]
        columns = [decoder.decode(column.take(order)) for decoder, column in zip(self.decoders, codes, strict=True)]
        if self.values is not None:
            columns.append(self.values.get(self.index.slots.take(order)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(max_parallelism)), groups.take(order)


@dataclass(frozen=True, slots=True)
class KeyedSnapshot:
    """The keyed state of one subtask at one moment: at least one row."""

    key_group_range: KeyGroupRange
    max_parallelism: int
    states: tuple[FrozenState, ...]

    def __repr__(self) -> str:
        rows = ", ".join(f"{state.name} {len(state.index.slots)} rows" for state in self.states)
        return f"KeyedSnapshot(key groups {self.key_group_range.start}-{self.key_group_range.end}: {rows})"

    def encode(self) -> tuple[bytes, tuple[int, ...]]:
        """The file, and the offset of each key group of the range (``NO_OFFSET_SET`` where it has no rows).

        A pure function of the snapshot: may run in any thread while the backend goes on.
        """
        frames: dict[int, list[pa.Buffer | bytes]] = {}
        for number, state in enumerate(self.states):
            batch, groups = state.rows(self.max_parallelism)
            present, starts = np.unique(groups, return_index=True)
            ends = [*starts[1:].tolist(), len(groups)]
            for key_group, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
                message = batch.slice(start, end - start).serialize()
                frames.setdefault(key_group, []).extend((_FRAME.pack(number, 0), message))
        parts: list[pa.Buffer | bytes] = self._header()
        position = sum(map(len, parts))
        offsets = [NO_OFFSET_SET] * len(self.key_group_range)
        for key_group, section in sorted(frames.items()):
            length = sum(map(len, section))
            offsets[key_group - self.key_group_range.start] = position
            parts.extend(_sealed(_SECTION.pack(key_group, len(section) // 2, 0, length), section))
            position += _PREFIX_BYTES + length
        return b"".join(parts), tuple(offsets)

    def _header(self) -> list[pa.Buffer | bytes]:
        schemas: list[pa.Buffer | bytes] = [state.schema(self.max_parallelism).serialize() for state in self.states]
        return _sealed(_HEADER.pack(MAGIC, len(schemas), sum(map(len, schemas))), schemas)


def _sealed(prefix: bytes, parts: list[pa.Buffer | bytes]) -> list[pa.Buffer | bytes]:
    crc = zlib.crc32(prefix)
    for part in parts:
        crc = zlib.crc32(part, crc)
    return [prefix, _CRC.pack(crc), *parts]


# ---- reading ----------------------------------------------------------------------------------------------------


class KeyedStateFile:
    """A file of keyed state, read a key group at a time. ``name`` is what errors call it.

    Everything raises StateRestoreError, naming the file and what part of it is damaged.
    """

    def __init__(self, data: bytes | pa.Buffer, name: str) -> None:
        self.name = name
        self._data = pa.py_buffer(data)

    def __repr__(self) -> str:
        return f"KeyedStateFile({self.name!r}, {self._data.size} bytes)"

    @cached_property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The schema of each state; its metadata holds the state's name, kind and maximum parallelism."""
        where = "the header"
        magic, states, length = self._prefix(where, 0, _HEADER)
        if magic != MAGIC:
            raise self._damaged(where, f"it starts with {magic!r}, keyed state starts with {MAGIC!r}")
        body = self._body(where, 0, length)
        reader = pa.BufferReader(body)
        return tuple(self._arrow(where, pa.ipc.read_schema, reader) for _ in range(states))

    def key_group(self, key_group: int, offset: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The number of each state with rows in the key group whose section is at ``offset``, and these rows."""
        where = f"key group {key_group} at offset {offset}"
        schemas = self.schemas
        found, frames, _, length = self._prefix(where, offset, _SECTION)
        if found != key_group:
            raise self._damaged(where, f"another key group is there: {found}")
        reader = pa.BufferReader(self._body(where, offset, length))
        for _ in range(frames):
            number, _ = _FRAME.unpack(reader.read(_FRAME.size))
            if number >= len(schemas):
                raise self._damaged(where, f"state number {number}, the header names {len(schemas)}")
            message = self._arrow(where, pa.ipc.read_message, reader)
            yield (
                number,
                self._arrow(f"{where}, state {state_name(schemas[number])!r}", _read_batch, message, schemas[number]),
            )

    def _prefix(self, where: str, offset: int, layout: struct.Struct) -> tuple[Any, ...]:
        if not 0 <= offset <= self._data.size - _PREFIX_BYTES:
            raise self._damaged(where, f"the file has only {self._data.size} bytes: it was cut off")
        return layout.unpack(self._data[offset : offset + layout.size])

    def _body(self, where: str, offset: int, length: int) -> pa.Buffer:
        start = offset + _PREFIX_BYTES
        if start + length > self._data.size:
            raise self._damaged(where, f"it ends at byte {start + length} of {self._data.size}: the file was cut off")
        body = self._data.slice(start, length)
        (crc,) = _CRC.unpack(self._data[start - _CRC.size : start])
        if zlib.crc32(body, zlib.crc32(self._data[offset : start - _CRC.size])) != crc:
            raise self._damaged(where, "its checksum does not match: bytes were changed")
        return body

    def _arrow(self, where: str, read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except (pa.ArrowException, OSError, EOFError, struct.error) as error:
            raise self._damaged(where, str(error)) from error

    def _damaged(self, where: str, reason: str) -> StateRestoreError:
        return StateRestoreError(
            f"Keyed state file {self.name!r} is damaged in {where}: {reason}. Restore from an older checkpoint"
        )


def state_name(schema: pa.Schema) -> str:
    """The name of the state a schema of a file belongs to."""
    return schema.metadata[b"state"].decode()


def state_kind(schema: pa.Schema) -> str:
    """Its kind: a StateKind's word, or the kind of timers."""
    return schema.metadata[b"kind"].decode()


def _read_batch(message: pa.Message, schema: pa.Schema) -> pa.RecordBatch:
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    return batch
