"""The grammar of the protocol: machines, the events they handle and the commands they give.

A *machine* is pure: `handle(event, at)` takes one event and the host's time in ms, and returns commands. The host
carries the commands out and feeds their results back as events. The two main machines are the JobMaster and the
StreamTask. They use three vocabularies:

- `kit.core.protocol.messages`: what machines send to each other. A message is a command of its sender and becomes an
event
  of its receiver.
- `kit.core.protocol.events`: what a host reports to a machine (a timer fired, a file was written, a worker died).
- `kit.core.protocol.commands`: what a machine asks of its host (start a timer, write a file, deploy the tasks).

A `ProtocolMessage` is any of these. It is an immutable value and does not contain its origin. That is in the `Envelope`
around it: the n-th event of a machine has the id `<machine>#<n>`, and the k-th command it led to has the id
`<machine>#<n>.<k>`. A host that passes on a message or an answer also passes on the id of what led to it. Followed
backwards, these ids answer "why?" across machines; see `kit.core.trace.trace`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolMessage:
    """A message, event or command: a value that crosses the boundary of a machine."""

    bulk: ClassVar[bool] = False
    """True for messages about single buffers, which are too many to keep at a cluster's speed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ProtocolMessage:
        """Return the value itself: it is immutable, so copies of a world share it."""
        return self


class Envelope(NamedTuple):
    """A message, event or command on its way, with the id of the command or event that led to it ("" if none did)."""

    word: Any
    cause: str = ""


class ProtocolError(Exception):
    """A machine received an event that its state does not admit: an error of the host, never of the network."""


Handler = Callable[[Any, Any], None]


def handles(*event_types: type[ProtocolMessage]) -> Callable[[Handler], Handler]:
    """Mark a method of a `Machine`, or of one of its parts, as the handler of these event types."""

    def mark(method: Handler) -> Handler:
        method.event_types = event_types  # type: ignore[attr-defined]
        return method

    return mark


@cache
def handlers_of(part: type) -> Mapping[type[ProtocolMessage], str]:
    """Return the name of the method of a class that handles each event type."""
    return {
        event_type: attribute
        for klass in reversed(part.__mro__)
        for attribute, member in vars(klass).items()
        for event_type in getattr(member, "event_types", ())
    }


def handler_in(parts: Iterable[Any], event: ProtocolMessage) -> Callable[[Any], None] | None:
    """Return the method that handles an event, of the first part that has one, or None."""
    for part in parts:
        attribute = handlers_of(part.__class__).get(type(event))
        if attribute is not None:
            method: Callable[[Any], None] = getattr(part, attribute)
            return method
    return None


class Machine:
    """The base class of the machines: it looks up handlers, numbers the events and collects the commands.

    Subclasses and their parts mark handlers with `@handles(EventType)` and give commands with `emit`. State changes
    only inside `handle`.
    """

    without_effect: ClassVar = frozenset({"at", "cause", "event_id", "events_handled", "_commands"})

    name: str
    identity: str
    """The prefix of the ids of this machine's events: its name, with the attempt if a name has several."""
    at: int
    """The host's time of the event being handled, in ms."""
    event_id: str
    """The id of the event being handled, or of the last one handled."""
    cause: str
    """The id of what led to the event being handled; a handler that knows it better than the host overwrites it."""

    def __init__(self, name: str, identity: str | None = None) -> None:
        self.name = name
        self.identity = identity or name
        self.at = 0
        self.cause = ""
        self.events_handled = 0
        self.event_id = f"{self.identity}#0"
        self._commands: list[ProtocolMessage] = []

    def handle(self, event: ProtocolMessage, at: int, cause: str = "") -> list[ProtocolMessage]:
        """Handle one event at time `at` (ms) that `cause` led to: change the state and return the commands.

        The k-th command, counted from 1, has the id `<event_id>.<k>`. Raises ProtocolError for an event type that this
        machine does not know.
        """
        handler = handler_in(self.parts(), event)
        if handler is None:
            raise ProtocolError(
                f"{self.name} cannot handle {type(event).__name__}; it knows {', '.join(sorted(self.known_events()))}"
            )
        self.events_handled += 1
        self.event_id = f"{self.identity}#{self.events_handled}"
        self.at = at
        self.cause = cause
        commands = self._commands = []
        if self.accepts(event):
            handler(event)
        return commands

    def parts(self) -> tuple[Any, ...]:
        """Return the machine and those of its parts that handle events. The first that knows an event handles it."""
        return (self,)

    def accepts(self, event: ProtocolMessage) -> bool:
        """Return True if the machine in its present state should handle the event; others are counted and dropped."""
        return True

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""
        self._commands.append(word)

    def validate(self) -> None:
        """Check the invariants. Raises AssertionError with the names involved if one is broken."""

    def known_events(self) -> set[str]:
        """Return the names of the event types that this machine handles."""
        return {event_type.__name__ for part in self.parts() for event_type in handlers_of(part.__class__)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
