"""The table of faults. An entry is the complete definition of one fault; see `kit.hosts.lab.faults.fault`.

A fault affects a message, a command, a worker, the driver, a file or a clock. The machines react as to any event. If a
real host would notice the fault, the machines receive that host's event:

- a failed command is answered with the event that the command itself makes of the error;
- the JobMaster receives `OperatorEventLost` for a lost operator event, and `SlotLost` for a lost worker.

A fault leaves a record in the trace, with the machine "lab" and the role "fault".

To add a fault, add its class here, its effect included, and a test; `python -m tests.house.faults_page` adds it to
`docs/FAULTS.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Self

from kit.core.protocol.commands import ReadSplit, StopEpoch, StopTasks
from kit.core.protocol.duties import Failure
from kit.core.protocol.events import OperatorEventLost, SlotsChanged
from kit.core.protocol.messages import NotifyCheckpointComplete, OperatorEventToTask
from kit.core.protocol.words import Envelope, ProtocolMessage
from kit.core.state.file_names import parts_of
from kit.hosts.lab.errors import LabError, enumerated, whole_number
from kit.hosts.lab.faults.fault import Drawn, Explored, Fault, PlainFault, not_asked, not_there
from kit.hosts.lab.faults.forging import REPORTS, STRANGER, USUAL, claims_of, forged
from kit.hosts.lab.faults.forging import why_not as why_not_forged
from kit.hosts.lab.world.actions import Action, CarryOut, DeliverMessage, Group, TakeTurn, named
from kit.hosts.lab.world.message_rules import MESSAGE_RULES
from kit.hosts.lab.world.world import World, failure_of
from kit.machines.job.status import JobStatus

DELAY_MS = 1_000
"""The default by which a message is delayed, or a clock turned."""
EVERY_BIT = 0xFF
MOST_ARGUMENTS = 36
"""In a random run, the number that chooses among candidates is below this."""
NOBODY_HEARS = "it has no answer to lose; lab.faults.never() prevents it"


def _delayed(world: World, argument: int) -> tuple[Sequence[Fault], int]:
    until_ms = world.at_ms + 10 * (1 + argument % 7)
    return [replace(fault, until_ms=until_ms) for fault in DelayMessage.possible(world)], argument


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class MessageFault(Fault):
    """A fault of the `place`-th message in flight from `sender` to `receiver`, counted from 0."""

    message: str
    """The name of its type."""
    checkpoint_id: int | None
    sender: str
    receiver: str
    place: int = 0

    group: ClassVar = Group.MESSAGES
    whom: ClassVar = "receiver"

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        for (sender, receiver), place, message in world.agenda.messages():
            for more in cls.variants(world, message.word):
                yield cls(*named(message.word), sender, receiver, place, *more)

    @classmethod
    def variants(cls, world: World, message: ProtocolMessage) -> Sequence[tuple[Any, ...]]:
        """Return the values of the fields that the subclass adds, for each fault of this message."""
        return [()]

    def refusal(self, world: World) -> str | None:
        meant = world.agenda.message(self.sender, self.receiver, self.place)
        if meant is None or named(meant.word) != (self.message, self.checkpoint_id):
            return f"no {self.message} is in flight there from {self.sender} to {self.receiver}"
        return self.refusal_of(world, meant.word)

    def refusal_of(self, world: World, message: ProtocolMessage) -> str | None:
        """Return why this may not happen to a message in flight, or None if it may."""
        raise NotImplementedError

    def befalls(self, world: World) -> str:
        message = world.agenda.message(self.sender, self.receiver, self.place)
        return "" if message is None else message.cause

    def is_about(self, action: Action) -> bool:
        if isinstance(action, MessageFault):
            return (self.sender, self.receiver, self.place) == (action.sender, action.receiver, action.place)
        if isinstance(action, DeliverMessage):
            return (self.sender, self.receiver, self.place) == (action.sender, action.receiver, 0)
        return False


def _lost(world: World, argument: int) -> tuple[Sequence[Fault], int]:
    """Return the messages whose loss only makes a checkpoint expire."""
    lost = ("TriggerTaskCheckpoint", "AcknowledgeCheckpoint", "DeclineCheckpoint")
    return [fault for fault in DropMessage.possible(world) if fault.message in lost], argument


@dataclass(frozen=True, slots=True, repr=False)
class DropMessage(MessageFault):
    """A message is lost; those behind it still arrive."""

    verb: ClassVar = "drop"
    pattern: ClassVar = "lose {message}{of_checkpoint} from {sender} to {receiver}"
    method: ClassVar = "lose"
    line: ClassVar = "lose {what}"
    doing: ClassVar = "that could be lost"
    example: ClassVar = 'lab.faults.lose("ack of sums/1")'
    offer: ClassVar = "Lose it"
    explored: ClassVar = Explored(
        "lose", "an acknowledgement never arrives; when nothing else can happen any more, the checkpoint expires"
    )
    drawn: ClassVar = Drawn("lose", "a message is lost ({})", 2, choose=_lost)

    def refusal_of(self, world: World, message: ProtocolMessage) -> str | None:
        rule = MESSAGE_RULES[type(message)]
        if not rule.lost:
            return f"{self.message} cannot be lost: {rule.why_not_lost}"
        if isinstance(message, NotifyCheckpointComplete) and world.takes_last_checkpoint:
            return f"this {self.message} cannot be lost: no other checkpoint will follow that could cover it"
        return None

    def happen(self, world: World) -> None:
        """Drop the message. Like a cluster's, the host notices only the loss of an operator event."""
        lost, cause = world.agenda.take_message(self.sender, self.receiver, self.place)
        if isinstance(lost, OperatorEventToTask):
            note = OperatorEventLost(
                task=lost.task, attempt=lost.attempt, operator_id=lost.operator_id, error="it was lost in the lab"
            )
            world.deliver(world.master, note, cause)

    def happen_again(self, world: World) -> None:
        world.agenda.take_message(self.sender, self.receiver, self.place)

    @property
    def is_named(self) -> bool:
        return self.place == 0


