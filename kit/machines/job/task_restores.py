"""The restore of a job: its graph and a checkpoint are passed to state assignment, and the result is described.

If the job configures no maximum parallelism, the execution graph adopts the one that the checkpoint recorded. The
assignment is described per task, operator and kind of state, for the trace and for the table that a user sees after a
restore.

Follows Flink's `CheckpointCoordinator.restoreLatestCheckpointedStateInternal`; `kit.machines.restore` does the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.protocol.commands import Note
from kit.core.protocol.tasks import TaskRestore, task_name
from kit.core.state.handles import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStreamStateHandle,
    StateObject,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.coordinator.completed_checkpoint import CompletedCheckpoint
from kit.machines.restore.channels import ChannelsHandle, unmerged
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.own_repartitioner import repartition_with
from kit.machines.restore.shared_handles import SharedHandles
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph


@dataclass(frozen=True, slots=True)
class RestoredJob:
    """The graph to deploy, each task's restore (None: it starts empty), and the state `before` by operator id."""

    graph: ExecutionGraph
    restores: Mapping[str, TaskRestore | None]
    before: Mapping[str, OperatorState]
    checkpoint_id: int

    def note(self, epoch: int, path: str) -> Note:
        """Return the note for the trace: the epoch, the path of the checkpoint, and the assignments."""
        assignments = describe_assignments(self.graph.job_graph, self.restores, self.before)
        data = {"epoch": epoch, "path": path, "assignments": assignments}
        return Note(kind="StateAssigned", checkpoint_id=self.checkpoint_id, data=data)


@dataclass(frozen=True, slots=True)
class Restoring:
    """The checkpoint that a job goes back to, and the state of each of its tasks."""

    latest: CompletedCheckpoint
    job: RestoredJob


def restore_job(
    graph: ExecutionGraph,
    operator_states: Mapping[str, OperatorState],
    checkpoint_id: int,
    *,
    allow_non_restored_state: bool,
) -> RestoredJob:
    """Assign a checkpoint's state to the tasks of `graph`. Raises `kit.machines.restore.errors.RestoreError`."""
    job = graph.job_graph
    assigned = assign_states(
        assignment_vertices(graph),
        assignment_edges(job),
        operator_states,
        checkpoint_id,
        allow_non_restored_state=allow_non_restored_state,
        repartition=repartition_with(job.parts.operator_state_repartitioner),
    )
    adopted = {
        vertex.name: settled.max_parallelism for vertex, settled in zip(job.vertices, assigned.vertices, strict=True)
    }
    restores = {
        task_name(vertex.name, subtask): restore
        for vertex, of_vertex in zip(job.vertices, assigned.restores, strict=True)
        for subtask, restore in enumerate(of_vertex)
    }
    return RestoredJob(graph.with_max_parallelism(adopted), restores, operator_states, checkpoint_id)


def hold_in_flight_data(restores: Iterable[TaskRestore | None]) -> bool:
    """Return True if any task has in-flight data to recover."""
    states = (state for restore in restores if restore is not None for state in restore.state.subtask_states.values())
    return any(
        state.input_channel_state
        or state.result_subpartition_state
        or (isinstance(state, RestoredSubtaskState) and state.upstream_output_buffer_state)
        for state in states
    )


def assignment_vertices(graph: ExecutionGraph) -> list[AssignmentVertex]:
    """Return the job's vertices for state assignment: operators tail first, maximum parallelism if configured."""
    return [
        AssignmentVertex(
            name=vertex.name,
            parallelism=graph.parallelism[vertex.name],
            operators=tuple(_id_pair(graph.job_graph, operator_id) for operator_id in vertex.operator_ids),
            max_parallelism=vertex.max_parallelism if vertex.max_parallelism_configured else None,
        )
        for vertex in graph.job_graph.vertices
    ]


def _id_pair(job: JobGraph, operator_id: str) -> OperatorIDPair:
    operator = job.operator(operator_id)
    return OperatorIDPair(operator_id, None, operator.name, operator.uid)


def assignment_edges(job: JobGraph) -> list[AssignmentEdge]:
    """Return the job's edges for state assignment, with vertices as numbers."""
    number = {vertex.name: index for index, vertex in enumerate(job.vertices)}
    return [
        AssignmentEdge.of(
            number[edge.source], number[edge.target], edge.partitioner.name.lower(), edge.partition, edge.gate
        )
        for edge in job.edges
    ]


def describe_assignments(
    job: JobGraph, restores: Mapping[str, TaskRestore | None], before: Mapping[str, OperatorState]
) -> list[dict[str, Any]]:
    """Describe what each task restores: one entry per task, operator and kind, with the old subtasks it came from."""
    rows: list[dict[str, Any]] = []
    origins = {operator_id: _Origins(state) for operator_id, state in before.items()}
    nothing = _Origins(None)
    for task, restore in restores.items():
        if restore is None:
            continue
        for operator_id, state in restore.state.subtask_states.items():
            operator = job.operator(operator_id)
            described = _describe(state, origins.get(operator_id, nothing))
            rows += [{"operator": operator.name, "task": task, **row} for row in described]
    return rows


