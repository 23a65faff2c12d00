"""The statuses of a job, and the phases of its life from which they follow.

The JobMaster follows the table `PHASES`, its errors quote it, and `docs/state-machines.md` draws it. A phase is more
specific than the status that a user sees. A job that is RUNNING may be going back to a checkpoint, or may have finished
while its workers are still leaving.

Follows Flink's `JobStatus`.
"""

from __future__ import annotations

from enum import Enum

from kit.core.protocol.transitions import Transitions


class JobStatus(Enum):
    """The status of a whole job."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    SUSPENDED = "SUSPENDED"

    @property
    def is_terminal(self) -> bool:
        """True if no status follows, for this driver. Flink: `isTerminalState`."""
        return self in _ENDS

    @property
    def is_failure(self) -> bool:
        """True if the job ended with an error, for this driver at least."""
        return self in (JobStatus.FAILED, JobStatus.SUSPENDED)


class Phase(Enum):
    """The present activity of a job, and what it waits for."""

    STARTING = "STARTING"
    """It requests the splits, what an earlier driver stored, and the snapshot to start from."""
    RESTORING = "RESTORING"
    """State is assigned, and the master hooks are restored."""
    RUNNING = "RUNNING"
    """The workers run."""
    FAILING_OVER = "FAILING_OVER"
    """Some regions restart, and the tasks of the others run (`kit.machines.job.region_failover`)."""
    RESTARTING = "RESTARTING"
    """The workers leave, the restart delay passes, a checkpoint being stored is decided, and slots become available."""
    FINISHING = "FINISHING"
    """The workers leave after all tasks have finished; this and the next two may then wait for the durable store."""
    FAILING = "FAILING"
    CANCELLING = "CANCELLING"
    SUSPENDING = "SUSPENDING"
    """Another driver has taken over the job; this driver's workers leave."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"

    __hash__ = object.__hash__  # members are unique, and an Enum's own hash is slow Python

    @property
    def status(self) -> JobStatus:
        """The status that the user sees."""
        return _STATUS[self]

    @property
    def ending_as(self) -> JobStatus | None:
        """The status in which the job has ended, or will end once its workers have left; None while it may continue."""
        return _ENDING_AS.get(self)


class JobEvent(Enum):
    """The events in the life of a job."""

    KNOWN = "all is known"
    CANNOT_BEGIN = "it cannot begin"
    ENDED_BEFORE = "it ended under an earlier driver"
    DEPLOYED = "its tasks are deployed"
    FAIL = "it fails"
    FAIL_IN_REGIONS = "some of its regions fail"
    FAIL_FOR_GOOD = "it fails for good"
    RESCALE = "it is rescaled"
    RESTART = "the workers have left, the delay is over"
    REGIONS_DEPLOYED = "the tasks of its regions are deployed"
    CANCEL = "it is cancelled"
    LOSE_LEADERSHIP = "another driver takes over"
    ALL_FINISHED = "all tasks have finished"
    END = "the workers have left, the store knows"


_STATUS = {
    Phase.STARTING: JobStatus.CREATED,
    Phase.RESTORING: JobStatus.RUNNING,
    Phase.FINISHING: JobStatus.RUNNING,
    Phase.FAILING_OVER: JobStatus.RESTARTING,
    Phase.SUSPENDING: JobStatus.FAILING,
} | {phase: JobStatus[phase.name] for phase in Phase if phase.name in JobStatus.__members__}
_ENDING_AS = {
    Phase.FINISHING: JobStatus.FINISHED,
    Phase.FINISHED: JobStatus.FINISHED,
    Phase.FAILING: JobStatus.FAILED,
    Phase.FAILED: JobStatus.FAILED,
    Phase.CANCELLING: JobStatus.CANCELED,
    Phase.CANCELED: JobStatus.CANCELED,
    Phase.SUSPENDING: JobStatus.SUSPENDED,
    Phase.SUSPENDED: JobStatus.SUSPENDED,
}
_ENDS = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED})

PHASES = Transitions(
    "a job",
    Phase.STARTING,
    {
        Phase.STARTING: {
            JobEvent.KNOWN: Phase.RESTORING,
            JobEvent.CANNOT_BEGIN: Phase.FAILED,
            JobEvent.CANCEL: Phase.CANCELED,
            JobEvent.ENDED_BEFORE: (Phase.FINISHED, Phase.FAILED, Phase.CANCELED),
        },
        Phase.RESTORING: {
            JobEvent.DEPLOYED: Phase.RUNNING,
            JobEvent.FAIL: Phase.RESTARTING,
            JobEvent.FAIL_FOR_GOOD: Phase.FAILING,
            JobEvent.CANCEL: Phase.CANCELLING,
            JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING,
        },
        Phase.RUNNING: {
            JobEvent.ALL_FINISHED: Phase.FINISHING,
            JobEvent.RESCALE: Phase.RESTARTING,
            JobEvent.FAIL_IN_REGIONS: Phase.FAILING_OVER,
            JobEvent.FAIL: Phase.RESTARTING,
            JobEvent.FAIL_FOR_GOOD: Phase.FAILING,
            JobEvent.CANCEL: Phase.CANCELLING,
            JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING,
        },
        Phase.FAILING_OVER: {
            JobEvent.REGIONS_DEPLOYED: Phase.RUNNING,
            JobEvent.FAIL: Phase.RESTARTING,
            JobEvent.FAIL_FOR_GOOD: Phase.FAILING,
            JobEvent.CANCEL: Phase.CANCELLING,
            JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING,
        },
        Phase.RESTARTING: {
            JobEvent.RESTART: Phase.RESTORING,
            JobEvent.FAIL_FOR_GOOD: Phase.FAILING,
            JobEvent.CANCEL: Phase.CANCELLING,
            JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING,
        },
        Phase.FINISHING: {JobEvent.END: Phase.FINISHED, JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING},
        Phase.FAILING: {JobEvent.END: Phase.FAILED, JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING},
        Phase.CANCELLING: {JobEvent.END: Phase.CANCELED, JobEvent.LOSE_LEADERSHIP: Phase.SUSPENDING},
        Phase.SUSPENDING: {JobEvent.END: Phase.SUSPENDED},
        Phase.FINISHED: {},
        Phase.FAILED: {},
        Phase.CANCELED: {},
        Phase.SUSPENDED: {},
    },
)
