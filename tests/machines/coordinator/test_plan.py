"""The tasks that take part in a checkpoint when some tasks have finished, and the record of the finished ones."""

from __future__ import annotations

import pytest

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.core.state.handles import ByteStreamStateHandle, OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo
from kit.core.state.operator_state import FINISHED_SUBTASK_STATE, OperatorState, OperatorSubtaskState
from kit.machines.coordinator.plan import (
    CheckpointPlan,
    CheckpointPlanCalculator,
    OperatorStateBuilder,
    PartialFinishingNotSupportedByState,
)
from kit.stream.graph.execution_graph import ExecutionGraph
from tests.machines.coordinator.harness import graph, operator_id


def plan_of(execution_graph: ExecutionGraph, *finished: str) -> CheckpointPlan:
    """Return the plan when these tasks have finished and all others run."""
    calculator = CheckpointPlanCalculator(execution_graph, allow_finished_tasks=True)
    return calculator.calculate(
        Attempts(1), lambda task: ExecutionState.FINISHED if task in finished else ExecutionState.RUNNING
    )


def names(tasks: object) -> list[str]:
    """Return the tasks' names."""
    return [task.task for task in tasks]  # type: ignore[attr-defined]


def tasks(vertex: str, *numbers: int) -> list[str]:
    """Return names of a vertex's tasks."""
    return [f"{vertex}/{number}" for number in numbers]


@pytest.mark.flink("DefaultCheckpointPlanCalculatorTest.testComputeAllRunningGraph")
def test_while_all_run_sources_are_triggered_and_all_take_part() -> None:
    job = graph({"a": 2, "b": 1, "c": 3}, [("a", "c", "hash"), ("b", "c", "rebalance")])
    plan = plan_of(job)
    everyone = [*tasks("a", 0, 1), *tasks("b", 0), *tasks("c", 0, 1, 2)]
    assert names(plan.tasks_to_trigger) == [*tasks("a", 0, 1), *tasks("b", 0)]
    assert names(plan.tasks_to_wait_for) == everyone
    assert names(plan.tasks_to_commit_to) == everyone
    assert not plan.finished_tasks
    assert not plan.fully_finished


# vertices, edges, finished, to be triggered
CASES = {
    "all-to-all, some sources finished": (
        {"a": 3, "b": 4},
        [("a", "b", "hash")],
        tasks("a", 0, 1),
        tasks("a", 2),
    ),
    "all-to-all, all sources finished": (
        {"a": 3, "b": 4},
        [("a", "b", "hash")],
        tasks("a", 0, 1, 2),
        tasks("b", 0, 1, 2, 3),
    ),
    "one to one, some sources finished": (
        {"a": 3, "b": 3},
        [("a", "b", "forward")],
        tasks("a", 0, 1),
        [*tasks("a", 2), *tasks("b", 0, 1)],
    ),
    "one to one, some sources and targets finished": (
        {"a": 3, "b": 3},
        [("a", "b", "forward")],
        [*tasks("a", 0, 1), *tasks("b", 1)],
        [*tasks("a", 2), *tasks("b", 0)],
    ),
    "pointwise, 2 to 4": (
        {"a": 2, "b": 4},
        [("a", "b", "rescale")],
        tasks("a", 0),
        [*tasks("a", 1), *tasks("b", 0, 1)],
    ),
    "pointwise, 4 to 2": (
        {"a": 4, "b": 2},
        [("a", "b", "rescale")],
        tasks("a", 0, 1, 2),
        [*tasks("a", 3), *tasks("b", 0)],
    ),
    "two inputs, one of them finished": (
        {"a": 2, "b": 2, "c": 2},
        [("a", "c", "hash"), ("b", "c", "hash")],
        tasks("a", 0, 1),
        tasks("b", 0, 1),
    ),
    "two inputs, pointwise and all-to-all": (
        {"a": 2, "b": 2, "c": 2},
        [("a", "c", "forward"), ("b", "c", "hash")],
        [*tasks("a", 0), *tasks("b", 0, 1)],
        [*tasks("a", 1), *tasks("c", 0)],
    ),
    "several levels": (
        {"a": 2, "b": 2, "c": 2, "d": 2},
        [("a", "b", "forward"), ("b", "c", "forward"), ("c", "d", "hash")],
        [*tasks("a", 0, 1), *tasks("b", 0), *tasks("c", 0)],
        tasks("b", 1),
    ),
    "several levels, all before the last finished": (
        {"a": 2, "b": 2, "c": 2},
        [("a", "b", "forward"), ("b", "c", "hash")],
        [*tasks("a", 0, 1), *tasks("b", 0, 1)],
        tasks("c", 0, 1),
    ),
}


