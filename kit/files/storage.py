"""Checkpoint storage: a job's checkpoints and savepoints, on any file system that pyarrow supports.

    <base>/<job id>/chk-<id>/            state files of one checkpoint, and `_metadata`
                    shared/              files that several checkpoints refer to
                    taskowned/           files that belong to the tasks
    <savepoints>/savepoint-<6>-<12>/     one savepoint: the job's first 6 hex digits, and 12 that make it unique

State files may have entropy in their paths (`kit.files.entropy`); `_metadata` never has.

Incomplete files are never visible: a file gets its name when it is complete. `_metadata`, which makes a directory a
checkpoint, comes last and never overwrites another; in an object store, the store itself ensures that
(`kit.filesystems.object_stores`). Small state goes into the metadata instead of a file of its own. What is reported as
written survives a power failure (`kit.filesystems.local_disk`), unless the job chose otherwise (`Durability`).

Follows `FsCheckpointStorageAccess` and `FsCheckpointStreamFactory`. There, state files and savepoints have random
names. Here state files are named by operator, subtask and checkpoint, and a savepoint's digits follow from the job and
the checkpoint id, so the same job leaves the same directory wherever it runs.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import fs

from kit.core.arguments.checks import path_given
from kit.core.protocol.properties import Durability
from kit.core.state.errors import SavepointNotFoundError, StateLostError, StorageError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    FileStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from kit.files.entropy import Entropy
from kit.filesystems import object_stores
from kit.filesystems.file_system import CutOffError, FileSystem, hidden, is_directory, reason
from kit.filesystems.places import open_path, over

METADATA_FILE_NAME = "_metadata"
CHECKPOINT_DIR_PREFIX = "chk-"
SHARED_STATE_DIR = "shared"
TASK_OWNED_STATE_DIR = "taskowned"
DEFAULT_MEMORY_THRESHOLD_BYTES = 20 * 1024  # Flink's state.storage.fs.memory-threshold
MAX_MEMORY_THRESHOLD_BYTES = 1024 * 1024

_SAVEPOINT_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """The directory of one checkpoint or savepoint, a path or URI without a slash at its end.

    It is `shared` if it is not that of one checkpoint, but has files that several refer to.
    """

    directory: str
    shared: bool = False

    @property
    def metadata_path(self) -> str:
        """The path of its `_metadata`."""
        return f"{self.directory}/{METADATA_FILE_NAME}"


@dataclass(frozen=True, slots=True)
class ResolvedCheckpoint:
    """A checkpoint or savepoint that was found: its location and metadata."""

    location: CheckpointLocation
    metadata_path: str
    metadata: bytes

    def __repr__(self) -> str:
        return f"ResolvedCheckpoint({self.metadata_path!r}, {len(self.metadata)} B)"


class StateFiles:
    """A reader and deleter of state and metadata anywhere, independent of a job.

    With `file_system`, all paths are in that file system.
    """

    def __init__(self, file_system: fs.FileSystem | None = None) -> None:
        if not isinstance(file_system, fs.FileSystem | None):
            raise TypeError(
                f"file_system is {file_system!r}, but must be a file system of pyarrow.fs, or None for that of the path"
            )
        self.file_system = file_system
        """The file system of all paths; None if each path names its own."""
        self._only = None if file_system is None else over(file_system)

    @property
    def is_real(self) -> bool:
        """True if local paths are those of this machine, not of a file system in memory."""
        return self._only is None or self._only.is_local

    def exists(self, path: str) -> bool:
        """Return True if the file or directory exists."""
        return self.info(path).type is not fs.FileType.NotFound

    def info(self, path: str) -> fs.FileInfo:
        """Return the type and the size of what is at a path."""
        system, inner = self.place(path)
        return system.info(inner)

    def read(self, handle: StreamStateHandle | str) -> pa.Buffer:
        """Return all bytes of a handle, or of a file. Raises StorageError naming the path."""
        if isinstance(handle, str):
            return self.read_part(handle, 0, None)
        delegate = _stream_of(handle)
        if isinstance(delegate, ByteStreamStateHandle):
            return pa.py_buffer(delegate.data)
        return self.read_range(delegate, 0, delegate.state_size)

    def mapped(self, path: str) -> pa.Buffer:
        """Return all bytes of a file that does not change any more, of which memory has what is in use, if possible.

        Raises StorageError naming the path.
        """
        system, inner = self.place(path)
        with _failing_to("read", path):
            return system.mapped(inner)

    def read_range(self, handle: StreamStateHandle, offset: int, length: int) -> pa.Buffer:
        """Return `length` bytes of a handle from `offset` on, without reading the others.

        Raises StorageError if there are fewer.
        """
        delegate = _stream_of(handle)
        if isinstance(delegate, ByteStreamStateHandle):
            data = pa.py_buffer(delegate.data)
            if offset + length > data.size:
                raise _too_short(delegate.handle_name, data.size, offset, length)
            return data.slice(offset, length)
        if delegate.path is None:
            raise StorageError(f"{handle!r} refers to no bytes that could be read")
        start = delegate.start_pos if isinstance(delegate, SegmentFileStateHandle) else 0
        return self.read_part(delegate.path, start + offset, length)

    def resolve(self, pointer: str | os.PathLike[str]) -> ResolvedCheckpoint:
        """Find a checkpoint or savepoint by its directory or its `_metadata` file, and read its metadata.

        Raises SavepointNotFoundError, which says what was expected and what was found.

        Flink: `AbstractFsCheckpointStorageAccess.resolveCheckpoint`.
        """
        if not path_given("path", pointer):
            raise ValueError(
                "Empty checkpoint path: give the directory of a checkpoint or savepoint, or its _metadata file"
            )
        path = _qualified(pointer)
        info = self.info(path)
        if info.type is fs.FileType.NotFound:
            raise SavepointNotFoundError(
                f"Cannot find checkpoint or savepoint {path!r} on file system {self.place(path)[0].name!r}: give a "
                f"{CHECKPOINT_DIR_PREFIX}<id> or savepoint directory, or its {METADATA_FILE_NAME} file"
            )
        metadata_path = f"{path}/{METADATA_FILE_NAME}" if is_directory(info) else path
        if not self.exists(metadata_path):
            raise SavepointNotFoundError(
                f"Cannot find {METADATA_FILE_NAME!r} in directory {path!r}: {self._what_is_in(path)}"
            )
        location = CheckpointLocation(posixpath.dirname(metadata_path))
        return ResolvedCheckpoint(location, metadata_path, self.read(metadata_path).to_pybytes())

    def qualified(self, path: str | os.PathLike[str]) -> str:
        """Return a path or URI in the recorded form: without a slash at its end, a local one absolute."""
        path = path_given("path", path)
        return path.rstrip("/") if self._only is not None else _qualified(path)

    def walk(self, directory: str | os.PathLike[str], most: int) -> Iterator[tuple[str, int]]:
        """Yield the files in a directory and below it, with their bytes; none if it does not exist.

        Raises StorageError, also if there are more than `most`.
        """
        for path, info in self.walk_infos(directory, most):
            yield path, info.size

    def walk_infos(self, directory: str | os.PathLike[str], most: int) -> Iterator[tuple[str, fs.FileInfo]]:
        """Yield the files in a directory and below it, with their bytes and the time of their last change.

        Raises StorageError as `walk` does.
        """
        path = self.qualified(directory)
        system, inner = self.place(path)
        with _failing_to("list", path):
            found = system.entries(inner, recursive=True)
        if len(found) > most:
            raise StorageError(f"{path!r} has {len(found):,} files and directories, at most {most:,} are read")
        for each in found:
            if each.is_file:
                yield f"{path}/{each.path[len(inner) :].lstrip('/')}", each

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, in order; none if it does not exist. Raises StorageError."""
        system, inner = self.place(directory)
        with _failing_to("list", directory):
            found = system.entries(inner)
        return sorted(info.base_name for info in found)

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files; missing ones are ignored. All are tried before StorageError names those that failed."""
        failures = []
        for path in paths:
            try:
                system, inner = self.place(path)
                system.delete(inner)
            except FileNotFoundError:
                continue
            except (OSError, pa.ArrowException) as error:
                if self.exists(path):
                    failures.append(f"{path} ({error})")
        if failures:
            raise StorageError(f"Cannot delete {'; '.join(failures)}")

    def remove_if_empty(self, directory: str) -> bool:
        """Remove a directory if it is empty, and return True if it is gone."""
        system, inner = self.place(directory)
        if system.info(inner).type is fs.FileType.NotFound:
            return True
        if system.entries(inner):
            return False
        system.delete_directory(inner)
        return True

    def place(self, path: str) -> tuple[FileSystem, str]:
        """Return the file system of a path or URI, and the path in it. Raises StorageError if it cannot be opened."""
        if self._only is not None:
            return self._only, path
        try:
            return open_path(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise StorageError(f"Cannot open the file system of {path!r}: {error}") from error

    def read_part(self, path: str, offset: int, length: int | None) -> pa.Buffer:
        """Return `length` bytes of a file from `offset` on, None: all. Raises StorageError if there are fewer."""
        try:
            system, inner = self.place(path)
            return system.read_range(inner, offset, length)
        except StorageError:
            raise
        except CutOffError as error:
            raise _too_short(path, error.size, offset, error.wanted) from error
        except FileNotFoundError as error:
            raise StateLostError(str(_failed("read", path, error))) from error
        except (OSError, pa.ArrowException) as error:
            raise _failed("read", path, error) from error

    def _what_is_in(self, directory: str) -> str:
        names = self.names(directory)
        completed = [name for name in names if self.exists(f"{directory}/{name}/{METADATA_FILE_NAME}")]
        if completed:
            newest_last = sorted(completed, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
            return f"it holds {', '.join(newest_last)}; give one of these, such as the last"
        if names:
            return "the checkpoint in it was never completed, or its metadata was moved; give the metadata file itself"
        return "it is empty"


_ANYWHERE = StateFiles()
exists, read, read_range, resolve = _ANYWHERE.exists, _ANYWHERE.read, _ANYWHERE.read_range, _ANYWHERE.resolve


class CheckpointStorage(StateFiles):
    """The checkpoint directory of one job. `base` and `savepoint_directory` are paths or URIs (`s3://bucket/path`).

    With `file_system`, all paths are in that file system, for instance one in memory. With `entropy`, state files below
    a directory whose path has its key get characters in the key's place.
    """

    def __init__(
        self,
        base: str | os.PathLike[str],
        job_id: str,
        savepoint_directory: str | os.PathLike[str] | None = None,
        memory_threshold_bytes: int = DEFAULT_MEMORY_THRESHOLD_BYTES,
        file_system: fs.FileSystem | None = None,
        durability: Durability = Durability.FSYNC,
        entropy: Entropy | None = None,
    ) -> None:
        super().__init__(file_system)
        if not re.fullmatch(r"[0-9a-f]{32}", job_id):
            raise ValueError(f"A job id is 32 hex digits, not {job_id!r}")
        if not 0 <= memory_threshold_bytes <= MAX_MEMORY_THRESHOLD_BYTES:
            raise ValueError(
                f"The memory threshold is {memory_threshold_bytes} bytes, expected 0 to {MAX_MEMORY_THRESHOLD_BYTES}: "
                "larger state would swell the metadata"
            )
        if file_system is None:
            object_stores.check_installed(os.fspath(base))
        self.job_id = job_id
        self.syncs = durability is Durability.FSYNC
        self.memory_threshold_bytes = memory_threshold_bytes
        self._entropy = entropy
        self._with_key: dict[str, str] = {}
        """Directories whose paths have the entropy key, by their paths without it."""
        self.base = self._without_key(base)
        self.job_directory = f"{self.base}/{job_id}"
        self.savepoint_directory = None if savepoint_directory is None else self._without_key(savepoint_directory)
        self._made: set[str] = set()

    def __repr__(self) -> str:
        return f"CheckpointStorage({self.job_directory!r})"

    # ---- locations ----------------------------------------------------------------------------------------------

    def _without_key(self, directory: str | os.PathLike[str]) -> str:
        """Return the directory without the entropy key, and remember where the key is."""
        path = _qualified(directory)
        if self._entropy is None or not self._entropy.is_in(path):
            return path
        plain = self._entropy.without_key(path)
        self._with_key[plain] = path
        return plain

    def _state_path(self, location: CheckpointLocation, name: str) -> str:
        """Return the path of a state file of a checkpoint."""
        plain = f"{location.directory}/{name}"
        for directory, with_key in self._with_key.items():
            if self._entropy is not None and plain.startswith(f"{directory}/"):
                return self._entropy.in_place_of_key(with_key, plain)
        return plain

    @property
    def shared_directory(self) -> str:
        """The directory for files that several checkpoints refer to."""
        return f"{self.job_directory}/{SHARED_STATE_DIR}"

    @property
    def task_owned_directory(self) -> str:
        """The directory for files that belong to the tasks."""
        return f"{self.job_directory}/{TASK_OWNED_STATE_DIR}"

    def init_base_locations(self) -> None:
        """Make the job's directories. Called when a checkpoint is first due, so that a job without any leaves no trace.

        Flink: `initializeBaseLocationsForCheckpoint`, in 1.11 `initializeBaseLocations`, called by the coordinator's
        constructor.

        Raises StorageError if they cannot be made.
        """
        for directory in (self.job_directory, self.shared_directory, self.task_owned_directory):
            self._make(directory)

    @property
    def shared_location(self) -> CheckpointLocation:
        """The location of files that several checkpoints refer to."""
        return CheckpointLocation(self.shared_directory, shared=True)

    def location_for_checkpoint(self, checkpoint_id: int) -> CheckpointLocation:
        """Return the location of a checkpoint, without creating it."""
        if checkpoint_id < 0:
            raise ValueError(f"A checkpoint id is 0 or more, not {checkpoint_id}")
        return CheckpointLocation(f"{self.job_directory}/{CHECKPOINT_DIR_PREFIX}{checkpoint_id}")

    def checkpoint_locations(self) -> dict[int, CheckpointLocation]:
        """Return the existing directories of checkpoints, complete or not, by id.

        Raises StorageError if they cannot be listed.
        """
        names = self.names(self.job_directory)
        ids = [name.removeprefix(CHECKPOINT_DIR_PREFIX) for name in names if name.startswith(CHECKPOINT_DIR_PREFIX)]
        return {int(number): self.location_for_checkpoint(int(number)) for number in ids if number.isdecimal()}

    def initialize_location_for_checkpoint(self, checkpoint_id: int) -> CheckpointLocation:
        """Make the directory of a checkpoint."""
        location = self.location_for_checkpoint(checkpoint_id)
        self._make(location.directory)
        return location

    def initialize_location_for_savepoint(self, checkpoint_id: int, target: str | None = None) -> CheckpointLocation:
        """Make a new directory for a savepoint in `target`, or in the storage's savepoint directory.

        Raises ValueError if neither is given, StorageError if it cannot be made.
        """
        base = self.savepoint_directory if target is None else self._savepoint_base(target)
        if base is None:
            raise ValueError(
                "No savepoint location given and no default location configured: pass a target directory, or set "
                "savepoint_directory or directory in CheckpointConfig"
            )
        for attempt in range(_SAVEPOINT_ATTEMPTS):
            digits = hashlib.sha256(f"{self.job_id} {checkpoint_id} {attempt}".encode()).hexdigest()[:12]
            directory = f"{base}/savepoint-{self.job_id[:6]}-{digits}"
            if not self.exists(directory):
                self._make(directory)
                return CheckpointLocation(directory)
        raise StorageError(
            f"Savepoint {checkpoint_id} of job {self.job_id} was written to {base!r} {_SAVEPOINT_ATTEMPTS} times "
            "already: give another directory, or remove some"
        )

    def _savepoint_base(self, target: str) -> str:
        """Return the directory that a savepoint request names. Raises StorageError for an unknown one with the key."""
        path = _qualified(target)
        if self._entropy is None or not self._entropy.is_in(path):
            return path
        plain = self._entropy.without_key(path)
        if not any(f"{path}/".startswith(f"{with_key}/") for with_key in self._with_key.values()):
            raise StorageError(
                f"The target {target!r} has the entropy key {self._entropy.key!r}, but the tasks know this name in "
                "directory and savepoint_directory of CheckpointConfig only: set it there, or give a target without it"
            )
        return plain

    # ---- writing ------------------------------------------------------------------------------------------------

    def to_handle(self, data: bytes | pa.Buffer, location: CheckpointLocation, name: str) -> StreamStateHandle:
        """Store state: in the handle itself if it is small, else in file `name` of the checkpoint's directory."""
        if len(data) <= self.memory_threshold_bytes:
            return ByteStreamStateHandle(name, bytes(data))
        path = self._state_path(location, name)
        self.write(path, data)
        return _file_handle(location, name, len(data), path)

    def takes_pieces(self, location: CheckpointLocation) -> bool:
        """Return True if a file can be written there piece by piece without ever being visible incomplete."""
        return self.place(location.directory)[0].is_local

    def create_stream(self, location: CheckpointLocation, name: str) -> CheckpointStateOutputStream:
        """Store state as `to_handle` does, piece by piece, where `takes_pieces` returns True.

        Flink: `CheckpointStreamFactory`, with its `createCheckpointStateOutputStream`.
        """
        return CheckpointStateOutputStream(self, location, name)

    def begin(self, path: str) -> UnfinishedFile:
        """Begin a file that is written piece by piece, and appears when it is finished. Raises StorageError."""
        return UnfinishedFile(self, path)

    def write(self, path: str, data: bytes | pa.Buffer) -> None:
        """Write a file that appears in one step. Raises StorageError naming the path."""
        system, inner = self.place(path)
        self._make(posixpath.dirname(path))
        with _failing_to("write", path):
            system.put(inner, data, durable=self.syncs)

    def replace(self, temporary: str, path: str, data: bytes) -> None:
        """Write a file at `temporary`, and rename it to `path`, whose directory must exist. Raises StorageError."""
        system, inner = self.place(path)
        with _failing_to("write", path):
            system.put(inner, data, durable=self.syncs, temporary=self.place(temporary)[1])

    def write_metadata(self, location: CheckpointLocation, data: bytes) -> str:
        """Make the directory a checkpoint: write its `_metadata`, the last step, and return its path.

        Raises StorageError if there is one already: a completed checkpoint is never changed.
        """
        path = location.metadata_path
        if not self.write_new(path, data):
            raise StorageError(
                f"{path!r} exists already, and a completed checkpoint is never overwritten: "
                "is another job using this directory?"
            )
        return path

    def write_new(self, path: str, data: bytes) -> bool:
        """Write a file that appears in one step; return False, and leave it unchanged, if it exists already.

        Raises StorageError if it cannot be written.
        """
        system, inner = self.place(path)
        self._make(posixpath.dirname(path))
        with _failing_to("write", path):
            return system.put_new(inner, data, durable=self.syncs)

    def make_job_directory(self) -> None:
        """Make the job's own directory. Raises StorageError."""
        self._make(self.job_directory)

    def sync_names(self, directory: str) -> None:
        """Wait until the names in a directory are on the disk, also those that another process gave before it died.

        Does nothing if the directory does not exist. Raises StorageError.
        """
        system, inner = self.place(directory)
        if self.syncs:
            with _failing_to("sync", directory), suppress(FileNotFoundError):
                system.sync(inner)

    def make_new_directory(self, directory: str) -> None:
        """Make a directory below one that exists. Raises StorageError if it exists, or the one above it does not."""
        system, inner = self.place(directory)
        with _failing_to("make directory", directory):
            system.make_new_directory(inner, durable=self.syncs)

    def move(self, source: str, target: str) -> None:
        """Rename a file or directory in one step. Raises StorageError, also if `source` does not exist."""
        system, inner = self.place(source)
        with _failing_to("rename", source):
            system.rename(inner, self.place(target)[1], durable=self.syncs)

    def _make(self, directory: str) -> None:
        if directory in self._made:
            return
        with _failing_to("make directory", directory):
            system, inner = self.place(directory)
            system.make_directory(inner, durable=self.syncs)
        self._made.add(directory)

    # ---- discarding ---------------------------------------------------------------------------------------------

    def discard_location(self, location: CheckpointLocation) -> bool:
        """Remove a checkpoint's directory if it is empty, and return True if it is gone."""
        self._made.discard(location.directory)
        return self.remove_if_empty(location.directory)

    def dispose_on_failure(self, location: CheckpointLocation) -> None:
        """Remove the directory of a checkpoint that was not completed, with its content."""
        system, inner = self.place(location.directory)
        self._made.discard(location.directory)
        with _failing_to("remove", location.directory), suppress(FileNotFoundError):
            system.delete_directory(inner)


