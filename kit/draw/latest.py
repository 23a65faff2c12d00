"""The picture of a run that goes on: each look takes in what is new since the last one, and nothing twice."""

from __future__ import annotations

from itertools import takewhile

from kit.draw.frames import Frame
from kit.draw.job_state import only_last
from kit.draw.moment import advance
from kit.draw.run import Run
from kit.draw.stage import stage_for
from kit.draw.steps import event_of
from kit.protocol.trace import Trace, TraceRecord, led_by


class Latest:
    """The last frame of one run, whose records come causes first, as a lab's do."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._moment = only_last()
        self._seen: dict[str, TraceRecord] = {}
        self._last: TraceRecord | None = None

    def missing(self, trace: Trace) -> int:
        """How many records are to be taken in before this is the frame of the trace; all, if it went another way."""
        taken = self._moment.n
        if taken and (taken > len(trace) or trace[taken - 1] is not self._last):
            self._forget()
        return len(trace) - self._moment.n

    def frame(self, run: Run) -> Frame:
        """The frame at the end of the run."""
        self.missing(run.trace)
        for record in run.trace.since(self._moment.n):
            self._moment = advance(self._moment, record, led_by(record.cause, self._seen.get))
            self._seen[record.id] = self._last = record
        if self._last is None:
            return Frame(self._moment, stage_for(run.stages, self._moment.epoch))
        event = event_of(self._last)
        group = tuple(takewhile(lambda record: event_of(record) == event, reversed(run.trace)))[::-1]
        return Frame(
            self._moment, stage_for(run.stages, self._moment.epoch), group, led_by(group[0].cause, self._seen.get)
        )

    def __repr__(self) -> str:
        return f"Latest({self._moment.n} records)"
