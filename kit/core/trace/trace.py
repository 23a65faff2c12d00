"""The trace: everything that happened, as small records, in order.

A host adds each event that a machine handled, with the commands that it led to, to a `Trace`. Pictures, tables, tests
and answers to "why?" read the trace and nothing else, so a run on a cluster can be replayed in a notebook step by step.

The n-th event of a machine has the id `<machine>#<n>` (for a task `<task>@<attempt>#<n>`), and the k-th command of that
event has the id `<machine>#<n>.<k>`. A record's `cause` is the id of what led to it. Records about single buffers are
kept only if the trace is `detailed`, as in a lesson; at a cluster's speed they would be too many. Ids are the same in
both cases; where a command is not kept, `led_by` finds its event.

With its `schedule` (`kit.core.trace.schedule`) a trace is a recording: `save_recording` writes it, and a lab replays
it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import count
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kit.core.display import display
from kit.core.event_time import event_time_text
from kit.core.html_tables import frame_html, notebook_html
from kit.core.markup import element
from kit.core.protocol import events
from kit.core.protocol.loggable import PLAIN, field_names, loggable, values_getter
from kit.core.protocol.notes import Note
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Machine, ProtocolMessage
from kit.core.trace.json_lines import read_lines, write_lines
from kit.core.trace.schedule import Handled, Schedule, kept_by_name
from kit.core.trace.shape import EpochShape
from kit.core.trace.showing import Showing

if TYPE_CHECKING:
    import pandas as pd

Entry = tuple[str, int, str, int, str, int, int | None, tuple[Any, ...]]
"""A record as it is kept until it is read.

Its fields are: the id of the event, the number of the command (0: the event itself), cause, time, machine, the number
of its type, checkpoint, and the descriptions of its fields. Most records are never read, and a lab keeps hundreds of
thousands. A tuple of only numbers and texts is also skipped by Python's garbage collector.
"""

MOST_RECENT = 1_000
"""The number of last records that are searched before the rest is indexed: most look-ups want the cause of a recent
one."""
ROWS_SHOWN = 20
"""The number of records of a trace that a notebook shows."""
LONGEST_DATA = 100

Kind = type[ProtocolMessage] | str
"""A kind of records: the class of a message, event, command or note, or its name. A fault has only a name here."""
Found = TypeVar("Found")
OfNote = TypeVar("OfNote", bound=Note)


def kind_name(kind: Kind) -> str:
    """Return the `kind` of these records."""
    return kind if isinstance(kind, str) else kind.__name__


def kind_names(*kinds: Kind) -> frozenset[str]:
    """Return the `kind` of each of these records."""
    return frozenset(map(kind_name, kinds))


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One thing that happened: `machine` handled the event, or gave the command, `kind` at `at_ms`."""

    id: str
    cause: str
    at_ms: int
    machine: str
    role: str
    kind: str
    checkpoint_id: int | None
    data: Mapping[str, Any]

    def __repr__(self) -> str:
        checkpoint = "" if self.checkpoint_id is None else f" chk-{self.checkpoint_id}"
        return f"{self.at_ms} ms {self.machine} {self.kind}{checkpoint}"

    def is_a(self, *kinds: Kind) -> bool:
        """Return True if this is a record of one of these kinds."""
        return any(self.kind == kind_name(kind) for kind in kinds)

    def note(self, kind: type[OfNote]) -> OfNote:
        """Return the note that this is the record of. Raises ValueError if the record lacks a field of `kind`."""
        return kind.from_record(self.checkpoint_id, self.data)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON-like data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TraceRecord:
        """Return the record that `to_dict` described."""
        return cls(**data)


