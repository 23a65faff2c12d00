"""The life of a job: start, failure, restart, cancel, end; what earlier epochs still say is dropped."""

from __future__ import annotations

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import NotifyCheckpointAborted, TaskStateChanged
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolError
from kit.machines.job.status import PHASES, JobEvent, JobStatus, Phase
from kit.stream.settings.job_settings import FixedDelay, NoRestart
from tests.machines.coordinator.harness import keyed_state
from tests.machines.job.harness import COVERED, JobHarness


def statuses(job: JobHarness) -> list[str]:
    return [word.status for word in job.take(commands.JobStatusChanged)]


def test_a_job_is_deployed_with_each_task_once_in_epoch_1() -> None:
    job = JobHarness().start()
    (epoch,) = job.take(commands.StartEpoch)
    assert (epoch.epoch, epoch.parallelism) == (1, {"source": 2, "sums": 2})
    assert [(word.task, word.attempt, word.restore) for word in job.deployed()] == [
        ("source/0", 1, None),
        ("source/1", 1, None),
        ("sums/0", 1, None),
        ("sums/1", 1, None),
    ]
    assert statuses(job) == ["RUNNING"]


def test_a_job_is_started_once() -> None:
    job = JobHarness().start()
    with pytest.raises(ProtocolError, match="was started before"):
        job.give(events.StartJob())


def test_periodic_checkpoints_begin_when_the_last_task_runs() -> None:
    job = JobHarness(interval_ms=100).start()
    for task in job.tasks[:-1]:
        job.become(task, ExecutionState.RUNNING)
    assert job.timers == {}
    job.become(job.tasks[-1], ExecutionState.RUNNING)
    assert job.timers == {"checkpoint-trigger": job.at + 100}
    job.wait(100)
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [1]


def test_without_an_interval_there_are_none() -> None:
    job = JobHarness().run()
    assert job.timers == {}


# --- failing and restarting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["task", "slot"])
def test_a_failure_aborts_what_is_pending_and_restores_the_latest(how: str) -> None:
    job = JobHarness(interval_ms=100, restart=FixedDelay(1, 30)).run()
    checkpoint_id = job.trigger()
    for task in job.tasks:
        job.ack(checkpoint_id, task, keyed_state(f"chk-1/{task}") if task.startswith("sums") else None)
    job.answer_all()
    job.trigger()
    job.take(commands.JobStatusChanged)
    job.deployed()
    if how == "task":
        job.fail()
    else:
        job.give(events.SlotLost(epoch=1, slot=1, error="SIGKILL"))
    assert job.master.checkpoints.pending == {}
    assert {word.checkpoint_id for word in job.take(NotifyCheckpointAborted)} == {2}
    assert "checkpoint-trigger" not in job.timers
    assert statuses(job) == ["RESTARTING"]
    assert [word.epoch for word in job.take(commands.StopEpoch)] == [1]
    job.give(events.EpochEnded(epoch=1))
    assert job.deployed() == []
    job.wait(30)
    deployed = {word.task: word for word in job.deployed()}
    assert {word.attempt for word in deployed.values()} == {2}
    restores = [deployed[task].restore for task in ("sums/0", "sums/1")]
    assert [restore and restore.checkpoint_id for restore in restores] == [1, 1]
    assert statuses(job) == ["RUNNING"]


def test_a_restart_waits_for_the_workers_to_leave_as_long_as_it_takes() -> None:
    job = JobHarness(restart=FixedDelay(1, 30)).run()
    job.deployed()
    job.fail()
    job.wait(1_000)
    assert job.deployed() == []
    job.answer(commands.StopEpoch)
    assert len(job.deployed()) == 4


def test_a_restart_waits_until_it_is_known_whether_a_checkpoint_stands() -> None:
    job = JobHarness(restart=FixedDelay(1, 0)).run()
    checkpoint_id = job.trigger()
    job.ack_all(checkpoint_id)
    job.answer(commands.WriteMetadata)
    job.deployed()
    job.fail()
    job.wait(10)
    job.answer(commands.StopEpoch)
    assert job.deployed() == []
    job.answer(commands.StoreCheckpoint)
    assert {word.restore and word.restore.checkpoint_id for word in job.deployed()} <= {1, None}
    assert job.master.epoch == 2
    assert job.master.checkpoints.store.latest_id == 1


def test_when_the_strategy_gives_up_the_job_fails_with_the_last_error() -> None:
    job = JobHarness(restart=FixedDelay(1, 0)).run()
    job.fail()
    job.restart()
    job.take(commands.JobStatusChanged)
    job.fail("sums/1")
    assert statuses(job) == ["FAILING"]
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert job.master.error == "sums/1 failed: it broke"