@dataclass(frozen=True, slots=True)
class _Total:
    """The total of some handles of operator state: the old subtasks, in order, the number of entries, and bytes."""

    subtasks: list[int]
    entries: int
    size_bytes: int


class _Origins:
    """The origin of one operator's state: the old subtask behind each stored stream.

    Union state reaches every subtask as one shared list; it is added up once, and the subtasks share the result.
    """

    def __init__(self, state: OperatorState | None) -> None:
        self._subtasks = {
            stream_of(handle): subtask
            for subtask, part in (state.subtask_states if state is not None else {}).items()
            for handle in (
                *part.managed_operator_state,
                *part.raw_operator_state,
                *part.managed_keyed_state,
                *part.raw_keyed_state,
            )
        }
        self._shared: dict[int, tuple[_Total, frozenset[int]]] = {}

    def subtasks(self, handles: Iterable[StateObject]) -> list[int]:
        """Return the old subtasks of the handles, each once, in order."""
        return sorted({self._subtasks[stream_of(handle)] for handle in handles})

    def total(self, handles: Sequence[OperatorStreamStateHandle]) -> _Total:
        """Return the total of one subtask's handles."""
        if not isinstance(handles, SharedHandles):
            return self._add_up(handles)
        if id(handles.shared) not in self._shared:
            shared = self._add_up(handles.shared.values())
            self._shared[id(handles.shared)] = shared, frozenset(shared.subtasks)
        shared, shared_subtasks = self._shared[id(handles.shared)]
        own = self._add_up(handles.own)
        hidden = self._add_up([handles.shared[stream] for stream in handles.hidden])
        nobody_else = shared_subtasks.issuperset(own.subtasks)
        return _Total(
            shared.subtasks if nobody_else else sorted(shared_subtasks.union(own.subtasks)),
            shared.entries + own.entries - hidden.entries,
            shared.size_bytes + own.size_bytes - hidden.size_bytes,
        )

    def _add_up(self, handles: Iterable[OperatorStreamStateHandle]) -> _Total:
        handles = tuple(handles)
        infos = [info for handle in handles for info in handle.state_name_to_partition_offsets.values()]
        size_bytes = sum(handle.state_size for handle in handles)
        return _Total(self.subtasks(handles), sum(len(info.offsets) for info in infos), size_bytes)


def stream_of(handle: Any) -> object:
    """Return the identity of the stream behind a state handle: its file, or the name of its bytes."""
    delegate = getattr(handle, "delegate", handle)
    return getattr(delegate, "path", None) or getattr(delegate, "handle_name", None) or delegate


def _describe(state: OperatorSubtaskState, origins: _Origins) -> list[dict[str, Any]]:
    keyed = {"keyed": state.managed_keyed_state, "raw keyed": state.raw_keyed_state}
    operator = {"operator": state.managed_operator_state, "raw operator": state.raw_operator_state}
    return [
        *(_describe_keyed(kind, handles, origins) for kind, handles in keyed.items() if handles),
        *(_describe_operator(kind, handles, origins) for kind, handles in operator.items() if handles),
        *_describe_in_flight(state),
    ]


def _describe_keyed(kind: str, handles: Sequence[KeyedStateHandle], origins: _Origins) -> dict[str, Any]:
    ranges = [handle.key_group_range for handle in handles]
    return {
        "kind": kind,
        "from": origins.subtasks(handles),
        "key_groups": [min(r.start for r in ranges), max(r.end for r in ranges)],
        "entries": sum(_groups_with_data(handle) for handle in handles),
        "bytes": sum(handle.state_size for handle in handles),
    }


def _describe_operator(kind: str, handles: Sequence[OperatorStreamStateHandle], origins: _Origins) -> dict[str, Any]:
    total = origins.total(handles)
    return {
        "kind": kind,
        "from": total.subtasks,
        "key_groups": None,
        "entries": total.entries,
        "bytes": total.size_bytes,
    }


def _describe_in_flight(state: OperatorSubtaskState) -> Iterator[dict[str, Any]]:
    """Describe in-flight buffers, with their number as entries."""
    upstream = state.upstream_output_buffer_state if isinstance(state, RestoredSubtaskState) else ()
    kinds: list[tuple[str, Sequence[ChannelsHandle]]] = [
        ("in flight, input", (*state.input_channel_state, *upstream)),
        ("in flight, output", state.result_subpartition_state),
    ]
    for kind, handles in kinds:
        parts = list(unmerged(handles))
        if parts:
            yield {
                "kind": kind,
                "from": sorted({part.subtask_index for part in parts}),
                "key_groups": None,
                "entries": sum(len(part.offsets) for part in parts),
                "bytes": sum(part.state_size for part in parts),
            }


def _groups_with_data(handle: Any) -> int:
    if isinstance(handle, KeyGroupsStateHandle):
        return sum(offset >= 0 for offset in handle.offsets)
    groups: KeyGroupRange = handle.key_group_range
    return len(groups)
