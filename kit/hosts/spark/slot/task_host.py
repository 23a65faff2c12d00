"""The host of the tasks of one slot: it passes events to their machines and carries out the machines' commands.

Theory of operation. Everything happens on the slot's main thread. An event for a task goes into the *ready* queue.
`work` empties the queue, so all commands of a task are carried out before the next event is handled. Elements and
credits between tasks of this slot go into the same queue, without a socket. Tasks run in order from the last vertex to
the first, so that in-flight records are processed before more are read. Tasks that have received a barrier that
overtakes records run first. A round ends early if it has taken long, because a barrier may have arrived meanwhile; the
next round resumes where it ended. For the same reason a turn has no more rows than the task is expected to process in
`turn_ms` (`kit.hosts.spark.slot.turn_rows`), and turns are short while an answer of the background thread is expected
soon: a task acknowledges a checkpoint when the slot has read that its snapshot is written.

Reads of a source run directly if they are quick. Otherwise the source's own thread performs them
(`kit.hosts.spark.slot.fetcher`); it also detects when an empty split has rows. Rows that a sink does not hold until the
barrier are written at once. One background thread writes snapshots, reads state and publishes output, in the order of
the requests; the answers come through the slot's inbox. The machine that collects in-flight data for files handles its
events on the main thread, as the tasks do.

The trace contains everything except events and commands about single buffers, which are not recorded for speed. If the
run is recorded, every event is written before its commands are carried out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from kit.core.protocol.attempts import Attempts
from kit.core.protocol.commands import (
    AwaitRows,
    CancelTimer,
    GrantCredit,
    ReadSplit,
    ScheduleTimer,
    SendElement,
    WriteRows,
)
from kit.core.protocol.duties import Command, Duty, by_command, refused
from kit.core.protocol.elements import Buffer, Element
from kit.core.protocol.events import (
    CreditReceived,
    ElementReceived,
    ProcessInput,
    RowsAvailable,
    SplitRead,
    TimerFired,
)
from kit.core.protocol.messages import (
    JobMessage,
    OutputDataDecided,
    SlotMessage,
    SubmitChannelState,
    TaskMessage,
)
from kit.core.protocol.tasks import ExecutionState
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Envelope, Machine, ProtocolMessage
from kit.core.trace.trace import TraceRecord, keeps, records_of
from kit.files.task_files import TaskFiles
from kit.hosts.spark.driver.background import Background
from kit.hosts.spark.recording import EventFile
from kit.hosts.spark.slot.fetcher import Fetcher
from kit.hosts.spark.slot.meters import Meters
from kit.hosts.spark.slot.turn_rows import TurnRows
from kit.hosts.spark.wire.channels import Route
from kit.hosts.spark.wire.codec import encode_element
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.task.stream_task import StreamTask
from kit.machines.task.unknown_task import answer_for_unknown_task
from kit.stream.backend.spill.spill_space import SpillSpace
from kit.stream.graph.execution_graph import ExecutionGraph

TURNS_A_ROUND = 4
"""The maximal number of turns that a busy task takes before the others run."""
ROUND_MS = 10
"""The duration after which a round ends with the current turn, so that the slot reads its inbox."""
PROMPT_PART = 8
"""The part of its rows, 1 in so many, that a task takes in a turn while the background is expected to answer soon."""

CreateFetcher = Callable[[str, Callable[[Any], bool]], Fetcher]
"""A factory that takes the name of a thread and the function to call on it."""


class Wires(Protocol):
    """The part of the data plane that is used here."""

    def send(self, channel: int, element: Any) -> Any:
        """Send a batch, or the bytes of another element."""

    def grant(self, channel: int, credits: int, max_rows: int | None = None) -> None:
        """Give the sender credits, for buffers of at most `max_rows` if given."""


@dataclass(slots=True, eq=False)
class Work:
    """A machine's command that takes time, and later its answer, which returns through the slot's inbox."""

    machine: Machine
    command: Command
    cause: str
    sync_ms: int
    """The time that the machine took to handle the event that led to the command."""
    expected_until_ms: int = 0
    """The time until which the answer is expected soon."""
    stopped: bool = False
    answer: ProtocolMessage | None = None


class TaskHost:
    """The tasks in slot `slot`, in their present `attempts`.

    `say` receives messages for the JobMaster; `records` collects the trace's records until the slot sends them. Without
    `create_fetcher`, all reads run directly. `stopwatch_s` measures what rows cost, in seconds. `space` takes the keyed
    state for which memory has no room.

    Flink's `TaskExecutor` keeps its tasks in `taskSlotTable`. The articles' `HandlesTasks` is not a class of Flink 2;
    this class handles the tasks.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        slot: int,
        attempts: Attempts,
        files: TaskFiles,
        wires: Wires,
        say: Callable[[Envelope], None],
        background: Background,
        now: Callable[[], int],
        recording: EventFile | None = None,
        create_fetcher: CreateFetcher | None = None,
        stopwatch_s: Callable[[], float] = time.perf_counter,
        space: SpillSpace | None = None,
    ) -> None:
        self.records: list[TraceRecord] = []
        self.rows_read = 0
        """The rows that the slot's sources have read."""
        mine = graph.tasks_in_slot(slot)
        self.tasks = {vertex.task: StreamTask(graph, vertex.task, attempts.of(vertex.task), space) for vertex in mine}
        self.meters = Meters(self.tasks)
        ends = [end.channels for vertex in mine for end in vertex.gates]
        ends += [end.channels for vertex in mine for end in vertex.partitions]
        numbers = {number for channels in ends for number in channels}
        channels = [graph.channel(number) for number in sorted(numbers)]
        slot_of = graph.slots.of
        self.routes = [Route(c.number, slot_of(c.source_task), slot_of(c.target_task)) for c in channels]
        """The routes of the channels that begin or end here."""
        self._receivers = {c.number: self.tasks[c.target_task] for c in channels if c.target_task in self.tasks}
        self._senders = {c.number: self.tasks[c.source_task] for c in channels if c.source_task in self.tasks}
        self._turns = deque(reversed(self.tasks.values()))
        """The tasks in turn, the next one first."""
        self._rows = {name: TurnRows(graph.job_graph.settings.turn_ms) for name in self.tasks}
        """What each task may take in its next turn."""
        self._slot = slot
        self._job_id = graph.job_graph.job_id
        self._files = files
        self._wires = wires
        self._say = say
        self._background = background
        self._now = now
        self._recording = recording
        self._create_fetcher = create_fetcher
        self._stopwatch_s = stopwatch_s
        self._fetchers: dict[str, Fetcher] = {}
        """The fetchers of the source tasks that have read."""
        self._ready: deque[tuple[Machine, ProtocolMessage, str]] = deque()
        self._timers: dict[tuple[str, str], tuple[ScheduleTimer, str]] = {}
        self._work: list[Work] = []
        """The work that the background thread has received and not answered."""
        self._turn_ms = graph.job_graph.settings.turn_ms
        self._channel_state = SlotChannelState.of(graph, slot, attempts.of(slot_name(slot)))
        self.next_timer_ms: int | None = None
        self._handled_in_s = 0.0

    def __repr__(self) -> str:
        return f"TaskHost({', '.join(self.tasks)})"

    # --- incoming items -------------------------------------------------------------------------------------------

    def message(self, message: TaskMessage, cause: str = "") -> None:
        """Take a message from the JobMaster. A message for an unknown task is dropped unless it needs an answer."""
        task = self.tasks.get(message.task)
        answer = answer_for_unknown_task(message, task, self._job_id)
        if answer is not None:
            self._say(Envelope(answer, cause))
        elif task is not None and message.attempt == task.attempt:
            self._ready.append((task, message, cause))

    def element(self, channel: int, element: Element, cause: str = "") -> None:
        """Take an element from a task of another slot."""
        receiver = self._receivers[channel]
        if isinstance(element, Buffer):
            self.meters.by_task[receiver.name].take(element.batch)
        self._ready.append((receiver, ElementReceived(channel=channel, element=element), cause))

    def credit(self, channel: int, credits: int, max_rows: int | None = None) -> None:
        """Take credits from a task of another slot."""
        credit = CreditReceived(channel=channel, credits=credits, max_rows=max_rows)
        self._ready.append((self._senders[channel], credit, ""))

    def answer(self, work: Work) -> None:
        """Take an answer from the background. Work that was stopped meanwhile is undone, and no answer is delivered."""
        if not isinstance(work.command, AwaitRows):
            self._work.remove(work)
        if work.stopped:
            self._background.submit(lambda: self._files.undo(work.command, work.answer))
        elif work.answer is not None:
            self._take_rows(work.machine, work.answer)
            self._ready.append((work.machine, work.answer, work.cause))

    def fire_timers(self) -> None:
        """Fire every timer that is due."""
        if self.next_timer_ms is None or self.next_timer_ms > (now := self._now()):
            return
        for (task, name), (timer, cause) in sorted(self._timers.items(), key=lambda item: item[1][0].due_ms):
            if timer.due_ms <= now:
                del self._timers[task, name]
                self._ready.append((self.tasks[task], TimerFired(timer=name), cause))
        self._find_next_timer()

    # --- work -----------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Handle the ready events, then give each task its turns; return False if there was nothing to do."""
        worked = self.handle_ready()
        worked = self._give_turns() or worked
        self.meters.sample()
        return worked

    def _give_turns(self) -> bool:
        worked, end_ms = False, self._now() + ROUND_MS
        for task in self._in_turn():
            turns = TURNS_A_ROUND
            while turns and task.available:
                self._handle(task, ProcessInput(max_rows=self._most_rows(task)), "")
                self.handle_ready()
                turns -= 1
                worked = True
                if self._now() >= end_ms:
                    return True
        return worked

    def _most_rows(self, task: StreamTask) -> int:
        """Return the number of rows that a task may take in its next turn."""
        most = self._rows[task.name].most
        now_ms = self._now() if self._work else 0
        is_prompt = any(now_ms < work.expected_until_ms for work in self._work)
        return max(1, most // PROMPT_PART) if is_prompt else most

    def _in_turn(self) -> Iterator[StreamTask]:
        """Yield the tasks with a priority element, then all tasks from where the last round ended."""
        yield from [task for task in self._turns if task.inputs.priority_available]
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            yield self._turns[-1]

    def handle_ready(self) -> bool:
        """Handle the ready events; return False if there were none."""
        ready = self._ready
        worked = bool(ready)
        while ready:
            self._handle(*ready.popleft())
        return worked

    def _handle(self, machine: Machine, event: ProtocolMessage, cause: str) -> None:
        if type(event) is ElementReceived and self.tasks[machine.name].state.is_terminal:
            return  # the task has ended; credits may still release what it sent last
        task = machine if isinstance(machine, StreamTask) else None
        rows_before = 0 if task is None else task.rows_processed
        began_s, started_s = self._stopwatch_s(), time.perf_counter()
        commands = machine.handle(event, self._now(), cause)
        self._handled_in_s = time.perf_counter() - started_s
        if task is not None:
            self.meters.by_task[task.name].busy_s += self._handled_in_s
            rows = task.rows_processed - rows_before
            if rows:
                self._rows[task.name].took(rows, self._stopwatch_s() - began_s)
        if self._recording is not None:
            self._recording.add(machine.event_id, machine.at, event, cause)
        if keeps(event, False) or any(keeps(command, False) for command in commands):
            self.records += records_of(machine, event, commands, detailed=False)
        for number, command in enumerate(commands, 1):
            carry_out = _CARRY_OUT.get(type(command))
            if carry_out is None:
                raise refused(machine, command)
            carry_out(self, machine, command, f"{machine.event_id}.{number}")

    # --- commands -------------------------------------------------------------------------------------------------

    def _observe(self, machine: Machine, command: Command, cause: str) -> None:
        """Do nothing: the trace has recorded the command."""

    def _send(self, machine: Machine, command: SendElement, cause: str) -> None:
        # `priority` stays with the machines: elements that a channel's credits let onto the wire arrive before the
        # event and belong to the receiver's snapshot. If the event overtook them here, no snapshot would contain them.
        channel, element = command.channel, command.element
        receiver = self._receivers.get(channel)
        if isinstance(element, Buffer):
            sender = self.meters.by_task[machine.name]
            sender.records_out += element.batch.num_rows
            sender.sent = element.batch
            if receiver is not None:
                self.meters.by_task[receiver.name].take(element.batch)
        if receiver is not None:
            self._ready.append((receiver, ElementReceived(channel=channel, element=element), cause))
        elif isinstance(element, Buffer):
            self._wires.send(channel, element.batch)
        else:
            self._wires.send(channel, encode_element(element, cause))

    def _grant(self, machine: Machine, command: GrantCredit, cause: str) -> None:
        sender = self._senders.get(command.channel)
        if sender is not None:
            credit = CreditReceived(channel=command.channel, credits=command.credits, max_rows=command.max_rows)
            self._ready.append((sender, credit, cause))
        else:
            self._wires.grant(command.channel, command.credits, command.max_rows)

    def _hand_over(self, machine: Machine, message: SlotMessage, cause: str) -> None:
        to_slot = isinstance(message, SubmitChannelState | OutputDataDecided)
        self._ready.append((self._channel_state if to_slot else self.tasks[message.task], message, cause))

    def _read_rows(self, machine: Machine, command: ReadSplit, cause: str) -> None:
        """Read directly if reads are quick, else on the source's own thread."""
        fetcher = self._fetcher(machine)
        if fetcher is not None and not fetcher.reads_at_once:
            work = Work(machine, command, cause, 0)
            self._work.append(work)
            fetcher.read(work)
            return
        started_s = time.perf_counter()
        answer = self._files.carry_out(command)
        if fetcher is not None:
            fetcher.note_read(time.perf_counter() - started_s)
        assert answer is not None
        self._take_rows(machine, answer)
        self._ready.append((machine, answer, cause))

    def _take_rows(self, machine: Machine, answer: ProtocolMessage) -> None:
        if isinstance(answer, SplitRead) and answer.batch is not None:
            self.rows_read += answer.batch.num_rows
            self.meters.by_task[machine.name].records_in += answer.batch.num_rows

    def _await_rows(self, machine: Machine, command: AwaitRows, cause: str) -> None:
        fetcher = self._fetcher(machine)
        if fetcher is not None:
            fetcher.watch(Work(machine, command, cause, 0) if command.splits else None, command.every_ms / 1_000)

    def _fetcher(self, machine: Machine) -> Fetcher | None:
        fetcher = self._fetchers.get(machine.name)
        if fetcher is None and self._create_fetcher is not None:
            fetcher = self._fetchers[machine.name] = self._create_fetcher(f"kit-reads-{machine.name}", self._fetch)
        return fetcher

    def _fetch(self, work: Work) -> bool:
        """Read, on a source's own thread; return False if the watched splits have no rows yet."""
        work.answer = self._files.carry_out(work.command)
        return not isinstance(work.answer, RowsAvailable) or bool(work.answer.split_ids)

    def close(self, timeout_s: float) -> None:
        """Stop reading."""
        for fetcher in self._fetchers.values():
            fetcher.close(timeout_s)

    def _write_rows(self, machine: Machine, command: WriteRows, cause: str) -> None:
        answer = self._files.carry_out(command)
        if answer is not None:
            self._ready.append((machine, answer, cause))

    def _begin(self, machine: Machine, command: Command, cause: str) -> None:
        work = Work(machine, command, cause, round(self._handled_in_s * 1000), self._now() + self._turn_ms)
        self._work.append(work)
        self._background.submit(lambda: self._carry_out(work))

    def _carry_out(self, work: Work) -> Work:
        """Carry out a command on the background thread."""
        if not work.stopped:
            work.answer = self._files.carry_out(work.command, work.sync_ms)
            if self._recording is not None and work.answer is not None:
                self._recording.add_done(work.cause)
        return work

    def _stop_work(self, machine: Machine, command: Any, cause: str) -> None:
        for work in self._work:
            work.stopped |= work.machine is machine and command.stops(work.command)

    def _schedule(self, machine: Machine, command: ScheduleTimer, cause: str) -> None:
        self._timers[machine.name, command.timer] = command, cause
        self._find_next_timer()

    def _cancel_timer(self, machine: Machine, command: CancelTimer, cause: str) -> None:
        self._timers.pop((machine.name, command.timer), None)
        self._find_next_timer()

    def _find_next_timer(self) -> None:
        self.next_timer_ms = min((timer.due_ms for timer, _ in self._timers.values()), default=None)

    def _tell_job(self, machine: Machine, message: JobMessage, cause: str) -> None:
        self._say(Envelope(message, cause))

    DUTIES: ClassVar[dict[Duty, Callable[[TaskHost, Machine, Any, str], None]]] = {
        Duty.OBSERVE: _observe,
        Duty.SET_TIMER: _schedule,
        Duty.CANCEL_TIMER: _cancel_timer,
        Duty.TELL_JOB: _tell_job,
        Duty.SEND_ELEMENT: _send,
        Duty.GRANT_CREDITS: _grant,
        Duty.HAND_OVER: _hand_over,
        Duty.READ_ROWS: _read_rows,
        Duty.AWAIT_ROWS: _await_rows,
        Duty.WRITE_ROWS: _write_rows,
        Duty.WORK: _begin,
        Duty.STOP_WORK: _stop_work,
    }
    """The methods with which a slot performs the duties of its tasks; the driver performs the JobMaster's."""

    def states(self) -> dict[str, ExecutionState]:
        """Return the execution state of each task."""
        return {name: task.state for name, task in self.tasks.items()}


_CARRY_OUT = by_command(TaskHost.DUTIES, COMMANDS)
