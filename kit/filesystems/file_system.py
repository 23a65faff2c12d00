"""The operations on files of one file system.

This machine's disk (`local_disk`), object stores (`object_stores`), and everything else that pyarrow can open, such as
HDFS and the lab's memory (`arrow_file_system`), carry them out in their own way. `places` opens the file system of a
path.

Incomplete files are never visible: a file gets its name when it is complete. In an object store a file appears in one
step anyway. Whatever `durable` asks for survives a power failure when the call returns: an object store keeps what it
has confirmed; over HDFS, bytes are as safe as its `close` makes them.
"""

from __future__ import annotations

import errno
import os
import posixpath
from abc import ABC, abstractmethod
from contextlib import suppress
from posixpath import dirname

import pyarrow as pa
from pyarrow import fs
from pyarrow.fs import FileInfo

_UNFINISHED = ".part"
_FULL = {errno.ENOSPC: "free space there", errno.EDQUOT: "free space there, or have the quota raised"}
"""The advice for a full file system, by the number of the error."""
_TRIES = 10


class CutOffError(OSError):
    """A file has fewer bytes than expected."""

    def __init__(self, path: str, size: int, wanted: int) -> None:
        super().__init__(f"{path} ends at byte {size}, and {wanted} bytes were requested")
        self.size, self.wanted = size, wanted


class FileSystem(ABC):
    """The operations on files of one file system, by their paths in it.

    All raise OSError or an exception of Arrow, and FileNotFoundError for a missing file.
    """

    is_local = False
    """True for files of this machine, as far as it knows; a shared disk is mounted like its own."""
    appears_whole = False
    """True if an incomplete file is never visible, and a rename is a copy and a deletion."""
    name: str
    """The name of its kind."""

    # ---- looking ------------------------------------------------------------------------------------------------

    @abstractmethod
    def info(self, path: str) -> FileInfo:
        """Return the type, the size and the time of the last change of what is at a path, which may be nothing."""

    def is_file(self, path: str) -> bool:
        """Return True if there is a file."""
        return bool(self.info(path).is_file)

    @abstractmethod
    def entries(self, directory: str, *, recursive: bool = False, missing_ok: bool = True) -> list[FileInfo]:
        """Return what is in a directory, or in it and below it; nothing if it does not exist and that is allowed."""

    def inode(self, path: str) -> int | None:
        """Return the number that tells a file from another under the same name, if the file system has any."""
        return None

    def real_path(self, path: str) -> str:
        """Return a path without links."""
        return path

    def obstacle(self, directory: str) -> str:
        """Say why nothing can be written in a directory, which may not exist yet; "" if no reason is known."""
        return ""

    # ---- reading ------------------------------------------------------------------------------------------------

    @abstractmethod
    def open_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""

    @abstractmethod
    def open_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading from its beginning, decompressed if its name has the ending of a compressed file."""

    def read_range(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """Return `length` bytes of a file from `offset` on, None: all. Raises CutOffError if there are fewer."""
        with self.open_file(path) as stream:
            size = stream.size()
            wanted = size - offset if length is None else length
            if offset + wanted > size:  # before memory is allocated for a size that may be wrong
                raise CutOffError(path, size, wanted)
            stream.seek(offset)
            data = stream.read_buffer(wanted)
        if data.size < wanted:
            raise CutOffError(path, offset + data.size, wanted)
        return data

    def mapped(self, path: str) -> pa.Buffer:
        """Return all bytes of a file that does not change any more, of which memory has what is in use, if possible."""
        return self.read_range(path)

    # ---- writing ------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, path: str) -> pa.NativeFile:
        """Open a new file for writing, in a directory that exists; an existing one is replaced."""

    def create_in_directory(self, path: str, *, durable: bool) -> pa.NativeFile:
        """Open a new file for writing, and make its directory before.

        It is tried again if another process removes the empty directory meanwhile, even while it is made.
        """
        for attempt in range(_TRIES):
            try:
                self.make_directory(dirname(path), durable=durable)
                return self.create(path)
            except FileNotFoundError:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError(path)

    def put(self, path: str, data: bytes | pa.Buffer, *, durable: bool, temporary: str = "") -> None:
        """Write a file that appears in one step, in place of an existing one, in a directory that exists.

        It is written under the name `temporary`, by default a hidden one beside it.
        """
        begun = path if self.appears_whole else temporary or hidden(path)
        try:
            with self.create(begun) as stream:
                stream.write(data)
            if begun != path:
                self.rename(begun, path, durable=durable)
        except (OSError, pa.ArrowException):
            if begun != path:
                with suppress(OSError, pa.ArrowException):
                    self.delete(begun)
            raise

    def put_new(self, path: str, data: bytes | pa.Buffer, *, durable: bool) -> bool:
        """Write a file that appears in one step; return False, and leave it unchanged, if there is one already."""
        if self.info(path).type is not fs.FileType.NotFound:
            return False
        self.put(path, data, durable=durable)
        return True

    def sync(self, path: str) -> None:
        """Wait until the bytes of a file, or the names in a directory, are on the disk."""
        return

    # ---- names --------------------------------------------------------------------------------------------------

    @abstractmethod
    def rename(self, source: str, target: str, *, durable: bool) -> None:
        """Rename a file or a directory, in one step if the file system can.

        With `durable`, its bytes reach the disk before the name, and the name before the call returns.
        """

    @abstractmethod
    def link(self, source: str, target: str, *, durable: bool) -> None:
        """Give a file that no longer changes another name, in a directory that exists; copy it if there are no links.

        `durable` is as for `rename`.
        """

    @abstractmethod
    def make_directory(self, path: str, *, durable: bool) -> None:
        """Make a directory and missing ones above it. With `durable`, their names reach the disk before the return."""

    @abstractmethod
    def make_new_directory(self, path: str, *, durable: bool) -> None:
        """Make a directory below one that exists. Raises OSError if it exists, or the one above it does not."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError if it does not exist."""

    @abstractmethod
    def delete_directory(self, path: str) -> None:
        """Delete a directory with its content. Raises FileNotFoundError if it does not exist."""

    def delete_if_empty(self, path: str) -> None:
        """Delete a directory of this machine if it is empty. Elsewhere it stays, since a file that appears between a
        look and the deletion would be deleted with it.
        """
        return

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def is_directory(info: FileInfo) -> bool:
    """Return True for a directory."""
    return bool(info.type is fs.FileType.Directory)


def hidden(path: str) -> str:
    """Return the name under which a file is written before it is complete."""
    return f"{dirname(path)}/.{posixpath.basename(path)}{_UNFINISHED}"


def shown(name: str) -> str:
    """Return the name that a file in this directory has once it is complete: the inverse of `hidden`."""
    return name[1 : -len(_UNFINISHED)] if name.startswith(".") and name.endswith(_UNFINISHED) else name


def reason(error: Exception, otherwise: str = "") -> str:
    """Return an error of a file system in words, with what to do about it; `otherwise` unless the disk is full."""
    number = getattr(error, "errno", None)
    if number in _FULL:
        return f"{os.strerror(number)}; {_FULL[number]}"
    text = str(error).split(". Detail:")[0]
    return f"{text}; {otherwise}" if otherwise else text
