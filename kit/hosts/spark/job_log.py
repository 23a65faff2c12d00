"""The log lines of a driver about its job: checkpoints, restores, a take-over, restarts and the end.

Completed checkpoints and an orderly end are INFO; failed checkpoints and failed jobs are WARNING. A checkpoint that is
aborted because its job restarts or ends is INFO: the restart has its own line.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kit.core.protocol.commands import JobStatusChanged
from kit.core.protocol.notes import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointRestored,
    Note,
    TriggeringFailed,
    WaitingForSlots,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.stream.operators.windows.late_rows import late_rows_said

logger = logging.getLogger("kit.hosts.spark")

_WITH_THE_JOB = frozenset(
    {
        CheckpointFailureReason.JOB_FAILOVER_REGION.name,
        CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN.name,
        CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND.name,
        CheckpointFailureReason.CHECKPOINT_SUBSUMED.name,
    }
)
_NOT_BEGUN = frozenset({CheckpointFailureReason.IO_EXCEPTION.name})
"""Reasons that fail a checkpoint before it begins; the other reasons only postpone a request."""


class JobLog:
    """Logs what happens to the job of one driver."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self._takes_over = False
        self._droppers: set[str] = set()
        """The operators whose late rows have been logged."""

    def takes_over(self) -> None:
        """Note that the next restore is the first of a driver that resumes another driver's run."""
        self._takes_over = True

    def note(self, note: Note) -> None:
        """Log a note of the JobMaster, if the job's user may care about it."""
        name = self._master.job.name
        match note:
            case CheckpointCompleted(checkpoint_id=number, size_bytes=size, duration_ms=took):
                template = "job %s: checkpoint %s is complete: %s bytes, %s ms"
                logger.info(template, name, number, f"{size:,}", f"{took:,}")
            case CheckpointAborted(checkpoint_id=number, reason=reason, task=task):
                level = logging.INFO if reason in _WITH_THE_JOB else logging.WARNING
                blamed = f" ({task})" if task else ""
                logger.log(level, "job %s: checkpoint %s failed%s: %s", name, number, blamed, note.detail)
            case TriggeringFailed(reason=reason, detail=detail):
                level = logging.WARNING if reason in _NOT_BEGUN else logging.INFO
                logger.log(level, "job %s: a checkpoint could not begin: %s", name, detail)
            case CheckpointRestored(checkpoint_id=number, path=path):
                what, self._takes_over = "takes over and restores" if self._takes_over else "restores", False
                logger.info("job %s %s checkpoint %s, %s", name, what, number, path)
            case WaitingForSlots():
                logger.warning("job %s waits for slots: %s", name, self._master.rescaling.slots_said)

    def rows_dropped(self, late: Mapping[str, int]) -> None:
        """Log, once for each operator, that it drops late rows; `job.meters()` has the current numbers."""
        for operator in late.keys() - self._droppers:
            self._droppers.add(operator)
            logger.warning("job %s: %s", self._master.job.name, late_rows_said(operator, late[operator]))

    def status(self, command: JobStatusChanged) -> None:
        """Log that the job restarts or has ended."""
        status, name = JobStatus[command.status], self._master.job.name
        if status is JobStatus.RESTARTING:
            level = logging.INFO if self._master.is_rescaled else logging.WARNING
            logger.log(level, "job %s restarts: %s", name, command.error)
        elif status.is_terminal and command.error:  # it failed, or had ended under an earlier driver
            logger.warning("job %s is %s: %s", name, status.name, command.error)
        elif status.is_terminal:
            epoch = self._master.epoch
            latest = self._master.checkpoints.statistics.snapshot().latest_completed
            newest = "no checkpoint" if latest is None else f"checkpoint {latest.checkpoint_id}"
            epochs = f"{epoch} epoch{'s' * (epoch != 1)}"
            logger.info("job %s is %s, after %s and %s", name, status.name, epochs, newest)

    def __repr__(self) -> str:
        return f"JobLog({self._master.job.name})"
