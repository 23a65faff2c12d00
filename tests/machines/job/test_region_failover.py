"""The failover of regions: what a failure restarts, what goes on, and what both are told.

The job is `source` x2 -forward-> `sums` x2: two regions, whose sources share their operator coordinators. At the end of
this module it is another one, with regions that are in several slots, and several in one slot.
"""

from __future__ import annotations

from typing import Any

import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, StreamEnvironment, count
from kit.core.protocol import commands, events
from kit.core.protocol.messages import (
    DeployTask,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEventToTask,
    TriggerTaskCheckpoint,
)
from kit.core.protocol.notes import AcknowledgeIgnored, CheckpointAborted, StateAssigned
from kit.core.protocol.tasks import ExecutionState
from kit.machines.job.status import JobStatus, Phase
from kit.stream.operators.coordinator import NO_CHECKPOINT
from kit.stream.settings.job_settings import ExponentialDelay, FailoverStrategy, FixedDelay, NoRestart, RescaleConfig
from tests.machines.coordinator.harness import keyed_state
from tests.machines.job.harness import JobHarness

FIRST, SECOND = ("source/0", "sums/0"), ("source/1", "sums/1")
"""The tasks of the two regions."""


def two_regions(**facts: Any) -> JobHarness:
    return JobHarness(**{"regions": True, "tolerable_failures": 100, **facts})


def attempts(job: JobHarness) -> dict[str, int]:
    return {task: job.master.attempts.of(task) for task in job.tasks}


def states(job: JobHarness) -> dict[str, str]:
    return {task: record.state.name for task, record in job.master.tasks.items()}


def redeploy(job: JobHarness) -> list[DeployTask]:
    """Let the region's tasks stop and the delay pass; return the deployments."""
    job.take(DeployTask)
    job.answer_all()
    job.wait(5)
    job.answer_all()
    return job.deployed()


# --- what a failure restarts ------------------------------------------------------------------------------------------


def test_a_failed_task_restarts_its_region_and_no_other_task() -> None:
    job = two_regions().run()
    job.fail("source/1")
    (stop,) = job.take(commands.StopTasks)
    assert (stop.tasks, job.take(commands.StopEpoch)) == (SECOND, [])
    assert states(job) == {
        "source/0": "RUNNING",
        "source/1": "FAILED",
        "sums/0": "RUNNING",
        "sums/1": "CANCELING",
    }
    job.emitted.append(stop)
    deployed = redeploy(job)
    assert [(word.task, word.attempt) for word in deployed] == [("source/1", 2), ("sums/1", 2)]
    assert attempts(job) == {"source/0": 1, "sums/0": 1, "source/1": 2, "sums/1": 2}
    (start,) = job.take(commands.StartTasks)
    assert (start.epoch, start.attempts) == (1, {"source/1": 2, "sums/1": 2})


def test_the_job_is_restarting_until_the_region_is_deployed() -> None:
    job = two_regions().run()
    job.take(commands.JobStatusChanged)
    job.fail("sums/1")
    assert (job.status, job.master.phase) == (JobStatus.RESTARTING, Phase.FAILING_OVER)
    redeploy(job)
    assert job.status is JobStatus.RUNNING
    told = [(word.status, word.error) for word in job.take(commands.JobStatusChanged)]
    assert told == [("RESTARTING", "sums/1 failed: it broke"), ("RUNNING", "")]


def test_a_lost_slot_restarts_the_regions_in_it() -> None:
    job = two_regions().run()
    job.give(events.SlotLost(epoch=1, slot=0, error="it died"))
    assert [word.tasks for word in job.take(commands.StopTasks)] == [FIRST]
    job.answer_all()
    job.give(events.TasksStopped(epoch=1, restart=1, tasks=FIRST))
    job.wait(5)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == {"source/0": 2, "sums/0": 2, "slot 0": 2}, "the slot has a new machine, too"
    job.all_become(ExecutionState.RUNNING)
    for slot, task, region in ((None, "source/0", FIRST), (1, "source/1", SECOND)):
        if slot is None:
            job.fail(task)
        else:
            job.give(events.SlotLost(epoch=1, slot=slot, error="it died"))
        redeploy(job)
        (start,) = job.take(commands.StartTasks)
        lost = set() if slot is None else {f"slot {slot}"}
        assert set(start.attempts) == {*region, *lost}, "a slot that was replaced is not replaced again"


