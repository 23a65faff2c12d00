"""Run files: the part of a keyed state that one incremental snapshot wrote.

A run is a file of keyed state (`kit.stream.backend.files.snapshot`) with an index behind it:

    header, sections    as in every file of keyed state
    index               section: u32 first key group | u32 key groups | u32 "INDX"; the offset of each, i64
    end                 u64 offset of the index | magic "KEYSRUN", 8 bytes

So runs are read without knowing anything but their order, and only the wanted key groups of each. The first run of a
checkpoint has all entries at its moment; each other one has the entries that were written since the run before it, and
the keys of those that were removed. The kind of a state that holds such keys begins with "removed ": its columns are
those of the state without the values. In one run, first keys are removed, then entries are set.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    StreamStateHandle,
)
from kit.stream.backend.files.framing import Piece, section, state_kind
from kit.stream.backend.files.partial_file import PartialFile, ReadRange
from kit.stream.backend.files.snapshot import KeyedSnapshot, KeyedStateFile, at_once
from kit.stream.backend.runs.manifest import RunEntry, decode_manifest, files_in_order

REMOVED = "removed "
"""The beginning of the kind of a state that holds the keys of removed entries."""
_INDEX = int.from_bytes(b"INDX", "little")
_END = struct.Struct("<Q8s")
_END_MAGIC = b"KEYSRUN\0"
_READ_AT_ONCE_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A keyed snapshot that is written as a run."""

    snapshot: KeyedSnapshot

    @property
    def is_large(self) -> bool:
        """True if it should be written piece by piece."""
        return self.snapshot.is_large

    def encode(self) -> tuple[pa.Buffer, tuple[int, ...]]:
        """Return the file, and the offset of each key group, as `KeyedSnapshot.encode` does."""
        return at_once(self.write)

    def write(self, out: Callable[[Piece], object]) -> tuple[int, ...]:
        """Write the file to `out` in pieces, and return the offsets."""
        position = 0

        def counted(piece: Piece) -> None:
            nonlocal position
            position += len(piece)
            out(piece)

        offsets = self.snapshot.write(counted)
        where, covered = position, self.snapshot.key_group_range
        for piece in section((covered.start, len(covered), _INDEX), [np.array(offsets, "<i8").tobytes()]):
            out(piece)
        out(_END.pack(where, _END_MAGIC))
        return offsets


def is_removal(schema: pa.Schema) -> bool:
    """Return True for the schema of a state that holds the keys of removed entries."""
    return state_kind(schema).startswith(REMOVED)


def runs_in_order(
    handle: IncrementalRemoteKeyedStateHandle,
    manifest: bytes | pa.Buffer,
    reader: Callable[[StreamStateHandle], ReadRange],
) -> Iterator[tuple[RunEntry, KeyGroupsStateHandle, ReadRange]]:
    """Yield the runs of an incremental snapshot, oldest first, each with the places of its key groups and its reader.

    `reader` returns the function that reads a file. Raises StateRestoreError for damage, and what that
    function raises.
    """
    entries = decode_manifest(manifest, f"of {handle!r}")
    for entry, file in zip(entries, files_in_order(handle, entries), strict=True):
        read_range = reader(file.handle)
        yield entry, key_groups_of_run(file.handle, entry.name, read_range), read_range


def key_groups_of_run(stream: StreamStateHandle, name: str, read_range: ReadRange) -> KeyGroupsStateHandle:
    """Return the handle of a run's key groups, for which its index is read. Raises StateRestoreError if it is damaged,
    and what `read_range` raises.
    """
    size = stream.state_size
    if size < _END.size:
        raise StateRestoreError(f"Run {name!r} has only {size} bytes: it was cut off")
    begin = max(0, size - _READ_AT_ONCE_BYTES)
    tail = read_range(begin, size - begin)
    where, magic = _END.unpack(tail[tail.size - _END.size :])
    if magic != _END_MAGIC or where > size - _END.size:
        raise StateRestoreError(f"Run {name!r} ends with {bytes(magic)!r}, not with {_END_MAGIC!r}: it is damaged")
    if where < begin:
        begin, tail = where, read_range(where, size - where)
    file = KeyedStateFile(PartialFile(size, [(begin, tail)]), name)
    (first, count, kind), body = file.section("the index of key groups", where)
    offsets = tuple(np.frombuffer(body, "<i8").tolist())
    if kind != _INDEX or len(offsets) != count or not count:
        raise StateRestoreError(f"Run {name!r} has no index of key groups at offset {where}: it is damaged")
    return KeyGroupsStateHandle(KeyGroupRange(first, first + count - 1), offsets, stream, name)
