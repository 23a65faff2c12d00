"""The rules for single settings, as a table: the name here, Flink's option, and the allowed values.

`RULES` is their only definition. Settings check themselves against it on creation (`check`), and
`kit.stream.settings.job_settings.settings_table` shows it with the defaults. Rules that concern two settings at once
are in the class that has both. `NOT_HERE` names the options of Flink that the kit does not have, with the reason.

Follows Flink's `CheckpointingOptions`, `StateRecoveryOptions`, `RestartStrategyOptions` and, of rescaling,
`JobManagerOptions`, and the checks in `CheckpointConfig`, `CheckpointCoordinatorConfiguration`,
`FileSystemCheckpointStorage` and the `RestartBackoffTimeStrategy` classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kit.core.arguments.allowed import (
    FLAG,
    LONGEST_MS,
    PLACE,
    Allowed,
    check_allowed,
    count,
    milliseconds,
    number,
    one_of,
    or_none,
    whole,
)
from kit.core.protocol.properties import Durability, RetentionPolicy
from kit.stream.settings.store_addresses import EXAMPLES, IN_MEMORY, store_named

MINIMAL_CHECKPOINT_TIME_MS = 10
"""Shorter intervals and timeouts are rejected (`MINIMAL_CHECKPOINT_TIME`)."""
MAX_MEMORY_THRESHOLD_BYTES = 1024 * 1024
"""The maximum size of state inlined into `_metadata` (`MAX_FILE_STATE_THRESHOLD`)."""
MAX_BUFFER_BYTES = 128 * 1024 * 1024
"""The maximum size of a buffer, which with its header must fit into a frame of the network."""
MOST_ENTROPY = 32
"""The maximum number of characters of entropy in a path."""


class CheckpointingMode(Enum):
    """The guarantee for state after a failure: each record counts once, or at least once (`CheckpointingMode`)."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


