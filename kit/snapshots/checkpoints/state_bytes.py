"""The bytes that a checkpoint's handles refer to, read from its own directories and from nowhere else.

A checkpoint may have been moved: files that are not where its metadata says are looked for in its directory, and in
`shared` and `taskowned` in it or beside it. A path that leads elsewhere is followed only if the caller says so.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import pyarrow as pa
from pyarrow import fs

from kit.core.state.errors import CheckpointError, DamagedError, StateError, StateLostError
from kit.core.state.handles import ByteStreamStateHandle, SegmentFileStateHandle, StreamStateHandle
from kit.files.confinement import Confinement
from kit.files.storage import METADATA_FILE_NAME, SHARED_STATE_DIR, TASK_OWNED_STATE_DIR, StateFiles

MOST_KEPT_BYTES = 1 << 26
"""Files up to this size are read at once and kept while they are in use."""
PARTS = (SHARED_STATE_DIR, TASK_OWNED_STATE_DIR)


NOT_LOOKED_AT = "not looked at"
"""The beginning of the problem of a file outside the checkpoint's directories."""


class OutsideError(CheckpointError):
    """A file outside the checkpoint's directories, which is not looked at without `follow`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files below a directory, with their bytes."""

    directory: str
    sizes: Mapping[str, int]


class How(StrEnum):
    """How the bytes of a file are checked."""

    CHECKSUMS = "checksums"
    LAYOUT = "layout"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The check of one file: `run` reads all of it, and returns how it was checked. It raises StateError."""

    file: str
    size: int
    run: Callable[[], How]


class StateBytes:
    """Reads the streams of one checkpoint, whose `_metadata` is in `directory`.

    `listed` has the files below a directory with their bytes, if they were listed: these are not looked for again.
    """

    def __init__(
        self, files: StateFiles, directory: str, *, follow: bool = False, listed: Listing | None = None
    ) -> None:
        self.files, self.directory, self.follow, self._listed = files, directory, follow, listed
        self._found: dict[str, str] = {}
        self._sizes: dict[str, int | None] = {}

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        parent = posixpath.dirname(self.directory)
        return (self.directory, *(f"{parent}/{part}" for part in PARTS))

    @cached_property
    def _allowed(self) -> Confinement:
        return Confinement(self._roots, is_real=self.files.is_real)

    def path(self, recorded: str) -> str:
        """Return where a recorded file is. Raises CheckpointError if it is missing, or not the checkpoint's own."""
        if recorded not in self._found:
            self._found[recorded] = self._looked_for(recorded)
        return self._found[recorded]

    def _looked_for(self, recorded: str) -> str:
        try:
            return self._find(recorded)
        except CheckpointError:
            raise
        except (ValueError, OSError, pa.ArrowException) as error:  # a NUL in the path, say, or an unknown scheme
            raise CheckpointError(
                f"{self.directory}/{METADATA_FILE_NAME} refers to the file {recorded!r}, which cannot be looked for: "
                f"{error}. Fetch the metadata again if it is damaged, or open another checkpoint"
            ) from error

    def whole_path(self, recorded: str, size: int) -> str:
        """Return where a recorded file is. Raises CheckpointError as `path` does, and for less than `size` bytes."""
        path = self.path(recorded)
        there = self._sizes.get(path)
        if there is not None and there < size:
            raise CheckpointError(
                f"the file {path!r} has {there:,} bytes, but the checkpoint recorded {size:,}: it was cut off; "
                "fetch it again, or open another checkpoint"
            )
        return path

    def _exists(self, path: str) -> bool:
        if self._listed is not None and path.startswith(f"{self._listed.directory}/"):
            self._sizes[path] = self._listed.sizes.get(path)
            return path in self._listed.sizes
        info = self.files.info(path)
        self._sizes[path] = info.size
        return info.type is not fs.FileType.NotFound

    def _find(self, recorded: str) -> str:
        inside = self._allowed.holds(recorded)
        if (inside or self.follow) and self._exists(recorded):
            return recorded
        for candidate in self._candidates(recorded):
            if self._exists(candidate) and self._allowed.holds(candidate):
                return candidate
        if inside or self.follow:
            raise CheckpointError(
                f"the file {recorded!r} of the checkpoint is missing: copy it back, or open another checkpoint"
            )
        raise OutsideError(
            f"the checkpoint refers to {recorded!r}, which is outside its directory {self.directory!r} and was not "
            f"found in it, nor in {' or '.join(PARTS)}: copy the file there, or open the checkpoint with follow=True "
            "(in a shell: --follow)"
        )

    def _candidates(self, recorded: str) -> Iterator[str]:
        """Yield where a file may be after the checkpoint was moved."""
        for part in PARTS:
            _, mark, inner = recorded.rpartition(f"/{part}/")
            if mark:
                yield f"{self.directory}/{part}/{inner}"
                yield f"{posixpath.dirname(self.directory)}/{part}/{inner}"
        name = posixpath.basename(recorded)
        for root in self._roots:
            yield f"{root}/{name}"

    def stream(self, handle: StreamStateHandle) -> Stream:
        """Return the stream of a handle. Raises CheckpointError if its file is missing or outside."""
        while hasattr(handle, "delegate"):
            handle = handle.delegate
        if isinstance(handle, ByteStreamStateHandle):
            metadata = f"{self.directory}/{METADATA_FILE_NAME}"
            return Stream(self.files, None, 0, len(handle.data), handle.data, inside=metadata)
        if handle.path is None:
            return Stream(self.files, None, 0, 0, b"")
        start = handle.start_pos if isinstance(handle, SegmentFileStateHandle) else 0
        return Stream(self.files, self.path(handle.path), start, handle.state_size)


