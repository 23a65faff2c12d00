"""The world of a lab: its machines and everything around them. It carries out the machines' commands.

The world consists of one JobMaster, the tasks and slots of the current epoch, the messages and elements in flight
between them, timers, pending reads and writes, files, and the virtual time. It does not decide what happens next:
`enabled` lists the possible actions, and `perform` takes one. A world can be copied, which makes rewinding possible.

Time is virtual: every action takes `ACTION_MS`. When only a timer can fire, time jumps to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import (
    AwaitRows,
    CancelTimer,
    CompleteRequest,
    GrantCredit,
    JobStatusChanged,
    ReadSplit,
    ScheduleTimer,
    SendElement,
    StartEpoch,
    StartTasks,
    StopEpoch,
    StopTasks,
)
from kit.core.protocol.duties import Command, Duty, Failure, by_command, refused
from kit.core.protocol.elements import CreditedElement, Element
from kit.core.protocol.events import (
    CreditReceived,
    ElementReceived,
    EpochEnded,
    ProcessInput,
    RowsAvailable,
    SlotLost,
    SubtasksRedeployed,
    TimerFired,
)
from kit.core.protocol.messages import (
    CancelTask,
    JobMessage,
    OutputDataDecided,
    SlotMessage,
    SubmitChannelState,
    TaskMessage,
)
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Envelope, Machine, ProtocolMessage
from kit.core.trace.trace import Trace
from kit.hosts.lab.world.actions import (
    Action,
    CarryOut,
    DeliverMessage,
    FireTimer,
    LetTimePass,
    ReceiveElement,
    TakeTurn,
)
from kit.hosts.lab.world.agenda import Agenda
from kit.hosts.lab.world.copying import copy_of
from kit.hosts.lab.world.edge import LabEdge
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.machines.task.stream_task import StreamTask
from kit.machines.task.unknown_task import answer_for_unknown_task
from kit.stream.graph.epoch_shape import epoch_shape
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph

ACTION_MS = 1
CHANNELS_CHECKED = 4
"""The number of inputs whose check after each event is affordable; a task with more inputs is checked less often."""
JOB = "job"
FAILURES_KEPT = 20
_TURN = ProcessInput()


class World:
    """The state of a lab at one moment."""

    follows = False
    """True while the world follows a recording (`kit.hosts.lab.recordings.following`), until it leaves it."""

    def __init__(self, job: JobGraph, edge: LabEdge) -> None:
        self.job = job
        self.edge = edge
        self.master = JobMaster(job, tuple(edge.hooks))
        self.graph: ExecutionGraph = self.master.graph
        self.tasks: dict[str, StreamTask] = {}
        self.trace = Trace(detailed=True)
        self.at_ms = 0
        self.answers: dict[int, CompleteRequest] = {}
        self.failures: dict[str, Exception] = {}
        """What ended the last tasks that failed, by task and attempt (`sums/1@2`)."""
        self.graphs: list[ExecutionGraph] = []
        """Each epoch's execution graph."""
        self._late_before_the_end: dict[str, dict[str, int]] = {}
        self._metrics_before_the_end: list[tuple[int, dict[str, Any]]] = []
        self.agenda = Agenda()
        self.slots: dict[str, SlotChannelState] = {}
        """The channel state machines of the slots, where there may be unaligned checkpoints."""
        self._handed: deque[tuple[Machine, ProtocolMessage, str]] = deque()
        """What is handed to a machine at once, as soon as the commands before it are carried out."""
        self._handling = False
        self.check_every = 1
        """Each machine is checked after every so many of its events, a task at its end too."""
        self._inputs_checked = 1
        self.frozen: set[int] = set()
        """The workers that stand still."""
        self.driver_is_dead = False
        self.doomed_reads: dict[str, str] = {}
        """The tasks whose next read of their source fails, and how."""
        self.turned_ms: dict[str, int] = {}
        """By how much clocks are turned, by machine."""
        self.faults_told = 0
        """The number of faults that the trace has records of."""
        self._held_credits: list[tuple[str, CreditReceived, str]] = []
        """The credits that frozen senders will receive when they thaw."""

    # --- what may happen ------------------------------------------------------------------------------------------

    def enabled(self) -> list[Action]:
        """Return the enabled actions in a fixed order; letting time pass comes last."""
        self._look_at_sources()
        wait = self.agenda.wait
        return [*self.agenda] if wait is None else [*self.agenda, wait]

    @property
    def enabled_count(self) -> int:
        """Return the number of enabled actions, letting time pass included."""
        self._look_at_sources()
        return len(self.agenda) + (self.agenda.wait is not None)

    @property
    def is_at_rest(self) -> bool:
        """Return True if nothing can happen, not even a timer."""
        self._look_at_sources()
        return not self.agenda and self.agenda.wait is None

    # --- what happens ---------------------------------------------------------------------------------------------

    def perform(self, action: Action) -> None:
        """Take one enabled action. Raises KeyError if it is not enabled."""
        perform = self._PERFORM.get(type(action))
        if perform is not None:
            perform(self, action)
        else:
            action.perform(self)
        if type(action) is not LetTimePass:
            self.at_ms += ACTION_MS
        self.agenda.advance(self.at_ms)
        if self.agenda.awaits:
            self._look_at_sources()

    def _look_at_sources(self) -> None:
        """Find the sources with new rows, from outside the lab, for tasks that wait for some."""
        self.agenda.look_for_awaited(self._has_rows)

    def _has_rows(self, machine: str, command: ProtocolMessage) -> bool:
        assert isinstance(command, AwaitRows)
        answer = self.edge.for_tasks.carry_out(command)
        return isinstance(answer, RowsAvailable) and bool(answer.split_ids)

    def _deliver_message(self, action: DeliverMessage) -> None:
        message = self.agenda.take_message(action.sender, action.receiver)
        if action.receiver == JOB:
            self.deliver(self.master, *message)
            return
        task = self.tasks.get(action.receiver)
        answer = answer_for_unknown_task(message.word, task, self.job.job_id)
        if answer is not None:
            self.agenda.post(action.receiver, JOB, Envelope(answer, message.cause))
        elif task is not None:
            self.deliver(task, *message)

    def _receive_element(self, action: ReceiveElement) -> None:
        sent = self.agenda.take_element(action.channel)
        receiver = self.tasks.get(self.graph.channels[action.channel].target_task)
        if receiver is not None and not receiver.state.is_terminal:
            self.deliver(receiver, ElementReceived(channel=action.channel, element=sent.word.element), sent.cause)

    def _take_turn(self, action: TakeTurn) -> None:
        self.deliver(self.tasks[action.task], _TURN)

    def _fire_timer(self, action: FireTimer) -> None:
        timer = self.agenda.take_timer(action.machine, action.timer)
        machine = self.machine(action.machine)
        if machine is not None:
            self.deliver(machine, TimerFired(timer=timer.word.timer), timer.cause)

    def _do_work(self, action: CarryOut) -> None:
        machine_name, (command, cause) = self.agenda.take_io(action.number)
        machine = self.machine(machine_name)
        if isinstance(command, StopEpoch):
            self._stop_epoch(command, cause)
        elif isinstance(command, StopTasks):
            self._stop_tasks(command, cause)
        elif machine is not None:
            self._carry_out(machine, command, cause)

    def _let_time_pass(self, action: LetTimePass) -> None:
        self.at_ms = max(self.at_ms, action.until_ms)

    _PERFORM: ClassVar[dict[type[Action], Callable[[World, Any], None]]] = {
        DeliverMessage: _deliver_message,
        ReceiveElement: _receive_element,
        TakeTurn: _take_turn,
        FireTimer: _fire_timer,
        CarryOut: _do_work,
        LetTimePass: _let_time_pass,
    }
    """The function of each type of action that happens by itself."""

    def deliver(self, machine: Machine, event: ProtocolMessage, cause: str = "") -> None:
        """Let a machine handle an event, check it, record it, and carry out its commands in order; then do the same for
        events that machines received at once meanwhile.
        """
        if self._handling:
            self._handed.append((machine, event, cause))
            return
        self._handling = True
        try:
            self._handle(machine, event, cause)
            while self._handed:
                self._handle(*self._handed.popleft())
        finally:
            self._handed.clear()
            self._handling = False

    def _handle(self, machine: Machine, event: ProtocolMessage, cause: str) -> None:
        commands = machine.handle(event, self.time_of(machine) if self.turned_ms else self.at_ms, cause)
        if isinstance(machine, StreamTask):
            self.agenda.set_turn(machine.name, machine.available)
            if machine.failure is not None:
                self.failures.setdefault(machine.identity, machine.failure)
                while len(self.failures) > FAILURES_KEPT:
                    del self.failures[next(iter(self.failures))]
            if machine.events_handled % (self.check_every * self._inputs_checked) == 0 or machine.state.is_terminal:
                machine.validate()
        elif machine.events_handled % self.check_every == 0:
            machine.validate()
        self.trace.record(machine, event, commands)
        for number, command in enumerate(commands, 1):
            carry_out = self.CARRY_OUT.get(type(command))
            if carry_out is None:
                raise refused(machine, command)
            carry_out(self, machine, command, f"{machine.event_id}.{number}")

    # --- commands -------------------------------------------------------------------------------------------------

    def _observe(self, machine: Machine, command: Command, cause: str) -> None:
        """Do nothing: the trace already has it."""

    def _tell_task(self, machine: Machine, message: TaskMessage, cause: str) -> None:
        self.agenda.post(JOB, message.task, Envelope(message, cause))

    def _tell_job(self, machine: Machine, message: JobMessage, cause: str) -> None:
        self.agenda.post(machine.name, JOB, Envelope(message, cause))

    def _send(self, machine: Machine, command: SendElement, cause: str) -> None:
        self.agenda.send(Envelope(command, cause))

    def _grant(self, machine: Machine, command: GrantCredit, cause: str) -> None:
        sender = self.tasks.get(self.graph.channels[command.channel].source_task)
        if sender is not None:
            credit = CreditReceived(channel=command.channel, credits=command.credits, max_rows=command.max_rows)
            self.give_credit(sender, credit, cause)

    def _hand_over(self, machine: Machine, message: SlotMessage, cause: str) -> None:
        task = self.tasks.get(message.task)
        to_slot = isinstance(message, SubmitChannelState | OutputDataDecided)
        if task is not None:  # the slot may answer a task that was stopped with its region
            self.deliver(self.slots[slot_name(self.graph.slots.of(task.name))] if to_slot else task, message, cause)

    def _schedule(self, machine: Machine, command: ScheduleTimer, cause: str) -> None:
        self.agenda.schedule(machine.name, Envelope(self.on_the_lab_s_clock(machine, command), cause))

    def _cancel_timer(self, machine: Machine, command: CancelTimer, cause: str) -> None:
        self.agenda.cancel_timer(machine.name, command.timer)

    def _stop_work(self, machine: Machine, command: Any, cause: str) -> None:
        self.agenda.cancel_io(lambda owner, work: owner == machine.name and command.stops(work))

    def _start_epoch(self, machine: Machine, command: StartEpoch, cause: str) -> None:
        attempts = Attempts(command.epoch, command.attempts)
        self.graph = ExecutionGraph(self.job, command.parallelism, command.max_parallelism)
        self.tasks = {task.task: StreamTask(self.graph, task.task, attempts.of(task.task)) for task in self.graph.tasks}
        self.agenda.begin_epoch(self.graph)
        self._inputs_checked = 1 + self.graph.channel_count // len(self.tasks) // CHANNELS_CHECKED
        self.graphs.append(self.graph)
        self.trace.stages.append(epoch_shape(self.graph, command.epoch))
        if self.job.settings.checkpoint.unaligned:
            self.slots = {
                slot_name(slot): SlotChannelState.of(self.graph, slot, attempts.of(slot_name(slot)))
                for slot in range(len(self.graph.slots))
            }

    def _stop_epoch(self, command: StopEpoch, cause: str) -> None:
        self.agenda.cancel_io(lambda machine, work: isinstance(work, StopTasks))
        self._forget_epoch()
        self.deliver(self.master, EpochEnded(epoch=command.epoch), cause)

    def _start_tasks(self, machine: Machine, command: StartTasks, cause: str) -> None:
        """Create the tasks of a region again, beside those that run; a slot that was lost gets a machine again."""
        tasks = {task.task: task for task in self.graph.tasks if task.task in command.attempts}
        made = {name: StreamTask(self.graph, name, command.attempts[name]) for name in tasks}
        running = self.tasks | made
        self.tasks = {task.task: running[task.task] for task in self.graph.tasks if task.task in running}
        slot_of = self.graph.slots.of
        self.agenda.hold([name for name in made if slot_of(name) in self.frozen])
        if not self.job.settings.checkpoint.unaligned:
            return
        for slot in sorted(self.graph.slots.of_all(made)):
            own, name = tuple(each for each in made if slot_of(each) == slot), slot_name(slot)
            if name in command.attempts:
                self.slots[name] = SlotChannelState.of(self.graph, slot, command.attempts[name], own)
            else:
                self.redeploy_in_slot(self.slots[name], own, cause)

    def redeploy_in_slot(self, slot: SlotChannelState, tasks: tuple[str, ...], cause: str) -> None:
        """Notify the machine of a slot that was not lost of its new tasks."""
        self.deliver(slot, SubtasksRedeployed(tasks=tasks), cause)

    def _stop_tasks(self, command: StopTasks, cause: str) -> None:
        """Cancel tasks and remove them, with everything in flight to and from them; the others keep running."""
        if command.epoch == self.master.epoch:
            there = [name for name in command.tasks if name in self.tasks]
            for task in [self.tasks[name] for name in there]:
                if not task.state.is_terminal:
                    self.deliver(task, CancelTask(task=task.name, attempt=task.attempt), cause)
            self.forget_tasks(there)
        self.deliver(self.master, command.stopped(), cause)

    def forget_tasks(self, names: list[str]) -> None:
        """Remove tasks that have ended, with everything in flight to and from them."""
        for name in names:
            del self.tasks[name]
        self.forget_faults_of(names)
        self.agenda.forget(names)

    def _forget_epoch(self) -> None:
        self.agenda.end_epoch([*self.tasks, *self.slots])
        self.forget_faults_of([*self.tasks, *self.slots])
        self.frozen.clear()
        self._late_before_the_end, self._metrics_before_the_end = self.late_rows, self.metrics
        self.tasks, self.slots = {}, {}

    @property
    def late_rows(self) -> dict[str, dict[str, int]]:
        """Return the rows dropped in the present epoch, or in the last one that ended, by task and operator."""
        if not self.tasks:
            return self._late_before_the_end
        return {name: task.chain.late_rows_dropped for name, task in self.tasks.items()}

    @property
    def metrics(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the metrics of each operator, by subtask, in the present epoch or in the last one that ended."""
        if not self.tasks:
            return self._metrics_before_the_end
        tasks = self.tasks.values()
        return [(task.vertex.subtask_index, reading) for task in tasks for reading in task.readings()]

    def _answer_user(self, machine: Machine, command: CompleteRequest, cause: str) -> None:
        self.answers[command.request_id] = command

    def _show_status(self, machine: Machine, command: JobStatusChanged, cause: str) -> None:
        if JobStatus[command.status].is_terminal:
            self.edge.for_tasks.forget_local_state()

    def _begin_io(self, machine: Machine, command: Command, cause: str) -> None:
        self.agenda.begin(machine.name, Envelope(command, cause))

    def _read_rows(self, machine: Machine, command: ReadSplit, cause: str) -> None:
        """Read rows at once, or asynchronously from an unbounded source, so that other actions may come first."""
        doomed = self.doomed_read(machine, command) if self.doomed_reads else None
        if doomed is not None:
            self.deliver(machine, doomed, cause)
        elif self.edge.for_tasks.may_take_long(command):
            self._begin_io(machine, command, cause)
        else:
            self._carry_out(machine, command, cause)

    def _await_rows(self, machine: Machine, command: AwaitRows, cause: str) -> None:
        self.agenda.cancel_io(lambda owner, work: owner == machine.name and isinstance(work, AwaitRows))
        if command.splits:
            self.agenda.wait_for(machine.name, Envelope(command, cause), self.at_ms + command.every_ms)

    def _carry_out(self, machine: Machine, command: Command, cause: str) -> None:
        answer = self.files_of(machine.name).carry_out(command)
        if answer is not None:
            self.deliver(machine, answer, cause)

    DUTIES: ClassVar[dict[Duty, Callable[[World, Machine, Any, str], None]]] = {
        Duty.OBSERVE: _observe,
        Duty.SET_TIMER: _schedule,
        Duty.CANCEL_TIMER: _cancel_timer,
        Duty.TELL_TASK: _tell_task,
        Duty.TELL_JOB: _tell_job,
        Duty.SEND_ELEMENT: _send,
        Duty.GRANT_CREDITS: _grant,
        Duty.HAND_OVER: _hand_over,
        Duty.READ_ROWS: _read_rows,
        Duty.AWAIT_ROWS: _await_rows,
        Duty.WRITE_ROWS: _carry_out,
        Duty.WORK: _begin_io,
        Duty.CLEAN_UP: _begin_io,
        Duty.STOP_WORK: _stop_work,
        Duty.START_EPOCH: _start_epoch,
        Duty.STOP_EPOCH: _begin_io,
        Duty.START_TASKS: _start_tasks,
        Duty.STOP_TASKS: _begin_io,
        Duty.ANSWER_USER: _answer_user,
        Duty.SHOW_STATUS: _show_status,
    }
    """The function for each duty; both hosts have such a table."""
    CARRY_OUT: dict[type[ProtocolMessage], Callable[[Any, Machine, Any, str], None]]
    """The same by command."""

    # --- what faults do (`kit.hosts.lab.faults.faults`) -----------------------------------------------------------

    @property
    def workers(self) -> list[int]:
        """Return the workers that run now."""
        return sorted(self.graph.slots.of_all(self.tasks))

    @property
    def machine_names(self) -> list[str]:
        """Return the existing machines, whose clocks can be turned."""
        return [self.master.name, *self.tasks, *self.slots]

    @property
    def takes_last_checkpoint(self) -> bool:
        """Return True if the checkpoint that completed last, or is under way, is the job's last one."""
        return self.master.stopping.is_under_way or self.master.checkpoints.ledger.took_last_checkpoint

    def doomed_read(self, machine: Machine, command: ReadSplit) -> ProtocolMessage | None:
        """Return the answer to a read that was made to fail; None for any other."""
        failure = self.doomed_reads.pop(machine.name, None)
        return None if failure is None else command.failed(failure_of(ReadSplit, failure).raised())

    def files_of(self, machine: str) -> Any:
        """Return the object that carries out this machine's disk commands."""
        return self.edge.for_job if machine == self.master.name else self.edge.for_tasks

    def end_worker(self, worker: int, error: str) -> None:
        """End a worker, and notify the JobMaster."""
        self.forget_worker(worker)
        lost = SlotLost(epoch=self.master.epoch, slot=worker, error=error, tasks=self.graph.slots.tasks_in(worker))
        self.deliver(self.master, lost)

    def forget_worker(self, worker: int) -> None:
        """Remove a worker, with everything in flight to and from it."""
        ended = self.machines_of(worker)
        for name in ended:
            self.tasks.pop(name, None)
            self.slots.pop(name, None)
        self.forget_faults_of(ended)
        self.frozen.discard(worker)
        self.agenda.forget(ended)

    def machines_of(self, worker: int) -> list[str]:
        """Return the tasks of a worker, and its slot."""
        tasks = [name for name in self.tasks if self.graph.slots.of(name) == worker]
        return tasks + [name for name in (slot_name(worker),) if name in self.slots]

    def freeze(self, worker: int) -> None:
        """Freeze a worker."""
        self.frozen.add(worker)
        self.agenda.hold(self.machines_of(worker))

    def thaw(self, worker: int) -> None:
        """Thaw a worker; it receives the credits that were held back."""
        names = self.machines_of(worker)
        self.frozen.discard(worker)
        self.agenda.release(names)
        for name in names:
            if name in self.tasks:
                self.agenda.set_turn(name, self.tasks[name].available)
        due = [credit for credit in self._held_credits if credit[0] in names]
        self._held_credits = [credit for credit in self._held_credits if credit[0] not in names]
        for name, credit, cause in due:
            self.deliver(self.tasks[name], credit, cause)

    def give_credit(self, sender: StreamTask, credit: CreditReceived, cause: str) -> None:
        """Give a sender a credit; a frozen sender receives it when it thaws."""
        if self.frozen and self.graph.slots.of(sender.name) in self.frozen:
            self._held_credits.append((sender.name, credit, cause))
        else:
            self.deliver(sender, credit, cause)

    def end_driver(self) -> None:
        """End the driver, and its workers with it."""
        self.driver_is_dead = True
        self.forget_faults_of([*self.tasks, *self.slots])
        self.tasks, self.slots = {}, {}
        self.frozen.clear()
        self.agenda = Agenda()

    def forget_faults_of(self, names: list[str]) -> None:
        """Forget the planned faults of removed machines."""
        self._held_credits = [credit for credit in self._held_credits if credit[0] not in names]
        for name in names:
            self.doomed_reads.pop(name, None)
            self.turned_ms.pop(name, None)

    def time_of(self, machine: Machine) -> int:
        """Return the time of a machine's clock, in ms; it never goes back."""
        turned_ms = self.turned_ms.get(machine.name)
        return self.at_ms if turned_ms is None else max(machine.at, self.at_ms + turned_ms)

    def on_the_lab_s_clock(self, machine: Machine, timer: ScheduleTimer) -> ScheduleTimer:
        """Return the timer, due by the lab's own clock."""
        ahead_ms = self.time_of(machine) - self.at_ms if self.turned_ms else 0
        return replace(timer, due_ms=timer.due_ms - ahead_ms) if ahead_ms else timer

    # --- copying --------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        """Return another world in the same state. Immutable parts, such as the job and its graphs, are shared."""
        memo |= {id(shared): shared for shared in self._shared()}
        other = object.__new__(type(self))
        memo[id(self)] = other
        other.__dict__ = copy_of(self.__dict__, memo)
        return other

    def _shared(self) -> Iterator[object]:
        yield self.job
        yield self.job.settings
        for vertex in self.job.vertices:
            yield vertex
            yield from (*vertex.operators, *vertex.inputs)
        for graph in (self.master.graph, *self.graphs):
            yield graph
            yield from graph.tasks

    @property
    def size(self) -> int:
        """The number of tasks and channels of the present epoch, which determines the cost of a copy."""
        return len(self.tasks) + self.graph.channel_count if self.tasks else 0

    # --- looking --------------------------------------------------------------------------------------------------

    def machine(self, name: str) -> Machine | None:
        """Return the machine of this name ("job", a task or a slot), or None."""
        return self.master if name == JOB else self.tasks.get(name) or self.slots.get(name)

    def queued(self, channel: int) -> list[Element]:
        """Return the elements on a channel's wire."""
        return [sent.word.element for sent in self.agenda.on_wire(channel)]

    def validate(self) -> None:
        """Check every machine's invariants, and that no wire holds more buffers than its receiver granted credits."""
        self.master.validate()
        for task in self.tasks.values():
            task.validate()
        for slot in self.slots.values():
            slot.validate()
        for number in self.agenda.busy_channels:
            buffers = sum(isinstance(element, CreditedElement) for element in self.queued(number))
            receiver = self.tasks.get(self.graph.channels[number].target_task)
            if receiver is not None:
                granted = receiver.inputs.channel(number).credits_granted
                assert buffers <= granted, f"{buffers} buffers on channel {number}, but {granted} credits given"


def failure_of(command: type[Command], name: str) -> Failure:
    """Return the failure of this name that a command declares. Raises KeyError, with the known names, for any other."""
    for failure in command.failures:
        if failure.name == name:
            return failure
    known = ", ".join(failure.name for failure in command.failures) or "none"
    raise KeyError(f"{command.__name__} has no failure {name!r}; it declares {known}")


World.CARRY_OUT = by_command(World.DUTIES, COMMANDS)
