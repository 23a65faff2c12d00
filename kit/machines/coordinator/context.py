"""The interface through which the CheckpointCoordinator sees its JobMaster, and everything outside.

The coordinator is not a machine of its own. The JobMaster's handlers call it, and its only output goes through this
context. So a test can replace the whole job with a few lines.
"""

from __future__ import annotations

from typing import Protocol

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolMessage


class CoordinatorListeners(Protocol):
    """The operator coordinators of the job, as receivers of checkpoint notifications."""

    def notify_complete(self, checkpoint_id: int) -> None:
        """Notify them that a checkpoint is complete."""

    def notify_aborted(self, checkpoint_id: int) -> None:
        """Notify them that a checkpoint was aborted."""

    def open_gate(self, task: str, checkpoint_id: int) -> None:
        """Open the gate of a task: it has the checkpoint's trigger, so later events of its coordinators follow that."""

    def abort_triggering(self) -> None:
        """Forget the snapshot that was requested last (`abortCurrentTriggering`)."""


class CheckpointStatsListener(Protocol):
    """A listener for the end of every checkpoint."""

    def on_completed_checkpoint(self, checkpoint_id: int) -> None:
        """Handle the completion of a checkpoint that is not a savepoint."""

    def on_failed_checkpoint(self) -> None:
        """Handle the failure of a checkpoint or savepoint."""


class CoordinatorContext(Protocol):
    """The JobMaster, as the coordinator sees it."""

    @property
    def at(self) -> int:
        """The host's time of the event being handled, in ms."""

    @property
    def attempts(self) -> Attempts:
        """The attempts of the tasks that are deployed now."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command to the host, or a message to a task."""

    def answer_request(self, word: CompleteRequest) -> None:
        """Answer a request for a snapshot; the user may receive the answer later."""

    def execution_state(self, task: str) -> ExecutionState:
        """Return the state of a task's current attempt."""

    def fail_job(self, error: str, checkpoint_id: int | None, *, may_pass: bool) -> None:
        """Fail the job after this event: too many checkpoints failed, or a stop-with-savepoint did.

        With `may_pass`, the cause may be gone the next time.
        """

    def fail_job_due_to_task_failure(self, error: str, task: str, *, may_pass: bool) -> None:
        """Fail the job because of one task (Flink's `failJobDueToTaskFailure`)."""

    @property
    def coordinators(self) -> CoordinatorListeners:
        """The operator coordinators."""
