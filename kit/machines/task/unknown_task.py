"""A slot's answer in place of a task that it does not know.

A trigger may arrive after its task has left, while the task's last report is still on its way to the JobMaster. The
slot then declines in its place, so the checkpoint is aborted at once instead of when it expires. Other messages to such
a task need no answer.

Follows Flink's `TaskExecutor.triggerCheckpoint`. In 1.11 the answer is ignored, and the checkpoint expires.
"""

from __future__ import annotations

from kit.core.protocol.messages import DeclineCheckpoint, JobMessage, TaskMessage, TriggerTaskCheckpoint
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.task.stream_task import StreamTask


def answer_for_unknown_task(message: TaskMessage, task: StreamTask | None, job_id: str) -> JobMessage | None:
    """Return the slot's answer to `message` if `task`, its task of this name, cannot answer.

    Returns None if the task can answer itself, or if the message needs no answer.
    """
    if not isinstance(message, TriggerTaskCheckpoint):
        return None
    if task is not None and task.attempt == message.attempt and not task.state.is_terminal:
        return None
    return DeclineCheckpoint(
        task=message.task,
        attempt=message.attempt,
        job_id=job_id,
        checkpoint_id=message.checkpoint_id,
        reason=CheckpointFailureReason.TASK_CHECKPOINT_FAILURE,
        detail=f"the slot knows no task {message.task}@{message.attempt}",
    )
