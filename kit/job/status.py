"""The statuses of a job, and which may follow which.

`TRANSITIONS` is the table that the JobMaster checks, that its errors quote and that the figure in the documentation
is drawn from. Follows Flink's `JobStatus`.
"""

from __future__ import annotations

from enum import Enum


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
        return not TRANSITIONS[self]

    def may_become(self, other: JobStatus) -> bool:
        """Whether the table allows the step."""
        return other in TRANSITIONS[self]


TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.CREATED: frozenset({JobStatus.RUNNING, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}),
    JobStatus.RUNNING: frozenset({JobStatus.RESTARTING, JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.FINISHED}),
    JobStatus.RESTARTING: frozenset({JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING}),
    JobStatus.FAILING: frozenset({JobStatus.FAILED}),
    JobStatus.CANCELLING: frozenset({JobStatus.CANCELED}),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.FINISHED: frozenset(),
}
