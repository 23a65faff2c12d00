"""The machines of a job: each of their states has a number, and each step is computed once.

Machines are pure, so a step depends on the machine's state and the event alone. Their states are few, however many
states the world has. A step is computed the first time it occurs, on a copy of the machine, and looked up from then on.
Its result is an *outcome*: the machine's next state, changes to what is in flight, and events that are delivered to
other machines at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kit.core.protocol.events import ElementReceived, ProcessInput, SlotLost, TimerFired
from kit.core.protocol.words import Machine, ProtocolMessage
from kit.hosts.lab.world.copying import copy_of
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.machines.task.stream_task import StreamTask
from kit.stream.operators.base import Operator
from kit.verify.explore.digest import Digester
from kit.verify.explore.tables import Column, Function, Ids, Interned
from kit.verify.explore.words import NOW_MS, Words

MOST_INPUTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimer(ProtocolMessage):
    """A timer that is set, and when it is due: the event is its firing."""

    timer: str
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals(ProtocolMessage):
    """Elements that arrive one after the other before the task has a turn."""

    events: tuple[ElementReceived, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(ProtocolMessage):
    """A worker was killed: for the JobMaster its slot is lost, in whichever epoch it is."""

    slot: int


class Unwatched:
    """A replacement for statistics without an observer: it accepts all calls, and returns itself."""

    def __getattr__(self, name: str) -> Unwatched:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: object, **named: object) -> Unwatched:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Unwatched:
        return self


class SharedMemo(dict[int, Any]):
    """The memo of one copy: objects that all copies share are their own copies."""

    def __init__(self, values: dict[int, Any], shared: dict[int, Any]) -> None:
        super().__init__(shared)
        self._values = values

    def get(self, key: int, default: Any = None) -> Any:
        """Return the copy of the object at this address, if it is known."""
        found = super().get(key)
        return self._values.get(key, default) if found is None else found


@dataclass(frozen=True, slots=True)
class Broken:
    """A machine that has broken: an invariant did not hold, or its host made an error."""

    error: str


@dataclass(slots=True)
class Outcome:
    """The result of a step: the next state, changes by column of the world, and events to deliver at once."""

    state: int
    changes: dict[int, int] = field(default_factory=dict)
    handed: tuple[tuple[int, int], ...] = ()


OutcomeParts = tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
"""The parts of an outcome, as a value."""


class MachineStates:
    """The states of one machine by number, and its steps: `step(states, words)` returns numbers of outcomes."""

    def __init__(self, name: str, states: States) -> None:
        self.name = name
        self._states = states
        self.machines: list[Machine | Broken | None] = []
        self._numbers: Interned[bytes] = Interned()
        self._numbers.number(b"")
        self.has_turn, self.is_broken = Column(bool), Column(bool)
        self.listens = Column(bool)
        """True if a task reacts to the completion of a checkpoint: it publishes, or leaves."""
        self.settled = Column(np.int8, width=MOST_INPUTS)
        """For each input in order: 0 if it is open, 1 if its data has ended, 2 if nothing is taken from it."""
        self._add(None)
        self.outcomes: Interned[OutcomeParts] = Interned()
        self._step = Function(self._work_out)
        self.next_states, self.handed = Column(), Column()
        self._is_silent = Column(bool)
        self.columns: list[int] = []
        """The columns of the world that some step of this machine changes."""
        self._changes: list[dict[int, int]] = []
        self._tables: dict[int, Column] = {}

    def number(self, machine: Machine | Broken) -> int:
        """Return the number of a state."""
        digest = self._states.digester.digest(machine)
        number = self._numbers.number(digest)
        if number == len(self.machines):
            self._add(machine)
        return number

    def _add(self, machine: Machine | Broken | None) -> None:
        self.machines.append(machine)
        self.has_turn.append(isinstance(machine, StreamTask) and machine.available)
        self.is_broken.append(isinstance(machine, Broken))
        self.listens.append(_listens(machine))
        self.settled.append(_settled(machine))

    def step(self, states: Ids, words: Ids) -> Ids:
        """Return the machine's outcomes for these events in these states."""
        return self._step.of(states, words)

    def leads_to_nothing(self, states: Ids, words: Ids) -> Any:
        """Return where the machine gives no commands for these events in these states."""
        return self._is_silent.of(self.step(states, words))

    def words_taken(self) -> list[int]:
        """Return the words that it has taken so far, in some state."""
        return sorted({word for _, word in self._step.arguments()})

    def changes(self, column: int, outcomes: Ids) -> Ids:
        """Return the changes to a column of the world."""
        return self._tables[column].of(outcomes)

    def _work_out(self, state: int, word: int) -> int:
        outcome = self._states.work_out(self, state, word)
        number = self.outcomes.number((outcome.state, tuple(sorted(outcome.changes.items())), outcome.handed))
        if number == len(self._changes):
            self._keep(outcome)
        return number

    def _keep(self, outcome: Outcome) -> None:
        self._changes.append(outcome.changes)
        self._is_silent.append(not (outcome.changes or outcome.handed))
        self.next_states.append(outcome.state)
        self.handed.append(self._states.handings.number(outcome.handed))
        for column in outcome.changes:
            if column not in self._tables:
                self.columns.append(column)
                table = self._tables[column] = Column()
                for earlier in self._changes[:-1]:
                    table.append(earlier.get(column, 0))
        for column, table in self._tables.items():
            table.append(outcome.changes.get(column, 0))

    def __len__(self) -> int:
        return len(self.machines) - 1

    @property
    def steps(self) -> int:
        """The number of steps that were computed."""
        return len(self._step)


