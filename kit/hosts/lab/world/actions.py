"""The actions from which a step of the lab chooses, each a type of its own.

An action is a value. Its `key` is one word, the same in every replay of a run, so a list of keys *is* the run. Messages
between one task and the JobMaster keep their order, and so do the elements of a channel. Otherwise any enabled action
may be next; a real cluster has the same freedom. An action that never happens by itself is a `Fault`
(`kit.hosts.lab.faults.faults`), or the user's `DisposeSavepoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

from kit.core.protocol.elements import Element
from kit.core.protocol.words import ProtocolMessage


class Group(Enum):
    """The subject of an action; the value is the heading of its list."""

    TIMERS = "timers that are due"
    MESSAGES = "messages under way"
    WORK = "work that was asked for"
    CHANNELS = "elements under way in channels"
    TURNS = "turns of tasks"
    TIME = "time"
    WORKERS = "workers"
    DRIVER = "the driver"
    FILES = "files"
    CLOCKS = "clocks"
    RECORDING = "a recording that is followed"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may happen."""

    group: ClassVar[Group]
    verb: ClassVar[str]
    """The first part of the key, unique for each type."""
    pattern: ClassVar[str]
    """The sentence; `{of_checkpoint}` is "" or " of chk-3"."""
    whom: ClassVar[str] = ""
    """The field that names the subject."""

    @property
    def key(self) -> str:
        """The action as one word, the same in every replay: the verb, and the identifying fields."""
        parts = (_as_part(each.name, getattr(self, each.name)) for each in fields(self) if each.compare)
        return ":".join(part for part in (self.verb, *parts) if part)

    @property
    def text(self) -> str:
        """The action as a sentence."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        checkpoint_id = values.get("checkpoint_id")
        return self.pattern.format(**values, of_checkpoint="" if checkpoint_id is None else f" of chk-{checkpoint_id}")

    @property
    def subject(self) -> str:
        """The machine that it concerns: a task, a slot or "job"; "" for none in particular."""
        return str(getattr(self, self.whom)) if self.whom else ""

    @property
    def remembered(self) -> Action:
        """Return the action as a lab keeps it afterwards: with the same sentence, and without records."""
        return self

    def perform(self, world: Any) -> None:
        """Perform the action in a world (`kit.hosts.lab.world.world`) that has no function of its own for it."""
        raise KeyError(f"{self!r} is nothing that a world knows how to do")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"


def named(word: ProtocolMessage) -> tuple[str, int | None]:
    """Return how actions name a message or a command: its type, and its checkpoint."""
    return type(word).__name__, getattr(word, "checkpoint_id", None)


def _as_part(name: str, value: Any) -> str:
    if value is None:
        return ""
    return f"chk-{value}" if name == "checkpoint_id" else str(value).replace(" ", "_")


@dataclass(frozen=True, slots=True, repr=False)
class DeliverMessage(Action):
    """The first message in flight from `sender` to `receiver` arrives; one of the two is "job"."""

    message: str
    """The name of its type."""
    checkpoint_id: int | None
    sender: str
    receiver: str

    group: ClassVar = Group.MESSAGES
    verb: ClassVar = "deliver"
    pattern: ClassVar = "deliver {message}{of_checkpoint} from {sender} to {receiver}"
    whom: ClassVar = "receiver"


@dataclass(frozen=True, slots=True, repr=False)
class ReceiveElement(Action):
    """The first element in flight on a channel arrives in the input queue of the receiving task."""

    channel: int
    sender: str
    task: str
    element: Element | str = field(compare=False)
    """The element, or its text in an action that is kept."""

    group: ClassVar = Group.CHANNELS
    verb: ClassVar = "receive"
    pattern: ClassVar = "let {task} receive {element} from {sender}"
    whom: ClassVar = "task"

    @property
    def remembered(self) -> Action:
        return ReceiveElement(self.channel, self.sender, self.task, str(self.element))


@dataclass(frozen=True, slots=True, repr=False)
class TakeTurn(Action):
    """A task processes its input: it takes one element, or asks its source for one batch."""

    task: str

    group: ClassVar = Group.TURNS
    verb: ClassVar = "turn"
    pattern: ClassVar = "give {task} its turn"
    whom: ClassVar = "task"


@dataclass(frozen=True, slots=True, repr=False)
class CarryOut(Action):
    """An asynchronous command, the `number`-th of this run, is carried out and answered."""

    machine: str
    command: str
    """The name of its type."""
    checkpoint_id: int | None
    number: int

    group: ClassVar = Group.WORK
    verb: ClassVar = "carry_out"
    pattern: ClassVar = "carry out {command}{of_checkpoint} for {machine}"
    whom: ClassVar = "machine"


@dataclass(frozen=True, slots=True, repr=False)
class FireTimer(Action):
    """A timer that is due fires."""

    machine: str
    timer: str

    group: ClassVar = Group.TIMERS
    verb: ClassVar = "timer"
    pattern: ClassVar = "let timer {timer} of {machine} fire"
    whom: ClassVar = "machine"


@dataclass(frozen=True, slots=True, repr=False)
class LetTimePass(Action):
    """Time passes until `until_ms` without any action, as if every task were busy; timers due meanwhile fire late."""

    until_ms: int

    group: ClassVar = Group.TIME
    verb: ClassVar = "wait"
    pattern: ClassVar = "wait until {until_ms} ms"


@dataclass(frozen=True, slots=True, repr=False)
class DisposeSavepoint(Action):
    """The user deletes a savepoint: its `_metadata` and its files."""

    path: str

    group: ClassVar = Group.FILES
    verb: ClassVar = "dispose"
    pattern: ClassVar = "dispose of the savepoint {path}"

    def perform(self, world: Any) -> None:
        world.edge.dispose(self.path, world.master.checkpoints.store.in_use)
