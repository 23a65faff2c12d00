"""Restart strategies: whether and when a failed job is restarted.

A strategy is notified of each failure and returns the delay before the next attempt, or None if the job must fail. The
settings are data (`kit.stream.settings.job_settings`); the behaviour is here. No strategy reads a clock: the host's
time comes with the failure. The jitter of an exponential delay keeps many jobs from restarting together. Flink draws it
at random. Here it is derived from the job's id and the attempt, so that a replay restarts at the same moment.

Follows Flink's `RestartBackoffTimeStrategy` and its four implementations.
"""

from __future__ import annotations

import math
from collections import deque
from hashlib import blake2b
from typing import Protocol

from kit.stream.settings.job_settings import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy


class Restarts(Protocol):
    """A restart strategy with its state."""

    def next_delay_ms(self, at: int, *, progressed: bool = False) -> int | None:
        """Return the ms to wait before the next attempt of a job that failed at `at`, or None to give up.

        `progressed` says that a checkpoint has completed since the previous failure.
        """


class _NoRestarts:
    def next_delay_ms(self, at: int, *, progressed: bool = False) -> int | None:
        return None

    def __repr__(self) -> str:
        return "no restart"


class _FixedDelay:
    def __init__(self, settings: FixedDelay) -> None:
        self._settings = settings
        self._failures = 0

    def next_delay_ms(self, at: int, *, progressed: bool = False) -> int | None:
        self._failures += 1
        return self._settings.delay_ms if self._failures <= self._settings.attempts else None

    def __repr__(self) -> str:
        return f"fixed delay, {self._failures} of {self._settings.attempts} attempts used"


class _ExponentialDelay:
    def __init__(self, settings: ExponentialDelay, job_id: str) -> None:
        self._settings = settings
        self._job_id = job_id
        self._attempts = 0
        self._restarted_ms: int | None = None
        """The time at which the last attempt began, or will begin."""

    def next_delay_ms(self, at: int, *, progressed: bool = False) -> int | None:
        settings = self._settings
        restarted_ms = self._restarted_ms
        if restarted_ms is not None and at <= restarted_ms:
            return restarted_ms - at
        if restarted_ms is not None and at - restarted_ms >= self._reset_after_ms(progressed=progressed):
            self._attempts = 0
        delay_ms = self._delay_ms
        self._attempts += 1
        if self._attempts > settings.attempts_before_reset:
            return None
        self._restarted_ms = at + delay_ms
        return delay_ms

    def _reset_after_ms(self, *, progressed: bool) -> int:
        settings = self._settings
        soon = settings.first_at_once and progressed
        return min(settings.max_delay_ms, settings.reset_after_ms) if soon else settings.reset_after_ms

    @property
    def _delay_ms(self) -> int:
        settings, grown = self._settings, self._attempts - self._settings.first_at_once
        if grown < 0:
            return 0
        longest = math.log(settings.max_delay_ms / settings.initial_delay_ms, settings.multiplier)
        if grown >= longest:
            delay_ms = settings.max_delay_ms
        else:
            delay_ms = int(settings.initial_delay_ms * settings.multiplier**grown)
        jittered_ms = round(delay_ms * (1 + settings.jitter_factor * self._chance))
        return min(settings.max_delay_ms, max(settings.initial_delay_ms, jittered_ms))

    @property
    def _chance(self) -> float:
        """A number from -1 to 1 that depends on the job and the attempt; 0 without a job."""
        if not self._job_id:
            return 0.0
        drawn = blake2b(f"{self._job_id} {self._attempts}".encode(), digest_size=4).digest()
        return int.from_bytes(drawn) / 0xFFFFFFFF * 2 - 1

    def __repr__(self) -> str:
        return f"exponential delay, next {self._delay_ms} ms"


class _FailureRate:
    def __init__(self, settings: FailureRate) -> None:
        self._settings = settings
        self._failures: deque[int] = deque()

    def next_delay_ms(self, at: int, *, progressed: bool = False) -> int | None:
        settings = self._settings
        while self._failures and at - self._failures[0] > settings.interval_ms:
            self._failures.popleft()
        self._failures.append(at)
        return settings.delay_ms if len(self._failures) <= settings.max_failures else None

    def __repr__(self) -> str:
        return f"failure rate, {len(self._failures)} of {self._settings.max_failures} in the last interval"


def create_restarts(strategy: RestartStrategy, job_id: str = "") -> Restarts:
    """Return the strategy that these settings describe; without a `job_id` it has no jitter."""
    if isinstance(strategy, FixedDelay):
        return _FixedDelay(strategy)
    if isinstance(strategy, ExponentialDelay):
        return _ExponentialDelay(strategy, job_id)
    if isinstance(strategy, FailureRate):
        return _FailureRate(strategy)
    assert isinstance(strategy, NoRestart)
    return _NoRestarts()
