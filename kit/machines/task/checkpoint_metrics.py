"""What one subtask measures of one checkpoint, while it is being measured.

Some numbers are known only after the checkpoint was begun: the alignment of an unaligned one lasts until its last
barrier, in-flight data is counted when it has been written. Barrier handler, channel state writer and coordinator
fill in the same builder, each its own part.

Follows Flink's `CheckpointMetricsBuilder`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.messages import CheckpointMetrics

UNSET = -1


@dataclass(slots=True)
class CheckpointMetricsBuilder:
    """Times in ms, sizes in bytes; UNSET, or None where the number is still to come, is "not known"."""

    start_delay_ms: int = UNSET
    alignment_ms: int | None = None
    bytes_processed_during_alignment: int | None = None
    bytes_persisted_during_alignment: int = UNSET
    sync_ms: int = UNSET
    async_ms: int = UNSET
    bytes_persisted: int = 0
    total_bytes_persisted: int = 0

    @classmethod
    def without_alignment(cls, start_delay_ms: int = 0) -> CheckpointMetricsBuilder:
        """For a checkpoint that waits for no barrier."""
        return cls(start_delay_ms, 0, 0)

    @property
    def is_aligned(self) -> bool:
        """Whether the alignment is over and measured."""
        return self.alignment_ms is not None and self.bytes_processed_during_alignment is not None

    @property
    def unaligned(self) -> bool:
        """Whether in-flight data became part of the checkpoint."""
        return self.bytes_persisted_during_alignment > 0

    def build(self) -> CheckpointMetrics:
        """The numbers of a checkpoint that is done. Raises ValueError while the alignment is going on."""
        if not self.is_aligned:
            raise ValueError(f"the alignment is not over: {self!r}")
        return self.build_incomplete()

    def build_incomplete(self) -> CheckpointMetrics:
        """What is known by now, for a checkpoint that was given up (`buildIncomplete`)."""
        return CheckpointMetrics(
            start_delay_ms=self.start_delay_ms,
            alignment_ms=UNSET if self.alignment_ms is None else self.alignment_ms,
            sync_ms=self.sync_ms,
            async_ms=self.async_ms,
            bytes_processed_during_alignment=(
                UNSET if self.bytes_processed_during_alignment is None else self.bytes_processed_during_alignment
            ),
            bytes_persisted_during_alignment=self.bytes_persisted_during_alignment,
            unaligned=self.unaligned,
            bytes_persisted=self.bytes_persisted,
            total_bytes_persisted=self.total_bytes_persisted,
        )