def test_many_failures_of_one_epoch_are_one_restart() -> None:
    job = JobHarness(restart=FixedDelay(1, 0)).run()
    job.fail("source/0")
    job.fail("source/1")
    job.give(events.SlotLost(epoch=1, slot=0, error="gone"))
    assert len(job.take(commands.StopEpoch)) == 1
    assert job.status is JobStatus.RESTARTING


def test_what_earlier_attempts_still_say_is_dropped() -> None:
    job = JobHarness(restart=FixedDelay(5, 0)).run()
    job.fail()
    job.restart()
    checkpoint_id = job.trigger()
    job.emitted.clear()
    job.become("source/0", ExecutionState.FAILED, "long ago", attempt=1)
    job.give(events.SlotLost(epoch=1, slot=0, error="long ago"))
    job.give(events.EpochEnded(epoch=1))
    job.ack(checkpoint_id, "source/0", attempt=1)
    assert job.status is JobStatus.RUNNING
    assert len(job.master.checkpoints.pending[checkpoint_id].not_yet_acked_tasks) == 4
    job.become("no/7", ExecutionState.FAILED)
    assert job.status is JobStatus.RUNNING


def test_a_task_that_was_dismissed_is_not_asked_for_checkpoints() -> None:
    job = JobHarness(restart=FixedDelay(5, 100)).run()
    job.fail("source/1")
    job.become("source/0", ExecutionState.RUNNING)
    asked = job.request()
    assert "source/0 is CANCELING" in job.answers()[asked]


def test_a_checkpoint_that_was_about_to_begin_does_not_survive_the_restart() -> None:
    job = JobHarness(restart=FixedDelay(5, 0)).run()
    job.request()
    job.fail()
    job.answer_all()
    job.wait(5)
    job.answer_all()
    assert job.master.epoch == 2
    assert job.master.checkpoints.pending == {}


def test_what_workers_wrote_for_aborted_checkpoints_is_swept_once_they_have_left() -> None:
    job = JobHarness(restart=FixedDelay(5, 0)).run()
    job.complete()
    job.trigger()
    job.fail()
    assert [word for word in job.take(commands.DiscardState) if word.everything] == []
    job.answer(commands.StopEpoch)
    swept = [(word.location, word.everything) for word in job.take(commands.DiscardState)]
    assert swept == [("chk-2", True)]


def test_too_many_failed_checkpoints_restart_the_job() -> None:
    job = JobHarness(restart=FixedDelay(5, 0), tolerable_failures=0).run()
    job.decline(job.trigger())
    assert job.status is JobStatus.RESTARTING
    assert "1 checkpoint failed in a row" in job.master.error


def test_a_checkpoint_that_could_not_begin_is_listed_among_the_others() -> None:
    job = JobHarness(tolerable_failures=5).start()
    job.request()
    assert "Not all required tasks" in job.answers()[1]
    job.all_become(ExecutionState.RUNNING)
    job.complete()
    job.at += 10
    job.request()
    job.take(commands.AllocateCheckpointId)
    job.give(events.CheckpointIdFailed(error="the store cannot be reached"))
    job.at += 10
    job.complete()
    table = job.master.checkpoints.statistics.to_pandas()
    assert table["id"].tolist() == [2, -1, 1]
    assert table["status"].tolist() == ["COMPLETED", "FAILED", "COMPLETED"]
    assert "the store cannot be reached" in table["failure"][1]
    assert job.master.checkpoints.statistics.counts.failed == 2


# --- restoring --------------------------------------------------------------------------------------------------------


@pytest.mark.flink("SavepointITCase.testSubmitWithUnknownSavepointPath")
def test_a_restore_path_that_is_not_there_fails_the_job_before_it_starts() -> None:
    job = JobHarness()
    job.give(events.StartJob(restore_path="/nowhere"))
    assert [word.path for word in job.take(commands.ResolveSnapshot)] == ["/nowhere"]
    job.give(events.StartFailed(error="there is no savepoint at /nowhere"))
    assert job.status is JobStatus.FAILED
    assert job.master.error == "there is no savepoint at /nowhere"
    assert job.take(commands.StartEpoch) == []


def test_metadata_that_cannot_be_read_fails_the_job_and_names_the_path() -> None:
    job = JobHarness()
    job.give(events.StartJob(restore_path="/sp"))
    job.give(events.SnapshotResolved(path="/sp", location="/sp", metadata=b"what is this?", covered_output=COVERED))
    assert job.status is JobStatus.FAILED
    assert job.master.error.startswith("/sp: ")


def test_hooks_get_their_state_back_before_anything_is_deployed() -> None:
    job = JobHarness(hooks=["offsets"], restart=FixedDelay(1, 0)).run()
    job.complete()
    job.deployed()
    job.fail()
    job.wait(1)
    job.answer(commands.StopEpoch)
    (restore,) = job.take(commands.RestoreMasterHooks)
    assert restore.states == (("offsets", 3, b"offsets"),)
    assert job.deployed() == []
    job.give(events.MasterHooksRestored(checkpoint_id=1))
    assert len(job.deployed()) == 4