class States:
    """The common base of all machines' states: how they are copied and compared, and how commands are translated.

    `translate(machine, commands)` turns a machine's commands into an outcome's changes and events.
    """

    def __init__(
        self, digester: Digester, words: Words, shared: dict[int, Any], translate: Translate, *, takes_turns: bool
    ) -> None:
        self.digester = digester
        self.takes_turns = takes_turns
        """True if a task with inputs takes what has arrived in the step in which it arrives."""
        self.words = words
        self.handings: Interned[tuple[tuple[int, int], ...]] = Interned()
        self.handings.number(())
        self._shared = shared
        self._translate = translate

    def work_out(self, owner: MachineStates, state: int, number: int) -> Outcome:
        """Let a copy of a machine take an event, and return the outcome."""
        before, word = owner.machines[state], self.words[number]
        if before is None or word is None or isinstance(before, Broken):
            return Outcome(state)
        machine = self.copy(before)
        at = NOW_MS
        if isinstance(word, DueTimer):
            at, word = max(at, word.due_ms), TimerFired(timer=word.timer)
        elif isinstance(word, Killed):
            assert isinstance(machine, JobMaster)
            word = SlotLost(epoch=machine.epoch, slot=word.slot, error="it was killed in the lab")
        try:
            words = word.events if isinstance(word, Arrivals) else (word,)
            commands = [command for each in words for command in machine.handle(each, at)]
            if self.takes_turns and isinstance(machine, StreamTask) and not machine.is_source:
                while machine.available:
                    commands = [*commands, *machine.handle(ProcessInput(), at)]
            machine.validate()
            outcome = self._translate(machine, commands)
        except Exception as error:
            return Outcome(owner.number(Broken(f"{owner.name}: {type(error).__name__}: {error}")))
        outcome.state = owner.number(machine)
        return outcome

    def copy(self, machine: Machine) -> Machine:
        """Return a machine in the same state, whose events are counted from zero."""
        made = copy_of(machine, SharedMemo(self.digester.values, self._shared))
        made.events_handled = 0
        made._commands = []
        return made


Translate = Callable[[Machine, list[Any]], Outcome]


def takes_requests(machine: Machine | Broken | None) -> bool:
    """Return True if checkpoints are requested: all tasks run, and none has taken its last checkpoint."""
    if not isinstance(machine, JobMaster) or machine.status is not JobStatus.RUNNING:
        return False
    return machine.tasks.all_running and not machine.checkpoints.ledger.leaving


def _listens(machine: Machine | Broken | None) -> bool:
    if not isinstance(machine, StreamTask) or machine.state.is_terminal:
        return False
    operators = (type(link.operator) for link in machine.chain.links)
    listens = (each.notify_checkpoint_complete is not Operator.notify_checkpoint_complete for each in operators)
    return machine._operators_finished or any(listens)


def _settled(machine: Machine | Broken | None) -> list[int]:
    """Return for each input 0 if it is open, 1 if its data has ended, 2 if it is blocked or has ended."""
    if not isinstance(machine, StreamTask) or machine.state.is_terminal:
        return [2] * MOST_INPUTS
    data_ended = machine.input._data_ended
    found = [2 if each.blocked or each.ended else int(each.number in data_ended) for each in machine.inputs]
    return found + [2] * (MOST_INPUTS - len(found))
