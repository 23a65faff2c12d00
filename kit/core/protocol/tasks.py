"""The states of a task, and the state that it is restored from.

`ExecutionState` is the life of one attempt. The machines check the table `TRANSITIONS`, error messages quote it, and
the figure in the documentation is drawn from it. Follows Flink's `ExecutionState` and `JobManagerTaskRestore`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kit.core.protocol.transitions import Transitions
from kit.core.state.operator_state import TaskStateSnapshot


class ExecutionState(Enum):
    """The state of one attempt of a task."""

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
        """True if no state follows."""
        return self in _ENDS


class TaskStep(Enum):
    """The events that move a task from one state to another."""

    DEPLOY = "it is deployed"
    INITIALIZE = "its channels are open"
    RUN = "all is restored"
    FINISH = "it leaves"
    CANCEL = "it is cancelled"
    LET_GO = "all is let go"
    FAIL = "it fails"


_IS_CANCELLED_OR_FAILS = {TaskStep.CANCEL: ExecutionState.CANCELING, TaskStep.FAIL: ExecutionState.FAILED}

TRANSITIONS = Transitions(
    "the life of one attempt of a task",
    ExecutionState.CREATED,
    {
        ExecutionState.CREATED: {TaskStep.DEPLOY: ExecutionState.DEPLOYING, **_IS_CANCELLED_OR_FAILS},
        ExecutionState.DEPLOYING: {TaskStep.INITIALIZE: ExecutionState.INITIALIZING, **_IS_CANCELLED_OR_FAILS},
        ExecutionState.INITIALIZING: {TaskStep.RUN: ExecutionState.RUNNING, **_IS_CANCELLED_OR_FAILS},
        ExecutionState.RUNNING: {TaskStep.FINISH: ExecutionState.FINISHED, **_IS_CANCELLED_OR_FAILS},
        ExecutionState.CANCELING: {
            TaskStep.LET_GO: ExecutionState.CANCELED,
            TaskStep.FAIL: ExecutionState.FAILED,
        },
        ExecutionState.FINISHED: {},
        ExecutionState.CANCELED: {},
        ExecutionState.FAILED: {},
    },
)
_ENDS = tuple(state for state in TRANSITIONS if TRANSITIONS.is_end(state))
"""The terminal states, as a tuple: it is searched in every step of a lab, faster than a member of an Enum is hashed."""


@dataclass(frozen=True, slots=True)
class TaskRestore:
    """The state that one subtask starts with, and the checkpoint it comes from (Flink's `JobManagerTaskRestore`)."""

    checkpoint_id: int
    state: TaskStateSnapshot

    def __repr__(self) -> str:
        return f"TaskRestore(chk-{self.checkpoint_id}, {len(self.state.subtask_states)} operators)"


def task_name(vertex: str, subtask: int) -> str:
    """Return the name of a subtask, `<vertex>/<index>`."""
    return f"{vertex}/{subtask}"


def vertex_of(task: str) -> str:
    """Return the name of the vertex of a subtask: `sums` of `sums/1`."""
    return task.rpartition("/")[0]


def split_task_name(task: str) -> tuple[str, int]:
    """Return the vertex and the subtask index of a task's name."""
    vertex, _, index = task.rpartition("/")
    return vertex, int(index)
