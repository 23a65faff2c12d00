"""A job's settings for checkpoints and restarts, as values.

`CheckpointConfig` is what the user writes. It is checked on creation, and an error names the setting, the value found
and what is allowed. `CheckpointCoordinatorConfiguration` is what the coordinator uses: the same settings after the
rules that combine them (no interval means no periodic checkpoints, a pause longer than the interval stretches it). A
`RestartStrategy` says when a failed job is restarted.

Each setting is declared with its rule and Flink's option (`kit.stream.settings.setting_rules.setting`); rules about two
settings are in `__post_init__`.

Follows Flink's `CheckpointConfig`, `CheckpointCoordinatorConfiguration` and `JobCheckpointingSettings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from os import PathLike, fspath
from typing import TYPE_CHECKING

from kit.core.arguments.allowed import (
    FLAG,
    LONGEST_MS,
    PLACE,
    UNLIMITED,
    SettingError,
    count,
    expect,
    member,
    milliseconds,
    number,
    or_none,
    whole,
)
from kit.core.arguments.signposts import takes
from kit.core.protocol.properties import Durability, RetentionPolicy
from kit.stream.settings.setting_rules import (
    BACKENDS,
    BACKLOG_TIME,
    CHECKPOINT_TIME,
    DURABILITIES,
    FAILOVERS,
    MAX_BUFFER_BYTES,
    MAX_MEMORY_THRESHOLD_BYTES,
    MODES,
    MOST_ENTROPY,
    NAME_IN_PATH,
    RETENTIONS,
    STORE,
    CheckpointingMode,
    FailoverStrategy,
    SlotSharing,
    StateBackend,
    check,
    rules_of,
    setting,
)
from kit.stream.settings.store_addresses import IN_MEMORY

if TYPE_CHECKING:
    import pandas as pd

DISABLED_CHECKPOINT_INTERVAL_MS = 2**63 - 1
"""The interval of a job without periodic checkpoints (`DISABLED_CHECKPOINT_INTERVAL`)."""
MAX_PAUSE_MS = 365 * 24 * 60 * 60 * 1000
"""A longer pause counts as one year."""

SAVEPOINTS = "savepoints"
"""The directory for savepoints below the one for checkpoints."""

# ---- checkpoints ------------------------------------------------------------------------------------------------


@takes(exactly_once="write mode='exactly_once', which it is without", storage="write directory='/checkpoints'")
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """The settings of a job's checkpoints; `settings_table` shows the values of each and Flink's name for it.

    With `interval_ms` None, checkpoints are taken only on request. While a source processes a backlog,
    `interval_during_backlog_ms` replaces it, 0 for none. A pending checkpoint expires after `timeout_ms`,
    `min_pause_ms` is the least time between the end of one and the start of the next, and at most `max_concurrent` are
    pending at once. The job fails if more than `tolerable_failures` checkpoints fail in a row. Files are written below
    `directory`; savepoints without a directory of their own are written below `savepoint_directory`, or else to
    `savepoints` in `directory`. State up to `memory_threshold_bytes` is inlined into `_metadata`. The newest
    `max_retained` checkpoints are kept, and after the job those that `retention` names.

    With `entropy_key` "_entropy_", the path of a directory may be `s3://bucket/_entropy_/checkpoints`. Each state file
    then gets `entropy_length` characters of its own in the place of this name, so an object store spreads the files
    over its partitions. `_metadata` is written to `s3://bucket/checkpoints` (`kit.files.entropy`).

    `unaligned` barriers overtake records, at once or, with `aligned_timeout_ms` > 0, only once alignment has taken that
    long; a job with `partition_custom` needs `force_unaligned` for it. The data that barriers overtook is written to
    files that up to `max_subtasks_per_channel_state_file` subtasks share. It is not restored from the checkpoint
    `checkpoint_id_of_ignored_in_flight_data`.

    With `checkpoints_after_tasks_finish` False no checkpoint completes once a task has finished, as in Flink 1.11 to
    1.13 (and in 1.14 unless it is enabled). Sinks publish with checkpoints: rows that reach one after the last
    completed checkpoint are then never published, although the job ends FINISHED. Both hosts warn of it at the start.

    With `incremental` a checkpoint writes only the keyed state that has changed since the last one that is complete, as
    a run, and refers to the runs of that one. Of one subtask it has at most `most_runs` runs: the young ones are merged
    then, and all of them when the others have more rows than the first.

    With `local_recovery` each slot keeps a copy of its state in the last checkpoint on its own machine, below the
    directory for temporary files. A restarted task reads that copy instead, if it is present and intact.

    With `durability` "fsync", state, `_metadata`, store entries and published rows reach the disk before they are
    reported, so that a power failure loses nothing that was complete. "page_cache" leaves that to the operating system:
    only a crash of the machine loses anything, and a checkpoint is faster.

    `store` is where the driver records which checkpoints are complete: "memory", or one that outlives it, "filesystem"
    (beside the checkpoints), "zookeeper://host:port,host:port/root" or "sqlite:///path/of/file.db". With these, which
    need a `directory`, a new driver can resume a job after its driver died.

    A driver that takes over starts from the newest checkpoint in the store, and fails if that is damaged, as in Flink.
    With `fall_back_if_damaged` it skips checkpoints whose `_metadata` cannot be read, or whose files are missing, and
    starts from the newest intact one (see `max_retained`). It never does so if a sink has published rows after that
    one, since they would be published again.

    Raises SettingError. Where Flink 2.x disables `unaligned` with a warning (AT_LEAST_ONCE), this is rejected; in 1.11
    tasks fail. Where Flink falls back to AT_LEAST_ONCE because there is no interval, `mode` is kept here, since
    checkpoints may be requested.

    Follows Flink's `CheckpointConfig`; setting `interval_ms` is what `enableCheckpointing` does.
    """

    interval_ms: int | None = setting(
        None, or_none(CHECKPOINT_TIME, "no periodic checkpoints"), "execution.checkpointing.interval"
    )
    interval_during_backlog_ms: int | None = setting(
        None, BACKLOG_TIME, "execution.checkpointing.interval-during-backlog"
    )
    mode: CheckpointingMode = setting(CheckpointingMode.EXACTLY_ONCE, MODES, "execution.checkpointing.mode")
    timeout_ms: int = setting(600_000, CHECKPOINT_TIME, "execution.checkpointing.timeout")
    min_pause_ms: int = setting(0, milliseconds(0), "execution.checkpointing.min-pause")
    max_concurrent: int = setting(1, count(1), "execution.checkpointing.max-concurrent-checkpoints")
    tolerable_failures: int = setting(0, count(0), "execution.checkpointing.tolerable-failed-checkpoints")
    unaligned: bool = setting(False, FLAG, "execution.checkpointing.unaligned.enabled")
    aligned_timeout_ms: int = setting(0, milliseconds(0), "execution.checkpointing.aligned-checkpoint-timeout")
    force_unaligned: bool = setting(False, FLAG, "execution.checkpointing.unaligned.forced")
    max_subtasks_per_channel_state_file: int = setting(
        5, count(1), "execution.checkpointing.unaligned.max-subtasks-per-channel-state-file"
    )
    checkpoint_id_of_ignored_in_flight_data: int | None = setting(
        None,
        or_none(whole(1, LONGEST_MS), "no checkpoint"),
        "execution.state-recovery.without-channel-state.checkpoint-id",
    )
    checkpoints_after_tasks_finish: bool = setting(True, FLAG, "execution.checkpointing.checkpoints-after-tasks-finish")
    incremental: bool = setting(False, FLAG, "execution.checkpointing.incremental")
    most_runs: int = setting(128, count(2))
    local_recovery: bool = setting(False, FLAG, "execution.checkpointing.local-backup.enabled")
    retention: RetentionPolicy = setting(
        RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION,
        RETENTIONS,
        "execution.checkpointing.externalized-checkpoint-retention",
    )
    fall_back_if_damaged: bool = setting(False, FLAG)
    durability: Durability = setting(Durability.FSYNC, DURABILITIES)
    max_retained: int = setting(1, count(1), "execution.checkpointing.num-retained")
    directory: str | None = setting(None, or_none(PLACE, "a temporary one"), "execution.checkpointing.dir")
    savepoint_directory: str | None = setting(
        None, or_none(PLACE, "`savepoints` in `directory`"), "execution.checkpointing.savepoint-dir"
    )
    entropy_key: str | None = setting(None, or_none(NAME_IN_PATH, "no entropy"), "s3.entropy.key")
    entropy_length: int = setting(4, whole(1, MOST_ENTROPY), "s3.entropy.length")
    memory_threshold_bytes: int = setting(
        20 * 1024, whole(0, MAX_MEMORY_THRESHOLD_BYTES), "execution.checkpointing.data-inline-threshold"
    )
    store: str = setting(IN_MEMORY, STORE, "high-availability.type")

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", member(CheckpointingMode, self.mode))
        object.__setattr__(self, "retention", member(RetentionPolicy, self.retention))
        object.__setattr__(self, "durability", member(Durability, self.durability))
        for name in ("directory", "savepoint_directory"):
            place = getattr(self, name)
            object.__setattr__(self, name, fspath(place) if isinstance(place, PathLike) else place)
        check(self)
        self._check_backlog()
        self._check_unaligned()
        self._check_entropy()
        expect(
            not self.is_durable or self.directory is not None,
            "directory",
            self.directory,
            f"a directory that outlives the driver, for store = {self.store!r} to find the checkpoints there again",
        )

    def _check_backlog(self) -> None:
        """Check that checkpoints are not more frequent during a backlog."""
        least = DISABLED_CHECKPOINT_INTERVAL_MS if self.interval_ms is None else self.interval_ms
        expect(
            self.interval_during_backlog_ms in (None, 0) or self.interval_during_backlog_ms >= least,
            "interval_during_backlog_ms",
            self.interval_during_backlog_ms,
            f"0 or no less than interval_ms = {self.interval_ms}",
        )

    def _check_unaligned(self) -> None:
        if self.unaligned:
            expect(
                self.is_exactly_once,
                "mode",
                self.mode.value,
                "exactly_once with unaligned=True (there is no alignment to avoid otherwise)",
            )
            expect(self.max_concurrent == 1, "max_concurrent", self.max_concurrent, "1 with unaligned=True")

    def _check_entropy(self) -> None:
        places = (self.directory, self.savepoint_directory)
        expect(
            self.entropy_key is None or any(self.entropy_key in place.split("/") for place in places if place),
            "entropy_key",
            self.entropy_key,
            "one of the names in the path of directory or savepoint_directory, as in 's3://bucket/_entropy_/checkpoints'",
        )

    @property
    def is_exactly_once(self) -> bool:
        """True if each record counts once."""
        return self.mode is CheckpointingMode.EXACTLY_ONCE

    @property
    def default_savepoint_directory(self) -> str | None:
        """The directory of savepoints whose request names none; None if `directory` is not set either.

        Flink has no default: a request must name a directory unless `savepoint_directory` is set.
        """
        if self.savepoint_directory is not None or self.directory is None:
            return self.savepoint_directory
        return f"{self.directory.rstrip('/')}/{SAVEPOINTS}"

    @property
    def is_durable(self) -> bool:
        """True if the store of completed checkpoints outlives the driver."""
        return self.store != IN_MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCoordinatorConfiguration:
    """The settings as the coordinator uses them (`CheckpointCoordinatorConfiguration`).

    `interval_ms` is the time between two periodic triggers, never less than `min_pause_ms`;
    `interval_during_backlog_ms` replaces it while a source has a backlog. DISABLED_CHECKPOINT_INTERVAL_MS means no
    triggers.
    """

    interval_ms: int
    interval_during_backlog_ms: int
    timeout_ms: int
    min_pause_ms: int
    max_concurrent: int
    tolerable_failures: int
    retention: RetentionPolicy
    exactly_once: bool
    unaligned: bool
    aligned_timeout_ms: int
    checkpoint_id_of_ignored_in_flight_data: int | None
    checkpoints_after_tasks_finish: bool

    @classmethod
    def of(cls, config: CheckpointConfig) -> CheckpointCoordinatorConfiguration:
        """Apply the rules that combine settings, as the constructor of Flink's `CheckpointCoordinator` does.

        The pause is Flink's `minPauseBetweenCheckpoints`; `StreamingJobGraphGenerator.configureCheckpointing` copies
        the rest.
        """
        min_pause_ms = min(config.min_pause_ms, MAX_PAUSE_MS)
        interval_ms = DISABLED_CHECKPOINT_INTERVAL_MS if config.interval_ms is None else config.interval_ms
        backlog_ms = config.interval_during_backlog_ms
        backlog_ms = interval_ms if backlog_ms is None else backlog_ms
        return cls(
            interval_ms=max(interval_ms, min_pause_ms),
            interval_during_backlog_ms=backlog_ms or DISABLED_CHECKPOINT_INTERVAL_MS,
            timeout_ms=config.timeout_ms,
            min_pause_ms=min_pause_ms,
            max_concurrent=config.max_concurrent,
            tolerable_failures=config.tolerable_failures,
            retention=config.retention,
            exactly_once=config.is_exactly_once,
            unaligned=config.unaligned,
            aligned_timeout_ms=config.aligned_timeout_ms,
            checkpoint_id_of_ignored_in_flight_data=config.checkpoint_id_of_ignored_in_flight_data,
            checkpoints_after_tasks_finish=config.checkpoints_after_tasks_finish,
        )

    @property
    def is_periodic(self) -> bool:
        """True if checkpoints are taken without a request (`isCheckpointingEnabled`)."""
        return self.interval_ms < DISABLED_CHECKPOINT_INTERVAL_MS


# ---- restarts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NoRestart:
    """No restart: the first failure ends the job."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most `attempts` restarts in the life of the job, each `delay_ms` after the failure."""

    attempts: int = setting(1, count(0), "restart-strategy.fixed-delay.attempts")
    delay_ms: int = setting(1_000, milliseconds(0), "restart-strategy.fixed-delay.delay")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """A delay that grows by `multiplier` with each failure, and is reset after a quiet time.

    `jitter_factor` is the share by which the delay may vary in both directions, so that jobs do not restart in
    lockstep. With `first_at_once`, which Flink does not have, the first restart does not wait, and the delay grows from
    the second on. A failure is a first one again after a run of `max_delay_ms` in which a checkpoint completed. So a
    worker that dies occasionally is replaced at once, and a job that fails repeatedly is slowed down as in Flink.
    """

    initial_delay_ms: int = setting(1_000, milliseconds(1), "restart-strategy.exponential-delay.initial-backoff")
    max_delay_ms: int = setting(60_000, milliseconds(1), "restart-strategy.exponential-delay.max-backoff")
    multiplier: float = setting(
        1.5, number("more than 1", lambda found: found > 1), "restart-strategy.exponential-delay.backoff-multiplier"
    )
    reset_after_ms: int = setting(
        3_600_000, milliseconds(1), "restart-strategy.exponential-delay.reset-backoff-threshold"
    )
    jitter_factor: float = setting(
        0.1, number("0 to 1", lambda found: 0 <= found <= 1), "restart-strategy.exponential-delay.jitter-factor"
    )
    attempts_before_reset: int = setting(
        UNLIMITED, count(1), "restart-strategy.exponential-delay.attempts-before-reset-backoff"
    )
    first_at_once: bool = setting(False, FLAG)

    def __post_init__(self) -> None:
        check(self)
        expect(
            self.max_delay_ms >= self.initial_delay_ms,
            "max_delay_ms",
            self.max_delay_ms,
            f"no less than initial_delay_ms = {self.initial_delay_ms}",
        )


