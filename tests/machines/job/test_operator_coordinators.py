"""Operator coordinators in the life of a job: started, notified of tasks, snapshotted, reset, closed."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.metadata import CheckpointMetadata, write_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.messages import DeployTask, OperatorEventToTask, TriggerTaskCheckpoint
from kit.core.protocol.tasks import ExecutionState
from kit.core.state.handles import ByteStreamStateHandle
from kit.core.state.operator_state import OperatorState
from kit.machines.job.status import JobStatus
from kit.stream.operators.coordinator import NO_CHECKPOINT
from kit.stream.settings.job_settings import NoRestart
from tests.machines.job.harness import COVERED, STATE, JobHarness


def coordinated(**facts: Any) -> JobHarness:
    return JobHarness(coordinator=True, **facts)


# --- life -------------------------------------------------------------------------------------------------------------


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testCoordinatorStartedWhenSchedulerStarts")
def test_it_starts_with_the_job_before_tasks_are_deployed() -> None:
    job = coordinated()
    assert job.coordinator.calls == []
    job.start()
    assert job.coordinator.calls == [("start",)]
    assert len(job.deployed()) == 4


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testCoordinatorDisposedWhenSchedulerStops")
@pytest.mark.parametrize("end", ["cancelled", "finished", "failed", "cancelled before it began"])
def test_it_is_closed_once_when_the_job_ends(end: str) -> None:
    job = coordinated(restart=NoRestart())
    if end == "cancelled before it began":
        job.give(events.RequestCancel())
    else:
        job.run()
        if end == "cancelled":
            job.give(events.RequestCancel())
        elif end == "finished":
            job.all_become(ExecutionState.FINISHED)
        else:
            job.fail()
        assert job.coordinator.said("close") == []
        job.answer_all()
    assert job.status.is_terminal
    assert job.coordinator.said("close") == [("close",)]


@pytest.mark.flink(
    "OperatorCoordinatorSchedulerTest.testFailureToStartPropagatesExceptions",
    "OperatorCoordinatorSchedulerTest.testFailureToStartClosesCoordinator",
)
def test_a_job_whose_coordinator_does_not_start_fails_without_a_task() -> None:
    job = coordinated(fail_in="start").start()
    assert job.status is JobStatus.FAILED
    assert job.master.error == "the coordinator of source-0 failed: RuntimeError: no start"
    assert job.take(DeployTask) == job.take(commands.StartEpoch) == []
    assert job.coordinator.calls == [("start",), ("close",)]


@pytest.mark.parametrize("call", ["event", "ready", "complete", "aborted", "failed"])
def test_a_coordinator_that_raises_fails_the_job(call: str) -> None:
    job = coordinated(fail_in=call, tolerable_failures=1).run()
    if call == "event":
        job.say("source/0", {})
    elif call == "complete":
        job.complete()
    elif call == "aborted":
        job.decline(job.trigger())
    elif call == "failed":
        job.fail()
    assert job.status is JobStatus.RESTARTING
    assert call == "failed" or job.master.error == f"the coordinator of source-0 failed: RuntimeError: no {call}"


# --- tasks come and go ------------------------------------------------------------------------------------------------


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.deployingTaskFailureNotifiesCoordinator")
def test_it_is_told_of_a_task_that_fails_while_it_is_deployed() -> None:
    job = coordinated().start()
    job.fail("source/1")
    assert job.coordinator.said("failed", "ready") == [("failed", 1, 1, "it broke")]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.runningTaskFailureNotifiesCoordinator")
def test_it_is_told_of_a_running_task_that_fails() -> None:
    job = coordinated().run()
    job.fail("source/1")
    assert job.coordinator.said("failed") == [("failed", 1, 1, "it broke")]


def test_it_is_not_told_of_other_operators_tasks() -> None:
    job = coordinated().run()
    job.fail("sums/1")
    assert job.coordinator.said("failed") == []


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.runningTaskCancellationNotifiesCoordinator")
def test_it_is_told_of_running_tasks_that_are_cancelled() -> None:
    job = coordinated().run()
    job.give(events.RequestCancel())
    job.answer_all()
    assert job.coordinator.said("failed", "close") == [("failed", 0, 1, None), ("failed", 1, 1, None), ("close",)]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.cancellationAsPartOfFailoverNotifiesCoordinator")
def test_it_is_told_of_tasks_cancelled_with_the_one_that_failed() -> None:
    job = coordinated().run()
    job.fail("source/1")
    job.answer_all()
    assert job.coordinator.said("failed") == [("failed", 1, 1, "it broke"), ("failed", 0, 1, None)]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.deployingTaskCancellationNotifiesCoordinator")
def test_it_is_told_of_tasks_cancelled_while_they_are_deployed() -> None:
    job = coordinated().start()
    job.give(events.RequestCancel())
    job.answer_all()
    assert job.coordinator.said("failed") == [("failed", 0, 1, None), ("failed", 1, 1, None)]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.taskRepeatedFailureNotifyCoordinator")
def test_it_is_told_of_every_attempt_once() -> None:
    job = coordinated().run()
    for attempt in (1, 2):
        told = job.coordinator
        job.fail("source/0")
        job.become("source/0", ExecutionState.FAILED, "again", attempt)
        job.restart()
        assert told.said("failed") == [("failed", 0, attempt, "it broke"), ("failed", 1, attempt, None)]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.taskGatewayNotSetBeforeTasksRunning")
def test_tasks_that_do_not_run_cannot_be_spoken_to() -> None:
    job = coordinated().start()
    job.become("source/0", ExecutionState.INITIALIZING)
    assert job.coordinator.gateways == {}


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.taskGatewayAvailableWhenTasksRunning")
def test_running_tasks_can_be_spoken_to() -> None:
    job = coordinated().run()
    assert job.coordinator.said("ready") == [("ready", 0, 1), ("ready", 1, 1)]
    job.say("source/0", {"send": 7, "to": 1})
    assert job.told() == [("source/1", {"n": 7})]


def test_what_a_task_says_is_answered_at_once_in_its_attempt() -> None:
    job = coordinated().run()
    job.say("source/1", {"n": 1})
    job.say("source/1", {"n": 2}, attempt=0)
    assert job.coordinator.said("event") == [("event", 1, 1, {"n": 1})]


def test_an_old_attempt_is_not_spoken_to() -> None:
    job = coordinated().run()
    old = job.coordinator.gateways[0]
    job.fail()
    job.restart()
    job.coordinator.gateways[0] = old
    job.say("source/0", {"send": 1, "to": 0})
    assert job.told() == []


# --- lost events ------------------------------------------------------------------------------------------------------


def lost(job: JobHarness, attempt: int = 1) -> None:
    job.give(events.OperatorEventLost(task="source/0", attempt=attempt, operator_id=job.operator_id, error="cut off"))


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.taskTaskManagerFailuresAreReportedBack")
def test_a_lost_event_fails_its_task_and_the_coordinator_is_told() -> None:
    job = coordinated().run()
    lost(job)
    why = "an event of its operator coordinator was lost: cut off"
    assert job.coordinator.said("failed") == [("failed", 0, 1, why)]
    assert (job.status, job.master.error) == (JobStatus.RESTARTING, f"source/0 failed: {why}")
    lost(job)
    job.restart()
    lost(job)
    assert job.status is JobStatus.RUNNING, "an event lost to an old attempt is no news"


@pytest.mark.flink("OperatorCoordinatorHolderTest.checkpointCompletionWaitsForEventFutures")
def test_a_checkpoint_completes_behind_the_events_that_were_sent_before() -> None:
    """A task's messages arrive in order, so its ack shows that it has received the events sent before its trigger."""
    job = coordinated(slow=True).run()
    job.request()
    job.answer_all()
    job.say("source/1", {"send": 1, "to": 0})
    job.say("source/1", {"snapshot": "complete"})
    assert not job.master.checkpoints.ledger.is_completed(1)
    to_source = [word for word in job.emitted if getattr(word, "task", "") == "source/0"]
    order = [type(word) for word in to_source if not isinstance(word, DeployTask)]
    assert order == [OperatorEventToTask, TriggerTaskCheckpoint]
    job.ack_all(1)
    job.answer_all()
    assert job.master.checkpoints.ledger.is_completed(1)