@dataclass(frozen=True, slots=True, repr=False)
class DuplicateMessage(MessageFault):
    """A message arrives twice: its copy is right behind it."""

    verb: ClassVar = "duplicate"
    pattern: ClassVar = "duplicate {message}{of_checkpoint} from {sender} to {receiver}"
    line: ClassVar = "duplicate {what}"
    doing: ClassVar = "that could be doubled"
    example: ClassVar = 'lab.faults.duplicate("ack of sums/1")'
    offer: ClassVar = "Let it arrive twice"
    explored: ClassVar = Explored("repeat", "an acknowledgement arrives twice")
    drawn: ClassVar = Drawn("duplicate", "a message comes twice ({})")

    def refusal_of(self, world: World, message: ProtocolMessage) -> str | None:
        rule = MESSAGE_RULES[type(message)]
        return None if rule.doubled else f"{self.message} cannot be doubled: {rule.why_not_doubled}"

    def happen(self, world: World) -> None:
        world.agenda.duplicate_message(self.sender, self.receiver, self.place)


@dataclass(frozen=True, slots=True, repr=False)
class DelayMessage(MessageFault):
    """A message arrives at `until_ms` at the earliest. Messages keep their order, so those behind it arrive later
    still.
    """

    until_ms: int = 0

    verb: ClassVar = "delay"
    pattern: ClassVar = "hold {message}{of_checkpoint} from {sender} to {receiver} back until {until_ms} ms"
    line: ClassVar = "delay {what} by {by_ms} ms"
    doing: ClassVar = "that could be held back"
    example: ClassVar = 'lab.faults.delay("ack of sums/1", by_ms=500)'
    offer: ClassVar = "Hold it back for a second"
    drawn: ClassVar = Drawn("delay", "a message is held back ({})", choose=_delayed)

    @classmethod
    def variants(cls, world: World, message: ProtocolMessage) -> Sequence[tuple[Any, ...]]:
        return [(world.at_ms + DELAY_MS,)]

    def adjusted(self, world: World, *, by_ms: int | None = None, until_ms: int | None = None) -> Fault:
        if until_ms is None and by_ms is not None:
            until_ms = world.at_ms + by_ms
        return self if until_ms is None else replace(self, until_ms=until_ms)

    def refusal_of(self, world: World, message: ProtocolMessage) -> str | None:
        return f"it is {world.at_ms} ms already" if self.until_ms <= world.at_ms else None

    def happen(self, world: World) -> None:
        world.agenda.delay_message(self.sender, self.receiver, self.place, self.until_ms)


