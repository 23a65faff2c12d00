"""The trace: everything that happened, as small records, in order.

A host gives each event that a machine handled, and the commands that came of it, to a `Trace`. Pictures, tables,
tests and answers to "why?" read the trace and nothing else, so a run on a cluster can be replayed in a notebook step
by step.

A record's `id` is `<machine>#<n>` (for a task `<task>@<attempt>#<n>`) for the n-th event of a machine and
`<machine>#<n>.<k>` for the k-th command of that event; its `cause` is the id of what led to it. Words about single
buffers are kept only when the trace is `detailed`: in a lesson, not at a cluster's speed. Ids are the same whether or
not a word is kept; where a command is not, `led_by` finds its event.

With its `schedule` (`kit.core.protocol.schedule`) a trace is a recording: `save_play` writes it, and a lab does it
again.
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
from kit.core.protocol import events
from kit.core.protocol.elements import event_time_text
from kit.core.protocol.json_lines import read_lines, write_lines
from kit.core.protocol.loggable import PLAIN, field_names, loggable, values_getter
from kit.core.protocol.schedule import Handled, Schedule, kept_by_name
from kit.core.protocol.shape import EpochShape
from kit.core.protocol.showing import Showing
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Machine, Word

if TYPE_CHECKING:
    import pandas as pd

Entry = tuple[str, int, str, int, str, int, int | None, tuple[Any, ...]]
"""A record as it is kept until somebody looks at it: the id of the event, the number of the command (0: the event
itself), cause, time, machine, number of the word's type, checkpoint, and what is said of the word's fields. Most are
never looked at, and a lab keeps hundreds of thousands: as long as there are but numbers and texts in them, Python does
not look at them either when it looks for garbage.
"""

MOST_RECENT = 1_000
"""Among so many of the last records one is looked for before they are filed: mostly it is a cause of the very last."""
ROWS_SHOWN = 20
"""Records that a notebook shows of a trace."""
LONGEST_DATA = 100

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One thing that happened: machine `machine` at `at_ms` took the event, or gave the command, `kind`."""

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

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-like data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TraceRecord:
        """The record that `to_dict` described."""
        return cls(**data)


