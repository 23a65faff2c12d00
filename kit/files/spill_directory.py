"""Spill directory: files of this machine for the rows of keyed state that memory has no room for.

The files have no names: each is deleted as soon as it is open, and its space is free once nobody reads it any more. So
nothing is left behind by a process that dies.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from kit.core.state.errors import StateError
from kit.stream.backend.files.framing import Piece

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""The function of glibc that returns freed memory; other libraries have none."""
_MUCH_BYTES = 1 << 24


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
            return DiskWriter(self.directory, tempfile.TemporaryFile(dir=self.directory), self._traffic)
        except OSError as error:
            raise _no_room(self.directory, error) from error

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


class DiskFile:
    """A finished file."""

    def __init__(self, stream: IO[bytes], size: int, traffic: _Traffic) -> None:
        self._stream = stream
        self.size = size
        self._traffic = traffic

    def __repr__(self) -> str:
        return f"DiskFile({self.size} B)"

    def __del__(self) -> None:
        self._stream.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on."""
        self._traffic.moved_bytes += size
        return os.pread(self._stream.fileno(), size, offset)


class DiskWriter:
    """A file that is being written."""

    def __init__(self, directory: str, stream: IO[bytes], traffic: _Traffic) -> None:
        self._directory = directory
        self._stream = stream
        self._traffic = traffic
        self._size = 0

    def write(self, piece: Piece) -> None:
        """Append bytes. Raises StateError if the disk is full."""
        try:
            self._stream.write(piece)
        except OSError as error:
            raise _no_room(self._directory, error) from error
        self._size += len(piece)
        self._traffic.moved_bytes += len(piece)

    def finish(self) -> DiskFile:
        """Return the file."""
        try:
            self._stream.flush()
        except OSError as error:
            raise _no_room(self._directory, error) from error
        return DiskFile(self._stream, self._size, self._traffic)


def _no_room(directory: str, error: OSError) -> StateError:
    return StateError(
        f"keyed state cannot be written to {directory!r} ({error.strerror}): free space there, or give the job another "
        "directory, state_directory=..., or more memory for its state, state_memory_mb=..."
    )
