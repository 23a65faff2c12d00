"""A subtask's path through one checkpoint: when it reached the end of each phase, read from the trace.

- *Start delay*: from the trigger until the subtask takes its first barrier or hears of it. At a source it lasts until
  the trigger message arrives. As in Flink, a barrier that waits in the input queue has not begun anything.
- *Alignment*: until it takes the last barrier.
- *Sync*: the copy of its state, while it does nothing else.
- *Async*: until its files are written.
- *In flight*: until the in-flight data of an unaligned checkpoint is captured and written as well. Flink counts this as
  a part of async.
- *Ack*: until the coordinator has its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kit.core.trace.trace import TraceRecord

PHASES = ("start_delay", "alignment", "sync", "async", "in_flight", "ack")
TRIGGER, BARRIER, EITHER = "trigger", "start_delay", "begin"
"""The looks of a start delay: of a task that waits for the JobMaster's trigger, as sources do, of one that waits for a
barrier, and of one that may wait for either.
"""
WHOLE_ASYNC = "whole_async"
"""The look of async and in flight together, if only their sum is known."""
LOOKS = (TRIGGER, EITHER, WHOLE_ASYNC, *PHASES)
"""The possible values of `Span.look`."""
_TOGETHER = {"start_delay": EITHER, "async": WHOLE_ASYNC}
"""The description of each colour that several looks share."""
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
"""What a subtask does in a phase, by look."""


@dataclass(slots=True)
class Path:
    """The times at which a subtask reached the end of each phase, in ms; phases that have not ended are missing."""

    ends: dict[str, int] = field(default_factory=dict)
    instants: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The record that ended each phase: its number in the run, and its time. See `kit.run.journeys.Instant`."""
    event: str = ""
    """The event that ended the last phase."""
    declined_ms: int | None = None
    bytes_written: int | None = None

    def _end(self, phase: str, at_ms: int) -> None:
        self.ends.setdefault(phase, at_ms)

    def reached(self, record: TraceRecord) -> None:
        """End the start delay: the first barrier is taken or announced, or the trigger has arrived at a source."""
        self._end("start_delay", record.at_ms)

    def copied(self, record: TraceRecord) -> None:
        """End the alignment: the last barrier is taken, and the state is being copied."""
        self._end("start_delay", record.at_ms)
        self._end("alignment", record.at_ms)

    def written(self, record: TraceRecord) -> None:
        """End the phases of copying and writing; the host reports the length of the copy."""
        written, sync_ms = record.at_ms, int(record.data.get("sync_ms") or 0)
        self._end("sync", min(written, self.ends.get("alignment", written) + sync_ms))
        self._end("async", written)
        self.bytes_written = record.data.get("bytes_written")

    def sent(self, record: TraceRecord) -> None:
        """End all phases before the acknowledgement: the whole snapshot is written."""
        for phase in PHASES[:-1]:  # a worker that died may not have reported its last actions
            self._end(phase, record.at_ms)

    def declined(self, record: TraceRecord) -> None:
        """Note that the subtask declined."""
        self.declined_ms = record.at_ms

    def acknowledged(self, record: TraceRecord) -> None:
        """End the path: the coordinator has the acknowledgement."""
        for phase in PHASES:
            self._end(phase, record.at_ms)


PathStep = Callable[[Path, TraceRecord], None]


@dataclass(frozen=True, slots=True)
class Span:
    """One phase of a subtask's path. An open one lasts until the end of the checkpoint, or of the trace.

    `shown_as` is its look if that differs from the phase.
    """

    phase: str
    start_ms: int
    end_ms: int
    open: bool
    shown_as: str = ""

    @property
    def look(self) -> str:
        """The look of the span, one of `LOOKS`."""
        return self.shown_as or self.phase

    @property
    def words(self) -> str:
        """The description of what the subtask does in this phase."""
        return PHASE_WORDS[self.look]

    @property
    def is_seen(self) -> bool:
        """Return True if a bar of it has a length."""
        return self.end_ms > self.start_ms


def spans_of(path: Path, start_ms: int, until_ms: int, begins_with: str = BARRIER) -> list[Span]:
    """Return the phases in order; the first phase without an end is open, and the last in the list.

    Clocks of two hosts may differ a little, so a span that would be negative has length zero. `begins_with` is the look
    of the start delay.
    """
    spans: list[Span] = []
    at = start_ms
    until = path.declined_ms if path.declined_ms is not None else until_ms
    for phase in PHASES:
        end = path.ends.get(phase)
        look = begins_with if phase == BARRIER else ""
        if end is None:
            # sync ends with the event that begins async, so until the files are written the two are one span
            shown = "async" if phase == "sync" else phase
            return [*spans, Span(shown, at, max(at, until), open=True, shown_as=look)]
        spans.append(Span(phase, at, max(at, end), open=False, shown_as=look))
        at = max(at, end)
    return spans


def legend_of(spans: Iterable[Span]) -> list[tuple[str, str]]:
    """Return the phase and the description of each colour that these bars show, in order."""
    looks: dict[str, set[str]] = {phase: set() for phase in PHASES}
    for span in spans:
        if span.is_seen:
            looks[span.phase].add(span.look)
    return [
        (phase, PHASE_WORDS[_TOGETHER[phase] if len(of_phase) > 1 else next(iter(of_phase))])
        for phase, of_phase in looks.items()
        if of_phase
    ]
