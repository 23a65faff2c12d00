"""The trace: everything that happened, as small records, in order.

A host gives each event that a machine handled, and the commands that came of it, to a `Trace`. Pictures, tables,
tests and answers to "why?" read the trace and nothing else, so a run on a cluster can be replayed in a notebook step
by step.

A record's `id` is `<machine>#<n>` (for a task `<task>@<attempt>#<n>`) for the n-th event of a machine and
`<machine>#<n>.<k>` for the k-th command of that event; its `cause` is the id of what led to it. Words about single
buffers are kept only when the trace is `detailed`: in a lesson, not at a cluster's speed. Ids are the same whether or
not a word is kept; where a command is not, `led_by` finds its event.

With its `schedule` (`kit.protocol.schedule`) a trace is a recording: `save_play` writes it, and a lab does it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from os import PathLike
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa

from kit.protocol import events
from kit.protocol.json_lines import read_lines, write_lines
from kit.protocol.schedule import Handled, Schedule, kept_by_name
from kit.protocol.shape import EpochShape
from kit.protocol.vocabulary import COMMANDS
from kit.protocol.words import Machine, Word

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


class Trace(Sequence[TraceRecord]):
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
        self._records: list[TraceRecord] = list(records)
        self._by_id: dict[str, TraceRecord] = {}
        """The first records by id; the rest is filed when somebody asks."""

    def record(self, machine: Machine, event: Word, commands: Sequence[Word]) -> list[TraceRecord]:
        """Add what `machine` just handled and gave; returns the records added."""
        added = records_of(machine, event, commands, detailed=self.detailed)
        self.extend(added)
        return added

    def extend(self, records: Iterable[TraceRecord]) -> None:
        """Add records made elsewhere, for instance in a worker."""
        self._records.extend(records)

    def since(self, start: int, end: int | None = None) -> tuple[TraceRecord, ...]:
        """The records from the one at `start` on, up to that at `end`."""
        return tuple(self._records[start:end])

    def __deepcopy__(self, memo: dict[int, Any]) -> Trace:
        """A trace that goes on by itself: the records never change, so both have the same."""
        return self._with(self._records)

    def _with(self, records: Iterable[TraceRecord]) -> Trace:
        """Other records of the same run."""
        return Trace(records, detailed=self.detailed, stages=self.stages, schedule=self.schedule)

    def find(self, record_id: str) -> TraceRecord | None:
        """The record with this id."""
        for record in self._records[len(self._by_id) :]:
            self._by_id[record.id] = record
        return self._by_id.get(record_id)

    def save(self, path: str | PathLike[str]) -> PathLike[str]:
        """Write the records and the shapes of the epochs to a file of JSON lines, whose directory is made."""
        head: dict[str, Any] = {"detailed": self.detailed, "stages": [stage.to_dict() for stage in self.stages]}
        if self.schedule is not None:
            head["schedule"] = self.schedule.to_dict()
        return write_lines(path, (head, *(record.to_dict() for record in self._records)))

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
            told = [_handled(record) for record in self._records if record.role == "event"]
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
        return len(self._records)

    def __iter__(self) -> Iterator[TraceRecord]:
        return iter(self._records)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._with(self._records[index])
        return self._records[index]

    def __repr__(self) -> str:
        machines = len({record.machine for record in self._records})
        return f"Trace({len(self)} records, {machines} machines)"

    def story(self, *, checkpoint: int | None = None, machine: str | None = None, kind: str | None = None) -> Trace:
        """The records about one checkpoint, one machine, one kind, or several of these together."""
        return self._with(
            record
            for record in self._records
            if (checkpoint is None or record.checkpoint_id == checkpoint)
            and (machine is None or record.machine == machine)
            and (kind is None or record.kind == kind)
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

    def to_pandas(self) -> pd.DataFrame:
        """One row per record: at_ms, machine, role, kind, checkpoint_id (Int64), data (dict), id, cause."""
        frame = pd.DataFrame(
            [record.to_dict() for record in self._records],
            columns=["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"],
        )
        frame["checkpoint_id"] = frame["checkpoint_id"].astype("Int64")
        return frame

    def _repr_html_(self) -> str:
        """A table of the first and the last records, at the same cost for a long trace as for a short one."""
        count, ends = len(self), ROWS_SHOWN // 2
        shown = self._records if count <= ROWS_SHOWN else [*self._records[:ends], *self._records[-ends:]]
        frame = Trace(shown).to_pandas()[["at_ms", "machine", "role", "kind", "checkpoint_id", "data", "id", "cause"]]
        frame.index = [*range(count)] if count <= ROWS_SHOWN else [*range(ends), *range(count - ends, count)]
        frame["checkpoint_id"] = frame["checkpoint_id"].astype(object).where(frame["checkpoint_id"].notna(), "")
        frame["data"] = [_in_short(data) for data in frame["data"]]
        left_out = "" if count <= ROWS_SHOWN else f", {count - 2 * ends:,} of them left out"
        return f"<div>{count:,} records{left_out}: <code>.to_pandas()</code> has all{frame.to_html()}</div>"


def _handled(record: TraceRecord) -> Handled:
    """The event of an event's record as a schedule has it."""
    facts = {name: record.data[name] for name in kept_by_name(record.kind)}
    return Handled(record.id, record.at_ms, record.kind, record.cause, facts)


