"""The trigger of a checkpoint: the timer, the requests, and every step up to the tasks' triggers, with its failures."""

from __future__ import annotations

import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.core.protocol.notes import CheckpointAborted, CheckpointPending, RequestQueued, TriggeringFailed
from kit.core.protocol.options import AlignmentType
from kit.core.protocol.properties import CHECKPOINT, FULL_CHECKPOINT
from kit.core.protocol.reasons import CheckpointFailureReason as Reason
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.words import ProtocolError
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from tests.machines.coordinator.harness import Harness, graph, operator_id

SOURCES = ["source/0", "source/1"]
TASKS = ["source/0", "source/1", "sums/0", "sums/1"]


# --- periodic checkpoints --------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testPeriodicTriggering")
def test_periodic_checkpoints_come_in_order_and_stop_and_start_again() -> None:
    job = Harness(interval_ms=100, max_concurrent=10)
    job.coordinator.start_checkpoint_scheduler()
    job.wait(500)
    triggered = job.take(TriggerTaskCheckpoint)
    assert [(word.checkpoint_id, word.timestamp_ms) for word in triggered[::2]] == [
        (number, 1_000 + 100 * number) for number in (1, 2, 3, 4, 5)
    ]
    job.coordinator.stop_checkpoint_scheduler()
    job.wait(1_000)
    assert job.triggered() == []
    assert job.pending() == []
    job.coordinator.start_checkpoint_scheduler()
    job.wait(100)
    assert job.triggered() == [("source/0", 6), ("source/1", 6)]


@pytest.mark.flink("CheckpointCoordinatorTest.testScheduleTriggerRequestDuringShutdown")
def test_nothing_is_triggered_after_shutdown() -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    job.coordinator.shut_down("CANCELED")
    job.coordinator.settle()
    job.give(events.TimerFired(timer=PERIODIC_TIMER))
    job.wait(1_000)
    assert not job.coordinator.trigger.is_triggering
    assert job.timers == {}
    with pytest.raises(ProtocolError, match="is shut down"):
        job.coordinator.start_checkpoint_scheduler()


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testStopPeriodicScheduler")
def test_without_the_scheduler_periodic_triggers_fail_and_manual_ones_pass() -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    job.at += 100
    job.give(events.TimerFired(timer=PERIODIC_TIMER))
    job.coordinator.stop_checkpoint_scheduler()
    job.answer_triggering()
    [failed] = job.notes(TriggeringFailed)
    assert failed.reason == "PERIODIC_SCHEDULER_SHUTDOWN"
    assert job.pending() == []
    assert job.trigger() == 2
    assert job.pending() == [2]


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerCheckpointAfterStopping")
def test_stopping_before_there_is_an_id_creates_no_checkpoint() -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    job.at += 100
    job.give(events.TimerFired(timer=PERIODIC_TIMER))
    assert job.coordinator.trigger.is_triggering
    job.coordinator.stop_checkpoint_scheduler()
    job.answer(commands.AllocateCheckpointId)
    assert not job.coordinator.trigger.is_triggering
    assert [note.reason for note in job.notes(TriggeringFailed)] == ["PERIODIC_SCHEDULER_SHUTDOWN"]
    assert job.notes(CheckpointPending) == []


def test_a_job_without_interval_has_no_periodic_checkpoints() -> None:
    job = Harness()
    with pytest.raises(ProtocolError, match="no checkpoint interval"):
        job.coordinator.start_checkpoint_scheduler()


@pytest.mark.flink("CheckpointCoordinatorTest.testPeriodicSchedulingWithInactiveTasks")
def test_periodic_checkpoints_begin_once_all_tasks_run() -> None:
    job = Harness(interval_ms=100)
    job.states["sums/1"] = ExecutionState.INITIALIZING
    job.coordinator.start_checkpoint_scheduler()
    job.wait(200)
    assert job.pending() == []
    assert all("sums/1 is INITIALIZING" in note.detail for note in job.notes(TriggeringFailed))
    job.states["sums/1"] = ExecutionState.RUNNING
    job.wait(100)
    assert job.triggered() == [("source/0", 1), ("source/1", 1)]