@dataclass(frozen=True, slots=True)
class FailureRate:
    """A restart `delay_ms` after a failure, unless it exceeds `max_failures` within `interval_ms`."""

    max_failures: int = setting(1, count(1), "restart-strategy.failure-rate.max-failures-per-interval")
    interval_ms: int = setting(60_000, milliseconds(1), "restart-strategy.failure-rate.failure-rate-interval")
    delay_ms: int = setting(1_000, milliseconds(0), "restart-strategy.failure-rate.delay")

    def __post_init__(self) -> None:
        check(self)


RestartStrategy = NoRestart | FixedDelay | ExponentialDelay | FailureRate


def default_restart_strategy(checkpoint: CheckpointConfig) -> RestartStrategy:
    """Return the strategy of a job that chooses none.

    With periodic checkpoints it restarts, at once and then with growing delays (Flink: after a second, and then with
    growing delays; 1.11: after a fixed second). Otherwise it does not restart.

    A failure that recurs, such as that of a function that always raises, ends the job nevertheless
    (`kit.machines.job.failures`); in Flink it restarts forever. The lab, where time is virtual, restarts ten times.
    """
    return NoRestart() if checkpoint.interval_ms is None else ExponentialDelay(first_at_once=True)


# ---- rescaling --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RescaleConfig:
    """The settings that decide when a running job changes its parallelism.

    A change redeploys the job from its latest checkpoint.

    With `reactive` the job changes by itself: if slots are lost it continues with those that are left, and with more
    when they come back, up to what is wanted. It does not run on fewer than `minimum_parallelism`, and may not be
    rescaled to fewer. A job that is to be deployed and has too few slots (if not reactive: fewer than it wants) waits
    for them, at most `slot_wait_ms` (None: forever). One that has enough waits `submission_stabilization_ms` for all
    that are wanted.

    A change has no effect within `cooldown_ms` of a deployment, and until `stabilization_ms` after the first change
    only if all wanted slots are available. Then the job is redeployed with the next completed checkpoint, with the
    `max_checkpoint_failures`-th that fails, or `max_trigger_delay_ms` after the change, whichever comes first (None:
    the checkpoint interval times one more than those failures; at once without periodic checkpoints).

    Raises SettingError. Follows `AdaptiveScheduler.Settings`, with its defaults, those of the reactive mode for a job
    to be deployed; Flink has the minimum among a job's resource requirements, and `reactive` as another scheduler.
    """

    reactive: bool = setting(False, FLAG, "jobmanager.scheduler")
    minimum_parallelism: int = setting(1, count(1))
    cooldown_ms: int = setting(
        30_000, milliseconds(0), "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"
    )
    stabilization_ms: int = setting(
        60_000, milliseconds(0), "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout"
    )
    max_trigger_delay_ms: int | None = setting(
        None,
        or_none(milliseconds(0), "so long that the failures are waited for"),
        "jobmanager.adaptive-scheduler.rescale-trigger.max-delay",
    )
    max_checkpoint_failures: int = setting(
        2, count(1), "jobmanager.adaptive-scheduler.rescale-trigger.max-checkpoint-failures"
    )
    slot_wait_ms: int | None = setting(
        300_000,
        or_none(milliseconds(0), "as long as it takes"),
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    )
    submission_stabilization_ms: int = setting(
        0, milliseconds(0), "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout"
    )

    def __post_init__(self) -> None:
        check(self)


