"""What a slot answers for a task that it does not know.

A trigger may arrive when its task has left already, and what the task said of its end is still on its way to the
JobMaster. Then the slot declines in its place, so that the checkpoint is given up at once instead of when it expires.
Anything else that is said to such a task needs no answer.

Follows Flink's `TaskExecutor.triggerCheckpoint`. In 1.11 nobody looks at that answer, and the checkpoint expires.
"""

from __future__ import annotations

from kit.core.protocol.messages import DeclineCheckpoint, JobMessage, TaskMessage, TriggerTaskCheckpoint
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.task.stream_task import StreamTask


def answer_for_unknown_task(message: TaskMessage, task: StreamTask | None, job_id: str) -> JobMessage | None:
    """What a slot says to the JobMaster instead of handing `message` to `task`, the one it has by this name.

    None where the task can answer itself, and where nobody expects an answer.
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
