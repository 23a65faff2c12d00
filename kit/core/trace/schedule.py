"""The schedule of a run: which events each of its machines handled, in which order, and when.

A machine is pure: the events it handled, and when, decide all its commands. The id of a command identifies a message or
an answer, so an event needs only a few fields. Only facts from outside are kept with it (a user's request, a lost
worker, a disk failure, the host's measurements). With the job and its input, a schedule is enough to replay the run
exactly.

Events are grouped by *process*: the events that one process of the host handled, in its order. In the lab all events
are in one process; on Spark the driver is one, and so is each slot of each epoch. Between processes only causes define
an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Final, get_type_hints

from kit.core.protocol import events, messages
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import ProtocolMessage

FROM_OUTSIDE: Final = (
    events.StartJob,
    events.RequestCheckpoint,
    events.RequestSavepoint,
    events.RequestStop,
    events.RequestRescale,
    events.RequestCancel,
    events.SlotLost,
    events.SlotsChanged,
    events.ClusterStopped,
    events.OperatorEventLost,
)
"""Events that no command led to, or not alone; all their fields are kept."""
FAILURES: Final = tuple(
    {command.fails_with for command in COMMANDS if command.fails_with is not None}
    | {events.SplitReadFailed, events.StateDiscarded}
)
"""Events that may report the failure of a command; all fields that can be written down are kept."""
_KEPT: Final[dict[type[ProtocolMessage], tuple[str, ...]]] = {
    events.ElementReceived: ("channel",),
    events.CreditReceived: ("channel",),
    events.TimerFired: ("timer",),
    events.SnapshotWritten: ("sync_ms",),
    events.SnapshotResolved: ("covered_output",),
    events.StateRead: ("from_local",),
    events.RowsAvailable: ("split_ids",),
    events.SubtasksRedeployed: ("tasks",),
    events.TasksStopped: ("slots",),
    events.ProcessInput: ("max_rows",),
}
_FIELDS: Final[dict[type[ProtocolMessage], tuple[str, ...]]] = {}
"""The results of `kept_of`."""
_WORDS: Final[dict[str, type[ProtocolMessage]]] = {word.__name__: word for word in (*FROM_OUTSIDE, *FAILURES)}
_EVENTS: Final[dict[str, type[ProtocolMessage]]] = _WORDS | {word.__name__: word for word in (*_KEPT, *COMMANDS)}


@dataclass(frozen=True, slots=True)
class Handled:
    """One event, handled by machine `id` (up to the `#`) at `at_ms` because of `cause`.

    `facts` holds what the cause does not determine: a channel, a timer, or everything that came from outside.
    """

    id: str
    at_ms: int
    kind: str
    cause: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The machine, with the attempt for a task or a slot."""
        return self.id.rpartition("#")[0]

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.identity.rpartition("@")[0] or self.identity

    def to_list(self) -> list[Any]:
        """Return the event as JSON-like data."""
        return [self.id, self.at_ms, self.kind, self.cause, dict(self.facts)]

    def word(self) -> ProtocolMessage:
        """Return the event itself, if it came from outside or reports a failure. Raises KeyError for others."""
        kind = _WORDS[self.kind]
        types = get_type_hints(kind)
        return kind(**{name: _restored(types[name], value) for name, value in self.facts.items()})

    def __repr__(self) -> str:
        facts = "".join(f" {name}={value!r}" for name, value in self.facts.items())
        return f"{self.at_ms} ms {self.id} {self.kind}{facts}"


def facts_of(event: ProtocolMessage) -> dict[str, Any]:
    """Return what the schedule keeps of an event besides its cause, as JSON-like data."""
    if isinstance(event, events.ProcessInput) and event.max_rows is None:
        return {}
    facts = {name: getattr(event, name) for name in kept_of(type(event))}
    return {name: value.name if isinstance(value, Enum) else value for name, value in facts.items()}


def kept_of(kind: type[ProtocolMessage]) -> tuple[str, ...]:
    """Return the names of the fields that the schedule keeps of this kind of event."""
    if kind not in _FIELDS:
        _FIELDS[kind] = _kept(kind)
    return _FIELDS[kind]


def _kept(kind: type[ProtocolMessage]) -> tuple[str, ...]:
    if kind in FROM_OUTSIDE or kind in FAILURES:
        return tuple(each.name for each in fields(kind) if each.name != "raised")
    return ("task",) if issubclass(kind, messages.JobMessage) else _KEPT.get(kind, ())


def kept_by_name(kind: str) -> tuple[str, ...]:
    """Return the same as `kept_of` for the kind of event with this name."""
    return kept_of(_EVENTS[kind]) if kind in _EVENTS else ()


class Schedule:
    """The events that the machines of one run handled, by process.

    `job_id` is the job's id in that run, and `checkpoints` the directory of its checkpoints. `host` says whose default
    settings applied, the lab's or Spark's, and `slot_sharing` what shared its slots: "job" or "region". `done` holds
    the ids of commands that were carried out but not yet reported to any machine.
    """

    def __init__(
        self,
        processes: Mapping[str, Sequence[Handled]],
        *,
        host: str,
        job_id: str = "",
        checkpoints: str = "",
        slot_sharing: str = "job",
        done: Iterable[str] = (),
    ) -> None:
        self.processes = {name: tuple(handled) for name, handled in processes.items()}
        self.host = host
        self.job_id = job_id
        self.checkpoints = checkpoints
        self.slot_sharing = slot_sharing
        self.done = frozenset(done).difference(event.cause for event in self)

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as JSON-like data."""
        processes = {name: [each.to_list() for each in handled] for name, handled in self.processes.items()}
        run = {"host": self.host, "job_id": self.job_id, "checkpoints": self.checkpoints, "done": sorted(self.done)}
        return run | {"slot_sharing": self.slot_sharing, "processes": processes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schedule:
        """Return the schedule that `to_dict` described."""
        processes = {name: [Handled(*each) for each in handled] for name, handled in data["processes"].items()}
        run = {name: data[name] for name in ("host", "job_id", "checkpoints", "done")}
        return cls(processes, **run, slot_sharing=data.get("slot_sharing", "job"))

    def __len__(self) -> int:
        return sum(map(len, self.processes.values()))

    def __iter__(self) -> Iterator[Handled]:
        """Iterate over all events, process by process."""
        return (each for handled in self.processes.values() for each in handled)

    def __repr__(self) -> str:
        return f"Schedule({len(self)} events in {len(self.processes)} processes, {self.host})"


def _restored(kind: Any, value: Any) -> Any:
    return kind[value] if isinstance(kind, type) and issubclass(kind, Enum) else value
