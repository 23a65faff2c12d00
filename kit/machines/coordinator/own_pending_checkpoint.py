"""A pending checkpoint whose account of its tasks is a part of the user's own.

Who has acknowledged, what is kept of it, when all have, and which state nobody needs: that is the user's. The kit keeps
the rest (coordinators, hooks, the steps of the table), fences attempts, and does what the part says: it completes the
checkpoint with the states that the part keeps, and deletes those that it gives up. What comes after the checkpoint has
left the list of pending ones never gets here: that is the coordinator's (`acknowledging`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from kit.core.protocol.reasons import CheckpointException
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.coordinator.checkpoint_state import CheckpointEvent
from kit.machines.coordinator.pending_checkpoint import PendingCheckpoint, TaskAcknowledgeResult
from kit.machines.coordinator.plan import CheckpointPlan
from kit.machines.coordinator.shared_state_registry import private_files
from kit.stream.graph.execution_graph import ExecutionVertex
from kit.stream.settings.parts import Factory, OwnPart, PartError, made

NAME = "pending_checkpoint"


@runtime_checkable
class TaskAcknowledgements(Protocol):
    """What a pending checkpoint knows of its tasks (`kit.stream.settings.parts.Parts`). It is made with their names.

    A state is a `TaskStateSnapshot`, or None for a task that has none. Flink: `acknowledgedTasks`,
    `notYetAcknowledgedTasks` and `operatorStates` of `PendingCheckpoint`.
    """

    states: dict[str, Any]
    """The states that are kept, by task."""
    to_delete: list[Any]
    """The states that nobody needs, in the order in which that came out."""

    @property
    def is_complete(self) -> bool:
        """Whether all tasks have acknowledged. Flink: `areTasksFullyAcknowledged`."""

    def acknowledge(self, task: str, state: Any) -> str:
        """A task says that its state is written: "SUCCESS", "DUPLICATE", "UNKNOWN" or "DISCARDED".

        Flink: `acknowledgeTask`.
        """

    def abort(self) -> None:
        """The checkpoint will not complete. Flink: `abort`."""


class OwnAcknowledgements(OwnPart):
    """An account of the user's own."""

    RETURNS = {"acknowledge": (str,)}
    __slots__ = ()


class OwnPendingCheckpoint(PendingCheckpoint):
    """A pending checkpoint that asks the user's part, made by `own`."""

    def __init__(self, own: Factory, checkpoint_id: int, timestamp_ms: int, plan: CheckpointPlan, *given: Any) -> None:
        super().__init__(checkpoint_id, timestamp_ms, plan, *given)
        self._own = own
        self._part = self._made()
        self._given_up = 0
        """How many of the states that nobody needs are being deleted."""

    def _made(self) -> TaskAcknowledgements:
        tasks = [task.task for task in self.plan.tasks_to_wait_for]
        return made(NAME, self._own, TaskAcknowledgements, OwnAcknowledgements, tasks)  # type: ignore[type-abstract]

    @property
    def is_fully_acknowledged(self) -> bool:
        """Whether the part says so, and coordinators and hooks have acked too."""
        return not (
            self.is_disposed
            or not self._part.is_complete
            or self.not_yet_acked_coordinators
            or self.not_yet_acked_hooks
        )

    @property
    def waits_for_others(self) -> bool:
        """Only the part knows."""
        return False

    def plan_again(self, plan: CheckpointPlan) -> list[ExecutionVertex]:
        """Take another plan: the account begins anew."""
        gone = super().plan_again(plan)
        self._part = self._made()
        return gone

    def acknowledge_task(self, task: str, attempt: int, snapshot: TaskStateSnapshot | None) -> TaskAcknowledgeResult:
        """A task is done: the part says what that is. Raises PartError for what it may not say."""
        if attempt != self.plan.attempt:
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
        """The state, if the part has given it up with this ack."""
        return snapshot if any(each is snapshot for each in self._newly_given_up()) else None

    def fail(self, why: CheckpointException, event: CheckpointEvent = CheckpointEvent.ABORT) -> None:
        """Come to an end without completing, and tell the part."""
        super().fail(why, event)
        self._part.abort()

    def files_to_discard(self) -> tuple[str, ...]:
        """The files of what the part has given up since it was last asked."""
        states = [state for each in self._newly_given_up() for state in each.subtask_states.values()]
        files = (state.files() if self.properties.is_savepoint else private_files(state) for state in states)
        return tuple(dict.fromkeys(file for each in files for file in each))

    def _newly_given_up(self) -> list[TaskStateSnapshot]:
        found: Iterable[Any] = self._part.to_delete[self._given_up :]
        self._given_up = len(self._part.to_delete)
        return [each for each in found if isinstance(each, TaskStateSnapshot)]


def create_pending_checkpoint(own: Factory | None, *given: Any) -> PendingCheckpoint:
    """A checkpoint that begins; `own` makes the user's account of its tasks. Raises PartError for what is none."""
    return PendingCheckpoint(*given) if own is None else OwnPendingCheckpoint(own, *given)
