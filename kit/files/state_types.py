"""The check of a checkpoint's state against what the job declares, before any task is deployed.

Only headers of files are read: they name each state with its types, and keyed state with its definition. The check
compares the key, the definition (key columns, windows, aggregates), the broadcast maps, and the descriptors that are
attributes of a user-defined function's class. A descriptor that a function makes while it runs is compared by its
task. A type may differ in what `kit.stream.backend.types.evolution` accepts.

Flink compares when a task opens its state, and restarts the job when it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from kit.core.metadata import read_metadata
from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStreamStateHandle,
    StateObject,
)
from kit.core.state.operator_state import OperatorState
from kit.core.state.type_changes import TypeChange
from kit.files.run_files import runs_of
from kit.files.storage import StateFiles
from kit.stream.backend.files.framing import FramedFile, file_name, header_bytes
from kit.stream.backend.files.partial_file import HEADER_READ_BYTES, PartialFile
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.operator_store import OperatorStateFile, check_types
from kit.stream.backend.states.state_definition import StateDefinition
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.base import OperatorSpec

File = TypeVar("File", bound=FramedFile)
Handle = TypeVar("Handle", KeyGroupsStateHandle, OperatorStreamStateHandle)


class EvolvedState(NamedTuple):
    """A state whose type changed in a way that a restore accepts: its operator, its name, and each change."""

    owner: str
    state: str
    changes: tuple[TypeChange, ...]


def check_state_types(job: JobGraph, storage: StateFiles, metadata: bytes, location: str) -> list[EvolvedState]:
    """Return the states whose types changed and can be restored.

    Damaged or missing files are skipped: the restore finds them, and may fall back to an older checkpoint. Raises
    StateDescriptorError, or StateRestoreError for other keys, where state does not fit its operator.
    """
    try:
        states = {state.operator_id: state for state in read_metadata(metadata, location)[0].operator_states}
    except ValueError:
        return []
    evolved: dict[EvolvedState, None] = {}  # each subtask's file has the types again
    for vertex in job.vertices:
        for operator in vertex.operators:
            state = states.get(operator.operator_id)
            if state is not None:
                owner = f"operator {operator.name!r}" + (f" (uid {operator.uid!r})" if operator.uid else "")
                try:
                    changed = _check(operator.spec, owner, state, storage)
                    evolved |= dict.fromkeys(EvolvedState(owner, name, changes) for name, changes in changed)
                except (StateDescriptorError, StateRestoreError) as error:
                    raise type(error)(f"{error}. The state is that of {owner}; no task was deployed") from error
    return list(evolved)


def _check(
    spec: OperatorSpec, owner: str, state: OperatorState, storage: StateFiles
) -> list[tuple[str, tuple[TypeChange, ...]]]:
    """Check the files of all subtasks: a subtask's file names only the states in which this subtask has entries."""
    changed: dict[str, list[TypeChange]] = {}
    if spec.key_type is not None:
        handles = (handle for part in state.subtask_states.values() for handle in part.managed_keyed_state)
        backend = _declared(spec, owner, state.max_parallelism)
        for _, file in _with_headers(handles, KeyGroupsStateHandle, storage, KeyedStateFile):
            changed |= {name: found for name, found in backend.check_fits(file).items() if found}
    declared = spec.declared_operator_states()
    if declared:
        of_operators = (handle for part in state.subtask_states.values() for handle in part.managed_operator_state)
        for handle, of_operator in _with_headers(of_operators, OperatorStreamStateHandle, storage, OperatorStateFile):
            found = check_types(declared, handle, of_operator)
            changed |= {name: changes for name, changes in found.items() if changes}
    return [(name, tuple(changes)) for name, changes in changed.items()]


def _declared(spec: OperatorSpec, owner: str, max_parallelism: int) -> HeapKeyedStateBackend:
    """Return a backend with only the states that an operator is known to have."""
    definition = StateDefinition(owner, spec.state_aspects())
    backend = HeapKeyedStateBackend(spec.key_type, KeyGroupRange(0, max_parallelism - 1), max_parallelism, definition)
    for descriptor in spec.declared_states():
        backend.table(descriptor)
    return backend


def _with_headers(
    handles: Iterable[StateObject], of: type[Handle], storage: StateFiles, kind: type[File]
) -> Iterator[tuple[Handle, File]]:
    """Yield each handle of a class with its file, unless that is unreadable or has no state."""
    for handle in handles:
        if isinstance(handle, IncrementalRemoteKeyedStateHandle) and of is KeyGroupsStateHandle:
            yield from _with_headers(_runs_of(handle, storage), of, storage, kind)
        elif isinstance(handle, of):
            file = _with_header(handle, storage, kind)
            if file is not None:
                yield handle, file


def _runs_of(handle: IncrementalRemoteKeyedStateHandle, storage: StateFiles) -> list[KeyGroupsStateHandle]:
    """Return the runs of incremental state; none if they are unreadable, or another backend's."""
    try:
        return [key_groups for _, key_groups, _ in runs_of(handle, storage)]
    except (OSError, ValueError, StateRestoreError):
        return []


def _with_header(
    handle: KeyGroupsStateHandle | OperatorStreamStateHandle, storage: StateFiles, kind: type[File]
) -> File | None:
    """Return a file with only its header read; None if it is unreadable, or has no state."""
    size = handle.delegate.state_size
    try:
        header = storage.read_range(handle.delegate, 0, min(HEADER_READ_BYTES, size))
        if (whole := header_bytes(header)) > header.size:
            header = storage.read_range(handle.delegate, 0, min(whole, size))
        file = kind(PartialFile(size, [(0, header)]), file_name(handle))
        return file if file.schemas else None
    except (OSError, ValueError, StateRestoreError):
        return None