class UnfinishedFile:
    """A file that is written piece by piece. All methods but `drop` raise StorageError, which names the path."""

    def __init__(self, storage: CheckpointStorage, path: str) -> None:
        self._path = path
        self._syncs = storage.syncs
        self._system, self._inner = storage.place(path)
        self._hidden = hidden(self._inner)
        storage._make(posixpath.dirname(path))
        with _failing_to("write", path):
            self._file = self._system.create(self._hidden)
        self._kept = False

    def __repr__(self) -> str:
        return f"UnfinishedFile({self._path!r})"

    def write(self, piece: bytes | pa.Buffer) -> None:
        """Write the next piece."""
        with _failing_to("write", self._path):
            self._file.write(piece)

    def finish(self, ending: str = "") -> None:
        """Let the file appear, under its path and an ending."""
        with _failing_to("write", self._path):
            self._file.close()
            self._system.rename(self._hidden, f"{self._inner}{ending}", durable=self._syncs)
        self._kept = True

    def drop(self) -> None:
        """Delete what was written, unless it is finished."""
        if not self._kept:
            with suppress(OSError, pa.ArrowException):
                self._file.close()
            with suppress(OSError, pa.ArrowException):
                self._system.delete(self._hidden)


class CheckpointStateOutputStream:
    """A writer of state to a file, piece by piece; small state goes into the handle instead of a file.

    As a context manager it deletes what was written unless the block ends with `close_and_get_handle`.

    Flink: `FsCheckpointStateOutputStream`.
    """

    def __init__(self, storage: CheckpointStorage, location: CheckpointLocation, name: str) -> None:
        self._storage = storage
        self._location = location
        self._name = name
        self._path = storage._state_path(location, name)
        self._first: list[bytes | pa.Buffer] = []
        self._size = 0
        self._file: UnfinishedFile | None = None

    def __repr__(self) -> str:
        return f"CheckpointStateOutputStream({self._path!r}, {self._size} B)"

    def write(self, piece: bytes | pa.Buffer) -> None:
        """Write the next piece. Raises StorageError naming the path."""
        self._size += len(piece)
        if self._file is None:
            self._first.append(piece)
            if self._size <= self._storage.memory_threshold_bytes:
                return
            self._file = self._storage.begin(self._path)
            piece = b"".join(self._first)
        self._file.write(piece)

    def close_and_get_handle(self) -> StreamStateHandle:
        """Finish the file, and return its handle."""
        if self._file is None:
            return ByteStreamStateHandle(self._name, b"".join(self._first))
        self._file.finish()
        return _file_handle(self._location, self._name, self._size, self._path)

    def __enter__(self) -> CheckpointStateOutputStream:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.drop()


