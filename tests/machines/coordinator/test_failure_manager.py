"""When failing checkpoints fail the job: Flink's answers."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.machines.coordinator.failure_manager import CheckpointFailureManager, failure_reasons
from tests.flink_data import vectors

PROPERTIES = {
    "checkpoint": CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION),
    "savepoint": CheckpointProperties.for_savepoint(forced=True),
    "sync_savepoint": CheckpointProperties.for_sync_savepoint(forced=True, terminate=True),
}


class Job:
    """Writes down how it was failed."""

    def __init__(self, tolerable: int) -> None:
        self.failures: list[tuple[str, str]] = []
        self.manager = CheckpointFailureManager(tolerable, self._fail_job, self._fail_job_due_to_task)

    def _fail_job(self, error: str, checkpoint_id: int, *, may_pass: bool) -> None:
        self.failures.append(("failJob", error))

    def _fail_job_due_to_task(self, error: str, task: str, *, may_pass: bool) -> None:
        self.failures.append(("failJobDueToTaskFailure", error))

    def take(self, step: dict[str, Any]) -> None:
        """Carry out one step of a vector."""
        if step["op"] == "success":
            self.manager.handle_success(step["checkpoint_id"])
            return
        why = CheckpointException(CheckpointFailureReason[step["reason"]])
        task = "sums/1" if step["op"] == "task_failure" else None
        self.manager.handle_failure(PROPERTIES[step["props"]], why, step["checkpoint_id"], task)
        self.manager.validate()


@pytest.mark.flink(
    "CheckpointFailureManagerTest.testIgnoresPastCheckpoints",
    "CheckpointFailureManagerTest.testContinuousFailure",
    "CheckpointFailureManagerTest.testBreakContinuousFailure",
    "CheckpointFailureManagerTest.testTotalCountValue",
    "CheckpointFailureManagerTest.testIgnoreOneCheckpointRepeatedlyCountMultiTimes",
)
def test_counts_as_flink_does() -> None:
    rows = 0
    for row in vectors("failure_manager"):
        rows += 1
        if row["kind"] == "constructor":
            continue
        job = Job(row["tolerable"])
        for step in row["steps"]:
            job.failures = []
            job.take(step)
            assert [call for call, _ in job.failures] == [each["call"] for each in step["job_failed"]], step
            assert job.manager.counter == step["counter"], step
            assert sorted(job.manager.counted_ids) == sorted(step["counted_ids"]), step
    assert rows == 846


@pytest.mark.parametrize("row", [row for row in vectors("failure_manager") if row["kind"] == "constructor"], ids=str)
def test_a_negative_number_is_not_tolerable(row: dict[str, Any]) -> None:
    if row["error"] is None:
        assert Job(row["tolerable"]).manager.counter == 0
    else:
        with pytest.raises(ValueError, match=f"is {row['tolerable']}, expected 0 or more"):
            Job(row["tolerable"])


def test_the_error_says_how_many_failed_and_why() -> None:
    job = Job(1)
    for checkpoint_id in (1, 2):
        job.take(
            {"op": "job_failure", "reason": "CHECKPOINT_EXPIRED", "checkpoint_id": checkpoint_id, "props": "checkpoint"}
        )
    [(_, error)] = job.failures
    assert "2 checkpoints failed in a row, and tolerable_failures is 1." in error
    assert CheckpointFailureReason.CHECKPOINT_EXPIRED.message in error


def test_the_table_of_reasons_says_which_count() -> None:
    """The table agrees with a manager that receives each failure once and tolerates none."""
    told = failure_reasons().set_index("reason")
    for reason in CheckpointFailureReason:
        job = Job(tolerable=0)
        job.take({"op": "job_failure", "reason": reason.name, "props": "checkpoint", "checkpoint_id": 1})
        assert told.counts[reason.name] == bool(job.failures)
    assert set(told.index[told.counts & told.pre_flight]) == {"IO_EXCEPTION"}
