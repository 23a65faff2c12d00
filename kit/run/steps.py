"""A trace's records as steps: each event with the commands that its machine gave, causes before effects.

In the lab records arrive in the order in which things happened. On a cluster every worker sends its own, so an effect
may be recorded before its cause; here it waits. Otherwise the order of the trace is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from kit.core.trace.trace import Trace, TraceRecord, led_by

Step = list[TraceRecord]


def event_of(record: TraceRecord) -> str:
    """Return the id of the event that the record is, or that its machine was handling."""
    machine, _, number = record.id.rpartition("#")
    return f"{machine}#{number.partition('.')[0]}"


def steps(trace: Iterable[TraceRecord]) -> list[Step]:
    """Return the steps of a run, each after its cause and after the earlier steps of its machine."""
    return Ordering.of(trace).steps


class Ordering:
    """The steps of a run in progress, in the order of `steps`; adding records costs time for the new records only.

    `steps` are all steps. `starts` is the number of records before each step, with the total at the end. `taken` are
    the records as they arrived.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.starts: list[int] = [0]
        self.taken: list[TraceRecord] = []
        self._by_event: dict[str, Step] = {}
        self._came: dict[str, int] = {}
        """The number of events that were met before each event."""
        self._event_with: dict[str, str] = {}
        self._before: dict[str, str | None] = {}
        """The previous event of the same machine."""
        self._last: dict[str, str] = {}
        self._ordered: list[str] = []
        self._place: dict[str, int] = {}
        self._causeless: dict[str, list[str]] = {}
        """The events that each missing record causes, by the id of the record."""

    @classmethod
    def of(cls, trace: Iterable[TraceRecord]) -> Ordering:
        """Return the ordering of the known part of a run.

        A lab's trace is in order already; its ordering takes no further records.
        """
        ordering = cls()
        if isinstance(trace, Trace) and trace.detailed:
            ordering.steps = in_order(trace)
            ordering.starts = [0, *accumulate(map(len, ordering.steps))]
        else:
            ordering.take([*trace])
        return ordering

    def take(self, records: Sequence[TraceRecord]) -> int:
        """Add new records, and return the number of steps at the beginning that did not change."""
        keep, new = len(self._ordered), []
        for record in records:
            event = event_of(record)
            if event not in self._by_event:
                new.append(event)
                self._meet(event, record)
            self._by_event[event].append(record)
            self._event_with[record.id] = event
            for changed in (event, *self._causeless.pop(record.id, ())):
                keep = min(keep, self._place.get(changed, keep))
        self.taken += records
        again = self._ordered[keep:]
        del self._ordered[keep:], self.steps[keep:], self.starts[keep + 1 :]
        for event in again:
            del self._place[event]
        self._order(sorted(again, key=self._came.__getitem__) + new)
        return keep

    def _meet(self, event: str, first: TraceRecord) -> None:
        """Add an event, with what must come before it as far as that is known."""
        machine = event.rpartition("#")[0]
        self._came[event] = len(self._came)
        self._by_event[event] = []
        self._before[event] = self._last.get(machine)
        self._last[machine] = event
        if first.cause and led_by(first.cause, self._event_with.get) is None:
            for cause in {first.cause, first.cause.rpartition(".")[0]} - {""}:
                self._causeless.setdefault(cause, []).append(event)

    def _order(self, events: Sequence[str]) -> None:
        """Place these events, which come in the order in which they were met."""
        for event in events:
            waiting = [event]
            while waiting:
                now = waiting[-1]
                missing = [need for need in self._needs(now) if need not in self._place and need not in waiting]
                if missing:
                    waiting.append(missing[0])
                    continue
                waiting.pop()
                if now not in self._place:
                    self._place[now] = len(self._ordered)
                    self._ordered.append(now)
                    self.steps.append(self._by_event[now])
                    self.starts.append(self.starts[-1] + len(self._by_event[now]))

    def _needs(self, event: str) -> list[str]:
        """Return the events that come before this one: its machine's previous event, and the one with its cause."""
        before = (self._before[event], led_by(self._by_event[event][0].cause, self._event_with.get))
        return [need for need in before if need is not None and need != event]


def in_order(records: Iterable[TraceRecord]) -> list[Step]:
    """Return the steps of records that are in order already, like a lab's."""
    grouped: list[Step] = []
    group: Step = []
    last, its_commands = "", "\0"
    for record in records:
        if not record.id.startswith(its_commands):
            event = event_of(record)
            if event != last:
                group = []
                grouped.append(group)
                last, its_commands = event, f"{event}."
        group.append(record)
    return grouped