# ---- the job ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """All settings of a job that are not of one operator (with Flink's `JobCheckpointingSettings` in it).

    A sender may have `channel_credits` buffers in flight on a channel before the receiver has taken one. A buffer
    carries at most `buffer_bytes`: larger batches are split by rows, and a larger single record is sent in fragments,
    so that a barrier waits for one buffer at most. Flink's buffers have 32 KiB. Here each costs a Python turn, and 4
    MiB keep a full batch of a few numeric columns (64k rows of two are 1 MiB) in one piece.

    On Spark, one thread runs all tasks of a slot, so a slow function would hold up the barriers of all of them. A task
    therefore takes only as many rows at once as it is expected to process in about `turn_ms`, and the slot handles
    messages in between. Its senders make their buffers no longer, so that a barrier waits for a few turns at most. In
    Flink each task has a thread of its own, and buffer debloating shortens the queues.

    With `failover` "region", a failure restarts the tasks that exchanges connect with the one that failed, and the
    others keep running (`kit.stream.graph.regions`). With "full" it restarts all tasks. A `reactive` job always
    restarts as a whole, as with Flink's adaptive scheduler. On Spark each region has slots of its own, so that a
    worker that is lost affects one region only; with "full" all tasks share slots, and a job needs fewer.

    With `state_backend` "disk", keyed state may exceed memory: `state_memory_mb` megabytes of it stay in the memory of
    a slot, shared equally by the operators that have some, and the rest is in files below `state_directory` on the
    machine of the slot (None: the directory for temporary files, which is often in memory itself). With "memory" all of
    it is in memory. Timers always are. Checkpoints are the same in both cases.

    Flink 1.11 carries them as `SnapshotSettings` in the `JobCheckpointingSettings`.
    """

    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    restart: RestartStrategy = field(default_factory=NoRestart)
    restart_is_default: bool = False
    """True if the user did not choose `restart`: the lab then has a default of its own."""
    failover: FailoverStrategy = setting(FailoverStrategy.REGION, FAILOVERS, "jobmanager.execution.failover-strategy")
    slot_sharing: SlotSharing = SlotSharing.JOB
    """The tasks that share slots, which the job's host decides (`kit.stream.graph.slot_sharing`)."""
    rescaling: RescaleConfig = field(default_factory=RescaleConfig)
    buffer_bytes: int = setting(4 * 1024 * 1024, whole(1, MAX_BUFFER_BYTES), "taskmanager.memory.segment-size")
    channel_credits: int = setting(2, count(1), "taskmanager.network.memory.buffers-per-channel")
    turn_ms: int = setting(60, milliseconds(1))
    state_backend: StateBackend = setting(StateBackend.MEMORY, BACKENDS, "state.backend.type")
    state_memory_mb: float = setting(
        256, number("more than 0", lambda found: found > 0), "state.backend.rocksdb.memory.fixed-per-slot"
    )
    state_directory: str | None = setting(
        None, or_none(PLACE, "the directory for temporary files"), "state.backend.rocksdb.localdir"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "failover", member(FailoverStrategy, self.failover))
        object.__setattr__(self, "state_backend", member(StateBackend, self.state_backend))
        if isinstance(self.state_directory, PathLike):
            object.__setattr__(self, "state_directory", fspath(self.state_directory))
        check(self)

    @property
    def restarts_regions(self) -> bool:
        """True if a failure may restart some regions of the job while the others run."""
        return self.failover is FailoverStrategy.REGION and not self.rescaling.reactive

    @property
    def coordinator(self) -> CheckpointCoordinatorConfiguration:
        """The checkpoint settings as the coordinator uses them."""
        return CheckpointCoordinatorConfiguration.of(self.checkpoint)


