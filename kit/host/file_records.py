"""Records as files beside the checkpoints: `<base>/<job id>/store/checkpoints/<id>`, `.../store/checkpointID`.

Works on any file system that holds the checkpoints. Flink keeps no such thing there; see `FileSystemJobResultStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kit.host.storage import CheckpointStorage
from kit.host.store_errors import StoreError
from kit.host.stores import look_up
from kit.state.errors import StorageError


class FileRecords:
    """Records as files in `store/` of the job's checkpoint directory."""

    def __init__(self, storage: CheckpointStorage) -> None:
        self._storage = storage
        self.directory = f"{storage.job_directory}/store"

    @classmethod
    def open(cls, address: Mapping[str, str], storage: CheckpointStorage) -> FileRecords:
        """The records of the job of this storage."""
        return cls(storage)

    def read(self, name: str) -> bytes | None:
        """The content of the file."""
        path = f"{self.directory}/{name}"
        try:
            return self._storage.read(path).to_pybytes() if self._storage.exists(path) else None
        except OSError as error:
            raise StoreError(str(error)) from error

    def write(self, name: str, data: bytes) -> None:
        """Write the file, which appears whole or not at all; look again when that seems to have failed."""
        try:
            self._storage.write(f"{self.directory}/{name}", data)
        except StorageError as error:
            look_up(self, name, data, StoreError(str(error)))

    def update(self, name: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Read and write: there is one driver at a time."""
        data = change(self.read(name))
        self.write(name, data)
        return data

    def remove(self, name: str) -> None:
        """Delete the file."""
        self._storage.discard([f"{self.directory}/{name}"])

    def names(self, below: str) -> list[str]:
        """The files in a directory, except for those that were being written when a driver died."""
        return [name for name in self._storage.names(f"{self.directory}/{below}") if not name.startswith(".")]

    def close(self) -> None:
        """There is nothing to let go of."""

    def __repr__(self) -> str:
        return self.directory
