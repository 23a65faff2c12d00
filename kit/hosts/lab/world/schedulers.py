"""Schedulers, which choose the next action of a lab when `step` is called without one.

A scheduler is a callable that takes the enabled actions and the lab. It returns the action to take: its index, the
action itself, or a few words. The list includes letting time pass only if nothing else can happen. But a scheduler may
always return `LetTimePass`, or any fault that is possible now.

    Lab(env, scheduler=Fair())
    Lab(env, scheduler=Adversarial("turn of sums/1"))
    Lab(env, scheduler=Slow({"sums": 20}))
    Lab(env, scheduler=lambda enabled, lab: lab.position % len(enabled))

The schedulers here keep no state. Their choice depends on the lab alone, so a lab that goes back repeats its steps, and
a fork is independent.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, overload

from kit.core.protocol.commands import GrantCredit, SendElement
from kit.core.protocol.tasks import vertex_of
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.by_words import matching
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.world.actions import Action, LetTimePass, TakeTurn
from kit.hosts.lab.world.agenda import Agenda

Choice = Action | int | str
SEED_BITS = 32


Scheduler = Callable[[Sequence[Action], Any], Choice]
"""A function from the enabled actions and the lab to the chosen action."""


class Enabled(Sequence[Action]):
    """The enabled actions, for a scheduler: a list whose items are made on access."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._count = len(agenda)
        self._wait: LetTimePass | None = None
        if not self._count:
            self._wait = agenda.wait
            self._count = int(self._wait is not None)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Action: ...

    @overload
    def __getitem__(self, index: slice) -> list[Action]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._agenda[index % self._count] if self._wait is None else self._wait

    def __repr__(self) -> str:
        return f"Enabled({', '.join(map(str, self))})"


class _Generators(threading.local):
    """A generator for each thread, seeded again for every choice, because making a new one would seed it twice."""

    def __init__(self) -> None:
        self.generator = random.Random(0)


_generators = _Generators()


@dataclass(frozen=True)
class Random:
    """Chooses at random, with equal probabilities; the same seed, by default the lab's, gives the same choices."""

    seed: int | None = None

    def __call__(self, enabled: Sized, lab: Any) -> int:
        """Choose by the seed and the number of the step."""
        return self.number(len(enabled), lab.past.seed, lab.position)

    def number(self, count: int, lab_seed: int, position: int) -> int:
        """Return the choice among `count` actions at a position."""
        if count == 1:
            return 0
        generator = _generators.generator
        generator.seed(((lab_seed if self.seed is None else self.seed) << SEED_BITS) + position)
        bits = count.bit_length()  # like `random.choice`, without its overhead
        number = generator.getrandbits(bits)
        while number >= count:
            number = generator.getrandbits(bits)
        return number


@dataclass(frozen=True)
class First:
    """Always chooses the first of the list: timers, then messages, reads and writes, elements, and turns."""

    def __call__(self, enabled: Sequence[Action], lab: Any) -> int:
        """Choose the first."""
        return 0


@dataclass(frozen=True)
class Fair:
    """Chooses round robin, by machine and by action of a machine, so that nothing waits forever.

    It reads all enabled actions, so its steps cost more in a larger job.
    """

    def __call__(self, enabled: Sequence[Action], lab: Any) -> Action:
        """Choose the next machine and action after the last step."""
        last = lab.past.last_action
        after = _place(last) if isinstance(last, Action) else ("", "")
        in_circle = sorted(enabled, key=_place)
        return next((action for action in in_circle if _place(action) > after), in_circle[0])


def _place(action: Action) -> tuple[str, str]:
    return action.subject, action.key


