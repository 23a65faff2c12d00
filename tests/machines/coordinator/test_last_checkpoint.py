"""Tasks that leave when a checkpoint covers the end of their input; no later checkpoint has to fail for it."""

from __future__ import annotations

from kit.core.protocol import commands, events
from kit.core.protocol.tasks import ExecutionState
from kit.core.state.operator_state import TaskStateSnapshot
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from tests.machines.coordinator.harness import Harness

SOURCES = ("source/0", "source/1")
TASKS = (*SOURCES, "sums/0", "sums/1")

ENDED = TaskStateSnapshot({}, is_task_finished=True)


def covering(job: Harness, *ended: str) -> int:
    """Complete a checkpoint in which these tasks had reached the end of their input; returns its id."""
    checkpoint_id = job.trigger()
    for task in TASKS:
        job.ack(checkpoint_id, task, ENDED if task in ended else None)
    job.answer_completing()
    job.triggered()
    return checkpoint_id


def finish(job: Harness, *tasks: str) -> None:
    for task in tasks:
        job.states[task] = ExecutionState.FINISHED
        job.coordinator.trigger.go_on()


def test_a_checkpoint_that_covers_the_end_of_all_tasks_is_the_last() -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    covering(job, *TASKS)
    assert not job.coordinator.periodic.is_scheduling
    job.at += 1_000
    job.give(events.TimerFired(timer=PERIODIC_TIMER))
    assert job.take(commands.AllocateCheckpointId) == []
    assert job.coordinator.statistics.to_pandas()["status"].tolist() == ["COMPLETED"]


def test_who_asks_for_another_at_the_same_time_learns_why_there_is_none() -> None:
    job = Harness()
    checkpoint_id = job.trigger()
    waiting = job.request()
    for task in TASKS:
        job.ack(checkpoint_id, task, ENDED)
    job.answer_completing()
    assert "the job finishes by itself" in job.errors()[waiting]


def test_while_one_task_still_reads_checkpoints_go_on() -> None:
    job = Harness(interval_ms=100)
    job.coordinator.start_checkpoint_scheduler()
    covering(job, *SOURCES, "sums/0")
    assert job.coordinator.periodic.is_scheduling
    assert not job.coordinator.ledger.took_last_checkpoint


def test_the_next_checkpoint_is_not_triggered_before_the_leaving_have_left() -> None:
    """The trigger would find a task that has finished, and the checkpoint would fail."""
    job = Harness()
    covering(job, "source/0")
    request = job.request()
    job.answer_triggering()
    assert job.triggered() == []
    finish(job, "source/0")
    assert job.triggered() == [("source/1", 2)]
    job.complete(2)
    assert request not in job.errors()


def test_an_unaligned_barrier_need_not_wait() -> None:
    job = Harness(unaligned=True)
    covering(job, "source/0")
    job.request()
    job.answer_triggering()
    assert sorted(job.triggered()) == [("source/0", 2), ("source/1", 2)]


def test_a_checkpoint_that_waits_for_a_task_which_never_leaves_expires() -> None:
    job = Harness()
    covering(job, "source/0")
    request = job.request()
    job.answer_triggering()
    job.give(events.TimerFired(timer="checkpoint-timeout-2"))
    assert "expired" in job.errors()[request]
    finish(job, "source/0")
    assert job.triggered() == []


def test_after_a_restart_all_begins_anew() -> None:
    job = Harness(interval_ms=100)
    covering(job, *TASKS)
    job.epoch = 2
    job.coordinator.use_graph(job.coordinator.job.plan_calculator.graph)
    assert (job.coordinator.ledger.leaving, job.coordinator.ledger.took_last_checkpoint) == (set(), False)
