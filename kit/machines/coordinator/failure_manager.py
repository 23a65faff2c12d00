"""When failing checkpoints fail the job: more than the tolerable number in a row, each checkpoint counted once.

Only reasons in `COUNTED` count: those where the checkpoint itself went wrong, not where the job got in its way. A
success of a newer checkpoint than any before resets the count, and so does failing the job.

A synchronous savepoint fails the job from here only where a task is to blame. Where none is (it expired, its metadata
could not be written), the tasks that have stopped at it fail as soon as they hear that it was aborted, and the job with
them; where none has yet the job goes on. 1.11 always fails the job (`handleSynchronousSavepointFailure`), but for a
savepoint that had not been triggered.

Follows Flink 2.3's `CheckpointFailureManager`. In 1.11 IO_EXCEPTION and FINALIZE_CHECKPOINT_FAILURE do not count, every
success clears, and neither savepoints nor failures of older checkpoints are treated apart.
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
"""A failure before there was a checkpoint: counts every time."""

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
    """Return True if nobody reported an error: the checkpoint took too long."""
    return why.reason is CheckpointFailureReason.CHECKPOINT_EXPIRED


def failure_reasons() -> pd.DataFrame:
    """Why a checkpoint may fail, a row each: reason, counts (towards the tolerable failures), pre_flight (before any
    task was reached), message. Flink: `CheckpointFailureReason`, `CheckpointFailureManager`.
    """
    import pandas as pd

    rows = [(reason.name, reason in COUNTED, reason.pre_flight, reason.message) for reason in CheckpointFailureReason]
    return pd.DataFrame(rows, columns=["reason", "counts", "pre_flight", "message"])


class FailJob(Protocol):
    """Fails the job; `may_pass` for a cause that may be gone the next time: something took too long."""

    def __call__(self, error: str, checkpoint_id: int, *, may_pass: bool) -> None: ...


class FailJobDueToTask(Protocol):
    """The same where one task is to blame."""

    def __call__(self, error: str, task: str, *, may_pass: bool) -> None: ...


class CheckpointFailureManager:
    """Counts failures in a row and fails the job above `tolerable` of them.

    `fail_job` and `fail_job_due_to_task_failure` are called at most once a failure.
    Raises ValueError when `tolerable` is negative; `UNLIMITED_TOLERABLE_FAILURES` never fails the job for its count.

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
        """Take note that a checkpoint failed; `task` is to blame unless None (`handleCheckpointException`).

        Flink: `handleSynchronousSavepointFailure`, `handleTaskLevelCheckpointException` and
        `handleJobLevelCheckpointException`, all in one.
        """
        if task is None or why.reason.pre_flight:
            if not properties.is_savepoint:
                self._count(
                    why, checkpoint_id, lambda error: self._fail_job(error, checkpoint_id, may_pass=may_pass(why))
                )
        elif properties.is_synchronous:  # only when the user asks again will it come again
            self._fail_job(str(why), checkpoint_id, may_pass=True)
        else:
            blamed = task
            self._count(
                why,
                checkpoint_id,
                lambda error: self._fail_job_due_to_task_failure(error, blamed, may_pass=may_pass(why)),
            )

    def handle_success(self, checkpoint_id: int) -> None:
        """Take note that a checkpoint completed; only one newer than any before it clears the count.

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
        """Check that the count covers the counted checkpoints and is tolerable; raises AssertionError."""
        assert len(self.counted_ids) <= self.counter, f"{self.counter} counted, but ids {sorted(self.counted_ids)}"
        assert self.counter <= self.tolerable, f"{self.counter} failures in a row and the job runs on"

    def __repr__(self) -> str:
        return f"CheckpointFailureManager({self.counter} of {self.tolerable} tolerable failures)"
