"""The half of the lab's world that breaks: one method per type of fault, and the table that has them.

A fault befalls what is under way, a worker, the driver, a file or a clock; what the machines make of it is their
business. Where a real host would notice, the machines are told as that host tells them: a command that fails is
answered with what the command itself makes of the error, a lost operator event with `OperatorEventLost`, a worker that
is gone with `SlotLost`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ClassVar

from kit.core.protocol.commands import ReadSplit, ScheduleTimer
from kit.core.protocol.duties import Command, Failure
from kit.core.protocol.events import CreditReceived, OperatorEventLost, SlotLost, SlotsChanged
from kit.core.protocol.messages import OperatorEventToTask
from kit.core.protocol.trace import Trace, TraceRecord
from kit.core.protocol.words import Envelope, Machine, Word
from kit.hosts.lab.faults.faults import (
    CorruptFile,
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    FailCommand,
    FailNextRead,
    ForgeMessage,
    FreezeWorker,
    KillDriver,
    KillWorker,
    LoseAnswer,
    LoseFile,
    LoseSlot,
    MessageFault,
    MissHeartbeat,
    NeverAnswer,
    OfferSlots,
    ThawWorker,
    TruncateFile,
    TurnClock,
)
from kit.hosts.lab.faults.forging import forged
from kit.hosts.lab.world.actions import Fault
from kit.hosts.lab.world.agenda import Agenda
from kit.hosts.lab.world.edge import LabEdge
from kit.machines.channel.channel_state.slot_channel_state import SlotChannelState, slot_name
from kit.machines.job.job_master import JobMaster
from kit.machines.task.stream_task import StreamTask

LAB, FAULT = "lab", "fault"
"""Machine and role of the records that tell of faults."""
EVERY_BIT = 0xFF


class Breakable:
    """What can be done to a world that does not happen by itself."""

    master: JobMaster
    tasks: dict[str, StreamTask]
    slots: dict[str, SlotChannelState]
    agenda: Agenda
    edge: LabEdge
    trace: Trace
    at_ms: int
    deliver: Callable[..., None]
    machine: Callable[[str], Machine | None]

    def __init__(self) -> None:
        self.frozen: set[int] = set()
        """The workers that stand still."""
        self.driver_is_dead = False
        self.doomed_reads: dict[str, str] = {}
        """The tasks whose next read of their source fails, and how."""
        self._faults = 0
        self._held_credits: list[tuple[str, CreditReceived, str]] = []
        """What frozen senders will be told when they go on."""
        self._turned_ms: dict[str, int] = {}
        """By how much clocks are turned, by machine."""

    def id_of(self, fault: Fault) -> str:
        """The id of the message or command that a fault befalls, as the trace has it; "" for another fault."""
        if isinstance(fault, MessageFault):
            message = self.agenda.message(fault.sender, fault.receiver, fault.place)
            return "" if message is None else message.cause
        if isinstance(fault, FailCommand | NeverAnswer | LoseAnswer) and fault.number in self.agenda.work:
            return self.agenda.work[fault.number][1].cause
        return ""

    def break_down(self, fault: Fault) -> None:
        """Let a fault happen, which must be possible now (`kit.hosts.lab.faults.possible_faults`), and leave a record
        of it.
        """
        if fault.recorded:
            self._faults += 1
            told = {each.name: getattr(fault, each.name) for each in fields(fault) if each.compare}
            checkpoint_id = told.pop("checkpoint_id", None)
            data = {"text": fault.text} | told
            kind = type(fault).__name__
            record = TraceRecord(
                f"{LAB}#{self._faults}", self.id_of(fault), self.at_ms, LAB, FAULT, kind, checkpoint_id, data
            )
            self.trace.extend([record])
        self._BREAK[type(fault)](self, fault)

    # --- messages -------------------------------------------------------------------------------------------------

    def _drop_message(self, fault: DropMessage) -> None:
        """Of an operator event that does not arrive the host hears, as a cluster's does; of others it does not."""
        lost, cause = self.agenda.take_message(fault.sender, fault.receiver, fault.place)
        if isinstance(lost, OperatorEventToTask):
            told = OperatorEventLost(
                task=lost.task, attempt=lost.attempt, operator_id=lost.operator_id, error="it was lost in the lab"
            )
            self.deliver(self.master, told, cause)

    def _duplicate_message(self, fault: DuplicateMessage) -> None:
        self.agenda.duplicate_message(fault.sender, fault.receiver, fault.place)

    def _forge_message(self, fault: ForgeMessage) -> None:
        message = self.agenda.message(fault.sender, fault.receiver, fault.place)
        assert message is not None
        word = forged(message.word, fault.claims, self._copied)
        self.agenda.insert_message(fault.sender, fault.receiver, fault.place + 1, Envelope(word, message.cause))

    def _copied(self, path: str) -> str:
        """Copy a file, if it still exists; return the path of the copy, beside it."""
        directory, _, name = path.rpartition("/")
        copy = f"{directory}/forged-{self._faults}-{name}"
        contents = self.edge.files.contents
        if path in contents:
            contents[copy] = contents[path]
        return copy

    def _delay_message(self, fault: DelayMessage) -> None:
        self.agenda.delay_message(fault.sender, fault.receiver, fault.place, fault.until_ms)

    # --- what was asked for ---------------------------------------------------------------------------------------

    def _fail_command(self, fault: FailCommand) -> None:
        machine_name, (command, cause) = self.agenda.take_io(fault.number)
        machine = self.machine(machine_name)
        failure = failure_of(type(command), fault.failure)
        if failure.done:
            self.files_of(machine_name).carry_out(command)
        answer = command.failed(failure.raised())
        if machine is not None and answer is not None:
            self.deliver(machine, answer, cause)

    def _never_answer(self, fault: NeverAnswer) -> None:
        self.agenda.take_io(fault.number)

    def _lose_answer(self, fault: LoseAnswer) -> None:
        machine_name, (command, _) = self.agenda.take_io(fault.number)
        self.files_of(machine_name).carry_out(command)

    def _fail_next_read(self, fault: FailNextRead) -> None:
        self.doomed_reads[fault.task] = fault.failure

    def doomed_read(self, machine: Machine, command: ReadSplit) -> Word | None:
        """What answers a read that was made to fail; None for any other."""
        failure = self.doomed_reads.pop(machine.name, None)
        return None if failure is None else command.failed(failure_of(ReadSplit, failure).raised())

    def files_of(self, machine: str) -> Any:
        """Who carries out what this machine asks of its disk."""
        return self.edge.for_job if machine == self.master.name else self.edge.for_tasks

    # --- workers and the driver -----------------------------------------------------------------------------------

    def _kill_worker(self, fault: KillWorker) -> None:
        self._end_worker(fault.worker, "it was killed in the lab")

    def _miss_heartbeat(self, fault: MissHeartbeat) -> None:
        self._end_worker(fault.worker, "its heartbeat was missed")

    def _end_worker(self, worker: int, error: str) -> None:
        self.forget_worker(worker)
        self.deliver(self.master, SlotLost(epoch=self.master.epoch, slot=worker, error=error))

    def _lose_slot(self, fault: LoseSlot) -> None:
        """The slot is known to be gone before its worker is missed."""
        known = self.master.rescaling.slots
        slots = max(self.master.graph.parallelism.values()) if known is None else known
        self.deliver(self.master, SlotsChanged(slots=slots - 1))
        self._end_worker(fault.worker, "its slot was lost in the lab")

    def _offer_slots(self, fault: OfferSlots) -> None:
        self.deliver(self.master, SlotsChanged(slots=fault.slots))

    def forget_worker(self, worker: int) -> None:
        """A worker is gone, with all that was under way to and from it."""
        ended = self.machines_of(worker)
        for name in ended:
            self.tasks.pop(name, None)
            self.slots.pop(name, None)
        self.forget_faults_of(ended)
        self.frozen.discard(worker)
        self.agenda.forget(ended)

    def machines_of(self, worker: int) -> list[str]:
        """The tasks of a worker, and its slot."""
        tasks = [name for name, task in self.tasks.items() if task.subtask == worker]
        return tasks + [name for name in (slot_name(worker),) if name in self.slots]

    def _freeze_worker(self, fault: FreezeWorker) -> None:
        self.frozen.add(fault.worker)
        self.agenda.hold(self.machines_of(fault.worker))

    def _thaw_worker(self, fault: ThawWorker) -> None:
        names = self.machines_of(fault.worker)
        self.frozen.discard(fault.worker)
        self.agenda.release(names)
        for name in names:
            if name in self.tasks:
                self.agenda.set_turn(name, self.tasks[name].available)
        due = [credit for credit in self._held_credits if credit[0] in names]
        self._held_credits = [credit for credit in self._held_credits if credit[0] not in names]
        for name, credit, cause in due:
            self.deliver(self.tasks[name], credit, cause)

    def give_credit(self, sender: StreamTask, credit: CreditReceived, cause: str) -> None:
        """Tell the sender that its receiver has room again; one that is frozen hears of it when it goes on."""
        if sender.subtask in self.frozen:
            self._held_credits.append((sender.name, credit, cause))
        else:
            self.deliver(sender, credit, cause)

    def _kill_driver(self, fault: KillDriver) -> None:
        self.driver_is_dead = True
        self.forget_faults_of([*self.tasks, *self.slots])
        self.tasks, self.slots = {}, {}
        self.frozen.clear()
        self.agenda = Agenda()

    def forget_faults_of(self, names: list[str]) -> None:
        """These machines are gone, and what was to befall them."""
        self._held_credits = [credit for credit in self._held_credits if credit[0] not in names]
        for name in names:
            self.doomed_reads.pop(name, None)
            self._turned_ms.pop(name, None)

    # --- files and clocks -----------------------------------------------------------------------------------------

    def _lose_file(self, fault: LoseFile) -> None:
        del self.edge.files.contents[fault.path]

    def _truncate_file(self, fault: TruncateFile) -> None:
        contents = self.edge.files.contents
        contents[fault.path] = contents[fault.path][: fault.size_bytes]

    def _corrupt_file(self, fault: CorruptFile) -> None:
        contents = self.edge.files.contents
        data = bytearray(contents[fault.path])
        data[fault.offset] ^= EVERY_BIT
        contents[fault.path] = bytes(data)

    def _turn_clock(self, fault: TurnClock) -> None:
        self._turned_ms[fault.machine] = self._turned_ms.get(fault.machine, 0) + fault.by_ms

    def time_of(self, machine: Machine) -> int:
        """What a machine's clock says, in ms; it never goes back."""
        turned_ms = self._turned_ms.get(machine.name)
        return self.at_ms if turned_ms is None else max(machine.at, self.at_ms + turned_ms)

    def on_the_lab_s_clock(self, machine: Machine, timer: ScheduleTimer) -> ScheduleTimer:
        """The timer as the lab's own clock will know that it is due."""
        ahead_ms = self.time_of(machine) - self.at_ms if self._turned_ms else 0
        return replace(timer, due_ms=timer.due_ms - ahead_ms) if ahead_ms else timer

    _BREAK: ClassVar[dict[type[Fault], Callable[[Breakable, Any], None]]] = {
        DropMessage: _drop_message,
        DuplicateMessage: _duplicate_message,
        DelayMessage: _delay_message,
        ForgeMessage: _forge_message,
        FailCommand: _fail_command,
        NeverAnswer: _never_answer,
        LoseAnswer: _lose_answer,
        FailNextRead: _fail_next_read,
        KillWorker: _kill_worker,
        FreezeWorker: _freeze_worker,
        ThawWorker: _thaw_worker,
        MissHeartbeat: _miss_heartbeat,
        LoseSlot: _lose_slot,
        OfferSlots: _offer_slots,
        KillDriver: _kill_driver,
        LoseFile: _lose_file,
        TruncateFile: _truncate_file,
        CorruptFile: _corrupt_file,
        TurnClock: _turn_clock,
    }
    """What each type of fault does."""


def failure_of(command: type[Command], name: str) -> Failure:
    """The failure of this name that a command declares. Raises KeyError with those there are for any other."""
    for failure in command.failures:
        if failure.name == name:
            return failure
    known = ", ".join(failure.name for failure in command.failures) or "none"
    raise KeyError(f"{command.__name__} has no failure {name!r}; it declares {known}")