def test_slots_that_end_with_their_tasks_are_replaced_as_lost_ones() -> None:
    job = two_regions().run()
    for attempt, slots in ((2, (1,)), (3, (1,)), (4, ())):
        job.fail("source/1")
        (stop,) = job.take(commands.StopTasks)
        job.give(stop.stopped(slots))
        job.wait(5)
        (start,) = job.take(commands.StartTasks)
        replaced = {f"slot {slot}": attempt for slot in slots}
        assert start.attempts == {"source/1": attempt, "sums/1": attempt} | replaced
        job.all_become(ExecutionState.RUNNING)


def test_a_failure_of_all_regions_restarts_the_job() -> None:
    job = JobHarness(tolerable_failures=100)
    job.master.failover.is_enabled = True
    job.run()
    job.fail("source/0")
    assert job.take(commands.StopTasks) == []
    assert len(job.take(commands.StopEpoch)) == 1


@pytest.mark.parametrize(
    ("facts", "is_alone"),
    [
        ({}, True),
        ({"regions": False}, False),
        ({"failover": FailoverStrategy.FULL}, False),
        ({"rescaling": RescaleConfig(reactive=True)}, False),
    ],
    ids=["regions", "one region", "full failover", "reactive"],
)
def test_a_region_restarts_alone_unless_the_settings_say_otherwise(facts: dict[str, Any], is_alone: bool) -> None:
    job = two_regions(**facts).run()
    job.fail("source/1")
    assert bool(job.take(commands.StopTasks)) is is_alone
    assert bool(job.take(commands.StopEpoch)) is not is_alone


def test_attempts_count_on_over_a_restart_of_the_whole_job() -> None:
    job = two_regions().run()
    job.fail("source/1")
    redeploy(job)
    job.all_become(ExecutionState.RUNNING)
    job.master.coordinator_failed("it broke", may_pass=False)
    job.give(events.RequestCheckpoint(request_id=99))
    job.restart()
    assert attempts(job) == {"source/0": 2, "sums/0": 2, "source/1": 3, "sums/1": 3}
    (_, start) = job.take(commands.StartEpoch)
    assert (start.epoch, start.attempts) == (2, {"source/1": 3, "sums/1": 3})


# --- what is restored -------------------------------------------------------------------------------------------------


def test_only_the_region_gets_the_state_of_the_latest_checkpoint() -> None:
    job = two_regions().run()
    checkpoint_id = job.trigger()
    for task in job.tasks:
        job.ack(checkpoint_id, task, keyed_state(task))
    job.answer_all()
    job.fail("source/1")
    job.take(StateAssigned)
    deployed = redeploy(job)
    assert [word.task for word in deployed] == list(SECOND)
    assert all(word.restore is not None and word.restore.checkpoint_id == checkpoint_id for word in deployed)
    (note,) = job.take(StateAssigned)
    assert (tuple(note.tasks), note.epoch) == (SECOND, 1)
    assert {row["task"] for row in note.assignments} == set(SECOND)


def test_without_a_checkpoint_the_region_starts_from_scratch() -> None:
    job = two_regions().run()
    job.fail("sums/1")
    assert [word.restore for word in redeploy(job)] == [None, None]
    assert job.take(StateAssigned) == []


@pytest.mark.flink("CheckpointCoordinatorTest.testResetCalledInRegionRecovery")
def test_master_hooks_are_reset_although_only_a_region_goes_back() -> None:
    job = two_regions(hooks=("audit",)).run()
    job.take(commands.ResetMasterHooks)
    job.fail("source/1")
    job.answer_all(but=[commands.ResetMasterHooks])
    job.wait(5)
    job.answer_all(but=[commands.ResetMasterHooks])
    assert job.take(commands.StartTasks) == [], "the hooks come first"
    job.answer(commands.ResetMasterHooks)
    assert len(job.take(commands.StartTasks)) == 1


def test_master_hooks_are_restored_although_only_a_region_goes_back() -> None:
    job = two_regions(hooks=("audit",)).run()
    checkpoint_id = job.complete()
    job.fail("source/1")
    job.answer_all(but=[commands.RestoreMasterHooks])
    job.wait(5)
    (restore,) = job.take(commands.RestoreMasterHooks)
    assert restore.checkpoint_id == checkpoint_id
    job.give(events.MasterHooksRestored(checkpoint_id=checkpoint_id))
    assert len(job.take(commands.StartTasks)) == 1


