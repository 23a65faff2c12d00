"""The kind of a snapshot, and its life cycle.

A `SnapshotType` says what is taken (a checkpoint, a savepoint, a savepoint that ends the job) and how its files may be
shared with other checkpoints. `CheckpointProperties` adds the life cycle: whether a newer checkpoint subsumes it, and
at which end of the job it is discarded. Both are values, written into `_metadata` from version 4 on and read back
equal.

Follows Flink's `CheckpointProperties`, `SnapshotType`, `CheckpointType`, `SavepointType` and `SavepointFormatType`.
In 1.11 there is only the enum `CheckpointType`: CHECKPOINT, SAVEPOINT and SYNC_SAVEPOINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SharingFilesStrategy(Enum):
    """The files that a snapshot may share with others (`SnapshotType.SharingFilesStrategy`)."""

    FORWARD_BACKWARD = "FORWARD_BACKWARD"
    """May reuse files of older checkpoints, and newer ones may reuse its own: an incremental checkpoint."""
    FORWARD = "FORWARD"
    """Reuses nothing, but newer checkpoints may reuse its files: a full checkpoint."""
    NO_SHARING = "NO_SHARING"
    """Shares no files: a savepoint."""


class PostCheckpointAction(Enum):
    """The job's next action once the snapshot is complete (`SavepointType.PostCheckpointAction`)."""

    NONE = "NONE"
    SUSPEND = "SUSPEND"
    TERMINATE = "TERMINATE"


class SavepointFormatType(Enum):
    """The format of a savepoint's state files (`SavepointFormatType`)."""

    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class LaterOutput(Enum):
    """The treatment of output that sinks published after the snapshot that a job is restored from.

    The restored job produces these rows again. ERROR rejects the restore and names the files, DISCARD deletes them
    first, and KEEP keeps both copies. Flink restores and repeats them.
    """

    ERROR = "error"
    DISCARD = "discard"
    KEEP = "keep"


class Durability(Enum):
    """The kind of crash that checkpoints, store entries and published output survive.

    FSYNC: a power failure, because each of them reaches the disk before it is reported. PAGE_CACHE: the end of every
    process, but not a crash of the machine, after which a checkpoint may lack some of its files. Flink leaves it to the
    file system: a local one is not synced.
    """

    FSYNC = "fsync"
    PAGE_CACHE = "page_cache"


class RecoveryClaimMode(Enum):
    """The owner of the snapshot that a job is restored from (Flink's `RecoveryClaimMode`)."""

    CLAIM = "CLAIM"
    """The job owns it: it is subsumed like the job's own checkpoints."""
    NO_CLAIM = "NO_CLAIM"
    """The user owns it: the job's first checkpoint is a full one and refers to nothing in it."""
    LEGACY = "LEGACY"
    """The user owns it, but may not delete it while the job builds on it. Removed in Flink 2."""


class RetentionPolicy(Enum):
    """The ends of the job that a completed checkpoint survives (`CheckpointRetentionPolicy`)."""

    NEVER_RETAIN_AFTER_TERMINATION = "NEVER_RETAIN_AFTER_TERMINATION"
    RETAIN_ON_FAILURE = "RETAIN_ON_FAILURE"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"


@dataclass(frozen=True, slots=True)
class CheckpointType:
    """An ordinary checkpoint: the `name` that Flink shows, and its file sharing (Flink's `CheckpointType`)."""

    name: str
    sharing: SharingFilesStrategy

    is_savepoint = False
    is_synchronous = False
    should_drain = False


