"""If a vertex had finished in a checkpoint, all vertices upstream of it in the job must have finished too."""

from __future__ import annotations

import pytest

from kit.core.state.operator_state import FINISHED_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.machines.coordinator.vertex_finished_state_checker import validate_operators_finished_state
from kit.machines.restore.errors import FinishedOperatorsError
from kit.machines.restore.operator_id_pair import OperatorIDPair
from kit.machines.restore.topology import AssignmentVertex
from tests.machines.coordinator.harness import graph, operator_id

RUNNING, PARTLY, FULLY = "running", "partly", "fully"


def state_of(key: str, how: str) -> OperatorState:
    """Return the state of an operator of two subtasks that had come so far."""
    if how == FULLY:
        return OperatorState(key, 2, 128, fully_finished=True)
    first = FINISHED_SUBTASK_STATE if how == PARTLY else OperatorSubtaskState()
    return OperatorState(key, 2, 128, {0: first, 1: OperatorSubtaskState()})


def check(upstream: str | None, downstream: str, *edges: str) -> None:
    """Check `a -> b` over these edges, of which the two had come so far (None: `a` is new)."""
    job = graph({"a": 2, "b": 2}, [("a", "b", kind) for kind in edges]).job_graph
    vertices = [AssignmentVertex(name, 2, (OperatorIDPair(operator_id(name)),)) for name in ("a", "b")]
    told = {"a": upstream, "b": downstream}
    states = {operator_id(name): state_of(operator_id(name), how) for name, how in told.items() if how is not None}
    validate_operators_finished_state(vertices, {vertex.name: vertex.inputs for vertex in job.vertices}, states)


@pytest.mark.flink(
    "VertexFinishedStateCheckerTest.testAddingRunningOperatorBeforeFinishedOneFails",
    "VertexFinishedStateCheckerTest.testAddingPartiallyFinishedOperatorBeforeFinishedOneFails",
    "VertexFinishedStateCheckerTest.testAddingAllRunningOperatorBeforePartiallyFinishedOneWithAllToAllFails",
    "VertexFinishedStateCheckerTest.testAddingPartiallyFinishedOperatorBeforePartiallyFinishedOneWithAllToAllFails",
    "VertexFinishedStateCheckerTest.testAddingPartiallyFinishedOperatorBeforePartiallyFinishedOneWithPointwiseAndAllToAllFails",
    "VertexFinishedStateCheckerTest.testAddingAllRunningOperatorBeforePartiallyFinishedOneFails",
)
@pytest.mark.parametrize(
    ("upstream", "downstream", "edges", "found"),
    [
        (None, FULLY, ["hash"], "'b' is fully finished, but 'a', .* is all running"),
        (RUNNING, FULLY, ["forward"], "'b' is fully finished, but 'a', .* is all running"),
        (PARTLY, FULLY, ["forward"], "'b' is fully finished, but 'a', .* is partially finished"),
        (RUNNING, PARTLY, ["hash"], "'b' is partially finished, but 'a', .* all-to-all edge, is all running"),
        (PARTLY, PARTLY, ["hash"], "'b' is partially finished, but 'a', .* all-to-all edge, is partially finished"),
        (PARTLY, PARTLY, ["forward", "hash"], "'b' is partially finished, but 'a', .* is partially finished"),
        (PARTLY, PARTLY, ["hash", "forward"], "'b' is partially finished, but 'a', .* is partially finished"),
        (RUNNING, PARTLY, ["forward"], "'b' is partially finished, but 'a', .* pointwise edge, is all running"),
    ],
)
def test_nothing_may_run_before_what_had_finished(
    upstream: str | None, downstream: str, edges: list[str], found: str
) -> None:
    with pytest.raises(FinishedOperatorsError, match=found):
        check(upstream, downstream, *edges)


@pytest.mark.parametrize(
    ("upstream", "downstream", "edge"),
    [
        (FULLY, FULLY, "hash"),
        (FULLY, PARTLY, "hash"),
        (FULLY, RUNNING, "hash"),
        (PARTLY, RUNNING, "hash"),
        (PARTLY, PARTLY, "forward"),
        (RUNNING, RUNNING, "hash"),
        (None, RUNNING, "hash"),
    ],
)
def test_what_comes_earlier_may_have_finished_earlier(upstream: str | None, downstream: str, edge: str) -> None:
    check(upstream, downstream, edge)


@pytest.mark.flink(
    "VertexFinishedStateCheckerTest.testRestoringPartiallyFinishedChainsFailsWithoutUidHash",
    "VertexFinishedStateCheckerTest.testRestoringPartiallyFinishedChainsFailsWithUidHash",
)
@pytest.mark.parametrize("by_user_id", [False, True])
@pytest.mark.parametrize("states", [(FULLY, RUNNING), (FULLY, PARTLY), (PARTLY, RUNNING)])
def test_a_chain_has_finished_as_a_whole_or_not(states: tuple[str, str], by_user_id: bool) -> None:
    ids = ["a" * 32, "b" * 32]
    pairs = tuple(
        OperatorIDPair("0" * 32, key, name=key[0]) if by_user_id else OperatorIDPair(key, name=key[0]) for key in ids
    )
    vertex = AssignmentVertex("chain", 2, pairs)
    found = {key: state_of(key, how) for key, how in zip(ids, states, strict=True)}
    with pytest.raises(FinishedOperatorsError, match=r"mixed operator finished state.*\n.*'a' .*, 'b' "):
        validate_operators_finished_state([vertex], {}, found)
