"""The events that a host sends to a machine.

Most of them answer a command, which their docstring names. An answer named `...Failed` carries the reason as text,
because it may come from another process. A user's requests (`RequestSavepoint`, `RequestStop`, ...) carry a
`request_id` that `CompleteRequest` repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from kit.core.protocol.elements import Element
from kit.core.protocol.lineage import Lineage
from kit.core.protocol.properties import LaterOutput, RecoveryClaimMode, SavepointFormatType
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.snapshots import RestoredPart
from kit.core.protocol.stored import RecoveredCheckpoint
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import StreamStateHandle
from kit.core.state.operator_state import TaskStateSnapshot

# --- to both --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(ProtocolMessage):
    """A timer set with `ScheduleTimer` is due.

    A timer may fire although it was cancelled: machines ignore timers that they do not expect.
    """

    timer: str


# --- to the JobMaster -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob(ProtocolMessage):
    """Start the job, from the savepoint or retained checkpoint at `restore_path` if it is given.

    `claim_mode` says who owns that snapshot from then on. With `recover`, the job resumes where its last driver left
    it, if that driver stored a checkpoint before it died.

    Follows Flink's `SavepointRestoreSettings`.
    """

    restore_path: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM
    recover: bool = False
    later_output: LaterOutput = LaterOutput.ERROR
    run: str = ""
    """The name of this run, which no other has; "" for the job's id. A run that is recovered has its first name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsEnumerated(ProtocolMessage):
    """Answer to `EnumerateSplits`: the splits of the source at `operator_id`, in order; each split is JSON-like."""

    operator_id: str
    splits: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsDiscovered(ProtocolMessage):
    """Answer to `DiscoverSplits`: the splits that the source at `operator_id` has now; unknown with an `error`."""

    operator_id: str
    splits: tuple[dict[str, object], ...] = ()
    error: str = ""
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResolved(ProtocolMessage):
    """Answer to `ResolveSnapshot`: the bytes of the `_metadata` found, and the directory that holds it."""

    path: str
    location: str
    metadata: bytes
    covered_output: str
    """The output that the snapshot covers, and later output that is kept (`CoveredOutput.encode`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsRecovered(ProtocolMessage):
    """Answer to `RecoverCheckpoints`: the contents of the store, oldest checkpoint first.

    With them come the status in which the job ended under an earlier driver ("" if it has not ended), and the
    parallelism that the user requested from that driver (empty: the job's own).
    """

    checkpoints: tuple[RecoveredCheckpoint, ...] = ()
    status: str = ""
    parallelism: dict[str, int] = field(default_factory=dict)
    savepoint: str = ""
    """The savepoint with which the job was stopped."""
    keep: tuple[int, ...] = ()
    """The checkpoints that stay of a job that has ended."""
    shared: tuple[str, ...] = ()
    """The shared files that they need."""
    lineage: Lineage | None = None
    """The run that the store holds, and the output that led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterOutputDiscarded(ProtocolMessage):
    """Answer to `DiscardLaterOutput`: the files are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansRemoved(ProtocolMessage):
    """Answer to `RemoveOrphans`: the orphans are deleted, except for those that `error` mentions."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipLost(ProtocolMessage):
    """Another driver has taken over the job.

    It may answer any command that reads or writes the durable store, or come unasked when the host notices.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed(ProtocolMessage):
    """Answer to `ResolveSnapshot`, `DiscardLaterOutput`, `EnumerateSplits` or `RecoverCheckpoints`.

    The job cannot start.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLost(ProtocolMessage):
    """A worker is lost (it died, or was silent for too long), and with it all its tasks of the epoch."""

    epoch: int
    slot: int
    error: str
    tasks: tuple[str, ...] = ()
    """The tasks that run in the slot, for readers of the trace; recordings of earlier versions do not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStopped(ProtocolMessage):
    """All workers have ended and no others can be started, because what runs them was stopped: the job fails."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsChanged(ProtocolMessage):
    """The number of slots that are available to the job now, including those that it holds."""

    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEventLost(ProtocolMessage):
    """An `OperatorEventToTask` may not have arrived, although its task is alive.

    On Spark this happens only if the payload is too large for a message. A connection to a worker keeps its order and
    closes as soon as anything on it is missing, so any other loss is the loss of the worker (`SlotLost`). The lab loses
    single events on request.
    """

    task: str
    attempt: int
    operator_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded(ProtocolMessage):
    """Answer to `StopEpoch`: every worker of the epoch has stopped, and nothing of the epoch writes any longer."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksStopped(ProtocolMessage):
    """Answer to `StopTasks`: these tasks have stopped, and nothing of them writes any longer.

    `slots` are the slots that have ended with them, because the host starts others for the next attempt.
    """

    epoch: int
    restart: int
    tasks: tuple[str, ...]
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtasksRedeployed(ProtocolMessage):
    """These tasks of the slot were stopped, and are deployed again; the slot's other tasks run."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdAllocated(ProtocolMessage):
    """Answer to `AllocateCheckpointId`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdFailed(ProtocolMessage):
    """Answer to `AllocateCheckpointId`: the counter could not be reached."""

    error: str
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationInitialized(ProtocolMessage):
    """Answer to `InitializeLocation`: the directory of the checkpoint."""

    checkpoint_id: int
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFailed(ProtocolMessage):
    """Answer to `InitializeLocation`: the directory cannot be made or written; `error` adds to the `reason`."""

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.IO_EXCEPTION
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOperatorCoordinator(ProtocolMessage):
    """Answer to `ScheduleCoordinatorCheckpoint`: the operator coordinator may snapshot now; with `error` it cannot."""

    checkpoint_id: int
    operator_id: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHookTriggered(ProtocolMessage):
    """Answer to `TriggerMasterHook`: the hook's state, serialized, or None when it has none."""

    checkpoint_id: int
    hook: str
    version: int = 0
    state: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHookFailed(ProtocolMessage):
    """Answer to `TriggerMasterHook`, or to `RestoreMasterHooks` (then `checkpoint_id` is the restored checkpoint)."""

    checkpoint_id: int
    hook: str = ""
    error: str
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHooksReset(ProtocolMessage):
    """Answer to `ResetMasterHooks`; `error` names the hook that raised, and its error."""

    error: str = ""
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHooksRestored(ProtocolMessage):
    """Answer to `RestoreMasterHooks`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataWritten(ProtocolMessage):
    """Answer to `WriteMetadata`: `_metadata` is written, `size_bytes` long, at `path`."""

    checkpoint_id: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFailed(ProtocolMessage):
    """Answer to `WriteMetadata`: it failed, and left nothing that could be mistaken for a checkpoint."""

    checkpoint_id: int
    error: str
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStored(ProtocolMessage):
    """Answer to `StoreCheckpoint`: the checkpoint is stored, and survives the driver if the store guarantees it."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStoreFailed(ProtocolMessage):
    """Answer to `StoreCheckpoint`; with `possibly_inconsistent`, it is unknown whether the checkpoint was stored."""

    checkpoint_id: int
    error: str
    possibly_inconsistent: bool = False
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiscarded(ProtocolMessage):
    """Answer to `DiscardState`: what could be deleted is deleted; `error` reports the rest."""

    checkpoint_id: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResultStored(ProtocolMessage):
    """Answer to `StoreJobResult`; with `error`, a later driver will not know that the job has ended."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelismStored(ProtocolMessage):
    """Answer to `StoreParallelism`; with `error`, the parallelism was not recorded."""

    request_id: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCheckpoint(ProtocolMessage):
    """The user requests a checkpoint now (`triggerCheckpoint`); `full` forbids building on older ones."""

    request_id: int
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSavepoint(ProtocolMessage):
    """The user requests a savepoint below `target` (None: the configured directory)."""

    request_id: int
    target: str | None = None
    fmt: SavepointFormatType = SavepointFormatType.CANONICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStop(ProtocolMessage):
    """The user requests stop-with-savepoint; `drain` first advances event time to its end."""

    request_id: int
    target: str | None = None
    drain: bool = False
    fmt: SavepointFormatType = SavepointFormatType.CANONICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRescale(ProtocolMessage):
    """The user requests other parallelisms, by vertex (`updateJobResourceRequirements`).

    With `at_once`, a checkpoint is triggered now and the job rescales from it. Otherwise the job waits for the next
    checkpoint after the cooldown.
    """

    request_id: int
    parallelism: dict[str, int]
    at_once: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancel(ProtocolMessage):
    """The user cancels the job without a savepoint."""


# --- to a StreamTask ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead(ProtocolMessage):
    """Answer to `ReadState`: the bytes behind every handle of the task's restore, operator by operator.

    `from_local` is the number of files that were read from a copy on the task's own machine.
    """

    parts: tuple[RestoredPart, ...]
    from_local: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReadFailed(ProtocolMessage):
    """Answer to `ReadState`; it is not `recoverable` if state is missing or damaged, so that a retry fails as well."""

    error: str
    recoverable: bool = True
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementReceived(ProtocolMessage):
    """The next element of the channel with this number arrived; from now on it is in the input queue."""

    channel: int
    element: Element

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditReceived(ProtocolMessage):
    """The receiver at the end of this channel has room for `credits` more buffers, of at most `max_rows` if given."""

    channel: int
    credits: int
    max_rows: int | None = None

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInput(ProtocolMessage):
    """The task's turn: it takes one element, or asks the source for one batch (the mailbox's default action).

    `max_rows` is the number of rows that the host lets it take, because rows cost time that only the host can measure.
    A longer buffer stays first in its channel with the rows that are left. None: there is no limit.
    """

    max_rows: int | None = None

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead(ProtocolMessage):
    """Answer to `ReadSplit`: the next rows of the split and the position after them; `finished` if none are left."""

    split_id: str
    batch: pa.RecordBatch | None
    position: int
    finished: bool

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAvailable(ProtocolMessage):
    """Answer to `AwaitRows`: these splits may have rows now. Reading one that has none after all does no harm."""

    operator_id: str
    split_ids: tuple[str, ...]

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReadFailed(ProtocolMessage):
    """Answer to `ReadSplit`: the input could not be read, or does not parse (then it is not `recoverable`).

    `raised` is the exception itself if it was unexpected, so the author of the source sees its traceback.
    """

    split_id: str
    error: str
    recoverable: bool = True
    raised: Exception | None = None
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(ProtocolMessage):
    """Answer to `WriteSnapshot`: the handles of all parts of this task's snapshot.

    `sync_ms` is the duration of the synchronous part as the host measured it: the time spent in the `handle` call that
    gave the command.
    """

    checkpoint_id: int
    state: TaskStateSnapshot
    bytes_written: int
    sync_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFailed(ProtocolMessage):
    """Answer to `WriteSnapshot`: it failed, and what was written has been deleted; `error` adds to the `reason`."""

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsCommitted(ProtocolMessage):
    """Answer to `CommitEffects`: the output is published."""

    operator_id: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsFailed(ProtocolMessage):
    """Answer to `CommitEffects`."""

    operator_id: str
    checkpoint_id: int
    error: str
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsNotWritten(ProtocolMessage):
    """Answer to `WriteRows`: rows of an operator's output are lost unless the task is restored."""

    operator_id: str
    error: str
    may_pass: bool = False
    """True for an outage, which may be over the next time."""


# --- to a slot's channel state executor -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFileWritten(ProtocolMessage):
    """Answer to `WriteChannelStateFile`: `handle` refers to the bytes; `offsets` are those of the encoding."""

    checkpoint_id: int
    file_name: str
    handle: StreamStateHandle
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFileFailed(ProtocolMessage):
    """Answer to `WriteChannelStateFile`: it failed, and what was written is deleted; `error` adds to the `reason`."""

    checkpoint_id: int
    file_name: str
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
    may_pass: bool = False
    """True for an outage, which may be over the next time."""
