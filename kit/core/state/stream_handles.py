"""Handles of streams (bytes in the handle itself, in a file, or in a segment of a file), and the base of all handles.

Source: `StateObject`, `StreamStateHandle` and its classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING


class StateObject:
    """Any state that a checkpoint refers to. Source: `StateObject`."""

    __slots__ = ()

    @property
    def state_size(self) -> int:
        """Size in bytes of the state referred to, including shared parts."""
        raise NotImplementedError

    def files(self) -> Iterator[str]:
        """Yield the path of every file that holds the state, in order; a file may appear more than once."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._label()})"

    def _label(self) -> str:
        return f"{self.state_size} B"


class CompositeStateHandle(StateObject):
    """State in several handles. Source: `CompositeStateHandle`."""

    __slots__ = ()

    def handles(self) -> Iterator[StateObject]:
        """Yield every handle."""
        raise NotImplementedError

    @property
    def state_size(self) -> int:
        """Size of all handles, in bytes."""
        return sum(handle.state_size for handle in self.handles())

    def files(self) -> Iterator[str]:
        """Yield the path of every file referred to; a file may appear more than once."""
        return chain.from_iterable(handle.files() for handle in self.handles())


class SizedStateObject(StateObject):
    """A handle that records its size in bytes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def size(self) -> int:
            """The recorded size; a field of each class."""

    @property
    def state_size(self) -> int:
        """The recorded `size`."""
        return self.size


class StreamStateHandle(StateObject):
    """Bytes that can be read as one stream. Source: `StreamStateHandle`.

    `path` is the file the bytes are in, None where the handle holds them itself (`maybeGetPath`).
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def path(self) -> str | None:
            """The file of the bytes; a field of each class."""

    @property
    def physical_id(self) -> str:
        """The state's key in the shared state registry, unique to it (`getStreamStateHandleID`)."""
        return self.path or ""

    def files(self) -> Iterator[str]:
        """Yield the file, if there is one."""
        return iter(() if self.path is None else (self.path,))


@dataclass(frozen=True, slots=True, repr=False)
class ByteStreamStateHandle(StreamStateHandle):
    """The bytes themselves, kept in the metadata because they are few. Source: `ByteStreamStateHandle`."""

    handle_name: str
    data: bytes

    @property
    def state_size(self) -> int:
        """Number of bytes."""
        return len(self.data)

    @property
    def path(self) -> None:
        """None: there is no file."""

    @property
    def physical_id(self) -> str:
        """The handle's name."""
        return self.handle_name

    def _label(self) -> str:
        return f"{_short(self.handle_name)}, {len(self.data)} B"


@dataclass(frozen=True, slots=True, repr=False)
class FileStateHandle(SizedStateObject, StreamStateHandle):
    """A whole file, by absolute path. Source: `FileStateHandle`."""

    path: str
    size: int

    def _label(self) -> str:
        return f"{_short(self.path)}, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class RelativeFileStateHandle(SizedStateObject, StreamStateHandle):
    """A whole file beside `_metadata`, so that the directory can be moved. `path` is `relative_path` resolved
    against it.

    Source: `RelativeFileStateHandle`, since 1.11.
    """

    relative_path: str
    size: int
    path: str

    def _label(self) -> str:
        return f"{_short(self.relative_path)}, {self.size} B"


class StateScope(IntEnum):
    """The scope of the file: exclusive to one checkpoint, or shared. Source: `CheckpointedStateScope`."""

    EXCLUSIVE = 0
    SHARED = 1


@dataclass(frozen=True, slots=True, repr=False)
class SegmentFileStateHandle(SizedStateObject, StreamStateHandle):
    """`size` bytes from `start_pos` on in a file that several states share.

    Source: `SegmentFileStateHandle`, since 1.20.
    """

    start_pos: int
    size: int
    scope: StateScope
    path: str
    logical_file_id: str

    @property
    def physical_id(self) -> str:
        """The logical file, since several logical files share the path."""
        return self.logical_file_id

    def _label(self) -> str:
        return f"{_short(self.path)}, {self.size} B from {self.start_pos}, {self.scope.name}"


@dataclass(frozen=True, slots=True, repr=False)
class EmptySegmentFileStateHandle(StreamStateHandle):
    """A placeholder where file merging had no segment to write. Source: `EmptySegmentFileStateHandle`."""

    @property
    def state_size(self) -> int:
        """Zero."""
        return 0

    @property
    def path(self) -> None:
        """None: there is no file."""

    @property
    def physical_id(self) -> str:
        """The same constant for all, as in Flink."""
        return "DUMMY"


@dataclass(frozen=True, slots=True, repr=False)
class PlaceholderStreamStateHandle(SizedStateObject, StreamStateHandle):
    """A file that an earlier checkpoint registered, in the acknowledgement of one that reuses it.

    The coordinator replaces it by the registered handle. So a task cannot bring back a file that was deleted. Source:
    `PlaceholderStreamStateHandle`.
    """

    registered_id: str
    size: int

    @classmethod
    def of(cls, handle: StreamStateHandle) -> PlaceholderStreamStateHandle:
        """Return the placeholder for a handle."""
        return cls(handle.physical_id, handle.state_size)

    @property
    def path(self) -> None:
        """None: a placeholder alone does not allow its owner to read or delete the file."""

    @property
    def physical_id(self) -> str:
        """The key under which the file is registered."""
        return self.registered_id

    def _label(self) -> str:
        return f"{_short(self.registered_id)}, {self.size} B"


class DelegatingStateObject(StateObject):
    """A handle whose bytes are in one stream."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def delegate(self) -> StreamStateHandle:
            """The stream of the bytes; a field of each class."""

    @property
    def state_size(self) -> int:
        """The size of the whole stream."""
        return self.delegate.state_size

    def files(self) -> Iterator[str]:
        """Yield the stream's file, if there is one."""
        return self.delegate.files()


def _short(name: str) -> str:
    """Return the last part of a path, shortened to its distinctive beginning."""
    last = name.rsplit("/", 1)[-1]
    return last if len(last) <= 16 else last[:8] + "…"
