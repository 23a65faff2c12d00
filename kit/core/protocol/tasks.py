"""A task's states, and what it is restored from.

`ExecutionState` is the life of one attempt; `TRANSITIONS` is the table that the machines check, that error messages
quote and that the figure in the documentation is drawn from. Follows Flink's `ExecutionState` and
`JobManagerTaskRestore`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kit.core.protocol.transitions import Transitions
from kit.core.state.operator_state import TaskStateSnapshot


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
        return self in _ENDS


class TaskStep(Enum):
    """What moves a task from one state to another."""

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
"""Few, and asked for in every step of a lab: looking through them is quicker than hashing a member of an Enum."""


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
