"""The four restart strategies: whether, and after how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.graph.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from kit.job.restart import create_restarts


def delays(strategy: RestartStrategy, *failures: int) -> list[int | None]:
    """What the strategy answers to failures at these times."""
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