class Trace(Showing, Sequence[TraceRecord]):
    """The records of one run, oldest first.

    `stages` are the shapes of the run's epochs, which the host adds. They make a trace, and any part cut from it,
    self-contained. `save` writes both to a file, and `Trace.load` reads them back in any process.
    """

    def __init__(
        self,
        records: Iterable[TraceRecord] = (),
        *,
        detailed: bool = False,
        stages: Iterable[EpochShape] = (),
        schedule: Schedule | None = None,
    ) -> None:
        self.detailed = detailed
        self.schedule = schedule
        """The schedule of the whole run, or None if its host did not record it; it follows from a detailed trace in any
        case."""
        self.stages: list[EpochShape] = list(stages)
        self._kept: list[TraceRecord | Entry] = list(records)
        """Entries become records when they are first read."""
        self._positions: dict[str, int] = {}
        """The positions of the first `_filed` records, by id; the rest is indexed on demand."""
        self._filed = 0

    def record(self, machine: Machine, event: ProtocolMessage, commands: Sequence[ProtocolMessage]) -> None:
        """Add the event that `machine` just handled and the commands that it gave."""
        self._kept += _entries(machine, event, commands, self.detailed)

    def extend(self, records: Iterable[TraceRecord]) -> None:
        """Add records made elsewhere, for instance in a worker."""
        self._kept.extend(records)

    def since(self, start: int, end: int | None = None) -> tuple[TraceRecord, ...]:
        """Return the records from position `start` up to, but without, position `end`."""
        return tuple([self._at(position) for position in range(*slice(start, end).indices(len(self._kept)))])

    def first(self, count: int, stages: Iterable[EpochShape]) -> Trace:
        """Return the first `count` records as a trace with the epochs `stages`; the two traces grow independently."""
        other = Trace(detailed=self.detailed, stages=stages)
        other._kept = self._kept[:count]
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        """Return a trace that grows independently; the two share the records, which never change, and their reading."""
        other = self._with(self._kept)
        other._reading = self._reading
        return other

    def _with(self, kept: Iterable[TraceRecord | Entry]) -> Trace:
        """Return a trace of other records of the same run."""
        other = Trace(detailed=self.detailed, stages=self.stages, schedule=self.schedule)
        other._kept = list(kept)
        return other

    def _at(self, position: int) -> TraceRecord:
        kept = self._kept[position]
        if isinstance(kept, tuple):
            kept = self._kept[position] = _record(kept)
        return kept

    def find(self, record_id: str) -> TraceRecord | None:
        """Return the record with this id."""
        for position in range(len(self._kept) - 1, max(self._filed, len(self._kept) - MOST_RECENT) - 1, -1):
            kept = self._kept[position]
            if record_id == (_id(kept) if isinstance(kept, tuple) else kept.id):
                return self._at(position)
        for position in range(self._filed, len(self._kept)):
            kept = self._kept[position]
            self._positions[_id(kept) if isinstance(kept, tuple) else kept.id] = position
        self._filed = len(self._kept)
        found = self._positions.get(record_id)
        return None if found is None else self._at(found)

    def save(self, path: str | PathLike[str]) -> PathLike[str]:
        """Write the records and the shapes of the epochs to a file of JSON lines.

        Raises FileNotFoundError when its directory does not exist.
        """
        head: dict[str, Any] = {"detailed": self.detailed, "stages": [stage.to_dict() for stage in self.stages]}
        if self.schedule is not None:
            head["schedule"] = self.schedule.to_dict()
        return write_lines(path, (head, *(record.to_dict() for record in self)))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Trace:
        """Return the trace that `save` wrote. Raises ValueError for any other file."""
        lines = read_lines(path)
        try:
            head: dict[str, Any] = next(lines, {})
            stages = map(EpochShape.from_dict, head["stages"])
            schedule = Schedule.from_dict(head["schedule"]) if "schedule" in head else None
            records = map(TraceRecord.from_dict, lines)
            return cls(records, detailed=head["detailed"], stages=stages, schedule=schedule)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a trace: expected a file that Trace.save wrote") from error

    def save_recording(self, path: str | PathLike[str]) -> PathLike[str]:
        """Write the trace as `save` does, if a lab can replay it with `Lab.follow(env, path)`.

        Raises ValueError if it is not the trace of a whole run.
        """
        self.told_schedule()
        return self.save(path)

    def told_schedule(self) -> Schedule:
        """Return the schedule that the run's host recorded, or that the records of a detailed trace imply.

        Raises ValueError if there is neither, or if the trace is only a part of the run.
        """
        schedule = self.schedule
        if schedule is None and self.detailed:
            handled = [_handled(record) for record in self if record.role in ("event", "fault")]
            schedule = Schedule({"lab": handled}, host="lab")
        if schedule is None:
            raise ValueError(
                f"{self!r} does not say what its machines did with single buffers, so it cannot be done again: run the "
                "job with SparkJob(env, record=True), and take its trace when it has ended"
            )
        if not any(each.kind == "StartJob" for each in schedule):
            raise ValueError(f"{self!r} is part of a run: only a whole one can be done again, from StartJob on")
        return schedule

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[TraceRecord]:
        position = 0
        while position < len(self._kept):
            yield self._at(position)
            position += 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._with(self._kept[index])
        return self._at(index)

    def __repr__(self) -> str:
        machines = len({kept[4] if isinstance(kept, tuple) else kept.machine for kept in self._kept})
        return f"Trace({len(self)} records, {machines} machines)"

    def story(
        self, *, checkpoint: int | None = None, machine: str | None = None, kind: str | Collection[str] | None = None
    ) -> Trace:
        """Return the records about one checkpoint, one machine, and one kind or any of several; conditions combine."""
        kinds = {kind} if isinstance(kind, str) else kind
        return self._with(
            record
            for record in self
            if (checkpoint is None or record.checkpoint_id == checkpoint)
            and (machine is None or record.machine == machine)
            and (kinds is None or record.kind in kinds)
        )

    def causes(self, record: TraceRecord | str) -> list[TraceRecord]:
        """Return the chain that led to a record, from the record itself back to one that nothing in the trace caused.

        Raises KeyError for an id that is not in the trace.
        """
        at = self.find(record) if isinstance(record, str) else record
        if at is None:
            raise KeyError(f"no record {record!r} among the {len(self)} of this trace")
        chain: dict[str, TraceRecord] = {}
        while at is not None and at.id not in chain:
            chain[at.id] = at
            at = led_by(at.cause, self.find)
        return list(chain.values())

    def why(self, about: object = None, **named: Any) -> Any:
        """Explain something about the end of this trace, as `kit.why.why` does, and return a `kit.why.Why`."""
        return display("why", self, about, **named)

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per record: at_ms, machine, role, kind, checkpoint_id (Int64), data (dict), id, cause."""
        import pandas as pd

        frame = pd.DataFrame(
            [record.to_dict() for record in self],
            columns=["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"],
        )
        frame["checkpoint_id"] = frame["checkpoint_id"].astype("Int64")
        return frame

    def _repr_html_(self) -> str:
        """Return a table of the first and the last records, at the same cost for a long trace as for a short one."""
        count, ends = len(self), ROWS_SHOWN // 2
        shown = self if count <= ROWS_SHOWN else [*self.since(0, ends), *self.since(-ends)]
        frame = Trace(shown).to_pandas()[["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"]]
        frame.index = [*range(count)] if count <= ROWS_SHOWN else [*range(ends), *range(count - ends, count)]
        frame["data"] = [_in_short(data) for data in frame["data"]]
        left_out = "" if count <= ROWS_SHOWN else f", {count - 2 * ends:,} of them left out"
        said = element("p", f"{count:,} records{left_out}: ", element("code", ".to_pandas()"), " has all")
        return notebook_html("", said, frame_html(frame, ROWS_SHOWN, are_labelled=True))


def _handled(record: TraceRecord) -> Handled:
    """Return a record's event in the form of a schedule; a fault keeps all its data, which names its target."""
    kept = record.data if record.role == "fault" else kept_by_name(record.kind)
    facts = {name: record.data[name] for name in kept}
    return Handled(record.id, record.at_ms, record.kind, record.cause, facts)