@pytest.mark.flink(
    "OperatorCoordinatorHolderTest.testCheckpointFailsIfSendingEventFailedAfterTrigger",
    "OperatorCoordinatorHolderTest.testCheckpointFailsIfSendingEventFailedBeforeTrigger",
)
@pytest.mark.parametrize("known", ["before the snapshot", "after the snapshot", "before the checkpoint"])
def test_a_lost_event_fails_the_checkpoint(known: str) -> None:
    job = coordinated(slow=True).run()
    if known == "before the checkpoint":
        lost(job)
    asked = job.request()
    job.answer_all(but=[commands.StopEpoch])
    if known == "after the snapshot":
        job.say("source/1", {"snapshot": "complete"})
    if known != "before the checkpoint":
        lost(job)
    job.say("source/1", {"snapshot": "complete"})
    assert job.answers()[asked]
    assert job.take(commands.WriteMetadata) == []
    assert job.master.checkpoints.pending == {}


# --- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testTakeCheckpoint")
def test_its_bytes_are_in_the_completed_checkpoint() -> None:
    job = coordinated().run()
    job.complete()
    state = job.master.checkpoints.store.latest.operator_states[job.operator_id].coordinator_state
    assert state is not None
    assert state.data == STATE


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testSnapshotSyncFailureFailsCheckpoint")
def test_raising_when_asked_for_a_snapshot_fails_checkpoint_and_job() -> None:
    job = coordinated(fail_in="checkpoint").run()
    asked = job.request()
    job.answer_all(but=[commands.StopEpoch])
    assert "it raised when asked for its snapshot" in job.answers()[asked]
    assert job.take(TriggerTaskCheckpoint) == []
    assert job.status is JobStatus.RESTARTING


