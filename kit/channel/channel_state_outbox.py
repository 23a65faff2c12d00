"""What the channel state executor of a slot has to say: answers to tasks, and files to be written.

Executor, dispatcher and writers put words in here while they work; the host takes them out when they are done.
Every `CheckpointStartRequest` is answered once, whichever of them it is that answers.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.channel.channel_state_requests import ChannelStateWriteRequest, CheckpointStartRequest
from kit.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.protocol.events import ChannelStateFailed, ChannelStateWritten
from kit.protocol.reasons import CheckpointException, CheckpointFailureReason


@dataclass(frozen=True, slots=True)
class ChannelStateAnswer:
    """An event for the task of this name."""

    task: str
    event: ChannelStateWritten | ChannelStateFailed


FileJob = WriteChannelStateFile | CancelChannelStateFile


class ChannelStateOutbox:
    """Answers and file jobs, in the order in which they came up."""

    def __init__(self) -> None:
        self.executor_ended = False
        self._answers: list[ChannelStateAnswer] = []
        self._jobs: list[FileJob] = []

    def written(self, task: str, event: ChannelStateWritten) -> None:
        """This task's in-flight data is stored."""
        self._answers.append(ChannelStateAnswer(task, event))

    def failed(self, task: str, checkpoint_id: int, cause: Exception) -> None:
        """This task's in-flight data of a checkpoint is not, because of `cause`."""
        reason, error = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, f"{type(cause).__name__}: {cause}"
        if isinstance(cause, CheckpointException):
            reason, error = cause.reason, cause.detail
        event = ChannelStateFailed(
            checkpoint_id=checkpoint_id, error=error, reason=reason, executor_ended=self.executor_ended
        )
        self._answers.append(ChannelStateAnswer(task, event))

    def cancel(self, request: ChannelStateWriteRequest, cause: Exception) -> None:
        """The request will not be executed: it lets go of its buffers, and the task is told if it waits."""
        request.cancel(cause)
        if isinstance(request, CheckpointStartRequest):
            self.failed(request.task, request.checkpoint_id, cause)

    def ask(self, job: FileJob) -> None:
        """Have a file written, or not."""
        self._jobs.append(job)

    def take(self) -> tuple[list[ChannelStateAnswer], list[FileJob]]:
        """All that is to be said and done; it is empty afterwards."""
        taken = self._answers, self._jobs
        self._answers, self._jobs = [], []
        return taken

    def __bool__(self) -> bool:
        return bool(self._answers or self._jobs)

    def __repr__(self) -> str:
        return f"ChannelStateOutbox({len(self._answers)} answers, {len(self._jobs)} file jobs)"