@dataclass(frozen=True, slots=True, repr=False)
class ForgeMessage(MessageFault):
    """A task's report on a checkpoint is followed by a forged copy, which claims another job, task, attempt or
    checkpoint. Unless it claims another job, it refers to copies of the files.
    """

    claims: str = STRANGER

    verb: ClassVar = "forge"
    pattern: ClassVar = "forge {message}{of_checkpoint} from {sender} to {receiver}: {claims}"
    line: ClassVar = "forge {what}: {claims}"
    doing: ClassVar = "that could be forged"
    example: ClassVar = 'lab.faults.forge("ack of sums/1", task="stranger/0")'

    @classmethod
    def variants(cls, world: World, message: ProtocolMessage) -> Sequence[tuple[Any, ...]]:
        """Return the usual forgeries of a report."""
        return [(claims,) for claims in USUAL] if isinstance(message, REPORTS) else []

    @classmethod
    def targets(cls, world: World) -> Iterator[Self]:
        return (fault for fault in cls.possible(world) if fault.claims == STRANGER)

    def adjusted(
        self,
        world: World,
        *,
        job: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
        checkpoint: int | None = None,
    ) -> Fault:
        claims = claims_of(job=job, task=task, attempt=attempt, checkpoint=checkpoint)
        return replace(self, claims=claims) if claims else self

    def refusal_of(self, world: World, message: ProtocolMessage) -> str | None:
        if not isinstance(message, REPORTS):
            return f"{self.message} cannot be forged: only what a task reports on a checkpoint can"
        return why_not_forged(self.claims)

    def happen(self, world: World) -> None:
        message = world.agenda.message(self.sender, self.receiver, self.place)
        assert message is not None
        contents, number = world.edge.files.contents, world.faults_told

        def copied(path: str) -> str:
            """Copy a file, if it still exists, and return the path of the copy in the same directory."""
            directory, _, name = path.rpartition("/")
            copy = f"{directory}/forged-{number}-{name}"
            if path in contents:
                contents[copy] = contents[path]
            return copy

        word = forged(message.word, self.claims, copied)
        world.agenda.insert_message(self.sender, self.receiver, self.place + 1, Envelope(word, message.cause))


# --- commands and reads -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class CommandFault(Fault):
    """A fault of a command that a machine has issued and the host has not carried out yet."""

    machine: str
    command: str
    """The name of its type."""
    checkpoint_id: int | None
    number: int
    """The number of the `CarryOut` action that would carry it out."""

    group: ClassVar = Group.WORK
    whom: ClassVar = "machine"

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        for number, (machine, asked) in world.agenda.work.items():
            for more in cls.variants(asked.word):
                yield cls(machine, *named(asked.word), number, *more)

    @classmethod
    def variants(cls, command: Any) -> Sequence[tuple[Any, ...]]:
        """Return the values of the fields that the subclass adds, for each fault of this command."""
        return [()]

    def refusal(self, world: World) -> str | None:
        return not_asked(world, self.command, self.number)

    def befalls(self, world: World) -> str:
        return world.agenda.work[self.number][1].cause if self.number in world.agenda.work else ""

    def is_about(self, action: Action) -> bool:
        return isinstance(action, CarryOut | CommandFault) and self.number == action.number


def _failure_named(how: str, failures: Sequence[Failure], about: str) -> str:
    """Return the name of the failure that was named, ignoring case."""
    names = [failure.name for failure in failures]
    for name in names:
        if name.lower() == how.lower():
            return name
    raise LabError(f"{about} may fail in other ways than {how!r}: {enumerated(names)}")


def _failing(world: World, argument: int) -> tuple[Sequence[Fault], int]:
    """Return the possible failures of one kind of command, and the index of the chosen one.

    These kinds may fail without failing the job permanently. Deletions are not among them, because a failed deletion
    leaves files behind.
    """
    kinds = (
        *("AllocateCheckpointId", "InitializeLocation", "ScheduleCoordinatorCheckpoint", "WriteSnapshot"),
        *("WriteChannelStateFile", "WriteMetadata", "StoreCheckpoint", "CommitEffects", "ReadState", "ReadSplit"),
    )
    kind, which = kinds[argument % len(kinds)], argument // len(kinds)
    if world.master.status is JobStatus.CREATED:
        return [], which
    if kind == "ReadSplit":
        return [fault for fault in FailNextRead.possible(world) if fault.failure == "io"], which
    return [fault for fault in FailCommand.possible(world) if fault.command == kind], which


