"""What the executors of a slot have to say: answers to tasks, and files to be written.

Executor, dispatcher and writers put words in here while they work; the slot's machine gives them when they are done.
Every `CheckpointStartRequest` is answered once, whichever of them it is that answers.
"""

from __future__ import annotations

from kit.core.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten
from kit.core.protocol.reasons import CheckpointFailureReason, reason_of
from kit.machines.channel.channel_state.channel_state_requests import ChannelStateWriteRequest, CheckpointStartRequest

Said = ChannelStateWritten | ChannelStateFailed | WriteChannelStateFile | CancelChannelStateFile


class ChannelStateOutbox:
    """Words in the order in which they arose."""

    def __init__(self) -> None:
        self.executor_ended = False
        self._words: list[Said] = []

    def say(self, word: Said) -> None:
        """Tell a task, or have a file written, or not."""
        self._words.append(word)

    def failed(self, task: str, checkpoint_id: int, cause: Exception) -> None:
        """This task's in-flight data of a checkpoint is not stored, because of `cause`."""
        reason, error = reason_of(cause, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
        self.say(
            ChannelStateFailed(
                task=task, checkpoint_id=checkpoint_id, error=error, reason=reason, executor_ended=self.executor_ended
            )
        )

    def cancel(self, request: ChannelStateWriteRequest, cause: Exception) -> None:
        """The request will not be executed: it lets go of its buffers, and the task is told if it waits."""
        request.cancel(cause)
        if isinstance(request, CheckpointStartRequest):
            self.failed(request.task, request.checkpoint_id, cause)

    def take(self) -> list[Said]:
        """All that is to be said; it is empty afterwards."""
        taken, self._words = self._words, []
        return taken

    def __bool__(self) -> bool:
        return bool(self._words)

    def __repr__(self) -> str:
        return f"ChannelStateOutbox({len(self._words)} words)"
