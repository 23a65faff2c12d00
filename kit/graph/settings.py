"""A job's settings: how it is checkpointed and how it is restarted, as values.

`CheckpointConfig` is what the user writes down; it is checked when it is made, and an error names the setting, the
value found and what is allowed. `CheckpointCoordinatorConfiguration` is what the coordinator works with: the same
after the rules that combine settings have been applied (no interval means "never by itself", a pause longer than the
interval stretches it). A `RestartStrategy` says when a failed job is started again.

Follows Flink's `CheckpointConfig`, `CheckpointCoordinatorConfiguration`, `JobCheckpointingSettings`,
`RestartStrategyOptions` and the checks of the `RestartBackoffTimeStrategy` classes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from kit.protocol.properties import RetentionPolicy

MINIMAL_CHECKPOINT_TIME_MS = 10
"""Intervals and timeouts shorter than this are refused (`MINIMAL_CHECKPOINT_TIME`)."""
DISABLED_CHECKPOINT_INTERVAL_MS = 2**63 - 1
"""The interval of a job that takes no checkpoints by itself (`DISABLED_CHECKPOINT_INTERVAL`)."""
MAX_PAUSE_MS = 365 * 24 * 60 * 60 * 1000
"""A longer pause counts as one year."""
MAX_MEMORY_THRESHOLD_BYTES = 1024 * 1024
"""State inlined into `_metadata` may not be larger than this (`MAX_FILE_STATE_THRESHOLD`)."""
UNLIMITED = 2**31 - 1
"""As a number of attempts or tolerated failures: any number (`Integer.MAX_VALUE`)."""


IN_MEMORY, ON_FILE_SYSTEM = "memory", "filesystem"
"""Where completed checkpoints are noted, beside ZooKeeper."""
ZOOKEEPER_STORE = re.compile(r"zookeeper://(?P<hosts>[\w.-]+:\d+(?:,[\w.-]+:\d+)*)(?P<root>(?:/[\w.-]+)+)")
"""The third way to say it: any number of servers, and the node below which all is kept."""


class SettingError(ValueError):
    """A setting has a value that is not allowed, or one that contradicts another setting."""


def _check(ok: bool, setting: str, found: object, allowed: str) -> None:
    if not ok:
        raise SettingError(f"{setting} = {found!r}: expected {allowed}")


# ---- checkpoints ------------------------------------------------------------------------------------------------


class CheckpointingMode(Enum):
    """What state means after a failure: each record counted once, or at least once (`CheckpointingMode`)."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """How a job is checkpointed.

    `interval_ms` None: only when asked to. A pending checkpoint expires after `timeout_ms`; `min_pause_ms` lie
    between the end of one and the start of the next; at most `max_concurrent` are pending at once. The job fails when
    more than `tolerable_failures` checkpoints fail in a row. `unaligned` barriers overtake records, at once or, with
    `aligned_timeout_ms` > 0, only once alignment has taken that long. Files go below `directory`, savepoints below
    `savepoint_directory`; state up to `memory_threshold_bytes` is inlined into `_metadata`. The newest `max_retained`
    checkpoints are kept, and after the job what `retention` says.

    `store` is where the driver notes which checkpoints are complete: "memory", "filesystem" (beside the checkpoints)
    or "zookeeper://host:port,host:port/root". With the last two, which need a `directory`, a new driver can go on where
    one that died left the job.

    Raises SettingError. Where Flink 2.x switches `unaligned` off with a warning (AT_LEAST_ONCE), this refuses. Where
    Flink falls back to AT_LEAST_ONCE when there is no interval, `mode` holds here, since checkpoints may be asked for.
    """

    interval_ms: int | None = None
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    retention: RetentionPolicy = RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION
    directory: str | None = None
    savepoint_directory: str | None = None
    max_retained: int = 1
    memory_threshold_bytes: int = 20 * 1024
    checkpoints_after_tasks_finish: bool = True
    store: str = IN_MEMORY

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", _mode(self.mode))
        _check(
            self.store in (IN_MEMORY, ON_FILE_SYSTEM) or ZOOKEEPER_STORE.fullmatch(self.store) is not None,
            "store",
            self.store,
            f"{IN_MEMORY!r}, {ON_FILE_SYSTEM!r} or 'zookeeper://host:port,host:port/root'",
        )
        _check(
            not self.is_durable or self.directory is not None,
            "directory",
            self.directory,
            f"a directory that outlives the driver, for store = {self.store!r} to find the checkpoints there again",
        )
        shortest = f"{MINIMAL_CHECKPOINT_TIME_MS} or more"
        if self.interval_ms is not None:
            _check(
                self.interval_ms >= MINIMAL_CHECKPOINT_TIME_MS,
                "interval_ms",
                self.interval_ms,
                f"{shortest}, or None for no periodic checkpoints",
            )
        _check(self.timeout_ms >= MINIMAL_CHECKPOINT_TIME_MS, "timeout_ms", self.timeout_ms, shortest)
        for setting, least in _LEAST.items():
            found = getattr(self, setting)
            _check(found >= least, setting, found, f"{least} or more")
        _check(
            0 <= self.memory_threshold_bytes <= MAX_MEMORY_THRESHOLD_BYTES,
            "memory_threshold_bytes",
            self.memory_threshold_bytes,
            f"0 to {MAX_MEMORY_THRESHOLD_BYTES}",
        )
        if self.unaligned:
            _check(
                self.mode is CheckpointingMode.EXACTLY_ONCE,
                "mode",
                self.mode.value,
                "exactly_once with unaligned=True (there is no alignment to avoid otherwise)",
            )
            _check(self.max_concurrent == 1, "max_concurrent", self.max_concurrent, "1 with unaligned=True")

    @property
    def is_exactly_once(self) -> bool:
        """Whether each record counts once."""
        return self.mode is CheckpointingMode.EXACTLY_ONCE

    @property
    def is_durable(self) -> bool:
        """Whether the store of completed checkpoints outlives the driver."""
        return self.store != IN_MEMORY


_LEAST = {
    "min_pause_ms": 0,
    "max_concurrent": 1,
    "tolerable_failures": 0,
    "aligned_timeout_ms": 0,
    "max_retained": 1,
}


def _mode(mode: CheckpointingMode | str) -> CheckpointingMode:
    try:
        return CheckpointingMode(mode)
    except ValueError:
        allowed = " or ".join(repr(known.value) for known in CheckpointingMode)
        raise SettingError(f"mode = {mode!r}: expected {allowed}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorConfiguration:
    """The settings as the coordinator uses them (`CheckpointCoordinatorConfiguration`).

    `interval_ms` is the distance between two periodic triggers: never less than `min_pause_ms`, and
    DISABLED_CHECKPOINT_INTERVAL_MS when there are none.
    """

    interval_ms: int
    timeout_ms: int
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    retention: RetentionPolicy
    exactly_once: bool
    unaligned: bool
    aligned_timeout_ms: int
    checkpoints_after_tasks_finish: bool

    @classmethod
    def of(cls, config: CheckpointConfig) -> CheckpointCoordinatorConfiguration:
        """Apply the rules that combine settings, as the constructor of Flink's `CheckpointCoordinator` does."""
        min_pause_ms = min(config.min_pause_ms, MAX_PAUSE_MS)
        interval_ms = DISABLED_CHECKPOINT_INTERVAL_MS if config.interval_ms is None else config.interval_ms
        return cls(
            interval_ms=max(interval_ms, min_pause_ms),
            timeout_ms=config.timeout_ms,
            min_pause_ms=min_pause_ms,
            max_concurrent=config.max_concurrent,
            tolerable_failures=config.tolerable_failures,
            retention=config.retention,
            exactly_once=config.is_exactly_once,
            unaligned=config.unaligned,
            aligned_timeout_ms=config.aligned_timeout_ms,
            checkpoints_after_tasks_finish=config.checkpoints_after_tasks_finish,
        )

    @property
    def is_periodic(self) -> bool:
        """Whether checkpoints are taken without being asked for (`isCheckpointingEnabled`)."""
        return self.interval_ms < DISABLED_CHECKPOINT_INTERVAL_MS


