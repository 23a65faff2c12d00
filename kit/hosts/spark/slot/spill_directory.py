"""Spill directory: files of this machine for the rows of keyed state that memory has no room for.

The files have no names: each is deleted as soon as it is open, and its space is free once nobody reads it any more. So
nothing is left behind by a process that dies.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kit.core.state.errors import StateError
from kit.stream.backend.files.framing import Piece
from kit.stream.backend.files.partial_file import ReadRange

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""The function of glibc that returns freed memory; other libraries have none."""
_MUCH_BYTES = 1 << 24
_WRITTEN_AT_ONCE_BYTES = 1 << 18
_IN_MEMORY_BYTES = 1 << 20
"""The size up to which a range of a restored file is read into memory, where its rows may stay for some time."""
_COPIED_AT_ONCE_BYTES = 1 << 23


class SpillDirectory:
    """A spill space in a directory, which exists or is made; None: the directory for temporary files."""

    def __init__(self, directory: str | None = None) -> None:
        self.directory = tempfile.gettempdir() if directory is None else directory
        self._traffic = _Traffic()

    def __repr__(self) -> str:
        return f"SpillDirectory({self.directory!r})"

    def create(self) -> DiskWriter:
        """Begin a file. Raises StateError if that is impossible."""
        try:
            os.makedirs(self.directory, exist_ok=True)
            descriptor, path = tempfile.mkstemp(prefix="kit-state-", dir=self.directory)
            os.unlink(path)
        except OSError as error:
            raise _no_room(self.directory, error) from error
        return DiskWriter(self.directory, _Descriptor(descriptor), self._traffic)

    def through_disk(self, read_range: ReadRange) -> ReadRange:
        """Return a function that reads the same, long ranges into a file here, of which memory has what is in use.

        It raises what `read_range` raises, and StateError if there is no room.
        """

        def read(offset: int, length: int) -> pa.Buffer:
            if length <= _IN_MEMORY_BYTES:
                return read_range(offset, length)
            writer = self.create()
            for begin in range(offset, offset + length, _COPIED_AT_ONCE_BYTES):
                writer.write(read_range(begin, min(_COPIED_AT_ONCE_BYTES, offset + length - begin)))
            return writer.finish().mapped()

        return read

    def written(self, write: Callable[[Callable[[Piece], object]], Any]) -> tuple[pa.Buffer, Any]:
        """Return what `write` writes in pieces, in a file of which memory has what is in use, and what it returns.

        Raises what `write` raises, and StateError if there is no room.
        """
        writer = self.create()
        result = write(writer.write)
        return writer.finish().mapped(), result

    def return_memory(self) -> None:
        """Return to the system what Arrow and the C library keep of freed memory, if much was read or written."""
        if self._traffic.moved_bytes < _MUCH_BYTES:
            return
        self._traffic.moved_bytes = 0
        pa.default_memory_pool().release_unused()
        if _TRIM is not None:
            _TRIM(0)


@dataclass(slots=True)
class _Traffic:
    """The bytes that were read or written since memory was returned; approximate, since several threads count."""

    moved_bytes: int = 0


class _Descriptor:
    """An open file without a name, which is closed with the last reference."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class DiskFile:
    """A finished file."""

    def __init__(self, descriptor: _Descriptor, size: int, traffic: _Traffic) -> None:
        self._descriptor = descriptor
        self.size = size
        self._traffic = traffic

    def __repr__(self) -> str:
        return f"DiskFile({self.size} B)"

    def mapped(self) -> pa.Buffer:
        """Return all bytes. The system reads them when they are used, and may take their memory back."""
        return pa.py_buffer(mmap.mmap(self._descriptor.number, self.size, prot=mmap.PROT_READ))

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on. Raises StateError if the disk fails."""
        self._traffic.moved_bytes += size
        data = os.pread(self._descriptor.number, size, offset)
        if len(data) < size:
            raise StateError(f"{self!r} has only {len(data)} of {size} bytes at {offset}: the disk has failed")
        return data


class DiskWriter:
    """A file that is being written; pieces are collected."""

    def __init__(self, directory: str, descriptor: _Descriptor, traffic: _Traffic) -> None:
        self._directory = directory
        self._descriptor = descriptor
        self._traffic = traffic
        self._size = 0
        self._pieces: list[Piece] = []
        self._collected = 0

    def write(self, piece: Piece) -> None:
        """Append bytes. Raises StateError if the disk is full."""
        self._pieces.append(piece)
        self._collected += len(piece)
        if self._collected >= _WRITTEN_AT_ONCE_BYTES:
            self._flush()

    def finish(self) -> DiskFile:
        """Return the file. Raises StateError if the disk is full."""
        self._flush()
        return DiskFile(self._descriptor, self._size, self._traffic)

    def _flush(self) -> None:
        data = memoryview(b"".join(self._pieces))
        try:
            while data:
                data = data[os.write(self._descriptor.number, data) :]
        except OSError as error:
            raise _no_room(self._directory, error) from error
        self._size += self._collected
        self._traffic.moved_bytes += self._collected
        self._pieces, self._collected = [], 0


def _no_room(directory: str, error: OSError) -> StateError:
    return StateError(
        f"keyed state cannot be written to {directory!r} ({error.strerror}): free space there, or give the job another "
        "directory, state_directory=..., or more memory for its state, state_memory_mb=..."
    )
