"""Task-local copies of state, for a fast recovery.

With `CheckpointConfig(local_recovery=True)` every state file of a checkpoint is written twice: to the checkpoint's
directory, and to a directory of the slot that wrote it, on its own machine:

    <directory>/slot-<n>/chk-<id>/<file name>.<crc32, 8 hex digits>

A task that is restored on that machine reads its copy, if it is intact, and the checkpoint's own file otherwise. The
copies outlive the process, but not the job: `directory` belongs to one run of it, so that a copy is never mistaken for
that of another run. A completed checkpoint makes copies of earlier ones obsolete, an aborted one its own copies, and a
restore all but those of the restored checkpoint.

The runs of an incremental checkpoint are in the directories of the checkpoints that wrote them. Beside its own run each
has the list of all its runs, `<file name>.runs`, and no run on the list of a remaining checkpoint is deleted.

A copy never causes a failure: errors when writing, reading or deleting it are ignored. In-flight data and savepoints
have no copies. Follows `TaskLocalStateStoreImpl` and `TaskStateManagerImpl`, which keep a list of the copies; here the
names of the files contain all that is needed.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from kit.core.protocol.commands import LocalCopies
from kit.core.protocol.properties import Durability
from kit.core.state.errors import StateRestoreError, StorageError
from kit.core.state.handles import (
    FileStateHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    StreamStateHandle,
)
from kit.core.state.operator_state import OperatorSubtaskState
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.files.run_files import read_runs
from kit.files.storage import CheckpointLocation, CheckpointStorage, UnfinishedFile
from kit.machines.restore.prioritized import PrioritizedOperatorSubtaskState
from kit.stream.backend.files.framing import Piece
from kit.stream.backend.files.partial_file import PartialFile, ReadRange, read_wanted
from kit.stream.backend.runs.manifest import decode_manifest

SLOT, CHECKPOINT, RUNS = "slot-", "chk-", ".runs"
KINDS = (
    SubtaskStateKind.MANAGED_OPERATOR,
    SubtaskStateKind.MANAGED_KEYED,
    SubtaskStateKind.RAW_OPERATOR,
    SubtaskStateKind.RAW_KEYED,
)
"""The kinds of state that a slot keeps copies of, in the order in which a task reads them."""
Read = tuple[Any, Any, bool]
"""A handle, its bytes, and True if a copy was read."""

_SUPERFLUOUS = {LocalCopies.OLDER: operator.lt, LocalCopies.SAME: operator.eq, LocalCopies.OTHER: operator.ne}
"""How the checkpoint of a superfluous copy compares with the given one."""


class LocalState:
    """The copies of one run of a job below `directory`, by default on the machine's disk."""

    def __init__(self, directory: str, job_id: str, file_system: fs.FileSystem | None = None) -> None:
        self._files = CheckpointStorage(
            directory, job_id, file_system=file_system or fs.LocalFileSystem(), durability=Durability.PAGE_CACHE
        )
        self._directory = directory

    def __repr__(self) -> str:
        return f"LocalState({self._directory!r})"

    # ---- writing ------------------------------------------------------------------------------------------------

    def store(self, subtask: int, checkpoint_id: int, file_name: str, data: bytes | pa.Buffer) -> None:
        """Keep a copy of a state file."""
        with suppress(StorageError):
            path = f"{self._location(subtask, checkpoint_id).directory}/{file_name}{_ending(zlib.crc32(data))}"
            self._files.write(path, data)

    def begin_copy(self, subtask: int, checkpoint_id: int, file_name: str) -> CopyInProgress:
        """Begin a copy of a state file that is written piece by piece."""
        return CopyInProgress(self._files, f"{self._location(subtask, checkpoint_id).directory}/{file_name}")

    def store_list(self, subtask: int, checkpoint_id: int, file_name: str, manifest: bytes) -> None:
        """Keep the list of the runs of an incremental state, so that their copies are kept, too."""
        self.store(subtask, checkpoint_id, f"{file_name}{RUNS}", manifest)

    def prune(self, subtask: int, checkpoint_id: int, copies: LocalCopies) -> None:
        """Delete a slot's copies of some checkpoints, except for runs that another one needs."""
        is_superfluous = _SUPERFLUOUS[copies]
        found = [int(name.removeprefix(CHECKPOINT)) for name in self._names(f"{self._directory}/{SLOT}{subtask}")]
        superfluous = [number for number in found if is_superfluous(number, checkpoint_id)]
        if not superfluous:
            return
        needed = {run for number in found if number not in superfluous for run in self._listed_runs(subtask, number)}
        for number in superfluous:
            with suppress(StorageError):
                self._delete(self._location(subtask, number), needed)

    def _listed_runs(self, subtask: int, checkpoint_id: int) -> Iterator[str]:
        """Yield the names of the runs of a checkpoint. A damaged list costs copies and nothing else."""
        for name, path in self._files_in(self._location(subtask, checkpoint_id).directory):
            if name.endswith(RUNS):
                with suppress(StorageError, StateRestoreError):
                    yield from (run.name for run in decode_manifest(self._files.read(path), path))

    def _delete(self, location: CheckpointLocation, needed: set[str]) -> None:
        """Delete the copies of a checkpoint, except for those of the `needed` files."""
        copies = list(self._files_in(location.directory)) if needed else []
        if needed.isdisjoint(name for name, _ in copies):
            self._files.dispose_on_failure(location)
        else:
            self._files.discard(path for name, path in copies if name not in needed)

    def drop(self, subtask: int | None = None) -> None:
        """Delete all copies, after the job has ended, or all copies of one slot."""
        with suppress(StorageError, OSError):
            if subtask is None:
                self._files.dispose_on_failure(CheckpointLocation(self._directory))
            else:
                self._files.dispose_on_failure(CheckpointLocation(f"{self._directory}/{SLOT}{subtask}"))
                self._files.discard_location(CheckpointLocation(self._directory))

    # ---- reading ------------------------------------------------------------------------------------------------

    def alternatives(self, state: OperatorSubtaskState, checkpoint_id: int) -> PrioritizedOperatorSubtaskState:
        """Return what an operator may be restored from: its copies, then the `state` that the JobMaster assigned."""
        there = dict(self._copies(checkpoint_id))
        moved: dict[str, Any] = {kind.field: tuple(_moved(state.of_kind(kind), there)) for kind in KINDS}
        copy = OperatorSubtaskState(**moved)
        return PrioritizedOperatorSubtaskState.of(state, [copy], checkpoint_id)

    def read(self, handle: StreamStateHandle) -> pa.Buffer | None:
        """Return the bytes of a copy, of which memory has what is in use; None for other handles.

        Raises StorageError if they were changed.
        """
        path = getattr(handle, "path", None)
        if path is None or not path.startswith(f"{self._directory}/"):
            return None
        data = self._files.mapped(path)
        if data.size != handle.state_size or not path.endswith(_ending(zlib.crc32(data))):
            raise StorageError(f"{path!r} is not the copy that was written: the checkpoint's own file is read instead")
        return data

    def run_reader(self) -> Callable[[StreamStateHandle], pa.Buffer | None]:
        """Return a function that reads the copy of a run from any slot of this machine: None if none is intact."""
        slots = [f"{self._directory}/{slot}" for slot in self._names(self._directory)]
        directories = [f"{slot}/{checkpoint}" for slot in slots for checkpoint in self._names(slot)]
        paths = {name: path for directory in directories for name, path in self._files_in(directory)}

        def read(run: StreamStateHandle) -> pa.Buffer | None:
            path = paths.get(_file_name(run))
            with suppress(StorageError):
                return None if path is None else self.read(FileStateHandle(path, run.state_size))
            return None

        return read

    def _copies(self, checkpoint_id: int) -> Iterator[tuple[str, str]]:
        """Yield file name and path of each copy, from any slot of this machine."""
        for slot in self._names(self._directory):
            yield from self._files_in(f"{self._directory}/{slot}/{CHECKPOINT}{checkpoint_id}")

    def _files_in(self, directory: str) -> Iterator[tuple[str, str]]:
        """Yield the name of each copied file, and the path of its copy."""
        for name in self._names(directory):
            yield name.rpartition(".")[0], f"{directory}/{name}"

    def _location(self, subtask: int, checkpoint_id: int) -> CheckpointLocation:
        return CheckpointLocation(f"{self._directory}/{SLOT}{subtask}/{CHECKPOINT}{checkpoint_id}")

    def _names(self, directory: str) -> list[str]:
        with suppress(StorageError):
            return self._files.names(directory)
        return []


