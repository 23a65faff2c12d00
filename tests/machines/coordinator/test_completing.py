"""The end of a checkpoint: acks of every kind, metadata, the store, the notifications, and every kind of failure."""

from __future__ import annotations

from copy import deepcopy

import pytest

from kit.core.metadata import read_metadata
from kit.core.protocol import commands, events
from kit.core.protocol.messages import (
    CheckpointMetrics,
    NotifyCheckpointAborted,
    ReportCheckpointMetrics,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.notes import (
    AcknowledgeIgnored,
    CheckpointAborted,
    CheckpointDiscarded,
    DeclineIgnored,
    MetricsIgnored,
)
from kit.core.protocol.properties import RetentionPolicy
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from kit.core.state.operator_state import FINISHED_ON_RESTORE, TaskStateSnapshot
from kit.machines.coordinator.completed.completed_checkpoint_store import CompletedCheckpointStore
from kit.machines.coordinator.ledger import REMEMBERED
from tests.machines.coordinator.harness import JOB, Harness, graph, keyed_state, operator_id
from tests.machines.coordinator.test_shared_state_registry import incremental

TASKS = ["source/0", "source/1", "sums/0", "sums/1"]


def snapshot_of(task: str, checkpoint_id: int, *shared: str) -> TaskStateSnapshot:
    """Return an ack of `task` with incremental state."""
    state = incremental(checkpoint_id, *shared).subtask_states["op"]
    return TaskStateSnapshot({operator_id(task.rpartition("/")[0]): state})


# --- the good end -----------------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerAndConfirmSimpleCheckpoint")
def test_a_checkpoint_completes_when_all_have_acked_and_then_the_next_one() -> None:
    job = Harness()
    for checkpoint_id in (1, 2):
        job.trigger()
        assert job.triggered() == [(task, checkpoint_id) for task in TASKS[:2]]
        pending = job.coordinator.pending[checkpoint_id]
        for number, task in enumerate(TASKS[:3], 1):
            job.ack(checkpoint_id, task, keyed_state(f"{task}-{checkpoint_id}"))
            job.ack(checkpoint_id, task, keyed_state(f"{task}-{checkpoint_id}"))
            assert len(pending.acked_tasks) == number
            assert not pending.is_fully_acknowledged
        assert job.take(commands.WriteMetadata) == []
        assert job.discarded() == set()
        job.complete(checkpoint_id, files=True)
        assert job.pending() == []
        assert job.retained_ids() == [checkpoint_id]
        assert job.confirmed() == [(task, checkpoint_id, checkpoint_id - 1 or -1) for task in TASKS]
        [completed] = job.retained()
        state = completed.operator_states[operator_id("sums")]
        assert sorted(state.files()) == [f"sums/0-{checkpoint_id}", f"sums/1-{checkpoint_id}"]
        assert ("complete", checkpoint_id) in job.calls
        assert f"checkpoint-timeout-{checkpoint_id}" not in job.timers
        job.discarded()
    assert job.aborted() == []


def test_every_step_is_a_command_and_the_next_waits_for_its_answer() -> None:
    job = Harness()
    job.trigger()
    job.ack_all(1)
    [write] = job.take(commands.WriteMetadata)
    metadata, version = read_metadata(write.data, write.location)
    assert (metadata.checkpoint_id, version.number) == (1, 6)
    assert (job.retained_ids(), job.take(commands.StoreCheckpoint)) == ([], [])
    job.give(events.MetadataWritten(checkpoint_id=1, path="chk-1/_metadata", size_bytes=len(write.data)))
    assert job.coordinator.ledger.storing is not None
    assert (job.retained_ids(), job.confirmed(), job.pending()) == ([], [], [1])
    assert [word.metadata_path for word in job.take(commands.StoreCheckpoint)] == ["chk-1/_metadata"]
    job.give(events.CheckpointStored(checkpoint_id=1))
    assert job.coordinator.ledger.storing is None
    assert (job.retained_ids(), len(job.confirmed()), job.pending()) == ([1], 4, [])


def test_of_several_that_all_have_acked_one_is_completed_at_a_time_in_the_order_of_their_last_acks() -> None:
    job = Harness(max_concurrent=5, max_retained=5)
    first = job.trigger_savepoint()
    others = [job.trigger() for _ in range(4)]
    order = [others[0], first, *others[1:]]
    for checkpoint_id in order:
        job.ack_all(checkpoint_id)
    for checkpoint_id in order:
        assert job.coordinator.ledger.storing is None
        (write,) = job.take(commands.WriteMetadata)
        assert write.checkpoint_id == checkpoint_id
        job.give(events.MetadataWritten(checkpoint_id=checkpoint_id, path="there", size_bytes=len(write.data)))
        if checkpoint_id == first:
            continue  # a savepoint is not stored
        storing = job.coordinator.ledger.storing
        assert storing is not None
        assert storing.checkpoint_id == checkpoint_id
        (store,) = job.take(commands.StoreCheckpoint)
        assert store.checkpoint_id == checkpoint_id
        job.give(events.CheckpointStored(checkpoint_id=checkpoint_id))
    assert job.pending() == []
    assert job.retained_ids() == others


def test_the_metadata_does_not_depend_on_the_order_of_acks() -> None:
    written = []
    for order in (TASKS, TASKS[::-1], [TASKS[2], TASKS[0], TASKS[3], TASKS[1]]):
        job = Harness()
        job.trigger()
        for task in order:
            job.ack(1, task, keyed_state(f"{task}-1"))
        written += [word.data for word in job.take(commands.WriteMetadata)]
    assert len(written) == 3
    assert len(set(written)) == 1


@pytest.mark.flink("CheckpointCoordinatorTest.testMultipleConcurrentCheckpoints")
def test_interleaved_checkpoints_complete_in_order_each_with_its_own_confirmation() -> None:
    job = Harness(max_concurrent=2, max_retained=2)
    first, second = job.trigger(), job.trigger()
    for task in TASKS[:3]:
        job.ack(first, task, keyed_state(f"{task}-{first}"))
        job.ack(second, task, keyed_state(f"{task}-{second}"))
    job.ack(first, TASKS[3])
    job.answer_completing()
    assert {checkpoint_id for _, checkpoint_id, _ in job.confirmed()} == {first}
    assert job.pending() == [second]
    job.ack(second, TASKS[3])
    job.answer_completing()
    assert {checkpoint_id for _, checkpoint_id, _ in job.confirmed()} == {second}
    assert job.retained_ids() == [first, second]
    for completed in job.retained():
        files = {file for state in completed.operator_states.values() for file in state.files()}
        assert files == {f"{task}-{completed.checkpoint_id}" for task in TASKS[:3]}


def test_checkpoints_complete_one_after_another() -> None:
    job = Harness(max_concurrent=3, max_retained=3)
    first, second = job.trigger(), job.trigger()
    job.ack_all(first)
    job.ack_all(second)
    assert [word.checkpoint_id for word in job.take(commands.WriteMetadata)] == [first]
    job.give(events.MetadataWritten(checkpoint_id=first, path="chk-1/_metadata", size_bytes=9))
    assert job.take(commands.WriteMetadata) == []
    job.answer_completing()
    assert job.retained_ids() == [first, second]


def test_an_older_checkpoint_that_waits_for_a_newer_one_to_complete_is_subsumed() -> None:
    job = Harness(max_concurrent=3)
    first, second = job.trigger(), job.trigger()
    job.ack_all(second)
    job.ack_all(first)
    job.answer_completing()
    assert job.retained_ids() == [second]
    assert job.pending() == []
    assert [note.reason for note in job.notes(CheckpointAborted)] == ["CHECKPOINT_SUBSUMED"]


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testSuccessfulCheckpointSubsumesUnsuccessful",
    "CheckpointCoordinatorTest.testNotifyCheckpointAbortionInOperatorCoordinator",
)
def test_a_newer_checkpoint_ends_an_older_one_and_discards_what_it_had_and_what_still_comes() -> None:
    job = Harness(max_concurrent=2)
    first, second = job.trigger(), job.trigger()
    for task in TASKS[:2]:
        job.ack(first, task, keyed_state(f"{task}-1"))
    job.complete(second, files=True)
    assert job.retained_ids() == [second]
    assert job.pending() == []
    assert job.discarded() == {"source/0-1", "source/1-1"}
    assert job.aborted() == [(task, first) for task in TASKS]
    assert ("aborted", first) in job.calls
    assert job.confirmed() == [(task, second, -1) for task in TASKS]
    job.ack(first, "sums/0", keyed_state("sums/0-1"))
    assert job.discarded() == {"sums/0-1"}


