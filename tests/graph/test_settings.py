"""Settings are checked when they are made, and the error says which, what and what else."""

from __future__ import annotations

import pytest

from kit.graph.settings import (
    DISABLED_CHECKPOINT_INTERVAL_MS,
    MAX_PAUSE_MS,
    CheckpointConfig,
    CheckpointCoordinatorConfiguration,
    CheckpointingMode,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobSettings,
    SettingError,
)
from kit.protocol.properties import RetentionPolicy


def test_defaults_are_flinks() -> None:
    config = CheckpointConfig()
    assert config.interval_ms is None
    assert config.mode is CheckpointingMode.EXACTLY_ONCE
    assert (config.timeout_ms, config.min_pause_ms, config.max_concurrent) == (600_000, 0, 1)
    assert (config.tolerable_failures, config.max_retained) == (0, 1)
    assert config.memory_threshold_bytes == 20_480
    assert config.retention is RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION
    assert not config.unaligned
    assert config.checkpoints_after_tasks_finish


REFUSED = [
    (CheckpointConfig, {"interval_ms": 9}, "interval_ms = 9: expected 10 or more, or None"),
    (CheckpointConfig, {"interval_ms": 0}, "interval_ms = 0"),
    (CheckpointConfig, {"timeout_ms": 9}, "timeout_ms = 9: expected 10 or more"),
    (CheckpointConfig, {"min_pause_ms": -1}, "min_pause_ms = -1: expected 0 or more"),
    (CheckpointConfig, {"max_concurrent": 0}, "max_concurrent = 0: expected 1 or more"),
    (CheckpointConfig, {"tolerable_failures": -1}, "tolerable_failures = -1: expected 0 or more"),
    (CheckpointConfig, {"aligned_timeout_ms": -1}, "aligned_timeout_ms = -1"),
    (CheckpointConfig, {"max_retained": 0}, "max_retained = 0: expected 1 or more"),
    (CheckpointConfig, {"memory_threshold_bytes": 1 << 21}, "memory_threshold_bytes = 2097152: expected 0 to 1048576"),
    (CheckpointConfig, {"memory_threshold_bytes": -1}, "memory_threshold_bytes = -1"),
    (CheckpointConfig, {"mode": "twice"}, "mode = 'twice': expected 'exactly_once' or 'at_least_once'"),
    (CheckpointConfig, {"unaligned": True, "mode": "at_least_once"}, "mode = 'at_least_once': expected exactly_once"),
    (CheckpointConfig, {"unaligned": True, "max_concurrent": 2}, "max_concurrent = 2: expected 1 with unaligned"),
    (FixedDelay, {"attempts": -1}, "attempts = -1"),
    (FixedDelay, {"delay_ms": -1}, "delay_ms = -1"),
    (FailureRate, {"max_failures": 0}, "max_failures = 0"),
    (FailureRate, {"interval_ms": 0}, "interval_ms = 0"),
    (FailureRate, {"delay_ms": -1}, "delay_ms = -1"),
    (ExponentialDelay, {"initial_delay_ms": 0}, "initial_delay_ms = 0"),
    (ExponentialDelay, {"max_delay_ms": 999}, "max_delay_ms = 999: expected no less than initial_delay_ms = 1000"),
    (ExponentialDelay, {"multiplier": 1.0}, "multiplier = 1.0: expected more than 1"),
    (ExponentialDelay, {"reset_after_ms": 0}, "reset_after_ms = 0"),
    (ExponentialDelay, {"jitter_factor": 1.5}, "jitter_factor = 1.5: expected 0 to 1"),
    (ExponentialDelay, {"attempts_before_reset": 0}, "attempts_before_reset = 0"),
    (JobSettings, {"buffer_rows": 0}, "buffer_rows = 0"),
    (JobSettings, {"channel_credits": 0}, "channel_credits = 0"),
]


@pytest.mark.parametrize(("settings", "values", "message"), REFUSED, ids=[f"{r[0].__name__} {r[1]}" for r in REFUSED])
def test_bad_values_are_refused_by_name(settings: type, values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError) as refused:
        settings(**values)
    assert message in str(refused.value)


ALLOWED = [
    {"interval_ms": 10},
    {"timeout_ms": 10},
    {"max_concurrent": 2},
    {"unaligned": True},
    {"mode": "at_least_once"},
    {"memory_threshold_bytes": 0},
    {"memory_threshold_bytes": 1 << 20},
]


@pytest.mark.parametrize("values", ALLOWED, ids=str)
def test_values_at_the_border_are_taken(values: dict[str, object]) -> None:
    config = CheckpointConfig(**values)
    assert {name: getattr(config, name) for name in values} in (values, {"mode": CheckpointingMode.AT_LEAST_ONCE})


def coordinator(**values: object) -> CheckpointCoordinatorConfiguration:
    return JobSettings(checkpoint=CheckpointConfig(**values)).coordinator


def test_no_interval_means_no_periodic_checkpoints() -> None:
    assert coordinator().interval_ms == DISABLED_CHECKPOINT_INTERVAL_MS
    assert not coordinator().is_periodic
    assert coordinator(interval_ms=10).is_periodic


def test_a_pause_longer_than_the_interval_stretches_it() -> None:
    assert coordinator(interval_ms=100, min_pause_ms=250).interval_ms == 250
    assert coordinator(interval_ms=300, min_pause_ms=250).interval_ms == 300


def test_a_pause_is_a_year_at_most() -> None:
    config = coordinator(interval_ms=100, min_pause_ms=MAX_PAUSE_MS + 1)
    assert config.min_pause_ms == config.interval_ms == 365 * 24 * 3_600_000


def test_the_mode_holds_without_an_interval() -> None:
    assert coordinator().exactly_once
    assert not coordinator(mode="at_least_once").exactly_once
