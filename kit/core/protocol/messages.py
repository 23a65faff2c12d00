"""The messages between the machines.

One machine emits a message as a command, and another handles it as an event. In the lab it waits in a mailbox until a
step delivers it; on Spark it crosses the control socket. Messages to and from a task name the task and its attempt, so
late messages of an earlier attempt can be recognised. Messages between a task and the channel state machine of its slot
never leave the slot.

A task is named `<vertex>/<subtask>`, for instance `totals/1`; attempts are counted from 1
(`kit.core.protocol.attempts`).

Follows Flink's `TaskExecutorGateway`, `CheckpointResponder` and `OperatorEventGateway`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from kit.core.protocol.duties import Command, Duty
from kit.core.protocol.elements import DataElement
from kit.core.protocol.events import OperatorEventLost
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.options import CheckpointOptions
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState, TaskRestore
from kit.core.state.handles import InputChannelStateHandle, ResultSubpartitionInfo, ResultSubpartitionStateHandle
from kit.core.state.operator_state import TaskStateSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage(Command):
    """A message from the JobMaster to one attempt of a task.

    The host delivers it; Flink sends it through a `TaskManagerGateway`.
    """

    task: str
    attempt: int

    duty: ClassVar = Duty.TELL_TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage(Command):
    """A message from one attempt of a task to the JobMaster.

    The host delivers it; in Flink the `RpcCheckpointResponder` sends a task's reports about a checkpoint.
    """

    task: str
    attempt: int

    duty: ClassVar = Duty.TELL_JOB


# --- from a task ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializationMetrics:
    """One subtask's measurements of its initialization; -1 is "not known" (Flink's `SubTaskInitializationMetrics`).

    `duration_ms` lasts from the deployment until the task ran, or until its initialization failed (then it is not
    `completed`). In that time the host reads `restored_bytes` of state, and the task processes what was in flight at
    the checkpoint.
    """

    deployed_at_ms: int
    duration_ms: int
    read_state_ms: int = -1
    gate_restore_ms: int = -1
    restored_bytes: int = 0
    completed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStateChanged(JobMessage):
    """The task entered `state`; `error` says why if it failed (`updateTaskExecutionState`).

    With `end_of_data` it stays RUNNING, but has processed all its input (`notifyEndOfData`). The first report after the
    deployment carries its measurements (`reportInitializationMetrics`).
    """

    state: ExecutionState
    end_of_data: bool = False
    error: str = ""
    traceback: str = ""
    recoverable: bool = True
    """False for a failure that would occur again after any restart (Flink's `SuppressRestartsException`)."""
    may_pass: bool = False
    """True for a failure by an outage, which may be over the next time."""
    initialization: InitializationMetrics | None = None


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class CheckpointMetrics:
    """One subtask's measurements of one checkpoint; -1 is "not known" (Flink's `CheckpointMetrics`)."""

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
    """The task's snapshot is written; `state` is None if it has none (`acknowledgeCheckpoint`)."""

    job_id: str
    checkpoint_id: int
    metrics: CheckpointMetrics = field(default_factory=CheckpointMetrics)
    state: TaskStateSnapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineCheckpoint(JobMessage):
    """The task cannot take its snapshot (`declineCheckpoint`)."""

    job_id: str
    checkpoint_id: int
    reason: CheckpointFailureReason
    detail: str = ""
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCheckpointMetrics(JobMessage):
    """Measurements of a checkpoint that the task knows was aborted (`reportCheckpointMetrics`)."""

    job_id: str
    checkpoint_id: int
    metrics: CheckpointMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEventToCoordinator(JobMessage):
    """An operator's event to its coordinator (`sendOperatorEventToCoordinator`); `payload` is JSON-like."""

    operator_id: str
    payload: dict[str, object]


# --- to a task ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployTask(TaskMessage):
    """Start: read the state in `restore` (None: start empty), then run (`submitTask`).

    With `recovers_channels`, some task of this epoch recovers in-flight data. Every task then ends the recovered data
    of each output with `EndOfChannelState`, and processes no live data before that marker has arrived on all inputs.

    Flink: `Execution.setInitialState` takes the state that is to be deployed. `recovers_channels` replaces the
    `notifyAndBlockOnCompletion` of `SequentialChannelStateReader.readOutputData` (since 1.13), which each task has set
    unless its graph has loops.
    """

    restore: TaskRestore | None
    recovers_channels: bool = False
    lineage: Lineage | None = None
    """The run, and the output that led to it; None for the first run of the job, named after the job's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerTaskCheckpoint(TaskMessage):
    """Take a checkpoint now and emit the barrier; sent to sources (`triggerCheckpoint`).

    For a task that the slot does not know, the slot itself answers (`kit.machines.task.unknown_task`).

    Flink: `Execution.triggerCheckpointHelper` sends it, to the task's `LogicalSlot`; `TaskExecutor.triggerCheckpoint`
    takes it.
    """

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions

    answers: ClassVar = (DeclineCheckpoint,)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCheckpointComplete(TaskMessage):
    """The checkpoint is stored; `last_subsumed_id` is -1 if it replaced none (`confirmCheckpoint`)."""

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
    """An operator coordinator's event to its operator (`sendOperatorEventToTask`); `payload` is JSON-like.

    The host answers if the event may not have arrived.
    """

    operator_id: str
    payload: dict[str, object]

    answers: ClassVar = (OperatorEventLost,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTask(TaskMessage):
    """Stop at once (`cancelTask`)."""


# --- within a slot --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMessage(Command):
    """A message between a task and the channel state machine of its slot, which share a process and an epoch."""

    task: str

    duty: ClassVar = Duty.HAND_OVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateWritten(SlotMessage):
    """All in-flight data of `task` for the checkpoint is stored, or there was none.

    `bytes_written` counts this task's bytes only, although several tasks may share the file.
    """

    checkpoint_id: int
    input_handles: tuple[InputChannelStateHandle, ...] = ()
    output_handles: tuple[ResultSubpartitionStateHandle, ...] = ()
    bytes_written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFailed(SlotMessage):
    """The in-flight data of `task` for this checkpoint could not be stored, and nothing of it is left.

    With `executor_ended`, no later checkpoint's data will be stored either.
    """

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    executor_ended: bool = False
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitChannelState(SlotMessage):
    """`task` submits a request (a
    `kit.machines.channel.channel_state.channel_state_requests.ChannelStateWriteRequest`).

    A submitted request is immutable. Each one that starts a checkpoint is answered once.
    """

    request: Any

    answers: ClassVar = (ChannelStateWritten, ChannelStateFailed)
    bulk: ClassVar[bool] = True

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint that the request is about, if any."""
        return self.request.checkpoint_id or None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDataDecided(SlotMessage):
    """The in-flight data of an output that `task` submitted before it was known is known now.

    It is `buffers`, or the `error` that says why it never will be.
    """

    checkpoint_id: int
    info: ResultSubpartitionInfo
    buffers: tuple[DataElement, ...] = ()
    error: Exception | None = None

    bulk: ClassVar[bool] = True