@pytest.mark.flink("CheckpointCoordinatorTest.testExternallyInducedSourceWithOperatorCoordinator")
def test_acks_that_come_before_hooks_and_coordinators_are_done_count() -> None:
    job = Harness(hooks=["mail"], coordinators=["source"])
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.ack_all(1)
    assert job.take(commands.WriteMetadata) == []
    assert job.answer(commands.ScheduleCoordinatorCheckpoint)
    assert job.take(commands.WriteMetadata) == []
    assert job.answer(commands.TriggerMasterHook)
    assert not job.coordinator.trigger.is_triggering
    job.answer_completing()
    [completed] = job.retained()
    assert completed.operator_states[operator_id("source")].coordinator_state.data == b"coordinator"
    assert [(state.name, state.version, state.data) for state in completed.master_states] == [("mail", 3, b"mail")]


@pytest.mark.flink("CheckpointCoordinatorTest.testCompleteCheckpointFailureWithExternallyInducedSource")
def test_a_metadata_failure_right_after_triggering_fails_the_checkpoint() -> None:
    job = Harness(hooks=["mail"])
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.ack_all(1, files=True)
    job.answer(commands.TriggerMasterHook)
    job.take(commands.WriteMetadata)
    job.give(events.MetadataFailed(checkpoint_id=1, error="disk full"))
    assert "disk full" in job.errors()[request]
    assert job.retained() == []
    assert job.pending() == []
    assert job.discarded() == {f"{task}-1" for task in TASKS}
    assert job.coordinator.statistics.counts.completed == 0


