"""The reasons why a checkpoint did not complete: Flink's `CheckpointFailureReason`, as a table.

Each reason carries Flink's message and whether it is *pre-flight*: it arose before anything was sent to the job's
tasks. The failure manager decides which reasons count towards the tolerable number of failures; see
`kit.machines.coordinator`.
"""

from __future__ import annotations

from enum import Enum


class CheckpointFailureReason(Enum):
    """A reason by name: `.message` is Flink's text, `.pre_flight` is True if no task has been reached yet."""

    PERIODIC_SCHEDULER_SHUTDOWN = (True, "Periodic checkpoint scheduler is shut down.")
    TOO_MANY_CHECKPOINT_REQUESTS = (True, "The maximum number of queued checkpoint requests exceeded")
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = (
        True,
        "The minimum time between checkpoints is still pending. Checkpoint will be triggered after the minimum time.",
    )
    NOT_ALL_REQUIRED_TASKS_RUNNING = (True, "Not all required tasks are currently running.")
    IO_EXCEPTION = (True, "An Exception occurred while triggering the checkpoint. IO-problem detected.")
    BLOCKING_OUTPUT_EXIST = (True, "Blocking output edge exists in running tasks.")
    CHECKPOINT_ASYNC_EXCEPTION = (False, "Asynchronous task checkpoint failed.")
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = (
        False,
        "The checkpoint was aborted due to exception of other subtasks sharing the ChannelState file.",
    )
    CHECKPOINT_EXPIRED = (False, "Checkpoint expired before completing.")
    """The checkpoint took longer than its timeout. Flink: `CHECKPOINT_EXPIRED`."""
    CHECKPOINT_SUBSUMED = (False, "Checkpoint has been subsumed.")
    """A later checkpoint completed first. Flink: `CHECKPOINT_SUBSUMED`."""
    CHECKPOINT_DECLINED = (False, "Checkpoint was declined.")
    """A task declined without a more specific reason. Flink: `CHECKPOINT_DECLINED`.

    Flink 1.11 also has `JOB_FAILURE`, for a decline that is caused by an error other than a `CheckpointException`, and
    does not count it. In 2.x, as here, a decline always has a reason of its own.
    """
    CHECKPOINT_DECLINED_TASK_NOT_READY = (False, "Checkpoint was declined (tasks not ready)")
    CHECKPOINT_DECLINED_TASK_CLOSING = (False, "Checkpoint was declined (task is closing)")
    """An operator is closed already. Flink: `CHECKPOINT_DECLINED_TASK_CLOSING`."""
    CHECKPOINT_DECLINED_SUBSUMED = (
        False,
        "Checkpoint was canceled because a barrier from newer checkpoint was received.",
    )
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = (False, "Task received cancellation from one of its inputs")
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = (
        False,
        "Checkpoint was declined because one input stream is finished",
    )
    CHECKPOINT_COORDINATOR_SHUTDOWN = (False, "CheckpointCoordinator shutdown.")
    CHECKPOINT_COORDINATOR_SUSPEND = (False, "Checkpoint Coordinator is suspending.")
    JOB_FAILOVER_REGION = (False, "FailoverRegion is restarting.")
    """The job is redeployed, which ends the checkpoints of its earlier tasks. Flink: `JOB_FAILOVER_REGION`."""
    TASK_FAILURE = (False, "Task has failed.")
    TASK_CHECKPOINT_FAILURE = (False, "Task local checkpoint failure.")
    """The worker does not run the task that it was to trigger. Flink: `TASK_CHECKPOINT_FAILURE`."""
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = (False, "Unknown task for the checkpoint to notify.")
    FINALIZE_CHECKPOINT_FAILURE = (False, "Failure to finalize checkpoint.")
    """`_metadata` could not be written, or the checkpoint not stored. Flink: `FINALIZE_CHECKPOINT_FAILURE`."""
    TRIGGER_CHECKPOINT_FAILURE = (False, "Trigger checkpoint failure.")

    def __init__(self, pre_flight: bool, message: str) -> None:
        self.pre_flight = pre_flight
        self.message = message

    def __repr__(self) -> str:
        return self.name


class CheckpointException(Exception):
    """A checkpoint failed for `reason`; `detail` adds names (Flink's `CheckpointException`).

    `may_pass` is True for an outage, which may be over the next time.
    """

    def __init__(self, reason: CheckpointFailureReason, detail: str = "", may_pass: bool = False) -> None:
        super().__init__(f"{reason.message} {detail}".strip())
        self.reason = reason
        self.detail = detail
        self.may_pass = may_pass

    def __reduce__(self) -> tuple[type[CheckpointException], tuple[CheckpointFailureReason, str, bool]]:
        """Copy from the reason and the detail, not from the text."""
        return type(self), (self.reason, self.detail, self.may_pass)


class PossibleInconsistentStateError(OSError):
    """A change to the durable store may or may not have been made (Flink's `PossibleInconsistentStateException`)."""


def error_text(error: Exception) -> str:
    """Return an error as text.

    OSError and ValueError come from outside and their messages explain themselves; others are preceded by their type's
    name.
    """
    speaks = isinstance(error, OSError | ValueError) and str(error)
    return str(error) if speaks else f"{type(error).__name__}: {error}"


def reason_of(error: Exception, otherwise: CheckpointFailureReason) -> tuple[CheckpointFailureReason, str]:
    """Return the reason why a checkpoint fails with `error`, and the detail to add.

    The reason is `otherwise` for an error that is not a `CheckpointException`. Flink:
    `CheckpointCoordinator.getCheckpointException`.
    """
    if isinstance(error, CheckpointException):
        return error.reason, error.detail
    return otherwise, error_text(error)