def test_hooks_that_fail_fail_the_whole_job() -> None:
    job = two_regions(hooks=("audit",)).run()
    checkpoint_id = job.complete()
    job.fail("source/1")
    job.answer_all(but=[commands.RestoreMasterHooks])
    job.wait(5)
    job.give(events.MasterHookFailed(checkpoint_id=checkpoint_id, hook="audit", error="it broke"))
    assert len(job.take(commands.StopEpoch)) == 1
    assert job.master.phase is Phase.RESTARTING


# --- operator coordinators --------------------------------------------------------------------------------------------


@pytest.mark.flink(
    "OperatorCoordinatorSchedulerTest.testLocalFailoverResetsTask",
    "OperatorCoordinatorSchedulerTest.testLocalFailoverDoesNotResetToCheckpoint",
)
def test_a_coordinator_is_told_of_the_subtask_that_goes_back_and_keeps_its_state() -> None:
    job = two_regions(coordinator=True).run()
    checkpoint_id = job.complete()
    job.fail("sums/1")
    redeploy(job)
    job.all_become(ExecutionState.RUNNING)
    calls = job.coordinator.said("failed", "subtask reset", "reset", "ready", "close", "start")
    assert calls[-3:] == [("failed", 1, 1, None), ("subtask reset", 1, checkpoint_id), ("ready", 1, 2)]
    assert len(job.spec.made) == 1
    assert job.coordinator.said("reset") == []


@pytest.mark.flink(
    "OperatorCoordinatorSchedulerTest.testLocalFailoverBeforeCheckpointResetsTask",
    "OperatorCoordinatorSchedulerTest.testBatchLocalFailoverResetsTask",
    "OperatorCoordinatorSchedulerTest.testBatchLocalFailoverDoesNotResetToCheckpoint",
)
def test_before_a_checkpoint_the_subtask_goes_back_to_its_beginning() -> None:
    job = two_regions(coordinator=True).run()
    job.fail("source/1")
    redeploy(job)
    assert job.coordinator.said("failed", "subtask reset") == [
        ("failed", 1, 1, "it broke"),
        ("subtask reset", 1, NO_CHECKPOINT),
    ]


@pytest.mark.flink(
    "OperatorCoordinatorSchedulerTest.testGlobalFailoverDoesNotNotifyLocalRestore",
    "OperatorCoordinatorSchedulerTest.testBatchGlobalFailoverDoesNotNotifyLocalRestore",
)
def test_a_restart_of_the_job_resets_no_single_subtask() -> None:
    job = two_regions(coordinator=True).run()
    job.give(events.SlotLost(epoch=1, slot=0, error="it died"))
    job.give(events.ClusterStopped(error="it was stopped"))
    job.answer_all()
    assert job.coordinator.said("subtask reset") == []


def test_nothing_is_sent_to_a_subtask_that_is_stopping() -> None:
    job = two_regions(coordinator=True).run()
    gateway = job.coordinator.gateways[1]
    job.fail("sums/1")
    gateway.send_event({"n": 1})
    job.give(events.RequestCheckpoint(request_id=9))
    assert job.take(OperatorEventToTask) == []


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_pending_checkpoints_are_aborted_and_running_tasks_are_told() -> None:
    job = two_regions().run()
    checkpoint_id = job.trigger()
    job.ack(checkpoint_id, "source/0")
    job.fail("sums/1")
    (note,) = job.take(CheckpointAborted)
    assert (note.checkpoint_id, note.reason) == (checkpoint_id, "JOB_FAILOVER_REGION")
    assert {word.task for word in job.take(NotifyCheckpointAborted)} >= set(FIRST)


def test_an_acknowledgement_of_an_earlier_attempt_is_unknown() -> None:
    job = two_regions().run()
    job.fail("source/1")
    redeploy(job)
    job.all_become(ExecutionState.RUNNING)
    checkpoint_id = job.trigger()
    job.ack(checkpoint_id, "source/1", attempt=1)
    assert [word.result for word in job.take(AcknowledgeIgnored)] == ["UNKNOWN"]
    assert {word.task: word.attempt for word in job.take(TriggerTaskCheckpoint)} == {"source/0": 1, "source/1": 2}
    job.ack_all(checkpoint_id)
    job.answer_all()
    told = {word.task: word.attempt for word in job.take(NotifyCheckpointComplete)}
    assert told == {"source/0": 1, "sums/0": 1, "source/1": 2, "sums/1": 2}


