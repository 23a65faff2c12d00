"""Changes to files and directories that survive a power failure.

Written data is in the machine's memory first, and reaches the disk in an order that the system chooses. The name of a
file may be on the disk before its bytes, and a directory may lack its latest names. So a file is synced before it
gets its name, and the directory of that name afterwards. Success is reported after both. Names on one machine's disk
are changed with single calls of the operating system. In other file systems Arrow changes them, and an object store
keeps what it has confirmed. Over HDFS, bytes are as safe as its `close` makes them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from posixpath import dirname
from typing import TypeVar

from pyarrow import fs

_FULL = {errno.ENOSPC: "free space there", errno.EDQUOT: "free space there, or have the quota raised"}
"""What to do when nothing more can be written, by the error's number."""
_TRIES = 10
Made = TypeVar("Made")


def reason(error: Exception, otherwise: str = "") -> str:
    """Return an error of a file system in words, with what to do about it; `otherwise` unless the disk is full."""
    number = getattr(error, "errno", None)
    if number in _FULL:
        return f"{os.strerror(number)}; {_FULL[number]}"
    text = str(error).split(". Detail:")[0]
    return f"{text}; {otherwise}" if otherwise else text


def open_path(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)
    return fs.LocalFileSystem(), os.path.abspath(path)


def is_local(system: fs.FileSystem) -> bool:
    """Return True for files of this machine, as far as it knows; a shared disk is mounted like its own."""
    return isinstance(system, fs.LocalFileSystem)


def sync(system: fs.FileSystem, path: str) -> None:
    """Wait until the bytes of a file, or the names in a directory, are on the disk. Raises OSError."""
    if is_local(system):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def rename(system: fs.FileSystem, source: str, target: str, *, durable: bool) -> None:
    """Rename a file or a directory in one step. Raises OSError.

    With `durable`, its bytes reach the disk before the name, and the name before the call returns.
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
    """Rename a file of this machine as `rename` does. Raises FileExistsError if the target exists."""
    if durable:
        sync(system, source)
    try:
        os.link(source, target)  # unlike a rename, fails if the name exists
    except FileExistsError:
        raise
    except OSError:  # no hard links here
        os.rename(source, target)
    if durable:
        sync(system, dirname(target))
    with suppress(FileNotFoundError):
        os.unlink(source)


def link(system: fs.FileSystem, source: str, target: str, *, durable: bool) -> None:
    """Give a file that no longer changes another name, whose directory exists; copy it where that cannot be done.

    `durable`: its bytes reach the disk before the name, and that before the return. Raises OSError.
    """
    if not is_local(system):
        system.copy_file(source, target)
        return
    if durable:
        sync(system, source)
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except FileExistsError:
        os.unlink(target)
        os.link(source, target)
    except OSError:  # no hard links here
        shutil.copyfile(source, f"{target}.unfinished")
        rename(system, f"{target}.unfinished", target, durable=durable)
    if durable:
        sync(system, dirname(target))


def make_directory(system: fs.FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory and missing ones above it. Raises OSError.

    With `durable`, their names reach the disk before the call returns. That includes the name of an existing directory,
    since its creator may not have synced it yet. It is skipped if this user may not read the directory above.
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


def make_in_directory(system: fs.FileSystem, path: str, make: Callable[[str], Made], *, durable: bool) -> Made:
    """Make a file with `make(path)`, and before that its directory. Raises OSError.

    It is tried again if another process removes the empty directory meanwhile, even while it is made.
    """
    for attempt in range(_TRIES):
        try:
            make_directory(system, dirname(path), durable=durable)
            return make(path)
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError(path)


def entries(system: fs.FileSystem, directory: str) -> list[fs.FileInfo]:
    """Return what is in a directory; nothing if it does not exist."""
    found: list[fs.FileInfo] = system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return found


def make_new_directory(system: fs.FileSystem, path: str, *, durable: bool) -> None:
    """Make a directory below one that exists. Raises OSError if it exists, or the one above it does not."""
    if not is_local(system):
        system.create_dir(path, recursive=False)
        return
    os.mkdir(path)  # Arrow does not say if it existed
    if durable:
        sync(system, dirname(path))


def delete_file(system: fs.FileSystem, path: str) -> None:
    """Delete a file. Raises FileNotFoundError if it does not exist, OSError."""
    if is_local(system):
        os.unlink(path)
    else:
        system.delete_file(path)


def delete_directory(system: fs.FileSystem, path: str) -> None:
    """Delete a directory with its content. Raises FileNotFoundError if it does not exist, OSError."""
    if is_local(system):
        shutil.rmtree(path)
    else:
        system.delete_dir(path)


def delete_if_empty(system: fs.FileSystem, path: str) -> None:
    """Delete a directory of this machine unless something is in it. Elsewhere it stays, since a file that appears
    between a look and the deletion would be deleted with it.
    """
    if is_local(system):
        with suppress(OSError):  # it is gone, or no longer empty
            if not os.listdir(path):
                os.rmdir(path)
