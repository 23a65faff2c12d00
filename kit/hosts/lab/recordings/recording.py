"""A recorded run as a lab holds its own against it: events, records, and where two records differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kit.core.protocol.events import StartJob
from kit.core.protocol.schedule import Handled
from kit.core.protocol.trace import Trace, TraceRecord

HOSTS_OWN = {"TaskStateChanged": ("traceback",)}
"""By kind of record, what of its data is the host's rather than the run's, and not compared."""
LONGEST_VALUE = 300
"""Characters of a value that differs, as an error shows it."""


class Recording:
    """A recorded run: its schedule, and its records to hold the lab's against. It never changes.

    Raises ValueError for a trace that is not a recording (`Trace.told_schedule`).
    """

    def __init__(self, trace: Trace) -> None:
        self.schedule = trace.told_schedule()
        self.is_detailed = trace.detailed
        self.records: dict[str, list[TraceRecord]] = {}
        """By the id of the event to which they belong."""
        self._heard: dict[str, range] = {}
        for record in trace:
            event_id = _event_of(record.id)
            self.records.setdefault(event_id, []).append(record)
            machine, number = _parts(event_id)
            heard = self._heard.get(machine, range(number, number + 1))
            self._heard[machine] = range(min(heard.start, number), max(heard.stop, number + 1))
        self.answers = {event.cause: event for event in self.schedule if event.cause}
        """What came of commands, by their ids."""

    @property
    def start(self) -> StartJob:
        """How the run began."""
        start = next(event for event in self.schedule if event.kind == StartJob.__name__).word()
        assert isinstance(start, StartJob)
        return start

    def has_heard_of(self, event: Handled) -> bool:
        """Whether there are records of this event's machine from before, or from then, and from then or later."""
        machine, number = _parts(event.id)
        return number in self._heard.get(machine, ())

    def __deepcopy__(self, memo: dict[int, Any]) -> Recording:
        return self

    def __repr__(self) -> str:
        return f"Recording({self.schedule!r})"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a lab has done what was recorded: so many `events`, and `records` of the trace that are the same.

    `unheard` are records that the recording lacks, by machine and attempt: a worker that is killed takes its last ones
    with it.
    """

    events: int = 0
    records: int = 0
    unheard: Mapping[str, int] = field(default_factory=dict)

    def without(self, machine: str, records: int) -> Agreement:
        """The same with so many more records of this machine that the recording lacks."""
        if not records:
            return self
        return replace(self, unheard={**self.unheard, machine: self.unheard.get(machine, 0) + records})

    def __repr__(self) -> str:
        more = sum(self.unheard.values())
        lacks = f"; the recording lacks {more} of {', '.join(sorted(self.unheard))}" if more else ""
        return f"{self.events:,} events as recorded, {self.records:,} records the same{lacks}"


def difference_of(lab: TraceRecord | None, recorded: TraceRecord | None, led_here: set[str]) -> str:
    """What tells the records apart; "" when nothing does."""
    if lab is None or recorded is None:
        there, where = (recorded, "recording") if lab is None else (lab, "lab")
        return f"only the {where} has {there!r}"
    for name in ("id", "kind", "role", "machine", "checkpoint_id", "at_ms"):
        if getattr(lab, name) != getattr(recorded, name):
            return f"the lab's record {lab!r} is {recorded!r} in the recording"
    own = HOSTS_OWN.get(lab.kind, ())
    for name in {**lab.data, **recorded.data}:
        if name not in own and lab.data.get(name) != recorded.data.get(name):
            where, mine, theirs = _innermost(name, lab.data.get(name), recorded.data.get(name))
            return f"{lab.id} {lab.kind}: {where} is {_shown(mine)} in the lab, {_shown(theirs)} in the recording"
    if lab.cause != recorded.cause and recorded.cause not in led_here:
        return f"{lab.id} {lab.kind}: {lab.cause!r} led to it in the lab, {recorded.cause!r} in the recording"
    return ""


def _innermost(where: str, mine: Any, theirs: Any) -> tuple[str, Any, Any]:
    """The first place within two values that differ at which they do."""
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


def _event_of(record_id: str) -> str:
    """The id of the event to which a record belongs, itself or as a command."""
    machine, _, number = record_id.rpartition("#")
    return f"{machine}#{number.partition('.')[0]}"


def _parts(event_id: str) -> tuple[str, int]:
    machine, _, number = event_id.rpartition("#")
    return machine, int(number)