def test_failing_a_snapshot_fails_the_checkpoint_only() -> None:
    job = coordinated(slow=True).run()
    asked = job.request()
    job.answer_all()
    job.say("source/1", {"snapshot": "the shop is closed"})
    assert "the shop is closed" in job.answers()[asked]
    job.answer_all()
    assert job.status is JobStatus.RUNNING
    assert job.coordinator.said("aborted") == [("aborted", 1)]
    assert job.master.checkpoints.pending == {}


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testSnapshotAsyncFailureFailsCheckpoint")
def test_a_snapshot_that_fails_after_it_was_asked_for_fails_the_checkpoint_and_not_the_job() -> None:
    job = coordinated(slow=True, tolerable_failures=1).run()
    asked = job.request()
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [1]
    job.say("source/1", {"snapshot": "the shop is closed"})
    assert "the shop is closed" in job.answers()[asked]
    assert job.master.checkpoints.pending == {}
    assert job.take(TriggerTaskCheckpoint) == []
    assert job.status is JobStatus.RUNNING


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testConfirmCheckpointComplete")
def test_it_is_told_when_a_checkpoint_stands() -> None:
    job = coordinated().run()
    checkpoint_id = job.complete()
    assert job.coordinator.said("complete", "aborted") == [("complete", checkpoint_id)]


@pytest.mark.parametrize("on", ["source", "sums"])
def test_events_wait_for_the_barrier_wherever_it_comes_from(on: str) -> None:
    """A source is told to send it: they follow the trigger. Elsewhere it comes with the data: they follow the ack."""
    job = coordinated(on=on, slow=True).run()
    job.request()
    job.answer_all()
    job.say(f"{on}/0", {"snapshot": "complete"})
    job.say(f"{on}/0", {"send": 1, "to": 1})
    held = on == "sums"
    assert job.told() == ([] if held else [("source/1", {"n": 1})])
    job.ack(1, f"{on}/1", attempt=0)
    assert job.told() == []
    job.ack(1, f"{on}/1")
    assert job.told() == ([("sums/1", {"n": 1})] if held else [])


# --- restores ---------------------------------------------------------------------------------------------------------


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testSavepointRestoresCoordinator")
def test_a_savepoint_gives_it_its_bytes_before_it_starts() -> None:
    job = coordinated()
    state = OperatorState(job.operator_id, 2, 128, {}, ByteStreamStateHandle(job.operator_id, STATE))
    job.give(events.StartJob(restore_path="sp"))
    data = write_metadata(CheckpointMetadata(7, (state,), (), None))
    job.give(events.SnapshotResolved(path="sp", location="sp", metadata=data, covered_output=COVERED))
    job.answer_all()
    assert job.coordinator.calls == [("reset", 7, STATE), ("start",)]
    assert len(job.spec.made) == 1


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testGlobalFailureResetsToCheckpoint")
def test_a_failover_gives_it_the_bytes_of_the_latest_checkpoint() -> None:
    job = coordinated().run()
    checkpoint_id = job.complete()
    job.fail()
    job.restart()
    assert job.coordinator.said("reset", "start") == [("reset", checkpoint_id, STATE), ("start",)]


@pytest.mark.flink(
    "OperatorCoordinatorSchedulerTest.testGlobalFailureBeforeCheckpointResetsToEmptyState",
    "OperatorCoordinatorSchedulerTest.testBatchGlobalFailureResetsToEmptyState",
)
@pytest.mark.parametrize("interval_ms", [1_000, None])
def test_a_failover_before_any_checkpoint_gives_it_nothing(interval_ms: int | None) -> None:
    job = coordinated(interval_ms=interval_ms).run()
    job.fail()
    job.restart()
    assert job.coordinator.said("reset", "start") == [("reset", NO_CHECKPOINT, None), ("start",)]


@pytest.mark.flink("OperatorCoordinatorSchedulerTest.testGlobalFailureTwiceWillNotResetToCheckpointTwice")
def test_two_failures_are_one_failover() -> None:
    job = coordinated().run()
    job.fail("source/0")
    job.give(events.SlotLost(epoch=1, slot=1, error="gone"))
    job.restart()
    assert [coordinator.said("reset") for coordinator in job.spec.made] == [[], [("reset", NO_CHECKPOINT, None)]]