@pytest.mark.flink(
    "CheckpointCoordinatorTriggeringTest.testMinTimeBetweenCheckpointsInterval",
    "CheckpointCoordinatorTest.testMinCheckpointPause",
)
def test_a_pause_lies_between_the_end_of_one_checkpoint_and_the_start_of_the_next() -> None:
    job = Harness(interval_ms=100, min_pause_ms=80)
    job.coordinator.start_checkpoint_scheduler()
    job.wait(100)
    job.wait(150)  # the second is due at 1200 and waits for the first
    assert [note.request for note in job.notes(RequestQueued)] == ["Checkpoint (periodic)"]
    job.complete(1)
    completed_at = job.at
    assert job.coordinator.decider.queue == []
    assert job.timers[PERIODIC_TIMER] == completed_at + 80
    job.wait(79)
    assert job.pending() == []
    job.wait(1)
    assert job.pending() == [2]
    assert job.coordinator.pending[2].timestamp_ms - completed_at == 80


@pytest.mark.flink("CheckpointCoordinatorTest.testMinDelayBetweenSavepoints")
def test_a_savepoint_does_not_wait_for_the_pause() -> None:
    job = Harness(interval_ms=100_000, min_pause_ms=50_000)
    first = job.trigger_savepoint()
    second = job.trigger_savepoint()
    assert job.pending() == [first, second]


# --- limits and the queue ------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testMaxConcurrentAttempts1",
    "CheckpointCoordinatorTest.testMaxConcurrentAttempts2",
    "CheckpointCoordinatorTest.testMaxConcurrentAttempts5",
)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_than_the_limit_are_pending_and_one_end_lets_one_more_start(most: int) -> None:
    job = Harness(interval_ms=10, max_concurrent=most)
    job.coordinator.start_checkpoint_scheduler()
    job.wait(500)
    assert job.pending() == list(range(1, most + 1))
    job.complete(1)
    job.answer_triggering()
    job.wait(100)
    assert job.pending() == list(range(2, most + 2))


@pytest.mark.flink("CheckpointCoordinatorTest.testMaxConcurrentAttemptsWithSubsumption")
def test_a_completed_checkpoint_makes_room_for_all_it_subsumed() -> None:
    job = Harness(interval_ms=10, max_concurrent=2)
    job.coordinator.start_checkpoint_scheduler()
    job.wait(50)
    assert job.pending() == [1, 2]
    job.complete(2)
    job.answer_triggering()
    assert job.pending() == [3, 4]


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testTriggerCheckpointBeforePreviousOneCompleted")
def test_a_request_made_while_another_is_triggered_waits_for_its_turn() -> None:
    job = Harness(max_concurrent=2)
    job.request()
    job.request()
    assert len(job.coordinator.decider.queue) == 1
    assert len(job.take(commands.AllocateCheckpointId)) == 1
    job.emitted.append(commands.AllocateCheckpointId())
    job.answer_triggering()
    assert job.pending() == [1, 2]
    assert job.triggered() == [(task, number) for number in (1, 2) for task in SOURCES]


@pytest.mark.flink(
    "CheckpointCoordinatorTriggeringTest.testTriggerCheckpointRequestQueuedWithFailure",
    "CheckpointCoordinatorTriggeringTest.testTriggerCheckpointInitializationFailed",
)
def test_a_failed_trigger_does_not_lose_the_requests_behind_it() -> None:
    job = Harness(max_concurrent=3, tolerable_failures=5)
    first, _second, _third = job.request(), job.request(), job.request()
    job.take(commands.AllocateCheckpointId)
    job.give(events.CheckpointIdFailed(error="the counter is gone"))
    job.answer_triggering()
    assert job.pending() == [1, 2]
    assert job.errors().keys() == {first}


