"""The four restart strategies: whether, and after how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.machines.job.restart import create_restarts
from kit.stream.settings.job_settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy


def delays(strategy: RestartStrategy, *failures: int) -> list[int | None]:
    """Return the strategy's delays for failures at these times."""
    restarts = create_restarts(strategy)
    return [restarts.next_delay_ms(at) for at in failures]


def test_no_restart_means_none() -> None:
    assert delays(NoRestart(), 0, 10) == [None, None]


def test_a_fixed_delay_allows_so_many_attempts_in_the_life_of_the_job() -> None:
    assert delays(FixedDelay(2, 30), 0, 100, 10**9) == [30, 30, None]
    assert delays(FixedDelay(0, 30), 0) == [None]


def test_an_exponential_delay_grows_to_its_limit() -> None:
    strategy = ExponentialDelay(initial_delay_ms=1, max_delay_ms=10, multiplier=1.5)
    assert delays(strategy, *range(0, 800, 100)) == [1, 1, 2, 3, 5, 7, 10, 10]


def test_an_exponential_delay_begins_again_after_a_quiet_time() -> None:
    strategy = ExponentialDelay(initial_delay_ms=10, max_delay_ms=100, multiplier=2, reset_after_ms=50)
    assert delays(strategy, 0, 59) == [10, 20]
    assert delays(strategy, 0, 60) == [10, 10]


def test_a_failure_before_the_attempt_began_is_no_attempt_of_its_own() -> None:
    strategy = ExponentialDelay(initial_delay_ms=10, max_delay_ms=100, multiplier=2, attempts_before_reset=1)
    assert delays(strategy, 0, 4, 10, 11) == [10, 6, 0, None]


def test_an_exponential_delay_gives_up_after_so_many_attempts_in_a_row() -> None:
    strategy = ExponentialDelay(10, 100, 2, reset_after_ms=50, attempts_before_reset=2)
    assert delays(strategy, 0, 20, 60) == [10, 20, None]
    assert delays(strategy, 0, 20, 90) == [10, 20, 10]


EAGER = ExponentialDelay(initial_delay_ms=10, max_delay_ms=40, multiplier=2, first_at_once=True)


def test_the_first_restart_may_come_at_once_and_the_delay_grows_from_the_second() -> None:
    assert delays(EAGER, *range(0, 250, 50)) == [0, 10, 20, 40, 40]


def test_a_first_restart_is_one_after_a_checkpoint_and_a_run_of_the_longest_delay() -> None:
    restarts = create_restarts(EAGER)
    assert restarts.next_delay_ms(0) == 0
    assert restarts.next_delay_ms(5, progressed=True) == 10  # it restarts at 15
    assert restarts.next_delay_ms(54, progressed=True) == 20  # it restarts at 74
    assert restarts.next_delay_ms(114) == 40  # it restarts at 154: no checkpoint has completed
    assert restarts.next_delay_ms(194, progressed=True) == 0
    assert restarts.next_delay_ms(195, progressed=True) == 10


def test_without_a_first_restart_at_once_a_checkpoint_changes_nothing() -> None:
    restarts = create_restarts(ExponentialDelay(10, 40, 2, reset_after_ms=1_000))
    assert [restarts.next_delay_ms(at, progressed=True) for at in (0, 200, 400)] == [10, 20, 40]


def test_the_delays_of_jobs_differ_by_the_jitter_and_are_the_same_again() -> None:
    strategy = ExponentialDelay(1_000, 60_000, 1.5, jitter_factor=0.1)

    def of(job_id: str) -> list[int]:
        restarts = create_restarts(strategy, job_id)
        found = [restarts.next_delay_ms(at) for at in range(0, 2_000_000, 100_000)]
        return [delay for delay in found if delay is not None]

    plain = of("")
    jobs = [of(f"{number:032x}") for number in range(20)]
    assert jobs == [of(f"{number:032x}") for number in range(20)]
    for position, delay in enumerate(plain):
        found = {job[position] for job in jobs}
        assert len(found) > 5
        assert all(max(1_000, 0.9 * delay - 1) <= each <= min(60_000, 1.1 * delay + 1) for each in found)


def test_a_failure_rate_counts_failures_within_the_interval() -> None:
    strategy = FailureRate(max_failures=2, interval_ms=100, delay_ms=5)
    assert delays(strategy, 0, 50, 100) == [5, 5, None]
    assert delays(strategy, 0, 50, 101, 151, 202) == [5, 5, 5, 5, 5]


@given(st.lists(st.integers(0, 60), max_size=30), st.integers(1, 4))
def test_a_failure_rate_is_what_its_words_say(gaps: list[int], most: int) -> None:
    times = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    for number, answer in enumerate(delays(FailureRate(most, 100, 7), *times)):
        within = sum(times[number] - time <= 100 for time in times[: number + 1])
        assert answer == (7 if within <= most else None)


@pytest.mark.parametrize(
    ("strategy", "text"),
    [
        (NoRestart(), "no restart"),
        (FixedDelay(3, 1), "fixed delay, 1 of 3 attempts used"),
        (ExponentialDelay(10, 100, 2), "exponential delay, next 20 ms"),
        (FailureRate(2, 100, 1), "failure rate, 1 of 2 in the last interval"),
    ],
)
def test_reprs_say_how_far_it_has_come(strategy: RestartStrategy, text: str) -> None:
    restarts = create_restarts(strategy)
    restarts.next_delay_ms(0)
    assert repr(restarts) == text
