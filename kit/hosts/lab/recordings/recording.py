"""A recorded run with which a lab compares its own: events, records, and the difference between two records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kit.core.protocol.events import StartJob
from kit.core.trace.schedule import Handled
from kit.core.trace.trace import Trace, TraceRecord
from kit.run.steps import event_of

HOSTS_OWN = {"TaskStateChanged": ("traceback",)}
"""The fields, by kind of record, that depend on the host and are not compared."""
LONGEST_VALUE = 300
"""The most characters of a differing value in an error."""


class Recording:
    """A recorded run: its schedule, and its records for comparison. It never changes.

    Raises ValueError for a trace that is not a recording (`Trace.told_schedule`).
    """

    def __init__(self, trace: Trace) -> None:
        self.schedule = trace.told_schedule()
        self.is_detailed = trace.detailed
        self.records: dict[str, list[TraceRecord]] = {}
        """By the id of the event to which they belong."""
        self._heard: dict[str, range] = {}
        for record in trace:
            event_id = event_of(record)
            self.records.setdefault(event_id, []).append(record)
            machine, number = _parts(event_id)
            heard = self._heard.get(machine, range(number, number + 1))
            self._heard[machine] = range(min(heard.start, number), max(heard.stop, number + 1))
        self.answers = {event.cause: event for event in self.schedule if event.cause}
        """What came of commands, by their ids."""

    @property
    def start(self) -> StartJob:
        """The event that started the run."""
        start = next(event for event in self.schedule if event.kind == StartJob.__name__).word()
        assert isinstance(start, StartJob)
        return start

    def has_heard_of(self, event: Handled) -> bool:
        """Return True if the event's machine has records at or before it, and at or after it."""
        machine, number = _parts(event.id)
        return number in self._heard.get(machine, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Recording:
        return self


@dataclass(frozen=True, slots=True)
class Agreement:
    """The progress of a lab along a recording: the number of `events` repeated, and of equal `records`.

    `unheard` counts records that the recording lacks, by machine and attempt, because a killed worker loses its last
    ones.
    """

    events: int = 0
    records: int = 0
    unheard: Mapping[str, int] = field(default_factory=dict)

    def without(self, machine: str, records: int) -> Agreement:
        """Return the same with additional records of this machine that the recording lacks."""
        if not records:
            return self
        return replace(self, unheard={**self.unheard, machine: self.unheard.get(machine, 0) + records})

    def __repr__(self) -> str:
        more = sum(self.unheard.values())
        lacks = f"; the recording lacks {more} of {', '.join(sorted(self.unheard))}" if more else ""
        return f"{self.events:,} events as recorded, {self.records:,} records the same{lacks}"


def difference_of(lab: TraceRecord | None, recorded: TraceRecord | None, led_here: set[str]) -> str:
    """Describe the difference between the records; "" if there is none."""
    if lab is None or recorded is None:
        there, where = (recorded, "recording") if lab is None else (lab, "lab")
        return f"only the {where} has {there!r}"
    for name in ("id", "kind", "role", "machine", "checkpoint_id", "at_ms"):
        if getattr(lab, name) != getattr(recorded, name):
            return f"the lab's record {lab!r} is {recorded!r} in the recording"
    own = HOSTS_OWN.get(lab.kind, ())
    for name in {**lab.data, **recorded.data}:
        # A field that the recording does not know yet, and that its run did not need either.
        is_newer = name not in recorded.data and lab.data[name] in ({}, [], None)
        if name not in own and not is_newer and lab.data.get(name) != recorded.data.get(name):
            where, mine, theirs = _innermost(name, lab.data.get(name), recorded.data.get(name))
            return f"{lab.id} {lab.kind}: {where} is {_shown(mine)} in the lab, {_shown(theirs)} in the recording"
    if lab.cause != recorded.cause and recorded.cause not in led_here:
        return f"{lab.id} {lab.kind}: {lab.cause!r} led to it in the lab, {recorded.cause!r} in the recording"
    return ""


def _innermost(where: str, mine: Any, theirs: Any) -> tuple[str, Any, Any]:
    """Return the first place at which two values differ."""
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        name = next(each for each in {**mine, **theirs} if mine.get(each) != theirs.get(each))
        return _innermost(f"{where}.{name}", mine.get(name), theirs.get(name))
    if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        place = next(place for place, each in enumerate(mine) if each != theirs[place])
        return _innermost(f"{where}[{place}]", mine[place], theirs[place])
    return where, mine, theirs


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _parts(event_id: str) -> tuple[str, int]:
    machine, _, number = event_id.rpartition("#")
    return machine, int(number)
