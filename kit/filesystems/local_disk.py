"""The disk of this machine: its files, and changes to names that survive a power failure.

Written data is in the machine's memory first, and reaches the disk in an order that the system chooses. The name of a
file may be on the disk before its bytes, and a directory may lack its latest names. So a file is synced before it
gets its name, and the directory of that name afterwards. Success is reported after both. Names are changed with single
calls of the operating system.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from itertools import count
from posixpath import dirname

import pyarrow as pa
from pyarrow import fs

from kit.filesystems.arrow_file_system import ArrowFileSystem
from kit.filesystems.file_system import hidden

_NO_FILES = ("/proc/", "/sys/")
"""Directories of the kernel, of which root is told that it may write there."""


class LocalDisk(ArrowFileSystem):
    """The files of this machine, and of shared disks that are mounted on it."""

    is_local = True

    def __init__(self) -> None:
        super().__init__(fs.LocalFileSystem())

    def inode(self, path: str) -> int:
        return os.stat(path).st_ino

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def obstacle(self, directory: str) -> str:
        existing = directory
        while not os.path.lexists(existing):
            existing = dirname(existing)
        if not os.path.isdir(existing):
            return f"{existing} is a file, not a directory"
        if f"{os.path.realpath(existing)}/".startswith(_NO_FILES):
            return f"{existing} is of the kernel and holds no files"
        return "" if os.access(existing, os.W_OK | os.X_OK) else f"no permission for {existing}"

    def mapped(self, path: str) -> pa.Buffer:
        with pa.memory_map(path) as file:
            return file.read_buffer()

    def put_new(self, path: str, data: bytes | pa.Buffer, *, durable: bool) -> bool:
        """Write a file as `put` does, unless there is one. The system decides which of two writers is the first."""
        if os.path.lexists(path):
            return False
        temporary = _reserved(path)
        try:
            with self.create(temporary) as stream:
                stream.write(data)
            if durable:
                self.sync(temporary)
            try:
                os.link(temporary, path)  # unlike a rename, fails if the name exists
            except FileExistsError:
                return False
            except OSError:  # no hard links here
                os.rename(temporary, path)
            if durable:
                self.sync(dirname(path))
            return True
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def sync(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str, *, durable: bool) -> None:
        if durable and not os.path.isdir(source):
            self.sync(source)
        os.rename(source, target)
        if durable:
            self.sync(dirname(target))

    def link(self, source: str, target: str, *, durable: bool) -> None:
        if durable:
            self.sync(source)
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise
        except FileExistsError:
            os.unlink(target)
            os.link(source, target)
        except OSError:  # no hard links here
            shutil.copyfile(source, f"{target}.unfinished")
            self.rename(f"{target}.unfinished", target, durable=durable)
        if durable:
            self.sync(dirname(target))

    def make_directory(self, path: str, *, durable: bool) -> None:
        """Make a directory and missing ones above it.

        With `durable`, their names reach the disk before the call returns. That includes the name of an existing
        directory, since its creator may not have synced it yet. It is skipped if this user may not read the directory
        above.
        """
        missing = [path]
        while not os.path.isdir(missing[-1]):
            missing.append(dirname(missing[-1]))
        for directory in reversed(missing[:-1]):
            try:
                os.mkdir(directory)
            except FileExistsError as error:
                if os.path.isdir(directory):
                    continue
                if os.path.lexists(directory):
                    raise
                raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile", directory) from error
        if durable:
            for directory in reversed(missing[:-1] or missing):
                with suppress(PermissionError):
                    self.sync(dirname(directory))

    def make_new_directory(self, path: str, *, durable: bool) -> None:
        os.mkdir(path)  # Arrow does not say if it existed
        if durable:
            self.sync(dirname(path))

    def delete(self, path: str) -> None:
        os.unlink(path)

    def delete_directory(self, path: str) -> None:
        shutil.rmtree(path)

    def delete_if_empty(self, path: str) -> None:
        with suppress(OSError):  # it is gone, or no longer empty
            if not os.listdir(path):
                os.rmdir(path)


def _reserved(path: str) -> str:
    """Return a hidden name beside `path` for this writer alone: another one may write the same file now."""
    for number in count(1):
        name = hidden(f"{path}.{number}")
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            continue
        return name
    raise AssertionError(path)