class CopyInProgress:
    """A copy that is written piece by piece. Nothing here raises an error: what could not be written is no copy.

    As a context manager it deletes what was written unless the block ends with `keep`.
    """

    def __init__(self, files: CheckpointStorage, path: str) -> None:
        self._crc = 0
        self._file: UnfinishedFile | None = None
        with suppress(StorageError):
            self._file = files.begin(path)

    def write(self, piece: bytes | pa.Buffer) -> None:
        """Write the next piece."""
        if self._file is None:
            return
        self._crc = zlib.crc32(piece, self._crc)
        try:
            self._file.write(piece)
        except StorageError:
            self._file.drop()
            self._file = None

    def keep(self) -> None:
        """Let the copy appear."""
        if self._file is not None:
            with suppress(StorageError):
                self._file.finish(_ending(self._crc))

    def __enter__(self) -> CopyInProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.drop()


def _ending(crc: int) -> str:
    """Return what comes behind the name of a file in that of its copy."""
    return f".{crc:08x}"


def _file_name(file: StreamStateHandle) -> str:
    return (file.path or "").rpartition("/")[2]


def _moved(handles: Any, there: dict[str, str]) -> Iterator[Any]:
    """Yield the handles whose files have a copy, as handles of the copies, except for runs, which are chosen singly."""
    for handle in handles:
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            continue
        path = there.get(_file_name(handle.delegate))
        if path is not None:
            yield replace(handle, delegate=FileStateHandle(path, handle.delegate.state_size))