class Stream:
    """Bytes in a file, from `start` on, or in the metadata itself (`held`). `size` is how many the metadata says.

    `inside` is the path of the metadata that holds the bytes.
    """

    def __init__(
        self,
        files: StateFiles,
        path: str | None,
        start: int,
        size: int,
        held: bytes | None = None,
        inside: str = METADATA_FILE_NAME,
    ) -> None:
        self._files, self.path, self._start, self.size, self._held = files, path, start, size, held
        self.name = path or inside

    @contextmanager
    def damage_from(self, offset: int) -> Iterator[None]:
        """Name the file, and the place in it, in an error of bytes that were read from `offset` on."""
        try:
            yield
        except DamagedError as error:
            raise error.moved(offset).of_file(self.name, self._first_byte()) from error
        except CheckpointError as error:
            if repr(self.name) in str(error):
                raise
            raise error.about(repr(self.name)) from error
        except (OverflowError, ValueError) as error:  # bytes of the right form that make no value
            found = DamagedError(f"found bytes that make no value ({error}), expected those of state", offset)
            raise found.of_file(self.name, self._first_byte()) from error

    def _first_byte(self) -> int:
        """Return the place of the first byte in the file; if it is the metadata, its bytes are searched."""
        if self.path is not None:
            return self._start
        try:
            return max(0, self._files.read(self.name).to_pybytes().find(self._held or b""))
        except (StateError, OSError):
            return 0

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` on. Raises CheckpointError if there are fewer."""
        if offset < 0 or length < 0 or offset + length > self.size:
            found = f"found {self.size:,} bytes, expected {length:,} from here on"
            raise DamagedError(found, offset, DamagedError.CUT_OFF).of_file(self.name, self._first_byte())
        if self._held is None and self.size <= MOST_KEPT_BYTES:
            self._held = self._read(0, self.size)
        if self._held is not None:
            return self._held[offset : offset + length]
        return self._read(offset, length)

    def whole(self) -> bytes:
        """Return all bytes."""
        return self.read(0, self.size)

    def check_size(self) -> How:
        """Read all bytes, piece by piece, of a file in whose format nothing is checked. Raises CheckpointError."""
        for offset in range(0, self.size, MOST_KEPT_BYTES):
            self.read(offset, min(MOST_KEPT_BYTES, self.size - offset))
        return How.SIZE

    def slice(self, offset: int, length: int) -> pa.Buffer:
        """Return bytes as a buffer, as the readers of our own files ask for them."""
        return pa.py_buffer(self.read(offset, length))

    def _read(self, offset: int, length: int) -> bytes:
        assert self.path is not None
        try:
            return self._files.read_part(self.path, self._start + offset, length).to_pybytes()
        except StateLostError as error:
            raise CheckpointError(f"{error}; fetch it again or open another checkpoint") from error
        except StateError as error:
            raise CheckpointError(str(error)) from error
