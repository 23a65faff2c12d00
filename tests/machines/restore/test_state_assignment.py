"""State assignment against what Flink answers, subtask by subtask."""

from __future__ import annotations

import gc
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.handles import (
    IncrementalRemoteKeyedStateHandle,
    InputChannelInfo,
    InputChannelStateHandle,
    KeyGroupsStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.core.state.key_groups import key_group_partitions
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, FINISHED_ON_RESTORE, OperatorState, OperatorSubtaskState
from kit.machines.restore.errors import (
    FinishedOperatorsError,
    MaxParallelismError,
    NonRestoredStateError,
    RepartitionError,
    RestoreError,
)
from kit.machines.restore.keyed import redistribute_keyed
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.restored import StateAssignment, VertexParallelism
from kit.machines.restore.state_assignment import assign_states
from kit.machines.restore.topology import AssignmentEdge, AssignmentVertex
from kit.machines.restore.validate import load_and_validate
from tests.flink_data import vectors
from tests.machines.restore import build

FILES = (
    "assign_plain",
    "assign_error",
    "assign_finished",
    "assign_channels",
    "assign_channels_real",
    "assign_channels_topo",
    "assign_big",
)
JAVAS_NAME_OF_A_VERTEX = re.compile(r"org\.apache\.flink\S+ExecutionJobVertex@<hash>|(?<=for task )[0-9a-f]{32}")


def outcome(row: build.Row) -> dict[str, Any]:
    try:
        assignment = assign_states(
            build.vertices(row),
            build.edges(row),
            build.operator_states(row),
            row["restore_checkpoint_id"],
            allow_non_restored_state=row["allow_non_restored_state"],
            recover_output_on_downstream=row["recover_output_on_downstream"],
        )
    except RestoreError as error:
        return {"error": (error.flink_class, vertex_names_out(error.flink_message, row))}
    restores = {
        (vertex, subtask): build.unordered(build.restore(assignment, vertex, subtask))
        for vertex, subtasks in enumerate(assignment.restores)
        for subtask in range(len(subtasks))
    }
    return {"vertices": [(v.parallelism, v.max_parallelism) for v in assignment.vertices], "restores": restores}


def vertex_names_out(message: str | None, row: build.Row) -> str:
    for vertex in row["vertices"]:
        message = re.sub(
            rf"(?<=for task ){vertex['name']}\b|(?<=job vertex ){vertex['name']}\b", "<vertex>", message or ""
        )
    return message or ""


def expected(answer: build.Row) -> dict[str, Any]:
    if answer["error"]:
        message = JAVAS_NAME_OF_A_VERTEX.sub("<vertex>", answer["error"]["message"])
        return {"error": (answer["error"]["class"], message)}
    return {
        "vertices": [(v["parallelism"], v["max_parallelism"]) for v in answer["vertices_after"]],
        "restores": {(t["vertex"], t["subtask"]): build.unordered(t["restore"]) for t in answer["tasks"]},
    }


@pytest.mark.parametrize("file", FILES)
def test_every_vector(file: str) -> None:
    for row in vectors(file):
        found = outcome(row)
        answers = [expected(answer) for answer in row.get("alternatives", [row])]
        assert found in answers, f"{file} {row['id']}"


# ---- whole assignments by hand --------------------------------------------------------------------------------------

FIRST, SECOND = (OperatorIDPair(letter * 32, name=letter) for letter in "ab")
SUBTASKS = st.integers(1, 40)


def keyed_state(pair: OperatorIDPair, parallelism: int, max_parallelism: int = 128) -> OperatorState:
    states = {
        subtask: OperatorSubtaskState(
            managed_keyed_state=(
                KeyGroupsStateHandle(covered, tuple(group * 10 for group in covered), build.stream(f"k{subtask}")),
            )
        )
        for subtask, covered in enumerate(key_group_partitions(max_parallelism, parallelism))
    }
    return OperatorState(pair.generated_id, parallelism, max_parallelism, states)


def assign_one(
    state: OperatorState, new: int, max_parallelism: int | None = None, pair: OperatorIDPair = FIRST
) -> StateAssignment:
    vertex = AssignmentVertex("v", new, (pair,), max_parallelism)
    return assign_states([vertex], [], {state.operator_id: state}, 7)


def subtask_states(assignment: StateAssignment, vertex: int = 0) -> list[OperatorSubtaskState]:
    return [
        state
        for restore in assignment.restores[vertex]
        if restore is not None
        for state in restore.state.subtask_states.values()
    ]


@given(SUBTASKS, SUBTASKS)
def test_every_key_group_goes_to_its_owner_and_to_no_one_else(old: int, new: int) -> None:
    assignment = assign_one(keyed_state(FIRST, old), new)
    for state, owned in zip(subtask_states(assignment), key_group_partitions(128, new), strict=True):
        found = [
            (group, handle.offset_of(group))
            for handle in state.managed_keyed_state
            if isinstance(handle, KeyGroupsStateHandle)
            for group in handle.key_group_range
        ]
        assert found == [(group, group * 10) for group in owned]


@given(SUBTASKS, SUBTASKS)
def test_incremental_state_goes_whole_to_all_that_overlap_it(old: int, new: int) -> None:
    ranges = key_group_partitions(128, old)
    handles = [
        IncrementalRemoteKeyedStateHandle(f"b{i}", covered, 1, (), (), build.stream(f"m{i}"), 1)
        for i, covered in enumerate(ranges)
    ]
    state = OperatorState(
        FIRST.generated_id,
        old,
        128,
        {i: OperatorSubtaskState(managed_keyed_state=(handle,)) for i, handle in enumerate(handles)},
    )
    for restored, owned in zip(subtask_states(assign_one(state, new)), key_group_partitions(128, new), strict=True):
        expected = [handle for handle in handles if handle.key_group_range.intersect(owned)]
        assert list(restored.managed_keyed_state) == expected


@pytest.mark.flink("StateAssignmentOperationTest.assigningStatesShouldWorkWithUserDefinedOperatorIdsAsWell")
def test_state_is_found_by_the_id_the_user_gave() -> None:
    pair = OperatorIDPair("a" * 32, user_defined_id="f" * 32)
    state = keyed_state(OperatorIDPair("f" * 32), 2)
    assignment = assign_one(state, 2, pair=pair)
    assert assignment.restores[0][0] is not None
    assert list(assignment.restores[0][0].state.subtask_states) == ["a" * 32]
    assert [s.managed_keyed_state for s in subtask_states(assignment)] == [
        state.subtask_states[subtask].managed_keyed_state for subtask in range(2)
    ]


@pytest.mark.flink("StateAssignmentOperationTest.assigningStateHandlesCanNotBeNull")
def test_an_operator_without_keyed_state_gets_empty_lists() -> None:
    assert redistribute_keyed([(), ()], 128, 3) == ((), (), ())
    for state in subtask_states(assign_one(OperatorState(FIRST.generated_id, 1, 128, {0: EMPTY_SUBTASK_STATE}), 2)):
        assert (state.managed_keyed_state, state.raw_keyed_state, state.has_state()) == ((), (), False)


@pytest.mark.flink("StateAssignmentOperationTest.testStateWithFullyFinishedOperators")
def test_a_finished_vertex_comes_back_finished() -> None:
    vertices = [AssignmentVertex("done", 2, (FIRST,)), AssignmentVertex("running", 2, (SECOND,))]
    finished = OperatorState(FIRST.generated_id, 3, 128, fully_finished=True)
    states = {FIRST.generated_id: finished, SECOND.generated_id: keyed_state(SECOND, 3)}
    done, running = assign_states(vertices, [AssignmentEdge.of(0, 1, "hash")], states, 7).restores
    assert [restore and restore.state for restore in done] == [FINISHED_ON_RESTORE] * 2
    assert [restore and restore.state.is_task_deployed_as_finished for restore in running] == [False, False]


def test_a_chain_of_which_only_a_part_had_finished_is_refused_by_name() -> None:
    states = {
        FIRST.generated_id: OperatorState(FIRST.generated_id, 2, 128, fully_finished=True),
        SECOND.generated_id: keyed_state(SECOND, 2),
    }
    with pytest.raises(FinishedOperatorsError, match="In 'v' these had finished: 'a'; these had not: 'b'"):
        assign_states([AssignmentVertex("v", 2, (FIRST, SECOND))], [], states, 7)


@pytest.mark.flink("CheckpointStateRestoreTest.testSetState")
def test_only_vertices_with_state_get_a_restore() -> None:
    vertices = [AssignmentVertex("stateful", 3, (FIRST,)), AssignmentVertex("stateless", 2, (SECOND,))]
    assignment = assign_states(vertices, [], {FIRST.generated_id: keyed_state(FIRST, 3)}, 7)
    assert [restore and restore.checkpoint_id for restore in assignment.restores[0]] == [7, 7, 7]
    assert assignment.restores[1] == (None, None)


@pytest.mark.flink("CheckpointStateRestoreTest.testNonRestoredState")
def test_left_over_state_is_refused_unless_allowed() -> None:
    vertices = [AssignmentVertex("v", 3, (FIRST,)), AssignmentVertex("new", 2, (SECOND,))]
    state = OperatorState(FIRST.generated_id, 3, 128, dict.fromkeys(range(3), EMPTY_SUBTASK_STATE))
    gone = OperatorState("c" * 32, 1, 128, {0: EMPTY_SUBTASK_STATE}, name="old sink", uid="sink-1")
    assert assign_states(vertices, [], {state.operator_id: state}, 7).restores[0][0] is not None
    both = {state.operator_id: state, gone.operator_id: gone}
    assert assign_states(vertices, [], both, 7, allow_non_restored_state=True).restores[1] == (None, None)
    with pytest.raises(NonRestoredStateError, match=r"(?s)no operator for the state c{32}.*'old sink' uid 'sink-1'"):
        assign_states(vertices, [], both, 7)


def test_an_unconfigured_maximum_parallelism_is_taken_from_the_checkpoint() -> None:
    assert assign_one(keyed_state(FIRST, 2, 64), 3).vertices == (VertexParallelism(3, 64),)
    nothing_reported = OperatorState(FIRST.generated_id, 2, 64)
    assert assign_one(nothing_reported, 3).vertices == (VertexParallelism(3, 128),)


def test_a_configured_maximum_parallelism_must_be_the_recorded_one() -> None:
    with pytest.raises(MaxParallelismError, match="Configure a maximum parallelism of 64, or none"):
        assign_one(keyed_state(FIRST, 2, 64), 3, max_parallelism=128)


def test_the_parallelism_must_not_exceed_the_recorded_maximum() -> None:
    with pytest.raises(MaxParallelismError, match=r"maximum parallelism \(4\) of the restored state is lower"):
        assign_one(keyed_state(FIRST, 2, 4), 5)


# --- what is made, and when -------------------------------------------------------------------------------------------


def a_rescale(subtasks: int) -> Callable[[], StateAssignment]:
    """Keyed state, split states and in-flight data of a hash exchange, at half as many subtasks again."""
    names = {f"split-{name}": StateMetaInfo(tuple(range(10)), OperatorStateMode.SPLIT_DISTRIBUTE) for name in range(4)}
    keyed = {}
    for subtask, covered in enumerate(key_group_partitions(4096, subtasks)):
        stream = build.stream(f"file-{subtask}")
        channels = [InputChannelInfo(0, (subtask + step) % subtasks) for step in range(10)]
        keyed[subtask] = OperatorSubtaskState(
            managed_operator_state=(OperatorStreamStateHandle(names, stream),),
            managed_keyed_state=(KeyGroupsStateHandle(covered, tuple(range(len(covered))), stream),),
            input_channel_state=tuple(InputChannelStateHandle(subtask, info, (0,), 1, stream) for info in channels),
        )
    states = {
        FIRST.generated_id: OperatorState(
            FIRST.generated_id, subtasks, 4096, dict.fromkeys(range(subtasks), EMPTY_SUBTASK_STATE)
        ),
        SECOND.generated_id: OperatorState(SECOND.generated_id, subtasks, 4096, keyed),
    }
    new = subtasks + subtasks // 2
    vertices = [AssignmentVertex("source", new, (FIRST,)), AssignmentVertex("keyed", new, (SECOND,))]
    return lambda: assign_states(vertices, [AssignmentEdge.of(0, 1, "hash")], states, 7)


def test_what_a_subtask_gets_is_made_when_it_is_asked_for() -> None:
    """An assignment keeps only a few objects per subtask that the garbage collector walks over."""
    assign = a_rescale(1600)
    assign()  # what the first one leaves in caches is not counted
    gc.collect()
    without = len(gc.get_objects())
    assignment = assign()
    gc.collect()
    kept = len(gc.get_objects()) - without
    made = [tuple(of_vertex) for of_vertex in assignment.restores]
    gc.collect()
    all_made = len(gc.get_objects()) - without
    assert len(made[1]) == 2400
    assert kept < 2 * 2400
    assert all_made > 20 * 2400


def test_each_look_gives_the_same() -> None:
    of_keyed = a_rescale(8)().restores[1]
    assert len(of_keyed) == 12
    assert tuple(of_keyed) == of_keyed == a_rescale(8)().restores[1]
    assert of_keyed[3] == of_keyed[3] == tuple(of_keyed)[3]
    assert of_keyed[-1] == tuple(of_keyed)[11]
    assert of_keyed[2:5] == tuple(of_keyed)[2:5]
    assert of_keyed[2] != of_keyed[3]
    assert of_keyed != (*tuple(of_keyed)[:-1], of_keyed[0]), "the last one is another"
    assert of_keyed != tuple(of_keyed)[:-1]
    with pytest.raises(IndexError):
        of_keyed[12]
    assert hash(of_keyed) == hash(tuple(of_keyed))
    assert pickle.loads(pickle.dumps(of_keyed)) == tuple(of_keyed)
    assert repr(of_keyed) == "PerSubtask(12 subtasks)"


# --- what the errors say ----------------------------------------------------------------------------------------------


def old_checkpoint(max_parallelism: int = 4) -> OperatorState:
    """State as before version 5: it has an id and no name."""
    return keyed_state(OperatorIDPair("e" * 32), 2, max_parallelism)


NAMED = OperatorIDPair("e" * 32, None, "totals", "totals-uid")


def test_an_operator_without_a_name_in_the_checkpoint_is_called_as_in_the_job() -> None:
    for parallelism, max_parallelism in ((5, None), (2, 8)):
        vertex = AssignmentVertex("v", parallelism, (NAMED,), max_parallelism)
        with pytest.raises(MaxParallelismError, match="The state is that of 'totals' uid 'totals-uid'"):
            assign_states([vertex], [], {NAMED.generated_id: old_checkpoint()}, 7)
    with pytest.raises(MaxParallelismError, match="The state is that of 'totals' uid 'totals-uid'"):
        load_and_validate([AssignmentVertex("v", 2, (NAMED,), 8)], [old_checkpoint()], pointer="/savepoint")


def test_operator_state_that_cannot_be_dealt_out_is_named() -> None:
    union = {"all": StateMetaInfo((1,), OperatorStateMode.UNION)}
    twice = (OperatorStreamStateHandle(union, build.stream("file")),) * 2
    state = OperatorState(NAMED.generated_id, 1, 128, {0: OperatorSubtaskState(managed_operator_state=twice)})
    with pytest.raises(RepartitionError, match=r"(?s)two operator state handles of subtask 0.*'totals' uid"):
        assign_states([AssignmentVertex("v", 1, (NAMED,))], [], {NAMED.generated_id: state}, 7)