class Trace(Showing, Sequence[TraceRecord]):
    """The records of one run, oldest first.

    `stages` are the shapes of the run's epochs, which the host adds: with them a trace stands alone, and whatever is
    cut from it as well. `save` writes both to a file, `Trace.load` reads them back in any process.
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
        """Of the whole run, where its host recorded that; None where it did not. A detailed trace tells it anyhow."""
        self.stages: list[EpochShape] = list(stages)
        self._kept: list[TraceRecord | Entry] = list(records)
        """Entries become records when somebody looks at them, and stay that."""
        self._positions: dict[str, int] = {}
        """Of the first `_filed` records, by id; the rest is filed when somebody asks."""
        self._filed = 0

    def record(self, machine: Machine, event: Word, commands: Sequence[Word]) -> None:
        """Add what `machine` just handled and gave."""
        self._kept += _entries(machine, event, commands, self.detailed)

    def extend(self, records: Iterable[TraceRecord]) -> None:
        """Add records made elsewhere, for instance in a worker."""
        self._kept.extend(records)

    def since(self, start: int, end: int | None = None) -> tuple[TraceRecord, ...]:
        """The records from the one at `start` on, up to that at `end`."""
        return tuple([self._at(position) for position in range(*slice(start, end).indices(len(self._kept)))])

    def first(self, count: int, stages: Iterable[EpochShape]) -> Trace:
        """The beginning of this trace, when these were the epochs; it goes on by itself, and both have its records."""
        other = Trace(detailed=self.detailed, stages=stages)
        other._kept = self._kept[:count]
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        """A trace that goes on by itself: the records never change, so both have the same."""
        return self._with(self._kept)

    def _with(self, kept: Iterable[TraceRecord | Entry]) -> Trace:
        """Other records of the same run."""
        other = Trace(detailed=self.detailed, stages=self.stages, schedule=self.schedule)
        other._kept = list(kept)
        return other

    def _at(self, position: int) -> TraceRecord:
        kept = self._kept[position]
        if isinstance(kept, tuple):
            kept = self._kept[position] = _record(kept)
        return kept

    def find(self, record_id: str) -> TraceRecord | None:
        """The record with this id."""
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
        """The trace that `save` wrote. Raises ValueError for a file that is none."""
        lines = read_lines(path)
        try:
            head: dict[str, Any] = next(lines, {})
            stages = map(EpochShape.from_dict, head["stages"])
            schedule = Schedule.from_dict(head["schedule"]) if "schedule" in head else None
            records = map(TraceRecord.from_dict, lines)
            return cls(records, detailed=head["detailed"], stages=stages, schedule=schedule)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is no trace: expected a file that Trace.save wrote") from error

    def save_play(self, path: str | PathLike[str]) -> PathLike[str]:
        """Write the trace as `save` does, if it is that of a whole run that a lab can do again:
        `Lab.follow(env, path)`. Raises ValueError where it is not.
        """
        self.told_schedule()
        return self.save(path)

    def told_schedule(self) -> Schedule:
        """The schedule that the run's host recorded, or, when the trace is detailed, that its records tell.

        Raises ValueError when there is neither, or only of a part of the run.
        """
        schedule = self.schedule
        if schedule is None and self.detailed:
            told = [_handled(record) for record in self if record.role in ("event", "fault")]
            schedule = Schedule({"lab": told}, host="lab")
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
        machines = len({_machine(kept) for kept in self._kept})
        return f"Trace({len(self)} records, {machines} machines)"

    def story(
        self, *, checkpoint: int | None = None, machine: str | None = None, kind: str | Collection[str] | None = None
    ) -> Trace:
        """The records about one checkpoint, one machine, one kind or any of several, or all of these together."""
        kinds = {kind} if isinstance(kind, str) else kind
        return self._with(
            record
            for record in self
            if (checkpoint is None or record.checkpoint_id == checkpoint)
            and (machine is None or record.machine == machine)
            and (kinds is None or record.kind in kinds)
        )

    def causes(self, record: TraceRecord | str) -> list[TraceRecord]:
        """The chain that led to a record, from the record itself back to what nothing in the trace caused.

        Raises KeyError for an id that the trace does not have.
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
        """Why something was as it was at the end of this trace: a `kit.why.Why`, asked for as `kit.why.why` says."""
        return display("explanation", self, about, **named)

    def to_pandas(self) -> pd.DataFrame:
        """One row per record: at_ms, machine, role, kind, checkpoint_id (Int64), data (dict), id, cause."""
        import pandas as pd

        frame = pd.DataFrame(
            [record.to_dict() for record in self],
            columns=["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"],
        )
        frame["checkpoint_id"] = frame["checkpoint_id"].astype("Int64")
        return frame

    def _repr_html_(self) -> str:
        """A table of the first and the last records, at the same cost for a long trace as for a short one."""
        count, ends = len(self), ROWS_SHOWN // 2
        shown = self if count <= ROWS_SHOWN else [*self.since(0, ends), *self.since(-ends)]
        frame = Trace(shown).to_pandas()[["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"]]
        frame.index = [*range(count)] if count <= ROWS_SHOWN else [*range(ends), *range(count - ends, count)]
        frame["checkpoint_id"] = frame["checkpoint_id"].astype(object).where(frame["checkpoint_id"].notna(), "")
        frame["data"] = [_in_short(data) for data in frame["data"]]
        left_out = "" if count <= ROWS_SHOWN else f", {count - 2 * ends:,} of them left out"
        return f"<div>{count:,} records{left_out}: <code>.to_pandas()</code> has all{frame.to_html()}</div>"


def _handled(record: TraceRecord) -> Handled:
    """The event of an event's record as a schedule has it; of a fault, which befell what it names, all."""
    kept = record.data if record.role == "fault" else kept_by_name(record.kind)
    facts = {name: record.data[name] for name in kept}
    return Handled(record.id, record.at_ms, record.kind, record.cause, facts)


def led_by(cause: str, find: Callable[[str], Found | None]) -> Found | None:
    """What `find` has for the id `cause`; when that is of a command which the trace does not keep, for its event."""
    return find(cause) or find(cause.rpartition(".")[0])