@pytest.mark.flink("CheckpointCoordinatorTest.testSavepointScheduledInUnalignedMode")
def test_a_savepoint_of_an_unaligned_job_waits_but_overtakes_checkpoints() -> None:
    job = Harness(unaligned=True)
    first = job.trigger()
    requests = [job.request() for _ in range(3)]
    savepoint = job.request_savepoint()
    assert job.coordinator.decider.queue[0].request_id == savepoint
    assert not job.coordinator.decider.queue[0].properties.forced
    job.decline(first, "sums/0", Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)
    job.answer_triggering()
    assert [checkpoint.request.request_id for checkpoint in job.coordinator.pending.values()] == [savepoint]
    assert [request.request_id for request in job.coordinator.decider.queue] == requests


# --- what stands in the way at once ----------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTest.testCheckpointAbortsIfTriggerTasksAreNotExecuted")
@pytest.mark.parametrize(
    "state", [ExecutionState.CREATED, ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.FAILED]
)
def test_every_task_must_run(state: ExecutionState) -> None:
    job = Harness()
    job.states["source/1"] = state
    request = job.request()
    assert f"source/1 is {state.name}" in job.errors()[request]
    assert (job.pending(), job.retained()) == ([], [])
    assert job.calls == []


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testCheckpointAbortsIfTriggerTasksAreFinished",
    "CheckpointCoordinatorTest.testCheckpointAbortsIfTriggerTasksAreFinishedAndIOException",
)
def test_finished_sources_are_in_the_way_unless_allowed() -> None:
    job = Harness(checkpoints_after_tasks_finish=False)
    job.states |= dict.fromkeys(SOURCES, ExecutionState.FINISHED)
    request = job.request()
    assert "source/0 has finished already" in job.errors()[request]
    assert (job.pending(), job.retained()) == ([], [])
    assert job.take(commands.AllocateCheckpointId) == []


@pytest.mark.flink("CheckpointCoordinatorTest.testCheckpointTriggeredAfterSomeTasksFinishedIfAllowed")
def test_finished_tasks_count_as_acked() -> None:
    job = Harness()
    job.states |= dict.fromkeys([*SOURCES, "sums/0"], ExecutionState.FINISHED)
    checkpoint_id = job.trigger()
    checkpoint = job.coordinator.pending[checkpoint_id]
    assert list(checkpoint.not_yet_acked_tasks) == ["sums/1"]
    assert (checkpoint.stats.acked, checkpoint.stats.total) == (3, 4)
    assert job.triggered() == [("sums/1", checkpoint_id)]
    job.complete(checkpoint_id)
    [completed] = job.retained()
    assert completed.operator_states[operator_id("source")].fully_finished
    assert completed.operator_states[operator_id("sums")].subtask_states[0].finished


@pytest.mark.parametrize("moment", ["id", "directory", "hook"])
def test_tasks_that_finish_while_hooks_are_asked_are_left_out_of_the_checkpoint(moment: str) -> None:
    """Nobody has been triggered yet, so the plan is made again; Flink's checkpoint fails here."""
    job = Harness(hooks=["mail"])
    request = job.request()
    steps = {"id": commands.AllocateCheckpointId, "directory": commands.InitializeLocation}
    for step, command in steps.items():
        if moment == step:
            job.states["source/0"] = ExecutionState.FINISHED
        job.answer(command)
    job.states["source/0"] = ExecutionState.FINISHED
    job.give(events.MasterHookTriggered(checkpoint_id=1, hook="mail"))
    checkpoint = job.coordinator.pending[1]
    assert job.triggered() == [("source/1", 1)]
    assert "source/0" not in checkpoint.not_yet_acked_tasks
    assert (checkpoint.stats.acked, checkpoint.stats.total) == (1, 4)
    job.complete(1)
    [completed] = job.retained()
    assert completed.operator_states[operator_id("source")].subtask_states[0].finished
    assert job.errors().get(request) is None


def test_when_all_tasks_finish_while_hooks_are_asked_there_is_nothing_to_trigger() -> None:
    job = Harness(hooks=["mail"])
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.states |= dict.fromkeys(job.states, ExecutionState.FINISHED)
    job.give(events.MasterHookTriggered(checkpoint_id=1, hook="mail"))
    assert "source/0, source/1 stopped running before the checkpoint reached it" in job.errors()[request]
    assert job.pending() == []


