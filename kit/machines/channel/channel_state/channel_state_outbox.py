"""The outbox of a slot's executors: answers to tasks, and files to be written.

Executor, dispatcher and writers add messages and commands while they work, and the slot's machine emits them
afterwards. Every `CheckpointStartRequest` is answered exactly once, by whichever of them handles it.
"""

from __future__ import annotations

from kit.core.protocol.commands import CancelChannelStateFile, WriteChannelStateFile
from kit.core.protocol.messages import ChannelStateFailed, ChannelStateWritten
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointFailureReason, reason_of
from kit.machines.channel.channel_state.channel_state_requests import ChannelStateWriteRequest, CheckpointStartRequest

Said = ChannelStateWritten | ChannelStateFailed | WriteChannelStateFile | CancelChannelStateFile


class ChannelStateOutbox:
    """Messages and commands in the order in which they arose."""

    def __init__(self) -> None:
        self.executor_ended = False
        self._words: list[Said] = []

    def say(self, word: Said) -> None:
        """Add an answer to a task, or the start or stop of a write."""
        self._words.append(word)

    def failed(self, task: str, checkpoint_id: int, cause: Exception) -> None:
        """Answer that this task's in-flight data of a checkpoint is not stored, because of `cause`."""
        reason, error = reason_of(cause, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
        self.say(
            ChannelStateFailed(
                task=task,
                checkpoint_id=checkpoint_id,
                error=error,
                reason=reason,
                executor_ended=self.executor_ended,
                may_pass=may_pass(cause),
            )
        )

    def cancel(self, request: ChannelStateWriteRequest, cause: Exception) -> None:
        """Cancel the request, which releases its buffers, and notify the task if it waits for an answer."""
        request.cancel(cause)
        if isinstance(request, CheckpointStartRequest):
            self.failed(request.task, request.checkpoint_id, cause)

    def take(self) -> list[Said]:
        """Return the content and empty the outbox."""
        taken, self._words = self._words, []
        return taken

    def __bool__(self) -> bool:
        return bool(self._words)

    def __repr__(self) -> str:
        return f"ChannelStateOutbox({len(self._words)} words)"