def test_no_checkpoint_is_taken_until_all_tasks_run_again() -> None:
    job = two_regions(interval_ms=100).run()
    job.fail("source/1")
    redeploy(job)
    job.become("source/1", ExecutionState.RUNNING)
    job.wait(500)
    assert job.take(commands.AllocateCheckpointId) == []
    job.become("sums/1", ExecutionState.RUNNING)
    job.wait(100)
    assert len(job.take(commands.AllocateCheckpointId)) == 1


def test_a_checkpoint_being_stored_is_decided_before_the_region_goes_back_to_it() -> None:
    job = two_regions().run()
    checkpoint_id = job.trigger()
    job.ack_all(checkpoint_id)
    job.answer(commands.WriteMetadata)
    job.fail("source/1")
    job.take(DeployTask)
    job.answer(commands.StopTasks)
    job.wait(5)
    assert job.take(DeployTask) == []
    job.answer(commands.StoreCheckpoint)
    job.take(NotifyCheckpointComplete)
    assert [word.restore and word.restore.checkpoint_id for word in job.deployed()] == [None, None]
    assert job.master.checkpoints.store.latest_id == checkpoint_id


PHASES = {
    "id": (),
    "location": (commands.AllocateCheckpointId,),
    "coordinators": (commands.AllocateCheckpointId, commands.InitializeLocation),
    "hooks": (commands.AllocateCheckpointId, commands.InitializeLocation, commands.ScheduleCoordinatorCheckpoint),
    "tasks": (
        commands.AllocateCheckpointId,
        commands.InitializeLocation,
        commands.ScheduleCoordinatorCheckpoint,
        commands.TriggerMasterHook,
    ),
}
"""The commands that are answered before a checkpoint reaches each phase."""


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_checkpoint_in_any_phase_gives_way_to_the_restart(phase: str, is_late: bool) -> None:
    job = two_regions(coordinator=True, hooks=("audit",)).run()
    request = job.request()
    for kind in PHASES[phase]:
        job.answer(kind)
    job.fail("source/1")
    if is_late:  # the answers of its last phase come during the restart
        job.answer(commands.AllocateCheckpointId, commands.InitializeLocation, commands.ScheduleCoordinatorCheckpoint)
    redeploy(job)
    job.all_become(ExecutionState.RUNNING)
    job.answer_all()
    assert job.master.phase is Phase.RUNNING
    assert job.answers()[request], "the request was answered with an error"
    assert not job.master.checkpoints.pending
    job.complete()
    assert job.master.checkpoints.store.latest is not None


# --- several failures -------------------------------------------------------------------------------------------------


def test_two_regions_fail_one_after_the_other_and_restart_each_for_itself() -> None:
    job = two_regions().run()
    job.fail("source/1")
    job.wait(3)
    job.fail("source/0")
    assert [word.tasks for word in job.take(commands.StopTasks)] == [SECOND, FIRST]
    job.give(events.TasksStopped(epoch=1, restart=1, tasks=SECOND))
    job.give(events.TasksStopped(epoch=1, restart=2, tasks=FIRST))
    job.take(DeployTask)
    job.wait(2)
    assert [word.task for word in job.deployed()] == list(SECOND)
    assert job.status is JobStatus.RESTARTING
    job.wait(3)
    assert [word.task for word in job.deployed()] == list(FIRST)
    assert job.status is JobStatus.RUNNING
    assert attempts(job) == dict.fromkeys((*FIRST, *SECOND), 2)


def test_a_region_that_fails_during_its_own_restart_restarts_again() -> None:
    job = two_regions().run()
    job.fail("source/1")
    redeploy(job)
    job.become("source/1", ExecutionState.RUNNING)
    job.fail("sums/1")
    assert [(word.task, word.attempt) for word in redeploy(job)] == [("source/1", 3), ("sums/1", 3)]


def test_a_task_that_fails_while_its_region_stops_changes_nothing() -> None:
    job = two_regions().run()
    job.fail("source/1")
    job.fail("sums/1")
    job.give(events.SlotLost(epoch=1, slot=1, error="it died"))
    assert len(job.take(commands.StopTasks)) == 1
    job.give(events.TasksStopped(epoch=1, restart=1, tasks=SECOND))
    job.wait(5)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == {"source/1": 2, "sums/1": 2, "slot 1": 2}


