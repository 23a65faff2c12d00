"""How a user makes things fail in a lab: one method for each kind of fault, each of them a step.

What is meant may be an action of `lab.enabled()` or `lab.faults()`, a record of the trace or its id, an action's key,
or a few words (`kit.hosts.lab.by_words`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from kit.core.protocol.trace import TraceRecord
from kit.core.protocol.words import Word
from kit.hosts.lab.by_words import meant
from kit.hosts.lab.choices import Choices
from kit.hosts.lab.errors import LabError, enumerated
from kit.hosts.lab.faults import possible_faults as possible
from kit.hosts.lab.faults.faults import (
    CorruptFile,
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    FailCommand,
    FailNextRead,
    FileFault,
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
from kit.hosts.lab.faults.forging import STRANGER, claims_of
from kit.hosts.lab.step import Step
from kit.hosts.lab.world.actions import Action, CarryOut, DeliverMessage, Fault, TakeTurn
from kit.hosts.lab.world.world import World

What = Action | TraceRecord | str
Failing = FailCommand | FailNextRead
OfCommand = FailCommand | NeverAnswer | LoseAnswer
F = TypeVar("F", bound=Fault)


class FaultDoors:
    """The part of a `Lab` that makes things fail."""

    _world: World

    def _do(self, action: Action | Word) -> Step:
        raise NotImplementedError

    # --- what may be made to fail ---------------------------------------------------------------------------------

    def faults(self) -> Choices:
        """What may be made to fail now, by group; `.refused` has what may not, and why. `step` takes any of it."""
        judged = [(fault, possible.refusal(self._world, fault)) for fault in possible.possible_faults(self._world)]
        return Choices(
            (fault for fault, why_not in judged if why_not is None),
            what="things may be made to fail",
            refused=((fault, why_not) for fault, why_not in judged if why_not is not None),
        )

    def waiting(self) -> Choices:
        """What there is and may not happen yet: turns of tasks, timers, messages that are held back, work of frozen
        workers. `.refused` has each with what it waits for; `lab.why_not` tells more.
        """
        return Choices((), what="things may happen at once", refused=possible.waiting(self._world))

    def refusal(self, action: Action) -> str | None:
        """Why an action may not happen now, in a sentence; None for one that may."""
        return possible.refusal(self._world, action)

    # --- messages and commands ------------------------------------------------------------------------------------

    def fail(self, what: What, how: str | None = None) -> Step:
        """Let a command fail that was asked for and is not done, or a source's next read: "WriteMetadata of chk-3",
        "read of rows/0". `how` is the name of one of its declared failures, by default the first
        (`help(StoreCheckpoint)` has them).
        """
        if isinstance(what, FailCommand | FailNextRead):
            how = how or what.failure
        found: list[Failing] = [*possible.failing_commands(self._world), *possible.failing_reads(self._world)]
        ways: dict[object, list[Failing]] = {}
        for failing in found:
            ways.setdefault(_of_one_command(failing), []).append(failing)
        first = self._meant(what, [each[0] for each in ways.values()], "that could be made to fail")
        names = [each.failure for each in ways[_of_one_command(first)]]
        return self._inflict(replace(first, failure=_named(how, names, first)))

    def never(self, what: What) -> Step:
        """Let a command that was asked for be neither carried out nor answered, ever."""
        return self._inflict(self._meant(what, possible.unanswered_commands(self._world), "that waits for an answer"))

    def lose(self, what: What) -> Step:
        """Lose a message that is under way, a file, or the answer to a command, which is carried out first: "ack of
        sums/1", "metadata of chk-3", "answer of StoreCheckpoint". Raises LabError for a message whose loss the
        protocol has no answer to.
        """
        files = [each for each in possible.file_faults(self._world) if isinstance(each, LoseFile)]
        messages = possible.message_faults(self._world, DropMessage)
        answers = possible.lost_answers(self._world)
        return self._inflict(self._meant(what, [*messages, *files, *answers], "that could be lost"))

    def duplicate(self, what: What) -> Step:
        """Let a message that is under way arrive twice. Raises LabError where no host could do that."""
        messages = possible.message_faults(self._world, DuplicateMessage)
        return self._inflict(self._meant(what, messages, "that could be doubled"))

    def forge(
        self,
        what: What,
        *,
        job: str | None = None,
        task: str | None = None,
        attempt: int | None = None,
        checkpoint: int | None = None,
    ) -> Step:
        """Let a forged copy follow a report on a checkpoint that is under way: an acknowledgement, a decline or
        measurements. The copy claims another job, task, attempt or checkpoint, by default the task "stranger/0".
        """
        claims = claims_of(job=job, task=task, attempt=attempt, checkpoint=checkpoint)
        reports = [each for each in possible.forgeries(self._world) if each.claims == STRANGER]
        found = self._meant(what, reports, "that could be forged")
        return self._inflict(replace(found, claims=claims) if claims else found)

    def delay(self, what: What, *, by_ms: int | None = None, until_ms: int | None = None) -> Step:
        """Hold a message that is under way back, and those behind it, by some ms (1,000) or until a time."""
        messages = possible.message_faults(self._world, DelayMessage)
        found = self._meant(what, messages, "that could be held back")
        if until_ms is None:
            until_ms = self._world.at_ms + (possible.DELAY_MS if by_ms is None else by_ms)
        assert isinstance(found, DelayMessage)
        return self._inflict(replace(found, until_ms=until_ms))

    # --- workers and the driver -----------------------------------------------------------------------------------

    def kill(self, worker: int) -> Step:
        """Kill a worker: all subtasks with this index are gone at once."""
        return self._inflict(KillWorker(worker))

    def freeze(self, worker: int) -> Step:
        """Let a worker stand still: its tasks take no turn, and what is sent to it stays under way."""
        return self._inflict(FreezeWorker(worker))

    def thaw(self, worker: int) -> Step:
        """Let a frozen worker go on."""
        return self._inflict(ThawWorker(worker))

    def miss_heartbeat(self, worker: int) -> Step:
        """Let the host take a frozen worker for dead, and end it."""
        return self._inflict(MissHeartbeat(worker))

    def lose_slot(self, worker: int) -> Step:
        """Kill a worker whose slot is gone with it: a job that is reactive goes on with those that are left."""
        return self._inflict(LoseSlot(worker))

    def offer_slots(self, slots: int) -> Step:
        """Let there be so many slots from now on, those that the job holds among them."""
        return self._inflict(OfferSlots(slots))

    def kill_driver(self) -> Step:
        """Kill the JobMaster's process, and with it everything but the disk: nothing happens any more in this lab.

        With a durable store `Lab(job, after=lab, recover=True)` is the next driver.
        """
        return self._inflict(KillDriver())

    # --- files and clocks -----------------------------------------------------------------------------------------

    def truncate(self, file: What, size_bytes: int | None = None) -> Step:
        """Leave of a file only the first bytes, by default half of them."""
        found = self._file(file, TruncateFile)
        return self._inflict(found if size_bytes is None else replace(found, size_bytes=size_bytes))

    def corrupt(self, file: What, offset: int | None = None) -> Step:
        """Turn all bits of one byte of a file, by default of that in the middle."""
        found = self._file(file, CorruptFile)
        return self._inflict(found if offset is None else replace(found, offset=offset))

    def turn_clock(self, machine: str, by_ms: int) -> Step:
        """Turn the clock of a machine ("job", a task, a slot): forward it jumps; backward it stands still until its
        time has come again, for a host's time never goes back.
        """
        return self._inflict(TurnClock(machine, by_ms))

    # --- what is meant --------------------------------------------------------------------------------------------

    def _file(self, what: What, kind: type[F]) -> F:
        files = [each for each in possible.file_faults(self._world) if isinstance(each, kind)]
        return self._meant(what, files, "on the disk")

    def _meant(self, what: What, faults: Iterable[F], doing: str) -> F:
        faults = [*faults]
        if isinstance(what, Action):
            for fault in faults:
                if what == fault or _is_about(fault, what):
                    return fault
            raise LabError(self.refusal(what) or f"{what} is nothing {doing}")
        record_id = what.id if isinstance(what, TraceRecord) else what
        for fault in faults:
            if isinstance(fault, FileFault) and fault.path == record_id:
                return fault
            if record_id in (fault.key, self._world.id_of(fault)):
                return fault
        return meant(record_id, faults, doing)

    def _inflict(self, fault: Fault) -> Step:
        return self._do(self._possible(fault))

    def _possible(self, fault: Fault) -> Fault:
        why_not = self.refusal(fault)
        if why_not is not None:
            raise LabError(why_not)
        return fault


def _of_one_command(failure: Failing) -> object:
    return failure.number if isinstance(failure, FailCommand) else failure.task


def _named(how: str | None, names: list[str], about: Fault) -> str:
    """The failure that is meant, whatever its case."""
    if how is None:
        return names[0]
    for name in names:
        if name.lower() == how.lower():
            return name
    raise LabError(f"{about.subject} may fail in other ways than {how!r}: {enumerated(names)}")


def _is_about(fault: Fault, action: Action) -> bool:
    """Whether a fault befalls what an action would do."""
    if isinstance(action, MessageFault) and isinstance(fault, MessageFault):
        return (fault.sender, fault.receiver, fault.place) == (action.sender, action.receiver, action.place)
    if isinstance(action, DeliverMessage) and isinstance(fault, MessageFault):
        return (fault.sender, fault.receiver, fault.place) == (action.sender, action.receiver, 0)
    if isinstance(action, CarryOut | OfCommand) and isinstance(fault, OfCommand):
        return fault.number == action.number
    if isinstance(action, FileFault) and isinstance(fault, FileFault):
        return fault.path == action.path
    return isinstance(action, TakeTurn) and isinstance(fault, FailNextRead) and fault.task == action.task
