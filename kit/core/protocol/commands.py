"""What a machine asks of its host.

Each command says which duty of its host it is (`kit.core.protocol.duties`), which events may answer it, and what it
says when it fails. Commands without an answer are final. The order in a list of commands is the order in which the host
must carry them out; what a command starts may end in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from kit.core.protocol import events
from kit.core.protocol.duties import Command, Duty, Failure
from kit.core.protocol.elements import Element
from kit.core.protocol.notes import NoteKind
from kit.core.protocol.properties import CheckpointProperties, LaterOutput, RecoveryClaimMode
from kit.core.protocol.reasons import PossibleInconsistentStateError, told
from kit.core.protocol.snapshots import Effect, SnapshotPart
from kit.core.protocol.tasks import TaskRestore
from kit.core.protocol.words import Word

# --- from both ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTimer(Command):
    """Send `TimerFired(timer)` at host time `due_ms`; a timer of the same name is replaced."""

    timer: str
    due_ms: int

    duty: ClassVar = Duty.SET_TIMER
    answers: ClassVar = (events.TimerFired,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Command):
    """Forget the timer."""

    timer: str

    duty: ClassVar = Duty.CANCEL_TIMER


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Command):
    """Nothing to do: something happened inside the machine that a reader of the trace will want to know about. `data`
    is JSON-like.
    """

    kind: NoteKind
    checkpoint_id: int | None = None
    data: dict[str, Any]

    duty: ClassVar = Duty.OBSERVE


# --- from the JobMaster ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumerateSplits(Command):
    """Ask the source at `operator_id` what there is to read."""

    operator_id: str

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SplitsEnumerated, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the input cannot be listed"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveSnapshot(Command):
    """Find the `_metadata` at `path` (a directory or the file). Output published after it is an error, unless the user
    said what is to become of that.
    """

    path: str
    later_output: LaterOutput = LaterOutput.ERROR

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SnapshotResolved, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the checkpoint cannot be read"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardLaterOutput(Command):
    """Delete what the job's sinks published after the snapshot at `location`, which is checkpoint `checkpoint_id`."""

    location: str
    checkpoint_id: int

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.LaterOutputDiscarded, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverCheckpoints(Command):
    """Open the durable store: with `recover` give what an earlier driver of this job left in it, else start from
    scratch.
    """

    recover: bool
    restores: bool = False
    """Whether the job goes on from a snapshot when nothing is left: where it does not, its output starts from scratch.
    """

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointsRecovered, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphans(Command):
    """Delete what this run of the job left behind and nothing refers to: checkpoint directories, staged output and
    entries of the store, except for those of the checkpoints in `keep`; shared files, except for those named in
    `shared`.
    """

    keep: tuple[int, ...]
    shared: tuple[str, ...] = ()

    duty: ClassVar = Duty.CLEAN_UP
    answers: ClassVar = (events.OrphansRemoved,)
    fails_with: ClassVar = events.OrphansRemoved
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEpoch(Command):
    """Start the workers of this epoch with these parallelisms, by vertex; the `DeployTask` messages follow."""

    epoch: int
    parallelism: dict[str, int]
    max_parallelism: dict[str, int]

    duty: ClassVar = Duty.START_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEpoch(Command):
    """Make every worker of the epoch leave."""

    epoch: int

    duty: ClassVar = Duty.STOP_EPOCH
    answers: ClassVar = (events.EpochEnded,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCheckpointId(Command):
    """Get and increment the id counter."""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointIdAllocated, events.CheckpointIdFailed)
    fails_with: ClassVar = events.CheckpointIdFailed
    failures: ClassVar = (Failure("store", "the id counter cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheckpointIdCounter(Command):
    """After a restore: the next id is `next_id`, unless the counter is beyond it already."""

    next_id: int

    duty: ClassVar = Duty.WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeLocation(Command):
    """Make the directory of a checkpoint, or of a savepoint below `target`."""

    checkpoint_id: int
    properties: CheckpointProperties
    target: str | None = None
    initialize_base: bool = False

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.LocationInitialized, events.LocationFailed)
    fails_with: ClassVar = events.LocationFailed
    failures: ClassVar = (Failure("io", "the directory cannot be made"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCoordinatorCheckpoint(Command):
    """Give the operator coordinator its turn."""

    checkpoint_id: int
    operator_id: str

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointOperatorCoordinator,)
    fails_with: ClassVar = events.CheckpointOperatorCoordinator
    failures: ClassVar = (Failure("coordinator", "it cannot take its snapshot", RuntimeError),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMasterHook(Command):
    """Call a master hook."""

    checkpoint_id: int
    hook: str
    timestamp_ms: int

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.MasterHookTriggered, events.MasterHookFailed)
    fails_with: ClassVar = events.MasterHookFailed
    failures: ClassVar = (Failure("hook", "the hook raised", RuntimeError),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMasterHooks(Command):
    """Give each hook its state back, None to those without: (hook, version, state)."""

    checkpoint_id: int
    states: tuple[tuple[str, int, bytes | None], ...]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.MasterHooksRestored, events.MasterHookFailed)
    fails_with: ClassVar = events.MasterHookFailed
    failures: ClassVar = (Failure("hook", "the hook raised", RuntimeError),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMasterHooks(Command):
    """Tell the hooks that the job begins from nothing, for the first time or again."""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.MasterHooksReset,)
    fails_with: ClassVar = events.MasterHooksReset
    failures: ClassVar = (Failure("hook", "the hook raised", RuntimeError),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseMasterHooks(Command):
    """Tell the hooks that the job is over."""

    duty: ClassVar = Duty.WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMetadata(Command):
    """Write `_metadata` into `location`, last and atomically."""

    checkpoint_id: int
    location: str
    data: bytes

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.MetadataWritten, events.MetadataFailed)
    fails_with: ClassVar = events.MetadataFailed
    failures: ClassVar = (Failure("io", "the disk is full"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheckpoint(Command):
    """Add the completed checkpoint to the durable store; `claim_mode` when the job was restored from it."""

    checkpoint_id: int
    metadata_path: str
    claim_mode: RecoveryClaimMode | None = None

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointStored, events.CheckpointStoreFailed)
    fails_with: ClassVar = events.CheckpointStoreFailed
    failures: ClassVar = (
        Failure("store", "the store cannot be reached"),
        Failure("PossibleInconsistentState", "the connection broke", PossibleInconsistentStateError),
        Failure("PossibleInconsistentState-stored", "the connection broke", PossibleInconsistentStateError, done=True),
    )

    def failed(self, error: Exception) -> events.CheckpointStoreFailed:
        """It says whether the checkpoint may be there all the same."""
        unknown = isinstance(error, PossibleInconsistentStateError)
        return events.CheckpointStoreFailed(
            checkpoint_id=self.checkpoint_id, error=told(error), possibly_inconsistent=unknown
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveStored(Command):
    """Take the checkpoint out of the durable store; its files stay."""

    checkpoint_id: int

    duty: ClassVar = Duty.CLEAN_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreJobResult(Command):
    """Note in the durable store that the job has ended in this status, before anything is deleted for that reason: no
    later driver begins it again. `savepoint` is the one with which it was stopped, "" if it was not.
    """

    status: str
    savepoint: str = ""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.JobResultStored,)
    fails_with: ClassVar = events.JobResultStored
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParallelism(Command):
    """Note in the durable store at which parallelism the user wants the job from now on, before anything is done for
    that: a later driver goes on with it. `request_id` is the user's request; negative: what was noted is taken back.
    """

    request_id: int
    parallelism: dict[str, int]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.ParallelismStored,)
    fails_with: ClassVar = events.ParallelismStored
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardState(Command):
    """Delete these files, and the directory `location` when it is given: if nothing is left in it, or with
    `everything` that is, and what was staged for the checkpoint as well. When they are gone, so is the checkpoint's
    entry in the durable store, if it is `stored`. Never fails the job.
    """

    paths: tuple[str, ...]
    location: str | None = None
    checkpoint_id: int | None = None
    everything: bool = False
    stored: bool = False

    duty: ClassVar = Duty.CLEAN_UP
    answers: ClassVar = (events.StateDiscarded,)
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)

    def failed(self, error: Exception) -> Word | None:
        """Files without a directory are nobody's to wait for."""
        if self.location is None:
            return None
        return events.StateDiscarded(checkpoint_id=self.checkpoint_id, error=told(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest(Command):
    """Answer a user's request: `path` of the snapshot, or `error`; raises ValueError for both or neither."""

    request_id: int
    checkpoint_id: int | None = None
    path: str | None = None
    error: str = ""

    duty: ClassVar = Duty.ANSWER_USER

    def __post_init__(self) -> None:
        if (self.path is None) == (not self.error):
            found = f"path {self.path!r} and error {self.error!r}"
            raise ValueError(f"request {self.request_id}: expected a path or an error, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatusChanged(Command):
    """The job entered this status (a `kit.machines.job.status.JobStatus` by name); `error` says why it failed or
    restarts.
    """

    status: str
    error: str = ""

    duty: ClassVar = Duty.SHOW_STATUS


# --- from a StreamTask ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SendElement(Command):
    """Put the element on the wire of this channel. The machine has the credit for it; `priority` overtakes what is
    not yet written.
    """

    channel: int
    element: Element
    priority: bool = False

    duty: ClassVar = Duty.SEND_ELEMENT
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementQueued(Command):
    """Nothing to do: the element waits in its output until the receiver gives a credit. For pictures."""

    channel: int
    element: Element

    duty: ClassVar = Duty.OBSERVE
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTaken(Command):
    """Nothing to do: the task took an element of this input that nothing else tells of (buffers give a credit,
    barriers a note). For pictures.
    """

    channel: int

    duty: ClassVar = Duty.OBSERVE
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantCredit(Command):
    """Tell the sender at the other end of this input channel that `credits` more buffers fit."""

    channel: int
    credits: int

    duty: ClassVar = Duty.GRANT_CREDITS
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(Command):
    """Read everything that the restore refers to."""

    restore: TaskRestore

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.StateRead, events.StateReadFailed)
    fails_with: ClassVar = events.StateReadFailed
    failures: ClassVar = (Failure("io", "a state file cannot be read"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSplit(Command):
    """Read at most `max_rows` of a source's split from `position` on."""

    operator_id: str
    split: dict[str, object]
    position: int
    max_rows: int

    duty: ClassVar = Duty.READ_ROWS
    answers: ClassVar = (events.SplitRead, events.SplitReadFailed)
    bulk: ClassVar[bool] = True
    failures: ClassVar = (
        Failure("io", "the input cannot be read"),
        Failure("parse", "the input does not parse", ValueError),
    )

    def failed(self, error: Exception) -> events.SplitReadFailed:
        """An input that does not parse will not do so the next time."""
        return events.SplitReadFailed(
            split_id=str(self.split["id"]),
            error=told(error),
            recoverable=not isinstance(error, ValueError),
            raised=None if isinstance(error, OSError | ValueError) else error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot(Command):
    """The asynchronous part of a snapshot: write all parts below `location`, stage all effects."""

    checkpoint_id: int
    location: str
    subtask: int
    parts: tuple[SnapshotPart, ...]
    effects: tuple[Effect, ...]
    synchronous_savepoint: bool = False

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SnapshotWritten, events.SnapshotFailed)
    fails_with: ClassVar = events.SnapshotFailed
    failures: ClassVar = (
        Failure("io", "the disk is full"),
        Failure("serializer", "the state cannot be serialized", TypeError),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSnapshot(Command):
    """Stop writing this snapshot if it is still being written, and remove what was."""

    checkpoint_id: int

    duty: ClassVar = Duty.STOP_WORK

    def stops(self, work: Command) -> bool:
        """Whether this is the work, which the same machine asked for, that is not wanted any more."""
        return isinstance(work, WriteSnapshot) and work.checkpoint_id == self.checkpoint_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardSnapshot(Command):
    """Delete these state files and this staged output of a snapshot that was written and that nobody wants."""

    paths: tuple[str, ...]
    effects: tuple[Effect, ...]

    duty: ClassVar = Duty.WORK


class LocalCopies(Enum):
    """Of which checkpoints task-local copies are superfluous: of those before one, of it alone, or of all but it."""

    OLDER = "older"
    SAME = "same"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLocalState(Command):
    """Delete the copies of state that the slot `subtask` keeps on its own machine of the `copies` of a checkpoint."""

    subtask: int
    checkpoint_id: int
    copies: LocalCopies

    duty: ClassVar = Duty.WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffects(Command):
    """Publish staged output; publishing twice is publishing once."""

    operator_id: str
    checkpoint_id: int
    effects: tuple[Effect, ...]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.EffectsCommitted, events.EffectsFailed)
    fails_with: ClassVar = events.EffectsFailed
    failures: ClassVar = (
        Failure("io", "the directory of the output is gone"),
        Failure("late", "the connection broke when all was published", done=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEffects(Command):
    """Delete staged output that no checkpoint will ever publish."""

    operator_id: str
    effects: tuple[Effect, ...]

    duty: ClassVar = Duty.WORK


# --- from a slot's channel state executor ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteChannelStateFile(Command):
    """Write the in-flight data of one or several subtasks, `task` the first of them, below `location`: `encode()`
    gives the bytes, and where in them each element begins, with the end of the last one.
    """

    task: str
    checkpoint_id: int
    location: str
    file_name: str
    encode: Callable[[], tuple[Any, tuple[int, ...]]]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.ChannelStateFileWritten, events.ChannelStateFileFailed)
    fails_with: ClassVar = events.ChannelStateFileFailed
    failures: ClassVar = (Failure("io", "the disk is full"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelChannelStateFile(Command):
    """Stop writing this file if it is still being written, and remove what was."""

    checkpoint_id: int
    file_name: str

    duty: ClassVar = Duty.STOP_WORK

    def stops(self, work: Command) -> bool:
        """Whether this is the work, which the same machine asked for, that is not wanted any more."""
        return isinstance(work, WriteChannelStateFile) and work.file_name == self.file_name