# --- acks that do not count -------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTest.testHandleMessagesForNonExistingCheckpoints")
def test_acks_from_nowhere_are_ignored() -> None:
    job = Harness()
    job.trigger()
    job.ack(1, "source/0", job_id="another job")
    job.ack(9, "source/0")
    job.ack(1, "source/0", attempt=7)
    job.ack(1, "nobody/0", attempt=1)
    job.decline(1, "source/0", job_id="another job")
    job.decline(9, "source/0")
    assert len(job.coordinator.pending[1].acked_tasks) == 0
    results = [note.result for note in job.notes(AcknowledgeIgnored)]
    assert results == ["WRONG_JOB", "UNKNOWN_CHECKPOINT", "UNKNOWN", "UNKNOWN"]


@pytest.mark.flink("CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages")
def test_state_that_nobody_wants_is_discarded_but_never_another_jobs() -> None:
    job = Harness(timeout_ms=100, tolerable_failures=9)
    job.trigger()
    job.ack(1, "source/0", keyed_state("acked"))
    job.ack(1, "source/0", keyed_state("acked"))
    assert job.discarded() == set()
    job.ack(1, "source/1", keyed_state("from an unknown attempt"), attempt=7)
    assert job.discarded() == {"from an unknown attempt"}
    job.ack(1, "source/1", keyed_state("another job's"), job_id="another job")
    assert job.discarded() == set()
    job.wait(100)
    assert job.discarded() == {"acked"}
    job.ack(1, "source/1", keyed_state("too late"))
    job.ack(1, "source/1", keyed_state("another job's"), job_id="another job")
    assert job.discarded() == {"too late"}


@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("complete", "COMPLETED"),
        ("decline", "CHECKPOINT_DECLINED"),
        ("expire", "CHECKPOINT_EXPIRED"),
        ("fail over", "JOB_FAILOVER_REGION"),
        ("never began", "UNKNOWN_CHECKPOINT"),
    ],
)
def test_a_late_ack_and_a_late_decline_change_nothing_and_say_how_the_checkpoint_ended(end: str, how: str) -> None:
    job = Harness(timeout_ms=100, tolerable_failures=9)
    checkpoint_id = 99 if end == "never began" else job.trigger()
    if end == "complete":
        job.complete(checkpoint_id)
    elif end == "decline":
        job.decline(checkpoint_id, "sums/1")
    elif end == "expire":
        job.wait(100)
    elif end == "fail over":
        job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
    told, aborted = job.calls[:], job.aborted()
    job.ack(checkpoint_id, "sums/0", keyed_state("late"))
    job.decline(checkpoint_id, "sums/0")
    assert [note.result for note in job.notes(AcknowledgeIgnored)] == [how]
    assert [(note.result, note.reason) for note in job.notes(DeclineIgnored)] == [(how, "CHECKPOINT_DECLINED")]
    assert job.discarded() == (set() if how == "COMPLETED" else {"late"})
    assert (job.calls, job.aborted()) == (told, []), aborted


