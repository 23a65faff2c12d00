"""Who decides what happens next in a lab, when `step` is not told: schedulers.

A scheduler is anything that can be called with what is enabled and the lab, and gives the one that is to happen: its
number in the list, the action itself, or a few words. That time passes is in the list only when nothing else can
happen; a scheduler may give `LetTimePass` for it all the same, and any fault that is possible now.

    Lab(env, scheduler=Fair())
    Lab(env, scheduler=Adversarial("turn of sums/1"))
    Lab(env, scheduler=Slow({"sums": 20}))
    Lab(env, scheduler=lambda enabled, lab: lab.position % len(enabled))

Those here keep nothing to themselves: what they choose follows from the lab alone, so a lab that goes back goes on as
it did, and a fork goes on by itself.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol, overload

from kit.core.protocol.tasks import split_task_name
from kit.core.protocol.trace import TraceRecord
from kit.hosts.lab.by_words import matching
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.past import Past
from kit.hosts.lab.world.actions import Action, LetTimePass, TakeTurn
from kit.hosts.lab.world.agenda import Agenda

Choice = Action | int | str
SEED_BITS = 32


class Scheduled(Protocol):
    """What a scheduler may look at: a `Lab`."""

    @property
    def position(self) -> int: ...

    @property
    def past(self) -> Past: ...


Scheduler = Callable[[Sequence[Action], Any], Choice]
"""From what is enabled, and the lab, to what is to happen."""


class Enabled(Sequence[Action]):
    """What may happen now, for a scheduler: a list that is not made before it is looked at."""

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
    """A generator for each thread, seeded anew for every choice: to make one would seed it twice."""

    def __init__(self) -> None:
        self.generator = random.Random(0)


_generators = _Generators()


@dataclass(frozen=True)
class Random:
    """Any of them, each as likely as the others: the same ones for the same seed, by default the lab's own."""

    seed: int | None = None

    def __call__(self, enabled: Sized, lab: Scheduled) -> int:
        """Choose by the seed and the number of the step."""
        count = len(enabled)
        if count == 1:
            return 0
        seed = lab.past.seed if self.seed is None else self.seed
        generator = _generators.generator
        generator.seed((seed << SEED_BITS) + lab.position)
        bits = count.bit_length()  # as `random.choice` does, and without what it does besides
        number = generator.getrandbits(bits)
        while number >= count:
            number = generator.getrandbits(bits)
        return number


@dataclass(frozen=True)
class First:
    """Always the first of the list: timers, messages, reads and writes, elements, and turns last."""

    def __call__(self, enabled: Sequence[Action], lab: Scheduled) -> int:
        """Choose the first."""
        return 0


@dataclass(frozen=True)
class Fair:
    """Round robin: machine after machine, and for one of them action after action, so that nothing waits for ever. It
    looks at all that is enabled, so that its steps cost more as a job grows.
    """

    def __call__(self, enabled: Sequence[Action], lab: Scheduled) -> Action:
        """Choose what comes next in the circle after what was done last."""
        last = lab.past.last_action
        after = _place(last) if isinstance(last, Action) else ("", "")
        in_circle = sorted(enabled, key=_place)
        return next((action for action in in_circle if _place(action) > after), in_circle[0])


def _place(action: Action) -> tuple[str, str]:
    return action.subject, action.key


@dataclass(frozen=True)
class Adversarial:
    """What is held back does not happen as long as anything else can; the rest is `otherwise`'s choice.

    `hold_back` says what, in a few words ("turn of sums/1", "ack", "letters/0 receive", several in a list) or as a
    function of an action. With `waits`, time passes first: whatever expires does so. `until_ms` ends it.
    """

    hold_back: str | Sequence[str] | Callable[[Action], bool]
    otherwise: Scheduler = Random()
    waits: bool = False
    until_ms: int | None = None

    def __call__(self, enabled: Sequence[Action], lab: Any) -> Choice:
        """Choose among what is not held back."""
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
    """Tasks that are busy for so many ms with each buffer they took or, sources, made: before that has passed they get
    no other turn. So what feeds them is back-pressured, and a barrier queues behind what waits. `busy_ms` is by task
    ("sums/1") or by vertex ("sums"); the rest is `otherwise`'s choice.
    """

    busy_ms: Mapping[str, int]
    otherwise: Scheduler = Random()

    def __post_init__(self) -> None:
        for name, busy_ms in self.busy_ms.items():
            if busy_ms < 0:
                raise LabError(f"{name} is to be busy for {busy_ms} ms, but that must be 0 or more")

    def __call__(self, enabled: Sequence[Action], lab: Any) -> Choice:
        """Choose among what is not the turn of a busy task; if nothing is, time passes until the first is free."""
        actions = list(enabled)
        free_ms = {each.key: self._free_ms(each.task, lab) for each in actions if isinstance(each, TakeTurn)}
        free = [each for each in actions if free_ms.get(each.key, 0) <= lab.look.at_ms]
        if not free or all(isinstance(each, LetTimePass) for each in free):
            wake_ms = [at_ms for at_ms in free_ms.values() if at_ms > lab.look.at_ms]
            return LetTimePass(min([*wake_ms, *([] if lab.look.wait is None else [lab.look.wait.until_ms])]))
        choice = self.otherwise(free, lab)
        return free[choice] if isinstance(choice, int) else choice

    def _free_ms(self, task: str, lab: Any) -> int:
        """When the task has done with what it took last. Of the trace only the last `busy_ms` are looked at."""
        busy_ms = self.busy_ms.get(task, self.busy_ms.get(split_task_name(task)[0], 0))
        if busy_ms == 0:
            return 0
        for record in reversed(lab.trace):
            if record.at_ms + busy_ms <= lab.look.at_ms:
                return 0
            if record.machine == task and _took_a_buffer(record):
                return int(record.at_ms + busy_ms)
        return 0


def _took_a_buffer(record: TraceRecord) -> bool:
    """A credit is granted for a buffer that was taken; a source, which has no inputs, sends what it made."""
    if record.kind == "GrantCredit":
        return True
    return record.kind == "SendElement" and record.data["element"]["type"] == "Buffer"


def _named(part: object) -> str:
    """A function by its name, which is the same in every process; anything else as it shows itself."""
    return str(getattr(part, "__name__", None) or repr(part))


def checked_scheduler(scheduler: object) -> Scheduler:
    """The scheduler that was given, by default `Random()`. Raises LabError for what is none."""
    if scheduler is None:
        return Random()
    if isinstance(scheduler, type) or not callable(scheduler):
        raise LabError(
            f"scheduler is {scheduler!r}, but must be Random(), First(), Fair(), Adversarial('turn of sums/1') or a "
            "function of what is enabled and the lab"
        )
    return scheduler