def led_by(cause: str, find: Callable[[str], Found | None]) -> Found | None:
    """Return what `find` has for the id `cause`, or for its event if it is a command that the trace does not keep."""
    return find(cause) or find(cause.rpartition(".")[0])


def records_of(
    machine: Machine, event: ProtocolMessage, commands: Sequence[ProtocolMessage], *, detailed: bool
) -> list[TraceRecord]:
    """Return the records of a handled event and its commands, without single buffers unless `detailed`."""
    return [_record(entry) for entry in _entries(machine, event, commands, detailed)]


def keeps(word: ProtocolMessage, detailed: bool) -> bool:
    """Return True if the trace keeps this message, event or command.

    A detailed trace keeps all, others omit buffers and turns. Barriers are always kept.
    """
    if detailed or not word.bulk:
        return True
    element = getattr(word, "element", None)
    return element is not None and hasattr(element, "checkpoint_id")


def keeps_record(record: TraceRecord) -> bool:
    """Return True if a trace that is not detailed would have this record."""
    element = record.data.get("element")
    return record.kind not in _BULK or (isinstance(element, Mapping) and "checkpoint_id" in element)


def _entries(
    machine: Machine, event: ProtocolMessage, commands: Sequence[ProtocolMessage], detailed: bool
) -> list[Entry]:
    event_id, led_here, at, name = machine.event_id, machine.cause, machine.at, machine.name
    entries: list[Entry] = []
    for number, word in enumerate((event, *commands)):
        if not detailed and not keeps(word, detailed):
            continue
        kind = type(word)
        number_of_type, values_of, checkpoint_of = _TELLING.get(kind) or _telling(kind)
        said = values_of(word)
        if not PLAIN.issuperset(map(type, said)):
            said = tuple([value if type(value) in PLAIN else _said_once(value) for value in said])
        checkpoint_id = None if checkpoint_of is None else checkpoint_of(word)
        entries.append((event_id, number, led_here, at, name, number_of_type, checkpoint_id, said))
        if number == 0:
            led_here = event_id
    return entries


