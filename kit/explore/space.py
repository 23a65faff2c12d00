"""All states that a job in the lab can come to, as rows of numbers, and what may happen in each.

A state of the world is a row: each machine's state, the messages on each way, the elements on each channel, the work
and the timers of each machine, and each machine's disk, every one by number. `Space.successors` takes many rows and
one action, and gives what comes of it where it may happen: the rules are those of `kit.lab.world`, which a test holds
them to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from kit.channel.slot_channel_state import SlotChannelState, slot_name
from kit.explore import machines as own
from kit.explore.digest import Digester
from kit.explore.files import Disks
from kit.explore.machines import Broken, DueTimer, Killed, MachineStates, Outcome, States, Unwatched
from kit.explore.queues import Bags, Queues, Timers
from kit.explore.tables import Function, Ids, Rows
from kit.explore.words import Words
from kit.graph.execution_graph import ExecutionGraph
from kit.graph.job_graph import JobGraph
from kit.job.job_master import JobMaster
from kit.lab.world import JOB
from kit.protocol.commands import (
    CancelTimer,
    CompleteRequest,
    GrantCredit,
    ReadSplit,
    ScheduleTimer,
    SendElement,
    StartEpoch,
    StopEpoch,
)
from kit.protocol.duties import Duty
from kit.protocol.events import CreditReceived, ElementReceived, EpochEnded, ProcessInput, RequestCheckpoint, StartJob
from kit.protocol.messages import (
    AcknowledgeCheckpoint,
    JobMessage,
    OutputDataDecided,
    SlotMessage,
    SubmitChannelState,
    TaskMessage,
)
from kit.protocol.words import Machine
from kit.task.stream_task import StreamTask
from kit.task.unknown_task import answer_for_unknown_task

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of thing that may happen: to whom, and (a channel, a place in a bag, a slot) which of several."""

    kind: str
    machine: int = 0
    number: int = 0


