"""A JobMaster that another driver has replaced stops, in every phase, and deletes nothing that the other may need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import NotifyCheckpointAborted, NotifyCheckpointComplete
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.status import JobStatus, Phase
from kit.stream.settings.job_settings import FixedDelay, NoRestart
from tests.machines.coordinator.harness import keyed_state
from tests.machines.job.harness import JobHarness

LOST = events.LeadershipLost(error="driver 2 has taken over this job")
TASKS_STATE = keyed_state("chk-1/sums")


def running(**options: Any) -> JobHarness:
    """Return a job that runs over a durable store, with one completed checkpoint."""
    options = {"restart": FixedDelay(5, 30)} | options
    job = JobHarness(store="filesystem", directory="/c", **options).run()
    complete(job, job.trigger())
    return job


def complete(job: JobHarness, checkpoint_id: int) -> None:
    """Have all tasks acknowledge a checkpoint, and answer all that follows."""
    for task in job.tasks:
        job.ack(checkpoint_id, task, TASKS_STATE if task.startswith("sums") else None)
    job.answer_all()


def restoring() -> JobHarness:
    job = running(hooks=("log",))
    job.fail()
    job.answer(commands.StopEpoch)
    job.wait(30)
    return job


def restarting() -> JobHarness:
    job = running()
    job.fail()
    return job


def finishing() -> JobHarness:
    job = running()
    job.all_become(ExecutionState.FINISHED)
    return job


def failing() -> JobHarness:
    job = running(restart=NoRestart())
    job.fail()
    return job


def cancelling() -> JobHarness:
    job = running()
    job.give(events.RequestCancel())
    return job


PHASES: dict[Phase, Callable[[], JobHarness]] = {
    Phase.RESTORING: restoring,
    Phase.RUNNING: running,
    Phase.RESTARTING: restarting,
    Phase.FINISHING: finishing,
    Phase.FAILING: failing,
    Phase.CANCELLING: cancelling,
}


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_job_that_lost_the_leadership_is_suspended_and_keeps_its_checkpoints(phase: Phase) -> None:
    job = PHASES[phase]()
    assert job.master.phase is phase
    job.give(LOST)
    assert job.master.phase in (Phase.SUSPENDING, Phase.SUSPENDED)
    job.answer_all()
    job.wait(10_000)
    assert job.status is JobStatus.SUSPENDED
    assert job.master.error == LOST.error
    assert job.master.epoch == 1
    for kind in (commands.StoreJobResult, commands.RemoveOrphans, commands.RemoveStored):
        assert job.take(kind) == []
    assert [word.checkpoint_id for word in job.take(commands.DiscardState)] == []


def test_a_job_that_has_not_begun_fails_and_touches_nothing() -> None:
    job = JobHarness(store="filesystem", directory="/c")
    job.give(events.StartJob())
    job.give(LOST)
    assert job.status is JobStatus.FAILED
    assert job.master.error == LOST.error
    assert job.take(commands.DiscardState) == job.take(commands.RemoveOrphans) == []


def test_what_is_pending_is_aborted_and_its_files_go() -> None:
    job = running()
    request = job.request()
    job.answer_all()
    job.ack(2, "sums/0", keyed_state("chk-2/sums-0"))
    job.give(LOST)
    assert {word.checkpoint_id for word in job.take(NotifyCheckpointAborted)} == {2}
    assert "driver 2" in job.answers()[request]
    job.answer_all()
    discarded = job.take(commands.DiscardState)
    assert {word.checkpoint_id for word in discarded} == {2}
    assert job.status is JobStatus.SUSPENDED


def test_a_checkpoint_that_is_being_stored_keeps_its_files_and_nobody_is_told_of_it() -> None:
    """Only the other driver knows whether it is in the store: it may have been restored from this very checkpoint."""
    job = running()
    job.take(NotifyCheckpointComplete)
    job.take(commands.DiscardState)
    checkpoint_id = job.trigger()
    for task in job.tasks:
        job.ack(checkpoint_id, task, TASKS_STATE if task.startswith("sums") else None)
    job.answer(commands.WriteMetadata)
    assert [word.checkpoint_id for word in job.take(commands.StoreCheckpoint)] == [checkpoint_id]
    job.give(LOST)
    job.give(events.CheckpointStored(checkpoint_id=checkpoint_id))  # what the store answered before
    job.answer_all()
    assert job.status is JobStatus.SUSPENDED
    assert job.take(NotifyCheckpointComplete) == job.take(NotifyCheckpointAborted) == []
    assert [word.checkpoint_id for word in job.take(commands.DiscardState)] == []


@pytest.mark.flink("StopWithSavepointTest.testTransitionToFinishedOnSuspend")
def test_a_user_who_waits_for_the_stop_of_the_job_is_answered() -> None:
    job = running()
    request = job.stop()
    job.answer_all()
    job.give(LOST)
    job.answer_all()
    assert "driver 2" in job.answers()[request]
    assert job.status is JobStatus.SUSPENDED


def test_it_is_lost_once() -> None:
    job = running()
    job.give(LOST)
    job.give(LOST)
    assert len(job.take(commands.StopEpoch)) == 1
    job.give(events.EpochEnded(epoch=1))
    assert job.status is JobStatus.SUSPENDED
    job.give(LOST)
    job.give(events.RequestCancel())
    assert job.status is JobStatus.SUSPENDED


@pytest.mark.flink(
    "DefaultSchedulerCheckpointCoordinatorTest.testClosingSchedulerShutsDownCheckpointCoordinatorOnSuspendedExecutionGraph",
    "DefaultSchedulerCheckpointCoordinatorTest.testClosingSchedulerSuspendsExecutionGraphAndShutsDownCheckpointCoordinator",
)
def test_the_coordinator_of_a_suspended_job_is_shut_down_and_begins_no_checkpoint() -> None:
    job = running(interval_ms=100)
    job.give(LOST)
    job.answer_all()
    assert job.status is JobStatus.SUSPENDED
    job.take(commands.AllocateCheckpointId)
    request = job.request()
    job.wait(10_000)
    assert job.answers()[request]
    assert job.take(commands.AllocateCheckpointId) == []
    assert dict(job.master.checkpoints.pending) == {}
    assert job.take(commands.RemoveStored) == job.take(commands.DiscardState) == [], "the next driver needs them"
