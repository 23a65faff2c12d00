"""Spill directory: files of this machine for the rows of keyed state that memory has no room for.

The files have no names: each is deleted as soon as it is open, and its space is free once nobody reads it any more. So
nothing is left behind by a process that dies.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO

from kit.core.state.errors import StateError
from kit.stream.backend.files.framing import Piece


class SpillDirectory:
    """A spill space in a directory, which exists or is made; None: the directory for temporary files."""

    def __init__(self, directory: str | None = None) -> None:
        self.directory = tempfile.gettempdir() if directory is None else directory

    def __repr__(self) -> str:
        return f"SpillDirectory({self.directory!r})"

    def create(self) -> DiskWriter:
        """Begin a file. Raises StateError if that is impossible."""
        try:
            os.makedirs(self.directory, exist_ok=True)
            return DiskWriter(self.directory, tempfile.TemporaryFile(dir=self.directory))
        except OSError as error:
            raise _no_room(self.directory, error) from error


class DiskFile:
    """A finished file."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream = stream
        self.size = size

    def __repr__(self) -> str:
        return f"DiskFile({self.size} B)"

    def __del__(self) -> None:
        self._stream.close()

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on."""
        return os.pread(self._stream.fileno(), size, offset)


class DiskWriter:
    """A file that is being written."""

    def __init__(self, directory: str, stream: IO[bytes]) -> None:
        self._directory = directory
        self._stream = stream
        self._size = 0

    def write(self, piece: Piece) -> None:
        """Append bytes. Raises StateError if the disk is full."""
        try:
            self._stream.write(piece)
        except OSError as error:
            raise _no_room(self._directory, error) from error
        self._size += len(piece)

    def finish(self) -> DiskFile:
        """Return the file."""
        try:
            self._stream.flush()
        except OSError as error:
            raise _no_room(self._directory, error) from error
        return DiskFile(self._stream, self._size)


def _no_room(directory: str, error: OSError) -> StateError:
    return StateError(
        f"keyed state cannot be written to {directory!r} ({error.strerror}): free space there, or give the job another "
        "directory, state_directory=..., or more memory for its state, state_memory_mb=..."
    )