class Space:
    """The states of one job."""

    def __init__(
        self, job: JobGraph, *, requests: int, faults: int, kinds: Collection[str] = ("kill",), exact: bool = False
    ) -> None:
        """At most `requests` checkpoints are asked for, and `faults` faults happen, of these `kinds` (`FAULTS`). With
        `exact` a task's turn is always a step of its own.
        """
        self.job = job
        self.takes_turns = not (exact or job.settings.checkpoint.unaligned)
        """Whether tasks with inputs take what arrives in the same step."""
        self.kinds = frozenset(kinds) if faults else frozenset()
        self.graph = ExecutionGraph(job)
        self._graphs: dict[tuple[tuple[str, int], ...], ExecutionGraph] = {}
        self._begun: dict[tuple[tuple[tuple[str, int], ...], int], dict[int, int]] = {}
        self._names: dict[int, str] = {}
        self._shared: dict[int, Any] = {}
        self._share_all()
        self.digester = Digester(self._names)
        self.words = Words(self.digester)
        self.states = States(
            self.digester, self.words, self._shared.copy, self._translate, takes_turns=self.takes_turns
        )
        self.requests, self.faults = requests, faults
        self._lay_out()
        self.queues, self.bags = Queues(), Bags(self.words)
        self.timers = Timers(self.words, lambda name, due: self.words.number(DueTimer(timer=name, due_ms=due)))
        self.disks = Disks(job, self.words, self.digester)
        self.machines = [MachineStates(name, self.states) for name in self.machine_names]
        self._after: list[Callable[[Ids, Ids], Ids]] = self._changers()
        self.failures = Function(self._failure_of)
        self._unknown = Function(self._answer_for_unknown)
        self.turn = self.words.number(ProcessInput())
        self.steps = tuple(self._all_steps())
        self.steps_at_rest = [Step("overdue", 0, place) for place in range(MOST_TIMERS) if "lose" in self.kinds]
        """What may happen when nothing else can any more: what was lost is waited for no longer."""

    # --- what a row is --------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        tasks = [task.task for task in self.graph.tasks]
        slots = sorted({task.subtask_index for task in self.graph.tasks})
        unaligned = self.job.settings.checkpoint.unaligned
        self.slots = slots
        self.machine_names = [JOB, *tasks, *(slot_name(slot) for slot in slots if unaligned)]
        self.number_of = {name: number for number, name in enumerate(self.machine_names)}
        self.tasks = range(1, 1 + len(tasks))
        self.slot_of = {self.number_of[task.task]: task.subtask_index for task in self.graph.tasks}
        self.slot_of |= {self.number_of[slot_name(slot)]: slot for slot in slots if unaligned}
        columns: list[str] = [*self.machine_names]

        def add(names: Iterator[str]) -> int:
            first = len(columns)
            columns.extend(names)
            return first

        machines = self.machine_names
        self.mail_to = add(f"to {name}" for name in machines)
        self.mail_from = add(f"from {name}" for name in machines)
        self.wires = add(f"channel {number}" for number in range(self.graph.channel_count))
        self.work = add(f"work of {name}" for name in machines)
        self.timer = add(f"timers of {name}" for name in machines)
        self.disk = add(f"disk of {name}" for name in machines)
        self.asked, self.failed = (add(iter([name])) for name in ("asked", "failed"))
        self.columns = tuple(columns)

    def _share_all(self) -> None:
        self._share(self.job, "job")
        self._share(self.job.settings, "settings")
        for number, vertex in enumerate(self.job.vertices):
            self._share(vertex, f"vertex {number}")
            for place, each in enumerate((*vertex.operators, *vertex.inputs)):
                self._share(each, f"vertex {number}, {place}")
        self._share_graph(self.graph)

    def _share(self, value: object, name: str) -> None:
        self._shared[id(value)] = value
        self._names[id(value)] = name

    def _share_graph(self, graph: ExecutionGraph) -> None:
        """Graphs never change either; those of the same parallelism are the same."""
        if id(graph) not in self._shared:
            key = tuple(sorted(graph.parallelism.items()))
            self._graphs.setdefault(key, graph)
            self._share(graph, f"graph {key}")
            for task in graph.tasks:
                self._share(task, f"{task.task} of {key}")

    def _changers(self) -> list[Callable[[Ids, Ids], Ids]]:
        after: list[Callable[[Ids, Ids], Ids]] = [_replaced] * len(self.columns)
        first_after = [(self.mail_to, self.queues), (self.work, self.bags), (self.timer, self.timers)]
        for first, contents in first_after:
            end = self.work if first == self.mail_to else first + len(self.machine_names)
            for column in range(first, end):
                after[column] = contents.after
        return after

    # --- what a machine asks for ----------------------------------------------------------------------------------

    def _translate(self, machine: Machine, commands: list[Any]) -> Outcome:
        """The commands of one step as changes to columns, and what is handed on at once."""
        if isinstance(machine, JobMaster):
            self._share_graph(machine.graph)
        me = self.number_of[machine.name]
        changes: dict[int, list[Any]] = {}
        handed: list[tuple[int, int]] = []
        outcome = Outcome(0)

        def change(column: int, what: Any) -> None:
            changes.setdefault(column, []).append(what)

        for command in commands:
            duty = command.duty
            if duty in (Duty.OBSERVE, Duty.SHOW_STATUS) or isinstance(command, CompleteRequest):
                continue
            if isinstance(command, TaskMessage):
                change(self.mail_to + self.number_of[command.task], self.words.number(command))
            elif isinstance(command, JobMessage):
                change(self.mail_from + me, self.words.number(command))
            elif isinstance(command, SendElement):
                received = ElementReceived(channel=command.channel, element=command.element)
                change(self.wires + command.channel, self.words.number(received))
            elif isinstance(command, GrantCredit):
                sender = self.number_of[self.graph.channels[command.channel].source_task]
                credit = CreditReceived(channel=command.channel, credits=command.credits)
                handed.append((sender, self.words.number(credit)))
            elif isinstance(command, SlotMessage):
                handed.append((self._receiver(command), self.words.number(command)))
            elif isinstance(command, ScheduleTimer):
                change(self.timer + me, (command.timer, command.due_ms))
            elif isinstance(command, CancelTimer):
                change(self.timer + me, (command.timer, None))
            elif isinstance(command, ReadSplit):
                answer = self.disks.read(command)
                if answer is not None:
                    handed.append((me, self.words.number(answer)))
            elif isinstance(command, StartEpoch):
                outcome.changes |= self._begin(command)
            elif duty in (Duty.WORK, Duty.CLEAN_UP, Duty.STOP_EPOCH, Duty.STOP_WORK):
                change(self.work + me, (self.words.number(command), duty is not Duty.STOP_WORK))
            else:
                raise AssertionError(f"nobody sees to {command!r}")
        for column, items in changes.items():
            contents = self._contents(column)
            outcome.changes[column] = contents.changes.number(tuple(items))
        outcome.handed = tuple(handed)
        return outcome

    def _contents(self, column: int) -> Queues | Bags:
        if self.work <= column < self.timer:
            return self.bags
        return self.timers if self.timer <= column < self.disk else self.queues

    def change(self, column: int, number: int) -> tuple[Any, ...]:
        """What a change by number does to a column that is a queue or a bag: all that is added, in order."""
        found: tuple[Any, ...] = self._contents(column).changes[number]
        return found

    def _receiver(self, message: SlotMessage) -> int:
        task = self.number_of[message.task]
        if isinstance(message, SubmitChannelState | OutputDataDecided):
            return self.number_of[slot_name(self.slot_of[task])]
        return task

    def _begin(self, command: StartEpoch) -> dict[int, int]:
        """Tasks and slots of a new epoch."""
        key = tuple(sorted(command.parallelism.items()))
        known = self._begun.get((key, command.epoch))
        if known is not None:
            return known
        graph = self._graphs[key]
        made: list[Machine] = [StreamTask(graph, task.task, command.epoch) for task in graph.tasks]
        if self.job.settings.checkpoint.unaligned:
            made += [SlotChannelState.of(graph, slot, command.epoch) for slot in self.slots]
        begun = {self.number_of[each.name]: self.machines[self.number_of[each.name]].number(each) for each in made}
        self._begun[key, command.epoch] = begun
        return begun

    # --- what may happen ------------------------------------------------------------------------------------------

    def first(self) -> Rows:
        """The state in which the job is about to start, when it has been told to."""
        rows = np.zeros((1, len(self.columns)), np.int32)
        master = JobMaster(self.job)
        master.checkpoints.ledger.statistics = cast(Any, Unwatched())
        rows[0, 0] = self.machines[0].number(master)
        self._deliver(rows, np.arange(1), 0, self._all(1, self.words.number(StartJob())))
        return rows

    def _all_steps(self) -> Iterator[Step]:
        yield from self._plain_steps()
        yield Step("request")
        yield from self.faults_of(None)

    def _plain_steps(self) -> Iterator[Step]:
        machines = range(len(self.machine_names))
        for task in self.tasks:
            yield Step("message", task)
            yield Step("report", task)
        for channel in range(self.graph.channel_count):
            yield Step("wire", self.number_of[self.graph.channels[channel].target_task], channel)
        for task in self.tasks:
            yield Step("turn", task)
        for machine in machines:
            for place in range(MOST_TRIED):
                yield Step("work", machine, place)
        for machine in machines:
            for place in range(MOST_TIMERS):
                yield Step("timer", machine, place)

    def faults_of(self, step: Step | None) -> Iterator[Step]:
        """The faults that may happen at any time; for a step also those that may happen in its place."""
        for slot in self.slots if "kill" in self.kinds else ():
            yield Step("kill", 0, slot)
        for place in range(MOST_TIMERS) if "expire" in self.kinds else ():
            yield Step("expire", 0, place)
        if step is None:
            for each in self._plain_steps():
                yield from self._instead_of(each)
        else:
            yield from self._instead_of(step)

    def _instead_of(self, step: Step) -> Iterator[Step]:
        if step.kind == "work" and "fail" in self.kinds:
            yield Step("fail", step.machine, step.number)
        elif step.kind == "report":
            yield from (Step(kind, step.machine) for kind in ("lose", "repeat") if kind in self.kinds)

    def successors(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """Where this step may be the next, and what comes of it there."""
        return self._STEPS[step.kind](self, rows, step)

    def _message(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        return self._taken(rows, self.mail_to + step.machine, step.machine)

    def _report(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        return self._taken(rows, self.mail_from + step.machine, 0)

    def _wire(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        return self._taken(rows, self.wires + step.number, step.machine)

    def _taken(self, rows: Rows, column: int, receiver: int) -> tuple[Places, Rows]:
        """The first of a queue arrives."""
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
        """A slot answers for a task that is not there; what is there drops such a message itself."""
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

    def _timers(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        return self._fired(rows, step, expiries=False)

    def _expire(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        return self._fired(rows, step, expiries=True)

    def _overdue(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """A checkpoint takes too long because something of it was lost: that is the fault, not this."""
        return self._fired(rows, step, expiries=True, is_fault=False)

    def _fired(self, rows: Rows, step: Step, *, expiries: bool, is_fault: bool = True) -> tuple[Places, Rows]:
        """A timer fires; that of a checkpoint that takes too long is a fault."""
        column = self.timer + step.machine
        timers = self.timers.member(rows[:, column], step.number)
        different = np.unique(timers).tolist()
        chosen = [each for each in different if each and _is_expiry(self.words[each].timer) == expiries]
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
        """A work ends in the failure that its command declares."""
        column = self.work + step.machine
        commands = self.bags.member(rows[:, column], step.number)
        failures = self.failures.of(commands * 0, commands)
        places = np.flatnonzero((failures != 0) & (rows[:, self.failed] < self.faults))
        made = rows[places]
        if len(places):
            made[:, self.failed] += 1
            made[:, column] = self.bags.without(made[:, column], step.number)
            self._deliver(made, np.arange(len(made)), step.machine, failures[places])
        return places, made

    def _failure_of(self, nothing: int, number: int) -> int:
        command = self.words[number]
        answer = None if command is None else command.failed(OSError(FAILED))
        return 0 if answer is None else self.words.number(answer)

    def _lose(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """An acknowledgement never arrives."""
        places, made = self._with_acknowledgement(rows, step)
        column = self.mail_from + step.machine
        made[:, column] = self.queues.tails(made[:, column])
        return places, made

    def _repeat(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        """An acknowledgement arrives, and will arrive again."""
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
            else:
                answers[at] = self._file_work(made, at, machine, number)
        answered = np.flatnonzero(answers)
        self._deliver(made, answered, machine, answers[answered])

    def _file_work(self, made: Rows, at: Places, machine: int, number: int) -> Ids:
        column = self.disk + machine
        commands = self._all(len(at), number)
        if self.disks.reads(number):
            disks = self.disks.together([made[at, self.disk + each] for each in self._read_from(number, machine)])
            return self.disks.carry_out(disks, commands, for_job=False)[1]
        if self.disks.is_for_all(number):
            others = self.disks.for_others(made[at, column], commands)
            for other in range(1, len(self.machine_names)):
                there = self.disk + other
                made[at, there] = self.disks.carry_out(made[at, there], others, for_job=True)[0]
        made[at, column], answers = self.disks.carry_out(made[at, column], commands, for_job=machine == 0)
        return answers

    def _read_from(self, number: int, machine: int) -> list[int]:
        return list(range(1, len(self.machine_names)))

    def _stop(self, made: Rows, at: Places) -> None:
        """Everything of the epoch is gone; what was said to a task that had been killed before still arrives."""
        for machine in range(1, len(self.machine_names)):
            self._forget(made, at[made[at, machine] != 0], machine)
        made[at, self.wires : self.wires + self.graph.channel_count] = 0

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
        names = {self.machine_names[machine] for machine in killed}
        for number, channel in enumerate(self.graph.channels):
            if channel.source_task in names or channel.target_task in names:
                made[:, self.wires + number] = 0
        made[:, self.failed] += 1
        self._deliver(made, everywhere, 0, self._all(len(made), self.words.number(Killed(slot=step.number))))
        self._dismiss(made)
        return places, made

    def _dismiss(self, made: Rows) -> None:
        """The workers that are left of the epoch leave at once, where that is what the JobMaster asks for."""
        for place in range(MOST_TRIED):
            commands = self.bags.member(made[:, self.work], place)
            stops = [number for number in np.unique(commands).tolist() if isinstance(self.words[number], StopEpoch)]
            at = np.flatnonzero(np.isin(commands, stops))
            if len(at):
                some = made[at]
                some[:, self.work] = self.bags.without(some[:, self.work], place)
                self._carry_out(some, 0, commands[at])
                made[at] = some

    def _request(self, rows: Rows, step: Step) -> tuple[Places, Rows]:
        may_ask = self._may_ask(rows[:, 0]) & (rows[:, self.asked] < self.requests)
        places = np.flatnonzero(may_ask)
        made = rows[places]
        if len(places):
            made[:, self.asked] += 1
            numbers = [self.words.number(RequestCheckpoint(request_id=each)) for each in range(self.requests + 1)]
            self._deliver(made, np.arange(len(made)), 0, np.array(numbers, np.int32)[made[:, self.asked]])
        return places, made

    def _may_ask(self, states: Ids) -> npt.NDArray[np.bool_]:
        """Where a checkpoint may be asked for."""
        machines = self.machines[0].machines
        known = {number: own.takes_requests(machines[number]) for number in {*np.unique(states).tolist()}}
        return np.array([known[number] for number in states.tolist()], bool)

    _STEPS: ClassVar[dict[str, Callable[[Space, Rows, Step], tuple[Places, Rows]]]] = {
        "message": _message,
        "report": _report,
        "wire": _wire,
        "turn": _turns,
        "timer": _timers,
        "work": _works,
        "request": _request,
        "kill": _kill,
        "expire": _expire,
        "overdue": _overdue,
        "fail": _fail,
        "lose": _lose,
        "repeat": _repeat,
    }

    def word_of(self, row: Rows, step: Step) -> int:
        """The word that a step in the state of `row` is about; 0 where it is about none."""
        machine = step.machine
        if step.kind == "message":
            return int(self.queues.heads(row[:, self.mail_to + machine])[0])
        if step.kind in ("report", "lose", "repeat"):
            return int(self.queues.heads(row[:, self.mail_from + machine])[0])
        if step.kind == "wire":
            return int(self.queues.heads(row[:, self.wires + step.number])[0])
        if step.kind in ("work", "fail"):
            return int(self.bags.member(row[:, self.work + machine], step.number)[0])
        if step.kind in ("timer", "expire", "overdue"):
            return int(self.timers.member(row[:, self.timer + machine], step.number)[0])
        return 0

    def broken(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """In which rows a machine has broken."""
        found = np.zeros(len(rows), bool)
        for number, states in enumerate(self.machines):
            found |= states.is_broken.of(rows[:, number])
        return found

    def errors(self, row: Rows) -> list[str]:
        """Why machines have broken in the state of this row."""
        found = [states.machines[row[0, number]] for number, states in enumerate(self.machines)]
        return [machine.error for machine in found if isinstance(machine, Broken)]

    # --- how it happens -------------------------------------------------------------------------------------------

    @staticmethod
    def _all(count: int, number: int) -> Ids:
        return np.full(count, number, np.int32)

    def _deliver(self, made: Rows, at: Places, machine: int, words: Ids) -> None:
        """A machine takes an event in each of the rows `at`, and then others what is handed to them at once."""
        if len(at):
            self._go_on(made, at, self._handle(made, at, machine, words), ())

    def _go_on(self, made: Rows, at: Places, handed: Ids, waiting: tuple[tuple[int, int], ...]) -> None:
        """In order: what waited, then what was handed on last."""
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
                made[places, column] = self._after[column](made[places, column], changes[hit])
        return states.handed.of(outcomes)

    def __repr__(self) -> str:
        return f"Space({self.job.name}: {len(self.columns)} columns)"


FAILED = "it failed in the lab"
EXPIRY = "checkpoint-timeout-"
MOST_TRIED = 6
MOST_TIMERS = 4


def _replaced(numbers: Ids, changes: Ids) -> Ids:
    return changes


def _is_expiry(timer: str) -> bool:
    return timer.startswith(EXPIRY)
