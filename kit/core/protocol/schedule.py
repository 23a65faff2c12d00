"""The schedule of a run: which events each of its machines handled, in which order, and when.

A machine is pure: what it handled, and when, decides everything that it said. What another machine said, or what came
of a command, is known by the id of that command; so an event is a few words long, and only what comes from outside (a
user's request, a lost worker, a failure of the disk, what the host measured) is kept with it. Whoever has the job and
its input does the run again from this, word for word.

Events come in *processes*: what one process of the host handled, in its order. In the lab that is all of them; on
Spark the driver has one, and each slot of each epoch. Between processes there is no order but that of causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, get_type_hints

from kit.core.protocol import events, messages
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Word

FROM_OUTSIDE: Final = (
    events.StartJob,
    events.RequestCheckpoint,
    events.RequestSavepoint,
    events.RequestStop,
    events.RequestRescale,
    events.RequestCancel,
    events.SlotLost,
    events.SlotsChanged,
    events.OperatorEventLost,
)
"""Events to which no command led, or not alone: kept with all they say."""
FAILURES: Final = tuple(
    {command.fails_with for command in COMMANDS if command.fails_with is not None}
    | {events.SplitReadFailed, events.StateDiscarded}
)
"""What may say that a command could not be carried out: kept with all that can be written down."""
_KEPT: Final[dict[type[Word], tuple[str, ...]]] = {
    events.ElementReceived: ("channel",),
    events.CreditReceived: ("channel",),
    events.TimerFired: ("timer",),
    events.SnapshotWritten: ("sync_ms",),
    events.StateRead: ("from_local",),
}
_FIELDS: Final[dict[type[Word], tuple[str, ...]]] = {}
"""What `kept_of` has found."""
_WORDS: Final[dict[str, type[Word]]] = {word.__name__: word for word in (*FROM_OUTSIDE, *FAILURES)}
_EVENTS: Final[dict[str, type[Word]]] = _WORDS | {word.__name__: word for word in (*_KEPT, *COMMANDS)}


@dataclass(frozen=True, slots=True)
class Handled:
    """One event: machine `id` (up to the `#`) handled it at `at_ms`, and `cause` led to it. `facts` is what the cause
    does not tell: a channel, a timer, or all that came from outside.
    """

    id: str
    at_ms: int
    kind: str
    cause: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The machine, with the attempt if it is a task's or a slot's."""
        return self.id.rpartition("#")[0]

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.identity.rpartition("@")[0] or self.identity

    def to_list(self) -> list[Any]:
        """The event as JSON-like data."""
        return [self.id, self.at_ms, self.kind, self.cause, dict(self.facts)]

    def word(self) -> Word:
        """The event itself, where that came from outside or says that something failed. Raises KeyError for others."""
        kind = _WORDS[self.kind]
        types = get_type_hints(kind)
        return kind(**{name: _restored(types[name], value) for name, value in self.facts.items()})

    def __repr__(self) -> str:
        facts = "".join(f" {name}={value!r}" for name, value in self.facts.items())
        return f"{self.at_ms} ms {self.id} {self.kind}{facts}"


def facts_of(event: Word) -> dict[str, Any]:
    """What the schedule keeps of an event beside its cause, as JSON-like data."""
    return {name: _plain(getattr(event, name)) for name in kept_of(type(event))}


def kept_of(kind: type[Word]) -> tuple[str, ...]:
    """The names of the fields that the schedule keeps of this kind of event."""
    if kind not in _FIELDS:
        _FIELDS[kind] = _kept(kind)
    return _FIELDS[kind]


def _kept(kind: type[Word]) -> tuple[str, ...]:
    if kind in FROM_OUTSIDE or kind in FAILURES:
        return tuple(each.name for each in fields(kind) if each.name != "raised")
    return ("task",) if issubclass(kind, messages.JobMessage) else _KEPT.get(kind, ())


def kept_by_name(kind: str) -> tuple[str, ...]:
    """The same, of the kind of event with this name."""
    return kept_of(_EVENTS[kind]) if kind in _EVENTS else ()


class Schedule:
    """The events that the machines of one run handled, by process. `job_id` is the job's in that run, `checkpoints`
    the directory of its checkpoints; `host` says whether the lab's or Spark's settings held where the job had none.
    `done` are the ids of commands that were carried out although no machine has heard of it.
    """

    def __init__(
        self,
        processes: Mapping[str, Sequence[Handled]],
        *,
        host: str,
        job_id: str = "",
        checkpoints: str = "",
        done: Iterable[str] = (),
    ) -> None:
        self.processes = {name: tuple(handled) for name, handled in processes.items()}
        self.host = host
        self.job_id = job_id
        self.checkpoints = checkpoints
        self.done = frozenset(done).difference(event.cause for event in self)

    def to_dict(self) -> dict[str, Any]:
        """The schedule as JSON-like data."""
        processes = {name: [each.to_list() for each in handled] for name, handled in self.processes.items()}
        run = {"host": self.host, "job_id": self.job_id, "checkpoints": self.checkpoints, "done": sorted(self.done)}
        return run | {"processes": processes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """The schedule that `to_dict` described."""
        processes = {name: [Handled(*each) for each in handled] for name, handled in data["processes"].items()}
        run = {name: data[name] for name in ("host", "job_id", "checkpoints", "done")}
        return cls(processes, **run)

    def __len__(self) -> int:
        return sum(map(len, self.processes.values()))

    def __iter__(self) -> Iterator[Handled]:
        """All events, process by process."""
        return (each for handled in self.processes.values() for each in handled)

    def __repr__(self) -> str:
        return f"Schedule({len(self)} events in {len(self.processes)} processes, {self.host})"


def _plain(value: Any) -> Any:
    return value.name if isinstance(value, Enum) else value


def _restored(kind: Any, value: Any) -> Any:
    return kind[value] if isinstance(kind, type) and issubclass(kind, Enum) else value
