"""The directory of the new savepoint: its files, and what is removed if it is not completed.

`_metadata`, which makes the directory a savepoint, comes last.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa

from kit.core.state.errors import CheckpointError, StorageError
from kit.core.state.handles import FileStateHandle, RelativeFileStateHandle, StreamStateHandle
from kit.files.storage import METADATA_FILE_NAME, StateFiles

Write = Callable[[bytes], object]


class Target:
    """Writes files into a directory that is missing or empty. `discard` removes what was written."""

    def __init__(self, files: StateFiles, directory: str, *, relative: bool) -> None:
        self._files, self.directory, self._relative = files, directory, relative
        self._names: set[str] = {METADATA_FILE_NAME}
        self._written: list[str] = []
        self._made: list[str] = []

    def begin(self) -> None:
        """Make the directory. Raises CheckpointError if something is in it, StorageError if it cannot be made."""
        if self._files.exists(self.directory) and self._files.names(self.directory):
            raise CheckpointError(
                f"{self.directory!r} is not empty: give a directory that does not exist yet, as a savepoint is never "
                "overwritten"
            )
        system, inner = self._files.place(self.directory)
        self._made = list(self._missing())
        try:
            system.make_directory(inner, durable=True)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"Cannot make directory {self.directory!r}: {error}") from error

    def _missing(self) -> Iterator[str]:
        """Yield the directory and those above it that do not exist, from below."""
        path = self.directory
        while path.strip("/") and not path.endswith(":") and not self._files.exists(path):
            yield path
            path = posixpath.dirname(path)

    def name(self, wanted: str) -> str:
        """Return a name that no other file has, as much like the wanted one as possible."""
        found, again = wanted, 1
        while found in self._names:
            found, again = f"{wanted}-{again}", again + 1
        self._names.add(found)
        return found

    def write(self, wanted: str, produce: Callable[[Write], None]) -> StreamStateHandle:
        """Write a file by calling `produce`, which writes its bytes; return its handle. Raises StorageError."""
        name = self.name(wanted)
        path = f"{self.directory}/{name}"
        system, inner = self._files.place(path)
        size = 0

        def write(data: bytes) -> None:
            nonlocal size
            stream.write(data)
            size += len(data)

        self._written.append(path)
        try:
            with system.create(inner) as stream:
                produce(write)
            system.sync(inner)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"Cannot write {path!r}: {error}") from error
        return RelativeFileStateHandle(name, size, path) if self._relative else FileStateHandle(path, size)

    def finish(self, metadata: bytes) -> None:
        """Write `_metadata`. Raises StorageError."""
        path = f"{self.directory}/{METADATA_FILE_NAME}"
        system, inner = self._files.place(path)
        self._written.append(path)
        try:
            system.put(inner, metadata, durable=True, temporary=f"{inner}.unfinished")
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"Cannot write {path!r}: {error}") from error

    def discard(self) -> None:
        """Remove the files that were written, and the directories that were made."""
        for path in (*self._written, f"{self.directory}/{METADATA_FILE_NAME}.unfinished"):
            with suppress(OSError, pa.ArrowException):
                system, inner = self._files.place(path)
                system.delete(inner)
        for directory in self._made:
            with suppress(OSError, pa.ArrowException):
                system, inner = self._files.place(directory)
                system.delete_if_empty(inner)


class NoTarget(Target):
    """A target that keeps nothing, for a rehearsal."""

    def begin(self) -> None:
        return

    def write(self, wanted: str, produce: Callable[[Write], None]) -> StreamStateHandle:
        size = 0

        def count(data: bytes) -> None:
            nonlocal size
            size += len(data)

        produce(count)
        name = self.name(wanted)
        return RelativeFileStateHandle(name, size, f"{self.directory}/{name}")

    def finish(self, metadata: bytes) -> None:
        return
