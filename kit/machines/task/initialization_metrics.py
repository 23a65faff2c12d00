"""The measurements of a task's initialization, from its deployment until it runs or fails.

Follows Flink's `SubTaskInitializationMetricsBuilder` and the durations that `StreamTask` adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.protocol.messages import InitializationMetrics
from kit.core.protocol.snapshots import RestoredPart


class InitializationMetricsBuilder:
    """The measurements so far; times are in ms, by the host's clock."""

    def __init__(self, deployed_at_ms: int) -> None:
        self._deployed_at_ms = deployed_at_ms
        self._state_read_at_ms: int | None = None
        self._restored_bytes = 0

    def state_read(self, at_ms: int, parts: Sequence[RestoredPart]) -> None:
        """Record that the state was read; the in-flight data is processed next."""
        self._state_read_at_ms = at_ms
        self._restored_bytes = sum(part.handle.state_size for part in parts)

    def build(self, at_ms: int, *, completed: bool) -> InitializationMetrics:
        """Return the metrics of an initialization that ends now; the task runs if it `completed`."""
        read_at_ms = self._state_read_at_ms
        return InitializationMetrics(
            deployed_at_ms=self._deployed_at_ms,
            duration_ms=at_ms - self._deployed_at_ms,
            read_state_ms=-1 if read_at_ms is None else read_at_ms - self._deployed_at_ms,
            gate_restore_ms=-1 if read_at_ms is None else at_ms - read_at_ms,
            restored_bytes=self._restored_bytes,
            completed=completed,
        )

    def __repr__(self) -> str:
        return f"InitializationMetricsBuilder(since {self._deployed_at_ms} ms, {self._restored_bytes} B)"
