"""What the JobMaster lends the CheckpointCoordinator that it owns: a narrow door to everything outside.

The coordinator is no machine of its own. It is called from the JobMaster's handlers and speaks only through this
context, so that a test can stand in for the whole job with a few lines.
"""

from __future__ import annotations

from typing import Protocol

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import Word


class CoordinatorListeners(Protocol):
    """The operator coordinators of the job, as they are told what becomes of a checkpoint."""

    def notify_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is stored for good."""

    def notify_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint will not complete."""

    def open_gate(self, task: str, checkpoint_id: int) -> None:
        """The task is told of the checkpoint: what its operators' coordinators say from now on comes behind that."""

    def abort_triggering(self) -> None:
        """Forget the snapshot that was asked for last (`abortCurrentTriggering`)."""


class CheckpointStatsListener(Protocol):
    """Whoever waits for a checkpoint to end, whichever it is."""

    def on_completed_checkpoint(self, checkpoint_id: int) -> None:
        """A checkpoint, no savepoint, is stored for good."""

    def on_failed_checkpoint(self) -> None:
        """A checkpoint or savepoint came to nothing."""


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

    def answer_request(self, word: CompleteRequest) -> None:
        """Answer a request for a snapshot; whoever asked may be told later."""

    def execution_state(self, task: str) -> ExecutionState:
        """Where the current attempt of a task stands."""

    def fail_job(self, error: str, checkpoint_id: int | None, *, may_pass: bool) -> None:
        """Too many checkpoints failed, or a stop-with-savepoint did: the job fails once the event is dealt with.

        `may_pass` says that the cause may be gone the next time.
        """

    def fail_job_due_to_task_failure(self, error: str, task: str, *, may_pass: bool) -> None:
        """The same where one task is to blame (Flink's `failJobDueToTaskFailure`)."""

    @property
    def coordinators(self) -> CoordinatorListeners:
        """The operator coordinators."""
