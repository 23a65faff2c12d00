"""The statuses of a job, and which may follow which.

`TRANSITIONS` is the table that the JobMaster goes by, that its errors quote and that `docs/state-machines.md` draws.
Follows Flink's `JobStatus`.
"""

from __future__ import annotations

from enum import Enum

from kit.protocol.transitions import Transitions


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

    @property
    def is_terminal(self) -> bool:
        """Whether nothing follows."""
        return TRANSITIONS.is_end(self)


TRANSITIONS = Transitions(
    "the status of a job",
    JobStatus.CREATED,
    {
        JobStatus.CREATED: {
            "all is known": JobStatus.RUNNING,
            "it cannot begin": JobStatus.FAILED,
            "it is cancelled": JobStatus.CANCELED,
            "it had ended before": (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED),
        },
        JobStatus.RUNNING: {
            "it fails, and is tried again": JobStatus.RESTARTING,
            "it fails for good": JobStatus.FAILING,
            "it is cancelled": JobStatus.CANCELLING,
            "all tasks have finished": JobStatus.FINISHED,
        },
        JobStatus.RESTARTING: {
            "the delay is over": JobStatus.RUNNING,
            "it fails for good": JobStatus.FAILING,
            "it is cancelled": JobStatus.CANCELLING,
        },
        JobStatus.FAILING: {"all workers have left": JobStatus.FAILED},
        JobStatus.CANCELLING: {"all workers have left": JobStatus.CANCELED},
        JobStatus.FAILED: {},
        JobStatus.CANCELED: {},
        JobStatus.FINISHED: {},
    },
)