CLASSES: tuple[type, ...] = (CheckpointConfig, FixedDelay, ExponentialDelay, FailureRate, RescaleConfig, JobSettings)
"""The classes that take settings, in the order in which they are documented."""


def settings_table() -> pd.DataFrame:
    """Return one row per setting: the class that takes it, its default, what is allowed, and Flink's option."""
    import pandas as pd

    rows = []
    for kind in CLASSES:
        defaults = {each.name: getattr(each.default, "value", each.default) for each in fields(kind)}
        rows += [
            (kind.__name__, name, defaults[name], rule.allowed.text, rule.option)
            for name, rule in rules_of(kind).items()
        ]
    return pd.DataFrame(rows, columns=["of", "setting", "default", "allowed", "flink"])


__all__ = [
    "CLASSES",
    "DISABLED_CHECKPOINT_INTERVAL_MS",
    "MAX_PAUSE_MS",
    "CheckpointConfig",
    "CheckpointCoordinatorConfiguration",
    "CheckpointingMode",
    "ExponentialDelay",
    "FailoverStrategy",
    "FailureRate",
    "FixedDelay",
    "JobSettings",
    "NoRestart",
    "RescaleConfig",
    "RestartStrategy",
    "SettingError",
    "StateBackend",
    "default_restart_strategy",
    "settings_table",
]
