"""Spill space: where the rows of keyed state are kept that have no place in its tables.

Its files belong to one attempt of a subtask, and nobody else reads them: a failed task restores from its checkpoint. So
they need no names, and nothing has to reach the disk before a checkpoint is complete. The host provides the space: a
directory of the machine (`kit.hosts.spark.slot.spill_directory`), or, in the lab and in tests, memory.
"""

from __future__ import annotations

from typing import Any, Protocol

from kit.stream.backend.files.framing import Piece


class SpillFile(Protocol):
    """A finished file. It is deleted with the last reference to it. Any thread may read it."""

    size: int
    """Its size in bytes."""

    def read(self, offset: int, size: int) -> Any:
        """Return `size` bytes from `offset` on, as a buffer."""


class SpillWriter(Protocol):
    """A file that is being written."""

    def write(self, piece: Piece) -> None:
        """Append bytes. Raises StateError if there is no room for them."""

    def finish(self) -> SpillFile:
        """Return the file; nothing may be appended any more."""


class SpillSpace(Protocol):
    """The place for the files of one slot."""

    def create(self) -> SpillWriter:
        """Begin a file."""

    def return_memory(self) -> None:
        """Return freed memory to the system, as far as that is possible: rows have left their tables."""


class MemorySpace:
    """A spill space in memory, for the lab and for tests."""

    def create(self) -> MemoryWriter:
        """Begin a file."""
        return MemoryWriter()

    def return_memory(self) -> None:
        """Do nothing: the rows are still in memory."""


class MemoryFile:
    """The bytes of a finished file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def __repr__(self) -> str:
        return f"MemoryFile({self.size} B)"

    def read(self, offset: int, size: int) -> memoryview:
        """Return some of the bytes."""
        return memoryview(self._data)[offset : offset + size]


class MemoryWriter:
    """The pieces of a file that is being written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: Piece) -> None:
        """Append bytes."""
        self._pieces.append(bytes(piece))

    def finish(self) -> MemoryFile:
        """Return the file."""
        return MemoryFile(b"".join(self._pieces))