# ---- paths ------------------------------------------------------------------------------------------------------


def _file_handle(location: CheckpointLocation, name: str, size: int, path: str) -> StreamStateHandle:
    """Return the handle of a state file: relative to `_metadata`, unless it is shared or its path has entropy."""
    if not location.shared and path == f"{location.directory}/{name}":
        return RelativeFileStateHandle(name, size, path)
    return FileStateHandle(path, size)


def _stream_of(handle: StreamStateHandle) -> StreamStateHandle:
    return getattr(handle, "delegate", handle)


def _qualified(path: str | os.PathLike[str]) -> str:
    """Return a path or URI without a slash at its end; a local path is made absolute."""
    text = os.fspath(path).rstrip("/") or "/"
    return text if "://" in text or text.startswith("file:") else os.path.abspath(text)


@contextmanager
def _failing_to(what: str, path: str) -> Iterator[None]:
    """Raise StorageError, which names the path, for an error of the file system in the block."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise _failed(what, path, error) from error


def _failed(what: str, path: str, error: Exception) -> StorageError:
    remedy = "check that the path exists and this user may use it"
    return StorageError(f"Cannot {what} {path!r}: {reason(error, remedy)}")


def _too_short(path: str, size: int, offset: int, length: int) -> StateLostError:
    return StateLostError(
        f"{path!r} ends at byte {size}, {length} bytes from {offset} on were to be read: it was cut off"
    )