def test_a_task_that_failed_beside_one_that_finished_ends_the_checkpoint() -> None:
    job = Harness(hooks=["mail"])
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.states |= {"source/0": ExecutionState.FINISHED, "source/1": ExecutionState.FAILED}
    job.give(events.MasterHookTriggered(checkpoint_id=1, hook="mail"))
    assert "source/0, source/1 stopped running before the checkpoint reached it" in job.errors()[request]
    assert (job.pending(), job.triggered()) == ([], [])


# --- each step, failing ----------------------------------------------------------------------------------------------


@pytest.mark.flink("CheckpointCoordinatorTest.testTriggerCheckpointWithCounterIOException")
def test_without_an_id_the_checkpoint_has_failed() -> None:
    job = Harness()
    request = job.request()
    job.take(commands.AllocateCheckpointId)
    job.give(events.CheckpointIdFailed(error="the counter is gone"))
    assert "the counter is gone" in job.errors()[request]
    assert job.pending() == []
    assert [call[0] for call in job.calls] == ["fail_job"]
    counts = job.coordinator.statistics.counts
    assert (counts.failed, counts.total, counts.in_progress) == (1, 1, 0)


@pytest.mark.flink(
    "CheckpointCoordinatorTest.testTriggerCheckpointAfterCheckpointStorageIOException",
    "CheckpointCoordinatorTest.testIOExceptionForPeriodicSchedulingWithInactiveTasks",
)
@pytest.mark.parametrize("reason", [Reason.IO_EXCEPTION, Reason.CHECKPOINT_DECLINED])
def test_without_a_directory_the_checkpoint_has_failed(reason: Reason) -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    job.at += 100
    job.give(events.TimerFired(timer=PERIODIC_TIMER))
    job.answer(commands.AllocateCheckpointId)
    job.give(events.LocationFailed(checkpoint_id=1, reason=reason, error="no space left"))
    [aborted] = job.notes(CheckpointAborted)
    assert aborted.reason == reason.name
    assert [call[0] for call in job.calls].count("fail_job") == 1
    [row] = job.coordinator.statistics.to_pandas().itertuples()
    assert (row.id, row.status) == (1, "FAILED")
    assert "no space left" in row.failure


@pytest.mark.flink(
    "CheckpointCoordinatorTriggeringTest.testTriggerCheckpointSnapshotMasterHookFailed",
    "CheckpointCoordinatorMasterHooksTest.testHookCallFailsOnTrigger",
)
def test_a_failing_hook_fails_the_checkpoint_before_any_task_is_triggered() -> None:
    job = Harness(hooks=["mail", "ledger"])
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    assert [word.hook for word in job.take(commands.TriggerMasterHook)] == ["mail", "ledger"]
    job.give(events.MasterHookTriggered(checkpoint_id=1, hook="mail"))
    job.give(events.MasterHookFailed(checkpoint_id=1, hook="ledger", error="ledger is closed"))
    assert "ledger is closed" in job.errors()[request]
    assert [note.reason for note in job.notes(CheckpointAborted)] == ["TRIGGER_CHECKPOINT_FAILURE"]
    assert job.triggered() == []
    assert job.pending() == []


@pytest.mark.flink("CheckpointCoordinatorMasterHooksTest.ensureRegisteredAtHookTime")
def test_the_checkpoint_is_pending_when_hooks_are_called() -> None:
    job = Harness(hooks=["mail"])
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    [command] = job.take(commands.TriggerMasterHook)
    assert command.checkpoint_id in job.coordinator.pending


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testTriggerCheckpointRequestCancelled")
def test_expiry_while_a_hook_hangs_ends_the_checkpoint_for_good() -> None:
    job = Harness(hooks=["mail"], timeout_ms=500)
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    [command] = job.take(commands.TriggerMasterHook)
    job.wait(500)
    assert Reason.CHECKPOINT_EXPIRED.message in job.errors()[request]
    assert job.coordinator.ledger.ended == {1: "CHECKPOINT_EXPIRED"}
    job.give(events.MasterHookTriggered(checkpoint_id=command.checkpoint_id, hook="mail"))
    assert job.triggered() == []
    assert not job.coordinator.trigger.is_triggering