def test_a_failure_of_the_job_ends_the_restart_of_a_region() -> None:
    job = two_regions().run()
    job.fail("source/1")
    job.master.coordinator_failed("it broke", may_pass=False)
    job.give(events.TimerFired(timer="none"))
    assert len(job.take(commands.StopEpoch)) == 1
    assert [word.timer for word in job.take(commands.CancelTimer)] == ["restart of regions 1"]
    job.give(events.TasksStopped(epoch=1, restart=1, tasks=SECOND))
    job.give(events.EpochEnded(epoch=1))
    job.wait(5)
    assert job.take(commands.StartTasks) == []
    assert len(job.deployed()) == 8


def test_a_region_that_has_finished_is_left_alone() -> None:
    job = two_regions().run()
    for task in SECOND:
        job.become(task, ExecutionState.FINISHED)
    job.give(events.SlotLost(epoch=1, slot=1, error="it died"))
    assert job.take(commands.StopTasks) == job.take(commands.StopEpoch) == []
    job.fail("source/0")
    assert [word.task for word in redeploy(job)] == list(FIRST)


def test_the_strategy_counts_the_restarts_of_regions() -> None:
    job = two_regions(restart=FixedDelay(1, 5)).run()
    job.fail("source/1")
    redeploy(job)
    job.all_become(ExecutionState.RUNNING)
    job.fail("source/0")
    assert job.master.phase is Phase.FAILING
    job.answer_all()
    assert (job.status, job.master.error) == (JobStatus.FAILED, "source/0 failed: it broke")


def test_a_job_without_restarts_fails_with_a_region() -> None:
    job = two_regions(restart=NoRestart()).run()
    job.fail("source/1")
    job.answer_all()
    assert job.status is JobStatus.FAILED


# --- the user ---------------------------------------------------------------------------------------------------------


def test_a_savepoint_requested_meanwhile_waits_for_all_tasks() -> None:
    job = two_regions().run()
    job.fail("source/1")
    job.savepoint()
    redeploy(job)
    assert job.take(TriggerTaskCheckpoint) == []
    job.all_become(ExecutionState.RUNNING)
    job.answer_all()
    assert {word.attempt for word in job.take(TriggerTaskCheckpoint)} == {1, 2}


def test_the_job_can_be_cancelled_meanwhile() -> None:
    job = two_regions().run()
    job.fail("source/1")
    job.give(events.RequestCancel())
    job.answer_all()
    assert job.status is JobStatus.CANCELED
    job.wait(100)
    assert job.take(commands.StartTasks) == []


# --- slots ------------------------------------------------------------------------------------------------------------


def test_a_region_without_slots_fails_the_job_with_numbers() -> None:
    job = two_regions(restart=ExponentialDelay(initial_delay_ms=10, max_delay_ms=10)).run()
    job.give(events.SlotsChanged(slots=1))
    job.give(events.SlotLost(epoch=1, slot=1, error="it died"))
    job.answer_all()
    for _ in range(3):
        job.wait(20)
        assert job.take(commands.StartTasks) == []
        job.wait(300_000)
    job.answer_all()
    assert job.status is JobStatus.FAILED
    assert job.master.error.startswith(
        "region 2 (source/1, sums/1) cannot restart: the job needs 2 slots, 1 is there, and the tasks that run hold 1 "
        "of them, and no others came within 300000 ms"
    )


def test_a_region_restarts_as_soon_as_its_slots_are_there() -> None:
    job = two_regions().run()
    job.give(events.SlotsChanged(slots=1))
    job.give(events.SlotLost(epoch=1, slot=1, error="it died"))
    job.answer_all()
    job.wait(100)
    assert job.take(commands.StartTasks) == []
    job.give(events.SlotsChanged(slots=2))
    assert len(job.take(commands.StartTasks)) == 1
    assert "slot-wait" not in job.timers


def test_regions_that_wait_for_their_slots_restart_together() -> None:
    job = two_regions().run()
    job.give(events.SlotsChanged(slots=0))
    for slot in (1, 0):
        job.give(events.SlotLost(epoch=1, slot=slot, error="it died"))
    job.answer_all()
    job.wait(100)
    job.give(events.SlotsChanged(slots=2))
    (start,) = job.take(commands.StartTasks)
    assert list(start.attempts) == [*SECOND, *FIRST, "slot 0", "slot 1"]
    assert set(start.attempts.values()) == {2}


# --- regions in several slots -----------------------------------------------------------------------------------------


