"""Savepoints and stop-with-savepoint: beside the checkpoints, not among them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.core.protocol.properties import SavepointFormatType
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from tests.machines.coordinator.harness import Harness, keyed_state
from tests.machines.coordinator.test_completing import TASKS, snapshot_of


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerAndConfirmSimpleSavepoint")
def test_a_savepoint_completes_is_not_kept_and_confirmed_to_nobody() -> None:
    job = Harness()
    for checkpoint_id in (1, 2):
        request = job.request_savepoint("backups")
        job.answer(commands.AllocateCheckpointId)
        [location] = [word for word in job.emitted if isinstance(word, commands.InitializeLocation)]
        assert (location.target, location.properties.is_savepoint) == ("backups", True)
        job.answer_triggering()
        assert [word.options.snapshot_type.name for word in job.take(TriggerTaskCheckpoint)] == ["Savepoint"] * 2
        job.complete(checkpoint_id, files=True)
        [answer] = job.take(commands.CompleteRequest)
        assert (answer.request_id, answer.path, answer.error) == (request, f"chk-{checkpoint_id}", "")
        assert job.take(commands.StoreCheckpoint) == []
        assert (job.retained(), job.confirmed(), job.pending(), job.discarded()) == ([], [], [], set())
    stats = job.coordinator.statistics
    assert stats.counts.completed == 2
    assert stats.history.latest_savepoint is not None
    assert stats.history.latest_savepoint.checkpoint_id == 2
    assert stats.history.latest_completed is None


@pytest.mark.flink("CheckpointCoordinatorTest.testSavepointsAreNotSubsumed")
def test_checkpoints_subsume_older_checkpoints_but_no_savepoint() -> None:
    job = Harness(max_concurrent=9)
    savepoint, old, new = job.trigger_savepoint(), job.trigger(), job.trigger()
    job.complete(new)
    assert job.pending() == [savepoint]
    assert {last for _, _, last in job.confirmed()} == {-1}
    newer, newest = job.trigger(), job.trigger_savepoint()
    assert job.pending() == [savepoint, newer, newest]
    job.complete(newer)
    assert job.pending() == [savepoint, newest]
    assert {last for _, _, last in job.confirmed()} == {new}
    job.complete(newest)
    job.complete(savepoint)
    assert job.pending() == []
    assert job.retained_ids() == [newer]
    assert old not in job.retained_ids()


@pytest.mark.flink("CheckpointCoordinatorTest.testConcurrentSavepoints")
def test_savepoints_know_no_limit_and_complete_in_any_order() -> None:
    job = Harness()
    savepoints = [job.trigger_savepoint() for _ in range(5)]
    assert job.pending() == savepoints
    for checkpoint_id in reversed(savepoints):
        job.complete(checkpoint_id)
    assert job.pending() == []
    answers = [(word.request_id, word.path) for word in job.take(commands.CompleteRequest)]
    assert answers == [(number, f"chk-{number}") for number in reversed(savepoints)]


@pytest.mark.parametrize(("drain", "name"), [(True, "Terminate Savepoint"), (False, "Suspend Savepoint")])
def test_a_synchronous_savepoint_is_confirmed_and_subsumes_pending_checkpoints(drain: bool, name: str) -> None:
    job = Harness(max_concurrent=9)
    older = job.trigger()
    job.take(TriggerTaskCheckpoint)
    job.request_stop(drain=drain)
    job.answer_triggering()
    assert {word.options.snapshot_type.name for word in job.take(TriggerTaskCheckpoint)} == {name}
    job.complete(2)
    assert job.pending() == []
    assert job.aborted() == [(task, older) for task in TASKS]
    assert job.confirmed() == [(task, 2, -1) for task in TASKS]
    assert ("complete", 2) in job.calls
    assert job.retained() == []


@pytest.mark.flink("CheckpointCoordinatorTest.jobFailsIfInFlightSynchronousSavepointIsDiscarded")
def test_a_declined_synchronous_savepoint_fails_the_job_once() -> None:
    job = Harness(tolerable_failures=9)
    request = job.request_stop()
    job.answer_triggering()
    job.decline(1, "sums/0", Reason.CHECKPOINT_DECLINED_TASK_CLOSING)
    job.decline(1, "sums/1", Reason.CHECKPOINT_DECLINED_TASK_CLOSING)
    failures = [call for call in job.calls if call[0].startswith("fail_job")]
    assert [call[0] for call in failures] == ["fail_job"]
    assert Reason.CHECKPOINT_DECLINED_TASK_CLOSING.message in failures[0][1]
    assert Reason.CHECKPOINT_DECLINED_TASK_CLOSING.message in job.errors()[request]


def test_a_savepoint_shares_nothing_and_all_its_files_go_with_it() -> None:
    job = Harness(tolerable_failures=9)
    job.trigger_savepoint()
    job.ack(1, "sums/0", snapshot_of("sums/0", 1, "a"))
    assert job.coordinator.store.registry.entries == {}
    job.decline(1, "sums/1")
    assert job.discarded() == {"a", "meta-1", "private-1"}


def test_a_failing_savepoint_is_told_to_whoever_asked_and_does_not_fail_the_job() -> None:
    job = Harness()
    request = job.request_savepoint()
    job.answer_triggering()
    job.ack_all(1, files=True)
    job.take(commands.WriteMetadata)
    job.give(events.MetadataFailed(checkpoint_id=1, error="no such bucket"))
    assert "no such bucket" in job.errors()[request]
    assert [call[0] for call in job.calls] == ["aborted"]
    assert job.discarded() == {f"{task}-1" for task in TASKS}


@pytest.mark.parametrize("ask", [Harness.trigger_savepoint, Harness.trigger])
def test_a_savepoint_that_completes_clears_the_count_of_failures_like_a_checkpoint(
    ask: Callable[[Harness], int],
) -> None:
    job = Harness(tolerable_failures=1)
    for _ in range(3):
        job.decline(job.trigger(), "sums/0")
        job.complete(ask(job))
    assert [call for call in job.calls if call[0].startswith("fail_job")] == []
    for _ in range(2):
        job.decline(job.trigger(), "sums/0")
    assert [call[0] for call in job.calls if call[0].startswith("fail_job")] == ["fail_job_due_to_task_failure"]


def test_a_failing_savepoint_leaves_the_count_of_failures_as_it_is() -> None:
    job = Harness(tolerable_failures=1)
    job.decline(job.trigger(), "sums/0")
    job.trigger_savepoint()
    job.answer_triggering()
    savepoint = job.pending()[0]
    job.ack_all(savepoint)
    job.take(commands.WriteMetadata)
    job.give(events.MetadataFailed(checkpoint_id=savepoint, error="no such bucket"))
    assert job.coordinator.ledger.failures.counter == 1
    job.decline(job.trigger(), "sums/0")
    assert [call[0] for call in job.calls if call[0].startswith("fail_job")] == ["fail_job_due_to_task_failure"]


def test_the_format_asked_for_reaches_the_tasks() -> None:
    job = Harness()
    job.give(events.RequestSavepoint(request_id=1, fmt=SavepointFormatType.NATIVE))
    job.answer_triggering()
    [first, _] = job.take(TriggerTaskCheckpoint)
    assert first.options.snapshot_type.format is SavepointFormatType.NATIVE


def test_a_savepoint_does_not_hold_up_a_checkpoint_that_is_acked_meanwhile() -> None:
    job = Harness(max_concurrent=2)
    savepoint, checkpoint = job.trigger_savepoint(), job.trigger()
    job.ack(savepoint, "sums/0", keyed_state("sums/0-1"))
    job.complete(checkpoint)
    assert job.retained_ids() == [checkpoint]
    assert job.pending() == [savepoint]
