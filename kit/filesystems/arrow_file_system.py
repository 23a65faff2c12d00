"""The file systems that pyarrow opens: HDFS, the lab's memory, and whatever a user passes."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import fs
from pyarrow.fs import FileInfo

from kit.filesystems.file_system import FileSystem

_OBJECT_STORES = ("s3", "gcs", "abfs")
"""Arrow's names of its own clients of object stores."""


class ArrowFileSystem(FileSystem):
    """The operations over the interface that pyarrow has for a file system."""

    def __init__(self, arrow: fs.FileSystem) -> None:
        self.name = str(arrow.type_name)
        self.appears_whole = self.name in _OBJECT_STORES
        self._arrow = arrow

    def info(self, path: str) -> FileInfo:
        return self._arrow.get_file_info(path)

    def entries(self, directory: str, *, recursive: bool = False, missing_ok: bool = True) -> list[FileInfo]:
        selector = fs.FileSelector(directory, allow_not_found=missing_ok, recursive=recursive)
        found: list[FileInfo] = self._arrow.get_file_info(selector)
        return found

    def open_file(self, path: str) -> pa.NativeFile:
        return self._arrow.open_input_file(path)

    def open_stream(self, path: str) -> pa.NativeFile:
        return self._arrow.open_input_stream(path)

    def create(self, path: str) -> pa.NativeFile:
        return self._arrow.open_output_stream(path)

    def rename(self, source: str, target: str, *, durable: bool) -> None:
        self._arrow.move(source, target)

    def link(self, source: str, target: str, *, durable: bool) -> None:
        self._arrow.copy_file(source, target)

    def make_directory(self, path: str, *, durable: bool) -> None:
        self._arrow.create_dir(path, recursive=True)

    def make_new_directory(self, path: str, *, durable: bool) -> None:
        self._arrow.create_dir(path, recursive=False)

    def delete(self, path: str) -> None:
        self._arrow.delete_file(path)

    def delete_directory(self, path: str) -> None:
        self._arrow.delete_dir(path)