def test_a_hook_that_cannot_be_restored_at_first_is_asked_again_by_the_restart_strategy() -> None:
    """`DefaultScheduler.restartTasks` hands the error of a restore to `handleGlobalFailure`."""
    job = JobHarness(hooks=["offsets"], restart=FixedDelay(2, 5)).run()
    job.complete()
    job.fail()
    job.wait(5)
    job.answer(commands.StopEpoch)
    job.give(events.MasterHookFailed(checkpoint_id=1, hook="offsets", error="not there yet"))
    assert job.status is JobStatus.RESTARTING
    assert len(job.take(commands.RestoreMasterHooks)) == 1
    job.deployed()
    job.wait(5)
    assert len(job.take(commands.RestoreMasterHooks)) == 1
    job.give(events.MasterHooksRestored(checkpoint_id=1))
    assert len(job.deployed()) == 4


@pytest.mark.parametrize(("restarted", "status"), [(False, JobStatus.FAILED), (True, JobStatus.RESTARTING)])
def test_a_hook_that_cannot_be_reset_fails_the_job_before_a_task_is_deployed(
    restarted: bool, status: JobStatus
) -> None:
    """At the very start for good, later as the restart strategy says (`MasterHooks.reset` throws)."""
    job = JobHarness(hooks=["offsets"], restart=FixedDelay(3, 5))
    if not restarted:
        job.give(events.StartJob())
        job.answer(commands.RecoverCheckpoints)
    else:
        job.run()
        job.deployed()
        job.fail()
        job.wait(5)
        job.answer(commands.StopEpoch)
    assert job.deployed() == []
    assert len(job.take(commands.ResetMasterHooks)) == 1
    job.give(events.MasterHooksReset(error="the ledger is locked"))
    job.answer(commands.StoreJobResult)
    assert job.status is status
    assert "the ledger is locked" in job.master.error
    assert job.deployed() == []


def test_a_hook_that_cannot_be_restored_fails_the_job() -> None:
    job = JobHarness(hooks=["offsets"], restart=FixedDelay(1, 0)).run()
    job.complete()
    job.fail()
    job.wait(1)
    job.answer(commands.StopEpoch)
    job.give(events.MasterHookFailed(checkpoint_id=1, hook="offsets", error="no longer there"))
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert "no longer there" in job.master.error


def test_a_job_that_is_cancelled_while_hooks_are_restored_is_not_deployed() -> None:
    job = JobHarness(hooks=["offsets"], restart=FixedDelay(1, 0)).run()
    job.complete()
    job.fail()
    job.wait(1)
    job.answer(commands.StopEpoch)
    job.deployed()
    job.give(events.RequestCancel())
    job.give(events.MasterHooksRestored(checkpoint_id=1))
    assert job.deployed() == []
    assert job.status is JobStatus.CANCELED


# --- ending -----------------------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointAfterAllTasksFinishedITCase.testImmediateCheckpointing")
def test_when_all_data_has_ended_the_last_checkpoint_begins_at_once() -> None:
    job = JobHarness(interval_ms=100_000).run()
    for task in job.tasks:
        assert job.take(commands.AllocateCheckpointId) == []
        job.give(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING, end_of_data=True))
    job.answer_all()
    job.ack_all(1)
    job.answer_all()
    assert job.master.checkpoints.store.latest_id == 1
    assert job.answers() == {}


def test_the_last_checkpoint_comes_also_when_none_is_periodic() -> None:
    job = JobHarness().run()
    job.become("source/0", ExecutionState.FINISHED)
    for task in job.tasks[1:]:
        job.give(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING, end_of_data=True))
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [1]


def test_a_last_checkpoint_that_fails_is_tried_again_where_none_is_periodic() -> None:
    job = JobHarness(tolerable_failures=5).run()
    for task in job.tasks:
        job.give(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING, end_of_data=True))
    job.answer_all()
    job.decline(1)
    job.answer_all()
    assert job.master.checkpoints.pending == {}
    job.give(events.TimerFired(timer="another"))
    job.wait(1_000)
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [2]


def _all_data_ends(job: JobHarness) -> None:
    for task in job.tasks:
        attempt = job.master.epoch
        job.give(TaskStateChanged(task=task, attempt=attempt, state=ExecutionState.RUNNING, end_of_data=True))
    job.answer_all()


@pytest.mark.parametrize("failed_before", [True, False], ids=["declined before the failure", "aborted by it"])
def test_after_a_restart_the_last_checkpoint_is_taken_once(failed_before: bool) -> None:
    """The timer of the epoch before does not begin another one beside it."""
    job = JobHarness(tolerable_failures=5, max_concurrent=2).run()
    _all_data_ends(job)
    if failed_before:
        job.decline(1)
        job.answer_all()
    job.fail()
    job.restart()
    _all_data_ends(job)
    assert list(job.master.checkpoints.pending) == [2]
    job.wait(2_000)
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [2]


