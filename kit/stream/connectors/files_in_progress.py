"""Parquet files that a host's tasks are writing to, and those that are complete and pending.

The name of such a file ends in a token of the process that started it. So a process that was replaced, and still runs,
writes to no file of its successor. A snapshot links a pending file to a staged name of its own, and copies it if the
file system has no links. So an aborted checkpoint only removes its link, and the next one still has the rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from kit.stream.connectors import disk
from kit.stream.connectors.disk import open_path

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(slots=True)
class _File:
    path: str
    writer: pq.ParquetWriter | None
    """None once the file is complete."""


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
            begin = partial(_begun, table.schema, system)
            self._files[path] = disk.make_in_directory(system, real, begin, durable=durable)
        file = self._files[path]
        assert file.writer is not None, f"{path} is complete"
        file.writer.write_table(table, row_group_size=max(1, table.num_rows))
        if last:
            file.writer.close()
            file.writer = None

    def stage(self, path: str, staged: str, *, durable: bool) -> None:
        """Give a complete file a staged name as well."""
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(f"{path} was not written by this process, or is dropped")
        system, target = open_path(staged)
        disk.link(system, file.path, target, durable=durable)

    def drop(self, path: str) -> bool:
        """Delete a file; False if it is none of these."""
        file = self._files.pop(path, None)
        if file is None:
            return False
        with suppress(OSError, pa.ArrowException):
            if file.writer is not None:
                file.writer.close()
        system, _ = open_path(path)
        with suppress(FileNotFoundError):
            disk.delete_file(system, file.path)
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


def _begun(schema: pa.Schema, system: fs.FileSystem, path: str) -> _File:
    import pyarrow.parquet as pq

    return _File(path, pq.ParquetWriter(path, schema, filesystem=system))