class _Telling(NamedTuple):
    """A way to describe values of one type: the type's number, the fields' values, and the checkpoint, if any."""

    number: int
    values_of: Callable[[Any], tuple[Any, ...]]
    checkpoint_of: Callable[[Any], int | None] | None


def _telling(kind: type[ProtocolMessage]) -> _Telling:
    """Return how to describe values of this type; it is looked up once."""
    number = next(_numbers)
    _TYPES[number] = kind  # before the number is known: another thread may be reading
    checkpoint_of: Callable[[Any], int | None] | None = None
    if hasattr(kind, "element"):
        checkpoint_of = _checkpoint_of_element
    elif hasattr(kind, "checkpoint_id"):
        checkpoint_of = attrgetter("checkpoint_id")
    telling = _TELLING[kind] = _Telling(number, values_getter(kind), checkpoint_of)
    return telling


def _checkpoint_of_element(word: Any) -> int | None:
    own = getattr(word, "checkpoint_id", None)
    return getattr(word.element, "checkpoint_id", None) if own is None else own


def _said_once(value: Any) -> Any:
    """Return the description of a value; an immutable value is described once, however often it occurs."""
    if type(value) is tuple:
        return [each if type(each) in PLAIN else _said_once(each) for each in value]
    known = _SAID.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    said = loggable(value)
    if _is_remembered(type(value)):
        if len(_SAID) >= MOST_SAID:
            _SAID.clear()  # in one step: another thread may be reading
        _SAID[id(value)] = weakref.ref(value), said
    return said


def _is_remembered(kind: type[Any]) -> bool:
    """Return True if values of the type are immutable and weak references to them are possible.

    A strong reference would keep the state of every snapshot part alive.
    """
    known = _REMEMBERED.get(kind)
    if known is None:
        parameters = getattr(kind, "__dataclass_params__", None)
        known = _REMEMBERED[kind] = parameters is not None and parameters.frozen and kind.__weakrefoffset__ != 0
    return known


def _record(entry: Entry) -> TraceRecord:
    _, number, cause, at_ms, machine, number_of_type, checkpoint_id, said = entry
    word = _TYPES[number_of_type]
    data = dict(zip(field_names(word), said, strict=True))
    if issubclass(word, Note):
        data = word.recorded(data)
    role = "command" if number else "event"
    return TraceRecord(_id(entry), cause, at_ms, machine, role, word.__name__, checkpoint_id, data)


def _id(entry: Entry) -> str:
    return f"{entry[0]}.{entry[1]}" if entry[1] else entry[0]


_BULK = frozenset(word.__name__ for word in (*COMMANDS, *vars(events).values()) if getattr(word, "bulk", False))


_numbers = count()
_TELLING: dict[type[ProtocolMessage], _Telling] = {}
_TYPES: dict[int, type[ProtocolMessage]] = {}
_REMEMBERED: dict[type[Any], bool] = {}
_SAID: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""Weak references to values by their address, which is reused when they are gone, and their descriptions."""
MOST_SAID = 512


def _readable(value: Any) -> Any:
    """Return a value of a record, with the extremes of event time in words."""
    if not isinstance(value, Mapping) or value.get("type") != "Watermark":
        return value
    return {**value, "timestamp_ms": event_time_text(value["timestamp_ms"])}


def _in_short(data: Mapping[str, Any]) -> str:
    parts = ", ".join(f"{name}={_readable(value)!r}" for name, value in data.items() if value not in ("", None))
    return parts if len(parts) <= LONGEST_DATA else f"{parts[:LONGEST_DATA]}…"
