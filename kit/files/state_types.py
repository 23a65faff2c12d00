"""Keyed state of a checkpoint held against what the job declares, before any task is deployed.

Only the header of one file per operator is read: it names each state with its types and its definition. Compared are
the key, the definition (key columns, windows, aggregates), and the descriptors that are attributes of a user-defined
function's class. A descriptor that a function makes while it runs is known only then, and compared by its task.

Flink compares when a task opens its state, and restarts the job when it fails.
"""

from __future__ import annotations

from kit.core.metadata import read_metadata
from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.handles import KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.operator_state import OperatorState
from kit.files.storage import CheckpointStorage
from kit.stream.backend.files.framing import file_name, header_bytes
from kit.stream.backend.files.partial_file import HEADER_READ_BYTES, PartialFile
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.state_definition import StateDefinition
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.base import OperatorSpec


def check_state_types(job: JobGraph, storage: CheckpointStorage, metadata: bytes, location: str) -> None:
    """Raise StateDescriptorError, or StateRestoreError for other keys, where state does not fit its operator.

    What is damaged or missing is passed over: the restore finds it, and may go back to an older checkpoint.
    """
    try:
        states = {state.operator_id: state for state in read_metadata(metadata, location)[0].operator_states}
    except ValueError:
        return
    for vertex in job.vertices:
        for operator in vertex.operators:
            state = states.get(operator.operator_id)
            if state is None or operator.spec.key_type is None:
                continue
            file = _keyed_file(state, storage)
            if file is not None:
                owner = f"operator {operator.name!r}" + (f" (uid {operator.uid!r})" if operator.uid else "")
                _check(operator.spec, owner, state.max_parallelism, file)


def _check(spec: OperatorSpec, owner: str, max_parallelism: int, file: KeyedStateFile) -> None:
    try:
        _declared(spec, owner, max_parallelism).check_fits(file)
    except (StateDescriptorError, StateRestoreError) as error:
        raise type(error)(f"{error}. The state is that of {owner}; no task was deployed") from error


def _declared(spec: OperatorSpec, owner: str, max_parallelism: int) -> HeapKeyedStateBackend:
    """Return a backend that holds nothing but the states that an operator is known to have."""
    definition = StateDefinition(owner, spec.state_aspects())
    backend = HeapKeyedStateBackend(spec.key_type, KeyGroupRange(0, max_parallelism - 1), max_parallelism, definition)
    for descriptor in spec.declared_states():
        backend.table(descriptor)
    return backend


def _keyed_file(state: OperatorState, storage: CheckpointStorage) -> KeyedStateFile | None:
    """Return a file of keyed state of the operator, of which only the header is here; None if there is none."""
    for part in state.subtask_states.values():
        for handle in part.managed_keyed_state:
            if not isinstance(handle, KeyGroupsStateHandle):
                continue
            size = handle.delegate.state_size
            try:
                header = storage.read_range(handle.delegate, 0, min(HEADER_READ_BYTES, size))
                if (whole := header_bytes(header)) > header.size:
                    header = storage.read_range(handle.delegate, 0, min(whole, size))
                file = KeyedStateFile(PartialFile(size, [(0, header)]), file_name(handle))
                if file.schemas:
                    return file
            except (OSError, ValueError, StateRestoreError):
                return None
    return None