def test_a_checkpoint_is_remembered_until_many_others_have_ended() -> None:
    job = Harness(tolerable_failures=2**31 - 1)
    for _ in range(REMEMBERED + 1):
        job.decline(job.trigger(), "sums/0")
    for checkpoint_id in (1, 2):
        job.ack(checkpoint_id, "sums/1")
    results = [note.result for note in job.notes(AcknowledgeIgnored)]
    assert results == ["UNKNOWN_CHECKPOINT", "CHECKPOINT_DECLINED"]


def test_what_is_said_of_another_job_is_refused() -> None:
    job = Harness()
    job.trigger()
    job.ack(1, "source/0", keyed_state("theirs"), job_id="another job")
    job.decline(1, "source/0", job_id="another job")
    report = ReportCheckpointMetrics(
        task="source/0", attempt=1, job_id="another job", checkpoint_id=1, metrics=CheckpointMetrics()
    )
    job.give(report)
    for kind in (AcknowledgeIgnored, DeclineIgnored, MetricsIgnored):
        assert [(note.result, note.job_id) for note in job.notes(kind)] == [("WRONG_JOB", "another job")]
    assert (job.pending(), job.discarded()) == ([1], set())


def test_a_slot_that_does_not_know_the_task_blames_nobody() -> None:
    """Its answer to the trigger is the slot's, not a task's (`TaskExecutor.triggerCheckpoint`)."""
    job = Harness()
    request = job.request()
    job.answer_triggering()
    job.decline(1, "source/0", Reason.TASK_CHECKPOINT_FAILURE)
    [note] = job.notes(CheckpointAborted)
    assert (note.reason, note.task) == ("TASK_CHECKPOINT_FAILURE", None)
    assert Reason.TASK_CHECKPOINT_FAILURE.message in job.errors()[request]
    assert [call for call in job.calls if call[0].startswith("fail_job")] == []


def test_a_repeated_ack_of_a_completed_checkpoint_does_not_cost_it_its_files() -> None:
    job = Harness()
    job.trigger()
    job.ack_all(1, files=True)
    for answered in (commands.WriteMetadata, commands.StoreCheckpoint):
        job.ack(1, "sums/0", keyed_state("sums/0-1"))
        assert job.discarded() == set()
        job.answer(answered)
    job.ack(1, "sums/0", keyed_state("sums/0-1"))
    assert job.discarded() == set()
    savepoint = job.trigger_savepoint()
    job.complete(savepoint, files=True)
    job.ack(savepoint, "sums/0", keyed_state(f"sums/0-{savepoint}"))
    assert job.discarded() == set()


@pytest.mark.flink("CheckpointCoordinatorTest.testCheckpointTimeoutIsolated")
def test_an_expired_checkpoint_is_discarded_and_confirmed_to_nobody() -> None:
    job = Harness(timeout_ms=200, tolerable_failures=1)
    request = job.request()
    job.answer_triggering()
    job.ack(1, "sums/1", keyed_state("sums/1-1"))
    job.wait(199)
    assert job.pending() == [1]
    job.wait(1)
    assert job.pending() == []
    assert job.retained() == []
    assert job.discarded() == {"sums/1-1"}
    assert job.confirmed() == []
    assert Reason.CHECKPOINT_EXPIRED.message in job.errors()[request]


