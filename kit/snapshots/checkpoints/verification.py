"""The check of a whole checkpoint: every file is complete, and its bytes have their checksums and their layout.

Not all formats have checksums. A changed byte is found for certain in compressed state, in RocksDB's tables, and in
in-flight data that the kit wrote. In other formats it is found only if the bytes no longer fit their layout.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kit.core.display import display
from kit.core.metadata import CheckpointMetadata
from kit.core.state.errors import CheckpointError, DamagedError, StateError, StateRestoreError
from kit.core.state.handles import ChangelogStateBackendHandle
from kit.core.state.operator_state import OperatorState
from kit.files.storage import METADATA_FILE_NAME
from kit.snapshots.checkpoints import frames
from kit.snapshots.checkpoints.in_flight import check_buffers
from kit.snapshots.checkpoints.keyed_parts import parts_of
from kit.snapshots.checkpoints.naming import label
from kit.snapshots.checkpoints.operator_parts import operator_parts_of
from kit.snapshots.checkpoints.state_bytes import FileCheck, How, OutsideError, StateBytes
from kit.snapshots.leaf_streams import leaf_streams
from kit.snapshots.serializers.reading import Decoders

if TYPE_CHECKING:
    import pandas as pd

ERRORS = (StateError, OSError, ValueError, pa.ArrowException)
COLUMNS = ["operator", "subtask", "kind", "file", "bytes", "checked", "result", "problem"]


class Result(StrEnum):
    """The result of the check of a file."""

    SOUND = "sound"
    DAMAGED = "damaged"
    NOT_READ = "not read"


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """A file of one subtask, or the part of `_metadata` that holds its state: how it was checked, and what was found.

    `problem` names the place of damage, or says why the file was not read.
    """

    operator: str
    subtask: int
    kind: str
    file: str
    size: int
    checked: How | None
    result: Result
    problem: str = ""


@dataclass(frozen=True)
class Verification:
    """The results for all files of a checkpoint. `title` is that of the checkpoint."""

    title: str
    verified: tuple[VerifiedFile, ...]

    @cached_property
    def files(self) -> pd.DataFrame:
        """One row per file of a subtask: operator, subtask, kind, file, bytes, checked, result, problem.

        `checked` is by checksums, layout, or size. A file that several subtasks share has a row for each.
        """
        import pandas as pd

        rows = [
            (
                each.operator,
                each.subtask,
                each.kind,
                each.file,
                each.size,
                each.checked or "",
                each.result,
                each.problem,
            )
            for each in self.verified
        ]
        return pd.DataFrame(rows, columns=COLUMNS).astype({"subtask": "int64", "bytes": "int64"})

    def to_pandas(self) -> pd.DataFrame:
        """Return `files`."""
        return self.files

    @property
    def damaged(self) -> tuple[VerifiedFile, ...]:
        """The files that are damaged, cut off or missing."""
        return tuple(each for each in self.verified if each.result is Result.DAMAGED)

    @property
    def not_read(self) -> tuple[VerifiedFile, ...]:
        """The files that were not checked, or not all of them."""
        return tuple(each for each in self.verified if each.result is Result.NOT_READ)

    @property
    def is_sound(self) -> bool:
        """True if all was read, and nothing is damaged."""
        return all(each.result is Result.SOUND for each in self.verified)

    @property
    def verdict(self) -> str:
        """A sentence with the result."""
        if not self.verified:
            return "The checkpoint has no state besides its metadata, which is sound"
        damaged, not_read = ({each.file for each in found} for found in (self.damaged, self.not_read))
        how = ", ".join(f"{self._files_checked(how)} by {how}" for how in How if self._files_checked(how))
        said = [f"{_files(damaged)} damaged" if damaged else "", f"{_files(not_read)} not read" if not_read else ""]
        found = " and ".join(filter(None, said)) or "No damage found"
        return f"{found}; files checked: {how or 'none'}"

    def _files_checked(self, how: How) -> int:
        return len({each.file for each in self.verified if each.checked is how})

    def __repr__(self) -> str:
        return f"Verification({self.verdict})"

    def _repr_html_(self) -> str:
        return str(display("verification_html", self))


def verified(
    metadata: CheckpointMetadata,
    source: StateBytes,
    decoders: Decoders,
    title: str,
    progress: Callable[[VerifiedFile], None] = lambda _: None,
) -> Verification:
    """Read all files of a checkpoint. `progress` is called for each."""
    found = []
    for operator in metadata.operator_states:
        for subtask, state in sorted(operator.subtask_states.items()):
            for kind, of_state in frames.KINDS.items():
                for handle in state.of_kind(of_state):
                    for each in _of_handle(_Owner(operator, subtask, kind), handle, source, decoders):
                        found.append(each)
                        progress(each)
    return Verification(title, tuple(found))


@dataclass(frozen=True, slots=True)
class _Owner:
    """The owner of the state that is checked: a subtask of an operator, and the kind of its state."""

    operator: OperatorState
    subtask: int
    kind: str

    def sound(self, file: str, size: int, how: How) -> VerifiedFile:
        return VerifiedFile(*self._known(file, size), how, Result.SOUND)

    def failed(self, file: str, size: int, error: Exception) -> VerifiedFile:
        """Return the result for an error: damage, or state that cannot be read here, though it may be sound."""
        result = Result.DAMAGED if isinstance(error, DamagedError) or _is_own_damage(error) else Result.NOT_READ
        return VerifiedFile(*self._known(file, size), None, result, str(error))

    def not_read(self, file: str, size: int, why: str) -> VerifiedFile:
        return VerifiedFile(*self._known(file, size), None, Result.NOT_READ, why)

    def absent(self, file: str, size: int, error: CheckpointError) -> VerifiedFile:
        """Return the result for a file that is missing or too short. One that lies elsewhere is not looked for."""
        result = Result.NOT_READ if isinstance(error, OutsideError) else Result.DAMAGED
        return VerifiedFile(*self._known(file, size), None, result, str(error))

    def _known(self, file: str, size: int) -> tuple[str, int, str, str, int]:
        return label(self.operator), self.subtask, self.kind.replace("_", " "), file, size


def _is_own_damage(error: Exception) -> bool:
    """Return True for damage of the kit's own formats, all of which can be read here."""
    return isinstance(error, StateRestoreError) or isinstance(error.__cause__, StateRestoreError)