def test_a_stop_that_fails_takes_the_last_checkpoint_at_once_and_once() -> None:
    job = JobHarness(tolerable_failures=5, max_concurrent=2).run()
    _all_data_ends(job)
    job.decline(1)
    job.answer_all()
    job.stop()
    assert len(job.take(commands.AllocateCheckpointId)) == 1
    job.give(events.CheckpointIdFailed(error="no connection"))
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [2]
    job.wait(2_000)
    job.answer_all()
    assert list(job.master.checkpoints.pending) == [2]


def test_without_checkpoints_after_tasks_finish_there_is_no_last_one() -> None:
    job = JobHarness(checkpoints_after_tasks_finish=False).run()
    for task in job.tasks:
        job.give(TaskStateChanged(task=task, attempt=1, state=ExecutionState.RUNNING, end_of_data=True))
    assert job.take(commands.AllocateCheckpointId) == []


def test_the_job_has_finished_when_its_tasks_have_and_its_workers_have_left() -> None:
    job = JobHarness().run()
    job.all_become(ExecutionState.FINISHED)
    assert job.status is JobStatus.RUNNING
    asked = [job.savepoint(), job.request(), job.stop()]
    over = "no snapshot can be taken any more: the job ends"
    errors = [over, over, "the job cannot be stopped: it is over"]
    assert job.answers() == dict(zip(asked, errors))
    job.give(events.SlotLost(epoch=1, slot=0, error="it left"))
    job.answer_all()
    assert job.status is JobStatus.FINISHED


@pytest.mark.parametrize("when", ["created", "running", "restarting", "restarting, workers gone"])
def test_a_job_can_be_cancelled_at_any_time(when: str) -> None:
    job = JobHarness(restart=FixedDelay(1, 100))
    if when != "created":
        job.run()
    if when.startswith("restarting"):
        job.fail()
    if when.endswith("gone"):
        job.answer_all()
    job.give(events.RequestCancel())
    job.answer_all()
    assert job.status is JobStatus.CANCELED
    job.give(events.RequestCancel())
    job.wait(1_000)
    job.answer_all()
    assert job.status is JobStatus.CANCELED


def test_cancelling_aborts_what_is_pending() -> None:
    job = JobHarness().run()
    asked = job.request()
    job.answer_all()
    job.give(events.RequestCancel())
    assert job.master.checkpoints.pending == {}
    assert "suspending" in job.answers()[asked]


def test_a_job_that_has_not_started_fails_at_the_first_error_of_many() -> None:
    job = JobHarness()
    job.give(events.StartJob(restore_path="/sp"))
    job.give(events.StartFailed(error="first"))
    job.give(events.StartFailed(error="second"))
    job.give(events.SnapshotResolved(path="/sp", location="/sp", metadata=b"", covered_output=COVERED))
    assert job.master.error == "first"


def test_a_failure_without_restarts_is_final() -> None:
    job = JobHarness(restart=NoRestart()).run()
    job.deployed()
    job.fail()
    job.answer_all()
    assert job.status is JobStatus.FAILED
    job.wait(1_000)
    assert job.deployed() == []


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_phase_leads_to_an_end_that_the_user_sees() -> None:
    assert set(PHASES) == set(Phase)
    assert {phase.status for phase in Phase} == set(JobStatus)
    ends = {phase for phase in Phase if PHASES.is_end(phase)}
    assert {phase.status for phase in ends} == {status for status in JobStatus if status.is_terminal}
    for phase in Phase:
        reachable, before = {phase}, set[Phase]()
        while reachable != before:
            before = set(reachable)
            reachable |= {after for each in before for after in PHASES.targets(each)}
        assert reachable & ends
        possible = {each.status for each in reachable & ends} - {JobStatus.SUSPENDED}
        assert phase.ending_as in (None, JobStatus.SUSPENDED) or possible == {phase.ending_as}


def test_a_step_that_the_table_does_not_have_is_refused() -> None:
    job = JobHarness(restart=NoRestart()).run()
    with pytest.raises(
        ProtocolError, match=r"epoch 1\) is RUNNING and cannot take 'it cannot begin'; all tasks have f"
    ):
        job.master._enter(JobEvent.CANNOT_BEGIN)


def test_an_event_of_a_task_is_refused() -> None:
    job = JobHarness()
    with pytest.raises(ProtocolError, match="job cannot handle ProcessInput; it knows AcknowledgeCheckpoint"):
        job.give(events.ProcessInput())
    assert "AcknowledgeCheckpoint" in job.master.known_events()
