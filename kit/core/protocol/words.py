"""The grammar of the protocol: machines, the words they take and the words they give.

A *machine* is pure: `handle(event, at)` takes one event and the host's time in ms, and returns commands. The host
carries the commands out and feeds their results back as events. There are two machines, the JobMaster and the
StreamTask, and three vocabularies:

- `kit.core.protocol.messages`: what machines say to each other. A message is a command of its sender and becomes an
event
  of its receiver.
- `kit.core.protocol.events`: what a host tells a machine (a timer fired, a file was written, a worker died).
- `kit.core.protocol.commands`: what a machine asks of its host (start a timer, write a file, deploy the tasks).

A word is a value: it never changes, and says nothing of where it came from. That is in the `Envelope` around it: the
n-th event of a machine has the id `<machine>#<n>`, the k-th command it led to `<machine>#<n>.<k>`, and whoever hands a
word on hands on the id of what led to it. Followed backwards these ids answer "why?" across machines; see
`kit.core.protocol.trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Anything that crosses the border of a machine."""

    bulk: ClassVar[bool] = False
    """True for words about single buffers, which are too many to keep when a cluster runs at speed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Word:
        """A word never changes: copies of a world share it."""
        return self


class Envelope(NamedTuple):
    """A word on its way, and the id of the command, or else the event, that led to it ("" when nothing did)."""

    word: Any
    cause: str = ""


class ProtocolError(Exception):
    """A machine was given an event that its state does not admit: the host's mistake, never the network's."""


Handler = Callable[[Any, Any], None]


def handles(*event_types: type[Word]) -> Callable[[Handler], Handler]:
    """Mark a method of a `Machine` as the handler of these event types."""

    def mark(method: Handler) -> Handler:
        method.event_types = event_types  # type: ignore[attr-defined]
        return method

    return mark


class Machine:
    """Base of the two machines: looks the handler up, numbers the events, gathers the commands.

    Subclasses mark handlers with `@handles(EventType)` and speak through `emit`. State changes only inside `handle`.
    """

    name: str
    identity: str
    """Begins the ids of this machine's events: the name, with the attempt where a name has several."""
    at: int
    """The host's time of the event being handled, in ms."""
    event_id: str
    """The id of the event being handled, or of the last one."""
    cause: str
    """The id of what led to the event being handled; a handler that knows better than the host says so here."""

    _handlers: ClassVar[dict[type[Word], str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._handlers = {
            event_type: attribute
            for klass in reversed(cls.__mro__)
            for attribute, member in vars(klass).items()
            for event_type in getattr(member, "event_types", ())
        }

    def __init__(self, name: str, identity: str | None = None) -> None:
        self.name = name
        self.identity = identity or name
        self.at = 0
        self.cause = ""
        self.events_handled = 0
        self.event_id = f"{self.identity}#0"
        self._commands: list[Word] = []

    def handle(self, event: Word, at: int, cause: str = "") -> list[Word]:
        """Take one event at time `at` (ms), to which `cause` led, change the state, return the commands.

        The k-th command, counted from 1, has the id `<event_id>.<k>`. Raises ProtocolError for an event type that this
        machine does not know.
        """
        attribute = self._handlers.get(type(event))
        if attribute is None:
            raise ProtocolError(
                f"{self.name} cannot handle {type(event).__name__}; it knows {', '.join(sorted(self.known_events()))}"
            )
        self.events_handled += 1
        self.event_id = f"{self.identity}#{self.events_handled}"
        self.at = at
        self.cause = cause
        commands = self._commands = []
        if self.accepts(event):
            getattr(self, attribute)(event)
        return commands

    def accepts(self, event: Word) -> bool:
        """Whether the event is meant for this machine as it is now; others are counted and dropped."""
        return True

    def emit(self, word: Word) -> None:
        """Give a command."""
        self._commands.append(word)

    def validate(self) -> None:
        """Check the invariants; raise AssertionError with names when one is broken."""

    @classmethod
    def known_events(cls) -> list[str]:
        """Names of the event types that this machine handles."""
        return [event_type.__name__ for event_type in cls._handlers]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"
