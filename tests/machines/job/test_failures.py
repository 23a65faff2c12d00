"""A failure that comes again and again ends the job; one that may pass, or that its user counts, does not."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.protocol import commands, events
from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.outages import may_pass
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.failures import REPEATS, FailureCause, Raised, RepeatedFailures, is_left_to_count
from kit.machines.job.status import JobStatus
from kit.stream.operators.spec import UserFunctionError
from kit.stream.settings.job_settings import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobSettings,
    NoRestart,
    RestartStrategy,
)
from tests.machines.job.harness import JobHarness

ENDLESS = FixedDelay(attempts=1_000_000, delay_ms=5)


def failed(task: str, raises: Callable[[], Any], attempt: int = 1, operator: str = "steps") -> TaskStateChanged:
    """Return the event that a task sends when its function raises this."""
    try:
        raises()
    except Exception as raised:
        error = UserFunctionError(f"{operator}: function failed on row {attempt}: {raised}")
        error.__cause__ = raised
    text = "".join(traceback.format_exception(error))
    told = f"{type(error).__name__}: {error}"
    return TaskStateChanged(
        task=task,
        attempt=attempt,
        state=ExecutionState.FAILED,
        error=told,
        traceback=text,
        may_pass=may_pass(error),
    )


def no_carrier() -> None:
    raise KeyError("no carrier 7")


def no_airport() -> None:
    raise KeyError("no airport 7")


def refused() -> None:
    raise ConnectionRefusedError(111, "Connection refused")


def fail(job: JobHarness, raises: Callable[[], Any] = no_carrier, task: str = "sums/1") -> None:
    """A function raises in a task of the epoch that runs; then the job is deployed again, if it is to be."""
    job.give(failed(task, raises, job.master.epoch))
    if job.status is JobStatus.RESTARTING:
        job.restart()
    else:
        job.answer_all()


def restart(job: JobHarness) -> None:
    """Let the job be deployed again, with all deletions done."""
    job.restart()
    for discard in job.take(commands.DiscardState):
        job.give(events.StateDiscarded(checkpoint_id=discard.checkpoint_id))


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [ENDLESS, ExponentialDelay(1, 1), FailureRate(100, 1, 1)], ids=repr)
def test_the_third_failure_of_one_cause_ends_the_job_and_says_so(strategy: RestartStrategy) -> None:
    job = JobHarness(restart=strategy).run()
    for _ in range(REPEATS - 1):
        fail(job)
        assert job.status is JobStatus.RUNNING
    fail(job, task="sums/0")
    assert job.status is JobStatus.FAILED
    assert job.master.epoch == REPEATS
    first, why = job.master.error.splitlines()
    assert first == "sums/0 failed: UserFunctionError: steps: function failed on row 3: 'no carrier 7'"
    assert "has failed 3 times in the same way with no checkpoint completed in between" in why
    assert "restart=FixedDelay(attempts=20" in why


@pytest.mark.parametrize(
    "strategy", [FixedDelay(5, 1), ExponentialDelay(1, 1, attempts_before_reset=5)], ids=["fixed", "exponential"]
)
def test_a_strategy_that_counts_is_left_to_count(strategy: RestartStrategy) -> None:
    job = JobHarness(restart=strategy).run()
    while job.status is JobStatus.RUNNING:
        fail(job)
    assert job.master.epoch == 6
    assert "in the same way" not in job.master.error


def test_a_strategy_that_nobody_chose_does_not_count() -> None:
    assert is_left_to_count(JobSettings(restart=FixedDelay(10, 1)))
    assert not is_left_to_count(JobSettings(restart=FixedDelay(10, 1), restart_is_default=True))
    assert is_left_to_count(JobSettings(restart=NoRestart()))


def test_a_checkpoint_in_between_is_progress() -> None:
    job = JobHarness(restart=ENDLESS).run()
    for _ in range(3):
        for _ in range(REPEATS - 1):
            fail(job)
        job.complete()
    assert job.status is JobStatus.RUNNING


def test_a_savepoint_in_between_is_none_for_no_restart_goes_back_to_it() -> None:
    job = JobHarness(restart=ENDLESS).run()
    fail(job)
    fail(job)
    savepoint = job.trigger(job.savepoint)
    job.ack_all(savepoint)
    job.answer_all()
    fail(job)
    assert job.status is JobStatus.FAILED


def test_other_failures_in_between_do_not_hide_one_that_comes_again() -> None:
    job = JobHarness(restart=ENDLESS).run()
    for _ in range(REPEATS - 1):
        fail(job)
        fail(job, no_airport)
        job.give(events.SlotLost(epoch=job.master.epoch, slot=1, error="SIGKILL"))
        job.restart()
    assert job.status is JobStatus.RUNNING
    fail(job)
    assert job.status is JobStatus.FAILED


@pytest.mark.parametrize("what", ["worker", "event", "outage"])
def test_what_the_job_is_not_to_blame_for_may_come_as_often_as_it_likes(what: str) -> None:
    job = JobHarness(coordinator=True, restart=ENDLESS).run()
    for _ in range(3 * REPEATS):
        epoch = job.master.epoch
        if what == "worker":
            job.give(events.SlotLost(epoch=epoch, slot=1, error="SIGKILL"))
        elif what == "event":
            lost = {"task": "source/0", "attempt": epoch, "operator_id": job.operator_id}
            job.give(events.OperatorEventLost(**lost, error="it was lost"))
        else:
            job.give(failed("sums/1", refused, epoch))
        assert job.status is JobStatus.RESTARTING
        job.restart()


@pytest.mark.parametrize(
    ("reason", "text", "outage"),
    [
        (CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, "out/part-{id}-7: Permission denied", False),
        (CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION, "[Errno 5] Input/output error: part-{id}", True),
        (CheckpointFailureReason.CHECKPOINT_DECLINED, "the state of {id} cannot be written", False),
    ],
)
def test_checkpoints_that_fail_in_the_same_way_end_the_job_unless_it_is_an_outage(
    reason: CheckpointFailureReason, text: str, outage: bool
) -> None:
    job = JobHarness(restart=ENDLESS, tolerable_failures=0).run()
    for _ in range(REPEATS):
        checkpoint_id = job.trigger()
        job.decline(checkpoint_id, reason=reason, detail=text.format(id=checkpoint_id), may_pass=outage)
        if job.status is JobStatus.RESTARTING:
            restart(job)
    job.answer_all()
    assert (job.status is JobStatus.FAILED) is not outage


def test_checkpoints_that_expire_do_not_end_the_job() -> None:
    job = JobHarness(restart=ENDLESS, tolerable_failures=0, timeout_ms=50).run()
    for epoch in range(1, 3 * REPEATS):
        job.trigger()
        job.wait(50)
        restart(job)
        assert job.master.epoch == epoch + 1


def test_hooks_that_can_never_be_restored_end_the_job() -> None:
    job = JobHarness(hooks=["offsets"], restart=ENDLESS).run()
    job.complete()
    job.fail()
    job.wait(5)
    for _ in range(REPEATS):
        job.answer_all(but=[commands.RestoreMasterHooks])
        job.give(events.MasterHookFailed(checkpoint_id=1, hook="offsets", error="no such table"))
        job.wait(5)
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert "no such table" in job.master.error


# --- the cause --------------------------------------------------------------------------------------------------------


def test_the_cause_is_where_the_users_code_raised_not_what_it_said() -> None:
    causes = {FailureCause.of_task(failed(f"sums/{number}", no_carrier, number)) for number in range(3)}
    assert len(causes) == 1
    assert FailureCause.of_task(failed("sums/0", no_airport)) not in causes
    assert FailureCause.of_task(failed("other/0", no_carrier)) not in causes


def test_the_place_is_the_last_line_of_the_users_own_code() -> None:
    import json

    raised = Raised.of(failed("sums/0", lambda: json.loads("{")).traceback)
    assert raised.kind == "json.decoder.JSONDecodeError"
    assert raised.place is not None
    assert (raised.place.file, raised.place.function) == (__file__, "<lambda>")
    assert raised.innermost is not None
    assert raised.innermost.file.endswith("decoder.py")
    assert raised.text.startswith("json.decoder.JSONDecodeError: Expecting property name")


def test_without_a_traceback_the_text_is_the_cause_but_for_its_numbers() -> None:
    def said(error: str) -> FailureCause | None:
        return FailureCause.of_task(
            TaskStateChanged(task="sums/0", attempt=1, state=ExecutionState.FAILED, error=error)
        )

    assert said("part-4f1-3.parquet is gone") == said("part-5a2-17.parquet is gone") != said("part is gone")
    assert said("it broke") != said("it broke again")


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.booleans())))
def test_a_cause_is_counted_since_the_latest_checkpoint(failures: list[tuple[str | None, bool]]) -> None:
    counter, latest_id = RepeatedFailures(JobSettings(restart=ENDLESS)), -1
    since: list[str | None] = []
    for what, after_checkpoint in failures:
        if after_checkpoint:
            latest_id += 1
            since = []
        since.append(what)
        cause = None if what is None else FailureCause("sums", what)
        wanted = what is not None and since.count(what) >= REPEATS
        assert counter.is_one_too_many(cause, latest_id) is wanted
