"""The rule when failing checkpoints fail the job: if more than the tolerable number fail in a row, each counted once.

Only the reasons in `COUNTED` count: those where the checkpoint itself failed, not where the job prevented it. The
success of a checkpoint that is newer than all previous successes resets the count, and so does failing the job.

A synchronous savepoint fails the job from here only if a task is to blame. Otherwise (it expired, or its metadata could
not be written) the tasks that have stopped at it fail when they are notified of the abort, and the job with them. If no
task has stopped yet, the job continues. 1.11 always fails the job (`handleSynchronousSavepointFailure`), except for a
savepoint that had not been triggered.

Follows Flink 2.3's `CheckpointFailureManager`. In 1.11 IO_EXCEPTION and FINALIZE_CHECKPOINT_FAILURE do not count, every
success clears, and savepoints and failures of older checkpoints are not treated differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kit.core.protocol.properties import CheckpointProperties
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason

if TYPE_CHECKING:
    import pandas as pd

UNLIMITED_TOLERABLE_FAILURES = 2**31 - 1
UNKNOWN_CHECKPOINT_ID = -1
"""The id of a failure before the checkpoint had one: it counts every time."""

COUNTED = frozenset(
    {
        CheckpointFailureReason.IO_EXCEPTION,
        CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointFailureReason.CHECKPOINT_DECLINED,
        CheckpointFailureReason.CHECKPOINT_EXPIRED,
        CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)


def may_pass(why: CheckpointException) -> bool:
    """Return True if the cause may be gone the next time: an outage, or a checkpoint that took too long."""
    return why.may_pass or why.reason is CheckpointFailureReason.CHECKPOINT_EXPIRED


def failure_reasons() -> pd.DataFrame:
    """Return the reasons why a checkpoint may fail, one row each.

    The columns are reason, counts (towards the tolerable failures), pre_flight (before any task was reached) and
    message. Flink: `CheckpointFailureReason`, `CheckpointFailureManager`.
    """
    import pandas as pd

    rows = [(reason.name, reason in COUNTED, reason.pre_flight, reason.message) for reason in CheckpointFailureReason]
    return pd.DataFrame(rows, columns=["reason", "counts", "pre_flight", "message"])


class FailJob(Protocol):
    """A function that fails the job; `may_pass` if the cause may be gone the next time."""

    def __call__(self, error: str, checkpoint_id: int, *, may_pass: bool) -> None: ...


class FailJobDueToTask(Protocol):
    """A function that fails the job because of one task."""

    def __call__(self, error: str, task: str, *, may_pass: bool) -> None: ...


class CheckpointFailureManager:
    """The count of failures in a row, which fails the job above `tolerable`.

    `fail_job` and `fail_job_due_to_task_failure` are called at most once per failure. Raises ValueError if `tolerable`
    is negative; with `UNLIMITED_TOLERABLE_FAILURES`, the count never fails the job.

    Follows Flink's `CheckpointFailureManager`.
    """

    def __init__(self, tolerable: int, fail_job: FailJob, fail_job_due_to_task_failure: FailJobDueToTask) -> None:
        if tolerable < 0:
            raise ValueError(f"the tolerable number of checkpoint failures is {tolerable}, expected 0 or more")
        self.tolerable = tolerable
        self.counter = 0
        self.counted_ids: set[int] = set()
        self._last_succeeded_id: int | None = None
        self._fail_job = fail_job
        self._fail_job_due_to_task_failure = fail_job_due_to_task_failure

    def handle_failure(
        self,
        properties: CheckpointProperties,
        why: CheckpointException,
        checkpoint_id: int = UNKNOWN_CHECKPOINT_ID,
        task: str | None = None,
    ) -> None:
        """Count a failed checkpoint; `task` is to blame unless None (`handleCheckpointException`).

        Flink: `handleSynchronousSavepointFailure`, `handleTaskLevelCheckpointException` and
        `handleJobLevelCheckpointException`, all in one.
        """
        if task is None or why.reason.pre_flight:
            if not properties.is_savepoint:
                self._count(
                    why, checkpoint_id, lambda error: self._fail_job(error, checkpoint_id, may_pass=may_pass(why))
                )
        elif properties.is_synchronous:  # it recurs only if the user asks again
            self._fail_job(str(why), checkpoint_id, may_pass=True)
        else:
            blamed = task
            self._count(
                why,
                checkpoint_id,
                lambda error: self._fail_job_due_to_task_failure(error, blamed, may_pass=may_pass(why)),
            )

    def handle_success(self, checkpoint_id: int) -> None:
        """Record a completed checkpoint; only one newer than all before it resets the count.

        Flink: `handleCheckpointSuccess`.
        """
        if self._last_succeeded_id is None or checkpoint_id > self._last_succeeded_id:
            self._last_succeeded_id = checkpoint_id
            self._clear()

    def _count(self, why: CheckpointException, checkpoint_id: int, fail: Callable[[str], None]) -> None:
        if not self._is_relevant(checkpoint_id):
            return
        if self.tolerable != UNLIMITED_TOLERABLE_FAILURES and why.reason in COUNTED:
            if checkpoint_id == UNKNOWN_CHECKPOINT_ID:
                self.counter += 1
            elif checkpoint_id not in self.counted_ids:
                self.counted_ids.add(checkpoint_id)
                self.counter += 1
        if self.counter > self.tolerable:
            failures = self.counter
            self._clear()
            fail(
                f"{failures} checkpoint{'s' * (failures != 1)} failed in a row, and tolerable_failures is "
                f"{self.tolerable}. The last one: {why}"
            )

    def _is_relevant(self, checkpoint_id: int) -> bool:
        newest = self._last_succeeded_id
        return checkpoint_id == UNKNOWN_CHECKPOINT_ID or newest is None or checkpoint_id > newest

    def _clear(self) -> None:
        self.counter = 0
        self.counted_ids.clear()

    def validate(self) -> None:
        """Check that the count covers the counted checkpoints and is tolerable. Raises AssertionError."""
        assert len(self.counted_ids) <= self.counter, f"{self.counter} counted, but ids {sorted(self.counted_ids)}"
        assert self.counter <= self.tolerable, f"{self.counter} failures in a row and the job runs on"

    def __repr__(self) -> str:
        return f"CheckpointFailureManager({self.counter} of {self.tolerable} tolerable failures)"
