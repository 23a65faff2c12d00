"""The two intervals of periodic checkpoints: sources with a backlog make them rarer, or stop them."""

from __future__ import annotations

from kit.core.protocol.messages import TriggerTaskCheckpoint
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from tests.machines.coordinator.harness import Harness, operator_id

A, B = operator_id("source"), operator_id("other")


def job(during_backlog_ms: int | None, **settings: int) -> Harness:
    """A job with an interval of 100 ms that has just begun, at 1,000 ms."""
    job = Harness(interval_ms=100, interval_during_backlog_ms=during_backlog_ms, max_concurrent=100, **settings)
    job.coordinator.start_checkpoint_scheduler()
    return job


def times(job: Harness) -> list[int]:
    """Take when the checkpoints since the last look were triggered, from the beginning of the job."""
    return sorted({word.timestamp_ms - 1_000 for word in job.take(TriggerTaskCheckpoint)})


def test_during_a_backlog_the_other_interval_holds() -> None:
    job_ = job(250)
    job_.wait(150)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.wait(650)
    assert times(job_) == [100, 200, 450, 700]
    job_.coordinator.periodic.set_is_processing_backlog(A, False)
    job_.wait(250)
    assert times(job_) == [900, 1_000]


def test_a_trigger_that_is_due_sooner_stays_when_the_backlog_ends() -> None:
    job_ = job(250)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.wait(300)
    job_.coordinator.periodic.set_is_processing_backlog(A, False)
    job_.wait(200)
    assert times(job_) == [100, 350, 450]


def test_without_the_setting_a_backlog_changes_nothing() -> None:
    job_ = job(None)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.wait(350)
    assert times(job_) == [100, 200, 300]


def test_a_backlog_may_stop_checkpoints_until_the_last_source_is_through() -> None:
    job_ = job(0)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.coordinator.periodic.set_is_processing_backlog(B, True)
    job_.wait(1_000)
    job_.coordinator.periodic.set_is_processing_backlog(A, False)
    job_.wait(1_000)
    assert times(job_) == []
    job_.coordinator.periodic.set_is_processing_backlog(B, False)
    job_.wait(250)
    assert times(job_) == [2_100, 2_200]


def test_a_backlog_known_before_the_first_trigger_holds_from_the_beginning() -> None:
    job_ = Harness(interval_ms=100, interval_during_backlog_ms=0)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.coordinator.start_checkpoint_scheduler()
    job_.wait(500)
    job_.coordinator.periodic.set_is_processing_backlog(A, False)
    job_.wait(100)
    assert times(job_) == [600]


def test_a_user_may_ask_for_a_checkpoint_during_a_backlog() -> None:
    job_ = job(0)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    checkpoint_id = job_.trigger()
    assert job_.pending() == [checkpoint_id]


def test_the_end_of_a_backlog_starts_nothing_that_was_stopped() -> None:
    job_ = job(0)
    job_.coordinator.periodic.set_is_processing_backlog(A, True)
    job_.coordinator.stop_checkpoint_scheduler()
    job_.coordinator.periodic.set_is_processing_backlog(A, False)
    job_.wait(500)
    assert times(job_) == []
    job_.coordinator.start_checkpoint_scheduler()
    job_.wait(100)
    assert times(job_) == [600]


def test_a_timer_that_fires_late_does_not_shift_those_after_it() -> None:
    job_ = job(None)
    for late_ms in (30, 99, 0, 45):
        due_ms = job_.timers.pop(PERIODIC_TIMER)
        job_.at = due_ms + late_ms
        job_.coordinator.periodic.on_timer()
        assert job_.timers[PERIODIC_TIMER] == due_ms + 100, "as at a fixed rate"


def test_a_trigger_that_missed_its_whole_interval_is_made_up_for_at_once() -> None:
    job_ = job(None)
    job_.at = job_.timers.pop(PERIODIC_TIMER) + 250
    job_.coordinator.periodic.on_timer()
    assert job_.timers[PERIODIC_TIMER] == job_.at


def test_a_timer_that_fires_early_is_set_again() -> None:
    """As when the clock was turned back since: the interval is over by the clock of its host, and not by its own."""
    job_ = job(None)
    job_.wait(50)
    job_.timers.clear()
    job_.coordinator.periodic.on_timer()
    job_.wait(200)
    assert times(job_) == [100, 200]