@pytest.mark.flink(
    "DefaultCheckpointPlanCalculatorTest.testAllToAllEdgeWithSomeSourcesFinished",
    "DefaultCheckpointPlanCalculatorTest.testOneToOneEdgeWithSomeSourcesFinished",
    "DefaultCheckpointPlanCalculatorTest.testOneToOnEdgeWithSomeSourcesAndTargetsFinished",
    "DefaultCheckpointPlanCalculatorTest.testComputeWithMultipleInputs",
    "DefaultCheckpointPlanCalculatorTest.testComputeWithMultipleLevels",
)
@pytest.mark.parametrize("case", CASES)
def test_the_barrier_comes_from_whoever_has_no_running_task_before_it(case: str) -> None:
    vertices, edges, finished, triggered = CASES[case]
    job = graph(vertices, edges)
    plan = plan_of(job, *finished)
    running = [task.task for task in job.tasks if task.task not in finished]
    assert names(plan.tasks_to_trigger) == triggered
    assert names(plan.tasks_to_wait_for) == running
    assert names(plan.tasks_to_commit_to) == running
    assert sorted(names(plan.finished_tasks)) == sorted(finished)
    whole = {name for name, parallelism in vertices.items() if set(tasks(name, *range(parallelism))) <= set(finished)}
    assert set(plan.fully_finished) == whole


@pytest.mark.flink("DefaultCheckpointPlanCalculatorTest.testPlanCalculationWhenOneTaskNotRunning")
@pytest.mark.parametrize("finished", [[], tasks("source", 0)])
@pytest.mark.parametrize("state", [state for state in ExecutionState if state.name not in ("RUNNING", "FINISHED")])
def test_one_task_that_does_not_run_is_in_the_way(state: ExecutionState, finished: list[str]) -> None:
    calculator = CheckpointPlanCalculator(graph(), allow_finished_tasks=True)
    states = {"sums/1": state, **dict.fromkeys(finished, ExecutionState.FINISHED)}
    with pytest.raises(CheckpointException, match=rf"sums/1 is {state.name}\.") as caught:
        calculator.calculate(Attempts(1), lambda task: states.get(task, ExecutionState.RUNNING))
    assert caught.value.reason is CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING


# --- what is recorded -------------------------------------------------------------------------------------------------


def union_state(job: ExecutionGraph, vertex: str) -> dict[str, OperatorStateBuilder]:
    """Return states in which a subtask of `vertex` used a union list."""
    task = job.task(f"{vertex}/0")
    builder = OperatorStateBuilder.of(task, task.vertex.operators[0])
    handle = OperatorStreamStateHandle(
        {"list": StateMetaInfo((0,), OperatorStateMode.UNION)}, ByteStreamStateHandle("list", b"x")
    )
    builder.subtask_states[1] = OperatorSubtaskState(managed_operator_state=(handle,))
    return {builder.operator_id: builder}


@pytest.mark.flink("DefaultCheckpointPlanTest.testAbortionIfPartiallyFinishedVertexUsedUnionListState")
def test_a_partly_finished_vertex_with_a_union_list_cannot_be_checkpointed() -> None:
    job = graph()
    plan = plan_of(job, "sums/0")
    with pytest.raises(PartialFinishingNotSupportedByState, match=r"Vertex 'sums' .* part of its tasks have finished"):
        plan.fulfill_finished_task_status(union_state(job, "sums"))


@pytest.mark.flink("DefaultCheckpointPlanTest.testAbortionIfPartiallyOperatorsFinishedVertexUsedUnionListState")
def test_nor_one_of_which_some_operators_have_finished() -> None:
    job = graph()
    plan = plan_of(job)
    plan.report_task_has_finished_operators(job.task("sums/0"))
    with pytest.raises(PartialFinishingNotSupportedByState, match="have processed all their input"):
        plan.fulfill_finished_task_status(union_state(job, "sums"))
    plan.report_task_has_finished_operators(job.task("sums/1"))
    states = union_state(job, "sums")
    plan.fulfill_finished_task_status(states)
    assert not states[operator_id("sums")].fully_finished


CHAINS = {"source": 3, "maps": 3, "sums": 3}


def states_of(job: ExecutionGraph, union: tuple[object, ...] | None) -> dict[str, OperatorStateBuilder]:
    """Return the states of all operators; each subtask reports two managed and two raw handles of two lists.

    `union` is the place of the one union list: vertex, operator, subtask, managed or raw, handle and list.
    """
    states = {}
    for vertex, operators in CHAINS.items():
        for number in range(operators):
            builder = OperatorStateBuilder.of(job.task(f"{vertex}/0"), job.task(f"{vertex}/0").vertex.operators[number])
            for subtask in range(3):
                handles = {
                    kind: tuple(
                        OperatorStreamStateHandle(
                            {
                                name: StateMetaInfo(
                                    (0,),
                                    OperatorStateMode.UNION
                                    if (vertex, number, subtask, kind, handle, name) == union
                                    else OperatorStateMode.SPLIT_DISTRIBUTE,
                                )
                                for name in ("first", "last")
                            },
                            ByteStreamStateHandle(f"{kind}-{handle}", b"x"),
                        )
                        for handle in range(2)
                    )
                    for kind in ("managed_operator_state", "raw_operator_state")
                }
                builder.subtask_states[subtask] = OperatorSubtaskState(**handles)
            states[builder.operator_id] = builder
    return states


