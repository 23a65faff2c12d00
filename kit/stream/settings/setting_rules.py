"""The declaration of single settings: the default, the allowed values, and Flink's option.

Classes declare each of their settings once, with `setting`. They check themselves on creation (`check`), and
`kit.stream.settings.job_settings.settings_table` shows all declarations. Rules that concern two settings at once are in
the class that has both. `NOT_HERE` names the options of Flink that the kit does not have, with the reason.

Follows Flink's `CheckpointingOptions`, `StateRecoveryOptions`, `RestartStrategyOptions` and, of rescaling,
`JobManagerOptions`, and the checks in `CheckpointConfig`, `CheckpointCoordinatorConfiguration`,
`FileSystemCheckpointStorage` and the `RestartBackoffTimeStrategy` classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from kit.core.arguments.allowed import (
    Allowed,
    check_allowed,
    milliseconds,
    one_of,
    whole,
)
from kit.core.protocol.properties import Durability, RetentionPolicy
from kit.stream.settings.store_addresses import EXAMPLES, IN_MEMORY, store_named

T = TypeVar("T")
_RULE = "rule"
"""The key of a field's rule in its metadata."""

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


class FailoverStrategy(Enum):
    """The tasks that restart after a failure: a pipelined region, or all (`FailoverStrategyFactoryLoader`)."""

    REGION = "region"
    FULL = "full"


class StateBackend(Enum):
    """The place of keyed state: memory, or the local disk for what memory has no room for (`StateBackendOptions`)."""

    MEMORY = "memory"
    DISK = "disk"


class SlotSharing(Enum):
    """The tasks that share slots: those of the whole job, or those of a pipelined region (`SlotSharingGroup`)."""

    JOB = "job"
    REGION = "region"


MODES, RETENTIONS, DURABILITIES = one_of(CheckpointingMode), one_of(RetentionPolicy), one_of(Durability)
FAILOVERS, BACKENDS = one_of(FailoverStrategy), one_of(StateBackend)
STORE = Allowed(
    f"{', '.join(map(repr, [IN_MEMORY, *EXAMPLES[:-1]]))} or {EXAMPLES[-1]!r}",
    lambda found: isinstance(found, str) and (found == IN_MEMORY or store_named(found) is not None),
)
NAME_IN_PATH = Allowed(
    "a name without '/', such as '_entropy_'",
    lambda found: isinstance(found, str) and "/" not in found and found not in ("", ".", ".."),
)


CHECKPOINT_TIME = milliseconds(MINIMAL_CHECKPOINT_TIME_MS)
BACKLOG_TIME = Allowed(
    f"0 for no checkpoints, {MINIMAL_CHECKPOINT_TIME_MS} or more, or None for interval_ms",
    lambda found: found is None or whole(0, 0).test(found) or CHECKPOINT_TIME.test(found),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that one setting allows, and Flink's option, "" if Flink has none."""

    allowed: Allowed
    option: str


def setting(default: T, allowed: Allowed, option: str = "") -> T:
    """Declare a setting of a dataclass: its default, the values allowed, and Flink's option if it has one."""
    declared: T = field(default=default, metadata={_RULE: Rule(allowed, option)})
    return declared


def rules_of(kind: type) -> Mapping[str, Rule]:
    """Return the rules of a class's settings, by name, in the order in which they are declared."""
    return {each.name: each.metadata[_RULE] for each in fields(kind) if _RULE in each.metadata}


def check(settings: Any) -> None:
    """Check an object's settings against the rules of its class; durations become ms. Raises SettingError."""
    check_allowed(settings, {name: rule.allowed for name, rule in rules_of(type(settings)).items()})


_CHECKPOINTING, _RECOVERY = "execution.checkpointing", "execution.state-recovery"
_UNALIGNED = f"{_CHECKPOINTING}.unaligned"
NOT_HERE = {
    f"{_CHECKPOINTING}.storage": "checkpoints are always files; `directory` says where",
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
