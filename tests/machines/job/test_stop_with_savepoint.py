"""Stopping with a savepoint: the job ends, runs on or rolls back, and each request is answered once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import NotifyCheckpointAborted, NotifyCheckpointComplete, TriggerTaskCheckpoint
from kit.core.protocol.properties import RecoveryClaimMode
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.status import JobStatus
from kit.stream.settings.job_settings import FixedDelay, NoRestart, RestartStrategy
from tests.machines.job.harness import JobHarness


def stopping(*, restart: RestartStrategy | None = None) -> JobHarness:
    """Return a job with a request to stop; its sources have been triggered."""
    job = JobHarness(restart=restart, interval_ms=100, tolerable_failures=10).run()
    job.trigger(job.stop)
    return job


def stopped_but_for_its_tasks(**facts: RestartStrategy) -> JobHarness:
    """Return a job whose savepoint is complete and whose tasks have been notified."""
    job = stopping(**facts)
    job.ack_all(1)
    job.answer_all()
    assert len(job.take(NotifyCheckpointComplete)) == 4
    assert job.answers() == {}
    return job


def is_periodic(job: JobHarness) -> bool:
    return job.master.checkpoints.periodic.is_scheduling


def not_stopped(why: str) -> str:
    return (
        f"the savepoint is complete at chk-1, but the job did not stop with it: {why}\n"
        "Its output may not all be published: "
        "go on from this savepoint, restore_path='chk-1', and from no older checkpoint."
    )


# --- it goes well -----------------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "StopWithSavepointTest.testFinishedOnSuccessfulStopWithSavepoint",
    "StopWithSavepointTerminationHandlerImplTest.testHappyPath",
    "StopWithSavepointTerminationManagerTest.testCompletionInCorrectOrder",
    "StopWithSavepointHandlersTest.testSavepointCompletedSuccessfully",
)
@pytest.mark.parametrize("drain", [False, True])
def test_the_job_finishes_and_its_savepoint_is_the_answer(drain: bool) -> None:
    job = JobHarness(interval_ms=100).run()
    asked = job.stop(drain=drain)
    assert not is_periodic(job)
    job.answer_all()
    (kind,) = {word.options.snapshot_type.name for word in job.take(TriggerTaskCheckpoint)}
    assert kind == ("Terminate Savepoint" if drain else "Suspend Savepoint")
    job.ack_all(1)
    job.answer_all()
    job.all_become(ExecutionState.FINISHED)
    assert job.answers() == {}, "not before its workers have left"
    job.answer_all()
    assert job.status is JobStatus.FINISHED
    assert job.answers() == {asked: "chk-1"}


@pytest.mark.flink(
    "StopWithSavepointTest.testJobFinishedBeforeSavepointFuture",
    "StopWithSavepointTerminationManagerTest.testCompletionInInverseOrder",
)
def test_tasks_that_finish_before_the_savepoint_stands_wait_for_it() -> None:
    job = stopping()
    job.ack_all(1)
    job.all_become(ExecutionState.FINISHED)
    assert job.status is JobStatus.RUNNING
    assert job.take(commands.StopEpoch) == []
    job.answer_all()
    assert job.status is JobStatus.FINISHED
    assert job.answers() == {1: "chk-1"}


@pytest.mark.flink("StopWithSavepointHandlersTest.testTriggerSavepointWithDefaultDirectory")
def test_without_a_target_it_goes_to_the_configured_directory() -> None:
    job = JobHarness(savepoint_directory="/savepoints").run()
    job.stop(target=None)
    job.answer(commands.AllocateCheckpointId)
    (command,) = job.take(commands.InitializeLocation)
    assert command.target is None
    assert command.properties.is_synchronous


@pytest.mark.flink("StopWithSavepointHandlersTest.testTriggerSavepointNoDirectory")
def test_without_any_directory_the_answer_says_so_and_the_job_goes_on() -> None:
    job = JobHarness(interval_ms=100).run()
    asked = job.stop(target=None)
    job.answer(commands.AllocateCheckpointId)
    job.give(events.LocationFailed(checkpoint_id=1, error="no savepoint directory is configured"))
    assert "no savepoint directory is configured" in job.answers()[asked]
    assert job.status is JobStatus.RUNNING
    assert is_periodic(job)


@pytest.mark.flink("StopWithSavepointHandlersTest.testProvidedTriggerId")
def test_the_answer_carries_the_number_of_the_request() -> None:
    job = JobHarness().run()
    job.give(events.RequestStop(request_id=4711, target="savepoints"))
    job.answer_all()
    job.give(events.RequestStop(request_id=4712, target="savepoints"))
    assert job.answers() == {4712: "the job cannot be stopped: it is being stopped already"}
    job.ack_all(1)
    job.answer_all()
    job.all_become(ExecutionState.FINISHED)
    job.answer_all()
    assert job.answers() == {4711: "chk-1"}


# --- the savepoint fails ----------------------------------------------------------------------------------------------


def expire(job: JobHarness) -> None:
    job.wait(600_000)


def fail_to_write(job: JobHarness) -> None:
    job.ack_all(1)
    job.give(events.MetadataFailed(checkpoint_id=1, error="disk full"))


@pytest.mark.flink(
    "StopWithSavepointTest.testErrorCreatingSavepointLeadsToTransitionToExecutingState",
    "StopWithSavepointTest.testExceptionalSavepointCompletionLeadsToExceptionalOperationFutureCompletion",
    "StopWithSavepointTest.testEnsureCheckpointSchedulerIsStartedAgain",
    "StopWithSavepointTerminationHandlerImplTest.testSavepointCreationFailureWithoutExecutionTermination",
    "StopWithSavepointHandlersTest.testSavepointCompletedWithException",
)
@pytest.mark.parametrize(("fault", "why"), [(expire, "expired"), (fail_to_write, "disk full")])
def test_without_a_savepoint_the_job_goes_on_and_so_do_its_checkpoints(
    fault: Callable[[JobHarness], None], why: str
) -> None:
    job = stopping()
    fault(job)
    assert why in job.answers()[1]
    assert job.status is JobStatus.RUNNING
    assert job.master.epoch == 1
    assert is_periodic(job)
    assert job.complete(job.stop) > 1, "it may be asked again"


@pytest.mark.flink("StopWithSavepointTerminationHandlerImplTest.testSavepointCreationFailureWithFinishingExecutions")
def test_without_a_savepoint_tasks_that_have_finished_go_back() -> None:
    """They ended with the savepoint, so it is unknown what they published."""
    job = stopping()
    job.ack_all(1)
    job.all_become(ExecutionState.FINISHED)
    job.give(events.MetadataFailed(checkpoint_id=1, error="disk full"))
    assert "disk full" in job.answers()[1]
    assert job.status is JobStatus.RESTARTING
    job.restart()
    assert (job.status, job.master.epoch) == (JobStatus.RUNNING, 2)
    assert is_periodic(job)


@pytest.mark.flink("StopWithSavepointTerminationHandlerImplTest.testSavepointCreationFailureWithFailingExecutions")
def test_a_savepoint_that_fails_before_its_tasks_do_is_answered_once() -> None:
    job = stopping()
    expire(job)
    assert len(job.answers()) == 1
    job.fail()
    assert job.status is JobStatus.RESTARTING
    job.restart()
    assert job.answers() == {}


def test_a_job_that_finishes_by_itself_before_it_has_acked_ends_without_the_savepoint() -> None:
    job = stopping()
    job.all_become(ExecutionState.FINISHED)
    job.answer_all()
    assert job.status is JobStatus.FINISHED
    assert "suspending" in job.answers()[1]


# --- the job fails ----------------------------------------------------------------------------------------------------


def fail_task(job: JobHarness) -> None:
    job.fail()


def lose_worker(job: JobHarness) -> None:
    job.give(events.SlotLost(epoch=1, slot=0, error="gone"))


@pytest.mark.flink(
    "StopWithSavepointTest.testRestartOnGlobalFailureIfRestartConfigured",
    "StopWithSavepointTest.testRestartingOnUpdateTaskExecutionStateWithRestart",
    "StopWithSavepointTest.testExceptionalOperationFutureCompletionOnLeaveWhileWaitingOnSavepointCompletion",
    "StopWithSavepointTest.testConcurrentSavepointFailureAndGloballyTerminalStateCauseRestart",
)
@pytest.mark.parametrize("fault", [fail_task, lose_worker])
def test_a_failure_before_the_savepoint_stands_is_one_restart_and_one_answer(
    fault: Callable[[JobHarness], None],
) -> None:
    job = stopping()
    job.ack(1, "sums/0")
    fault(job)
    assert "FailoverRegion is restarting" in job.answers()[1]
    assert job.status is JobStatus.RESTARTING
    job.decline(1)
    job.restart()
    assert (job.status, job.master.epoch) == (JobStatus.RUNNING, 2)
    assert is_periodic(job)
    assert job.answers() == {}


@pytest.mark.flink(
    "StopWithSavepointTest.testFailingOnGlobalFailureIfNoRestartConfigured",
    "StopWithSavepointTest.testFailingOnUpdateTaskExecutionStateWithNoRestart",
    "StopWithSavepointTest.testJobFailedAndSavepointOperationFails",
)
@pytest.mark.parametrize("fault", [fail_task, lose_worker])
def test_a_failure_without_restarts_fails_the_job_and_the_request(fault: Callable[[JobHarness], None]) -> None:
    job = stopping(restart=NoRestart())
    fault(job)
    assert job.status is JobStatus.FAILING
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert "FailoverRegion is restarting" in job.answers()[1]


@pytest.mark.flink(
    "StopWithSavepointTerminationHandlerImplTest.testFailedTerminationHandling",
)
@pytest.mark.parametrize("restart", [NoRestart(), FixedDelay(3, 10)], ids=["no restart", "restarts"])
@pytest.mark.parametrize("finished", [(), ("source/0", "sums/0")], ids=["none finished", "some finished"])
@pytest.mark.parametrize("fault", [fail_task, lose_worker])
def test_once_the_savepoint_stands_no_failure_is_recovered_from(
    restart: RestartStrategy, finished: tuple[str, ...], fault: Callable[[JobHarness], None]
) -> None:
    """Its sinks may have published: an older checkpoint would publish the same again."""
    job = stopped_but_for_its_tasks(restart=restart)
    for task in finished:
        job.become(task, ExecutionState.FINISHED)
    job.take(commands.JobStatusChanged)
    fault(job)
    assert [word.status for word in job.take(commands.JobStatusChanged)] == ["FAILING"], "no restart is begun"
    job.answer_all()
    assert (job.status, job.master.epoch) == (JobStatus.FAILED, 1)
    why = "source/1 failed: it broke" if fault is fail_task else "worker 0 was lost: gone"
    assert job.answers() == {1: not_stopped(why)}
    assert job.master.error == not_stopped(why)
    assert not any("chk-1/_metadata" in word.paths for word in job.take(commands.DiscardState))


DURABLE = {"store": "filesystem", "directory": "/checkpoints"}


def stored_with(job: JobHarness) -> commands.StoreCheckpoint:
    """Return the command to the store for a job whose tasks have all acked the savepoint."""
    job.ack_all(1)
    job.answer(commands.WriteMetadata)
    (noted,) = job.take(commands.StoreCheckpoint)
    return noted


def durable_and_stopping() -> JobHarness:
    """Return a job with a durable store that was asked to stop."""
    job = JobHarness(interval_ms=100, tolerable_failures=10, **DURABLE).run()
    job.trigger(job.stop)
    return job


def test_a_durable_store_notes_the_savepoint_before_any_task_is_told() -> None:
    job = durable_and_stopping()
    noted = stored_with(job)
    assert (noted.checkpoint_id, noted.claim_mode) == (1, RecoveryClaimMode.NO_CLAIM)
    assert job.take(NotifyCheckpointComplete) == []
    job.give(events.CheckpointStored(checkpoint_id=1))
    assert len(job.take(NotifyCheckpointComplete)) == 4
    job.all_become(ExecutionState.FINISHED)
    job.answer(commands.StopEpoch)
    assert job.take(commands.RemoveStored) == []
    job.answer(commands.StoreJobResult)
    assert [word.checkpoint_id for word in job.take(commands.RemoveStored)] == [1]
    assert (job.status, job.answers()) == (JobStatus.FINISHED, {1: "chk-1"})


def test_a_failure_while_the_savepoint_is_noted_waits_for_that_and_fails_the_job() -> None:
    job = durable_and_stopping()
    stored_with(job)
    job.fail()
    assert job.status is JobStatus.RESTARTING
    job.give(events.CheckpointStored(checkpoint_id=1))
    assert job.status is JobStatus.FAILING
    job.answer_all()
    assert (job.status, job.master.epoch) == (JobStatus.FAILED, 1)
    assert job.answers() == {1: not_stopped("source/1 failed: it broke")}


@pytest.mark.flink("StopWithSavepointTest.testJobFailedAndSavepointOperationSucceeds")
def test_a_job_that_fails_for_good_while_the_savepoint_is_noted_names_it() -> None:
    job = JobHarness(restart=NoRestart(), interval_ms=100, **DURABLE).run()
    job.trigger(job.stop)
    stored_with(job)
    job.fail()
    assert job.status is JobStatus.FAILING
    job.give(events.CheckpointStored(checkpoint_id=1))
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert job.answers() == {1: not_stopped("source/1 failed: it broke")}
    assert job.master.error == not_stopped("source/1 failed: it broke")


@pytest.mark.parametrize("unknown", [False, True])
def test_a_savepoint_that_cannot_be_noted_sends_the_job_back(unknown: bool) -> None:
    """It published nothing. Its files stay if it is unknown whether it was stored."""
    job = durable_and_stopping()
    stored_with(job)
    job.give(events.CheckpointStoreFailed(checkpoint_id=1, error="no quorum", possibly_inconsistent=unknown))
    assert "no quorum" in job.answers()[1]
    assert job.take(NotifyCheckpointComplete) == []
    discarded = [word for word in job.take(commands.DiscardState) if word.checkpoint_id == 1]
    aborted = job.take(NotifyCheckpointAborted)
    if unknown:
        assert (discarded, aborted) == ([], [])
        assert job.status is JobStatus.RESTARTING
        job.answer(commands.StopEpoch)
        assert [word for word in job.take(commands.DiscardState) if word.checkpoint_id == 1] == []
    else:
        assert len(aborted) == 4
        assert len(discarded) == 1


@pytest.mark.parametrize("request_", [events.RequestCheckpoint, events.RequestSavepoint])
def test_no_other_snapshot_is_begun_while_the_job_is_being_stopped(request_: type[events.RequestCheckpoint]) -> None:
    job = stopping()
    job.give(request_(request_id=7))
    assert job.answers() == {7: "no snapshot can be taken any more: the job is being stopped with a savepoint"}


@pytest.mark.flink("StopWithSavepointTest.testTransitionToCancellingOnCancel")
@pytest.mark.parametrize("stands", [False, True])
def test_a_job_that_is_cancelled_meanwhile_is_cancelled(stands: bool) -> None:
    job = stopped_but_for_its_tasks() if stands else stopping()
    job.give(events.RequestCancel())
    assert job.status is JobStatus.CANCELLING
    job.answer_all()
    assert job.status is JobStatus.CANCELED
    (answer,) = job.answers().values()
    assert answer == (not_stopped("it is CANCELED") if stands else "Checkpoint Coordinator is suspending.")


@pytest.mark.flink("StopWithSavepointTerminationHandlerImplTest.testInvalidExecutionTerminationCall")
def test_an_end_of_the_epoch_that_nobody_asked_for_is_not_the_stops() -> None:
    job = stopping()
    job.give(events.EpochEnded(epoch=1))
    assert job.status is JobStatus.RUNNING
    assert job.answers() == {}
    job.ack_all(1)
    job.answer_all()
    job.all_become(ExecutionState.FINISHED)
    job.answer_all()
    assert job.answers() == {1: "chk-1"}


@pytest.mark.parametrize("before", ["before it runs", "at its end"])
def test_only_a_running_job_can_be_stopped(before: str) -> None:
    job = JobHarness()
    if before != "before it runs":
        job.run()
        job.give(events.RequestCancel())
    status = job.status.name
    asked = job.stop()
    assert job.answers() == {asked: f"the job cannot be stopped: it is {status}"}


@pytest.mark.flink(
    "StopWithSavepointTerminationHandlerImplTest.testSavepointCreationParameterBothNull",
    "StopWithSavepointTerminationHandlerImplTest.testSavepointCreationParameterBothSet",
)
@pytest.mark.parametrize("both", [{}, {"path": "chk-1", "error": "no"}], ids=["neither", "both"])
def test_an_answer_is_a_path_or_an_error(both: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="request 1: expected a path or an error"):
        commands.CompleteRequest(request_id=1, **both)


# --- while the job is being restarted ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["savepoint", "stop"])
@pytest.mark.parametrize("when", ["workers leave", "delay", "deploying", "some run"])
def test_a_savepoint_asked_for_during_a_restart_waits_for_the_tasks(how: str, when: str) -> None:
    job = JobHarness(restart=FixedDelay(3, 5)).run()
    job.fail()
    if when != "workers leave":
        job.answer_all()
    if when in ("deploying", "some run"):
        job.wait(5)
        job.answer_all()
    if when == "some run":
        job.become(job.tasks[0], ExecutionState.RUNNING)
    asked = job.savepoint() if how == "savepoint" else job.stop()
    assert job.answers() == {}
    if when in ("workers leave", "delay"):
        job.answer_all()
        job.wait(5)
        job.answer_all()
    job.all_become(ExecutionState.RUNNING)
    job.answer_all()
    (checkpoint_id,) = job.master.checkpoints.pending
    job.ack_all(checkpoint_id)
    job.answer_all()
    if how == "stop":
        job.all_become(ExecutionState.FINISHED)
        job.answer_all()
        assert job.status is JobStatus.FINISHED
    assert job.answers() == {asked: f"chk-{checkpoint_id}"}


def test_a_savepoint_that_waits_for_a_restart_is_answered_when_there_is_none() -> None:
    job = JobHarness(restart=FixedDelay(3, 5)).run()
    job.fail()
    asked = [job.savepoint(), job.stop()]
    job.give(events.RequestCancel())
    job.answer_all()
    assert job.status is JobStatus.CANCELED
    error = "the savepoint waited for a restart, and the job is CANCELED"
    assert job.answers() == dict.fromkeys(asked, error)


def test_before_the_tasks_have_run_once_a_savepoint_is_declined_as_in_flink() -> None:
    job = JobHarness().start()
    asked = job.savepoint()
    assert "Not all required tasks are currently running" in job.answers()[asked]