def _of_handle(owner: _Owner, handle: Any, source: StateBytes, decoders: Decoders) -> Iterator[VerifiedFile]:
    """Yield the results for the files of one handle. If one is missing, the others are named and not opened."""
    if isinstance(handle, ChangelogStateBackendHandle):
        for part in (*handle.materialized, *(each for each in handle.non_materialized if each.state_size)):
            yield from _of_handle(owner, part, source, decoders)
        return
    absent = list(_absent(owner, handle, source))
    if absent:
        yield from absent
        yield from _beside(owner, handle, source, [each.file for each in absent])
        return
    try:
        checks = list(_checks(owner, handle, source, decoders))
    except ERRORS as error:
        files = [source.stream(each).name for each in leaf_streams(handle)]
        files.append(f"{source.directory}/{METADATA_FILE_NAME}")
        named = [each for each in files if repr(each) in str(error) or repr(posixpath.basename(each)) in str(error)]
        yield owner.failed([*named, *files][0], handle.state_size, error)
        return
    for check in checks:
        try:
            yield owner.sound(check.file, check.size, check.run())
        except ERRORS as error:
            yield owner.failed(check.file, check.size, error)


def _beside(owner: _Owner, handle: Any, source: StateBytes, absent: list[str]) -> Iterator[VerifiedFile]:
    """Yield a result for each other file of a handle: its state is read from all of them together."""
    why = f"not read, because another file of the same state cannot be: {posixpath.basename(absent[0])!r}"
    for stream in leaf_streams(handle):
        if stream.path is not None and stream.path not in absent:
            yield owner.not_read(source.whole_path(stream.path, stream.state_size), stream.state_size, why)


def _absent(owner: _Owner, handle: Any, source: StateBytes) -> Iterator[VerifiedFile]:
    """Yield a result for each file that is missing, too short, or outside the checkpoint's directories."""
    for stream in leaf_streams(handle):
        if stream.path is not None:
            try:
                source.whole_path(stream.path, stream.state_size)
            except CheckpointError as error:
                yield owner.absent(stream.path, stream.state_size, error)


def _checks(owner: _Owner, handle: Any, source: StateBytes, decoders: Decoders) -> Iterator[FileCheck]:
    """Yield a check for each file of a handle. Raises CheckpointError for a file that cannot be opened."""
    kind = owner.kind
    if kind in ("keyed", "raw_keyed"):
        managed, raw = ([handle], []) if kind == "keyed" else ([], [handle])
        parts = list(parts_of(managed, raw, source, owner.operator.max_parallelism, decoders))
        yield from (check for part in parts for check in part.file_checks())
        if parts or kind == "keyed":
            return
    elif kind == "operator":
        stream = source.stream(handle.delegate)
        for part in operator_parts_of(iter((handle,)), iter((stream,)), decoders):
            yield part.file_check()
        return
    stream = source.stream(handle)
    if kind in ("raw_keyed", "raw_operator"):
        yield FileCheck(stream.name, stream.size, stream.check_size)
    else:
        yield FileCheck(stream.name, stream.size, lambda: check_buffers(handle, stream))


def _files(names: set[str]) -> str:
    return "1 file is" if len(names) == 1 else f"{len(names)} files are"
