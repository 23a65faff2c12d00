"""A pending checkpoint whose record of acknowledgements is a user-defined part.

The part decides who has acknowledged, which states are kept, when all have acknowledged, and which states are not
needed. The kit keeps the rest (coordinators, hooks, the steps of the table) and fences attempts. It follows the part:
it completes the checkpoint with the states that the part keeps, and deletes those that it drops. Messages that arrive
after the checkpoint has ended do not reach the part; the coordinator handles them (`acknowledging`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from kit.core.protocol.reasons import CheckpointException
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.coordinator.checkpoint_state import CheckpointEvent
from kit.machines.coordinator.completed.shared_state_registry import private_files
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.machines.coordinator.plan import CheckpointPlan
from kit.stream.graph.execution_graph import ExecutionVertex
from kit.stream.settings.parts import Factory, PartError, UserDefinedPart, made

NAME = "pending_checkpoint"


@runtime_checkable
class TaskAcknowledgements(Protocol):
    """The record of a pending checkpoint's tasks (`kit.stream.settings.parts.Parts`), created with their names.

    A state is a `TaskStateSnapshot`, or None for a task that has none. Flink: `acknowledgedTasks`,
    `notYetAcknowledgedTasks` and `operatorStates` of `PendingCheckpoint`.
    """

    states: dict[str, Any]
    """The states that are kept, by task."""
    to_delete: list[Any]
    """The states that are not needed, in the order in which that became known."""

    @property
    def is_complete(self) -> bool:
        """True if all tasks have acknowledged. Flink: `areTasksFullyAcknowledged`."""

    def acknowledge(self, task: str, state: Any) -> str:
        """Record that a task has written its state; return "SUCCESS", "DUPLICATE", "UNKNOWN" or "DISCARDED".

        Flink: `acknowledgeTask`.
        """

    def abort(self) -> None:
        """Abort the checkpoint. Flink: `abort`."""


class OwnAcknowledgements(UserDefinedPart):
    """The checks and messages of a user-defined record of acknowledgements."""

    RETURNS = {"acknowledge": (str,)}
    __slots__ = ()


class OwnPendingCheckpoint(PendingCheckpoint):
    """A pending checkpoint that consults the user-defined part created by `own`."""

    def __init__(self, own: Factory, checkpoint_id: int, timestamp_ms: int, plan: CheckpointPlan, *given: Any) -> None:
        super().__init__(checkpoint_id, timestamp_ms, plan, *given)
        self._own = own
        self._part = self._made()
        self._given_up = 0
        """The number of unneeded states whose deletion has been requested."""

    def _made(self) -> TaskAcknowledgements:
        tasks = [task.task for task in self.plan.tasks_to_wait_for]
        return made(NAME, self._own, TaskAcknowledgements, OwnAcknowledgements, tasks)  # type: ignore[type-abstract]

    @property
    def is_fully_acknowledged(self) -> bool:
        """True if the part says so, and coordinators and hooks have acknowledged too."""
        return not (
            self.is_disposed
            or not self._part.is_complete
            or self.not_yet_acked_coordinators
            or self.not_yet_acked_hooks
        )

    @property
    def waits_for_others(self) -> bool:
        """False: only the part knows."""
        return False

    def plan_again(self, plan: CheckpointPlan) -> list[ExecutionVertex]:
        """Take another plan; the part is created again."""
        gone = super().plan_again(plan)
        self._part = self._made()
        return gone

    def acknowledge_task(self, task: str, attempt: int, snapshot: TaskStateSnapshot | None) -> TaskAcknowledgeResult:
        """Let the part record an acknowledgement. Raises PartError for an answer that breaks its contract."""
        if attempt != self.plan.attempts.of(task):
            return TaskAcknowledgeResult.UNKNOWN
        answer = self._part.acknowledge(task, snapshot)
        if answer not in TaskAcknowledgeResult.__members__:
            words = ", ".join(TaskAcknowledgeResult.__members__)
            raise PartError(
                f"{NAME} of your own: acknowledge({task!r}, ...) returned {answer!r}, expected one of {words}"
            )
        result = TaskAcknowledgeResult[answer]
        if result is TaskAcknowledgeResult.SUCCESS:
            vertex = self.not_yet_acked_tasks.pop(task, None)
            if vertex is None:
                raise PartError(
                    f"{NAME} of your own: acknowledge({task!r}, ...) returned 'SUCCESS' for the second time"
                )
            self._count(vertex, self._kept(task))
        return result

    def _kept(self, task: str) -> TaskStateSnapshot | None:
        kept = self._part.states.get(task)
        if kept is not None and not isinstance(kept, TaskStateSnapshot):
            raise PartError(
                f"{NAME} of your own: states[{task!r}] is {kept!r}, expected what the task acknowledged with"
            )
        return kept

    def unwanted(self, result: TaskAcknowledgeResult, snapshot: TaskStateSnapshot | None) -> TaskStateSnapshot | None:
        """Return the state, if the part has dropped it with this acknowledgement."""
        return snapshot if any(each is snapshot for each in self._newly_given_up()) else None

    def fail(self, why: CheckpointException, event: CheckpointEvent = CheckpointEvent.ABORT) -> None:
        """Fail the checkpoint, and abort the part."""
        super().fail(why, event)
        self._part.abort()

    def files_to_discard(self) -> tuple[str, ...]:
        """Return the files of the states that the part has dropped since the last call."""
        states = [state for each in self._newly_given_up() for state in each.subtask_states.values()]
        files = (state.files() if self.properties.is_savepoint else private_files(state) for state in states)
        return tuple(dict.fromkeys(file for each in files for file in each))

    def _newly_given_up(self) -> list[TaskStateSnapshot]:
        found: Iterable[Any] = self._part.to_delete[self._given_up :]
        self._given_up = len(self._part.to_delete)
        return [each for each in found if isinstance(each, TaskStateSnapshot)]


def create_pending_checkpoint(own: Factory | None, *given: Any) -> PendingCheckpoint:
    """Create a pending checkpoint; `own` creates a user-defined record. Raises PartError for an invalid one."""
    return PendingCheckpoint(*given) if own is None else OwnPendingCheckpoint(own, *given)