def test_a_task_that_was_restored_as_finished_has_nothing_to_report() -> None:
    job = Harness()
    job.trigger()
    for task in TASKS[:2]:
        job.ack(1, task, FINISHED_ON_RESTORE)
    job.complete(1, files=True)
    assert job.retained()[0].operator_states[operator_id("source")].fully_finished


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testCheckpointStatsUpdatedAfterFailure",
    "CheckpointCoordinatorTest.testAbortedCheckpointStatsUpdatedAfterFailure",
)
@pytest.mark.parametrize("by_ack", [True, False])
def test_what_is_measured_of_a_failed_checkpoint_still_counts(by_ack: bool) -> None:
    job = Harness(tolerable_failures=9)
    job.trigger()
    job.decline(1, "sums/0")
    metrics = {"bytes_persisted": 5, "total_bytes_persisted": 50, "bytes_processed_during_alignment": 7}
    if by_ack:
        job.ack(1, "sums/1", **metrics)
    else:
        job.give(
            ReportCheckpointMetrics(
                task="sums/1", attempt=1, job_id=JOB, checkpoint_id=1, metrics=CheckpointMetrics(**metrics)
            )
        )
    stats = job.coordinator.statistics.history.latest_failed
    assert stats is not None
    assert (stats.checkpointed_size, stats.state_size, stats.processed_data, stats.acked) == (5, 50, 7, 0)
    table = job.coordinator.statistics.subtasks(1).set_index("task")
    assert table.status["sums/1"] == "reported"
    assert table.status["source/0"] == "waiting"


# --- declining and aborting -------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testTriggerAndDeclineSyncCheckpointFailureSimple",
    "CheckpointCoordinatorTest.testTriggerAndDeclineAsyncCheckpointFailureSimple",
)
@pytest.mark.parametrize("reason", [Reason.CHECKPOINT_DECLINED, Reason.CHECKPOINT_ASYNC_EXCEPTION])
def test_a_declined_checkpoint_is_over_at_once_and_only_once(reason: Reason) -> None:
    job = Harness(tolerable_failures=5)
    job.trigger()
    assert job.timers.keys() == {"checkpoint-timeout-1"}
    job.ack(1, "source/0", keyed_state("source/0-1"))
    job.decline(1, "source/1", reason)
    assert job.pending() == []
    assert job.timers == {}
    assert job.discarded() == {"source/0-1"}
    assert job.aborted() == [(task, 1) for task in TASKS]
    assert job.coordinator.ledger.failures.counter == 1
    job.decline(1, "source/1", reason)
    job.decline(1, "source/0", reason)
    assert job.aborted() == []
    assert job.coordinator.ledger.failures.counter == 1
    assert job.calls == [("aborted", 1)]


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerAndDeclineCheckpointComplex")
def test_declining_one_of_two_ends_only_that_one() -> None:
    job = Harness(max_concurrent=2, tolerable_failures=9)
    first, second = job.trigger(), job.trigger()
    job.decline(first, "sums/0")
    assert job.pending() == [second]
    assert job.aborted() == [(task, first) for task in TASKS]
    job.decline(first, "sums/1")
    assert job.aborted() == []
    job.complete(second)
    assert job.retained_ids() == [second]


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerAndDeclineCheckpointThenFailureManagerThrowsException")
def test_one_decline_too_many_fails_the_job_for_the_tasks_sake() -> None:
    job = Harness(tolerable_failures=1)
    for _ in range(2):
        job.decline(job.trigger(), "sums/0")
    [(call, error, task)] = [call for call in job.calls if call[0].startswith("fail_job")]
    assert (call, task) == ("fail_job_due_to_task_failure", "sums/0")
    assert Reason.CHECKPOINT_DECLINED.message in error


@pytest.mark.flink("CheckpointCoordinatorTest.testIOExceptionCheckpointExceedsTolerableFailureNumber")
@pytest.mark.parametrize("tolerable", [0, 1])
def test_a_pending_checkpoint_given_up_for_its_storage_counts(tolerable: int) -> None:
    job = Harness(tolerable_failures=tolerable)
    job.trigger()
    job.coordinator.abort_pending_checkpoints(Reason.IO_EXCEPTION, "the disk is gone")
    failed = [call for call in job.calls if call[0] == "fail_job"]
    assert len(failed) == 1 - tolerable
    assert all(Reason.IO_EXCEPTION.message in error for _, error, _ in failed)
    assert job.pending() == []


