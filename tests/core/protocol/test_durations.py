"""Durations as people write them, one parser for every parameter in ms."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import (
    CheckpointConfig,
    CollectionSource,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RescaleConfig,
    SlidingEventTimeWindows,
    StreamEnvironment,
    TumblingEventTimeWindows,
)
from kit.core.arguments.durations import DurationError, to_ms
from kit.hosts.lab import Lab, LabError
from tests.hosts.lab.jobs import Shape, environment

MINUTE = [
    60_000,
    np.int64(60_000),
    "1min",
    "1 min",
    "60s",
    "60 Seconds",
    "0.5m30s",
    "60000 ms",
    dt.timedelta(minutes=1),
    pd.Timedelta("1min"),
    np.timedelta64(1, "m"),
    np.timedelta64(60_000_000_000, "ns"),
]
NONE_OF_IT = [True, 1.5, 60_000.0, float("nan"), "1 parsec", "1min later", "", "min", "1e3s", "1M", "0.5ms", b"1s", [1]]
NO_WHOLE_MS = [
    dt.timedelta(microseconds=1),
    pd.NaT,
    np.timedelta64("NaT"),
    np.timedelta64(1, "M"),
    np.timedelta64(1),
    np.timedelta64(1, "us"),
    pd.Timedelta(1, "ns"),
    np.bool_(True),
]


@pytest.mark.parametrize("minute", MINUTE, ids=repr)
def test_a_minute_is_a_minute(minute: Any) -> None:
    assert to_ms(minute, "gap_ms") == 60_000
    assert type(to_ms(minute, "gap_ms")) is int


@pytest.mark.parametrize("wrong", [*NONE_OF_IT, *NO_WHOLE_MS], ids=repr)
def test_what_is_no_duration_says_what_is(wrong: Any) -> None:
    with pytest.raises(
        DurationError, match=r"(?s)^gap_ms = .*: expected whole milliseconds, a timedelta, or a text such"
    ):
        to_ms(wrong, "gap_ms")


def test_bounds_may_be_negative() -> None:
    assert to_ms("-5s", "lower_ms") == to_ms(dt.timedelta(seconds=-5), "lower_ms") == -5_000


@given(st.integers(-(2**40), 2**40))
def test_all_forms_agree(ms: int) -> None:
    forms = [f"{ms}ms", dt.timedelta(milliseconds=ms), np.timedelta64(ms, "ms"), np.int64(ms), pd.Timedelta(ms, "ms")]
    assert [to_ms(form, "x") for form in forms] == [ms] * len(forms)


def timed() -> Any:
    return StreamEnvironment("timed").from_source(CollectionSource([{"k": "a", "at": 1}])).assign_timestamps("at")


def other() -> Any:
    return timed().rename(k="q", at="when")


PLACES: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda d: TumblingEventTimeWindows(d).size_ms,
    "sliding": lambda d: SlidingEventTimeWindows(d, d).slide_ms,
    "cumulative": lambda d: CumulativeEventTimeWindows(d, d).step_ms,
    "session": lambda d: EventTimeSessionWindows(d).gap_ms,
    "lateness": lambda d: (
        timed().key_by("k").window(TumblingEventTimeWindows(10)).allowed_lateness(d)._settings["allowed_lateness_ms"]
    ),
    "watermarks": lambda d: timed().assign_timestamps("at", d)._transformation.spec.out_of_orderness_ms,
    "idleness": lambda d: timed().with_idleness(d)._transformation.spec.idle_ms,
    "between": lambda d: timed().key_by("k").interval_join(other().key_by("q")).between(0, d)._spec.upper_ms,
    "checkpoint interval": lambda d: CheckpointConfig(interval_ms=d).interval_ms,
    "checkpoint timeout": lambda d: CheckpointConfig(timeout_ms=d).timeout_ms,
    "checkpoint pause": lambda d: CheckpointConfig(min_pause_ms=d).min_pause_ms,
    "aligned timeout": lambda d: CheckpointConfig(aligned_timeout_ms=d).aligned_timeout_ms,
    "fixed delay": lambda d: FixedDelay(1, d).delay_ms,
    "exponential delay": lambda d: ExponentialDelay(max_delay_ms=d).max_delay_ms,
    "failure rate": lambda d: FailureRate(1, d).interval_ms,
    "cooldown": lambda d: RescaleConfig(cooldown_ms=d).cooldown_ms,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_place_takes_every_form(place: str) -> None:
    for minute in MINUTE:
        assert PLACES[place](minute) == 60_000
    for wrong in NONE_OF_IT:
        with pytest.raises(ValueError, match=r"(?s)_ms = .*expected .*whole milliseconds, a timedelta"):
            PLACES[place](wrong)


def test_a_lab_steps_until_a_time() -> None:
    lab = Lab(environment(Shape()))
    lab.run_until(at_ms="20ms")
    assert lab.look.at_ms >= 20
    with pytest.raises(LabError, match="at_ms = 'soon': expected whole milliseconds"):
        lab.run_until(at_ms="soon")