def records_of(machine: Machine, event: Word, commands: Sequence[Word], *, detailed: bool) -> list[TraceRecord]:
    """The records of one handled event and its commands, without the bulk of single buffers unless `detailed`."""
    return [_record(entry) for entry in _entries(machine, event, commands, detailed)]


def keeps(word: Word, detailed: bool) -> bool:
    """Whether the trace keeps this word: always when detailed, else all but buffers and turns. Barriers are always
    kept.
    """
    if detailed or not word.bulk:
        return True
    element = getattr(word, "element", None)
    return element is not None and hasattr(element, "checkpoint_id")


def keeps_record(record: TraceRecord) -> bool:
    """The same of a record: whether a trace that is not detailed would have it."""
    element = record.data.get("element")
    return record.kind not in _BULK or (isinstance(element, Mapping) and "checkpoint_id" in element)


def _entries(machine: Machine, event: Word, commands: Sequence[Word], detailed: bool) -> list[Entry]:
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
    """How to tell of a word of one type: the type's number, the values of its fields, and its checkpoint if it may have
    one.
    """

    number: int
    values_of: Callable[[Any], tuple[Any, ...]]
    checkpoint_of: Callable[[Any], int | None] | None


def _telling(kind: type[Word]) -> _Telling:
    """How to tell of words of this type, looked up once."""
    number = next(_numbers)
    _TYPES[number] = kind  # before the number is known: another thread may be looking
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
    """What is said of a value; of one that never changes once, however many words it goes through."""
    if type(value) is tuple:
        return [each if type(each) in PLAIN else _said_once(each) for each in value]
    known = _SAID.get(id(value))
    if known is not None and known[0]() is value:
        return known[1]
    said = loggable(value)
    if _is_remembered(type(value)):
        if len(_SAID) >= MOST_SAID:
            _SAID.clear()  # at once: another thread may be looking
        _SAID[id(value)] = weakref.ref(value), said
    return said


def _is_remembered(kind: type[Any]) -> bool:
    """Whether it never changes, and can be remembered without being kept: a part of a snapshot holds all its state."""
    known = _REMEMBERED.get(kind)
    if known is None:
        parameters = getattr(kind, "__dataclass_params__", None)
        known = _REMEMBERED[kind] = parameters is not None and parameters.frozen and kind.__weakrefoffset__ != 0
    return known


def _record(entry: Entry) -> TraceRecord:
    _, number, cause, at_ms, machine, number_of_type, checkpoint_id, said = entry
    word = _TYPES[number_of_type]
    kind, data = word.__name__, dict(zip(field_names(word), said, strict=True))
    if kind == "Note":
        kind, data = data["kind"], data["data"]
    return TraceRecord(_id(entry), cause, at_ms, machine, "command" if number else "event", kind, checkpoint_id, data)


def _id(entry: Entry) -> str:
    return f"{entry[0]}.{entry[1]}" if entry[1] else entry[0]


_BULK = frozenset(word.__name__ for word in (*COMMANDS, *vars(events).values()) if getattr(word, "bulk", False))


def _machine(kept: TraceRecord | Entry) -> str:
    return kept[4] if isinstance(kept, tuple) else kept.machine


_numbers = count()
_TELLING: dict[type[Word], _Telling] = {}
_TYPES: dict[int, type[Word]] = {}
_REMEMBERED: dict[type[Any], bool] = {}
_SAID: dict[int, tuple[weakref.ref[Any], Any]] = {}
"""Values by their address, which is another's when they are gone, and what is said of them."""
MOST_SAID = 512


def _readable(value: Any) -> Any:
    """A value of a record, the ends of event time in words."""
    if not isinstance(value, Mapping) or value.get("type") != "Watermark":
        return value
    return {**value, "timestamp_ms": event_time_text(value["timestamp_ms"])}


def _in_short(data: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name}={_readable(value)!r}" for name, value in data.items() if value not in ("", None))
    return told if len(told) <= LONGEST_DATA else f"{told[:LONGEST_DATA]}…"
