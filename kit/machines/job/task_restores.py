"""The restore of a job: its graph and a checkpoint are passed to state assignment, and the result is described.

If the job configures no maximum parallelism, the execution graph adopts the one that the checkpoint recorded.

Follows Flink's `CheckpointCoordinator.restoreLatestCheckpointedStateInternal`; `kit.machines.restore` does the work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kit.core.protocol.notes import StateAssigned
from kit.core.protocol.tasks import TaskRestore, split_task_name, task_name, vertex_of
from kit.core.state.operator_state import OperatorState
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.coordinator.completed.completed_checkpoint import CompletedCheckpoint
from kit.machines.restore.assignment_rows import describe_assignments
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.own_repartitioner import repartition_with
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
    is_partial: bool = False
    """True if the other tasks of the graph keep running."""

    def note(self, epoch: int, path: str) -> StateAssigned:
        """Return the note for the trace: the epoch, the path of the checkpoint, and the assignments."""
        names = {
            operator.operator_id: operator.name
            for vertex in self.graph.job_graph.vertices
            for operator in vertex.operators
        }
        assignments = describe_assignments(names, self.restores, self.before)
        tasks = tuple(self.restores) if self.is_partial else ()
        return StateAssigned(
            checkpoint_id=self.checkpoint_id, epoch=epoch, path=path, assignments=assignments, tasks=tasks
        )


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


def restore_tasks(
    graph: ExecutionGraph, tasks: Iterable[str], operator_states: Mapping[str, OperatorState], checkpoint_id: int
) -> RestoredJob:
    """Assign a checkpoint's state to these tasks of a running job, and to no others.

    Only their vertices take part, which is why state of other operators is not an error. Raises
    `kit.machines.restore.errors.RestoreError`.

    Flink: `SchedulerBase.getInvolvedExecutionJobVertices`, `restoreLatestCheckpointedStateToSubtasks`. There the state
    is assigned to all subtasks of these vertices, and has no effect on those that run.
    """
    job, wanted = graph.job_graph, tuple(tasks)
    involved = {vertex_of(task) for task in wanted}
    vertices = [vertex for vertex in assignment_vertices(graph) if vertex.name in involved]
    assigned = assign_states(
        vertices,
        assignment_edges(job, involved),
        operator_states,
        checkpoint_id,
        allow_non_restored_state=True,
        repartition=repartition_with(job.parts.operator_state_repartitioner),
    )
    of_vertex = {vertex.name: restores for vertex, restores in zip(vertices, assigned.restores, strict=True)}
    named = {task: split_task_name(task) for task in wanted}
    restores = {task: of_vertex[vertex][subtask] for task, (vertex, subtask) in named.items()}
    return RestoredJob(graph, restores, operator_states, checkpoint_id, is_partial=True)


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


def assignment_edges(job: JobGraph, among: Collection[str] | None = None) -> list[AssignmentEdge]:
    """Return the edges of the job, or `among` these vertices, for state assignment, with vertices as numbers."""
    names = [vertex.name for vertex in job.vertices if among is None or vertex.name in among]
    number = {name: index for index, name in enumerate(names)}
    return [
        AssignmentEdge.of(
            number[edge.source], number[edge.target], edge.partitioner.name.lower(), edge.partition, edge.gate
        )
        for edge in job.edges
        if edge.source in number and edge.target in number
    ]