@dataclass(frozen=True, slots=True)
class SavepointType:
    """A savepoint: the action that follows it, and the format of its files (Flink's `SavepointType`)."""

    name: str
    action: PostCheckpointAction
    format: SavepointFormatType

    is_savepoint = True
    sharing = SharingFilesStrategy.NO_SHARING

    @property
    def is_synchronous(self) -> bool:
        """True if tasks stop at the barrier until the savepoint is confirmed."""
        return self.action is not PostCheckpointAction.NONE

    @property
    def should_drain(self) -> bool:
        """True if event time is first advanced to its end, so that all timers and windows fire."""
        return self.action is PostCheckpointAction.TERMINATE

    @classmethod
    def savepoint(cls, fmt: SavepointFormatType) -> SavepointType:
        """Return the type of a savepoint after which the job continues."""
        return cls("Savepoint", PostCheckpointAction.NONE, fmt)

    @classmethod
    def suspend(cls, fmt: SavepointFormatType) -> SavepointType:
        """Return the type of a savepoint after which the job stops and keeps its windows for the next run."""
        return cls("Suspend Savepoint", PostCheckpointAction.SUSPEND, fmt)

    @classmethod
    def terminate(cls, fmt: SavepointFormatType) -> SavepointType:
        """Return the type of a savepoint before which the job drains, and after which it stops for good."""
        return cls("Terminate Savepoint", PostCheckpointAction.TERMINATE, fmt)


SnapshotType = CheckpointType | SavepointType

CHECKPOINT = CheckpointType("Checkpoint", SharingFilesStrategy.FORWARD_BACKWARD)
FULL_CHECKPOINT = CheckpointType("Full Checkpoint", SharingFilesStrategy.FORWARD)


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """The way a checkpoint was requested, and when it is discarded (Flink's `CheckpointProperties`).

    `forced` requests start even if the maximum number of checkpoints is pending. `discard_subsumed` also means "may be
    subsumed". Each of the other `discard_*` names an end of the job. An `unclaimed` checkpoint was restored from
    without taking ownership of it.
    """

    snapshot_type: SnapshotType
    forced: bool = False
    discard_subsumed: bool = True
    discard_finished: bool = True
    discard_cancelled: bool = True
    discard_failed: bool = True
    discard_suspended: bool = True
    unclaimed: bool = False

    @property
    def is_savepoint(self) -> bool:
        """True if the snapshot belongs to the user rather than to the job."""
        return self.snapshot_type.is_savepoint

    @property
    def is_synchronous(self) -> bool:
        """True for a stop-with-savepoint. Flink: `isSynchronous`."""
        return self.snapshot_type.is_synchronous

    @classmethod
    def for_checkpoint(cls, retention: RetentionPolicy) -> CheckpointProperties:
        """Return the properties of the job's periodic checkpoints under a retention policy."""
        discard_cancelled, discard_failed, discard_suspended = _DISCARDED_AT[retention]
        return cls(
            CHECKPOINT,
            discard_cancelled=discard_cancelled,
            discard_failed=discard_failed,
            discard_suspended=discard_suspended,
        )

    @classmethod
    def for_savepoint(
        cls, *, forced: bool, fmt: SavepointFormatType = SavepointFormatType.CANONICAL
    ) -> CheckpointProperties:
        """Return the properties of a savepoint after which the job continues."""
        return cls(SavepointType.savepoint(fmt), forced, *_NEVER_DISCARDED)

    @classmethod
    def for_sync_savepoint(
        cls, *, forced: bool, terminate: bool, fmt: SavepointFormatType = SavepointFormatType.CANONICAL
    ) -> CheckpointProperties:
        """Return the properties of stop-with-savepoint: with `terminate` it drains, otherwise the job is suspended."""
        kind = SavepointType.terminate(fmt) if terminate else SavepointType.suspend(fmt)
        return cls(kind, forced, *_NEVER_DISCARDED)

    @classmethod
    def for_unclaimed_snapshot(cls) -> CheckpointProperties:
        """Return the properties of a snapshot that a job was restored from in NO_CLAIM or LEGACY mode."""
        return cls(SavepointType.savepoint(SavepointFormatType.CANONICAL), False, *_NEVER_DISCARDED, unclaimed=True)


# discarded when the job is (cancelled, failed, suspended)
_DISCARDED_AT = {
    RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION: (True, True, True),
    RetentionPolicy.RETAIN_ON_FAILURE: (True, False, True),
    RetentionPolicy.RETAIN_ON_CANCELLATION: (False, False, False),
}
_NEVER_DISCARDED = (False, False, False, False, False)
