"""A recorded run, repeated in the lab event by event.

A recording (`Trace.save_recording`, of a lab or of a job on Spark) has the events that each process of the run handled,
in order and with their times. The lab passes its machines the same events at the same times. Messages, elements and
answers come from its own machines and files, external events from the recording. Between processes, any order in which
causes precede effects is valid; the lab takes the earliest event that can happen.

After each event, the lab compares its records with those of the recording, which may lack the details of single
buffers. The first difference ends the run. The trace of a killed worker lacks its last records. But a worker writes an
event down before others can see its effects, so the lab has these records.

If the recording has the answer to a command, the lab carries the command out at once, and delays the answer until its
recorded time. Whatever is pending when the recording ends, or when the user takes another step, continues as in any
lab.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar

from kit.core.protocol.commands import (
    AwaitRows,
    CancelTimer,
    GrantCredit,
    ReadSplit,
    ScheduleTimer,
    StopEpoch,
    StopTasks,
)
from kit.core.protocol.duties import Command, Duty, by_command
from kit.core.protocol.events import (
    CreditReceived,
    ElementReceived,
    EpochEnded,
    ProcessInput,
    RowsAvailable,
    SlotLost,
    SubtasksRedeployed,
    TasksStopped,
    TimerFired,
)
from kit.core.protocol.messages import CancelTask, OutputDataDecided, SlotMessage, SubmitChannelState
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.protocol.words import Envelope, Machine, ProtocolError, ProtocolMessage
from kit.core.trace.schedule import FAILURES, FROM_OUTSIDE, Handled
from kit.core.trace.trace import Trace, TraceRecord, keeps_record
from kit.files.master_hooks import MasterHook
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.failures import for_the_lab
from kit.hosts.lab.faults.fault import LAB, Fault
from kit.hosts.lab.faults.faults import FAULTS, CommandFault, FailCommand, FileFault
from kit.hosts.lab.opening import open_edge
from kit.hosts.lab.recordings.recording import Agreement, Recording, difference_of
from kit.hosts.lab.recordings.snapshot_on_disk import snapshot_on_disk
from kit.hosts.lab.world.actions import Action, Group
from kit.hosts.lab.world.edge import LabEdge
from kit.hosts.lab.world.world import JOB, World, failure_of
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.task.unknown_task import answer_for_unknown_task
from kit.stream.connectors.data_frames import DataFrameSource, DataFrameStreamSource
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.slot_sharing import as_a_whole, in_gangs
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.operators.spec import shorten
from kit.stream.settings.setting_rules import FailoverStrategy, SlotSharing

NEVER = 1 << 62

_FROM_OUTSIDE = [word.__name__ for word in FROM_OUTSIDE]
_FAILURES = {word.__name__ for word in FAILURES}

Take = Callable[[], Envelope]
"""Takes the pending message or event, with the id of its cause."""


@dataclass(frozen=True, slots=True, repr=False)
class Follow(Action):
    """The next event of a recording."""

    event: Handled

    group: ClassVar = Group.RECORDING
    verb: ClassVar = "follow"
    pattern: ClassVar = "as recorded, {event}"

    @property
    def key(self) -> str:
        """The verb and the event's id."""
        return f"{self.verb}:{self.event.id}"


@dataclass(frozen=True, slots=True, repr=False)
class LeaveRecording(Action):
    """Leave the recording; the lab continues by itself."""

    group: ClassVar = Group.RECORDING
    verb: ClassVar = "leave"
    pattern: ClassVar = "leave the recording, and go another way"


LEAVE = LeaveRecording()


@dataclass(frozen=True, slots=True)
class _InHand:
    """An event that a machine will receive at its recorded time, and the command that it answers."""

    machine: str
    word: ProtocolMessage
    command: Command | None = None


