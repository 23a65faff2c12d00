"""The check that a loaded checkpoint fits the job, compared with Flink's answers."""

from __future__ import annotations

import pytest

from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.operator_state import EMPTY_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.machines.restore.errors import MaxParallelismError, NonRestoredStateError, RestoreError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from kit.machines.restore.validate import load_and_validate
from tests.flink_data import vectors
from tests.machines.restore import build

KEYED = OperatorSubtaskState(
    managed_keyed_state=(KeyGroupsStateHandle(KeyGroupRange(0, 1), (0, 1), build.stream("s")),)
)
CONTENT = {"no_subtasks": {}, "empty_subtasks": {0: EMPTY_SUBTASK_STATE}, "keyed": {0: KEYED}}


def states(row: build.Row) -> list[OperatorState]:
    return [
        OperatorState(
            state["id"],
            state["parallelism"],
            state["max_parallelism"],
            CONTENT[state["content"]],
            ByteStreamStateHandle("coordinator", b"x") if state["coordinator_state"] else None,
        )
        for state in row["operator_states"]
    ]


@pytest.mark.flink(
    "CheckpointMetadataLoadingTest.testAllStateRestored",
    "CheckpointMetadataLoadingTest.testMaxParallelismMismatch",
    "CheckpointMetadataLoadingTest.testNonRestoredStateWhenDisallowed",
    "CheckpointMetadataLoadingTest.testNonRestoredStateWhenAllowed",
    "CheckpointMetadataLoadingTest.testUnmatchedCoordinatorOnlyStateFails",
)
def test_every_vector() -> None:
    for row in vectors("savepoint_validate"):
        vertices = build.vertices(row)
        allowed = row["allow_non_restored_state"]
        try:
            loaded = load_and_validate(vertices, states(row), pointer="/sp/1", allow_non_restored_state=allowed)
            answer = (sorted(loaded), None)
        except RestoreError as error:
            answer = (None, (error.flink_class, error.flink_message))
        expected = row["error"] and (row["error"]["class"], row["error"]["message"])
        assert answer == (row["loaded_ids"], expected), row["id"]
        assert [vertex.current_max_parallelism for vertex in vertices] == row["max_parallelism_after"]


MAP = OperatorIDPair("a" * 32, name="map", uid="my-map")


def test_a_changed_maximum_parallelism_names_the_vertex_and_the_way_out() -> None:
    state = OperatorState("a" * 32, 2, 128, {0: KEYED}, name="map", uid="my-map")
    with pytest.raises(MaxParallelismError) as caught:
        load_and_validate([AssignmentVertex("Map -> Sink", 2, (MAP,), 64)], [state], pointer="/sp")
    for word in ("'map' uid 'my-map'", "'Map -> Sink'", "Configure a maximum parallelism of 128"):
        assert word in str(caught.value)


def test_state_without_an_operator_is_named() -> None:
    state = OperatorState("b" * 32, 2, 128, {0: KEYED}, name="window", uid="my-window")
    with pytest.raises(NonRestoredStateError, match=r"'window' uid 'my-window' \[b{32}, 1 B\]"):
        load_and_validate([AssignmentVertex("Map", 2, (MAP,))], [state], pointer="/sp")


def test_no_error_names_an_option_of_flinks_command_line() -> None:
    """`flink_message` keeps what Flink says."""
    state = OperatorState("b" * 32, 2, 128, {0: KEYED}, name="window", uid="my-window")
    with pytest.raises(NonRestoredStateError) as caught:
        load_and_validate([AssignmentVertex("Map", 2, (MAP,))], [state], pointer="/sp")
    assert "--" not in str(caught.value)
    assert "pass allow_non_restored_state=True" in str(caught.value)
    assert "--allowNonRestoredState" in str(caught.value.flink_message)
