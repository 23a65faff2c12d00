"""What travels inside a barrier: how the checkpoint is to be taken.

`CheckpointOptions` is decided once, by the coordinator, and reaches every task unchanged except for `alignment`: an output that cannot
carry in-flight data turns UNALIGNED into FORCED_ALIGNED and back (Flink's `CheckpointOptions`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from kit.protocol.properties import CHECKPOINT, SnapshotType

NO_ALIGNED_CHECKPOINT_TIMEOUT_MS = 2**63 - 1
"""Alignment never times out."""


class AlignmentType(Enum):
    """How a task treats its inputs while it waits for the other barriers (`CheckpointOptions.AlignmentType`)."""

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    ALIGNED = "ALIGNED"
    UNALIGNED = "UNALIGNED"
    FORCED_ALIGNED = "FORCED_ALIGNED"


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """The kind of snapshot, where its files go (`location`, a directory path), and the alignment."""

    snapshot_type: SnapshotType = CHECKPOINT
    location: str = ""
    alignment: AlignmentType = AlignmentType.ALIGNED
    aligned_timeout_ms: int = NO_ALIGNED_CHECKPOINT_TIMEOUT_MS

    @property
    def needs_alignment(self) -> bool:
        """Whether a barrier blocks its channel until the others have come."""
        return self.alignment in (AlignmentType.ALIGNED, AlignmentType.FORCED_ALIGNED)

    @property
    def is_timeoutable(self) -> bool:
        """Whether an aligned checkpoint may turn unaligned after `aligned_timeout_ms`."""
        return self.alignment is AlignmentType.ALIGNED and self.aligned_timeout_ms != NO_ALIGNED_CHECKPOINT_TIMEOUT_MS

    def with_unaligned_supported(self) -> CheckpointOptions:
        """FORCED_ALIGNED becomes UNALIGNED again: this output can carry in-flight data."""
        if self.alignment is AlignmentType.FORCED_ALIGNED:
            return replace(self, alignment=AlignmentType.UNALIGNED)
        return self

    def with_unaligned_unsupported(self) -> CheckpointOptions:
        """UNALIGNED becomes FORCED_ALIGNED, and a timeout is dropped: this output must stay aligned."""
        if self.alignment is AlignmentType.UNALIGNED or self.is_timeoutable:
            return replace(self, alignment=AlignmentType.FORCED_ALIGNED)
        return self

    def to_unaligned(self) -> CheckpointOptions:
        """The same checkpoint after its alignment timed out."""
        return replace(self, alignment=AlignmentType.UNALIGNED, aligned_timeout_ms=NO_ALIGNED_CHECKPOINT_TIMEOUT_MS)
