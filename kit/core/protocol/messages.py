"""What the machines say to each other.

A message is emitted by one machine as a command and handled by the other as an event. In the lab it waits in a mailbox
until a step delivers it; on Spark it crosses the control socket. Messages to a task name the task and its attempt;
messages from a task name their sender the same way, so that whatever an earlier attempt still says can be told apart.
What a task and the channel state machine of its slot say to each other never leaves the slot.

A task is named `<vertex>/<subtask>`, for instance `totals/1`; the attempt is the epoch in which it was deployed,
counted from 1.

Follows Flink's `TaskExecutorGateway`, `CheckpointResponder` and `OperatorEventGateway`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.elements import DataElement
from kit.core.protocol.events import OperatorEventLost
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.state.handles import InputChannelStateHandle, ResultSubpartitionInfo, ResultSubpartitionStateHandle
from kit.core.state.operator_state import TaskStateSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(Command):
    """From the JobMaster to one attempt of a task.

    The host delivers it; Flink sends it through a `TaskManagerGateway`.
    """

    task: str
    attempt: int

    duty: ClassVar = Duty.TELL_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage(Command):
    """From one attempt of a task to the JobMaster.

    The host delivers it; Flink's `RpcCheckpointResponder` sends what a task reports on a checkpoint.
    """

    task: str
    attempt: int

    duty: ClassVar = Duty.TELL_JOB


# --- from a task ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationMetrics:
    """What one subtask measured of its beginning; -1 is "not known" (Flink's `SubTaskInitializationMetrics`).

    `duration_ms` is from the deployment until the task ran, or until it did not come to that (then not `completed`):
    first the host read `restored_bytes` of state, then what was in flight at the checkpoint was processed.
    """

    deployed_at_ms: int
    duration_ms: int
    read_state_ms: int = -1
    gate_restore_ms: int = -1
    restored_bytes: int = 0
    completed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateChanged(JobMessage):
    """The task entered `state`; `error` tells why when it failed (`updateTaskExecutionState`). With `end_of_data` it
    goes on RUNNING, but has processed all its input (`notifyEndOfData`). The first report after the deployment brings
    its measurements (`reportInitializationMetrics`).
    """

    state: ExecutionState
    end_of_data: bool = False
    error: str = ""
    traceback: str = ""
    recoverable: bool = True
    """False for a failure that any restart would meet again (Flink's `SuppressRestartsException`)."""
    initialization: InitializationMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class CheckpointMetrics:
    """What one subtask measured of one checkpoint; -1 is "not known" (Flink's `CheckpointMetrics`)."""

    start_delay_ms: int = -1
    alignment_ms: int = -1
    sync_ms: int = -1
    async_ms: int = -1
    bytes_processed_during_alignment: int = -1
    bytes_persisted_during_alignment: int = -1
    unaligned: bool = False
    bytes_persisted: int = 0
    total_bytes_persisted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeCheckpoint(JobMessage):
    """The task's part of the checkpoint is written; `state` is None when it has none (`acknowledgeCheckpoint`)."""

    job_id: str
    checkpoint_id: int
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)
    state: TaskStateSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineCheckpoint(JobMessage):
    """The task cannot give its part (`declineCheckpoint`)."""

    job_id: str
    checkpoint_id: int
    reason: CheckpointFailureReason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCheckpointMetrics(JobMessage):
    """Measurements of a checkpoint that the task knows to be aborted (`reportCheckpointMetrics`)."""

    job_id: str
    checkpoint_id: int
    metrics: CheckpointMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEventToCoordinator(JobMessage):
    """An operator speaks to its coordinator (`sendOperatorEventToCoordinator`); `payload` is JSON-like."""

    operator_id: str
    payload: dict[str, object]


# --- to a task ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployTask(TaskMessage):
    """Begin: read the state in `restore` (None: begin empty), then run (`submitTask`).

    `recovers_channels`: some task of this epoch recovers in-flight data. Every task then ends what it recovers of each
    output with `EndOfChannelState`, and lets no live data in before all inputs have come to that.

    Flink: `Execution.setInitialState` takes the state that is to be deployed. `recovers_channels` stands in for the
    `notifyAndBlockOnCompletion` of `SequentialChannelStateReader.readOutputData` (since 1.13), which each task has set
    unless its graph has loops.
    """

    restore: TaskRestore | None
    recovers_channels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerTaskCheckpoint(TaskMessage):
    """Take a checkpoint now and send the barrier on; said to sources (`triggerCheckpoint`).

    The slot answers in the place of a task that it does not know (`kit.machines.task.unknown_task`).

    Flink: `Execution.triggerCheckpointHelper` sends it, to the task's `LogicalSlot`; `TaskExecutor.triggerCheckpoint`
    takes it.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions

    answers: ClassVar = (DeclineCheckpoint,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointComplete(TaskMessage):
    """The checkpoint is stored for good; `last_subsumed_id` is -1 when it replaced none (`confirmCheckpoint`)."""

    checkpoint_id: int
    timestamp_ms: int
    last_subsumed_id: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointAborted(TaskMessage):
    """The checkpoint will not complete; `latest_completed_id` is 0 when none has (`abortCheckpoint`)."""

    checkpoint_id: int
    timestamp_ms: int
    latest_completed_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEventToTask(TaskMessage):
    """An operator coordinator speaks to its operator (`sendOperatorEventToTask`); `payload` is JSON-like.

    The host answers when it may not have arrived.
    """

    operator_id: str
    payload: dict[str, object]

    answers: ClassVar = (OperatorEventLost,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask(TaskMessage):
    """Leave at once (`cancelTask`)."""


# --- within a slot --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMessage(Command):
    """Between a task and the channel state machine of its slot, which are in one process and share the epoch."""

    task: str

    duty: ClassVar = Duty.HAND_OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateWritten(SlotMessage):
    """All in-flight data of the checkpoint of `task` is stored; none where there was none. `bytes_written` are this
    task's, whoever shares the file.
    """

    checkpoint_id: int
    input_handles: tuple[InputChannelStateHandle, ...] = ()
    output_handles: tuple[ResultSubpartitionStateHandle, ...] = ()
    bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFailed(SlotMessage):
    """The in-flight data of this checkpoint of `task` is not stored, nothing of it is left.

    `executor_ended`: neither will that of any other checkpoint be.
    """

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    executor_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitChannelState(SlotMessage):
    """`task` hands over a request (a
    `kit.machines.channel.channel_state.channel_state_requests.ChannelStateWriteRequest`), which from then on is a
    value. Each one that starts a checkpoint is answered once.
    """

    request: Any

    answers: ClassVar = (ChannelStateWritten, ChannelStateFailed)
    bulk: ClassVar[bool] = True

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint it is about, if any."""
        return self.request.checkpoint_id or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDataDecided(SlotMessage):
    """What `task` had in flight on an output, and had handed over as not yet decided, is known now: `buffers`, or an
    `error` why it never will be.
    """

    checkpoint_id: int
    info: ResultSubpartitionInfo
    buffers: tuple[DataElement, ...] = ()
    error: Exception | None = None

    bulk: ClassVar[bool] = True
