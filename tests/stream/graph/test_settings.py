"""Settings are checked on creation, and the error gives the setting, its value, and the accepted values."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePosixPath
from typing import Any

import pytest

from kit.core.protocol.properties import RetentionPolicy
from kit.stream.settings.job_settings import (
    DISABLED_CHECKPOINT_INTERVAL_MS as NEVER,
)
from kit.stream.settings.job_settings import (
    MAX_PAUSE_MS,
    CheckpointConfig,
    CheckpointCoordinatorConfiguration,
    CheckpointingMode,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    JobSettings,
    RescaleConfig,
    SettingError,
    settings_table,
)
from kit.stream.settings.setting_rules import NOT_HERE, rules_of

KB, SECOND, MINUTE = 1024, 1_000, 60_000
FLINKS = {
    "execution.checkpointing.checkpoints-after-tasks-finish": True,
    "execution.checkpointing.dir": None,
    "execution.checkpointing.savepoint-dir": None,
    "execution.checkpointing.num-retained": 1,
    "execution.checkpointing.data-inline-threshold": 20 * KB,
    "execution.checkpointing.mode": "exactly_once",
    "execution.checkpointing.timeout": 10 * MINUTE,
    "execution.checkpointing.max-concurrent-checkpoints": 1,
    "execution.checkpointing.min-pause": 0,
    "execution.checkpointing.tolerable-failed-checkpoints": 0,
    "execution.checkpointing.externalized-checkpoint-retention": "NEVER_RETAIN_AFTER_TERMINATION",
    "execution.checkpointing.interval-during-backlog": None,
    "execution.checkpointing.interval": None,
    "execution.checkpointing.unaligned.enabled": False,
    "execution.checkpointing.aligned-checkpoint-timeout": 0,
    "execution.checkpointing.unaligned.forced": False,
    "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file": 5,
    "execution.state-recovery.without-channel-state.checkpoint-id": None,
    "execution.checkpointing.incremental": False,
    "execution.checkpointing.local-backup.enabled": False,
    "restart-strategy.fixed-delay.attempts": 1,
    "restart-strategy.fixed-delay.delay": SECOND,
    "restart-strategy.failure-rate.max-failures-per-interval": 1,
    "restart-strategy.failure-rate.failure-rate-interval": MINUTE,
    "restart-strategy.failure-rate.delay": SECOND,
    "restart-strategy.exponential-delay.initial-backoff": SECOND,
    "restart-strategy.exponential-delay.max-backoff": MINUTE,
    "restart-strategy.exponential-delay.backoff-multiplier": 1.5,
    "restart-strategy.exponential-delay.reset-backoff-threshold": 60 * MINUTE,
    "restart-strategy.exponential-delay.jitter-factor": 0.1,
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": 2**31 - 1,
    "s3.entropy.key": None,
    "s3.entropy.length": 4,
    "taskmanager.network.memory.buffers-per-channel": 2,
    "high-availability.type": "memory",
    "jobmanager.execution.failover-strategy": "region",
    "jobmanager.scheduler": False,
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": 30_000,
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": 60_000,
    "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures": 2,
    "jobmanager.adaptive-scheduler.rescale-trigger.max-delay": None,
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout": 300_000,
    "state.backend.rocksdb.localdir": None,
}
"""Flink's options and defaults (in ms and bytes), as its 2.x sources have them; its "NONE" is our "memory", any
scheduler but the adaptive one our False."""
OTHERWISE = {
    "taskmanager.memory.segment-size": 4 * 1024 * 1024,
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": 0,
    "state.backend.type": "memory",
    "state.backend.rocksdb.memory.fixed-per-slot": 256,
}
"""Our defaults that are not Flink's, or not called so. Its "hashmap" is our "memory", and it has no default for the
memory of a slot. Its buffers have 32 KiB; 0 it has in reactive mode only, which is ours."""
FLINK_ALSO_HAS = (
    *("storage", "cleaner.parallel-mode", "create-subdir", "write-buffer-size"),
    *("local-backup.dirs", "file-merging.enabled"),
    "unaligned.interruptible-timers.enabled",
)
"""Of `CheckpointingOptions`, below `execution.checkpointing`; what is below file-merging goes with that."""


def test_defaults_are_flinks() -> None:
    table = settings_table()
    ours = {flink: default for flink, default in zip(table.flink, table.default, strict=True) if flink}
    assert ours == FLINKS | OTHERWISE


def test_every_checkpointing_option_of_flink_is_here_or_has_a_reason() -> None:
    missing = {f"execution.checkpointing.{name}" for name in FLINK_ALSO_HAS} - NOT_HERE.keys()
    assert not missing
    assert not NOT_HERE.keys() & set(settings_table().flink)
    assert all(NOT_HERE.values())


@pytest.mark.parametrize(
    "kind", [CheckpointConfig, FixedDelay, FailureRate, ExponentialDelay, RescaleConfig, JobSettings]
)
def test_every_setting_has_a_rule_that_takes_its_default_and_refuses_nonsense(kind: type[Any]) -> None:
    told = {
        "checkpoint",
        "restart",
        "restart_is_default",
        "rescaling",
        "slot_sharing",
    }  # settings of their own, who chose the restart, and what the host decides
    settings = {field.name for field in fields(kind)} - told
    assert settings == rules_of(kind).keys()
    for name in settings:
        with pytest.raises(SettingError, match=f"^{name} = .* expected "):
            kind(**{name: object()})


REFUSED = [
    (CheckpointConfig, {"interval_ms": 9}, "interval_ms = 9: expected 10 or more, or None"),
    (CheckpointConfig, {"interval_ms": 0}, "interval_ms = 0"),
    (CheckpointConfig, {"interval_ms": 100.5}, "interval_ms = 100.5: expected 10 or more"),
    (
        CheckpointConfig,
        {"interval_ms": 100, "interval_during_backlog_ms": 9},
        "interval_during_backlog_ms = 9: expected",
    ),
    (CheckpointConfig, {"interval_ms": 100, "interval_during_backlog_ms": 99}, "99: expected 0 or no less than interv"),
    (CheckpointConfig, {"interval_during_backlog_ms": 100}, "100: expected 0 or no less than interval_ms = None"),
    (
        CheckpointConfig,
        {"max_subtasks_per_channel_state_file": 0},
        "max_subtasks_per_channel_state_file = 0: expected 1",
    ),
    (CheckpointConfig, {"checkpoint_id_of_ignored_in_flight_data": 0}, "checkpoint_id_of_ignored_in_flight_data = 0"),
    (CheckpointConfig, {"unaligned": 1}, "unaligned = 1: expected True or False"),
    (
        CheckpointConfig,
        {"retention": "sometimes"},
        "retention = 'sometimes': expected 'NEVER_RETAIN_AFTER_TERMINATION'",
    ),
    (CheckpointConfig, {"directory": ""}, "directory = '': expected a path or URI"),
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
    (JobSettings, {"buffer_bytes": 0}, "buffer_bytes = 0: expected 1 to 134217728"),
    (JobSettings, {"buffer_bytes": 1 << 28}, "buffer_bytes = 268435456"),
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
    assert coordinator().interval_ms == NEVER
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


def test_the_interval_during_a_backlog_is_the_same_unless_it_is_set() -> None:
    assert coordinator(interval_ms=100).interval_during_backlog_ms == 100
    assert coordinator(interval_ms=100, interval_during_backlog_ms=300).interval_during_backlog_ms == 300
    assert coordinator(interval_ms=100, interval_during_backlog_ms=0).interval_during_backlog_ms == NEVER
    assert coordinator().interval_during_backlog_ms == coordinator(interval_during_backlog_ms=0).interval_ms == NEVER


def test_words_and_paths_are_taken_for_what_they_mean() -> None:
    config = CheckpointConfig(retention="RETAIN_ON_FAILURE", directory=PurePosixPath("/data/checkpoints"))  # type: ignore[arg-type]
    assert config.retention is RetentionPolicy.RETAIN_ON_FAILURE
    assert config.directory == "/data/checkpoints"
