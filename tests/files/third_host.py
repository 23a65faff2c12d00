"""A third host, written from `docs/WRITING-A-HOST.md`: one process, one queue, a clock that advances with each step.

One queue holds all events, so they stay in order; tasks' work is done between events.
`fail_next` makes the next command of a type fail as if the disk were full, `kill` loses a slot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from kit.core.protocol import commands, events, messages
from kit.core.protocol.duties import Command, Duty, by_command, refused
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Machine, ProtocolMessage
from kit.core.trace.trace import Trace
from kit.files.job_files import JobFiles
from kit.files.master_hooks import MasterHooks
from kit.files.memory_output import MemoryOutput
from kit.files.storage import CheckpointStorage
from kit.files.stores.stores import MemoryStore
from kit.files.task_files import TaskFiles
from kit.filesystems.memory import MemoryFiles
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.job.job_master import JobMaster
from kit.machines.job.status import JobStatus
from kit.machines.task.stream_task import StreamTask
from kit.machines.task.unknown_task import answer_for_unknown_task
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph


class ThirdHost:
    """One job; its files and output are arguments, so another host can resume with them."""

    def __init__(self, job: JobGraph, files: MemoryFiles, output: MemoryOutput) -> None:
        storage = CheckpointStorage("/checkpoints", job.job_id, None, 0, files.filesystem)
        self.job, self.master, self.trace = job, JobMaster(job), Trace()
        self.for_job = JobFiles(job, storage, MasterHooks(), MemoryStore(), output)
        self.for_tasks = TaskFiles(job, storage, output)
        self.status, self.answers, self.now = JobStatus.CREATED, {}, 0
        self.tasks: dict[str, StreamTask] = {}
        self.slots: dict[int, SlotChannelState] = {}
        self.queue: deque[tuple[Machine, ProtocolMessage, str]] = deque()
        self.work: deque[tuple[Machine, Command, str]] = deque()
        self.timers: dict[tuple[Machine, str], tuple[int, str]] = {}
        self.awaited: dict[Machine, tuple[Command, str]] = {}
        self.fail_next: set[type[Command]] = set()

    # --- events ---------------------------------------------------------------------------------------------------

    def tell(self, event: ProtocolMessage) -> None:
        """Send an event from the user to the JobMaster."""
        self.queue.append((self.master, event, ""))

    def kill(self, slot: int) -> None:
        """Let a worker die."""
        self.tasks = {name: task for name, task in self.tasks.items() if task.subtask != slot}
        del self.slots[slot]
        self.tell(events.SlotLost(epoch=self.master.epoch, slot=slot, error="it was killed"))

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Step until the condition holds, or the job has ended and its work is done."""
        while not until() and (not self.status.is_terminal or self.queue or self.work):
            self.now += 1
            self.step()

    def step(self) -> None:
        """Carry out one timer, event, turn of a task or piece of work."""
        due = [key for key, (due_ms, _) in self.timers.items() if due_ms <= self.now]
        turn = next((task for task in self.tasks.values() if task.available), None)
        if due:
            machine, timer = due[0]
            self.hand(machine, events.TimerFired(timer=timer), self.timers.pop(due[0])[1])
        elif self.queue:
            self.hand(*self.queue.popleft())
        elif self.work and (turn is None or self.now % 4 == 0):
            self.carry_out(*self.work.popleft())
        elif turn is not None:
            self.hand(turn, events.ProcessInput(), "")
        else:
            self.look_for_rows()

    def is_there(self, machine: Machine) -> bool:
        """Return True if a machine belongs to this epoch and its worker is alive."""
        return any(machine is each for each in (self.master, *self.tasks.values(), *self.slots.values()))

    def hand(self, machine: Machine, event: ProtocolMessage, cause: str) -> None:
        """Let a machine handle an event, and carry out its commands in order."""
        if not self.is_there(machine) or (isinstance(event, events.ElementReceived) and machine.state.is_terminal):
            return
        given = machine.handle(event, self.now, cause)
        self.trace.record(machine, event, given)
        for number, command in enumerate(given, 1):
            how = HOW.get(type(command))
            if how is None:
                raise refused(machine, command)
            how(self, machine, command, f"{machine.event_id}.{number}")

    # --- duties ---------------------------------------------------------------------------------------------------

    def observe(self, machine: Machine, command: Command, cause: str) -> None:
        """Do nothing: the trace has the command."""

    def set_timer(self, machine: Machine, command: commands.ScheduleTimer, cause: str) -> None:
        self.timers[machine, command.timer] = command.due_ms, cause

    def cancel_timer(self, machine: Machine, command: commands.CancelTimer, cause: str) -> None:
        self.timers.pop((machine, command.timer), None)

    def tell_task(self, machine: Machine, message: messages.TaskMessage, cause: str) -> None:
        task = self.tasks.get(message.task)
        answer = answer_for_unknown_task(message, task, self.job.job_id)
        if answer is not None:
            self.queue.append((self.master, answer, cause))
        elif task is not None:
            self.queue.append((task, message, cause))

    def tell_job(self, machine: Machine, message: messages.JobMessage, cause: str) -> None:
        self.queue.append((self.master, message, cause))

    def send(self, machine: Machine, command: commands.SendElement, cause: str) -> None:
        receiver = self.tasks.get(self.graph.channels[command.channel].target_task)
        if receiver is not None:
            event = events.ElementReceived(channel=command.channel, element=command.element)
            self.queue.append((receiver, event, cause))

    def grant(self, machine: Machine, command: commands.GrantCredit, cause: str) -> None:
        sender = self.tasks.get(self.graph.channels[command.channel].source_task)
        if sender is not None:
            event = events.CreditReceived(channel=command.channel, credits=command.credits)
            self.queue.append((sender, event, cause))

    def hand_over(self, machine: Machine, message: messages.SlotMessage, cause: str) -> None:
        task = self.tasks.get(message.task)
        if task is None:
            return
        to_slot = isinstance(message, messages.SubmitChannelState | messages.OutputDataDecided)
        self.queue.append((self.slots[task.subtask] if to_slot else task, message, cause))

    def carry_out(self, machine: Machine, command: Command, cause: str) -> None:
        if type(command) in self.fail_next:
            self.fail_next.remove(type(command))
            answer = command.failed(OSError("the disk is full"))
        elif self.is_there(machine):
            answer = (self.for_job if machine is self.master else self.for_tasks).carry_out(command)
        else:
            return
        if answer is not None:
            self.queue.append((machine, answer, cause))

    def begin(self, machine: Machine, command: Command, cause: str) -> None:
        self.work.append((machine, command, cause))

    def await_rows(self, machine: Machine, command: commands.AwaitRows, cause: str) -> None:
        self.awaited[machine] = command, cause

    def look_for_rows(self) -> None:
        """Answer the tasks that wait for rows; called when the queue is empty."""
        for machine, (command, cause) in [*self.awaited.items()]:
            answer = self.for_tasks.carry_out(command)
            if self.is_there(machine) and isinstance(answer, events.RowsAvailable) and answer.split_ids:
                del self.awaited[machine]
                self.queue.append((machine, answer, cause))

    def stop_work(self, machine: Machine, command: Any, cause: str) -> None:
        self.work = deque(each for each in self.work if each[0] is not machine or not command.stops(each[1]))

    def start_epoch(self, machine: Machine, command: commands.StartEpoch, cause: str) -> None:
        self.graph, attempts = ExecutionGraph(self.job, command.parallelism, command.max_parallelism), command.attempts
        self.tasks = {
            each.task: self.task(each.task, attempts.get(each.task, command.epoch)) for each in self.graph.tasks
        }
        slots = {task.subtask: attempts.get(slot_name(task.subtask), command.epoch) for task in self.tasks.values()}
        self.slots = {slot: SlotChannelState.of(self.graph, slot, attempt) for slot, attempt in slots.items()}

    def task(self, name: str, attempt: int) -> StreamTask:
        """Create a task."""
        return StreamTask(self.graph, name, attempt)

    def start_tasks(self, machine: Machine, command: commands.StartTasks, cause: str) -> None:
        made = {name: self.task(name, each) for name, each in command.attempts.items() if not name.startswith("slot ")}
        self.tasks |= made
        for slot in sorted({task.subtask for task in made.values()}):
            own = tuple(name for name, task in made.items() if task.subtask == slot)
            if slot_name(slot) in command.attempts:
                self.slots[slot] = SlotChannelState.of(self.graph, slot, command.attempts[slot_name(slot)], own)
            else:
                self.queue.append((self.slots[slot], events.SubtasksRedeployed(tasks=own), cause))

    def stop_tasks(self, machine: Machine, command: commands.StopTasks, cause: str) -> None:
        for task in [self.tasks[name] for name in command.tasks if name in self.tasks]:
            self.hand(task, messages.CancelTask(task=task.name, attempt=task.attempt), cause)
            del self.tasks[task.name]
        answer = events.TasksStopped(epoch=command.epoch, restart=command.restart, tasks=command.tasks)
        self.queue.append((self.master, answer, cause))

    def stop_epoch(self, machine: Machine, command: commands.StopEpoch, cause: str) -> None:
        self.tasks, self.slots, self.awaited = {}, {}, {}
        self.queue.append((self.master, events.EpochEnded(epoch=command.epoch), cause))

    def answer_user(self, machine: Machine, command: commands.CompleteRequest, cause: str) -> None:
        self.answers[command.request_id] = command.path or command.error

    def show_status(self, machine: Machine, command: commands.JobStatusChanged, cause: str) -> None:
        self.status = JobStatus[command.status]

    DUTIES: ClassVar[dict[Duty, Callable[[Any, Machine, Any, str], None]]] = {
        Duty.OBSERVE: observe,
        Duty.SET_TIMER: set_timer,
        Duty.CANCEL_TIMER: cancel_timer,
        Duty.TELL_TASK: tell_task,
        Duty.TELL_JOB: tell_job,
        Duty.SEND_ELEMENT: send,
        Duty.GRANT_CREDITS: grant,
        Duty.HAND_OVER: hand_over,
        Duty.READ_ROWS: carry_out,
        Duty.AWAIT_ROWS: await_rows,
        Duty.WRITE_ROWS: carry_out,
        Duty.WORK: begin,
        Duty.CLEAN_UP: begin,
        Duty.STOP_WORK: stop_work,
        Duty.START_EPOCH: start_epoch,
        Duty.STOP_EPOCH: stop_epoch,
        Duty.START_TASKS: start_tasks,
        Duty.STOP_TASKS: stop_tasks,
        Duty.ANSWER_USER: answer_user,
        Duty.SHOW_STATUS: show_status,
    }


HOW = by_command(ThirdHost.DUTIES, COMMANDS)