@pytest.mark.flink("CheckpointCoordinatorTest.testExpiredCheckpointExceedsTolerableFailureNumber")
def test_expiry_counts() -> None:
    job = Harness(timeout_ms=100)
    job.trigger()
    job.wait(100)
    assert [call[0] for call in job.calls] == ["fail_job", "aborted"]


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testReportLatestCompletedCheckpointIdWithAbort",
)
def test_who_is_told_of_an_abort_learns_of_the_latest_completed_one() -> None:
    job = Harness(tolerable_failures=9)
    job.decline(job.trigger(), "sums/0")
    assert {word.latest_completed_id for word in job.take(NotifyCheckpointAborted)} == {0}
    job.complete(job.trigger())
    job.decline(job.trigger(), "sums/0")
    assert {word.latest_completed_id for word in job.take(NotifyCheckpointAborted)} == {2}


@pytest.mark.flink("FailoverStrategyCheckpointCoordinatorTest.testAbortPendingCheckpointsWithTriggerValidation")
def test_failover_ends_all_that_is_pending_and_periodic_checkpoints_go_on() -> None:
    job = Harness(interval_ms=100, max_concurrent=5)
    job.coordinator.start_checkpoint_scheduler()
    job.wait(300)
    assert job.pending() == [1, 2, 3]
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION, "sums/0 died")
    assert job.pending() == []
    assert job.coordinator.ledger.failures.counter == 0
    assert job.discarded() == set()
    job.wait(100)
    assert job.pending() == [4]


# --- metadata and store, failing --------------------------------------------------------------------------------------


@pytest.mark.flink(
    "CheckpointCoordinatorFailureTest.testFailingCompletedCheckpointStoreAdd",
    "CheckpointCoordinatorFailureTest.testCleanupForGenericFailure",
    "CheckpointCoordinatorTest.testExceptionInStoringCompletedCheckpointIsReportedToFailureManager",
)
def test_a_checkpoint_that_cannot_be_stored_is_discarded_and_counted() -> None:
    job = Harness()
    request = job.request()
    job.answer_triggering()
    job.ack_all(1, files=True)
    job.answer(commands.WriteMetadata)
    job.give(events.CheckpointStoreFailed(checkpoint_id=1, error="no quorum"))
    assert "no quorum" in job.errors()[request]
    assert job.pending() == []
    assert job.retained() == []
    (discard,) = job.take(commands.DiscardState)
    assert sorted(discard.paths) == sorted(["chk-1/_metadata", *(f"{task}-1" for task in TASKS)]), "each once"
    assert job.aborted() == [(task, 1) for task in TASKS]
    [error] = [call[1] for call in job.calls if call[0] == "fail_job"]
    assert Reason.FINALIZE_CHECKPOINT_FAILURE.message in error


@pytest.mark.flink("DefaultCompletedCheckpointStoreTest.testAddCheckpointFailedShouldNotRemoveOldOnes")
def test_what_cannot_be_stored_subsumes_nothing() -> None:
    job = Harness(tolerable_failures=9)
    job.complete(job.trigger(), files=True)
    job.trigger()
    job.ack_all(2)
    job.answer(commands.WriteMetadata)
    job.give(events.CheckpointStoreFailed(checkpoint_id=2, error="no quorum"))
    assert job.retained_ids() == [1]
    assert job.discarded() == {"chk-2/_metadata"}
    assert [note.checkpoint_id for note in job.notes(CheckpointDiscarded)] == [2]


@pytest.mark.flink("CheckpointCoordinatorFailureTest.testCleanupOmissionForPossibleInconsistentStateException")
def test_a_checkpoint_of_which_nobody_knows_whether_it_is_stored_keeps_its_files() -> None:
    job = Harness()
    job.trigger()
    job.ack_all(1, files=True)
    job.answer(commands.WriteMetadata)
    job.give(events.CheckpointStoreFailed(checkpoint_id=1, error="timed out", possibly_inconsistent=True))
    assert job.discarded() == set()
    assert job.pending() == []
    assert job.retained() == []