@pytest.mark.flink("CheckpointCoordinatorTest.testTimeoutWhileCheckpointOperatorCoordinatorNotFinishing")
def test_a_hanging_operator_coordinator_is_ended_by_the_timeout() -> None:
    job = Harness(coordinators=["source"], timeout_ms=500, tolerable_failures=3)
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.take(commands.ScheduleCoordinatorCheckpoint)
    assert job.coordinator.trigger.is_triggering
    job.wait(500)
    assert not job.coordinator.trigger.is_triggering
    assert ("abort_triggering",) in job.calls
    assert job.pending() == []
    assert job.trigger() == 2


@pytest.mark.flink("CheckpointCoordinatorTest.testAbortingBeforeTriggeringCheckpointOperatorCoordinator")
def test_an_operator_coordinator_is_not_asked_for_an_aborted_checkpoint() -> None:
    job = Harness(coordinators=["source"])
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    [turn] = job.take(commands.ScheduleCoordinatorCheckpoint)
    assert job.coordinator.trigger.expects_coordinator_snapshot(turn.checkpoint_id, turn.operator_id)
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
    assert not job.coordinator.trigger.expects_coordinator_snapshot(turn.checkpoint_id, turn.operator_id)
    assert (
        job.coordinator.trigger.on_coordinator_snapshot(turn.checkpoint_id, turn.operator_id, b"late").name
        == "DISCARDED"
    )
    assert job.triggered() == []


def test_a_failing_operator_coordinator_fails_the_checkpoint() -> None:
    job = Harness(coordinators=["source"])
    request = job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    job.coordinator.trigger.on_coordinator_snapshot_failed(1, operator_id("source"), "no splits left to tell")
    assert "no splits left to tell" in job.errors()[request]
    assert job.pending() == []


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testTriggerCheckpointWithShuttingDownCoordinator")
@pytest.mark.parametrize("answered", [0, 1, 2])
def test_shutdown_in_the_middle_of_triggering_fails_the_request(answered: int) -> None:
    job = Harness(hooks=["mail"])
    request = job.request()
    for kind in (commands.AllocateCheckpointId, commands.InitializeLocation)[:answered]:
        job.answer(kind)
    job.coordinator.shut_down("CANCELED")
    assert not job.coordinator.trigger.is_triggering
    job.answer_triggering()
    assert Reason.CHECKPOINT_COORDINATOR_SHUTDOWN.message in job.errors()[request]
    assert job.pending() == []
    assert job.triggered() == []


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.discardingTriggeringCheckpointWillExecuteNextCheckpointRequest")
@pytest.mark.parametrize("answered", [1, 2, 3])
def test_dropping_the_checkpoint_being_triggered_lets_the_queued_one_start(answered: int) -> None:
    job = Harness(hooks=["mail"], coordinators=["source"], timeout_ms=500, tolerable_failures=3)
    steps = (commands.AllocateCheckpointId, commands.InitializeLocation, commands.ScheduleCoordinatorCheckpoint)
    job.request()
    for kind in steps[:answered]:
        job.answer(kind)
    job.request()
    job.at += 500
    job.give(events.TimerFired(timer="checkpoint-timeout-1"))
    job.answer_triggering()
    assert job.triggered() == [("source/0", 2), ("source/1", 2)]
    assert job.pending() == [2]


@pytest.mark.flink("CheckpointCoordinatorTest.testTasksFinishDuringTriggering")
def test_a_task_that_finishes_before_its_trigger_arrives_ends_the_checkpoint() -> None:
    job = Harness()
    request = job.request()
    job.answer_triggering()
    assert ("source/0", 1) in job.triggered()
    job.states["source/0"] = ExecutionState.FINISHED
    job.decline(1, "source/0", Reason.CHECKPOINT_DECLINED_TASK_NOT_READY)
    assert "source/0 had finished before the checkpoint reached it: ask for another" in job.errors()[request]
    assert job.aborted() == [(task, 1) for task in TASKS]


def test_a_job_restarted_before_there_was_an_id_takes_no_checkpoint_of_its_old_tasks() -> None:
    job = Harness()
    request = job.request()
    job.epoch = 2
    job.answer_triggering()
    assert "was restarted before there was an id" in job.errors()[request]
    assert job.pending() == []


