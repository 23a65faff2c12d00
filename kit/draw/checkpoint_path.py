"""A subtask's path through one checkpoint: when it came to the end of each phase, read from the trace.

*Start delay*: from the trigger until it takes its first barrier or hears of it (or, at a source, has the trigger's
message), as Flink measures it: a barrier that waits in the input queue has not begun anything. *Alignment*: until it
takes the last barrier. *Sync*: the copy of its state, while it does nothing else. *Async*: until its files are
written. *Ack*: until the coordinator has its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kit.protocol.trace import TraceRecord

PHASES = ("start_delay", "alignment", "sync", "async", "ack")
PHASE_WORDS = {
    "start_delay": "waits for the first barrier",
    "alignment": "waits for the other barriers",
    "sync": "copies its state",
    "async": "writes the copy",
    "ack": "acknowledgement under way",
}


@dataclass(slots=True)
class Path:
    """When a subtask came to the end of each phase, in ms; phases not ended are missing."""

    ends: dict[str, int] = field(default_factory=dict)
    instants: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The records that told so: the number of each among the run's, and its time. See `kit.draw.journeys.Instant`."""
    declined_ms: int | None = None
    bytes_written: int | None = None

    def _end(self, phase: str, at_ms: int) -> None:
        self.ends.setdefault(phase, at_ms)

    def reached(self, record: TraceRecord) -> None:
        """The first barrier is taken or announced, or at a source the trigger is there."""
        self._end("start_delay", record.at_ms)

    def copied(self, record: TraceRecord) -> None:
        """The last barrier is taken, and the state is being copied."""
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


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of a subtask's path; an open one lasts until the checkpoint's end, or the trace's."""

    phase: str
    start_ms: int
    end_ms: int
    open: bool


def spans_of(path: Path, start_ms: int, until_ms: int) -> list[Span]:
    """The phases one after the other; the first without an end is open, and the last. Between hosts clocks may differ a
    little: no span is shorter than nothing.
    """
    spans: list[Span] = []
    at = start_ms
    until = path.declined_ms if path.declined_ms is not None else until_ms
    for phase in PHASES:
        end = path.ends.get(phase)
        if end is None:
            # the sync part ends with the event that the async part begins in: until the files are written both are one
            shown = "async" if phase == "sync" else phase
            return [*spans, Span(shown, at, max(at, until), open=True)]
        spans.append(Span(phase, at, max(at, end), open=False))
        at = max(at, end)
    return spans
