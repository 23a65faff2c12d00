"""Giving the state of a checkpoint back to a job: the whole of it, at any parallelism.

In three passes over the vertices: find the state of each operator (by the id the user gave, else the generated one);
deal it out, kind by kind, to the new subtasks; make each subtask's restore. All kinds take time in proportion to old
plus new parallelism. A vertex takes part if it has state, had finished, or has in-flight data at the far end of one of
its exchanges.

1.11 restores only the subtasks that have state, knows no finished operators and cannot rescale in-flight data.
Follows `StateAssignmentOperation` (2.3).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from operator import attrgetter
from typing import Any

from kit.protocol.tasks import TaskRestore
from kit.restore.channels import has_buffers, inputs_by_gate, outputs_by_partition, redistribute
from kit.restore.errors import ChainedChannelStateError, MaxParallelismError, NonRestoredStateError, described
from kit.restore.java_hashmap_order import capacity_for, operator_id_hash, put_order
from kit.restore.keyed import redistribute_keyed
from kit.restore.repartition import repartition
from kit.restore.rescale_mappings import NO_RESCALE
from kit.restore.restored import NOTHING_RESTORED, RestoredSubtaskState, StateAssignment, VertexParallelism
from kit.restore.subtask_state_mapper import SubtaskStateMapper
from kit.restore.task_state_assignment import AssignedOperator, TaskStateAssignment
from kit.restore.topology import AssignmentEdge, AssignmentVertex, OperatorIDPair
from kit.state.key_groups import key_group_partitions
from kit.state.operator_state import FINISHED_ON_RESTORE, OperatorState, TaskStateSnapshot


def assign_states(
    vertices: Sequence[AssignmentVertex],
    edges: Sequence[AssignmentEdge],
    operator_states: Mapping[str, OperatorState],
    checkpoint_id: int,
    *,
    allow_non_restored_state: bool = False,
    recover_output_on_downstream: bool = False,
) -> StateAssignment:
    """Assign `operator_states`, by operator id, to the subtasks of `vertices`.

    `recover_output_on_downstream`: in-flight data of outputs is read by the subtasks it was meant for (2.3).
    Raises a RestoreError: state of unknown operators (unless allowed), a maximum parallelism that changed or is
    exceeded, in-flight data that cannot be redistributed, operators of one vertex of which only some had finished.
    """
    if not allow_non_restored_state:
        _check_all_mapped(operator_states, vertices)
    with _collector_paused():
        assignments = _find_states(vertices, edges, operator_states)
        for assignment in assignments:
            if assignment.is_affected:
                _deal_out(assignment)
        if recover_output_on_downstream:
            for assignment in assignments:
                assignment.distribute_output_buffers_to_downstream()
        restores = [_restores(assignment, checkpoint_id, recover_output_on_downstream) for assignment in assignments]
        settled = tuple(VertexParallelism(a.parallelism, a.max_parallelism) for a in assignments)
        return StateAssignment(settled, tuple(restores))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's cycle collector from walking, again and again, the many small values that are being made.

    None of them is garbage; without this, half of the time goes into looking for some.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# ---- first pass: whose state is whose -------------------------------------------------------------------------------


def _check_all_mapped(operator_states: Mapping[str, OperatorState], vertices: Sequence[AssignmentVertex]) -> None:
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
            f"Found in the checkpoint, but not in the job: {', '.join(described(state) for state in unmapped)}. Give "
            "the operator the uid it had, or allow non-restored state to drop what it stored.",
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
        assignments[edge.target].read_from(edge, assignments[edge.source])
    for edge in sorted(edges, key=lambda edge: edge.output_index):
        assignments[edge.source].write_to(edge, assignments[edge.target])
    return assignments


def _take_state(left: dict[str, OperatorState], pair: OperatorIDPair, vertex: AssignmentVertex) -> OperatorState:
    operator_id = pair.user_defined_id
    if operator_id is None or operator_id not in left:
        operator_id = pair.generated_id
    state = left.pop(operator_id, None)
    return state or OperatorState(operator_id, vertex.parallelism, vertex.current_max_parallelism)


# ---- second pass: deal out ------------------------------------------------------------------------------------------


def _deal_out(assignment: TaskStateAssignment) -> None:
    _settle_max_parallelism(assignment)
    new = assignment.parallelism
    for operator_id, state in assignment.states.items():
        managed = _by_subtask(state, "managed_operator_state")
        raw = _by_subtask(state, "raw_operator_state")
        assignment.assigned[operator_id] = AssignedOperator(
            managed_operator=repartition(managed, state.parallelism, new) if any(managed) else None,
            raw_operator=repartition(raw, state.parallelism, new) if any(raw) else None,
        )
    _deal_out_inputs(assignment)
    _deal_out_outputs(assignment)
    _deal_out_keyed(assignment)


def _by_subtask(state: OperatorState, kind: str) -> list[Any]:
    """The handles of one kind of each old subtask, none where it reported nothing."""
    handles = attrgetter(kind)
    reported = state.subtask_states
    return [handles(reported[index]) if index in reported else () for index in range(state.parallelism)]


def _deal_out_keyed(assignment: TaskStateAssignment) -> None:
    ranges = None
    for operator_id, state in assignment.states.items():
        managed = _by_subtask(state, "managed_keyed_state")
        raw = _by_subtask(state, "raw_keyed_state")
        if state.parallelism != assignment.parallelism and (any(managed) or any(raw)):
            ranges = ranges or key_group_partitions(assignment.max_parallelism, assignment.parallelism)
            managed = redistribute_keyed(managed, assignment.max_parallelism, ranges)
            raw = redistribute_keyed(raw, assignment.max_parallelism, ranges)
        assignment.assigned[operator_id].managed_keyed = managed if any(managed) else None
        assignment.assigned[operator_id].raw_keyed = raw if any(raw) else None


def _deal_out_inputs(assignment: TaskStateAssignment) -> None:
    if not assignment.input_state_gates and not assignment.has_upstream_output_states:
        return
    _check_not_chained(assignment, assignment.vertex.input_operator, "input_channel_state")
    state, new = assignment.input_state, assignment.parallelism
    old = _by_subtask(state, "input_channel_state")
    has_full_mapper = any(edge.downstream_mapper is SubtaskStateMapper.FULL for edge in assignment.inputs)
    upstream_changed = any(upstream.parallelism != state.parallelism for upstream in assignment.upstream)
    if state.parallelism == new and not (has_full_mapper and upstream_changed):
        assignment.input_channels = old
        return
    gates = len(assignment.inputs)
    by_gate: Sequence[Sequence[Sequence[Any]]] = [old] if gates == 1 else inputs_by_gate(old, gates)
    dealt = [
        redistribute(by_gate[gate], assignment.input_mapping(gate).mapping, new)
        for gate in range(gates)
        if assignment.has_in_flight_data_for_gate(gate)
    ]
    assignment.input_channels = _one_after_the_other(dealt)


def _deal_out_outputs(assignment: TaskStateAssignment) -> None:
    if not assignment.output_state_partitions and not assignment.has_downstream_input_states:
        return
    _check_not_chained(assignment, assignment.vertex.output_operator, "result_subpartition_state")
    state, new = assignment.output_state, assignment.parallelism
    old = _by_subtask(state, "result_subpartition_state")
    if state.parallelism == new:
        assignment.output_channels = old
        return
    partitions = len(assignment.outputs)
    by_partition: Sequence[Sequence[Sequence[Any]]] = (
        [old] if partitions == 1 else outputs_by_partition(old, partitions)
    )
    dealt = [
        redistribute(by_partition[partition], assignment.output_mapping(partition).mapping, new)
        for partition in range(partitions)
        if assignment.has_in_flight_data_for_partition(partition)
    ]
    assignment.output_channels = _one_after_the_other(dealt)


def _one_after_the_other(dealt: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]] | None:
    """The handles of each subtask, of one gate after the other."""
    if len(dealt) <= 1:
        return dealt[0] if dealt else None
    return [tuple(handle for handles in of_gates for handle in handles) for of_gates in zip(*dealt, strict=True)]


def _check_not_chained(assignment: TaskStateAssignment, expected: OperatorIDPair, kind: str) -> None:
    """Raise ChainedChannelStateError where an operator inside the chain has in-flight data."""
    unexpected = [
        operator_id
        for operator_id, state in assignment.states.items()
        if operator_id != expected.generated_id
        and any(has_buffers(getattr(subtask, kind)) for subtask in state.subtask_states.values())
    ]
    if unexpected:
        labels = {pair.generated_id: pair.label for pair in assignment.vertex.operators}
        named = ", ".join(labels[operator_id] for operator_id in unexpected)
        raise ChainedChannelStateError(
            "Cannot recover from unaligned checkpoint when topology changes, such that data exchanges with persisted "
            f"data are now chained.\nThe following operators contain channel state: [{', '.join(unexpected)}]",
            f"In '{assignment.vertex.name}' in-flight data was stored with {named}, expected it only with "
            f"{expected.label}; start a new chain there, or restore from an aligned checkpoint or a savepoint.",
        )


def _settle_max_parallelism(assignment: TaskStateAssignment) -> None:
    """Check the recorded maximum parallelism of each operator against the vertex, or adopt it."""
    vertex = assignment.vertex
    for state in assignment.states.values():
        recorded = state.max_parallelism
        if recorded < vertex.parallelism:
            raise MaxParallelismError(
                f"The state for task {vertex.name} can not be restored. The maximum parallelism ({recorded}) of the "
                f"restored state is lower than the configured parallelism ({vertex.parallelism}). Please reduce the "
                "parallelism of the task to be lower or equal to the maximum parallelism.",
                f"The state is that of {described(state)}.",
            )
        if recorded != assignment.max_parallelism:
            if vertex.max_parallelism is not None:
                raise MaxParallelismError(
                    f"The maximum parallelism ({recorded}) with which the latest checkpoint of the execution job "
                    f"vertex {vertex.name} has been taken and the current maximum parallelism "
                    f"({assignment.max_parallelism}) changed. This is currently not supported.",
                    f"The state is that of {described(state)}. Configure a maximum parallelism of {recorded}, or "
                    "none: it is then taken from the checkpoint.",
                )
            assignment.max_parallelism = recorded


# ---- third pass: what each subtask begins with ----------------------------------------------------------------------


def _restores(
    assignment: TaskStateAssignment, checkpoint_id: int, recover_output_on_downstream: bool
) -> tuple[TaskRestore | None, ...]:
    if assignment.is_fully_finished:
        return (TaskRestore(checkpoint_id, FINISHED_ON_RESTORE),) * assignment.parallelism
    if not assignment.is_affected:
        return (None,) * assignment.parallelism
    operators = [pair.generated_id for pair in assignment.vertex.operators]
    columns = [_subtask_states(assignment, pair, recover_output_on_downstream) for pair in assignment.vertex.operators]
    return tuple(
        [
            TaskRestore(checkpoint_id, TaskStateSnapshot(dict(zip(operators, states, strict=True))))
            for states in zip(*columns, strict=True)
        ]
    )


def _subtask_states(
    assignment: TaskStateAssignment, pair: OperatorIDPair, recover_output_on_downstream: bool
) -> list[RestoredSubtaskState]:
    """The state of one operator, subtask by subtask."""
    assigned = assignment.assigned[pair.generated_id]
    new = assignment.parallelism
    columns: list[Sequence[Any] | None] = [
        assigned.managed_operator,
        assigned.raw_operator,
        assigned.managed_keyed,
        assigned.raw_keyed,
        *_channel_columns(assignment, pair, recover_output_on_downstream),
    ]
    if not any(columns):
        return [NOTHING_RESTORED] * new
    filled = [repeat(default, new) if column is None else column for column, default in zip(columns, _DEFAULTS)]
    return [
        RestoredSubtaskState(
            operator, raw_operator, keyed, raw_keyed, inputs, outputs, False, upstream, input_rescale, output_rescale
        )
        for (operator, raw_operator, keyed, raw_keyed, inputs, outputs, upstream, input_rescale, output_rescale) in zip(
            *filled, strict=True
        )
    ]


_DEFAULTS: tuple[Any, ...] = ((), (), (), (), (), (), (), NO_RESCALE, NO_RESCALE)


def _channel_columns(
    assignment: TaskStateAssignment, pair: OperatorIDPair, recover_output_on_downstream: bool
) -> list[Sequence[Any] | None]:
    """In-flight data, output buffers of others, and descriptors, at the ends of the chain."""
    inputs = outputs = upstream = input_descriptors = output_descriptors = None
    if pair == assignment.vertex.input_operator:
        inputs = assignment.input_channels
        input_descriptors = assignment.input_descriptors
        buffers = assignment.upstream_output_buffers
        if buffers:
            upstream = [tuple(buffers.get(subtask, ())) for subtask in range(assignment.parallelism)]
    if pair == assignment.vertex.output_operator:
        outputs = None if recover_output_on_downstream else assignment.output_channels
        output_descriptors = assignment.output_descriptors
    return [inputs, outputs, upstream, input_descriptors, output_descriptors]