def five_regions(**settings: Any) -> JobHarness:
    """Return a running job of four copies, in slots 0 to 3, and a keyed pipeline of three subtasks, in slots 0 to 2."""
    env = StreamEnvironment(
        "five", failover="region", checkpoint=CheckpointConfig(tolerable_failures=100), restart=FixedDelay(10, 5)
    )
    rows = [{"k": "a"}]
    copied = env.from_source(CollectionSource(rows, splits=4), uid="copied").set_parallelism(4)
    copied.sink_to(CollectSink("copies"), uid="copies").set_parallelism(4)
    keyed = env.from_source(CollectionSource(rows, splits=3), uid="keyed").set_parallelism(3)
    counted = keyed.key_by("k").aggregate(rows=count()).uid("counts").set_parallelism(3)
    counted.sink_to(CollectSink("counts"), uid="counted").set_parallelism(3)
    job = JobHarness(job=env.job_graph())
    job.give(events.StartJob())
    for each in job.take(commands.EnumerateSplits):
        job.give(events.SplitsEnumerated(operator_id=each.operator_id, splits=()))
    job.answer_all()
    return job.all_become(ExecutionState.RUNNING)


KEYED = tuple(f"{name}/{subtask}" for name in ("keyed", "counts") for subtask in range(3))


def stopped(job: JobHarness, **slots: tuple[int, ...]) -> None:
    """Answer each order to stop tasks; `slots` are those that end with the tasks of a restart ("of_1")."""
    for word in job.take(commands.StopTasks):
        job.give(word.stopped(slots.get(f"of_{word.restart}", ())))


def lose(job: JobHarness, *slots: int) -> None:
    for slot in slots:
        job.give(events.SlotLost(epoch=1, slot=slot, error=f"slot {slot} died"))


def test_a_lost_slot_of_two_regions_is_replaced_with_those_that_end_with_either() -> None:
    job = five_regions()
    lose(job, 0)
    assert [word.tasks for word in job.emitted if isinstance(word, commands.StopTasks)] == [("copied/0", *KEYED)]
    stopped(job, of_1=(1, 2))
    job.wait(5)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == dict.fromkeys(("copied/0", *KEYED, "slot 0", "slot 1", "slot 2"), 2)


def test_a_region_that_restarts_with_another_is_not_stopped_again() -> None:
    job = five_regions()
    lose(job, 0, 1)
    assert [word.tasks for word in job.take(commands.StopTasks)] == [("copied/0", *KEYED), ("copied/1",)]


def test_a_lost_slot_waits_for_its_own_restart() -> None:
    job = five_regions()
    job.fail("copied/2")
    stopped(job)
    job.wait(3)
    lose(job, 3)
    job.wait(2)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == {"copied/2": 2}
    stopped(job)
    job.wait(3)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == {"copied/3": 2, "slot 3": 2}


def test_a_slot_that_the_whole_job_replaced_is_there() -> None:
    job = five_regions()
    lose(job, 3)
    job.master.coordinator_failed("it broke", may_pass=False)
    job.give(events.TimerFired(timer="none"))
    job.restart()
    job.fail("copied/3")
    stopped(job)
    job.wait(5)
    (start,) = job.take(commands.StartTasks)
    assert start.attempts == {"copied/3": 3}


def test_regions_without_slots_wait_again_and_the_numbers_count_all_others() -> None:
    job = five_regions()
    job.give(events.SlotsChanged(slots=2))
    lose(job, 3)
    job.fail("copied/1")
    stopped(job)
    job.wait(5)
    job.take(commands.ScheduleTimer)
    job.wait(300_000)
    again = [word.timer for word in job.take(commands.ScheduleTimer) if word.timer.startswith("restart of regions")]
    assert again == ["restart of regions 1", "restart of regions 2"]
    for _ in range(20):
        job.wait(300_005)
    job.answer_all()
    assert job.master.error.startswith(
        "region 4 (copied/3), region 2 (copied/1) cannot restart: the job needs 4 slots, 2 are there, and the tasks "
        "that run hold 3 of them"
    )


def test_a_failure_of_the_job_ends_all_restarts_of_regions() -> None:
    job = five_regions()
    lose(job, 3)
    job.fail("copied/1")
    job.master.coordinator_failed("it broke", may_pass=False)
    job.give(events.TimerFired(timer="none"))
    assert [word.timer for word in job.take(commands.CancelTimer)] == ["restart of regions 1", "restart of regions 2"]


def test_a_region_of_which_some_tasks_have_finished_restarts() -> None:
    job = five_regions()
    for task in ("keyed/0", "keyed/1", "keyed/2", "copied/1"):
        job.become(task, ExecutionState.FINISHED)
    lose(job, 1)
    assert [word.tasks for word in job.take(commands.StopTasks)] == [KEYED]