@dataclass(frozen=True, slots=True, repr=False)
class FailCommand(CommandFault):
    """A command fails, in one of the ways that it declares (`Command.failures`)."""

    failure: str

    verb: ClassVar = "fail"
    pattern: ClassVar = "let {command}{of_checkpoint} of {machine} fail: {failure}"
    line: ClassVar = "fail {what}[: {how}]"
    doing: ClassVar = "that could fail"
    example: ClassVar = 'lab.faults.fail("StoreCheckpoint of chk-2", "PossibleInconsistentState")'
    explored: ClassVar = Explored(
        "fail", "a file, a directory or the store fails: a command ends in the failure that it declares"
    )
    drawn: ClassVar = Drawn("fail", "the next command of a kind fails ({})", 6, choose=_failing, waits=True)

    @classmethod
    def variants(cls, command: Any) -> Sequence[tuple[Any, ...]]:
        return [(failure.name,) for failure in command.failures]

    @classmethod
    def targets(cls, world: World) -> Iterator[Self]:
        return (next(faults) for _, faults in groupby(cls.possible(world), attrgetter("number")))

    def adjusted(self, world: World, how: str | None = None) -> Fault:
        asked = world.agenda.work.get(self.number)
        if how is None or asked is None:
            return self
        return replace(self, failure=_failure_named(how, asked[1].word.failures, self.subject))

    def refusal(self, world: World) -> str | None:
        if self.number not in world.agenda.work:
            return not_asked(world, self.command, self.number)
        command = world.agenda.work[self.number][1].word
        known = {failure.name: failure for failure in command.failures}
        if self.failure not in known:
            what = f"it may fail with {enumerated([*known])}" if known else NOBODY_HEARS
            return f"{self.command} does not fail with {self.failure!r}: {what}"
        if command.failed(known[self.failure].raised()) is None:
            return f"this {self.command} cannot be seen to fail: {NOBODY_HEARS}"
        return None

    def happen(self, world: World) -> None:
        machine_name, (command, cause) = world.agenda.take_io(self.number)
        machine = world.machine(machine_name)
        failure = failure_of(type(command), self.failure)
        if failure.done:
            world.files_of(machine_name).carry_out(command)
        answer = command.failed(failure.raised())
        if machine is not None and answer is not None:
            world.deliver(machine, answer, cause)


@dataclass(frozen=True, slots=True, repr=False)
class NeverAnswer(CommandFault):
    """A command is never carried out, and no answer is sent."""

    verb: ClassVar = "never"
    pattern: ClassVar = "never answer {command}{of_checkpoint} of {machine}"
    line: ClassVar = "never answer {what}"
    doing: ClassVar = "that waits for an answer"
    example: ClassVar = 'lab.faults.never("WriteSnapshot of sums/1")'

    def happen(self, world: World) -> None:
        world.agenda.take_io(self.number)


@dataclass(frozen=True, slots=True, repr=False)
class LoseAnswer(CommandFault):
    """A command is carried out, and its answer is lost."""

    verb: ClassVar = "lose_answer"
    pattern: ClassVar = "carry out {command}{of_checkpoint} for {machine} and lose the answer"
    method: ClassVar = "lose"
    example: ClassVar = 'lab.faults.lose("answer of StoreCheckpoint")'

    @classmethod
    def variants(cls, command: Any) -> Sequence[tuple[Any, ...]]:
        """Return one for a command with an answer, except a worker's shutdown, which involves no disk."""
        return [()] if command.answers and not isinstance(command, StopEpoch | StopTasks) else []

    def happen(self, world: World) -> None:
        machine, (command, _) = world.agenda.take_io(self.number)
        world.files_of(machine).carry_out(command)


