"""A subtask's path through one checkpoint: when it came to the end of each phase, read from the trace.

*Start delay*: from the trigger until it takes its first barrier or hears of it (or, at a source, has the trigger's
message), as Flink measures it: a barrier that waits in the input queue has not begun anything. *Alignment*: until it
takes the last barrier. *Sync*: the copy of its state, while it does nothing else. *Async*: until its files are
written. *In flight*: until the in-flight data of an unaligned checkpoint is captured and written as well; Flink counts
this as a part of async. *Ack*: until the coordinator has its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kit.core.protocol.trace import TraceRecord

PHASES = ("start_delay", "alignment", "sync", "async", "in_flight", "ack")
TRIGGER, BARRIER, EITHER = "trigger", "start_delay", "begin"
"""How a start delay is shown: of a task that waits for the JobMaster's trigger, as sources do, of one that waits for a
barrier, and of one that may wait for either.
"""
WHOLE_ASYNC = "whole_async"
"""Async and in flight together, where only their sum is known."""
LOOKS = (TRIGGER, EITHER, WHOLE_ASYNC, *PHASES)
"""All that a span may be shown as: `Span.look`."""
_TOGETHER = {"start_delay": EITHER, "async": WHOLE_ASYNC}
"""What a colour means that several looks of a phase have."""
PHASE_WORDS = {
    TRIGGER: "waits for the trigger",
    EITHER: "waits for the trigger or the first barrier",
    BARRIER: "waits for the first barrier",
    "alignment": "waits for the other barriers",
    "sync": "copies its state",
    "async": "writes the copy",
    WHOLE_ASYNC: "writes the copy and in-flight data",
    "in_flight": "captures and writes in-flight data",
    "ack": "acknowledgement under way",
}
"""By look."""


@dataclass(slots=True)
class Path:
    """When a subtask came to the end of each phase, in ms; phases not ended are missing."""

    ends: dict[str, int] = field(default_factory=dict)
    instants: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The records that told so: the number of each among the run's, and its time. See `kit.run.journeys.Instant`."""
    event: str = ""
    """The event with which the last phase ended."""
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

    def sent(self, record: TraceRecord) -> None:
        """The acknowledgement is sent: all of the snapshot is written."""
        for phase in PHASES[:-1]:  # what a worker did last before it died may not have been told
            self._end(phase, record.at_ms)

    def declined(self, record: TraceRecord) -> None:
        """The subtask declined."""
        self.declined_ms = record.at_ms

    def acknowledged(self, record: TraceRecord) -> None:
        """The coordinator has its acknowledgement."""
        for phase in PHASES:
            self._end(phase, record.at_ms)


PathStep = Callable[[Path, TraceRecord], None]


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of a subtask's path; an open one lasts until the checkpoint's end, or the trace's. `shown_as` is its
    look where that is not the phase.
    """

    phase: str
    start_ms: int
    end_ms: int
    open: bool
    shown_as: str = ""

    @property
    def look(self) -> str:
        """One of `LOOKS`."""
        return self.shown_as or self.phase

    @property
    def words(self) -> str:
        """What the subtask does meanwhile."""
        return PHASE_WORDS[self.look]

    @property
    def is_seen(self) -> bool:
        """Return True if a bar of it has a length."""
        return self.end_ms > self.start_ms


def spans_of(path: Path, start_ms: int, until_ms: int, begins_with: str = BARRIER) -> list[Span]:
    """The phases one after the other; the first without an end is open, and the last. Between hosts clocks may differ a
    little: no span is shorter than nothing. `begins_with` is the look of the start delay.
    """
    spans: list[Span] = []
    at = start_ms
    until = path.declined_ms if path.declined_ms is not None else until_ms
    for phase in PHASES:
        end = path.ends.get(phase)
        look = begins_with if phase == BARRIER else ""
        if end is None:
            # the sync part ends with the event that the async part begins in: until the files are written both are one
            shown = "async" if phase == "sync" else phase
            return [*spans, Span(shown, at, max(at, until), open=True, shown_as=look)]
        spans.append(Span(phase, at, max(at, end), open=False, shown_as=look))
        at = max(at, end)
    return spans


def legend_of(spans: Iterable[Span]) -> list[tuple[str, str]]:
    """What the colours of these bars mean, of those alone that are seen: phase and words, in order."""
    looks: dict[str, set[str]] = {phase: set() for phase in PHASES}
    for span in spans:
        if span.is_seen:
            looks[span.phase].add(span.look)
    return [
        (phase, PHASE_WORDS[_TOGETHER[phase] if len(of_phase) > 1 else next(iter(of_phase))])
        for phase, of_phase in looks.items()
        if of_phase
    ]