@dataclass(frozen=True)
class Adversarial:
    """Holds actions back while anything else can happen; leaves other choices to the scheduler `otherwise`.

    `hold_back` names the actions in a few words ("turn of sums/1", "ack", "letters/0 receive", or a list of these), or
    is a function of an action. With `waits`, time passes first, so timeouts expire. `until_ms` ends it.
    """

    hold_back: str | Sequence[str] | Callable[[Action], bool]
    otherwise: Scheduler = Random()
    waits: bool = False
    until_ms: int | None = None

    def __call__(self, enabled: Sequence[Action], lab: Any) -> Choice:
        """Choose among the actions that are not held back."""
        if self.until_ms is not None and lab.look.at_ms >= self.until_ms:
            return self.otherwise(enabled, lab)
        actions = list(enabled)
        held = self._held(actions)
        free = [action for action in actions if action not in held]
        if not free and self.waits and lab.look.wait is not None:
            return lab.look.wait
        choice = self.otherwise(free or actions, lab)
        return (free or actions)[choice] if isinstance(choice, int) else choice

    def __repr__(self) -> str:
        held, otherwise = map(_named, (self.hold_back, self.otherwise))
        until = "" if self.until_ms is None else f", until_ms={self.until_ms}"
        return f"Adversarial({held}, otherwise={otherwise}{', waits=True' if self.waits else ''}{until})"

    def _held(self, actions: list[Action]) -> list[Action]:
        if callable(self.hold_back):
            return [action for action in actions if self.hold_back(action)]
        several = [self.hold_back] if isinstance(self.hold_back, str) else self.hold_back
        return [action for words in several for action in matching(words, actions)]


@dataclass(frozen=True)
class Slow:
    """Makes tasks busy for a time with each buffer that they take or, for sources, make; meanwhile they get no other
    turn.

    So their senders are back-pressured, and barriers queue behind buffers. `busy_ms` is by task ("sums/1") or by vertex
    ("sums"). Other choices are left to the scheduler `otherwise`.
    """

    busy_ms: Mapping[str, int]
    otherwise: Scheduler = Random()

    def __post_init__(self) -> None:
        for name, busy_ms in self.busy_ms.items():
            if busy_ms < 0:
                raise LabError(f"{name} is to be busy for {busy_ms} ms, but that must be 0 or more")

    def __call__(self, enabled: Sequence[Action], lab: Any) -> Choice:
        """Choose an action other than a turn of a busy task; if there is none, let time pass until a task is free."""
        actions = list(enabled)
        free_ms = {each.key: self._free_ms(each.task, lab) for each in actions if isinstance(each, TakeTurn)}
        free = [each for each in actions if free_ms.get(each.key, 0) <= lab.look.at_ms]
        if not free or all(isinstance(each, LetTimePass) for each in free):
            wake_ms = [at_ms for at_ms in free_ms.values() if at_ms > lab.look.at_ms]
            return LetTimePass(min([*wake_ms, *([] if lab.look.wait is None else [lab.look.wait.until_ms])]))
        choice = self.otherwise(free, lab)
        return free[choice] if isinstance(choice, int) else choice

    def _free_ms(self, task: str, lab: Any) -> int:
        """Return the time at which the task has finished its last buffer, from the last `busy_ms` of the trace."""
        busy_ms = self.busy_ms.get(task, self.busy_ms.get(vertex_of(task), 0))
        if busy_ms == 0:
            return 0
        for record in reversed(lab.trace):
            if record.at_ms + busy_ms <= lab.look.at_ms:
                return 0
            if record.machine == task and _took_a_buffer(record):
                return int(record.at_ms + busy_ms)
        return 0


def _took_a_buffer(record: TraceRecord) -> bool:
    """Return True if a buffer was taken, for which a credit is granted, or made by a source, which sends it."""
    if record.is_a(GrantCredit):
        return True
    return record.is_a(SendElement) and record.data["element"]["type"] == "Buffer"


def _named(part: object) -> str:
    """Return a function's name, which is the same in every process, or the `repr` of anything else."""
    return str(getattr(part, "__name__", None) or repr(part))


def checked_scheduler(scheduler: object) -> Scheduler:
    """Return the given scheduler, by default `Random()`. Raises LabError for anything else."""
    if scheduler is None:
        return Random()
    if isinstance(scheduler, type) or not callable(scheduler):
        raise LabError(
            f"scheduler is {scheduler!r}, but must be Random(), First(), Fair(), Adversarial('turn of sums/1') or a "
            "function of what is enabled and the lab"
        )
    return scheduler
