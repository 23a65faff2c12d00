"""The record of what a restore gave to each subtask."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol.tasks import TaskRestore, task_name
from kit.core.state.handles import FileStateHandle, OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.restored_state import RestoredSubtaskState
from kit.machines.job.task_restores import assignment_edges, assignment_vertices
from kit.machines.restore.assignment_rows import describe_assignments
from kit.machines.restore.shared_handles import SharedHandles
from kit.machines.restore.state_assignment import assign_states
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink

LISTS = st.dictionaries(
    st.sampled_from(["left", "right", "all", "more"]),
    st.lists(st.integers(0, 99), max_size=5).map(tuple),
    max_size=4,
)
MODES = {
    "left": OperatorStateMode.SPLIT_DISTRIBUTE,
    "right": OperatorStateMode.SPLIT_DISTRIBUTE,
    "all": OperatorStateMode.UNION,
    "more": OperatorStateMode.BROADCAST,
}


def restored(
    parts: list[dict[str, tuple[int, ...]]], parallelism: int
) -> tuple[dict[str, str], dict[str, TaskRestore | None], dict[str, OperatorState]]:
    """A job of one task with list states `parts`, old subtask by old subtask, restored at `parallelism`: the names of
    its operators, what each task restores, and the state before.
    """
    env = StreamEnvironment("lists", parallelism=parallelism, max_parallelism=16)
    env.from_source(CollectionSource([{"n": 1}]), uid="rows").sink_to(CollectSink("out"), uid="out")
    job = env.job_graph()
    (vertex,) = job.vertices
    head = job.operator(vertex.operator_ids[0])
    states = {
        index: OperatorSubtaskState(
            managed_operator_state=(
                OperatorStreamStateHandle(
                    {name: StateMetaInfo(offsets, MODES[name]) for name, offsets in part.items()},
                    FileStateHandle(f"file-{index}", 100 + index),
                ),
            )
        )
        for index, part in enumerate(parts)
        if part
    }
    before = {head.operator_id: OperatorState(head.operator_id, len(parts), 16, states)}
    graph = env.execution_graph()
    assigned = assign_states(assignment_vertices(graph), assignment_edges(job), before, 1)
    tasks = {task_name(vertex.name, index): restore for index, restore in enumerate(assigned.restores[0])}
    return {operator.operator_id: operator.name for operator in vertex.operators}, tasks, before


def written_out(restore: TaskRestore | None) -> TaskRestore | None:
    """The same restore, with every list of handles in full."""
    if restore is None:
        return None
    states = {
        operator_id: RestoredSubtaskState(managed_operator_state=tuple(state.managed_operator_state))
        for operator_id, state in restore.state.subtask_states.items()
    }
    return TaskRestore(restore.checkpoint_id, TaskStateSnapshot(states))


@given(st.lists(LISTS, min_size=1, max_size=5), st.integers(1, 5))
def test_a_shared_list_is_told_as_if_each_subtask_had_all_of_it(
    parts: list[dict[str, tuple[int, ...]]], parallelism: int
) -> None:
    names, restores, before = restored(parts, parallelism)
    in_full = {task: written_out(restore) for task, restore in restores.items()}
    assert describe_assignments(names, restores, before) == describe_assignments(names, in_full, before)


def test_a_shared_list_is_added_up_once() -> None:
    """Else the telling would take old times new parallelism."""
    names, restores, before = restored([{"all": (1, 2), "left": (1,)}] * 4, 3)
    lists = [
        state.managed_operator_state
        for restore in restores.values()
        for state in restore.state.subtask_states.values()
        if state.managed_operator_state
    ]
    assert all(isinstance(handles, SharedHandles) for handles in lists)
    rows = describe_assignments(names, restores, before)
    assert [row["from"] for row in rows] == [[0, 1, 2, 3]] * 3
    assert len({id(row["from"]) for row in rows}) == 1
    assert [row["entries"] for row in rows] == [8 + 2, 8 + 1, 8 + 1]