MODES, RETENTIONS, DURABILITIES = one_of(CheckpointingMode), one_of(RetentionPolicy), one_of(Durability)
STORE = Allowed(
    f"{', '.join(map(repr, [IN_MEMORY, *EXAMPLES[:-1]]))} or {EXAMPLES[-1]!r}",
    lambda found: isinstance(found, str) and (found == IN_MEMORY or store_named(found) is not None),
)
NAME_IN_PATH = Allowed(
    "a name without '/', such as '_entropy_'",
    lambda found: isinstance(found, str) and "/" not in found and found not in ("", ".", ".."),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting: its name, Flink's option, the values allowed."""

    setting: str
    option: str
    allowed: Allowed


_CHECKPOINTING, _RECOVERY = "execution.checkpointing", "execution.state-recovery"
_UNALIGNED = f"{_CHECKPOINTING}.unaligned"
_FIXED, _RATE = "restart-strategy.fixed-delay", "restart-strategy.failure-rate"
_EXPONENTIAL = "restart-strategy.exponential-delay"
_ADAPTIVE = "jobmanager.adaptive-scheduler"
_SUBMISSION = f"{_ADAPTIVE}.submission"
_TIME = milliseconds(MINIMAL_CHECKPOINT_TIME_MS)
_BACKLOG_TIME = Allowed(
    f"0 for no checkpoints, {MINIMAL_CHECKPOINT_TIME_MS} or more, or None for interval_ms",
    lambda found: found is None or whole(0, 0).test(found) or _TIME.test(found),
)

RULES: dict[str, tuple[Rule, ...]] = {
    "CheckpointConfig": (
        Rule("interval_ms", f"{_CHECKPOINTING}.interval", or_none(_TIME, "no periodic checkpoints")),
        Rule("interval_during_backlog_ms", f"{_CHECKPOINTING}.interval-during-backlog", _BACKLOG_TIME),
        Rule("mode", f"{_CHECKPOINTING}.mode", MODES),
        Rule("timeout_ms", f"{_CHECKPOINTING}.timeout", _TIME),
        Rule("min_pause_ms", f"{_CHECKPOINTING}.min-pause", milliseconds(0)),
        Rule("max_concurrent", f"{_CHECKPOINTING}.max-concurrent-checkpoints", count(1)),
        Rule("tolerable_failures", f"{_CHECKPOINTING}.tolerable-failed-checkpoints", count(0)),
        Rule("unaligned", f"{_UNALIGNED}.enabled", FLAG),
        Rule("aligned_timeout_ms", f"{_CHECKPOINTING}.aligned-checkpoint-timeout", milliseconds(0)),
        Rule("force_unaligned", f"{_UNALIGNED}.forced", FLAG),
        Rule("max_subtasks_per_channel_state_file", f"{_UNALIGNED}.max-subtasks-per-channel-state-file", count(1)),
        Rule(
            "checkpoint_id_of_ignored_in_flight_data",
            f"{_RECOVERY}.without-channel-state.checkpoint-id",
            or_none(whole(1, LONGEST_MS), "no checkpoint"),
        ),
        Rule("checkpoints_after_tasks_finish", f"{_CHECKPOINTING}.checkpoints-after-tasks-finish", FLAG),
        Rule("local_recovery", f"{_CHECKPOINTING}.local-backup.enabled", FLAG),
        Rule("retention", f"{_CHECKPOINTING}.externalized-checkpoint-retention", RETENTIONS),
        Rule("fall_back_if_damaged", "", FLAG),
        Rule("durability", "", DURABILITIES),
        Rule("max_retained", f"{_CHECKPOINTING}.num-retained", count(1)),
        Rule("directory", f"{_CHECKPOINTING}.dir", or_none(PLACE, "a temporary one")),
        Rule("savepoint_directory", f"{_CHECKPOINTING}.savepoint-dir", or_none(PLACE, "`savepoints` in `directory`")),
        Rule("entropy_key", "s3.entropy.key", or_none(NAME_IN_PATH, "no entropy")),
        Rule("entropy_length", "s3.entropy.length", whole(1, MOST_ENTROPY)),
        Rule("memory_threshold_bytes", f"{_CHECKPOINTING}.data-inline-threshold", whole(0, MAX_MEMORY_THRESHOLD_BYTES)),
        Rule("store", "high-availability.type", STORE),
    ),
    "FixedDelay": (
        Rule("attempts", f"{_FIXED}.attempts", count(0)),
        Rule("delay_ms", f"{_FIXED}.delay", milliseconds(0)),
    ),
    "ExponentialDelay": (
        Rule("initial_delay_ms", f"{_EXPONENTIAL}.initial-backoff", milliseconds(1)),
        Rule("max_delay_ms", f"{_EXPONENTIAL}.max-backoff", milliseconds(1)),
        Rule("multiplier", f"{_EXPONENTIAL}.backoff-multiplier", number("more than 1", lambda found: found > 1)),
        Rule("reset_after_ms", f"{_EXPONENTIAL}.reset-backoff-threshold", milliseconds(1)),
        Rule("jitter_factor", f"{_EXPONENTIAL}.jitter-factor", number("0 to 1", lambda found: 0 <= found <= 1)),
        Rule("attempts_before_reset", f"{_EXPONENTIAL}.attempts-before-reset-backoff", count(1)),
        Rule("first_at_once", "", FLAG),
    ),
    "FailureRate": (
        Rule("max_failures", f"{_RATE}.max-failures-per-interval", count(1)),
        Rule("interval_ms", f"{_RATE}.failure-rate-interval", milliseconds(1)),
        Rule("delay_ms", f"{_RATE}.delay", milliseconds(0)),
    ),
    "RescaleConfig": (
        Rule("reactive", "jobmanager.scheduler", FLAG),
        Rule("minimum_parallelism", "", count(1)),
        Rule("cooldown_ms", f"{_ADAPTIVE}.executing.cooldown-after-rescaling", milliseconds(0)),
        Rule("stabilization_ms", f"{_ADAPTIVE}.executing.resource-stabilization-timeout", milliseconds(0)),
        Rule(
            "max_trigger_delay_ms",
            f"{_ADAPTIVE}.rescale-trigger.max-delay",
            or_none(milliseconds(0), "so long that the failures are waited for"),
        ),
        Rule("max_checkpoint_failures", f"{_ADAPTIVE}.rescale-trigger.max-checkpoint-failures", count(1)),
        Rule("slot_wait_ms", f"{_SUBMISSION}.resource-wait-timeout", or_none(milliseconds(0), "as long as it takes")),
        Rule("submission_stabilization_ms", f"{_SUBMISSION}.resource-stabilization-timeout", milliseconds(0)),
    ),
    "JobSettings": (
        Rule("buffer_rows", "", count(1)),
        Rule("buffer_bytes", "taskmanager.memory.segment-size", whole(1, MAX_BUFFER_BYTES)),
        Rule("channel_credits", "taskmanager.network.memory.buffers-per-channel", count(1)),
    ),
}
"""The rules by the class that has the settings. An empty option means that Flink has none."""

NOT_HERE = {
    f"{_CHECKPOINTING}.storage": "checkpoints are always files; `directory` says where",
    f"{_CHECKPOINTING}.incremental": "a state backend's choice; the heap backend writes all of its state each time",
    f"{_CHECKPOINTING}.create-subdir": "every job has a directory of its own: two could not share one",
    f"{_CHECKPOINTING}.cleaner.parallel-mode": "what is deleted is deleted in the background, in order",
    f"{_CHECKPOINTING}.write-buffer-size": "a state file is written in one piece",
    f"{_CHECKPOINTING}.local-backup.dirs": "a machine's directory for temporary files holds the copies",
    f"{_CHECKPOINTING}.file-merging.enabled": "experimental in Flink; small state goes into `_metadata` instead",
    f"{_UNALIGNED}.interruptible-timers.enabled": "experimental in Flink; timers of a batch fire as one",
    f"{_RECOVERY}.path": "`restore_path` of SparkJob and Lab",
    f"{_RECOVERY}.ignore-unclaimed-state": "`allow_non_restored_state` of SparkJob and Lab",
    f"{_RECOVERY}.claim-mode": "`claim_mode` of SparkJob and Lab",
    f"{_RECOVERY}.approximate-local-recovery": "experimental in Flink: it loses records",
    f"{_RECOVERY}.from-local": "`local_recovery`: copies are kept to be restored from",
    "restart-strategy.type": "the class of `restart`: NoRestart, FixedDelay, ExponentialDelay or FailureRate",
}
"""Flink's options without a setting of that name, with the reason or the alternative."""


def check(settings: object) -> None:
    """Check an object's settings against the rules of its class; durations become ms. Raises SettingError."""
    check_allowed(settings, {rule.setting: rule.allowed for rule in RULES[type(settings).__name__]})
