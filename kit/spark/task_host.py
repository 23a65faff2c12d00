"""The tasks of one slot, hosted: events handed to their machines, and what they ask for carried out.

Theory of operation. Everything happens on the slot's main thread. An event for a task goes into the *ready* queue;
`work` empties it, so a task's commands are all carried out before the next event is handled, whatever they lead to.
What a task sends to a task of this slot goes into the same queue, without a socket; so do credits. Tasks take their
turns from the last vertex to the first: what is under way is finished before more is read. Those to which a barrier
has come that overtakes records go first. A round ends early when it has taken long, since a barrier may have arrived
meanwhile; the next one goes on where it ended.

A read of the source is done at once. Snapshots are written, state is read and output is published by one background
thread, in the order in which it was asked for; the answers come through the slot's inbox. In-flight data goes there by
way of the slot's channel state executors, which belong to the main thread.

The trace gets all but what is about single buffers; words about them pass through here at full speed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from kit.channel.channel_state_executor import SlotChannelState
from kit.graph.execution_graph import ExecutionGraph
from kit.host.task_files import TaskFiles
from kit.protocol.commands import (
    CancelChannelStateFile,
    CancelSnapshot,
    CancelTimer,
    CommitEffects,
    DiscardSnapshot,
    DropEffects,
    ElementQueued,
    ElementTaken,
    GrantCredit,
    Note,
    PruneLocalState,
    ReadSplit,
    ReadState,
    ScheduleTimer,
    SendElement,
    SubmitChannelState,
    WriteChannelStateFile,
    WriteSnapshot,
)
from kit.protocol.elements import Buffer, Element
from kit.protocol.events import (
    ChannelStateFileFailed,
    ChannelStateFileWritten,
    CreditReceived,
    ElementReceived,
    ProcessInput,
    SnapshotWritten,
    SplitRead,
    TimerFired,
)
from kit.protocol.messages import JobMessage, TaskMessage
from kit.protocol.tasks import ExecutionState
from kit.protocol.trace import TraceRecord, keeps, records_of
from kit.protocol.words import Envelope, Word
from kit.spark.background import Background
from kit.spark.channels import Route
from kit.spark.codec import encode_element
from kit.spark.failures import failure_of
from kit.task.stream_task import StreamTask
from kit.task.unknown_task import answer_for_unknown_task

TURNS_A_ROUND = 4
"""A task with plenty to do takes so many turns before the others get theirs."""
ROUND_MS = 10
"""A round that has taken so long ends with the turn that is being taken: then the slot looks into its inbox."""

_TURN = ProcessInput()


class Wires(Protocol):
    """The data plane, as seen from here."""

    def send(self, channel: int, element: Any) -> Any:
        """Send a batch, or the bytes of another element."""

    def grant(self, channel: int, credits: int) -> None:
        """Give the sender credits."""


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What the background found out for a task; it comes through the slot's inbox."""

    task: StreamTask
    event: Word
    cause: str