@dataclass(frozen=True, slots=True, repr=False)
class FailNextRead(Fault):
    """A source's next read fails, in one of the ways that `ReadSplit` declares."""

    task: str
    failure: str

    group: ClassVar = Group.WORK
    verb: ClassVar = "fail_read"
    pattern: ClassVar = "let the next ReadSplit of {task} fail: {failure}"
    whom: ClassVar = "task"
    method: ClassVar = "fail"
    example: ClassVar = 'lab.faults.fail("read of rows/0")'

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        for name, task in world.tasks.items():
            if task.is_source:
                yield from (cls(name, failure.name) for failure in ReadSplit.failures)

    @classmethod
    def targets(cls, world: World) -> Iterator[Self]:
        return (fault for fault in cls.possible(world) if fault.failure == ReadSplit.failures[0].name)

    def adjusted(self, world: World, how: str | None = None) -> Fault:
        return self if how is None else replace(self, failure=_failure_named(how, ReadSplit.failures, self.subject))

    def refusal(self, world: World) -> str | None:
        task = world.tasks.get(self.task)
        if task is None:
            return not_there(world, self.task)
        if not task.is_source:
            return f"{self.task} reads no source"
        if self.task in world.doomed_reads:
            return f"the next read of {self.task} is to fail already"
        known = [failure.name for failure in ReadSplit.failures]
        return None if self.failure in known else f"ReadSplit may fail with {enumerated(known)}"

    def happen(self, world: World) -> None:
        world.doomed_reads[self.task] = self.failure

    def is_about(self, action: Action) -> bool:
        return isinstance(action, TakeTurn) and self.task == action.task


# --- workers and the driver -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class WorkerFault(PlainFault):
    """A fault of a worker, which is a slot with its tasks."""

    worker: int

    group: ClassVar = Group.WORKERS
    whom: ClassVar = "worker"
    frozen: ClassVar[bool | None] = None
    """True if the worker must be frozen, False if it must not be, None if either is fine."""

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        return (cls(worker) for worker in world.workers)

    def details(self, world: World) -> dict[str, Any]:
        return {"tasks": list(world.graph.slots.tasks_in(self.worker))}

    def refusal(self, world: World) -> str | None:
        there = world.workers
        if self.worker not in there:
            if world.master.status.is_terminal:
                known = f"none, since the job is {world.master.status.name}: lab.back(n) goes back to when it ran"
            else:
                known = ", ".join(map(str, there)) or "none yet: lab.run_until(record='AllTasksRunning')"
            kind = "" if isinstance(self.worker, int) else ", which are numbers, one for each subtask index"
            return f"no worker {self.worker!r} runs now{kind}; there are {known}"
        if self.frozen in (None, self.worker in world.frozen):
            return None
        return f"worker {self.worker} is {'not frozen' if self.frozen else 'frozen already'}"


@dataclass(frozen=True, slots=True, repr=False)
class KillWorker(WorkerFault):
    """A worker's process dies. Its subtasks are gone at once, with everything in flight to and from them."""

    verb: ClassVar = "kill"
    pattern: ClassVar = "kill worker {worker}"
    recorded: ClassVar = False
    example: ClassVar = "lab.faults.kill(1)"
    explored: ClassVar = Explored("kill", "a worker dies, with all subtasks of its number")
    drawn: ClassVar = Drawn("kill", "a worker is killed ({})", 3)

    def happen(self, world: World) -> None:
        world.end_worker(self.worker, "it was killed in the lab")


@dataclass(frozen=True, slots=True, repr=False)
class LoseMachine(WorkerFault):
    """A worker dies together with its machine's disk. The local copies of its state are lost, so its tasks are restored
    from the checkpoint directory, while the other tasks read their local copies.
    """

    verb: ClassVar = "lose_machine"
    pattern: ClassVar = "lose worker {worker} and its machine"
    example: ClassVar = "lab.faults.lose_machine(1)"
    drawn: ClassVar = Drawn("machine", "a worker dies with its machine ({})")

    def happen(self, world: World) -> None:
        self.happen_again(world)
        world.end_worker(self.worker, "its machine was lost in the lab")

    def happen_again(self, world: World) -> None:
        world.edge.for_tasks.forget_local_state(self.worker)