@pytest.mark.parametrize("written", [True, False])
def test_a_checkpoint_aborted_while_its_metadata_is_written_is_discarded_after_that(written: bool) -> None:
    job = Harness(timeout_ms=100, tolerable_failures=9)
    job.trigger()
    job.ack_all(1, files=True)
    job.take(commands.WriteMetadata)
    job.wait(100)
    assert job.pending() == []
    assert job.discarded() == set()
    if written:
        job.give(events.MetadataWritten(checkpoint_id=1, path="chk-1/_metadata", size_bytes=9))
    else:
        job.give(events.MetadataFailed(checkpoint_id=1, error="gone"))
    [discard] = job.take(commands.DiscardState)
    metadata = ("chk-1/_metadata",) if written else ()
    assert discard.paths == (*metadata, *(f"{task}-1" for task in TASKS))
    assert (job.retained(), job.take(commands.StoreCheckpoint)) == ([], [])


def test_a_checkpoint_that_is_being_stored_can_no_longer_be_aborted() -> None:
    job = Harness(timeout_ms=100)
    job.trigger()
    job.ack_all(1)
    job.answer(commands.WriteMetadata)
    job.wait(1_000)
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
    assert job.coordinator.ledger.storing is not None
    job.answer(commands.StoreCheckpoint)
    assert job.retained_ids() == [1]
    assert job.aborted() == []


def test_the_size_of_a_checkpoint_is_that_of_all_its_operators() -> None:
    job = Harness(graph({"source": 2, "sums": 3}))
    job.complete(job.trigger(), files=True)
    [completed] = job.retained()
    assert completed.state_size == sum(state.state_size for state in completed.operator_states.values()) == 50


@pytest.mark.parametrize("retention", list(RetentionPolicy))
def test_a_checkpoint_stored_after_the_end_of_the_job_shares_the_fate_of_the_others(
    retention: RetentionPolicy,
) -> None:
    job = Harness(retention=retention)
    request = job.request()
    job.answer_triggering()
    job.ack_all(1, files=True)
    job.answer(commands.WriteMetadata)
    job.coordinator.shut_down("CANCELED")
    job.answer(commands.StoreCheckpoint)
    assert "shut" in job.errors()[request]
    counts = job.coordinator.statistics.counts
    assert (counts.completed, counts.failed, counts.in_progress) == (0, 1, 0)
    kept = retention is RetentionPolicy.RETAIN_ON_CANCELLATION
    assert job.discarded() == (set() if kept else {"chk-1/_metadata", *(f"{task}-1" for task in TASKS)})
    assert job.pending() == []
    assert job.confirmed() == []


# --- shared state -----------------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTest.testSharedStateNotDiscaredOnAbort")
def test_shared_files_of_an_aborted_checkpoint_stay_until_one_completes_without_them() -> None:
    job = Harness(max_concurrent=2, tolerable_failures=9)
    first = job.trigger()
    job.ack(first, "sums/0", snapshot_of("sums/0", first, "a", "b"))
    job.decline(first, "sums/1")
    assert job.discarded() == {"meta-1", "private-1"}
    job.ack(first, "source/0", snapshot_of("source/0", first, "c"))
    assert job.discarded() == {"meta-1", "private-1"}
    second = job.trigger()
    job.ack(second, "sums/0", snapshot_of("sums/0", second, "b"))
    job.complete(second)
    assert job.discarded() == {"a", "c"}


def test_two_files_under_one_key_decline_the_checkpoint() -> None:
    job = Harness(tolerable_failures=9)
    job.trigger()
    job.ack(1, "sums/0", snapshot_of("sums/0", 1, "a"))
    entry = job.coordinator.store.registry.entries["a"]
    entry.handle = keyed_state("a", 99).managed_keyed_state[0]
    job.ack(1, "sums/1", snapshot_of("sums/1", 1, "a"))
    assert job.pending() == []
    [aborted] = job.notes(CheckpointAborted)
    assert "shared state a is" in aborted.detail