class TaskHost:
    """The tasks with subtask index `slot` of one epoch.

    `say` takes messages for the JobMaster, `records` gathers what the trace keeps until the slot sends it off.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        slot: int,
        epoch: int,
        files: TaskFiles,
        wires: Wires,
        say: Callable[[Envelope], None],
        background: Background,
        now: Callable[[], int],
    ) -> None:
        self.records: list[TraceRecord] = []
        self.rows_read = 0
        """By the sources, in this epoch."""
        mine = [vertex.task for vertex in graph.tasks if vertex.subtask_index == slot]
        self.tasks = {name: StreamTask(graph, name, epoch) for name in mine}
        self.routes = [
            Route(channel.number, _slot_of(channel.source_task), _slot_of(channel.target_task))
            for channel in graph.channels
        ]
        self._receivers = {c.number: self.tasks[c.target_task] for c in graph.channels if c.target_task in self.tasks}
        self._senders = {c.number: self.tasks[c.source_task] for c in graph.channels if c.source_task in self.tasks}
        self._turns = deque(reversed(self.tasks.values()))
        """The task whose turn is next comes first."""
        self._epoch = epoch
        self._job_id = graph.job_graph.job_id
        self._files = files
        self._wires = wires
        self._say = say
        self._background = background
        self._now = now
        self._ready: deque[tuple[StreamTask, Word, str]] = deque()
        self._timers: dict[tuple[str, str], tuple[ScheduleTimer, str]] = {}
        self._cancelled: set[tuple[str, int]] = set()
        self._cancelled_files: set[str] = set()
        self._channel_state = SlotChannelState.of(graph, slot)
        self.next_timer_ms: int | None = None
        self._handled_in_s = 0.0

    def __repr__(self) -> str:
        return f"TaskHost({', '.join(self.tasks)})"

    # --- what comes in --------------------------------------------------------------------------------------------

    def message(self, message: TaskMessage, cause: str = "") -> None:
        """From the JobMaster; what is meant for a task that is not here is dropped, unless it asks for an answer."""
        task = self.tasks.get(message.task)
        answer = answer_for_unknown_task(message, task, self._job_id)
        if answer is not None:
            self._say(Envelope(answer, cause))
        elif task is not None and message.attempt == self._epoch:
            self._ready.append((task, message, cause))

    def element(self, channel: int, element: Element, cause: str = "") -> None:
        """From a task of another slot."""
        self._ready.append((self._receivers[channel], ElementReceived(channel=channel, element=element), cause))

    def credit(self, channel: int, credits: int) -> None:
        """From a task of another slot."""
        self._ready.append((self._senders[channel], CreditReceived(channel=channel, credits=credits), ""))

    def answer(self, answer: TaskAnswer) -> None:
        """From the background."""
        if isinstance(answer.event, ChannelStateFileWritten | ChannelStateFileFailed):
            self._channel_state.file_answer(answer.event)
            self._work_on_channel_state(answer.cause)
        else:
            self._ready.append((answer.task, answer.event, answer.cause))

    def fire_timers(self) -> None:
        """Let every timer fire that is due."""
        if self.next_timer_ms is None or self.next_timer_ms > (now := self._now()):
            return
        for (task, name), (timer, cause) in sorted(self._timers.items(), key=lambda item: item[1][0].due_ms):
            if timer.due_ms <= now:
                del self._timers[task, name]
                self._ready.append((self.tasks[task], TimerFired(timer=name), cause))
        self._find_next_timer()

    # --- work -----------------------------------------------------------------------------------------------------

    def work(self) -> bool:
        """Handle what is ready, then give each task its turns; False when there was nothing to do."""
        worked = bool(self._ready)
        self._handle_ready()
        worked |= self._give_turns()
        if self._channel_state.has_work:
            self._work_on_channel_state("")
            worked = True
        return worked

    def _give_turns(self) -> bool:
        worked, end_ms = False, self._now() + ROUND_MS
        for task in self._in_turn():
            turns = TURNS_A_ROUND
            while turns and task.available:
                self._handle(task, _TURN, "")
                self._handle_ready()
                turns -= 1
                worked = True
                if self._now() >= end_ms:
                    return True
        return worked

    def _in_turn(self) -> Iterator[StreamTask]:
        """The tasks with a priority element, then all from where the last round ended."""
        yield from [task for task in self._turns if task.inputs.priority_available]
        for _ in range(len(self._turns)):
            self._turns.rotate(-1)
            yield self._turns[-1]

    def _handle_ready(self) -> None:
        ready = self._ready
        while ready:
            self._handle(*ready.popleft())

    def _handle(self, task: StreamTask, event: Word, cause: str) -> None:
        if task.state.is_terminal and isinstance(event, ElementReceived):
            return  # it has ended; its credits may still set free what it sent last
        started_s = time.perf_counter()
        commands = task.handle(event, self._now(), cause)
        event_id = task.event_id
        self._handled_in_s = time.perf_counter() - started_s
        if keeps(event, False) or any(keeps(command, False) for command in commands):
            self.records += records_of(task, event, commands, detailed=False)
        for number, command in enumerate(commands, 1):
            self._CARRY_OUT.get(type(command), TaskHost._tell_master)(self, task, command, f"{event_id}.{number}")

    # --- commands -------------------------------------------------------------------------------------------------

    def _send(self, task: StreamTask, command: SendElement, cause: str) -> None:
        # `priority` stays with the machines: what a channel's credits let onto the wire arrives before the event, and
        # is the receiver's to keep. Overtaking it here would put it in neither snapshot.
        channel, element = command.channel, command.element
        receiver = self._receivers.get(channel)
        if receiver is not None:
            self._ready.append((receiver, ElementReceived(channel=channel, element=element), cause))
        elif isinstance(element, Buffer):
            self._wires.send(channel, element.batch)
        else:
            self._wires.send(channel, encode_element(element, cause))

    def _grant(self, task: StreamTask, command: GrantCredit, cause: str) -> None:
        sender = self._senders.get(command.channel)
        if sender is not None:
            self._ready.append((sender, CreditReceived(channel=command.channel, credits=command.credits), cause))
        else:
            self._wires.grant(command.channel, command.credits)

    def _read_split(self, task: StreamTask, command: ReadSplit, cause: str) -> None:
        answer = self._answer_to(command, self._files.carry_out)
        assert answer is not None
        if isinstance(answer, SplitRead) and answer.batch is not None:
            self.rows_read += answer.batch.num_rows
        self._ready.append((task, answer, cause))

    def _start(self, task: StreamTask, command: Word, cause: str) -> None:
        self._background.submit(lambda: _task_answer(task, self._answer_to(command, self._files.carry_out), cause))

    def _write_snapshot(self, task: StreamTask, command: WriteSnapshot, cause: str) -> None:
        sync_ms = round(self._handled_in_s * 1000)
        self._background.submit(lambda: _task_answer(task, self._write(task, command, sync_ms), cause))

    def _write(self, task: StreamTask, command: WriteSnapshot, sync_ms: int) -> Word | None:
        """On the background thread."""
        key = (task.name, command.checkpoint_id)
        if key in self._cancelled:
            return None
        answer = self._answer_to(command, lambda command: self._files.write_snapshot(command, sync_ms))
        if isinstance(answer, SnapshotWritten) and key in self._cancelled:
            self._files.undo(command, answer)
            return None
        return answer

    def _cancel_snapshot(self, task: StreamTask, command: CancelSnapshot, cause: str) -> None:
        self._cancelled.add((task.name, command.checkpoint_id))

    def _submit_channel_state(self, task: StreamTask, command: SubmitChannelState, cause: str) -> None:
        self._channel_state.submit(command.request)
        self._work_on_channel_state(cause)

    def _work_on_channel_state(self, cause: str) -> None:
        answers, jobs = self._channel_state.work()
        for job in jobs:
            if isinstance(job, CancelChannelStateFile):
                self._cancelled_files.add(job.file_name)
            else:
                self._write_channel_state(self.tasks[job.task], job, cause)
        for answer in answers:
            self._ready.append((self.tasks[answer.task], answer.event, cause))

    def _write_channel_state(self, task: StreamTask, job: WriteChannelStateFile, cause: str) -> None:
        self._background.submit(lambda: _task_answer(task, self._write_file(job), cause))

    def _write_file(self, job: WriteChannelStateFile) -> Word | None:
        """On the background thread."""
        if job.file_name in self._cancelled_files:
            return None
        answer = self._answer_to(job, self._files.carry_out)
        if isinstance(answer, ChannelStateFileWritten) and job.file_name in self._cancelled_files:
            self._files.undo_channel_state(answer)
            return None
        return answer

    def _answer_to(self, command: Any, carry_out: Callable[[Any], Word | None]) -> Word | None:
        try:
            return carry_out(command)
        except Exception as error:
            return failure_of(command, error)

    def _schedule(self, task: StreamTask, command: ScheduleTimer, cause: str) -> None:
        self._timers[task.name, command.timer] = command, cause
        self._find_next_timer()

    def _cancel_timer(self, task: StreamTask, command: CancelTimer, cause: str) -> None:
        self._timers.pop((task.name, command.timer), None)
        self._find_next_timer()

    def _find_next_timer(self) -> None:
        self.next_timer_ms = min((timer.due_ms for timer, _ in self._timers.values()), default=None)

    def _tell_master(self, task: StreamTask, command: Word, cause: str) -> None:
        if not isinstance(command, JobMessage):
            raise TypeError(f"{task.name} asked for {command!r}, which this host cannot carry out")
        self._say(Envelope(command, cause))

    def _nothing(self, task: StreamTask, command: Word, cause: str) -> None:
        """The trace has it."""

    _CARRY_OUT: dict[type[Word], Callable[[TaskHost, StreamTask, Any, str], None]] = {
        SendElement: _send,
        GrantCredit: _grant,
        ReadSplit: _read_split,
        ReadState: _start,
        CommitEffects: _start,
        DropEffects: _start,
        DiscardSnapshot: _start,
        PruneLocalState: _start,
        WriteSnapshot: _write_snapshot,
        CancelSnapshot: _cancel_snapshot,
        SubmitChannelState: _submit_channel_state,
        ScheduleTimer: _schedule,
        CancelTimer: _cancel_timer,
        Note: _nothing,
        ElementQueued: _nothing,
        ElementTaken: _nothing,
    }

    def states(self) -> dict[str, ExecutionState]:
        """Where each task stands."""
        return {name: task.state for name, task in self.tasks.items()}


def _slot_of(task: str) -> int:
    return int(task.rpartition("/")[2])


def _task_answer(task: StreamTask, event: Word | None, cause: str) -> TaskAnswer | None:
    return None if event is None else TaskAnswer(task, event, cause)