class FollowingWorld(World):
    """A world that repeats a recorded run, event by event, until another action is taken in it."""

    def __init__(self, job: JobGraph, edge: LabEdge, recording: Recording) -> None:
        super().__init__(job, edge)
        self.recording = recording
        self.follows = True
        """Until the user does something else."""
        self.agreement = Agreement()
        self._in_hand: dict[str, _InHand] = {}
        """By the id of the command that led to it."""
        self._credits: dict[int, deque[Envelope]] = {}
        self._lost: set[int] = set()
        self._checked_every = self.check_every

    def perform(self, action: Action) -> None:
        """Repeat the next recorded event, or leave the recording. Raises LabError if the run differs from it."""
        if isinstance(action, Follow):
            self._follow(action.event)
        elif isinstance(action, LeaveRecording):
            self._leave()
        else:
            super().perform(action)

    def enabled(self) -> list[Action]:
        """Return the enabled actions; while the world follows the recording, only leaving it."""
        if not self.follows:
            return super().enabled()
        return [] if self.is_at_rest else [LEAVE]

    @property
    def enabled_count(self) -> int:
        return len(self.enabled()) if self.follows else super().enabled_count

    @property
    def is_at_rest(self) -> bool:
        return super().is_at_rest and not (self._in_hand or any(self._credits.values()))

    # --- following ------------------------------------------------------------------------------------------------

    def find(self, event: Handled) -> Take | None:
        """Return the function that takes the message or answer behind the event; None while it is missing."""
        machine = self.machine(event.machine)
        if event.identity == LAB:
            return partial(Envelope, None)
        if machine is None or machine.identity != event.identity:
            return None
        if event.cause in self._in_hand:
            return lambda: Envelope(self._in_hand.pop(event.cause).word, event.cause)
        find = self._FIND.get(event.kind, FollowingWorld._find_message)
        return find(self, event)

    def _follow(self, event: Handled) -> None:
        take, before = self.find(event), len(self.trace)
        if take is None:
            raise KeyError(event)
        self.at_ms = event.at_ms
        if event.identity == LAB:
            self._befall(event)
            return
        word, cause = take()
        if type(word).__name__ != event.kind:
            raise LabError(f"the lab has {shorten(repr(word))} where the recording says {event!r}")
        machine = self.machine(event.machine)
        assert machine is not None
        try:
            self.deliver(machine, word, cause)
        except ProtocolError as error:
            raise LabError(f"the lab cannot do what was recorded, {event!r}: {error}") from error
        self.agenda.advance(self.at_ms)
        self._compare(event, machine, self.trace.since(before))

    def _find_element(self, event: Handled) -> Take | None:
        channel = event.facts["channel"]
        return partial(self._take_element, channel) if self.agenda.on_wire(channel) else None

    def _take_element(self, channel: int) -> Envelope:
        sent = self.agenda.take_element(channel)
        return Envelope(ElementReceived(channel=channel, element=sent.word.element), sent.cause)

    def _find_credit(self, event: Handled) -> Take | None:
        channel = event.facts["channel"]
        return partial(self._take_credit, channel) if self._credits.get(channel) else None

    def _take_credit(self, channel: int) -> Envelope:
        granted = self._credits[channel].popleft()
        credits, max_rows = granted.word.credits, granted.word.max_rows
        return Envelope(CreditReceived(channel=channel, credits=credits, max_rows=max_rows), granted.cause)

    def _find_timer(self, event: Handled) -> Take | None:
        machine, timer = event.machine, event.facts["timer"]
        if self.agenda.timer(machine, timer) is None:
            return None
        return lambda: Envelope(TimerFired(timer=timer), self.agenda.take_timer(machine, timer).cause)

    def _take_outside(self, event: Handled) -> Envelope:
        word = event.word()
        if isinstance(word, SlotLost):
            self._lost.add(word.slot)
        return Envelope(word, event.cause)

    def _find_message(self, event: Handled) -> Take | None:
        """Find a message by the id of its cause. A host may lose messages to tasks that have left, and continues."""
        sender, receiver = (event.facts["task"], JOB) if event.machine == JOB else (JOB, event.machine)
        place = self.agenda.place_of(sender, receiver, event.cause)
        if place is not None:
            return partial(self.agenda.take_message, sender, receiver, place)
        place = self.agenda.place_of(JOB, sender, event.cause) if receiver == JOB else None
        return None if place is None else partial(self._take_answer_for_unknown, sender, place)

    def _take_answer_for_unknown(self, task: str, place: int) -> Envelope:
        """Take the slot's answer for a task that had left."""
        message = self.agenda.take_message(JOB, task, place)
        answer = answer_for_unknown_task(message.word, self.tasks.get(task), self.job.job_id)
        return Envelope(answer, message.cause)

    def _find_end_of_epoch(self, event: Handled) -> Take | None:
        """Find the end of an epoch: no task or slot is left in it."""
        asked = any(isinstance(work.word, StopEpoch) for _, work in self.agenda.work.values())
        return partial(self._take_end_of_epoch, event) if asked else None

    def _take_end_of_epoch(self, event: Handled) -> Envelope:
        self.agenda.cancel_io(lambda machine, work: isinstance(work, StopEpoch))
        self._forget_epoch()
        self._credits.clear()
        self._lost.clear()
        self._in_hand = {cause: held for cause, held in self._in_hand.items() if held.machine == JOB}
        return Envelope(EpochEnded(epoch=self.master.epoch), event.cause)

    def _find_cancellation(self, event: Handled) -> Take | None:
        """Find the end of a task whose region restarts."""
        asked = any(work.cause == event.cause for _, work in self.agenda.work.values())
        task = self.tasks[event.machine]
        word = CancelTask(task=task.name, attempt=task.attempt)
        return partial(Envelope, word, event.cause) if asked else None

    def _find_end_of_tasks(self, event: Handled) -> Take | None:
        """Find the end of all tasks of the regions that restart together."""
        for number, (_, work) in self.agenda.work.items():
            if work.cause == event.cause and isinstance(work.word, StopTasks):
                return partial(self._take_end_of_tasks, number, tuple(event.facts.get("slots", ())))
        return None

    def _take_end_of_tasks(self, number: int, slots: tuple[int, ...]) -> Envelope:
        _, (command, cause) = self.agenda.take_io(number)
        ended = [name for name in command.tasks if name in self.tasks]
        self._in_hand = {each: held for each, held in self._in_hand.items() if held.machine not in ended}
        for channel in [each for each in self._credits if self.graph.channels[each].source_task in ended]:
            del self._credits[channel]
        self.forget_tasks(ended)
        for slot in slots:
            self.forget_worker(slot)
        return Envelope(command.stopped(slots), cause)

    def _find_redeployment(self, event: Handled) -> Take | None:
        return partial(Envelope, SubtasksRedeployed(tasks=tuple(event.facts["tasks"])), event.cause)

    _FIND: ClassVar[dict[str, Callable[[FollowingWorld, Handled], Take | None]]] = {
        ProcessInput.__name__: lambda world, event: partial(Envelope, ProcessInput(**event.facts)),
        ElementReceived.__name__: _find_element,
        CreditReceived.__name__: _find_credit,
        TimerFired.__name__: _find_timer,
        EpochEnded.__name__: _find_end_of_epoch,
        CancelTask.__name__: _find_cancellation,
        TasksStopped.__name__: _find_end_of_tasks,
        SubtasksRedeployed.__name__: _find_redeployment,
        **dict.fromkeys(_FROM_OUTSIDE, lambda world, event: partial(world._take_outside, event)),
    }
    """The functions that find each kind of event that is neither a message nor an answer."""

    # --- faults ---------------------------------------------------------------------------------------------------

    def _befall(self, event: Handled) -> None:
        """Inject a recorded fault again: its effect on files and pending work. Its effect on machines is recorded."""
        (record,) = self.recording.records[event.id]
        kind = FAULTS[event.kind]
        facts = {**record.data, "checkpoint_id": record.checkpoint_id}
        fault = kind(**{each.name: facts[each.name] for each in fields(kind)})
        self.faults_told += 1
        self.trace.extend([record])
        again = next((self._AGAIN[each] for each in kind.__mro__ if each in self._AGAIN), FollowingWorld._break_again)
        again(self, fault, event.cause)
        self.agenda.advance(self.at_ms)

    def _break_again(self, fault: Any, cause: str) -> None:
        if not isinstance(fault, FileFault) or fault.path in self.edge.files.contents:
            fault.happen_again(self)

    def _fail_again(self, fault: FailCommand, cause: str) -> None:
        """Repeat a failed command. A failure after the work was done leaves its result."""
        held = self._in_hand.get(cause)
        if held is not None and held.command is not None and failure_of(type(held.command), fault.failure).done:
            self.files_of(held.machine).carry_out(held.command)

    def _command_again(self, fault: CommandFault, cause: str) -> None:
        """Inject a command fault again. Here the command may have another number, or be finished already."""
        for number, (_, work) in list(self.agenda.work.items()):
            if work.cause == cause:
                replace(fault, number=number).happen(self)

    _AGAIN: ClassVar[dict[type[Fault], Callable[[FollowingWorld, Any, str], None]]] = {
        FailCommand: _fail_again,
        CommandFault: _command_again,
    }
    """The functions that repeat a fault of a command, whose answer the recording may have."""

    def time_of(self, machine: Machine) -> int:
        """Return the recorded time, which is that of the machine's clock."""
        return self.at_ms if self.follows else super().time_of(machine)

    # --- comparing ------------------------------------------------------------------------------------------------

    def _compare(self, event: Handled, machine: Machine, done: Sequence[TraceRecord]) -> None:
        if machine.event_id != event.id:
            raise LabError(f"the lab is at {machine.event_id} where the recording says {event!r}: events are missing")
        recording = self.recording
        mine = [record for record in done if recording.is_detailed or keeps_record(record)]
        theirs = recording.records.get(event.id, [])
        self.agreement = replace(self.agreement, events=self.agreement.events + 1)
        if not theirs and not recording.has_heard_of(event):
            self.agreement = self.agreement.without(event.identity, len(mine))
            return
        led_here = {"", done[0].cause} if done and done[0] not in mine else set()
        for lab, recorded in zip_longest(mine, theirs):
            difference = difference_of(lab, recorded, led_here)
            if difference:
                raise LabError(f"the lab does not do what was recorded of {event!r}: {difference}")
        self.agreement = replace(self.agreement, records=self.agreement.records + len(theirs))

    # --- what the machines ask for --------------------------------------------------------------------------------

    def _grant_later(self, machine: Machine, command: GrantCredit, cause: str) -> None:
        self._credits.setdefault(command.channel, deque()).append(Envelope(command, cause))

    def _hand_over_later(self, machine: Machine, message: SlotMessage, cause: str) -> None:
        to_slot = isinstance(message, SubmitChannelState | OutputDataDecided)
        slot = slot_name(self.graph.slots.of(message.task))
        self._in_hand[cause] = _InHand(slot if to_slot else message.task, message)

    def redeploy_in_slot(self, slot: SlotChannelState, tasks: tuple[str, ...], cause: str) -> None:
        """Let the recording notify the slot, while the world follows it."""
        if not self.follows:
            super().redeploy_in_slot(slot, tasks, cause)

    def _read_now(self, machine: Machine, command: ReadSplit, cause: str) -> None:
        doomed = self.doomed_read(machine, command)
        if doomed is not None:
            self._in_hand[cause] = _InHand(machine.name, doomed)
        else:
            self._do_now(machine, command, cause)

    def _wait_for_rows(self, machine: Machine, command: AwaitRows, cause: str) -> None:
        recorded = self.recording.answers.get(cause)
        if recorded is None:
            self._await_rows(machine, command, cause)
        else:
            there = tuple(recorded.facts["split_ids"])
            answer = RowsAvailable(operator_id=command.operator_id, split_ids=there)
            self._in_hand[cause] = _InHand(machine.name, answer)

    def _set_timer(self, machine: Machine, command: ScheduleTimer, cause: str) -> None:
        self._keep_fired(machine, command.timer)
        self._schedule(machine, command, cause)

    def _unset_timer(self, machine: Machine, command: CancelTimer, cause: str) -> None:
        self._keep_fired(machine, command.timer)
        self._cancel_timer(machine, command, cause)

    def _keep_fired(self, machine: Machine, timer: str) -> None:
        """Keep a timer that the recording fires although it is being reset or cancelled: it was already due, so its
        event is in flight.
        """
        known = self.agenda.timer(machine.name, timer)
        if known is not None and known.cause in self.recording.answers:
            self._in_hand[known.cause] = _InHand(machine.name, TimerFired(timer=timer))

    def _begin_work(self, machine: Machine, command: Command, cause: str) -> None:
        """Carry out a command at once, unless it has an answer that was never recorded."""
        was_done = cause in self.recording.answers or cause in self.recording.schedule.done
        if was_done or not command.answers or command.duty is Duty.CLEAN_UP:
            self._do_now(machine, command, cause)
        else:
            self._begin_io(machine, command, cause)

    def _do_now(self, machine: Machine, command: Command, cause: str) -> None:
        recorded = self.recording.answers.get(cause)
        if recorded is not None and _failed(recorded) and command.duty is not Duty.READ_ROWS:
            self._in_hand[cause] = _InHand(machine.name, recorded.word(), command)
            return
        answer = self.files_of(machine.name).carry_out(command)
        if recorded is not None and answer is not None:
            answer = _as_recorded(answer, recorded)
        if answer is not None:
            self._in_hand[cause] = _InHand(machine.name, answer)

    DUTIES: ClassVar[dict[Duty, Callable[[Any, Machine, Any, str], None]]] = World.DUTIES | {
        Duty.SET_TIMER: _set_timer,
        Duty.CANCEL_TIMER: _unset_timer,
        Duty.GRANT_CREDITS: _grant_later,
        Duty.HAND_OVER: _hand_over_later,
        Duty.READ_ROWS: _read_now,
        Duty.AWAIT_ROWS: _wait_for_rows,
        Duty.WRITE_ROWS: _do_now,
        Duty.WORK: _begin_work,
        Duty.CLEAN_UP: _begin_work,
    }
    """The functions that differ while the world follows the recording."""

    # --- checking -------------------------------------------------------------------------------------------------

    def check_later(self) -> None:
        """Do nothing: invariants are checked when the recording is left. Until then messages within a slot can be in
        flight, which never happens in a lab, and the comparison of records replaces the check.
        """
        self._checked_every, self.check_every = self.check_every, NEVER

    def validate(self) -> None:
        """Check every machine's invariants; those of slots only if no message is in flight to one."""
        if self.follows:
            for machine in (self.master, *self.tasks.values()):
                machine.validate()
        else:
            super().validate()

    # --- leaving --------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Leave the recording, and continue as any other lab. Workers that the recording lost are removed, and delayed
        answers arrive.
        """
        self.follows, self.CARRY_OUT = False, World.CARRY_OUT
        self.check_every = self._checked_every
        for slot in self._lost:
            self.forget_worker(slot)
        credits, self._credits = self._credits, {}
        for channel, granted in credits.items():
            for credit, cause in granted:
                self._grant(self.tasks[self.graph.channels[channel].target_task], credit, cause)
        in_hand, self._in_hand = self._in_hand, {}
        for cause, held in in_hand.items():
            machine = self.machine(held.machine)
            if machine is not None:
                self.deliver(machine, held.word, cause)


def world_of_recording(
    job: JobGraph, trace: Trace, hooks: Sequence[MasterHook], before: LabEdge | None
) -> FollowingWorld:
    """Return a world that repeats a recorded run of the job, with its recorded id, and with the host's settings where
    the job has none. Raises ValueError, LabError or FileExistsError if it cannot start.
    """
    recording = Recording(trace)
    schedule, start = recording.schedule, recording.start
    if schedule.host != "lab":
        _check_sources(job)
    disk = snapshot_on_disk(str(start.restore_path)) if before is None and start.restore_path is not None else None
    if schedule.host == "lab":
        job = _with_failover_of(trace, for_the_lab(job))
    else:
        job = in_gangs(job) if schedule.slot_sharing == SlotSharing.REGION.value else as_a_whole(job)
    job = replace(job, job_id=schedule.job_id or job.job_id)
    return FollowingWorld(job, open_edge(job, start, hooks, disk or before, schedule.checkpoints), recording)


def _with_failover_of(trace: Trace, job: JobGraph) -> JobGraph:
    """Return the job with the failover of the recorded run, which an environment may have had from its default."""
    if not trace.stages:
        return job
    return replace(job, settings=replace(job.settings, failover=FailoverStrategy(trace.stages[0].failover)))


def _check_sources(job: JobGraph) -> None:
    """Raise LabError for a source whose rows only Spark has."""
    for operator in job.operators:
        spec = operator.spec
        if isinstance(spec, SourceSpec) and isinstance(spec.source, DataFrameSource | DataFrameStreamSource):
            raise LabError(
                f"source {operator.name!r} read rows that Spark had written for the recorded run, and a lab does not "
                "read these: to repeat runs, record a job with env.from_spark(df, mode='direct') or ParquetSource(path)"
            )


def follow(world: FollowingWorld) -> Iterator[Follow]:
    """Yield the recorded events, each after the one before it was handled. Raises LabError if the next event of every
    process lacks its cause.
    """
    world.check_later()
    processes = {name: deque(handled) for name, handled in world.recording.schedule.processes.items() if handled}
    while processes:
        name = _next_process(world, processes)
        yield Follow(processes[name].popleft())
        if not processes[name]:
            del processes[name]


def _next_process(world: FollowingWorld, processes: dict[str, deque[Handled]]) -> str:
    """Return the process with the earliest event that can happen. An epoch ends when its slots have no events left."""
    of_epoch = f"@{world.master.epoch}"
    for name in sorted(processes, key=lambda each: processes[each][0].at_ms):
        event = processes[name][0]
        if event.kind == EpochEnded.__name__ and any(
            each[0].identity.endswith(of_epoch) for each in processes.values()
        ):
            continue  # a task or a slot of the epoch still has events
        if world.find(event) is not None:
            return name
    waiting = "; ".join(f"{events[0]!r} after {events[0].cause or 'nothing'}" for events in processes.values())
    raise LabError(f"the lab cannot continue as recorded: the cause of the next event is missing, {waiting}")


def _as_recorded(answer: ProtocolMessage, recorded: Handled) -> ProtocolMessage:
    """Return the lab's answer with the host's measurements, or the recorded error if the host had an error instead."""
    if type(answer).__name__ == recorded.kind:
        return answer if recorded.kind in _FAILURES else replace(answer, **recorded.facts)
    return recorded.word() if _failed(recorded) else answer


def _failed(answer: Handled) -> bool:
    return answer.kind in _FAILURES and bool(answer.facts.get("error"))


FollowingWorld.CARRY_OUT = by_command(FollowingWorld.DUTIES, COMMANDS)