def test_a_directory_that_comes_too_late_is_removed() -> None:
    job = Harness()
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.coordinator.abort_pending_checkpoints(Reason.JOB_FAILOVER_REGION)
    assert job.take(commands.DiscardState) == []
    job.answer(commands.InitializeLocation)
    assert [(word.paths, word.location) for word in job.take(commands.DiscardState)] == [((), "chk-1")]


@pytest.mark.flink("CheckpointCoordinatorTest.testBaseLocationsNotInitialized")
def test_base_directories_are_made_with_the_first_checkpoint_and_not_before() -> None:
    job = Harness()
    assert job.emitted == []
    bases = []
    job.request_savepoint()
    for _ in range(3):
        job.answer(commands.AllocateCheckpointId)
        bases += [word.initialize_base for word in job.emitted if isinstance(word, commands.InitializeLocation)]
        job.answer_triggering()
        job.complete(job.next_id - 1)
        job.request()
    assert bases == [False, True, False]


# --- what the tasks receive ------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "CheckpointCoordinatorTriggeringTest.testTriggeringCheckpointsWithIncrementalCheckpointType",
    "CheckpointCoordinatorTriggeringTest.testTriggeringCheckpointsWithFullCheckpointType",
)
@pytest.mark.parametrize(("full", "kind"), [(False, CHECKPOINT), (True, FULL_CHECKPOINT)])
def test_a_user_may_ask_for_a_full_checkpoint(full: bool, kind: object) -> None:
    job = Harness()
    checkpoint_id = job.trigger(full=full)
    assert {word.options.snapshot_type for word in job.take(TriggerTaskCheckpoint)} == {kind}
    job.complete(checkpoint_id)
    assert job.retained()[0].properties.snapshot_type is kind


@pytest.mark.parametrize(
    ("settings", "alignment", "savepoint_alignment"),
    [
        ({}, AlignmentType.ALIGNED, AlignmentType.ALIGNED),
        ({"mode": "at_least_once"}, AlignmentType.AT_LEAST_ONCE, AlignmentType.AT_LEAST_ONCE),
        ({"unaligned": True}, AlignmentType.UNALIGNED, AlignmentType.ALIGNED),
        ({"unaligned": True, "aligned_timeout_ms": 50}, AlignmentType.ALIGNED, AlignmentType.ALIGNED),
    ],
)
def test_alignment_follows_the_settings(
    settings: dict[str, object], alignment: AlignmentType, savepoint_alignment: AlignmentType
) -> None:
    job = Harness(**settings)
    job.complete(job.trigger())
    [first, _] = job.take(TriggerTaskCheckpoint)
    assert (first.options.alignment, first.options.location) == (alignment, "chk-1")
    assert first.options.is_timeoutable == ("aligned_timeout_ms" in settings)
    job.trigger_savepoint()
    assert {word.options.alignment for word in job.take(TriggerTaskCheckpoint)} == {savepoint_alignment}


def test_operator_coordinators_come_before_hooks_and_hooks_before_tasks() -> None:
    job = Harness(graph({"a": 1, "b": 1, "c": 1}, edges=[("a", "c", "hash"), ("b", "c", "hash")]), hooks=["mail"])
    job.coordinator = type(job.coordinator)(
        job.coordinator.job.job_id,
        job.graph,
        job,
        operator_coordinators=[operator_id("a"), operator_id("b")],
        hooks=["mail"],
    )
    job.request()
    job.answer(commands.AllocateCheckpointId)
    job.answer(commands.InitializeLocation)
    assert job.take(commands.TriggerMasterHook) == []
    turns = job.take(commands.ScheduleCoordinatorCheckpoint)
    for turn in turns:
        assert job.take(commands.TriggerMasterHook) == []
        job.coordinator.trigger.on_coordinator_snapshot(1, turn.operator_id, None)
    assert len(turns) == 2
    assert job.triggered() == []
    assert job.answer(commands.TriggerMasterHook)
    assert job.triggered() == [("a/0", 1), ("b/0", 1)]
