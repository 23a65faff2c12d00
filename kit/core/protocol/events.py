"""What a host tells a machine.

Most of these answer a command: the name of each says which. An answer of the form `...Failed` carries the reason as
text, for it may come from another process. Requests of the user (`RequestSavepoint`, `RequestStop`, ...) carry a
`request_id` that `CompleteRequest` repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from kit.core.protocol.elements import Element
from kit.core.protocol.properties import LaterOutput, RecoveryClaimMode, SavepointFormatType
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.snapshots import RestoredPart
from kit.core.protocol.stored import RecoveredCheckpoint
from kit.core.protocol.words import Word
from kit.core.state.handles import StreamStateHandle
from kit.core.state.operator_state import TaskStateSnapshot

# --- to both --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Word):
    """A timer set with `ScheduleTimer` is due. A timer that was cancelled may still fire: machines ignore what they
    do not expect.
    """

    timer: str


# --- to the JobMaster -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob(Word):
    """Begin the job, from the savepoint or retained checkpoint at `restore_path` if there is one, which `claim_mode`
    says whose it is from then on.

    With `recover` the job goes on where its last driver left it, if that stored a checkpoint before it died.

    Follows Flink's `SavepointRestoreSettings`.
    """

    restore_path: str | None = None
    allow_non_restored_state: bool = False
    claim_mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM
    recover: bool = False
    later_output: LaterOutput = LaterOutput.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsEnumerated(Word):
    """Answer to `EnumerateSplits`: what the source at `operator_id` has to read, in order; each split is JSON-like."""

    operator_id: str
    splits: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResolved(Word):
    """Answer to `ResolveSnapshot`: the bytes of the `_metadata` found, and the directory that holds it."""

    path: str
    location: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsRecovered(Word):
    """Answer to `RecoverCheckpoints`: what the store holds, oldest first, the status in which the job ended under an
    earlier driver ("" when it has not), and the parallelism that the user wanted of that one (empty: the job's own).
    """

    checkpoints: tuple[RecoveredCheckpoint, ...] = ()
    status: str = ""
    parallelism: dict[str, int] = field(default_factory=dict)
    savepoint: str = ""
    """The savepoint with which it was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterOutputDiscarded(Word):
    """Answer to `DiscardLaterOutput`: the files are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansRemoved(Word):
    """Answer to `RemoveOrphans`: they are gone, except for those that `error` tells of."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipLost(Word):
    """Another driver has taken over the job; may answer any command that reads or writes the durable store, or comes by
    itself when the host notices.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed(Word):
    """Answer to `ResolveSnapshot`, `DiscardLaterOutput`, `EnumerateSplits` or `RecoverCheckpoints`.

    The job cannot begin.
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotLost(Word):
    """A worker is gone (died, or was silent too long) and all tasks of the epoch in it with it."""

    epoch: int
    slot: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsChanged(Word):
    """So many slots are there for the job now, those that it holds among them."""

    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEventLost(Word):
    """An `OperatorEventToTask` may not have arrived, though its task is there.

    On Spark that is one whose payload fits into no message. What is cut off on its way is lost with its worker
    (`SlotLost`): a worker's connection keeps order, and is over once anything on it is missing. The lab loses single
    events when it is told to.
    """

    task: str
    attempt: int
    operator_id: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded(Word):
    """Answer to `StopEpoch`: every worker of the epoch has left; nothing of it writes any more."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdAllocated(Word):
    """Answer to `AllocateCheckpointId`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointIdFailed(Word):
    """Answer to `AllocateCheckpointId`: the counter could not be reached."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationInitialized(Word):
    """Answer to `InitializeLocation`: the directory of the checkpoint."""

    checkpoint_id: int
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFailed(Word):
    """Answer to `InitializeLocation`: the directory cannot be made or written; `error` adds to the `reason`."""

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.IO_EXCEPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOperatorCoordinator(Word):
    """Answer to `ScheduleCoordinatorCheckpoint`: now is the operator coordinator's turn to snapshot itself; with
    `error` it cannot.
    """

    checkpoint_id: int
    operator_id: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHookTriggered(Word):
    """Answer to `TriggerMasterHook`: the hook's state, serialized, or None when it has none."""

    checkpoint_id: int
    hook: str
    version: int = 0
    state: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHookFailed(Word):
    """Answer to `TriggerMasterHook`, or to `RestoreMasterHooks` (then `checkpoint_id` is the one restored)."""

    checkpoint_id: int
    hook: str = ""
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHooksReset(Word):
    """Answer to `ResetMasterHooks`; `error` says which hook raised, and what."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterHooksRestored(Word):
    """Answer to `RestoreMasterHooks`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataWritten(Word):
    """Answer to `WriteMetadata`: `_metadata` is written, `size_bytes` long, at `path`."""

    checkpoint_id: int
    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFailed(Word):
    """Answer to `WriteMetadata`: nothing that could be taken for a checkpoint was left."""

    checkpoint_id: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStored(Word):
    """Answer to `StoreCheckpoint`: the completed checkpoint can be found again after the driver's death (where the
    store promises so).
    """

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStoreFailed(Word):
    """Answer to `StoreCheckpoint`; `possibly_inconsistent` when nobody knows whether it was stored."""

    checkpoint_id: int
    error: str
    possibly_inconsistent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDiscarded(Word):
    """Answer to `DiscardState`: what could be deleted is gone; `error` tells of the rest."""

    checkpoint_id: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResultStored(Word):
    """Answer to `StoreJobResult`; with `error` a later driver will not know that the job has ended."""

    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelismStored(Word):
    """Answer to `StoreParallelism`; with `error` it is not noted."""

    request_id: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCheckpoint(Word):
    """The user asks for a checkpoint now (`triggerCheckpoint`); `full` forbids building on older ones."""

    request_id: int
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSavepoint(Word):
    """The user asks for a savepoint below `target` (None: the configured directory)."""

    request_id: int
    target: str | None = None
    fmt: SavepointFormatType = SavepointFormatType.CANONICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStop(Word):
    """The user asks for stop-with-savepoint; `drain` first sends event time to its end."""

    request_id: int
    target: str | None = None
    drain: bool = False
    fmt: SavepointFormatType = SavepointFormatType.CANONICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRescale(Word):
    """The user wants other numbers of subtasks, by vertex (`updateJobResourceRequirements`), and with `at_once` a
    checkpoint to go on from now; else the next one is waited for, after the cooldown.
    """

    request_id: int
    parallelism: dict[str, int]
    at_once: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancel(Word):
    """The user ends the job without a savepoint."""


# --- to a StreamTask ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead(Word):
    """Answer to `ReadState`: the bytes behind every handle of the task's restore, operator by operator; `from_local`
    says how many files were read from a copy on the task's own machine.
    """

    parts: tuple[RestoredPart, ...]
    from_local: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReadFailed(Word):
    """Answer to `ReadState`."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementReceived(Word):
    """The channel with this number delivered its next element; it is in the input queue from now on."""

    channel: int
    element: Element

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditReceived(Word):
    """The receiver at the end of this channel can take `credits` more buffers."""

    channel: int
    credits: int

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInput(Word):
    """The task's turn: take one element, or ask the source for one batch (the mailbox's default action)."""

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead(Word):
    """Answer to `ReadSplit`: the next rows of the split and the position after them; `finished` when none are left."""

    split_id: str
    batch: pa.RecordBatch | None
    position: int
    finished: bool

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReadFailed(Word):
    """Answer to `ReadSplit`: the input could not be read, or (then not `recoverable`) does not parse. What the source
    `raised` is there when nobody foresaw it, so that its author sees where that was.
    """

    split_id: str
    error: str
    recoverable: bool = True
    raised: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWritten(Word):
    """Answer to `WriteSnapshot`: the handles of all parts of this task's snapshot.

    `sync_ms` is what the host measured of the synchronous part: the time spent in the `handle` that gave the command.
    """

    checkpoint_id: int
    state: TaskStateSnapshot
    bytes_written: int
    sync_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFailed(Word):
    """Answer to `WriteSnapshot`: what had been written was removed again; `error` adds to the `reason`."""

    checkpoint_id: int
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsCommitted(Word):
    """Answer to `CommitEffects`: the output is where its readers look."""

    operator_id: str
    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsFailed(Word):
    """Answer to `CommitEffects`."""

    operator_id: str
    checkpoint_id: int
    error: str


# --- to a slot's channel state executor -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFileWritten(Word):
    """Answer to `WriteChannelStateFile`: `handle` refers to the bytes; `offsets` as encoded."""

    checkpoint_id: int
    file_name: str
    handle: StreamStateHandle
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateFileFailed(Word):
    """Answer to `WriteChannelStateFile`: what had been written was removed again; `error` adds to the `reason`."""

    checkpoint_id: int
    file_name: str
    error: str
    reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION
