"""Faults: the actions that never happen by themselves, each a type of its own.

What may be made to fail at a moment is in `kit.hosts.lab.faults.possible_faults`; a fault that happens leaves a record
in the trace, of the machine "lab" in the role "fault".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kit.hosts.lab.world.actions import Fault, Group

# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class MessageFault(Fault):
    """It befalls the `place`-th message under way from `sender` to `receiver`, counted from 0."""

    message: str
    """The name of its type."""
    checkpoint_id: int | None
    sender: str
    receiver: str
    place: int = 0

    group: ClassVar = Group.MESSAGES
    whom: ClassVar = "receiver"


@dataclass(frozen=True, slots=True, repr=False)
class DropMessage(MessageFault):
    """A message never arrives; those behind it do."""

    verb: ClassVar = "drop"
    pattern: ClassVar = "lose {message}{of_checkpoint} from {sender} to {receiver}"


@dataclass(frozen=True, slots=True, repr=False)
class DuplicateMessage(MessageFault):
    """A message arrives twice: its copy is the next behind it."""

    verb: ClassVar = "duplicate"
    pattern: ClassVar = "duplicate {message}{of_checkpoint} from {sender} to {receiver}"


@dataclass(frozen=True, slots=True, repr=False)
class DelayMessage(MessageFault):
    """A message arrives at `until_ms` at the earliest, and those behind it after it, for they keep their order."""

    until_ms: int = 0

    verb: ClassVar = "delay"
    pattern: ClassVar = "hold {message}{of_checkpoint} from {sender} to {receiver} back until {until_ms} ms"


@dataclass(frozen=True, slots=True, repr=False)
class ForgeMessage(MessageFault):
    """A task's report on a checkpoint is followed by a forged copy of it, which claims another job, task, attempt or
    checkpoint, and brings copies of the files unless it claims another job.
    """

    claims: str = "task=stranger/0"

    verb: ClassVar = "forge"
    pattern: ClassVar = "forge {message}{of_checkpoint} from {sender} to {receiver}: {claims}"


# --- what was asked for -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class FailCommand(Fault):
    """A command fails, in one of the ways that it declares (`Command.failures`)."""

    machine: str
    command: str
    """The name of its type."""
    checkpoint_id: int | None
    number: int
    """The same as that of the `CarryOut` that would carry it out."""
    failure: str

    group: ClassVar = Group.WORK
    verb: ClassVar = "fail"
    pattern: ClassVar = "let {command}{of_checkpoint} of {machine} fail: {failure}"
    whom: ClassVar = "machine"


@dataclass(frozen=True, slots=True, repr=False)
class NeverAnswer(Fault):
    """A command is not carried out, and nobody ever says so."""

    machine: str
    command: str
    checkpoint_id: int | None
    number: int

    group: ClassVar = Group.WORK
    verb: ClassVar = "never"
    pattern: ClassVar = "never answer {command}{of_checkpoint} of {machine}"
    whom: ClassVar = "machine"


@dataclass(frozen=True, slots=True, repr=False)
class LoseAnswer(Fault):
    """A command is carried out, and nobody ever hears of it."""

    machine: str
    command: str
    checkpoint_id: int | None
    number: int

    group: ClassVar = Group.WORK
    verb: ClassVar = "lose_answer"
    pattern: ClassVar = "carry out {command}{of_checkpoint} for {machine} and lose the answer"
    whom: ClassVar = "machine"


@dataclass(frozen=True, slots=True, repr=False)
class FailNextRead(Fault):
    """A source's next read, which is answered at once, fails in one of the ways that `ReadSplit` declares."""

    task: str
    failure: str

    group: ClassVar = Group.WORK
    verb: ClassVar = "fail_read"
    pattern: ClassVar = "let the next ReadSplit of {task} fail: {failure}"
    whom: ClassVar = "task"


# --- workers and the driver -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class WorkerFault(Fault):
    """It befalls a worker, that is the slot of all subtasks with this index."""

    worker: int

    group: ClassVar = Group.WORKERS
    whom: ClassVar = "worker"