def led_by(cause: str, find: Callable[[str], Found | None]) -> Found | None:
    """What `find` has for the id `cause`; when that is of a command which the trace does not keep, for its event."""
    return find(cause) or find(cause.rpartition(".")[0])


def records_of(machine: Machine, event: Word, commands: Sequence[Word], *, detailed: bool) -> list[TraceRecord]:
    """The records of one handled event and its commands, without the bulk of single buffers unless `detailed`."""
    event_id = machine.event_id
    records: list[TraceRecord] = []
    if keeps(event, detailed):
        records.append(_record(event_id, machine.cause, machine, "event", event))
        led_here = event_id
    else:
        led_here = machine.cause
    for number, command in enumerate(commands, 1):
        if keeps(command, detailed):
            command_id = f"{event_id}.{number}"
            records.append(_record(command_id, led_here, machine, "command", command))
    return records


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


def _record(record_id: str, cause: str, machine: Machine, role: str, word: Word) -> TraceRecord:
    data = {name: loggable(getattr(word, name)) for name in _field_names(type(word))}
    checkpoint_id = getattr(word, "checkpoint_id", None)
    if checkpoint_id is None:
        checkpoint_id = getattr(getattr(word, "element", None), "checkpoint_id", None)
    kind = type(word).__name__
    if kind == "Note":
        kind, data = data["kind"], data["data"]
    return TraceRecord(record_id, cause, machine.at, machine.name, role, kind, checkpoint_id, data)


def _field_names(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _FIELD_NAMES:
        _FIELD_NAMES[kind] = tuple(field.name for field in fields(kind))
    return _FIELD_NAMES[kind]


_FIELD_NAMES: dict[type[Any], tuple[str, ...]] = {}
_BULK = frozenset(word.__name__ for word in (*COMMANDS, *vars(events).values()) if getattr(word, "bulk", False))
_PLAIN = frozenset({bool, int, float, str, type(None)})


def _in_short(data: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name}={value!r}" for name, value in data.items() if value not in ("", None))
    return told if len(told) <= LONGEST_DATA else f"{told[:LONGEST_DATA]}…"


def loggable(value: Any) -> Any:
    """A small JSON-like description of a value: columns and bytes are counted, not kept."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray | memoryview | pa.Buffer):
        return {"bytes": len(value)}
    if isinstance(value, pa.RecordBatch | pa.Table):
        return {"rows": value.num_rows, "bytes": value.nbytes}
    if hasattr(value, "to_loggable"):
        return value.to_loggable()
    if is_dataclass(value) and not isinstance(value, type):
        described = ((name, getattr(value, name)) for name in _field_names(type(value)))
        return {"type": type(value).__name__} | {name: loggable(each) for name, each in described if not callable(each)}
    if isinstance(value, Mapping):
        return {str(key): loggable(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [loggable(item) for item in value]
    return repr(value)
