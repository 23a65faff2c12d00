"""All reachable states of a job in the lab, as rows of numbers, and the possible steps in each.

A state of the world is a row of numbers: for each machine its state, its work, its timers and its disk; the messages on
each route; the elements on each channel. `Space.successors` takes many rows and one action, and returns the results
where the action is possible.

The rules are those of `kit.hosts.lab.world.world`, which takes one step in one world. Here a step is taken in all rows
at once, which forks of a lab cannot do (docs/decisions, 31). `tests/verify/explore/test_paths.py` repeats paths of both
and compares where they end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from kit.core.protocol.commands import StopEpoch, StopTasks
from kit.core.protocol.elements import CheckpointBarrier
from kit.core.protocol.events import EpochEnded, ProcessInput, RequestCheckpoint, StartJob
from kit.core.protocol.messages import AcknowledgeCheckpoint, CancelTask
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask
from kit.machines.task.unknown_task import answer_for_unknown_task
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.base import Operator
from kit.verify.explore import machines as own
from kit.verify.explore.asked import Asked, Shared
from kit.verify.explore.digest import Digester
from kit.verify.explore.layout import Layout
from kit.verify.explore.machines import Arrivals, Broken, Killed, MachineStates, States, Unwatched
from kit.verify.explore.steps import MOST_TRIED, Step, Steps
from kit.verify.explore.tables import Function, Ids, Rows, of_one
from kit.verify.explore.words import Words

Places = npt.NDArray[np.int64]


class Space(Layout):
    """The states of one job."""

    def __init__(
        self, job: JobGraph, *, requests: int, faults: int, kinds: Collection[str] = ("kill",), turns: bool = True
    ) -> None:
        """Initialize with the limits of `requests` for checkpoints and of `faults` of these `kinds` (`FAULTS`).

        Without `turns` a task's turn is always a step of its own.
        """
        super().__init__(job)
        checkpoint = job.settings.checkpoint
        self.takes_turns = turns and not (checkpoint.unaligned and checkpoint.aligned_timeout_ms)
        """True if tasks with inputs take what arrives in the same step."""
        self.has_listeners = any(_hears(each.spec.create()) for each in job.operators)
        """True if code of the user is notified of how checkpoints end, so its state may depend on when it is."""
        self.kinds = frozenset(kinds) if faults else frozenset()
        self.requests, self.faults = requests, faults
        self._all_steps = Steps(self, self.kinds, overtaking=self.takes_turns and checkpoint.unaligned)
        self.steps, self.steps_at_rest = self._all_steps.all, self._all_steps.at_rest
        self.faults_of, self.arrivals_on = self._all_steps.faults_of, self._all_steps.arrivals_on
        shared = Shared(self)
        self.digester = Digester(shared.names, takes_turns=self.takes_turns)
        self.words = Words(self.digester)
        self._asked = Asked(self, shared, self.digester, self.words)
        self.queues, self.bags, self.timers = self._asked.queues, self._asked.bags, self._asked.timers
        self.disks, self.change = self._asked.disks, self._asked.change
        self.states = States(
            self.digester, self.words, shared.objects, self._asked.translate, takes_turns=self.takes_turns
        )
        self.machines = self._asked.machines
        self.machines += [MachineStates(name, self.states) for name in self.machine_names]
        self.failures = of_one(self._failure_of)
        self._unknown = Function(self._answer_for_unknown)
        self._overtaking = of_one(self._with_barrier)
        self._behind = of_one(self._behind_barrier)
        self._cancels = Function(self._cancel_for)
        self._epochs = of_one(self._epoch_of)
        self._only_epochs = of_one(self._without_stops_of_tasks)
        self.turn = self.words.number(ProcessInput())

    # --- possible steps -------------------------------------------------------------------------------------------

    def first(self) -> Rows:
        """Return the state in which the job has been told to start."""
        rows = np.zeros((1, len(self.columns)), np.int32)
        master = JobMaster(self.job)
        master.checkpoints.ledger.statistics = cast(Any, Unwatched())
        rows[0, 0] = self.machines[0].number(master)
        self._deliver(rows, np.arange(1), 0, self._all(1, self.words.number(StartJob())))
        return rows

    def successors(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Return where this step may be the next, and its results there."""
        return self._STEPS[step.kind](self, rows, step)

    def _overtake(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Let a barrier arrive with all that is before it on its channel, before the task takes any of that."""
        column = self.wires + step.number
        words = self._overtaking.of(rows[:, column])
        places = np.flatnonzero((words != 0) & (rows[:, step.machine] != 0))
        made = rows[places]
        if len(places):
            made[:, column] = self._behind.of(made[:, column])
            self._deliver(made, np.arange(len(made)), step.machine, words[places])
        return places, made

    def _with_barrier(self, queue: int) -> int:
        """Return the first barrier that may overtake, with what is before it; 0 unless both exist."""
        words = self.queues.values[queue][: self._up_to_barrier(queue)]
        return self.words.number(Arrivals(events=tuple(self.words[each] for each in words))) if len(words) > 1 else 0

    def _behind_barrier(self, queue: int) -> int:
        return self.queues.number(self.queues.values[queue][self._up_to_barrier(queue) :])

    def _up_to_barrier(self, queue: int) -> int:
        """Return the number of elements up to and including the first barrier that may overtake; 0 without one."""
        elements = [self.words[each].element for each in self.queues.values[queue]]
        overtaking = (isinstance(each, CheckpointBarrier) and each.options.is_unaligned for each in elements)
        return next((place for place, overtakes in enumerate(overtaking, 1) if overtakes), 0)

    def barriers_on(self, rows: Rows, channel: int) -> npt.NDArray[np.bool_]:
        """Return where a barrier that may overtake is behind something on a channel."""
        return self._overtaking.holds(rows[:, self.wires + channel])

    def _taken(self, rows: Rows, column: int, receiver: int) -> tuple[Places, Rows]:
        """Let the first element of a queue arrive."""
        places = np.flatnonzero(rows[:, column])
        made = rows[places]
        if len(places):
            heads = self.queues.heads(made[:, column])
            made[:, column] = self.queues.tails(made[:, column])
            everywhere = np.arange(len(made))
            if self.mail_to <= column < self.mail_from:
                self._answer_unknown(made, receiver, heads)
            self._deliver(made, everywhere, receiver, heads)
        return places, made

    def _answer_unknown(self, made: Rows, task: int, heads: Ids) -> None:
        """Let a slot answer for a missing task; an existing one drops such a message itself."""
        changes = self._unknown.of(made[:, task] * 0 + made[:, task] * 64 + task, heads)
        hit = np.flatnonzero(changes)
        if len(hit):
            column = self.mail_from + task
            made[hit, column] = self.queues.after(made[hit, column], changes[hit])
            heads[hit] = 0

    def _answer_for_unknown(self, key: int, number: int) -> int:
        state, task = divmod(key, 64)
        machine = self.machines[task].machines[state]
        there = machine if isinstance(machine, StreamTask) else None
        if isinstance(machine, Broken):
            return 0
        answer = answer_for_unknown_task(self.words[number], there, self.job.job_id)
        return 0 if answer is None else self.queues.changes.number((self.words.number(answer),))

    def _turns(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        places = np.flatnonzero(self.machines[step.machine].has_turn.of(rows[:, step.machine]))
        made = rows[places]
        self._deliver(made, np.arange(len(made)), step.machine, self._all(len(made), self.turn))
        return places, made

    def _fired(self, rows: Rows, step: Step, *, expiries: bool, is_fault: bool = True) -> tuple[Places, Rows]:
        """Let a timer fire; the expiry of a checkpoint is a fault, unless a loss led to it, which is one already."""
        column = self.timer + step.machine
        timers = self.timers.member(rows[:, column], step.number)
        different = np.unique(timers).tolist()
        chosen = [each for each in different if each and self.words[each].timer.startswith(EXPIRY) == expiries]
        may = np.isin(timers, chosen)
        if expiries and is_fault:
            may &= rows[:, self.failed] < self.faults
        places = np.flatnonzero(may)
        made = rows[places]
        if len(places):
            made[:, self.failed] += int(expiries and is_fault)
            made[:, column] = self.timers.without(made[:, column], step.number)
            self._deliver(made, np.arange(len(made)), step.machine, timers[places])
        return places, made

    def _works(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        column = self.work + step.machine
        commands = self.bags.member(rows[:, column], step.number)
        places = np.flatnonzero(commands)
        made = rows[places]
        if len(places):
            commands = commands[places]
            made[:, column] = self.bags.without(made[:, column], step.number)
            self._carry_out(made, step.machine, commands)
        return places, made

    def _fail(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Let work end in the failure that its command declares."""
        column = self.work + step.machine
        commands = self.bags.member(rows[:, column], step.number)
        failures = self.failures.of(commands)
        places = np.flatnonzero((failures != 0) & (rows[:, self.failed] < self.faults))
        made = rows[places]
        if len(places):
            made[:, self.failed] += 1
            made[:, column] = self.bags.without(made[:, column], step.number)
            self._deliver(made, np.arange(len(made)), step.machine, failures[places])
        return places, made

    def _failure_of(self, number: int) -> int:
        command = self.words[number]
        answer = None if command is None else command.failed(OSError(FAILED))
        return 0 if answer is None else self.words.number(answer)

    def _lose(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Lose an acknowledgement."""
        places, made = self._with_acknowledgement(rows, step)
        column = self.mail_from + step.machine
        made[:, column] = self.queues.tails(made[:, column])
        return places, made

    def _repeat(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Deliver an acknowledgement that will arrive again."""
        places, made = self._with_acknowledgement(rows, step)
        heads = self.queues.heads(made[:, self.mail_from + step.machine])
        self._deliver(made, np.arange(len(made)), 0, heads)
        return places, made

    def _with_acknowledgement(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        heads = self.queues.heads(rows[:, self.mail_from + step.machine])
        acknowledgements = [
            each for each in np.unique(heads).tolist() if isinstance(self.words[each], AcknowledgeCheckpoint)
        ]
        places = np.flatnonzero(np.isin(heads, acknowledgements) & (rows[:, self.failed] < self.faults))
        made = rows[places]
        made[:, self.failed] += 1
        return places, made

    def _carry_out(self, made: Rows, machine: int, commands: Ids) -> None:
        answers = np.zeros(len(made), np.int32)
        for number in np.unique(commands).tolist():
            at = np.flatnonzero(commands == number)
            command = self.words[number]
            if isinstance(command, StopEpoch):
                self._stop(made, at)
                answers[at] = self.words.number(EpochEnded(epoch=command.epoch))
            elif isinstance(command, StopTasks):
                self._stop_tasks(made, at[self._epochs.of(made[at, 0]) == command.epoch], command)
                answers[at] = self.words.number(command.stopped())
            else:
                answers[at] = self._file_work(made, at, machine, number)
        answered = np.flatnonzero(answers)
        self._deliver(made, answered, machine, answers[answered])

    def _file_work(self, made: Rows, at: Places, machine: int, number: int) -> Ids:
        column = self.disk + machine
        commands = self._all(len(at), number)
        disks_of_others = range(self.disk + 1, self.disk + len(self.machine_names))
        if self.disks.reads(number):
            disks = self.disks.together([made[at, each] for each in disks_of_others])
            return self.disks.carry_out(disks, commands, for_job=False)[1]
        if self.disks.is_for_all(number):
            others = self.disks.for_others.of(made[at, column], commands)
            for there in disks_of_others:
                made[at, there] = self.disks.carry_out(made[at, there], others, for_job=True)[0]
        made[at, column], answers = self.disks.carry_out(made[at, column], commands, for_job=machine == 0)
        return answers

    def _stop(self, made: Rows, at: Places) -> None:
        """Remove everything of the epoch; messages to a task that was killed before still arrive."""
        for machine in range(1, len(self.machine_names)):
            self._forget(made, at[made[at, machine] != 0], machine)
        made[at, self.wires : self.wires + self.graph.channel_count] = 0
        made[at, self.work] = self._only_epochs.of(made[at, self.work])

    def _without_stops_of_tasks(self, bag: int) -> int:
        """Return the JobMaster's work without the stops of regions, which the end of their epoch includes."""
        kept = (each for each in self.bags.values[bag] if not isinstance(self.words[each], StopTasks))
        return self.bags.number(tuple(kept))

    def _stop_tasks(self, made: Rows, at: Places, command: StopTasks) -> None:
        """Cancel the tasks of regions, then remove them with everything in flight; the others keep running."""
        there = {}
        for task in (self.number_of[name] for name in command.tasks):
            there[task] = exist = at[made[at, task] != 0]
            cancels = self._cancels.of(made[exist, task] * 0 + task, made[exist, task])
            live = np.flatnonzero(cancels)
            self._deliver(made, exist[live], task, cancels[live])
        for task, exist in there.items():
            self._forget(made, exist, task)
            self._cut_off(made, exist, task)

    def _cancel_for(self, task: int, state: int) -> int:
        """Return the message that cancels a task; 0 if it has ended."""
        machine = self.machines[task].machines[state]
        if not isinstance(machine, StreamTask) or machine.state.is_terminal:
            return 0
        return self.words.number(CancelTask(task=machine.name, attempt=machine.attempt))

    def _epoch_of(self, state: int) -> int:
        master = self.machines[0].machines[state]
        return master.epoch if isinstance(master, JobMaster) else 0

    def _cut_off(self, made: Rows, at: Places, task: int) -> None:
        """Remove what is in flight on the channels of a task."""
        for number in self.channels_of[task]:
            made[at, self.wires + number] = 0

    def _forget(self, made: Rows, at: Places, machine: int) -> None:
        for first in (0, self.mail_to, self.mail_from, self.work, self.timer):
            made[at, first + machine] = 0

    def _kill(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        killed = [machine for machine, slot in self.slot_of.items() if slot == step.number]
        alive = (rows[:, killed] != 0).any(axis=1)
        places = np.flatnonzero(alive & (rows[:, self.failed] < self.faults))
        made = rows[places]
        everywhere = np.arange(len(made))
        for machine in killed:
            self._forget(made, everywhere, machine)
            if machine in self.channels_of:
                self._cut_off(made, everywhere, machine)
        made[:, self.failed] += 1
        self._deliver(made, everywhere, 0, self._all(len(made), self.words.number(Killed(slot=step.number))))
        self._dismiss(made)
        return places, made

    def _dismiss(self, made: Rows) -> None:
        """Let the workers of the epoch, or the tasks of its regions, leave at once, if the JobMaster asks for it."""
        for place in range(MOST_TRIED):
            commands = self.bags.member(made[:, self.work], place)
            different = np.unique(commands).tolist()
            stops = [number for number in different if isinstance(self.words[number], StopEpoch | StopTasks)]
            at = np.flatnonzero(np.isin(commands, stops))
            if len(at):
                some = made[at]
                some[:, self.work] = self.bags.without(some[:, self.work], place)
                self._carry_out(some, 0, commands[at])
                made[at] = some

    def _request(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        machines = self.machines[0].machines
        known = {number: own.takes_requests(machines[number]) for number in {*np.unique(rows[:, 0]).tolist()}}
        may_ask = np.array([known[number] for number in rows[:, 0].tolist()], bool)
        places = np.flatnonzero(may_ask & (rows[:, self.asked] < self.requests))
        made = rows[places]
        if len(places):
            made[:, self.asked] += 1
            numbers = [self.words.number(RequestCheckpoint(request_id=each)) for each in range(self.requests + 1)]
            self._deliver(made, np.arange(len(made)), 0, np.array(numbers, np.int32)[made[:, self.asked]])
        return places, made

    _STEPS: ClassVar[dict[str, Callable[[Space, Rows, Step], tuple[Places, Rows]]]] = {
        "message": lambda self, rows, step: self._taken(rows, self.mail_to + step.machine, step.machine),
        "report": lambda self, rows, step: self._taken(rows, self.mail_from + step.machine, 0),
        "wire": lambda self, rows, step: self._taken(rows, self.wires + step.number, step.machine),
        "overtake": _overtake,
        "turn": _turns,
        "timer": partial(_fired, expiries=False),
        "work": _works,
        "request": _request,
        "kill": _kill,
        "expire": partial(_fired, expiries=True),
        "overdue": partial(_fired, expiries=True, is_fault=False),
        "fail": _fail,
        "lose": _lose,
        "repeat": _repeat,
    }

    def word_of(self, row: Rows, step: Step) -> int:
        """Return the word that a step in the state of `row` is about; 0 if there is none."""
        machine = step.machine
        if step.kind == "message":
            return int(self.queues.heads(row[:, self.mail_to + machine])[0])
        if step.kind in ("report", "lose", "repeat"):
            return int(self.queues.heads(row[:, self.mail_from + machine])[0])
        if step.kind == "overtake":
            return int(self._overtaking.of(row[:, self.wires + step.number])[0])
        if step.kind == "wire":
            return int(self.queues.heads(row[:, self.wires + step.number])[0])
        if step.kind in ("work", "fail"):
            return int(self.bags.member(row[:, self.work + machine], step.number)[0])
        if step.kind in ("timer", "expire", "overdue"):
            return int(self.timers.member(row[:, self.timer + machine], step.number)[0])
        return 0

    def broken(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return in which rows a machine has broken."""
        found = np.zeros(len(rows), bool)
        for number, states in enumerate(self.machines):
            found |= states.is_broken.of(rows[:, number])
        return found

    def errors(self, row: Rows) -> list[str]:
        """Return why machines have broken in the state of this row."""
        found = [states.machines[row[0, number]] for number, states in enumerate(self.machines)]
        return [machine.error for machine in found if isinstance(machine, Broken)]

    # --- effects of steps -----------------------------------------------------------------------------------------

    @staticmethod
    def _all(count: int, number: int) -> Ids:
        return np.full(count, number, np.int32)

    def _deliver(self, made: Rows, at: Places, machine: int, words: Ids) -> None:
        """Let a machine take an event in each of the rows `at`, and then others the events that it led to."""
        if len(at):
            self._go_on(made, at, self._handle(made, at, machine, words), ())

    def _go_on(self, made: Rows, at: Places, handed: Ids, waiting: tuple[tuple[int, int], ...]) -> None:
        """Deliver in order: first the waiting events, then the latest ones."""
        for number in np.unique(handed).tolist():
            rest = (*waiting, *self.states.handings[number])
            if rest:
                here = at[handed == number]
                (machine, word), *others = rest
                self._go_on(made, here, self._handle(made, here, machine, self._all(len(here), word)), tuple(others))

    def _handle(self, made: Rows, at: Places, machine: int, words: Ids) -> Ids:
        states = self.machines[machine]
        outcomes = states.step(made[at, machine], words)
        made[at, machine] = states.next_states.of(outcomes)
        for column in states.columns:
            changes = states.changes(column, outcomes)
            hit = np.flatnonzero(changes)
            if len(hit):
                places = at[hit]
                made[places, column] = self._asked.after(column, made[places, column], changes[hit])
        return states.handed.of(outcomes)


FAILED = "it failed in the lab"
EXPIRY = "checkpoint-timeout-"


def _hears(operator: Operator) -> bool:
    """Return True if code of the user is notified of a complete checkpoint: a listener, or an operator of its own."""
    own_hook = type(operator).notify_checkpoint_complete.__module__.partition(".")[0] != "kit"
    return own_hook or operator.checkpoint_listener is not None