@pytest.mark.flink("CheckpointCoordinatorTest.testExternalizedCheckpoints")
@pytest.mark.parametrize("retention", list(RetentionPolicy))
def test_the_retention_policy_is_in_the_properties(retention: RetentionPolicy) -> None:
    job = Harness(retention=retention)
    job.trigger()
    properties = job.coordinator.pending[1].properties
    assert properties.discard_cancelled is (retention is not RetentionPolicy.RETAIN_ON_CANCELLATION)
    assert properties.discard_failed is (retention is RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
    assert properties.discard_subsumed


@pytest.mark.parametrize("status", ["FINISHED", "CANCELED", "FAILED", "SUSPENDED"])
@pytest.mark.parametrize("retention", list(RetentionPolicy))
def test_the_end_of_the_job_keeps_or_discards_what_the_policy_says(retention: RetentionPolicy, status: str) -> None:
    job = Harness(retention=retention, max_retained=2, store=CompletedCheckpointStore(2))
    for _ in range(2):
        job.complete(job.trigger(), files=True)
    job.trigger()
    job.ack(3, "sums/0", keyed_state("sums/0-3"))
    job.coordinator.shut_down(status)
    job.coordinator.shut_down(status)
    files = {f"{task}-{number}" for number in (1, 2) for task in TASKS} | {"chk-1/_metadata", "chk-2/_metadata"}
    keeps = {
        RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION: set(),
        RetentionPolicy.RETAIN_ON_FAILURE: {"FAILED"},
        RetentionPolicy.RETAIN_ON_CANCELLATION: {"CANCELED", "FAILED", "SUSPENDED"},
    }
    assert job.discarded() == {"sums/0-3"} | (set() if status in keeps[retention] else files)
    assert job.pending() == []


@pytest.mark.parametrize("has_id", [True, False])
def test_deploying_anew_ends_what_the_earlier_tasks_had_begun(has_id: bool) -> None:
    job = Harness()
    request = job.request()
    if has_id:
        job.answer_triggering()
    job.coordinator.use_graph(job.graph.with_parallelism({"sums": 3}))
    assert "deployed again" in job.errors()[request]
    assert job.pending() == []
    job.epoch = 2
    job.states["sums/2"] = job.states["sums/1"]
    job.answer(commands.AllocateCheckpointId)
    assert job.pending() == []
    job.take(TriggerTaskCheckpoint)
    job.complete(job.trigger(), files=True)
    assert {word.attempt for word in job.take(TriggerTaskCheckpoint)} == {2}
    assert job.retained()[0].operator_states[operator_id("sums")].parallelism == 3


def test_a_copy_goes_its_own_way() -> None:
    job = Harness(hooks=["mail"], coordinators=["source"], interval_ms=100, tolerable_failures=9)
    job.coordinator.start_checkpoint_scheduler()
    job.trigger()
    job.ack(1, "sums/0", keyed_state("sums/0-1"))
    other = deepcopy(job)
    other.decline(1, "sums/1")
    job.complete(1)
    assert (job.retained_ids(), other.retained_ids()) == ([1], [])
    assert (job.coordinator.ledger.failures.counter, other.coordinator.ledger.failures.counter) == (0, 1)
    assert (job.coordinator.statistics.counts.failed, other.coordinator.statistics.counts.failed) == (0, 1)
    assert other.discarded() == {"sums/0-1"}
    assert job.discarded() == set()


# --- who listens ------------------------------------------------------------------------------------------------------


class Listener:
    """A listener that keeps the ends of checkpoints that it is notified of."""

    def __init__(self) -> None:
        self.heard: list[int | str] = []

    def on_completed_checkpoint(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)

    def on_failed_checkpoint(self) -> None:
        self.heard.append("failed")


def test_a_listener_is_told_once_of_each_end_and_of_no_completed_savepoint() -> None:
    listener = Listener()
    job = Harness(listener=listener, tolerable_failures=99)
    job.complete(job.trigger())
    job.complete(job.trigger_savepoint())
    job.complete(job.trigger())
    assert listener.heard == [1, 3]
    job.decline(job.trigger(), "sums/0")
    job.request()
    job.take(commands.AllocateCheckpointId)
    job.give(events.CheckpointIdFailed(error="the counter is gone"))
    not_stored = job.trigger()
    job.ack_all(not_stored)
    job.answer(commands.WriteMetadata)
    job.give(events.CheckpointStoreFailed(checkpoint_id=not_stored, error="full"))
    assert listener.heard == [1, 3, "failed", "failed", "failed"]
    late = job.trigger()
    job.ack_all(late)
    job.answer(commands.WriteMetadata)
    job.coordinator.shut_down("CANCELED")
    job.answer(commands.StoreCheckpoint)
    assert listener.heard == [1, 3, *["failed"] * 4]
