"""The place of a path or a URI: its file system, and its path there."""

from __future__ import annotations

import os

from pyarrow import fs

from kit.filesystems.arrow_file_system import ArrowFileSystem
from kit.filesystems.file_system import FileSystem
from kit.filesystems.local_disk import LocalDisk
from kit.filesystems.object_stores import is_object, open_object_path

LOCAL_DISK = LocalDisk()


def open_path(path: str) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path within it.

    A path without a scheme is on this machine. Raises OSError, ValueError or an exception of Arrow if the file system
    cannot be opened.
    """
    if path.startswith("/"):
        return LOCAL_DISK, path
    if path.startswith("file:"):
        return LOCAL_DISK, "/" + path.removeprefix("file:").lstrip("/")
    if "://" not in path:
        return LOCAL_DISK, os.path.abspath(path)
    if is_object(path):
        return open_object_path(path)
    arrow, inner = fs.FileSystem.from_uri(path)
    return over(arrow), inner


def over(arrow: fs.FileSystem) -> FileSystem:
    """Return the operations over a file system of pyarrow."""
    return LOCAL_DISK if isinstance(arrow, fs.LocalFileSystem) else ArrowFileSystem(arrow)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return a path that means the same everywhere: local ones from the root, URIs unchanged."""
    path = os.fspath(path)
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))
