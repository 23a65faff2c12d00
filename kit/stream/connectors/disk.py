"""Changes to files and directories that are still there after a loss of power.

What a process writes is in the machine's memory first, and reaches the disk in an order of the system's own: the name
of a file may be there before its bytes, and a directory without the names that were given last. So a file is synced
before it gets its name, the directory of that name afterwards, and whoever reports that something is written reports it
after both. Names on one machine's disk are changed with the calls of the operating system, one each; in other file
systems Arrow does it, and an object store keeps what it has confirmed. Over HDFS, bytes are as safe as its `close`
makes them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from posixpath import dirname

from pyarrow import fs


def open_path(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path within it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)
    return fs.LocalFileSystem(), os.path.abspath(path)


def is_local(system: fs.FileSystem) -> bool:
    """Whether these are files of this machine, as far as it knows; a shared disk is mounted like its own."""
    return isinstance(system, fs.LocalFileSystem)


def sync(system: fs.FileSystem, path: str) -> None:
    """Return when the bytes of a file, or the names in a directory, are on the disk. Raises OSError."""
    if is_local(system):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename(system: fs.FileSystem, source: str, target: str, *, durable: bool) -> None:
    """Rename a file or a directory at once. `durable`: its bytes reach the disk before the name, and that before the
    return. Raises OSError.
    """
    if not is_local(system):
        system.move(source, target)
        return
    if durable and not os.path.isdir(source):
        sync(system, source)
    os.rename(source, target)
    if durable:
        sync(system, dirname(target))


def name_new(system: fs.FileSystem, source: str, target: str, *, durable: bool) -> None:
    """Rename a file of this machine as `rename` does, unless the target exists: FileExistsError."""
    if durable:
        sync(system, source)
    try:
        os.link(source, target)  # unlike a rename, fails when somebody was faster
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        os.rename(source, target)
    if durable:
        sync(system, dirname(target))
    with suppress(FileNotFoundError):
        os.unlink(source)


def make_directory(system: fs.FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory and those above it, as far as they are missing. Raises OSError.

    `durable`: their names reach the disk before the return. That holds for the name of one that exists already, since
    whoever made it may not have come so far; it is left out where this user may not read the directory above.
    """
    if not is_local(system):
        system.create_dir(path, recursive=True)
        return
    missing = [path]
    while not os.path.isdir(missing[-1]):
        missing.append(dirname(missing[-1]))
    for directory in reversed(missing[:-1]):
        try:
            os.mkdir(directory)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise
    if durable:
        for directory in reversed(missing[:-1] or missing):
            with suppress(PermissionError):
                sync(system, dirname(directory))


def make_new_directory(system: fs.FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory below one that exists. Raises OSError if it exists, or the one above it does not."""
    if not is_local(system):
        system.create_dir(path, recursive=False)
        return
    os.mkdir(path)  # Arrow does not say whether it existed
    if durable:
        sync(system, dirname(path))


def delete_file(system: fs.FileSystem, path: str) -> None:
    """Delete a file. Raises FileNotFoundError if it does not exist, OSError."""
    if is_local(system):
        os.unlink(path)
    else:
        system.delete_file(path)


def delete_directory(system: fs.FileSystem, path: str) -> None:
    """Delete a directory with all that is in it. Raises FileNotFoundError if it does not exist, OSError."""
    if is_local(system):
        shutil.rmtree(path)
    else:
        system.delete_dir(path)
