"""The statuses of a job, and the phases of its life from which they follow.

`PHASES` is the table that the JobMaster goes by, that its errors quote and that `docs/state-machines.md` draws. A phase
tells a little more than the status that a user sees: a job that is RUNNING may be going back to a checkpoint, or have
finished except for its workers, who are still leaving.

Follows Flink's `JobStatus`.
"""

from __future__ import annotations

from enum import Enum

from kit.core.protocol.transitions import Transitions


class JobStatus(Enum):
    """Where a job stands as a whole."""

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
        """Whether nothing follows, for this driver. Flink: `isTerminalState`."""
        return self in _ENDS

    @property
    def is_failure(self) -> bool:
        """Return True if the job ended with an error, for this driver at least."""
        return self in (JobStatus.FAILED, JobStatus.SUSPENDED)


class Phase(Enum):
    """What a job is doing, and what it waits for."""

    STARTING = "STARTING"
    """It asks for splits, for what an earlier driver stored, for the snapshot to begin from."""
    RESTORING = "RESTORING"
    """State is assigned; the master hooks are given theirs."""
    RUNNING = "RUNNING"
    """Workers are at work."""
    RESTARTING = "RESTARTING"
    """The workers leave, the restart delay passes, what is being stored gets its answer, and slots are there."""
    FINISHING = "FINISHING"
    """All tasks have finished and the workers leave; what follows may need the durable store, in all three of these."""
    FAILING = "FAILING"
    CANCELLING = "CANCELLING"
    SUSPENDING = "SUSPENDING"
    """Another driver has taken over the job; the workers of this one leave."""
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SUSPENDED = "SUSPENDED"

    __hash__ = object.__hash__  # each is the only one of its name; an Enum's own hash is a call of Python's

    @property
    def status(self) -> JobStatus:
        """What the user sees of it."""
        return _STATUS[self]

    @property
    def ending_as(self) -> JobStatus | None:
        """How the job has ended, or will once its workers have left; None while it may go on."""
        return _ENDING_AS.get(self)


class JobEvent(Enum):
    """What happens to a job as a whole."""

    KNOWN = "all is known"
    CANNOT_BEGIN = "it cannot begin"
    ENDED_BEFORE = "it ended under an earlier driver"
    DEPLOYED = "its tasks are deployed"
    FAIL = "it fails"
    FAIL_FOR_GOOD = "it fails for good"
    RESCALE = "it is rescaled"
    RESTART = "the workers have left, the delay is over"
    CANCEL = "it is cancelled"
    LOSE_LEADERSHIP = "another driver takes over"
    ALL_FINISHED = "all tasks have finished"
    END = "the workers have left, the store knows"


_STATUS = {
    Phase.STARTING: JobStatus.CREATED,
    Phase.RESTORING: JobStatus.RUNNING,
    Phase.FINISHING: JobStatus.RUNNING,
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
