"""One subtask's measurements of one checkpoint, while they are taken.

Some values are known only after the checkpoint has started: the alignment of an unaligned one lasts until its last
barrier, and in-flight data is counted once it is written. Barrier handler, channel state writer and coordinator fill in
the same builder, each its own part.

Follows Flink's `CheckpointMetricsBuilder`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.messages import CheckpointMetrics

UNSET = -1


@dataclass(slots=True)
class CheckpointMetricsBuilder:
    """Times in ms and sizes in bytes; UNSET is "not known", and so is None for a value that is still to come."""

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
        """Return the builder of a checkpoint that waits for no barrier."""
        return cls(start_delay_ms, 0, 0)

    @property
    def is_aligned(self) -> bool:
        """True if the alignment is over and measured."""
        return self.alignment_ms is not None and self.bytes_processed_during_alignment is not None

    @property
    def unaligned(self) -> bool:
        """True if in-flight data became part of the checkpoint."""
        return self.bytes_persisted_during_alignment > 0

    def build(self) -> CheckpointMetrics:
        """Return the metrics of a finished checkpoint. Raises ValueError during the alignment."""
        if not self.is_aligned:
            raise ValueError(f"the alignment is not over: {self!r}")
        return self.build_incomplete()

    def build_incomplete(self) -> CheckpointMetrics:
        """Return the metrics known so far, for a checkpoint that was aborted (`buildIncomplete`)."""
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
