"""In-flight data in a rescale: the subtask that recovers each buffer, and the mapping that each subtask receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kit.core.state.handles import (
    ChannelStateContent,
    InputChannelInfo,
    InputChannelStateHandle,
    MergedInputChannelStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
    StateMetaInfo,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.core.state.rescale_mappings import (
    NO_RESCALE,
    GateOrPartitionRescalingDescriptor,
    InflightDataRescalingDescriptor,
    MappingType,
    RescaleMappings,
)
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.restore.channels import redistribute
from kit.machines.restore.errors import ChainedChannelStateError, ChannelRescaleError, PointwiseRescaleError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.restored import StateAssignment
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.subtask_state_mapper import SubtaskStateMapper
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex
from tests.machines.restore.build import stream

ARBITRARY, FIRST, FULL, RANGE, ROUND_ROBIN, UNSUPPORTED = SubtaskStateMapper
UP, OTHER, DOWN = (OperatorIDPair(letter * 32, name=letter) for letter in "abc")


def input_handle(subtask: int, gate: int = 0, channel: int = 0) -> InputChannelStateHandle:
    return InputChannelStateHandle(
        subtask, InputChannelInfo(gate, channel), (0,), 10, stream(f"in{subtask}.{gate}.{channel}")
    )


def output_handle(subtask: int, subpartition: int = 0) -> ResultSubpartitionStateHandle:
    return ResultSubpartitionStateHandle(
        subtask, ResultSubpartitionInfo(0, subpartition), (0,), 10, stream(f"out{subtask}.{subpartition}")
    )


def inputs(pair: OperatorIDPair, old: int, gates: int = 1) -> OperatorState:
    states = {
        subtask: OperatorSubtaskState(input_channel_state=tuple(input_handle(subtask, gate) for gate in range(gates)))
        for subtask in range(old)
    }
    return OperatorState(pair.generated_id, old, 128, states)


def outputs(pair: OperatorIDPair, old: int) -> OperatorState:
    states = {i: OperatorSubtaskState(result_subpartition_state=(output_handle(i),)) for i in range(old)}
    return OperatorState(pair.generated_id, old, 128, states)


def assign(
    parallelism: Sequence[int], edges: Sequence[AssignmentEdge], states: Sequence[OperatorState], **options: bool
) -> StateAssignment:
    pairs = (UP, DOWN) if len(parallelism) == 2 else (UP, OTHER, DOWN)
    vertices = [AssignmentVertex(f"v{i}", p, (pair,)) for i, (p, pair) in enumerate(zip(parallelism, pairs))]
    return assign_states(vertices, edges, {state.operator_id: state for state in states}, 1, **options)


def state_of(assignment: StateAssignment, vertex: int, subtask: int) -> RestoredSubtaskState:
    restore = assignment.restores[vertex][subtask]
    assert restore is not None
    (state,) = restore.state.subtask_states.values()
    assert isinstance(state, RestoredSubtaskState)
    return state


def rescaling(
    old: Sequence[int], channels: Sequence[Sequence[int]], targets: int, ambiguous: Sequence[int] = ()
) -> GateOrPartitionRescalingDescriptor:
    table = RescaleMappings.of(channels, targets)
    return GateOrPartitionRescalingDescriptor(tuple(old), table, frozenset(ambiguous), MappingType.RESCALING)


def with_lists(state: OperatorState) -> OperatorState:
    """The same operator, whose subtasks have lists of different lengths in operator state as well."""

    def lists(subtask: int, name: str) -> tuple[OperatorStreamStateHandle, ...]:
        layout = {name: StateMetaInfo(tuple(range(subtask % 3 + 1)), OperatorStateMode.SPLIT_DISTRIBUTE)}
        return (OperatorStreamStateHandle(layout, stream(f"{name}{subtask}.{state.operator_id}")),)

    subtasks = {
        subtask: replace(
            each, managed_operator_state=lists(subtask, "managed"), raw_operator_state=lists(subtask, "raw")
        )
        for subtask, each in state.subtask_states.items()
    }
    return replace(state, subtask_states=subtasks)


ONE_EDGE = [AssignmentEdge(0, 1, ROUND_ROBIN, RANGE)]
LISTS = [("sub0state0", "sub0state1"), ("sub1state0",), ("sub2state0", "sub2state1")]
EVERYTHING = sum(LISTS, ())


@pytest.mark.flink(
    "MappingBasedRepartitionerTest.testBroadcastRedistributeOnScaleDown",
    "MappingBasedRepartitionerTest.testBroadcastRedistributeOnNoScale",
    "MappingBasedRepartitionerTest.testBroadcastRedistributeOnScaleUp",
)
@pytest.mark.parametrize("new", [2, 3, 4])
def test_full_gives_everything_to_everyone(new: int) -> None:
    assert redistribute(LISTS, FULL.get_new_to_old_subtasks_mapping(3, new), new) == [EVERYTHING] * new


@pytest.mark.flink(
    "MappingBasedRepartitionerTest.testRangeSelectorRedistributeOnScaleDown",
    "MappingBasedRepartitionerTest.testRangeSelectorRedistributeOnNoScale",
    "MappingBasedRepartitionerTest.testRangeSelectorRedistributeOnScaleUp",
)
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (2, [LISTS[0] + LISTS[1], LISTS[1] + LISTS[2]]),
        (3, LISTS),
        (4, [LISTS[0], LISTS[0] + LISTS[1], LISTS[1] + LISTS[2], LISTS[2]]),
    ],
)
def test_range_shares_the_borders(new: int, expected: list[tuple[str, ...]]) -> None:
    assert redistribute(LISTS, RANGE.get_new_to_old_subtasks_mapping(3, new), new) == expected


@pytest.mark.flink(
    "MappingBasedRepartitionerTest.testRoundRobinRedistributeOnScaleDown",
    "MappingBasedRepartitionerTest.testRoundRobinRedistributeOnNoScale",
    "MappingBasedRepartitionerTest.testRoundRobinRedistributeOnScaleUp",
)
@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (1, [EVERYTHING]),
        (2, [LISTS[0] + LISTS[2], LISTS[1]]),
        (3, LISTS),
        (4, [*LISTS, ()]),
        (5, [*LISTS, (), ()]),
    ],
)
def test_round_robin_leaves_extra_subtasks_empty(new: int, expected: list[tuple[str, ...]]) -> None:
    assert redistribute(LISTS, ROUND_ROBIN.get_new_to_old_subtasks_mapping(3, new), new) == expected


@pytest.mark.flink(
    "StateAssignmentOperationTest.testChannelStateAssignmentNoRescale",
    "StateAssignmentOperationTest.testChannelStateAssignmentStability",
)
def test_unchanged_parallelism_gives_every_subtask_its_own_back() -> None:
    old = [with_lists(state) for state in (outputs(UP, 100), inputs(DOWN, 100))]
    assignment = assign((100, 100), ONE_EDGE, old)
    for subtask in range(100):
        up, down = state_of(assignment, 0, subtask), state_of(assignment, 1, subtask)
        assert up.result_subpartition_state == (output_handle(subtask),)
        assert down.input_channel_state == (input_handle(subtask),)
        for state, before in zip((up, down), old, strict=True):
            own = before.subtask_states[subtask]
            assert state.managed_operator_state == own.managed_operator_state
            assert state.raw_operator_state == own.raw_operator_state
        assert up.output_rescale_descriptor is NO_RESCALE
        assert down.input_rescale_descriptor is NO_RESCALE


@pytest.mark.flink("StateAssignmentOperationTest.testChannelStateAssignmentDownscaling")
def test_downscaling() -> None:
    assignment = assign((2, 2), ONE_EDGE, (outputs(UP, 3), inputs(DOWN, 3)))
    up = [state_of(assignment, 0, subtask) for subtask in range(2)]
    down = [state_of(assignment, 1, subtask) for subtask in range(2)]
    assert [[h.subtask_index for h in state.result_subpartition_state] for state in up] == [[0, 2], [1]]
    assert [[h.subtask_index for h in state.input_channel_state] for state in down] == [[0, 1], [1, 2]]
    assert [state.output_rescale_descriptor for state in up] == [
        InflightDataRescalingDescriptor((rescaling(old, [(0, 1), (1, 2)], 3),)) for old in ((0, 2), (1,))
    ]
    assert [state.input_rescale_descriptor for state in down] == [
        InflightDataRescalingDescriptor((rescaling(old, [(0, 2), (1,)], 3, ambiguous=[1]),)) for old in ((0, 1), (1, 2))
    ]


@pytest.mark.flink("StateAssignmentOperationTest.testChannelStateAssignmentUpscaling")
def test_upscaling() -> None:
    assignment = assign((3, 3), ONE_EDGE, (outputs(UP, 2), inputs(DOWN, 2)))
    up = [state_of(assignment, 0, subtask) for subtask in range(3)]
    down = [state_of(assignment, 1, subtask) for subtask in range(3)]
    assert [[h.subtask_index for h in state.result_subpartition_state] for state in up] == [[0], [1], []]
    assert [[h.subtask_index for h in state.input_channel_state] for state in down] == [[0], [0, 1], [1]]
    of_downstream = [(0,), (0, 1), (1,)]
    assert [state.output_rescale_descriptor for state in up] == [
        InflightDataRescalingDescriptor((rescaling([0], of_downstream, 2),)),
        InflightDataRescalingDescriptor((rescaling([1], of_downstream, 2),)),
        NO_RESCALE,  # takes over no old subtask
    ]
    assert [state.input_rescale_descriptor for state in down] == [
        InflightDataRescalingDescriptor((rescaling(old, [(0,), (1,), ()], 2, ambiguous=[0, 1]),))
        for old in of_downstream
    ]


@pytest.mark.flink("StateAssignmentOperationTest.testChannelStateAssignmentDownscalingTwoDifferentGates")
def test_each_gate_has_its_own_descriptor() -> None:
    edges = [AssignmentEdge(0, 2, ARBITRARY, RANGE), AssignmentEdge(1, 2, ROUND_ROBIN, ROUND_ROBIN, input_index=1)]
    assignment = assign((2, 2, 2), edges, (outputs(UP, 3), outputs(OTHER, 3), inputs(DOWN, 3, gates=2)))
    assert state_of(assignment, 2, 0).input_rescale_descriptor == InflightDataRescalingDescriptor(
        (rescaling((0, 1), [(0, 2), (1,)], 3, ambiguous=[1]), rescaling((0, 2), [(0, 2), (1,)], 3))
    )


@pytest.mark.flink("StateAssignmentOperationTest.testChannelStateAssignmentTwoGatesPartiallyDownscaling")
def test_a_full_gate_is_redistributed_though_only_the_upstream_changed() -> None:
    edges = [AssignmentEdge(0, 2, ARBITRARY, FULL), AssignmentEdge(1, 2, ROUND_ROBIN, ROUND_ROBIN, input_index=1)]
    assignment = assign((2, 2, 3), edges, (outputs(UP, 3), outputs(OTHER, 3), inputs(DOWN, 3, gates=2)))
    for subtask in range(3):
        found = [(h.info.gate_idx, h.subtask_index) for h in state_of(assignment, 2, subtask).input_channel_state]
        assert found == [(0, 0), (0, 1), (0, 2), (1, subtask)]


@pytest.mark.flink("StateAssignmentOperationTest.testOnlyUpstreamChannelStateAssignment")
def test_state_in_one_output_gives_every_subtask_of_both_ends_a_restore() -> None:
    state = OperatorState(
        UP.generated_id, 2, 128, {0: OperatorSubtaskState(result_subpartition_state=(output_handle(0),))}
    )
    assignment = assign((3, 3), ONE_EDGE, (state,))
    assert all(restore is not None for vertex in assignment.restores for restore in vertex)


@pytest.mark.flink("StateAssignmentOperationTest.testOnlyUpstreamChannelRescaleStateAssignment")
def test_rescaling_downstream_while_only_upstream_has_in_flight_data() -> None:
    nothing = OperatorState(DOWN.generated_id, 5, 128)
    assignment = assign((5, 3), ONE_EDGE, (outputs(UP, 5), nothing))
    up = [state_of(assignment, 0, subtask).output_rescale_descriptor.old_subtasks(0) for subtask in range(5)]
    down = [state_of(assignment, 1, subtask).input_rescale_descriptor.old_subtasks(0) for subtask in range(3)]
    assert up == [(0,), (1,), (2,), (3,), (4,)]
    assert down == [(0, 1), (1, 2, 3), (3, 4)]


@pytest.mark.flink("StateAssignmentOperationTest.testOnlyDownstreamChannelRescaleStateAssignment")
def test_rescaling_upstream_while_only_downstream_has_in_flight_data() -> None:
    nothing = OperatorState(UP.generated_id, 5, 128)
    assignment = assign((3, 5), ONE_EDGE, (nothing, inputs(DOWN, 5)))
    up = [state_of(assignment, 0, subtask).output_rescale_descriptor.old_subtasks(0) for subtask in range(3)]
    down = [state_of(assignment, 1, subtask).input_rescale_descriptor.old_subtasks(0) for subtask in range(5)]
    assert up == [(0, 3), (1, 4), (2,)]
    assert down == [(0,), (1,), (2,), (3,), (4,)]


def test_merged_handles_are_taken_apart_only_to_sort_them_by_gate() -> None:
    contents = tuple(ChannelStateContent(InputChannelInfo(gate, 0), (0,), 10) for gate in (0, 1))
    merged = MergedInputChannelStateHandle(0, contents, 20, stream("merged"))
    down = OperatorState(DOWN.generated_id, 1, 128, {0: OperatorSubtaskState(input_channel_state=(merged,))})
    nothing = [OperatorState(pair.generated_id, 2, 128) for pair in (UP, OTHER)]
    edges = [AssignmentEdge(0, 2, ARBITRARY, FIRST), AssignmentEdge(1, 2, ARBITRARY, ROUND_ROBIN, input_index=1)]
    same = assign((2, 2, 1), edges, (*nothing, down))
    assert state_of(same, 2, 0).input_channel_state == (merged,)
    assert state_of(assign((2, 2, 2), edges, (*nothing, down)), 2, 0).input_channel_state == merged.unmerge()


def test_output_recovered_downstream_arrives_as_input_of_the_one_it_was_meant_for() -> None:
    up = OperatorState(
        UP.generated_id, 1, 128, {0: OperatorSubtaskState(result_subpartition_state=(output_handle(0, 1),))}
    )
    assignment = assign((1, 2), ONE_EDGE, (up, inputs(DOWN, 2)), recover_output_on_downstream=True)
    assert state_of(assignment, 0, 0).result_subpartition_state == ()
    assert state_of(assignment, 1, 0).upstream_output_buffer_state == ()
    (moved,) = state_of(assignment, 1, 1).upstream_output_buffer_state
    assert (moved.info, moved.delegate) == (InputChannelInfo(0, 0), stream("out0.1"))


def test_a_pointwise_exchange_refuses_and_says_what_to_do() -> None:
    edges = [AssignmentEdge(0, 1, UNSUPPORTED, UNSUPPORTED)]
    with pytest.raises(
        PointwiseRescaleError, match=r"(?s)Cannot rescale .*from 3 to 2 .*restore at the old parallelism"
    ):
        assign((2, 2), edges, (outputs(UP, 3), inputs(DOWN, 3)))


def test_a_buffer_for_a_subtask_that_is_no_more_is_refused() -> None:
    up = OperatorState(
        UP.generated_id, 2, 128, {0: OperatorSubtaskState(result_subpartition_state=(output_handle(0, 7),))}
    )
    with pytest.raises(ChannelRescaleError, match=r"(?s)no mapping in .*old subtask 7 of 'v1'"):
        assign((3, 3), ONE_EDGE, (up, inputs(DOWN, 2)), recover_output_on_downstream=True)


def test_in_flight_data_inside_a_chain_is_refused_by_name() -> None:
    vertex = AssignmentVertex("a -> b", 2, (UP, DOWN))
    states = {UP.generated_id: inputs(UP, 2), DOWN.generated_id: inputs(DOWN, 2)}
    with pytest.raises(ChainedChannelStateError, match="stored with 'a', expected it only with 'c'"):
        assign_states([vertex], [], states, 1)


def test_what_a_descriptor_looks_like() -> None:
    assignment = assign((2, 2), ONE_EDGE, (outputs(UP, 3), inputs(DOWN, 3)))
    shown = "Rescaling(RESCALING(old subtasks [0, 1], filtered: [1], RescaleMappings({0: [0, 2], 1: [1]} of 3)))"
    assert repr(state_of(assignment, 1, 0).input_rescale_descriptor) == shown
    assert repr(assignment) == "StateAssignment(2 vertices, 4 of 4 subtasks)"


# ---- vertices with several inputs or operators -----------------------------------------------------------------------


TO_BOTH_GATES = [AssignmentEdge(0, 2, ROUND_ROBIN, RANGE, 0, 0), AssignmentEdge(1, 2, ROUND_ROBIN, FULL, 0, 1)]


@pytest.mark.parametrize(("first", "second", "shared"), [(3, 2, True), (2, 3, True), (2, 2, False)])
def test_one_full_exchange_and_one_rescaled_sender_redistribute_all_gates(
    first: int, second: int, shared: bool
) -> None:
    """The vertex keeps its parallelism. Flink: `TaskStateAssignment.mustBeRedistributedAtSameParallelism`."""
    states = [outputs(UP, 2), outputs(OTHER, 2), inputs(DOWN, 2, gates=2)]
    assigned = assign([first, second, 2], TO_BOTH_GATES, states)
    held = [handle.subtask_index for handle in state_of(assigned, 2, 0).input_channel_state if handle.info.gate_idx]
    assert sorted(held) == ([0, 1] if shared else [0])


def test_a_vertex_is_rescaled_when_any_of_its_operators_was() -> None:
    states = [
        OperatorState(UP.generated_id, 2, 128, {}),
        OperatorState(OTHER.generated_id, 3, 128, {}),
        inputs(DOWN, 2),
    ]
    vertices = [AssignmentVertex("head", 2, (UP, OTHER)), AssignmentVertex("tail", 2, (DOWN,))]
    assigned = assign_states(vertices, ONE_EDGE, {state.operator_id: state for state in states}, 1)
    assert [state_of(assigned, 1, i).gates_behind_rescaled for i in range(2)] == [frozenset({0})] * 2


def test_event_time_of_a_gate_does_not_hold_when_any_vertex_upstream_of_it_was_rescaled() -> None:
    """`v1` forwards what `v0` says of event time; only `v0` runs at another parallelism."""
    edges = [AssignmentEdge(0, 1, UNSUPPORTED, UNSUPPORTED), AssignmentEdge(1, 2, ROUND_ROBIN, RANGE)]
    states = [
        OperatorState(UP.generated_id, 1, 128, {}),
        OperatorState(OTHER.generated_id, 2, 128, {}),
        inputs(DOWN, 2),
    ]
    assigned = assign([2, 2, 2], edges, states)
    assert state_of(assigned, 2, 0).gates_behind_rescaled == frozenset({0})