# ---- restarts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure is the last."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most `attempts` restarts in the life of the job, each `delay_ms` after the failure."""

    attempts: int = 1
    delay_ms: int = 1_000

    def __post_init__(self) -> None:
        _check(self.attempts >= 0, "attempts", self.attempts, "0 or more")
        _check(self.delay_ms >= 0, "delay_ms", self.delay_ms, "0 or more")


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """A delay that grows by `multiplier` from failure to failure, and begins again after a quiet time.

    `jitter_factor` is the share by which the delay may be off, either way, so that jobs do not restart in step.
    """

    initial_delay_ms: int = 1_000
    max_delay_ms: int = 60_000
    multiplier: float = 1.5
    reset_after_ms: int = 3_600_000
    jitter_factor: float = 0.1
    attempts_before_reset: int = UNLIMITED

    def __post_init__(self) -> None:
        _check(self.initial_delay_ms >= 1, "initial_delay_ms", self.initial_delay_ms, "1 or more")
        _check(
            self.max_delay_ms >= self.initial_delay_ms,
            "max_delay_ms",
            self.max_delay_ms,
            f"no less than initial_delay_ms = {self.initial_delay_ms}",
        )
        _check(self.multiplier > 1, "multiplier", self.multiplier, "more than 1")
        _check(self.reset_after_ms >= 1, "reset_after_ms", self.reset_after_ms, "1 or more")
        _check(0 <= self.jitter_factor <= 1, "jitter_factor", self.jitter_factor, "0 to 1")
        _check(self.attempts_before_reset >= 1, "attempts_before_reset", self.attempts_before_reset, "1 or more")


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Restart `delay_ms` after a failure, unless that was one more than `max_failures` within `interval_ms`."""

    max_failures: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1_000

    def __post_init__(self) -> None:
        _check(self.max_failures >= 1, "max_failures", self.max_failures, "1 or more")
        _check(self.interval_ms >= 1, "interval_ms", self.interval_ms, "1 or more")
        _check(self.delay_ms >= 0, "delay_ms", self.delay_ms, "0 or more")


RestartStrategy = NoRestart | FixedDelay | ExponentialDelay | FailureRate


def default_restart_strategy(checkpoint: CheckpointConfig) -> RestartStrategy:
    """What a job does that says nothing: with periodic checkpoints it restarts, ever more slowly (1.11: after a fixed
    second), else it does not.
    """
    return NoRestart() if checkpoint.interval_ms is None else ExponentialDelay()


# ---- the job ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """All settings of a job that are not of one operator (with Flink's `JobCheckpointingSettings` in it).

    A source hands on at most `buffer_rows` rows at once; a sender may have `channel_credits` buffers
    under way on a channel before the receiver has taken one.
    """

    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    restart: RestartStrategy = field(default_factory=NoRestart)
    buffer_rows: int = 65_536
    channel_credits: int = 2

    def __post_init__(self) -> None:
        _check(self.buffer_rows >= 1, "buffer_rows", self.buffer_rows, "1 or more")
        _check(self.channel_credits >= 1, "channel_credits", self.channel_credits, "1 or more")

    @property
    def coordinator(self) -> CheckpointCoordinatorConfiguration:
        """The checkpoint settings as the coordinator uses them."""
        return CheckpointCoordinatorConfiguration.of(self.checkpoint)
