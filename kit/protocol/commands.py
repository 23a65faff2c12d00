"""What a machine asks of its host.

Each docstring names the event that answers. Commands without an answer are final. The order in a list of commands is
the order in which the host must carry them out; what a command starts may end in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from kit.protocol.elements import Element
from kit.protocol.notes import NoteKind
from kit.protocol.properties import CheckpointProperties, RecoveryClaimMode
from kit.protocol.snapshots import Effect, SnapshotPart
from kit.protocol.tasks import TaskRestore
from kit.protocol.words import Word

# --- from both ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTimer(Word):
    """Send `TimerFired(timer)` at host time `due_ms`; a timer of the same name is replaced."""

    timer: str
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Word):
    """Forget the timer."""

    timer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Word):
    """Nothing to do: something happened inside the machine that a reader of the trace will want to know. `data` is
    JSON-like.
    """

    kind: NoteKind
    checkpoint_id: int | None = None
    data: dict[str, Any]


# --- from the JobMaster ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumerateSplits(Word):
    """Ask the source at `operator_id` what there is to read. Answer: SplitsEnumerated or StartFailed."""

    operator_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveSnapshot(Word):
    """Find the `_metadata` at `path` (a directory or the file). Answer: SnapshotResolved or StartFailed."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverCheckpoints(Word):
    """Open the durable store: with `recover` give what an earlier driver of this job left in it, else begin anew.
    Answer: CheckpointsRecovered or StartFailed.
    """

    recover: bool
    restores: bool = False
    """Whether the job goes on from a snapshot when nothing is left: where it does not, its output begins anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphans(Word):
    """Delete what this run of the job left behind and nothing refers to: checkpoint directories, staged output and
    entries of the store, but for those of the checkpoints in `keep`; shared files, but for those named in `shared`.
    Answer: OrphansRemoved.
    """

    keep: tuple[int, ...]
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEpoch(Word):
    """Start the workers of this epoch with these parallelisms, by vertex; the `DeployTask` messages follow."""

    epoch: int
    parallelism: dict[str, int]
    max_parallelism: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEpoch(Word):
    """Make every worker of the epoch leave. Answer: EpochEnded."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCheckpointId(Word):
    """Get and increment the id counter. Answer: CheckpointIdAllocated or CheckpointIdFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheckpointIdCounter(Word):
    """After a restore: the next id is `next_id`, unless the counter is beyond it already."""

    next_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeLocation(Word):
    """Make the directory of a checkpoint, or of a savepoint below `target`. Answer: LocationInitialized or
    LocationFailed.
    """

    checkpoint_id: int
    properties: CheckpointProperties
    target: str | None = None
    initialize_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCoordinatorCheckpoint(Word):
    """Give the operator coordinator its turn. Answer: CheckpointOperatorCoordinator."""

    checkpoint_id: int
    operator_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMasterHook(Word):
    """Call a master hook. Answer: MasterHookTriggered or MasterHookFailed."""

    checkpoint_id: int
    hook: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMasterHooks(Word):
    """Give each hook its state back, None to those without: (hook, version, state). Answer: MasterHooksRestored or
    MasterHookFailed.
    """

    checkpoint_id: int
    states: tuple[tuple[str, int, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterHooks(Word):
    """Tell the hooks that the job begins again from nothing, or from some of its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata(Word):
    """Write `_metadata` into `location`, last and atomically. Answer: MetadataWritten or MetadataFailed."""

    checkpoint_id: int
    location: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheckpoint(Word):
    """Add the completed checkpoint to the durable store; `claim_mode` when the job was restored from it. Answer:
    CheckpointStored or CheckpointStoreFailed.
    """

    checkpoint_id: int
    metadata_path: str
    claim_mode: RecoveryClaimMode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveStored(Word):
    """Take the checkpoint out of the durable store; its files stay."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreJobResult(Word):
    """Note in the durable store that the job has ended in this status, before anything is deleted for that reason: no
    later driver begins it again. Answer: JobResultStored.
    """

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardState(Word):
    """Delete these files, and the directory `location` when it is given: if nothing is left in it, or with
    `everything` that is, and what was staged for the checkpoint as well. When they are gone, so is the checkpoint's
    entry in the durable store, if it is `stored`. Never fails the job. Answer, when there is a `location`:
    StateDiscarded.
    """

    paths: tuple[str, ...]
    location: str | None = None
    checkpoint_id: int | None = None
    everything: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest(Word):
    """Answer a user's request: `path` of the snapshot, or `error`; raises ValueError for both or neither."""

    request_id: int
    checkpoint_id: int | None = None
    path: str | None = None
    error: str = ""

    def __post_init__(self) -> None:
        if (self.path is None) == (not self.error):
            found = f"path {self.path!r} and error {self.error!r}"
            raise ValueError(f"request {self.request_id}: expected a path or an error, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusChanged(Word):
    """The job entered this status (a `kit.job.status.JobStatus` by name); `error` says why it failed or restarts."""

    status: str
    error: str = ""


# --- from a StreamTask ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SendElement(Word):
    """Put the element on the wire of this channel. The machine has the credit for it; `priority` overtakes what is
    not yet written.
    """

    channel: int
    element: Element
    priority: bool = False

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementQueued(Word):
    """Nothing to do: the element waits in its output until the receiver gives a credit. For those who draw."""

    channel: int
    element: Element

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTaken(Word):
    """Nothing to do: the task took an element of this input that nothing else tells of (buffers give a credit,
    barriers a note). For those who draw.
    """

    channel: int

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantCredit(Word):
    """Tell the sender at the other end of this input channel that `credits` more buffers fit."""

    channel: int
    credits: int

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(Word):
    """Read everything that the restore refers to. Answer: StateRead or StateReadFailed."""

    restore: TaskRestore


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSplit(Word):
    """Read at most `max_rows` of a source's split from `position` on. Answer: SplitRead or SplitReadFailed."""

    operator_id: str
    split: dict[str, object]
    position: int
    max_rows: int

    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot(Word):
    """The asynchronous part of a snapshot: write all parts below `location`, stage all effects. Answer:
    SnapshotWritten or SnapshotFailed.
    """

    checkpoint_id: int
    location: str
    subtask: int
    parts: tuple[SnapshotPart, ...]
    effects: tuple[Effect, ...]
    synchronous_savepoint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSnapshot(Word):
    """Stop writing this snapshot if it is still being written, and remove what was."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardSnapshot(Word):
    """Delete these state files and this staged output of a snapshot that was written and that nobody wants."""

    paths: tuple[str, ...]
    effects: tuple[Effect, ...]


class LocalCopies(Enum):
    """Of which checkpoints task-local copies are superfluous: of those before one, of it alone, or of all but it."""

    OLDER = "older"
    SAME = "same"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLocalState(Word):
    """Delete the copies of state that the slot `subtask` keeps on its own machine of the `copies` of a checkpoint."""

    subtask: int
    checkpoint_id: int
    copies: LocalCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffects(Word):
    """Publish staged output; publishing twice is publishing once. Answer: EffectsCommitted or EffectsFailed."""

    operator_id: str
    checkpoint_id: int
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEffects(Word):
    """Delete staged output that no checkpoint will ever publish."""

    operator_id: str
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitChannelState(Word):
    """Hand a request (a `kit.channel.channel_state_requests.ChannelStateWriteRequest`) to the executor that writes
    this task's channel state. Answer to each one that starts a checkpoint, once: ChannelStateWritten or
    ChannelStateFailed.
    """

    request: Any

    bulk: ClassVar[bool] = True

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint it is about, if any."""
        return self.request.checkpoint_id or None


# --- from a slot's channel state executor ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteChannelStateFile(Word):
    """Write the in-flight data of one or several subtasks, `task` the first of them, below `location`: `encode()`
    gives the bytes, and where in them each element begins, with the end of the last one. Answer:
    ChannelStateFileWritten or ChannelStateFileFailed.
    """

    task: str
    checkpoint_id: int
    location: str
    file_name: str
    encode: Callable[[], tuple[Any, tuple[int, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelChannelStateFile(Word):
    """Stop writing this file if it is still being written, and remove what was."""

    checkpoint_id: int
    file_name: str
