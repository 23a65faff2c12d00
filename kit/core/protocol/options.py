"""The options inside a barrier: how the checkpoint is to be taken.

The coordinator decides `CheckpointOptions` once, and they reach every task unchanged except for `alignment`: an output
that cannot carry in-flight data turns UNALIGNED into FORCED_ALIGNED and back (Flink's `CheckpointOptions`). In 1.11
they have two flags in place of the alignment, `isExactlyOnceMode` and `isUnalignedCheckpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from kit.core.protocol.properties import CHECKPOINT, SnapshotType

NO_ALIGNED_CHECKPOINT_TIMEOUT_MS = 2**63 - 1
"""A timeout that never elapses: the checkpoint stays aligned."""


class AlignmentType(Enum):
    """The treatment of a task's inputs while it waits for the other barriers (`CheckpointOptions.AlignmentType`)."""

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"
    """Unaligned, except on channels that cannot carry in-flight data. Flink: `FORCED_ALIGNED`."""


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The kind of snapshot, where its files go (`location`, a directory path), and the alignment."""

    snapshot_type: SnapshotType = CHECKPOINT
    location: str = ""
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int = NO_ALIGNED_CHECKPOINT_TIMEOUT_MS

    def __post_init__(self) -> None:
        if self.alignment is AlignmentType.UNALIGNED:
            if self.snapshot_type.is_savepoint:
                raise ValueError(f"{self.snapshot_type.name} cannot be unaligned: savepoints hold no in-flight data")
            if self.aligned_timeout_ms != NO_ALIGNED_CHECKPOINT_TIMEOUT_MS:
                raise ValueError(
                    f"an unaligned checkpoint has no alignment timeout, found {self.aligned_timeout_ms} ms"
                )

    @classmethod
    def for_config(
        cls,
        snapshot_type: SnapshotType,
        location: str,
        *,
        exactly_once: bool,
        unaligned: bool,
        aligned_timeout_ms: int,
    ) -> CheckpointOptions:
        """Return the options that the job's settings give a checkpoint of this type (`CheckpointOptions.forConfig`)."""
        if not exactly_once:
            return cls(snapshot_type, location, AlignmentType.AT_LEAST_ONCE)
        if snapshot_type.is_savepoint or not unaligned:
            return cls(snapshot_type, location)
        if aligned_timeout_ms in (0, NO_ALIGNED_CHECKPOINT_TIMEOUT_MS):
            return cls(snapshot_type, location, AlignmentType.UNALIGNED)
        return cls(snapshot_type, location, AlignmentType.ALIGNED, aligned_timeout_ms)

    @property
    def is_exactly_once(self) -> bool:
        """True if records after the barrier are kept apart from those before it."""
        return self.alignment is not AlignmentType.AT_LEAST_ONCE

    @property
    def is_unaligned(self) -> bool:
        """True if the barrier overtakes buffers."""
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def needs_alignment(self) -> bool:
        """True if a barrier blocks its channel until the other barriers have come."""
        return self.is_exactly_once and (self.snapshot_type.is_savepoint or not self.is_unaligned)

    @property
    def is_timeoutable(self) -> bool:
        """True if an aligned checkpoint may turn unaligned after `aligned_timeout_ms`."""
        return (
            self.alignment is AlignmentType.ALIGNED and 0 < self.aligned_timeout_ms < NO_ALIGNED_CHECKPOINT_TIMEOUT_MS
        )

    @property
    def needs_channel_state(self) -> bool:
        """True if the snapshot contains in-flight data, or may come to."""
        return self.is_unaligned or self.is_timeoutable

    def with_unaligned_supported(self) -> CheckpointOptions:
        """Turn FORCED_ALIGNED back: this output can carry in-flight data. Flink: `withUnalignedSupported`."""
        if self.alignment is not AlignmentType.FORCED_ALIGNED:
            return self
        timed = self.aligned_timeout_ms != NO_ALIGNED_CHECKPOINT_TIMEOUT_MS
        return replace(self, alignment=AlignmentType.ALIGNED if timed else AlignmentType.UNALIGNED)

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """Return the options for an output that must stay aligned: FORCED_ALIGNED if they need channel state."""
        return replace(self, alignment=AlignmentType.FORCED_ALIGNED) if self.needs_channel_state else self

    def to_unaligned(self) -> CheckpointOptions:
        """Return the options of the checkpoint after its alignment timed out; only an aligned one can."""
        if self.alignment is not AlignmentType.ALIGNED:
            raise ValueError(f"only an ALIGNED checkpoint can turn unaligned, this one is {self.alignment.name}")
        return replace(self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=NO_ALIGNED_CHECKPOINT_TIMEOUT_MS)
