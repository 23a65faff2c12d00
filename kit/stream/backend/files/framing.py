"""The framing of state files: pieces that can be read, and checked, one at a time.

Integers are little endian, and every piece is padded to 8 bytes:

    header    magic, 8 bytes | u32 states | u64 length | u32 crc | length bytes: an Arrow IPC schema message a state
    section   u32 | u32 | u32 | u64 length | u32 crc | length bytes

The kind of file defines the three numbers of a section and its content. A crc covers all of its header or section,
including the numbers before it. A schema message's metadata holds the name and kind of its state.
"""

from __future__ import annotations

import struct
import zlib
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from kit.core.state.errors import StateRestoreError

Piece: TypeAlias = "bytes | pa.Buffer"


@runtime_checkable
class Sliceable(Protocol):
    """The bytes of a file, or of the wanted part of it: an Arrow buffer, or an object with the same methods."""

    @property
    def size(self) -> int: ...
    def slice(self, offset: int, length: int) -> pa.Buffer: ...


_HEADER = struct.Struct("<8sIQ")
_SECTION = struct.Struct("<IIIQ")
_CRC = struct.Struct("<I")
_SMALL_BYTES = 1 << 16
PREFIX_BYTES = _SECTION.size + _CRC.size  # before the body of a section, and of the header too


def header(magic: bytes, schemas: list[pa.Schema]) -> list[Piece]:
    """Return the pieces of a header."""
    messages: list[Piece] = [schema.serialize() for schema in schemas]
    return _sealed(_HEADER.pack(magic, len(messages), size_of(messages)), messages)


def section(numbers: tuple[int, int, int], body: list[Piece]) -> list[Piece]:
    """Return the pieces of a section."""
    return _sealed(_SECTION.pack(*numbers, size_of(body)), body)


def size_of(pieces: list[Piece]) -> int:
    """Return the total size of the pieces, in bytes."""
    return sum(map(len, pieces))


def joined(pieces: list[Piece]) -> pa.Buffer:
    """Return the pieces as one buffer; large ones are copied in a way that lets other threads run."""
    if size_of(pieces) <= _SMALL_BYTES:
        return pa.py_buffer(b"".join(pieces))
    whole = pa.allocate_buffer(size_of(pieces))
    with pa.FixedSizeBufferWriter(whole) as writer:
        for piece in pieces:
            writer.write(piece)
    return whole


def _sealed(prefix: bytes, body: list[Piece]) -> list[Piece]:
    crc = zlib.crc32(prefix)
    for piece in body:
        crc = zlib.crc32(piece, crc)
    return [prefix, _CRC.pack(crc), *body]


def header_bytes(start: pa.Buffer) -> int:
    """Return the length of the header with this start, including everything before its body."""
    return PREFIX_BYTES + int(_HEADER.unpack(start[: _HEADER.size])[2])


def body_bytes(prefix: pa.Buffer) -> int:
    """Return the length of the body of the section with this start."""
    return int(_SECTION.unpack(prefix[: _SECTION.size])[3])


class FramedFile:
    """A state file for reading. `name` is its name in errors, all of which are StateRestoreErrors."""

    magic: ClassVar[bytes]
    what: ClassVar[str]

    def __init__(self, data: Piece | Sliceable, name: str) -> None:
        self.name = name
        self._data = data if isinstance(data, Sliceable) else pa.py_buffer(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._data.size} bytes)"

    @cached_property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The schema of each state; its metadata holds the state's name and kind."""
        where = "the header"
        magic, states, length = self._prefix(where, 0, _HEADER)
        if magic != self.magic:
            raise self._damaged(where, f"it starts with {magic!r}, {self.what} starts with {self.magic!r}")
        reader = pa.BufferReader(self._body(where, 0, length))
        return tuple(self._arrow(where, pa.ipc.read_schema, reader) for _ in range(states))

    def section(self, where: str, offset: int) -> tuple[tuple[int, int, int], pa.Buffer]:
        """Return the numbers and the body of the section at `offset`; errors call it `where`."""
        *numbers, length = self._prefix(where, offset, _SECTION)
        return (numbers[0], numbers[1], numbers[2]), self._body(where, offset, length)

    def batch(self, where: str, number: int, message: Any) -> pa.RecordBatch:
        """Return the record batch of state `number` in `message` (a buffer, or a reader positioned at it)."""
        if number >= len(self.schemas):
            raise self._damaged(where, f"it holds rows of state number {number}, the header names {len(self.schemas)}")
        schema = self.schemas[number]
        where = f"{where}, state {state_name(schema)!r}"
        batch = self._arrow(where, pa.ipc.read_record_batch, self._arrow(where, pa.ipc.read_message, message), schema)
        self._arrow(where, lambda: batch.validate(full=True))
        return batch

    def _prefix(self, where: str, offset: int, layout: struct.Struct) -> tuple[Any, ...]:
        if not 0 <= offset <= self._data.size - PREFIX_BYTES:
            raise self._damaged(where, f"the file has only {self._data.size} bytes: it was cut off")
        return layout.unpack(self._bytes(where, offset, layout.size))

    def _body(self, where: str, offset: int, length: int) -> pa.Buffer:
        start = offset + PREFIX_BYTES
        if start + length > self._data.size:
            raise self._damaged(where, f"it ends at byte {start + length} of {self._data.size}: the file was cut off")
        body = self._bytes(where, start, length)
        (crc,) = _CRC.unpack(self._bytes(where, start - _CRC.size, _CRC.size))
        if zlib.crc32(body, zlib.crc32(self._bytes(where, offset, _SECTION.size))) != crc:
            raise self._damaged(where, "its checksum does not match: bytes were changed")
        return body

    def _bytes(self, where: str, offset: int, length: int) -> pa.Buffer:
        try:
            return self._data.slice(offset, length)
        except ValueError as error:
            raise self._damaged(where, str(error)) from error

    def _arrow(self, where: str, read: Any, *arguments: Any) -> Any:
        try:
            return read(*arguments)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise self._damaged(where, str(error)) from error

    def _damaged(self, where: str, reason: str) -> StateRestoreError:
        return StateRestoreError(
            f"{self.what.capitalize()} file {self.name!r} is damaged in {where}: {reason}. "
            "Restore from an older checkpoint"
        )


def file_name(handle: Any) -> str:
    """Return the name of a handle's file in errors: its path, else its id."""
    delegate = getattr(handle, "delegate", None)
    return getattr(delegate, "path", None) or getattr(delegate, "physical_id", None) or repr(handle)


def state_name(schema: pa.Schema) -> str:
    """Return the name of the state that a schema of a file belongs to."""
    return schema.metadata[b"state"].decode()


def state_kind(schema: pa.Schema) -> str:
    """Return the kind of a schema's state: a StateKind's value, or the kind of timers."""
    return schema.metadata[b"kind"].decode()
