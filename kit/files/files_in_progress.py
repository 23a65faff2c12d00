"""Parquet files that a host's tasks are writing to, and those that are complete and pending.

The name of such a file ends in a token of the process that started it. So a process that was replaced, and still runs,
writes to no file of its successor. A snapshot links a pending file to a staged name of its own, and copies it if the
file system has no links. So an aborted checkpoint only removes its link, and the next one still has the rows.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.filesystems.places import open_path

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class _File:
    """A Parquet file that is written row group by row group, until it is complete."""

    def __init__(self, path: str, stream: pa.NativeFile, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._stream = stream
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(stream, schema)

    def write(self, table: pa.Table) -> None:
        assert self._writer is not None, f"{self.path} is complete"
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            try:
                writer.close()
            finally:
                self._stream.close()


class FilesInProgress:
    """The files of one host process, by the paths that machines know them by. All methods raise OSError.

    No other process may have the same `token`.
    """

    def __init__(self, token: str = "") -> None:
        self._token = token
        self._files: dict[str, _File] = {}

    def write(self, path: str, table: pa.Table, *, first: bool, last: bool, durable: bool) -> None:
        """Append rows as a row group of their own; the first make the file, and after the last it is complete.

        `durable` is meant for the directories alone: the rows are synced when they are staged.
        """
        if first:
            self.drop(path)
            system, inner = open_path(path)
            real = f"{inner.removesuffix('.parquet')}-{self._token}.parquet"
            self._files[path] = _File(real, system.create_in_directory(real, durable=durable), table.schema)
        file = self._files[path]
        file.write(table)
        if last:
            file.close()

    def stage(self, path: str, staged: str, *, durable: bool) -> None:
        """Give a complete file a staged name as well."""
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(f"{path} was not written by this process, or is dropped")
        system, target = open_path(staged)
        system.link(file.path, target, durable=durable)

    def drop(self, path: str) -> bool:
        """Delete a file; False if it is none of these."""
        file = self._files.pop(path, None)
        if file is None:
            return False
        with suppress(OSError, pa.ArrowException):
            file.close()
        system, _ = open_path(path)
        with suppress(FileNotFoundError):
            system.delete(file.path)
        return True

    def close(self) -> None:
        """Delete all files, because no other process can continue them."""
        for path in list(self._files):
            with suppress(OSError):
                self.drop(path)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has files of its own."""
        return type(self), (self._token,)

    def __repr__(self) -> str:
        return f"FilesInProgress({len(self._files)})"
