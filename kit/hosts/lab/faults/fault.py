"""The base class of faults. A fault declares everything once, from its sentence to its effect.

`kit.hosts.lab.faults.faults` is the table of faults. Everything else derives from it:

- the list of possible faults, the methods of `lab.faults`, and the lines of a scenario
  (`kit.hosts.lab.faults.fault_verbs`);
- the faults of random runs (`kit.verify.swarm.trials`) and of explorations (`kit.verify.explore`);
- the explorer's menus, and `docs/FAULTS.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.errors import enumerated
from kit.hosts.lab.world.actions import Action
from kit.hosts.lab.world.world import World

LAB, FAULT = "lab", "fault"
"""Machine and role of the records of faults."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The chance of a fault in random runs (`kit.verify.swarm.swarm`). Faults with the same object are drawn as one.

    `text` is a sentence; its `{}` is the number that chooses among candidates. `weight` is the fault's frequency
    relative to the others, `share` the fraction of runs in which it occurs at all. `choose` returns the candidates and
    the index of the chosen one; by default every possible fault is a candidate. With `waits`, the run continues until
    one is possible.
    """

    name: str
    text: str
    weight: int = 1
    share: float = 0.5
    choose: Callable[[World, int], tuple[Sequence[Fault], int]] | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Explored:
    """The name of a fault in explorations, and the variants that they try."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Fault(Action):
    """An action that never happens by itself. A run keeps its faults like any other step, so they are undone and
    replayed.
    """

    recorded: ClassVar[bool] = True
    """True if the trace gets a record of it; False if a machine at once receives a message that says the same."""
    method: ClassVar[str] = ""
    """The method of `lab.faults` that injects it, by default its verb. Several faults may share one."""
    line: ClassVar[str] = ""
    """The line of a scenario that injects it, by default its sentence. `{what}` stands for words that name one of
    several targets, any other name for an argument of the method. Parts in brackets are optional.
    """
    doing: ClassVar[str] = ""
    """The text that completes "nothing ... now is 'lunch'", if words name a target."""
    example: ClassVar[str]
    """A call of the method."""
    drawn: ClassVar[Drawn | None] = None
    explored: ClassVar[Explored | None] = None
    offer: ClassVar[str] = ""
    """The label of the explorer's button on the target; "" if the explorer lists the fault by its sentence."""

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        """Yield this fault for every target, with default numbers; `refusal` says whether each is allowed."""
        raise NotImplementedError

    @classmethod
    def targets(cls, world: World) -> Iterator[Self]:
        """Yield one fault for each target that words may name."""
        return cls.possible(world)

    def adjusted(self, world: World) -> Fault:
        """Return the fault with the other arguments of its method; subclasses add parameters."""
        return self

    def refusal(self, world: World) -> str | None:
        """Return why the fault may not happen now, or None if it may."""
        raise NotImplementedError

    def happen(self, world: World) -> None:
        """Do it."""
        raise NotImplementedError

    def happen_again(self, world: World) -> None:
        """Inject it in a lab that follows a recording, which has the machines' reactions already."""
        self.happen(world)

    def perform(self, world: World) -> None:
        """Inject the fault, and record it."""
        if self.recorded:
            world.faults_told += 1
            arguments = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
            checkpoint_id = arguments.pop("checkpoint_id", None)
            data = {"text": self.text} | arguments | self.details(world)
            number, kind = f"{LAB}#{world.faults_told}", type(self).__name__
            cause = self.befalls(world)
            world.trace.extend([TraceRecord(number, cause, world.at_ms, LAB, FAULT, kind, checkpoint_id, data)])
        self.happen(world)

    def details(self, world: World) -> dict[str, Any]:
        """Return what its record says beside the arguments, for readers of the trace."""
        return {}

    def befalls(self, world: World) -> str:
        """Return the trace's id of the message or command that it affects; "" for other faults."""
        return ""

    def is_about(self, action: Action) -> bool:
        """Return True if the fault affects the message or command of the action."""
        return False

    @property
    def code(self) -> str:
        """Return the Python call that injects it."""
        return f"lab.faults.{self.name()}({self.text!r})" if self.is_named else f"lab.step(faults.{self.literal})"

    @property
    def is_named(self) -> bool:
        """Return True if its sentence alone names it for its method."""
        return False

    @classmethod
    def name(cls) -> str:
        """Return the name of its method."""
        return cls.method or cls.verb

    @property
    def literal(self) -> str:
        """The fault as a Python expression: `KillWorker(worker=1)`."""
        arguments = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))
        return f"{type(self).__name__}({arguments})"


@dataclass(frozen=True, slots=True, repr=False)
class PlainFault(Fault):
    """A fault that is fully described by its fields."""

    @property
    def code(self) -> str:
        arguments = ", ".join(repr(getattr(self, each.name)) for each in fields(self))
        return f"lab.faults.{self.name()}({arguments})"


def not_asked(world: World, command: str, number: int) -> str | None:
    """Return why a command cannot be affected, or None if it is pending."""
    if number in world.agenda.work:
        return None
    return f"{command} is not pending: it was not requested, is finished, or was cancelled"


def not_there(world: World, machine: str) -> str:
    """Say that a machine does not exist, and list those that do."""
    return f"there is no {machine} now; there are {enumerated(world.machine_names)}"


def words_of(fault: type[Fault]) -> str:
    """Return the docstring of a fault class in one line."""
    return " ".join((fault.__doc__ or "").split())


__all__ = ["FAULT", "LAB", "Drawn", "Explored", "Fault", "PlainFault", "not_asked", "not_there", "words_of"]
