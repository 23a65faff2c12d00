"""A subtask's path through one checkpoint: when it came to the end of each phase, read from the trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kit.protocol.trace import TraceRecord


@dataclass(slots=True)
class Path:
    """When a subtask came to the end of each phase, in ms; phases not ended are missing. See `kit.draw.gantt`."""

    ends: dict[str, int] = field(default_factory=dict)
    instants: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The records that told so: the number of each among the run's, and its time. See `kit.draw.journeys.Instant`."""
    declined_ms: int | None = None
    bytes_written: int | None = None

    def _end(self, phase: str, at_ms: int) -> None:
        self.ends.setdefault(phase, at_ms)

    def reached(self, record: TraceRecord) -> None:
        """The first barrier, or at a source the trigger, is there."""
        self._end("start_delay", record.at_ms)

    def copied(self, record: TraceRecord) -> None:
        """The last barrier is there, and the state is being copied."""
        self._end("start_delay", record.at_ms)
        self._end("alignment", record.at_ms)

    def written(self, record: TraceRecord) -> None:
        """The files are written. How long the copy took is told by the host, as a length."""
        written, sync_ms = record.at_ms, int(record.data.get("sync_ms") or 0)
        self._end("sync", min(written, self.ends.get("alignment", written) + sync_ms))
        self._end("async", written)
        self.bytes_written = record.data.get("bytes_written")

    def declined(self, record: TraceRecord) -> None:
        """The subtask declined."""
        self.declined_ms = record.at_ms

    def acknowledged(self, record: TraceRecord) -> None:
        """The coordinator has its acknowledgement."""
        self._end("ack", record.at_ms)


PathStep = Callable[[Path, TraceRecord], None]