@dataclass(frozen=True, slots=True, repr=False)
class FreezeWorker(WorkerFault):
    """A worker freezes, as in a long garbage collection: its tasks take no turn, its timers do not fire, its reads and
    writes do not complete, and messages to it stay in flight. Messages that it had sent still arrive.
    """

    verb: ClassVar = "freeze"
    pattern: ClassVar = "freeze worker {worker}"
    frozen: ClassVar = False
    example: ClassVar = "lab.faults.freeze(1)"
    drawn: ClassVar = Drawn("freeze", "a worker freezes until the next intervention ({})")

    def happen(self, world: World) -> None:
        world.freeze(self.worker)


@dataclass(frozen=True, slots=True, repr=False)
class ThawWorker(WorkerFault):
    """A frozen worker continues as if nothing had happened."""

    verb: ClassVar = "thaw"
    pattern: ClassVar = "thaw worker {worker}"
    frozen: ClassVar = True
    example: ClassVar = "lab.faults.thaw(1)"

    def happen(self, world: World) -> None:
        world.thaw(self.worker)


@dataclass(frozen=True, slots=True, repr=False)
class MissHeartbeat(WorkerFault):
    """The host receives no heartbeat from a frozen worker for too long, considers it dead, and ends it."""

    verb: ClassVar = "miss_heartbeat"
    pattern: ClassVar = "miss the heartbeat of worker {worker}"
    frozen: ClassVar = True
    example: ClassVar = "lab.faults.miss_heartbeat(1)"

    def happen(self, world: World) -> None:
        world.end_worker(self.worker, "its heartbeat was missed")

    def happen_again(self, world: World) -> None:
        """End the worker; the recording has the message to the JobMaster."""


def _refused_by_slots(world: World) -> str | None:
    return None if world.master.ending_as is None else f"the job is {world.master.status.name}"


@dataclass(frozen=True, slots=True, repr=False)
class LoseSlot(WorkerFault):
    """A worker dies together with its slot, as when its machine fails. A reactive job continues without the slot; any
    other job waits for a new one.
    """

    verb: ClassVar = "lose_slot"
    pattern: ClassVar = "lose worker {worker} and its slot"
    line: ClassVar = "lose slot {worker}"
    recorded: ClassVar = False
    example: ClassVar = "lab.faults.lose_slot(1)"

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        return (cls(worker) for worker in (world.workers if world.job.settings.rescaling.reactive else ()))

    def refusal(self, world: World) -> str | None:
        return WorkerFault.refusal(self, world) or _refused_by_slots(world)

    def happen(self, world: World) -> None:
        """Remove the slot before the worker, so that the JobMaster learns of the slot first."""
        known = world.master.rescaling.slots
        slots = len(world.master.graph.slots) if known is None else known
        world.deliver(world.master, SlotsChanged(slots=slots - 1))
        world.end_worker(self.worker, "its slot was lost in the lab")


@dataclass(frozen=True, slots=True, repr=False)
class OfferSlots(PlainFault):
    """The number of slots changes; it includes those that the job holds."""

    slots: int

    group: ClassVar = Group.WORKERS
    verb: ClassVar = "offer_slots"
    pattern: ClassVar = "offer the job {slots} slots"
    line: ClassVar = "offer {slots} slots"
    recorded: ClassVar = False
    example: ClassVar = "lab.faults.offer_slots(3)"

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        if world.job.settings.rescaling.reactive:
            yield cls(max(vertex.parallelism for vertex in world.job.vertices))

    def refusal(self, world: World) -> str | None:
        whole_number("slots", self.slots, "the number of slots that the job may use", least=1)
        if (ends := _refused_by_slots(world)) is not None:
            return ends
        running = len(world.workers)
        is_less = self.slots < running
        return f"{running} workers run: lab.faults.lose_slot() takes one with its slot" if is_less else None

    def happen(self, world: World) -> None:
        world.deliver(world.master, SlotsChanged(slots=self.slots))


@dataclass(frozen=True, slots=True, repr=False)
class KillDriver(PlainFault):
    """The process of the JobMaster dies, and with it everything except the disk. Nothing more happens in this lab. With
    a durable store, another driver can continue: `Lab(job, after=lab, recover=True)`.
    """

    group: ClassVar = Group.DRIVER
    verb: ClassVar = "kill_driver"
    pattern: ClassVar = "kill the driver"
    example: ClassVar = "lab.faults.kill_driver()"

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        yield cls()

    def refusal(self, world: World) -> str | None:
        return None

    def happen(self, world: World) -> None:
        world.end_driver()


