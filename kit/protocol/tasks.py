"""A task's states, and what it is restored from.

`ExecutionState` is the life of one attempt; `TRANSITIONS` is the table that the machines check, that error messages
quote and that the figure in the documentation is drawn from. Follows Flink's `ExecutionState` and
`JobManagerTaskRestore`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kit.state.operator_state import TaskStateSnapshot


class ExecutionState(Enum):
    """Where an attempt of a task stands."""

    CREATED = "CREATED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return not TRANSITIONS[self]

    def may_become(self, other: ExecutionState) -> bool:
        """Whether the table allows the step."""
        return other in TRANSITIONS[self]


TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    ExecutionState.CREATED: frozenset(
        {ExecutionState.DEPLOYING, ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    ExecutionState.DEPLOYING: frozenset(
        {ExecutionState.INITIALIZING, ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    ExecutionState.INITIALIZING: frozenset(
        {ExecutionState.RUNNING, ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    ExecutionState.RUNNING: frozenset(
        {ExecutionState.FINISHED, ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.FAILED}
    ),
    ExecutionState.CANCELING: frozenset({ExecutionState.CANCELED, ExecutionState.FAILED}),
    ExecutionState.FINISHED: frozenset(),
    ExecutionState.CANCELED: frozenset(),
    ExecutionState.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """The state that one subtask begins with, and the checkpoint it comes from (Flink's `JobManagerTaskRestore`)."""

    checkpoint_id: int
    state: TaskStateSnapshot

    def __repr__(self) -> str:
        return f"TaskRestore(chk-{self.checkpoint_id}, {len(self.state.subtask_states)} operators)"


def task_name(vertex: str, subtask: int) -> str:
    """The name of a subtask, `<vertex>/<index>`."""
    return f"{vertex}/{subtask}"


def split_task_name(task: str) -> tuple[str, int]:
    """Vertex and subtask index of a task's name."""
    vertex, _, index = task.rpartition("/")
    return vertex, int(index)
