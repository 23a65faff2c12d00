"""What the CheckpointCoordinator is lent by the JobMaster that owns it: a narrow door to everything outside.

The coordinator is no machine of its own. It is called from the JobMaster's handlers and speaks only through this
context, so that a test can stand in for the whole job with a few lines.
"""

from __future__ import annotations

from typing import Protocol

from kit.protocol.tasks import ExecutionState
from kit.protocol.words import Word


class CoordinatorContext(Protocol):
    """The JobMaster, as the coordinator sees it."""

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    @property
    def epoch(self) -> int:
        """The attempt of every task that is deployed now."""

    def emit(self, word: Word) -> None:
        """Give a command to the host, or a message to a task."""

    def execution_state(self, task: str) -> ExecutionState:
        """Where the current attempt of a task stands."""

    def fail_job(self, error: str, checkpoint_id: int | None) -> None:
        """Too many checkpoints failed, or a stop-with-savepoint did: the job fails, or restarts as a whole."""

    def fail_job_due_to_task_failure(self, error: str, task: str) -> None:
        """The same where one task is to blame (Flink's `failJobDueToTaskFailure`)."""

    def notify_coordinators_complete(self, checkpoint_id: int) -> None:
        """Tell the operator coordinators that a checkpoint is stored for good."""

    def notify_coordinators_aborted(self, checkpoint_id: int) -> None:
        """Tell the operator coordinators that a checkpoint will not complete."""

    def abort_coordinators_triggering(self) -> None:
        """Tell the operator coordinators to forget the snapshot they were asked for (`abortCurrentTriggering`)."""