@dataclass(frozen=True, slots=True, repr=False)
class ReplaceDriver(PlainFault):
    """Another driver takes the leadership in the durable store, as it may while this one is frozen. This one notices at
    its next use of the store, and stops as SUSPENDED. `Lab(job, after=lab, recover=True)` continues.
    """

    group: ClassVar = Group.DRIVER
    verb: ClassVar = "replace_driver"
    pattern: ClassVar = "replace the driver"
    example: ClassVar = "lab.faults.replace_driver()"
    drawn: ClassVar = Drawn(
        "replace driver", "another driver takes the leadership, as it may while this one is frozen", 2
    )

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        if world.job.settings.checkpoint.is_durable:
            yield cls()

    def refusal(self, world: World) -> str | None:
        if not world.job.settings.checkpoint.is_durable:
            return "no other driver knows of this job: it needs a durable store, CheckpointConfig(store='filesystem')"
        if world.master.status.is_terminal:
            return f"the job is {world.master.status.name}: no other driver takes it over"
        if not world.edge.leads():
            return "the driver does not lead the job: it has not begun, or another driver has replaced it already"
        return None

    def happen(self, world: World) -> None:
        world.edge.replace_leader("another driver")


# --- files and clocks -------------------------------------------------------------------------------------------------


def _damaged(world: World, argument: int) -> tuple[Sequence[Fault], int]:
    """Return the chosen damage to a file, of those that the job can detect.

    Losing the file in which a durable store notes a checkpoint is excluded, because nothing else knows of that
    checkpoint. A wrong byte in `_metadata` is excluded too: Flink's format has no checksum, so it could mean anything.
    """
    files = [*LoseFile.possible(world), *TruncateFile.possible(world), *CorruptFile.possible(world)]
    found = [
        fault
        for fault in sorted(files, key=lambda fault: fault.path)
        if not (isinstance(fault, LoseFile) and "/checkpoints/" in fault.path.partition("/store/")[2])
        and not (isinstance(fault, CorruptFile) and fault.path.endswith("/_metadata"))
    ]
    place = argument * len(found) // MOST_ARGUMENTS
    return found[place : place + 1], 0


DAMAGE = Drawn("damage", "a file is lost or damaged ({})", share=0.1, choose=_damaged)