@pytest.mark.parametrize("name", ["first", "last"])
@pytest.mark.parametrize("handle", range(2))
@pytest.mark.parametrize("kind", ["managed_operator_state", "raw_operator_state"])
@pytest.mark.parametrize("subtask", [0, 2])
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("vertex", CHAINS)
def test_one_union_list_among_many_is_found(
    vertex: str, number: int, subtask: int, kind: str, handle: int, name: str
) -> None:
    job = graph(dict.fromkeys(CHAINS, 4), chains=CHAINS)
    union = (vertex, number, subtask, kind, handle, name)
    left = plan_of(job, *(f"{each}/3" for each in CHAINS))
    with pytest.raises(PartialFinishingNotSupportedByState, match=rf"Vertex '{vertex}' .* tasks have finished"):
        left.fulfill_finished_task_status(states_of(job, union))
    ended = plan_of(job)
    for each in CHAINS:
        ended.report_task_has_finished_operators(job.task(f"{each}/3"))
    with pytest.raises(PartialFinishingNotSupportedByState, match=rf"Vertex '{vertex}' .* all their input"):
        ended.fulfill_finished_task_status(states_of(job, union))


def test_no_list_but_a_union_list_is_in_the_way_and_every_subtask_that_has_finished_is_marked() -> None:
    job = graph(dict.fromkeys(CHAINS, 4), chains=CHAINS)
    plan = plan_of(job, *(f"{vertex}/3" for vertex in CHAINS))
    for vertex in CHAINS:
        plan.report_task_has_finished_operators(job.task(f"{vertex}/1"))
    states = states_of(job, None)
    plan.fulfill_finished_task_status(states)
    assert len(states) == 9
    for builder in states.values():
        assert [subtask for subtask, state in builder.subtask_states.items() if state.finished] == [3]
        assert not builder.fully_finished


@pytest.mark.flink("DefaultCheckpointPlanTest.testFulfillFinishedStates")
def test_what_finished_is_marked_whole_or_by_subtask() -> None:
    job = graph({"z": 2, "a": 2, "b": 3}, chains={"z": 2, "a": 2, "b": 2})
    plan = plan_of(job, "z/0", "z/1", "a/0", "a/1", "b/1")
    states: dict[str, OperatorStateBuilder] = {}
    plan.fulfill_finished_task_status(states)
    built = {operator: builder.build() for operator, builder in states.items()}
    assert {built[operator_id(vertex, number)].fully_finished for vertex in "za" for number in (0, 1)} == {True}
    for number in (0, 1):
        state = built[operator_id("b", number)]
        assert (state.fully_finished, state.parallelism, list(state.subtask_states)) == (False, 3, [1])
        assert state.subtask_states[1].finished


@pytest.mark.flink("DefaultCheckpointPlanTest.testFulfillFullyFinishedStatesWithCoordinator")
def test_a_finished_operator_with_a_coordinator_is_marked_finished() -> None:
    job = graph()
    plan = plan_of(job, "source/0", "source/1")
    task = job.task("source/0")
    builder = OperatorStateBuilder.of(task, task.vertex.operators[0])
    builder.coordinator_state = ByteStreamStateHandle("source", b"x")
    builders = {builder.operator_id: builder}
    plan.fulfill_finished_task_status(builders)
    state = builders[builder.operator_id].build()
    assert (state.fully_finished, state.coordinator_state) == (True, None)


@pytest.mark.flink("FullyFinishedOperatorStateTest.testFullyFinishedOperatorState")
def test_a_fully_finished_operator_has_nothing_else() -> None:
    finished = OperatorState("op", 5, 256, fully_finished=True)
    assert (finished.has_state(), list(finished.files()), finished.parallelism) == (False, [], 5)
    assert all(finished.state_of(number) is FINISHED_SUBTASK_STATE for number in range(5))
    with pytest.raises(ValueError, match="has no state of subtasks"):
        OperatorState("op", 5, 256, {0: OperatorSubtaskState()}, fully_finished=True)


def test_without_finished_tasks_nothing_is_marked() -> None:
    job = graph()
    calculator = CheckpointPlanCalculator(job, allow_finished_tasks=False)
    plan = calculator.calculate(Attempts(1), lambda task: ExecutionState.RUNNING)
    plan.report_task_finished_on_restore(job.task("sums/0"))
    states: dict[str, OperatorStateBuilder] = {}
    plan.fulfill_finished_task_status(states)
    assert states == {}


def test_a_finished_operator_that_reports_state_is_a_mistake() -> None:
    job = graph()
    plan = plan_of(job)
    plan.report_task_finished_on_restore(job.task("sums/0"))
    with pytest.raises(ValueError, match=r"all subtasks of 'sums' have finished, but \[1\] reported state of 'sums-0'"):
        plan.fulfill_finished_task_status(union_state(job, "sums"))