class TemporaryFiles(Protocol):
    """Files without names on the local disk, for state that may exceed memory."""

    def through_disk(self, read_range: ReadRange) -> ReadRange:
        """Return a function that reads the same, and keeps long ranges on the local disk."""

    def written(self, write: Callable[[Callable[[Piece], object]], Any]) -> tuple[pa.Buffer, Any]:
        """Return what `write` writes in pieces, of which memory has what is in use, and what it returns."""


class StateReader:
    """A reader of the state that a task restores: an intact copy if there is one, else the checkpoint's own file.

    Of incremental state, it reads only `key_groups` if the file is the checkpoint's own. With `temporary` files, keyed
    state may exceed memory.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        local: LocalState | None,
        checkpoint_id: int,
        key_groups: KeyGroupRange,
        temporary: TemporaryFiles | None = None,
    ) -> None:
        self._storage = storage
        self._temporary = temporary
        self._local = local
        self._checkpoint_id = checkpoint_id
        self._key_groups = key_groups
        self.from_local = 0
        """The number of files read so far that were copies."""

    @cached_property
    def _read_copy(self) -> Callable[[StreamStateHandle], pa.Buffer | None]:
        """What reads the copy of a run. All copies are listed for it, so it is made for the first run."""
        return (lambda run: None) if self._local is None else self._local.run_reader()

    def read(self, state: OperatorSubtaskState) -> Iterator[tuple[SubtaskStateKind, Any, Any]]:
        """Yield kind, handle as assigned by the JobMaster, and bytes of an operator's state, managed and raw.

        Raises StateRestoreError for incremental state of another backend, and StorageError if the checkpoint's own
        files cannot be read either.
        """
        choice = None if self._local is None else self._local.alternatives(state, self._checkpoint_id)
        for kind in KINDS:
            truth = state.of_kind(kind)
            alternatives = (truth,) if choice is None else choice.of_kind(kind)
            read = self._read_wanted if kind is SubtaskStateKind.MANAGED_KEYED else self._read_whole
            for handle, data in self._first(read, truth, alternatives):
                yield kind, handle, data

    def _first(self, read: Callable[[Any], Any], truth: Any, alternatives: Any) -> list[tuple[Any, Any]]:
        for alternative in alternatives[:-1]:
            with suppress(StorageError):
                return self._read(read, truth, alternative)
        return self._read(read, truth, truth)

    def _read(self, read: Callable[[Any], Any], truth: Any, handles: Any) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        copies = 0
        for true, handle in zip(truth, handles, strict=True):
            if isinstance(handle, IncrementalRemoteKeyedStateHandle):
                found.append((true, read_runs(handle, self._storage, self._key_groups, self._range_reader)))
                continue
            copy = None if self._local is None else self._local.read(handle.delegate)
            found.append((true, read(handle) if copy is None else copy))
            copies += copy is not None
        self.from_local += copies
        return found

    def _range_reader(self, run: StreamStateHandle) -> ReadRange:
        """Return the function that reads a run: from its copy if there is an intact one."""
        copy = self._read_copy(run)
        if copy is None:
            return self._reader_of(run)
        self.from_local += 1
        return copy.slice

    def _read_whole(self, handle: Any) -> pa.Buffer:
        return self._storage.read(handle.delegate)

    def _read_wanted(self, handle: Any) -> pa.Buffer | PartialFile:
        return read_wanted(handle, self._reader_of(handle.delegate))

    def _reader_of(self, stream: StreamStateHandle) -> ReadRange:
        read_range = partial(self._storage.read_range, stream)
        return read_range if self._temporary is None else self._temporary.through_disk(read_range)