@dataclass(frozen=True, slots=True, repr=False)
class FileFault(Fault):
    """A fault of a file on the lab's disk. `about` describes the content in words, if the file's name tells it."""

    path: str
    about: str = field(default="", compare=False, kw_only=True)

    group: ClassVar = Group.FILES
    whom: ClassVar = "path"
    doing: ClassVar = "on the disk"
    drawn: ClassVar = DAMAGE

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        for path in world.edge.files.paths():
            yield cls(path, *cls.half_of(world.edge.files.contents[path]), about=_what_is_in(world, path))

    @classmethod
    def half_of(cls, data: bytes) -> tuple[int, ...]:
        """Return the default of its number, if it has one: the middle of the file."""
        return (len(data) // 2,) if len(fields(cls)) > len(fields(FileFault)) else ()

    def refusal(self, world: World) -> str | None:
        data = world.edge.files.contents.get(self.path)
        return f"there is no file {self.path}" if data is None else self.refusal_of(len(data))

    def refusal_of(self, size_bytes: int) -> str | None:
        """Return why this may not happen to a file of this size, or None if it may."""
        return None

    def is_about(self, action: Action) -> bool:
        return isinstance(action, FileFault) and self.path == action.path


def _what_is_in(world: World, path: str) -> str:
    """Return the owner and the kind of the state in a file, according to its name; "" for other files."""
    written = parts_of(path.rpartition("/")[2])
    if written is None:
        return ""
    operator_id, subtask, _, part = written
    vertices = [each.name for each in world.job.vertices if operator_id in {one.operator_id for one in each.operators}]
    return f" ({part} state of {vertices[0]}/{subtask})" if vertices else ""


@dataclass(frozen=True, slots=True, repr=False)
class LoseFile(FileFault):
    """A file is deleted."""

    verb: ClassVar = "lose"
    pattern: ClassVar = "lose {path}{about}"
    example: ClassVar = 'lab.faults.lose("metadata of chk-3")'

    def happen(self, world: World) -> None:
        del world.edge.files.contents[self.path]

    @property
    def is_named(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, repr=False)
class TruncateFile(FileFault):
    """A file is cut to its first `size_bytes`."""

    size_bytes: int

    verb: ClassVar = "truncate"
    pattern: ClassVar = "truncate {path}{about} to {size_bytes} bytes"
    line: ClassVar = "truncate {what}"
    example: ClassVar = 'lab.faults.truncate("keyed state of sums/0 in chk-3")'

    def adjusted(self, world: World, size_bytes: int | None = None) -> Fault:
        return self if size_bytes is None else replace(self, size_bytes=size_bytes)

    def refusal_of(self, size_bytes: int) -> str | None:
        fits = 0 <= self.size_bytes < size_bytes
        return None if fits else f"{self.path} has {size_bytes} bytes: fewer must be left"

    def happen(self, world: World) -> None:
        contents = world.edge.files.contents
        contents[self.path] = contents[self.path][: self.size_bytes]


@dataclass(frozen=True, slots=True, repr=False)
class CorruptFile(FileFault):
    """All bits of the byte at `offset` in a file are flipped."""

    offset: int

    verb: ClassVar = "corrupt"
    pattern: ClassVar = "corrupt {path}{about} at byte {offset}"
    line: ClassVar = "corrupt {what}"
    example: ClassVar = 'lab.faults.corrupt("metadata of chk-3")'

    def adjusted(self, world: World, offset: int | None = None) -> Fault:
        return self if offset is None else replace(self, offset=offset)

    def refusal_of(self, size_bytes: int) -> str | None:
        fits = 0 <= self.offset < size_bytes
        return None if fits else f"{self.path} has {size_bytes} bytes: there is none at {self.offset}"

    def happen(self, world: World) -> None:
        contents = world.edge.files.contents
        data = bytearray(contents[self.path])
        data[self.offset] ^= EVERY_BIT
        contents[self.path] = bytes(data)


def _turned(world: World, argument: int) -> tuple[Sequence[Fault], int]:
    turns_ms = (1_000, -1_000, 100, -100, 20_000)
    by_ms = turns_ms[argument % len(turns_ms)]
    return [TurnClock(machine, by_ms) for machine in world.machine_names], argument // len(turns_ms)


@dataclass(frozen=True, slots=True, repr=False)
class TurnClock(PlainFault):
    """The clock of a machine ("job", a task, a slot) is turned by `by_ms` for as long as the machine exists. Forward,
    it jumps. Backward, it stops until its time is reached again, because a host's time never goes back. The durations
    of timers that are already set do not change.
    """

    machine: str
    by_ms: int

    group: ClassVar = Group.CLOCKS
    verb: ClassVar = "turn_clock"
    pattern: ClassVar = "turn the clock of {machine} by {by_ms} ms"
    whom: ClassVar = "machine"
    example: ClassVar = 'lab.faults.turn_clock("job", -500)'
    drawn: ClassVar = Drawn("clock", "a machine's clock is turned ({})", share=0.2, choose=_turned)

    @classmethod
    def possible(cls, world: World) -> Iterator[Self]:
        return (cls(name, DELAY_MS) for name in world.machine_names)

    def refusal(self, world: World) -> str | None:
        return None if self.machine in world.machine_names else not_there(world, self.machine)

    def happen(self, world: World) -> None:
        world.turned_ms[self.machine] = world.turned_ms.get(self.machine, 0) + self.by_ms


# --- the table --------------------------------------------------------------------------------------------------------

FAULTS: dict[str, type[Any]] = {
    name: kind
    for name, kind in vars().copy().items()
    if isinstance(kind, type) and issubclass(kind, Fault) and "verb" in vars(kind)
}
"""The types of fault by name, in the order in which they are listed."""


def possible_faults(world: World) -> Iterator[Fault]:
    """Yield every fault that has a target, in a fixed order; `refusal` says whether each is allowed."""
    for kind in FAULTS.values():
        yield from kind.possible(world)
