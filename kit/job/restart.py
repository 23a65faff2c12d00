"""Whether a failed job is tried again, and when.

A strategy is told of each failure and answers with the delay before the next attempt, or None when the job is to
fail. The settings are data (`kit.graph.settings`); here is what they do. None of them reads a clock: the host's time
comes with the failure. Exponential delay takes no jitter here, so that a replay restarts at the same moment; Flink
adds a random part of the delay to keep many jobs from restarting together.

Follows Flink's `RestartBackoffTimeStrategy` and its four implementations.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from kit.graph.settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy


class Restarts(Protocol):
    """A restart strategy at work."""

    def next_delay_ms(self, at: int) -> int | None:
        """The job failed at `at`: ms to wait before the next attempt, or None to give up."""


class _NoRestarts:
    def next_delay_ms(self, at: int) -> int | None:
        return None

    def __repr__(self) -> str:
        return "no restart"


class _FixedDelay:
    def __init__(self, settings: FixedDelay) -> None:
        self._settings = settings
        self._failures = 0

    def next_delay_ms(self, at: int) -> int | None:
        self._failures += 1
        return self._settings.delay_ms if self._failures <= self._settings.attempts else None

    def __repr__(self) -> str:
        return f"fixed delay, {self._failures} of {self._settings.attempts} attempts used"


class _ExponentialDelay:
    def __init__(self, settings: ExponentialDelay) -> None:
        self._settings = settings
        self._attempts = 0
        self._restarted_ms: int | None = None
        """When the last attempt began, or will begin."""

    def next_delay_ms(self, at: int) -> int | None:
        settings = self._settings
        restarted_ms = self._restarted_ms
        if restarted_ms is not None and at <= restarted_ms:
            return restarted_ms - at
        if restarted_ms is not None and at - restarted_ms >= settings.reset_after_ms:
            self._attempts = 0
        delay_ms = self._delay_ms
        self._attempts += 1
        if self._attempts > settings.attempts_before_reset:
            return None
        self._restarted_ms = at + delay_ms
        return delay_ms

    @property
    def _delay_ms(self) -> int:
        settings = self._settings
        longest = math.log(settings.max_delay_ms / settings.initial_delay_ms, settings.multiplier)
        if self._attempts >= longest:
            return settings.max_delay_ms
        return int(settings.initial_delay_ms * settings.multiplier**self._attempts)

    def __repr__(self) -> str:
        return f"exponential delay, next {self._delay_ms} ms"


class _FailureRate:
    def __init__(self, settings: FailureRate) -> None:
        self._settings = settings
        self._failures: deque[int] = deque()

    def next_delay_ms(self, at: int) -> int | None:
        settings = self._settings
        while self._failures and at - self._failures[0] > settings.interval_ms:
            self._failures.popleft()
        self._failures.append(at)
        return settings.delay_ms if len(self._failures) <= settings.max_failures else None

    def __repr__(self) -> str:
        return f"failure rate, {len(self._failures)} of {self._settings.max_failures} in the last interval"


def create_restarts(strategy: RestartStrategy) -> Restarts:
    """The strategy that these settings describe."""
    if isinstance(strategy, FixedDelay):
        return _FixedDelay(strategy)
    if isinstance(strategy, ExponentialDelay):
        return _ExponentialDelay(strategy)
    if isinstance(strategy, FailureRate):
        return _FailureRate(strategy)
    assert isinstance(strategy, NoRestart)
    return _NoRestarts()
