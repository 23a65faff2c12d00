"""The assignment of a checkpoint's state to a job, at any parallelism.

There are three passes over the vertices. The first finds the state of each operator (by the user-defined id, else the
generated one). The second redistributes it, kind by kind, to the new subtasks. The third creates each subtask's
restore. All kinds take time proportional to old plus new parallelism. A vertex takes part if it has state, had
finished, or has in-flight data at the other end of one of its exchanges.

1.11 restores only the subtasks that have state, knows no finished operators and cannot rescale in-flight data. Follows
`StateAssignmentOperation` (2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kit.core.protocol.tasks import TaskRestore
from kit.core.state.operator_state import FINISHED_ON_RESTORE, OperatorState, TaskStateSnapshot
from kit.core.state.restored_state import NOTHING_RESTORED, RestoredSubtaskState
from kit.core.state.subtask_state_kind import KEYED_KINDS, OPERATOR_KINDS, SubtaskStateKind
from kit.machines.restore.channels import has_buffers
from kit.machines.restore.errors import (
    ChainedChannelStateError,
    MaxParallelismError,
    NonRestoredStateError,
    RepartitionError,
    advice_for,
    described,
)
from kit.machines.restore.exchange_end import ExchangeEnd, handles_by_subtask
from kit.machines.restore.java_hashmap_order import capacity_for, operator_id_hash, put_order
from kit.machines.restore.keyed import KeyedHandles, redistribute_keyed
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.output_recovery import Recovered, recover_downstream
from kit.machines.restore.own_repartitioner import Repartition
from kit.machines.restore.per_subtask import PerSubtask
from kit.machines.restore.repartition import Handles, repartition_state
from kit.machines.restore.restored import StateAssignment, VertexParallelism
from kit.machines.restore.task_state_assignment import TaskStateAssignment
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex


def assign_states(
    vertices: Sequence[AssignmentVertex],
    edges: Sequence[AssignmentEdge],
    operator_states: Mapping[str, OperatorState],
    checkpoint_id: int,
    *,
    allow_non_restored_state: bool = False,
    recover_output_on_downstream: bool = False,
    repartition: Repartition = repartition_state,
) -> StateAssignment:
    """Assign `operator_states`, by operator id, to the subtasks of `vertices`.

    With `recover_output_on_downstream`, in-flight data of outputs is read by its receivers (2.3). `repartition`
    redistributes operator state. Raises a RestoreError for any of these: state of unknown operators (unless allowed);
    a maximum parallelism that changed or is exceeded; in-flight data that cannot be redistributed; a vertex of which
    only some operators had finished.

    Flink: `StateAssignmentOperation.assignStates`.
    """
    if not allow_non_restored_state:
        _check_all_mapped(operator_states, vertices)
    assignments = _find_states(vertices, edges, operator_states)
    for assignment in assignments:
        if assignment.is_affected:
            _deal_out(assignment, repartition)
    recovered = _recovered_downstream(assignments) if recover_output_on_downstream else None
    restores = [_restores(assignment, checkpoint_id, recovered) for assignment in assignments]
    settled = tuple(VertexParallelism(a.vertex.parallelism, a.max_parallelism) for a in assignments)
    return StateAssignment(settled, tuple(restores))


# ---- first pass: find each operator's state
# -----------------------------------------------------------------------------


def _check_all_mapped(operator_states: Mapping[str, OperatorState], vertices: Sequence[AssignmentVertex]) -> None:
    """Reject state that no vertex takes. Flink: `checkStateMappingCompleteness`."""
    known = {
        operator_id
        for vertex in vertices
        for pair in vertex.operators
        for operator_id in (pair.generated_id, pair.user_defined_id)
    }
    unmapped = [state for operator_id, state in operator_states.items() if operator_id not in known]
    if unmapped:
        raise NonRestoredStateError(
            f"There is no operator for the state {unmapped[0].operator_id}",
            f"Found in the checkpoint, but not in the job: {', '.join(described(state) for state in unmapped)}. "
            f"{advice_for(*unmapped)}",
        )


def _find_states(
    vertices: Sequence[AssignmentVertex],
    edges: Sequence[AssignmentEdge],
    operator_states: Mapping[str, OperatorState],
) -> list[TaskStateAssignment]:
    left = dict(operator_states)
    assignments = []
    for vertex in vertices:
        states = {pair.generated_id: _take_state(left, pair, vertex) for pair in vertex.operators}
        in_javas_order = put_order(states, operator_id_hash, capacity_for(len(vertex.operators)))
        assignments.append(TaskStateAssignment(vertex, {key: states[key] for key in in_javas_order}))
    for edge in sorted(edges, key=lambda edge: edge.input_index):
        assignments[edge.target].inputs.join(edge, assignments[edge.source].outputs)
    for edge in sorted(edges, key=lambda edge: edge.output_index):
        assignments[edge.source].outputs.join(edge, assignments[edge.target].inputs)
    for assignment in assignments:
        assignment.inputs.far_is_rescaled = [
            any(assignments[vertex].is_rescaled for vertex in _senders_of(edge, edges))
            for edge in assignment.inputs.edges
        ]
    return assignments


def _senders_of(edge: AssignmentEdge, edges: Sequence[AssignmentEdge]) -> set[int]:
    """Return the vertices whose subtasks a watermark on this exchange may not speak for after they are rescaled.

    These are the sender, and the vertices that it receives from pointwise, however far upstream. A subtask that
    receives from all subtasks of a vertex has a watermark that holds for all of them, wherever their rows come from.
    """
    found, to_visit = set[int](), [edge.source]
    while to_visit:
        vertex = to_visit.pop()
        if vertex not in found:
            found.add(vertex)
            to_visit += [each.source for each in edges if each.target == vertex and not each.is_redistributable]
    return found


def _take_state(left: dict[str, OperatorState], pair: OperatorIDPair, vertex: AssignmentVertex) -> OperatorState:
    operator_id = pair.user_defined_id
    if operator_id is None or operator_id not in left:
        operator_id = pair.generated_id
    state = left.pop(operator_id, None)
    return state or OperatorState(operator_id, vertex.parallelism, vertex.current_max_parallelism)


# ---- second pass: redistribute
# ------------------------------------------------------------------------------------------


def _deal_out(assignment: TaskStateAssignment, repartition: Repartition) -> None:
    _settle_max_parallelism(assignment)
    new = assignment.vertex.parallelism
    for operator_id, state in assignment.states.items():
        try:
            assignment.assigned[operator_id] = {
                **_repartitioned(state, new, repartition),
                **_redistributed(state, new, assignment.max_parallelism),
            }
        except RepartitionError as error:
            raise error.about(described(state, assignment.operator(operator_id))) from None
    for end in (assignment.inputs, assignment.outputs):
        if end.is_affected:
            _check_not_chained(assignment, end)
            end.deal_out()


def _repartitioned(
    state: OperatorState, parallelism: int, repartition: Repartition
) -> Mapping[SubtaskStateKind, Sequence[Handles]]:
    """Return the operator state of each new subtask, by kind."""
    old = {kind: handles_by_subtask(state, kind) for kind in OPERATOR_KINDS}
    return {kind: repartition(handles, state.parallelism, parallelism) for kind, handles in old.items() if any(handles)}


def _redistributed(
    state: OperatorState, parallelism: int, max_parallelism: int
) -> Mapping[SubtaskStateKind, Sequence[KeyedHandles]]:
    """Return the keyed state of each new subtask, by kind."""
    old = {kind: handles_by_subtask(state, kind) for kind in KEYED_KINDS}
    old = {kind: handles for kind, handles in old.items() if any(handles)}
    if state.parallelism == parallelism:
        return old
    return {kind: redistribute_keyed(handles, max_parallelism, parallelism) for kind, handles in old.items()}


def _check_not_chained(assignment: TaskStateAssignment, end: ExchangeEnd) -> None:
    """Raise ChainedChannelStateError if an operator inside the chain has in-flight data."""
    unexpected = [
        operator_id
        for operator_id, state in assignment.states.items()
        if operator_id != end.operator.generated_id
        and any(has_buffers(subtask.of_kind(end.kind)) for subtask in state.subtask_states.values())
    ]
    if unexpected:
        named = ", ".join(assignment.operator(operator_id).label for operator_id in unexpected)
        raise ChainedChannelStateError(
            "Cannot recover from unaligned checkpoint when topology changes, such that data exchanges with persisted "
            f"data are now chained.\nThe following operators contain channel state: [{', '.join(unexpected)}]",
            f"In '{assignment.vertex.name}' in-flight data was stored with {named}, expected it only with "
            f"{end.operator.label}; start a new chain there, or restore from an aligned checkpoint or a savepoint.",
        )


def _settle_max_parallelism(assignment: TaskStateAssignment) -> None:
    """Check the recorded maximum parallelism of each operator against the vertex, or adopt it.

    Flink: `checkParallelismPreconditions`.
    """
    vertex = assignment.vertex
    for operator_id, state in assignment.states.items():
        recorded = state.max_parallelism
        if recorded < vertex.parallelism:
            raise MaxParallelismError(
                f"The state for task {vertex.name} can not be restored. The maximum parallelism ({recorded}) of the "
                f"restored state is lower than the configured parallelism ({vertex.parallelism}). Please reduce the "
                "parallelism of the task to be lower or equal to the maximum parallelism.",
                f"The state is that of {described(state, assignment.operator(operator_id))}: it has {recorded} key "
                f"groups, and {vertex.parallelism} subtasks cannot share them. Use at most {recorded} subtasks.",
            )
        if recorded != assignment.max_parallelism:
            if vertex.max_parallelism is not None:
                raise MaxParallelismError(
                    f"The maximum parallelism ({recorded}) with which the latest checkpoint of the execution job "
                    f"vertex {vertex.name} has been taken and the current maximum parallelism "
                    f"({assignment.max_parallelism}) changed. This is currently not supported.",
                    f"The state is that of {described(state, assignment.operator(operator_id))}. Configure a maximum "
                    f"parallelism of {recorded}, or none: it is then taken from the checkpoint.",
                )
            assignment.max_parallelism = recorded


# ---- third pass: each subtask's restore
# ---------------------------------------------------------------------------------


def _recovered_downstream(assignments: Sequence[TaskStateAssignment]) -> Recovered:
    recovered: Recovered = {}
    for assignment in assignments:
        recover_downstream(assignment.outputs, recovered)
    return recovered


def _restores(
    assignment: TaskStateAssignment, checkpoint_id: int, recovered: Recovered | None
) -> Sequence[TaskRestore | None]:
    vertex = assignment.vertex
    if assignment.is_fully_finished:
        return (TaskRestore(checkpoint_id, FINISHED_ON_RESTORE),) * vertex.parallelism
    if not assignment.is_affected:
        return (None,) * vertex.parallelism
    columns = {pair.generated_id: _subtask_states(assignment, pair, recovered) for pair in vertex.operators}

    def restore(subtask: int) -> TaskRestore:
        states = {operator_id: state(subtask) for operator_id, state in columns.items()}
        return TaskRestore(checkpoint_id, TaskStateSnapshot(states))

    return PerSubtask(vertex.parallelism, restore)


def _subtask_states(
    assignment: TaskStateAssignment, pair: OperatorIDPair, recovered: Recovered | None
) -> Callable[[int], RestoredSubtaskState]:
    """Return the function that creates one operator's state for a new subtask, from a column for each of its fields.

    `recovered` is the output that is recovered downstream, if it is.
    """
    new, inputs, outputs = assignment.vertex.parallelism, assignment.inputs, assignment.outputs
    columns: dict[str, Sequence[Any] | None] = {}
    for kind, handles in assignment.assigned[pair.generated_id].items():
        columns[kind.field] = handles
    if pair == inputs.operator:
        received, gates = (recovered or {}).get(inputs), inputs.gates_behind_rescaled
        columns["input_channel_state"] = inputs.channels
        columns["upstream_output_buffer_state"] = (
            [tuple(received.get(subtask, ())) for subtask in range(new)] if received else None
        )
        columns["input_rescale_descriptor"] = inputs.descriptors
        columns["gates_behind_rescaled"] = [gates] * new if gates else None
    if pair == outputs.operator:
        columns["result_subpartition_state"] = outputs.channels if recovered is None else None
        columns["output_rescale_descriptor"] = outputs.descriptors
    by_field = {field: column for field, column in columns.items() if column is not None}
    if not by_field:
        return lambda subtask: NOTHING_RESTORED
    return lambda subtask: RestoredSubtaskState(**{field: column[subtask] for field, column in by_field.items()})
