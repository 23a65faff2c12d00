"""The commands that a machine gives its host.

Each command declares the duty it asks of the host (`kit.core.protocol.duties`), the events that may answer it, and the
ways in which it may fail. Commands without an answer are final. The host carries out commands in the order of the list;
the work that they start may end in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import pyarrow as pa

from kit.core.protocol import events
from kit.core.protocol.duties import Command, Duty, Failure
from kit.core.protocol.elements import Element
from kit.core.protocol.lineage import CoveredOutput
from kit.core.protocol.outages import may_pass
from kit.core.protocol.properties import CheckpointProperties, LaterOutput, RecoveryClaimMode
from kit.core.protocol.reasons import PossibleInconsistentStateError, error_text
from kit.core.protocol.snapshots import Effect, SnapshotPart
from kit.core.protocol.tasks import TaskRestore
from kit.core.protocol.words import ProtocolMessage
from kit.core.state.handles import KeyGroupRange

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


# --- from the JobMaster ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumerateSplits(Command):
    """Ask the source at `operator_id` for its splits."""

    operator_id: str

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SplitsEnumerated, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the input cannot be listed"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverSplits(Command):
    """Ask the source at `operator_id` which splits it has now, while the job runs."""

    operator_id: str

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SplitsDiscovered,)
    fails_with: ClassVar = events.SplitsDiscovered
    failures: ClassVar = (Failure("io", "the input cannot be listed"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveSnapshot(Command):
    """Find the `_metadata` at `path` (the file, or its directory).

    Output published after the snapshot is an error, unless the user has decided what to do with it (`LaterOutput`).
    """

    path: str
    later_output: LaterOutput = LaterOutput.ERROR

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SnapshotResolved, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the checkpoint cannot be read"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardLaterOutput(Command):
    """Delete what runs of the lineage published that the snapshot at `location`, which covers `covered`, does not."""

    location: str
    covered: CoveredOutput

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.LaterOutputDiscarded, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverCheckpoints(Command):
    """Open the durable store.

    With `recover`, return what an earlier driver of this job left in it; otherwise start from scratch.
    """

    recover: bool
    restores: bool = False
    """True if the job resumes from a snapshot when the store is empty. If False, its output starts from scratch then.
    """
    run: str = ""
    """The name of the run, unless the store has one to recover."""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointsRecovered, events.StartFailed)
    fails_with: ClassVar = events.StartFailed
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphans(Command):
    """Delete what this run of the job left behind and nothing refers to any longer.

    This covers checkpoint directories, staged output and store entries, except those of the checkpoints in `keep`, and
    shared files, except those named in `shared`.
    """

    keep: tuple[int, ...]
    shared: tuple[str, ...] = ()

    duty: ClassVar = Duty.CLEAN_UP
    answers: ClassVar = (events.OrphansRemoved,)
    fails_with: ClassVar = events.OrphansRemoved
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEpoch(Command):
    """Start the workers of this epoch with these parallelisms, by vertex; the `DeployTask` messages follow.

    `attempts` are those of the tasks and slots that were restarted between two epochs, by name. The attempt of all
    others is the epoch (`kit.core.protocol.attempts`).
    """

    epoch: int
    parallelism: dict[str, int]
    max_parallelism: dict[str, int]
    attempts: dict[str, int] = field(default_factory=dict)

    duty: ClassVar = Duty.START_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEpoch(Command):
    """Stop every worker of the epoch."""

    epoch: int

    duty: ClassVar = Duty.STOP_EPOCH
    answers: ClassVar = (events.EpochEnded,)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTasks(Command):
    """Stop the tasks of one or more regions, which are going to restart, while the other tasks of the epoch run.

    The host cancels the tasks that still run (`CancelTask`), so that they release their part of shared files. Flink:
    `DefaultScheduler.cancelTasksAsync`.
    """

    epoch: int
    restart: int
    """The number of the restart, which the answer names."""
    tasks: tuple[str, ...]

    duty: ClassVar = Duty.STOP_TASKS
    answers: ClassVar = (events.TasksStopped,)

    def stopped(self, slots: tuple[int, ...] = ()) -> events.TasksStopped:
        """Return the answer, once the tasks have stopped, and with them these slots."""
        return events.TasksStopped(epoch=self.epoch, restart=self.restart, tasks=self.tasks, slots=slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTasks(Command):
    """Start the tasks of restarted regions beside those that run; the `DeployTask` messages follow.

    `attempts` are the attempts of these tasks, by name, and of the slots that were lost with some of them. A slot that
    was not lost keeps its machine, which is notified of its new tasks (`SubtasksRedeployed`).
    """

    epoch: int
    attempts: dict[str, int]

    duty: ClassVar = Duty.START_TASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateCheckpointId(Command):
    """Get and increment the id counter."""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.CheckpointIdAllocated, events.CheckpointIdFailed)
    fails_with: ClassVar = events.CheckpointIdFailed
    failures: ClassVar = (Failure("store", "the id counter cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCheckpointIdCounter(Command):
    """Set the next id to `next_id` after a restore, unless the counter is already beyond it."""

    next_id: int

    duty: ClassVar = Duty.WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeLocation(Command):
    """Create the directory of a checkpoint, or of a savepoint below `target`."""

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
    """Give the operator coordinator its turn to snapshot its state."""

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
    """Notify the hooks that the job starts with no state, for the first time or again."""

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.MasterHooksReset,)
    fails_with: ClassVar = events.MasterHooksReset
    failures: ClassVar = (Failure("hook", "the hook raised", RuntimeError),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseMasterHooks(Command):
    """Notify the hooks that the job is over."""

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
    """Add the completed checkpoint to the durable store; `claim_mode` is set if the job was restored from it."""

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
        """Say also whether the checkpoint may have been stored nevertheless."""
        unknown = isinstance(error, PossibleInconsistentStateError)
        return events.CheckpointStoreFailed(
            checkpoint_id=self.checkpoint_id,
            error=error_text(error),
            possibly_inconsistent=unknown,
            may_pass=may_pass(error),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveStored(Command):
    """Take the checkpoint out of the durable store; its files stay."""

    checkpoint_id: int

    duty: ClassVar = Duty.CLEAN_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreJobResult(Command):
    """Record in the durable store that the job ended with this status, so that no later driver starts it again.

    This happens before anything is deleted because the job ended. `savepoint` is the one that the job was stopped with,
    "" if it was not. The checkpoints `keep` stay, with their `shared` files.
    """

    status: str
    savepoint: str = ""
    keep: tuple[int, ...] = ()
    shared: tuple[str, ...] = ()

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.JobResultStored,)
    fails_with: ClassVar = events.JobResultStored
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParallelism(Command):
    """Record in the durable store the parallelism that the user requested, before the job acts on it.

    A later driver then uses it. `request_id` is the user's request; a negative one withdraws what was recorded.
    """

    request_id: int
    parallelism: dict[str, int]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.ParallelismStored,)
    fails_with: ClassVar = events.ParallelismStored
    failures: ClassVar = (Failure("store", "the store cannot be reached"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardState(Command):
    """Delete these files, and the directory `location` if it is given.

    The directory is deleted if it is empty. With `everything`, its whole content and the output staged for the
    checkpoint are deleted as well. If the checkpoint is `stored`, its entry in the durable store is deleted last. This
    command never fails the job.
    """

    paths: tuple[str, ...]
    location: str | None = None
    checkpoint_id: int | None = None
    everything: bool = False
    stored: bool = False

    duty: ClassVar = Duty.CLEAN_UP
    answers: ClassVar = (events.StateDiscarded,)
    failures: ClassVar = (Failure("io", "the files cannot be deleted"),)

    def failed(self, error: Exception) -> ProtocolMessage | None:
        """Return no answer for files without a directory: nothing waits for them."""
        if self.location is None:
            return None
        return events.StateDiscarded(checkpoint_id=self.checkpoint_id, error=error_text(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteRequest(Command):
    """Answer a user's request with the `path` of the snapshot or with `error`; both or neither raise ValueError.

    Flink completes the `onCompletionPromise` of the request.
    """

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
    """Send the element on this channel.

    The machine holds the credit for it; with `priority` it overtakes elements that have not been written yet.
    """

    channel: int
    element: Element
    priority: bool = False

    duty: ClassVar = Duty.SEND_ELEMENT
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementQueued(Command):
    """A note that the element waits in its output for a credit; the host does nothing. For pictures."""

    channel: int
    element: Element

    duty: ClassVar = Duty.OBSERVE
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementTaken(Command):
    """A note that the task took an element from this input; the host does nothing. For pictures.

    It is given only for elements that leave no other record: buffers return a credit, and barriers leave a note.
    """

    channel: int

    duty: ClassVar = Duty.OBSERVE
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantCredit(Command):
    """Tell the sender at the other end of this input channel that `credits` more buffers fit.

    `max_rows` is the number of rows that the receiver takes in a turn: longer buffers would make barriers wait in its
    queue. None: there is no limit. Flink's `BufferDebloater` announces a size in bytes (`announceBufferSize`).
    """

    channel: int
    credits: int
    max_rows: int | None = None

    duty: ClassVar = Duty.GRANT_CREDITS
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(Command):
    """Read all state that the restore refers to.

    Of incremental keyed state, whose handles are never cut, `key_group_range` is to be read; it is None without such
    state.
    """

    restore: TaskRestore
    key_group_range: KeyGroupRange | None = None

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
        """Mark an input that does not parse as not recoverable: a retry would fail in the same way."""
        return events.SplitReadFailed(
            split_id=str(self.split["id"]),
            error=error_text(error),
            recoverable=not isinstance(error, ValueError),
            raised=None if isinstance(error, OSError | ValueError) else error,
            may_pass=may_pass(error),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitRows(Command):
    """Say when one of these splits of a source has rows behind its position: the host asks the source every
    `every_ms`. Nothing is awaited any longer when there are no splits.
    """

    operator_id: str
    splits: tuple[tuple[dict[str, object], int], ...]
    every_ms: int

    duty: ClassVar = Duty.AWAIT_ROWS
    answers: ClassVar = (events.RowsAvailable,)
    bulk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshot(Command):
    """Run the asynchronous part of a snapshot: write all parts below `location` and stage all effects."""

    checkpoint_id: int
    location: str
    subtask: int
    parts: tuple[SnapshotPart, ...]
    effects: tuple[Effect, ...]

    duty: ClassVar = Duty.WORK
    answers: ClassVar = (events.SnapshotWritten, events.SnapshotFailed)
    fails_with: ClassVar = events.SnapshotFailed
    failures: ClassVar = (
        Failure("io", "the disk is full"),
        Failure("serializer", "the state cannot be serialized", TypeError),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSnapshot(Command):
    """Stop writing this snapshot if that is still in progress, and delete what was written."""

    checkpoint_id: int

    duty: ClassVar = Duty.STOP_WORK

    def stops(self, work: Command) -> bool:
        """Return True if `work`, requested by the same machine, is what this command cancels."""
        return isinstance(work, WriteSnapshot) and work.checkpoint_id == self.checkpoint_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardSnapshot(Command):
    """Delete the state files and the staged output of a snapshot that was written but is no longer wanted."""

    paths: tuple[str, ...]
    effects: tuple[Effect, ...]

    duty: ClassVar = Duty.WORK


class LocalCopies(Enum):
    """The checkpoints whose task-local copies are deleted: those before one, that one alone, or all but that one."""

    OLDER = "older"
    SAME = "same"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLocalState(Command):
    """Delete the `copies` of a checkpoint's state that the slot `subtask` keeps on its own machine."""

    subtask: int
    checkpoint_id: int
    copies: LocalCopies

    duty: ClassVar = Duty.WORK


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRows(Command):
    """Append rows to an operator's file in progress at `path`: the `first` make it, after the `last` it is pending.

    No checkpoint refers to the file. A snapshot stages what it holds (`Effect.pending`).
    """

    operator_id: str
    path: str
    table: pa.Table
    first: bool
    last: bool

    duty: ClassVar = Duty.WRITE_ROWS
    answers: ClassVar = (events.RowsNotWritten,)
    failures: ClassVar = (Failure("io", "the disk is full"),)
    fails_with: ClassVar = events.RowsNotWritten


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffects(Command):
    """Publish staged output; doing so twice has the same effect as once."""

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
    """Write the in-flight data of one or several subtasks below `location`; `task` is the first of them.

    `encode()` returns the bytes and the offset of each element in them, followed by the end of the last one.
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
    """Stop writing this file if that is still in progress, and delete what was written."""

    checkpoint_id: int
    file_name: str

    duty: ClassVar = Duty.STOP_WORK

    def stops(self, work: Command) -> bool:
        """Return True if `work`, requested by the same machine, is what this command cancels."""
        return isinstance(work, WriteChannelStateFile) and work.file_name == self.file_name