@dataclass(frozen=True, slots=True, repr=False)
class KillWorker(WorkerFault):
    """A worker's process dies: its subtasks are gone at once, with all that was under way to and from them."""

    verb: ClassVar = "kill"
    pattern: ClassVar = "kill worker {worker}"
    recorded: ClassVar = False


@dataclass(frozen=True, slots=True, repr=False)
class FreezeWorker(WorkerFault):
    """A worker stands still, as in a long garbage collection: its tasks take no turn, its timers do not fire, what it
    reads and writes is not done, what is sent to it stays under way. What it had sent arrives.
    """

    verb: ClassVar = "freeze"
    pattern: ClassVar = "freeze worker {worker}"


@dataclass(frozen=True, slots=True, repr=False)
class ThawWorker(WorkerFault):
    """A frozen worker goes on, as if nothing had been."""

    verb: ClassVar = "thaw"
    pattern: ClassVar = "thaw worker {worker}"


@dataclass(frozen=True, slots=True, repr=False)
class MissHeartbeat(WorkerFault):
    """The host has heard nothing of a frozen worker for too long: it takes it for dead, and ends it."""

    verb: ClassVar = "miss_heartbeat"
    pattern: ClassVar = "miss the heartbeat of worker {worker}"


@dataclass(frozen=True, slots=True, repr=False)
class LoseSlot(WorkerFault):
    """A worker dies and its slot is gone with it, as when a machine does. A job that is reactive goes on without, any
    other waits for a new one.
    """

    verb: ClassVar = "lose_slot"
    pattern: ClassVar = "lose worker {worker} and its slot"
    recorded: ClassVar = False


@dataclass(frozen=True, slots=True, repr=False)
class OfferSlots(Fault):
    """There are so many slots now, those that the job holds among them."""

    slots: int

    group: ClassVar = Group.WORKERS
    verb: ClassVar = "offer_slots"
    pattern: ClassVar = "offer the job {slots} slots"
    recorded: ClassVar = False


@dataclass(frozen=True, slots=True, repr=False)
class KillDriver(Fault):
    """The process of the JobMaster dies where it stands, and its workers with it. Nothing happens any more in this lab;
    with a durable store another driver goes on: `Lab(job, after=lab, recover=True)`.
    """

    group: ClassVar = Group.DRIVER
    verb: ClassVar = "kill_driver"
    pattern: ClassVar = "kill the driver"


# --- files and clocks -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class FileFault(Fault):
    """It befalls a file on the lab's disk. `about` says in words what is in it, where its name tells."""

    path: str
    about: str = field(default="", compare=False, kw_only=True)

    group: ClassVar = Group.FILES
    whom: ClassVar = "path"


@dataclass(frozen=True, slots=True, repr=False)
class LoseFile(FileFault):
    """A file is gone."""

    verb: ClassVar = "lose"
    pattern: ClassVar = "lose {path}{about}"


@dataclass(frozen=True, slots=True, repr=False)
class TruncateFile(FileFault):
    """Of a file only the first `size_bytes` are left."""

    size_bytes: int

    verb: ClassVar = "truncate"
    pattern: ClassVar = "truncate {path}{about} to {size_bytes} bytes"


@dataclass(frozen=True, slots=True, repr=False)
class CorruptFile(FileFault):
    """Every bit of the byte at `offset` of a file is the wrong way round."""

    offset: int

    verb: ClassVar = "corrupt"
    pattern: ClassVar = "corrupt {path}{about} at byte {offset}"


@dataclass(frozen=True, slots=True, repr=False)
class TurnClock(Fault):
    """A machine's clock is turned by `by_ms`, and stays so while the machine is there. One that is turned back stands
    still until its time has come again, for a host's time never goes back; timers that are set keep their length.
    """

    machine: str
    by_ms: int

    group: ClassVar = Group.CLOCKS
    verb: ClassVar = "turn_clock"
    pattern: ClassVar = "turn the clock of {machine} by {by_ms} ms"
    whom: ClassVar = "machine"
