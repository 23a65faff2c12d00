"""What may be made to fail now, and what an action that may not happen waits for.

`possible_faults` proposes every fault there is at a moment, with default numbers where it has a number of its own;
`refusal` says in a sentence why an action may not happen now, and is None for one that may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kit.core.protocol.commands import ReadSplit, StopEpoch
from kit.core.protocol.messages import NotifyCheckpointComplete
from kit.core.protocol.words import Word
from kit.core.state.file_names import parts_of
from kit.hosts.lab.errors import enumerated
from kit.hosts.lab.faults.faults import (
    CorruptFile,
    DelayMessage,
    DropMessage,
    DuplicateMessage,
    FailCommand,
    FailNextRead,
    FileFault,
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
    WorkerFault,
)
from kit.hosts.lab.faults.forging import REPORTS, USUAL
from kit.hosts.lab.faults.forging import why_not as why_not_forged
from kit.hosts.lab.world.actions import (
    Action,
    CarryOut,
    DeliverMessage,
    Fault,
    FireTimer,
    LetTimePass,
    ReceiveElement,
    TakeTurn,
)
from kit.hosts.lab.world.message_rules import MESSAGE_RULES
from kit.hosts.lab.world.world import World

DELAY_MS = 1_000
"""By how much a message is delayed, or a clock turned, where nothing else is said."""

DRIVER_IS_DEAD = (
    "the driver was killed, and nothing happens in this lab any more; Lab(job, after=lab, recover=True) is the next one"
)
COMPLETE = NotifyCheckpointComplete.__name__
NOBODY_HEARS = "nobody hears whether it is done; lab.never() leaves it undone"

# --- what there is --------------------------------------------------------------------------------------------------


def possible_faults(world: World) -> Iterator[Fault]:
    """Every fault that there is something for, in a fixed order; `refusal` says of each whether it may happen."""
    for kind in (DropMessage, DuplicateMessage, DelayMessage):
        yield from message_faults(world, kind)
    yield from forgeries(world)
    yield from failing_commands(world)
    yield from unanswered_commands(world)
    yield from lost_answers(world)
    yield from failing_reads(world)
    for worker in workers(world):
        for about in (KillWorker, FreezeWorker, ThawWorker, MissHeartbeat):
            yield about(worker)
    if world.job.settings.rescaling.reactive:
        yield from (LoseSlot(worker) for worker in workers(world))
        yield OfferSlots(max(vertex.parallelism for vertex in world.job.vertices))
    yield KillDriver()
    yield from file_faults(world)
    yield from (TurnClock(name, DELAY_MS) for name in machines(world))


def message_faults(world: World, kind: type[MessageFault]) -> Iterator[MessageFault]:
    """One fault of this kind for each message under way; a delayed one is so by `DELAY_MS`."""
    for (sender, receiver), place, message in world.agenda.messages():
        about = (*_named(message.word), sender, receiver, place)
        yield DelayMessage(*about, world.at_ms + DELAY_MS) if kind is DelayMessage else kind(*about)


def forgeries(world: World) -> Iterator[ForgeMessage]:
    """The usual forgeries of each report on a checkpoint that is under way."""
    for (sender, receiver), place, message in world.agenda.messages():
        if isinstance(message.word, REPORTS):
            for claims in USUAL:
                yield ForgeMessage(*_named(message.word), sender, receiver, place, claims)


def failing_commands(world: World) -> Iterator[FailCommand]:
    """Each command that was asked for, with each of its declared failures."""
    for number, (machine, asked) in world.agenda.work.items():
        for failure in asked.word.failures:
            yield FailCommand(machine, *_named(asked.word), number, failure.name)


def unanswered_commands(world: World) -> Iterator[NeverAnswer]:
    """Each command that was asked for."""
    for number, (machine, asked) in world.agenda.work.items():
        yield NeverAnswer(machine, *_named(asked.word), number)


def lost_answers(world: World) -> Iterator[LoseAnswer]:
    """Each command that was asked for and has an answer; the workers' leaving is not carried out on a disk."""
    for number, (machine, asked) in world.agenda.work.items():
        if asked.word.answers and not isinstance(asked.word, StopEpoch):
            yield LoseAnswer(machine, *_named(asked.word), number)


def failing_reads(world: World) -> Iterator[FailNextRead]:
    """Each task that reads a source, with each way in which that may fail."""
    for name, task in world.tasks.items():
        if task.is_source:
            yield from (FailNextRead(name, failure.name) for failure in ReadSplit.failures)


def file_faults(world: World) -> Iterator[FileFault]:
    """Each file: lost, cut in half, with one byte wrong in the middle."""
    for path in world.edge.files.paths():
        half, about = len(world.edge.files.contents[path]) // 2, _what_is_in(world, path)
        yield LoseFile(path, about=about)
        yield TruncateFile(path, half, about=about)
        yield CorruptFile(path, half, about=about)


def _what_is_in(world: World, path: str) -> str:
    """Whose state a file holds, and of which kind, as its name says; "" for other files."""
    written = parts_of(path.rpartition("/")[2])
    if written is None:
        return ""
    operator_id, subtask, _, part = written
    vertices = [each.name for each in world.job.vertices if operator_id in {one.operator_id for one in each.operators}]
    return f" ({part} state of {vertices[0]}/{subtask})" if vertices else ""


def workers(world: World) -> list[int]:
    """The workers that run now."""
    return sorted({task.subtask for task in world.tasks.values()})


def machines(world: World) -> list[str]:
    """The machines there are now, whose clocks can be turned."""
    return [world.master.name, *world.tasks, *world.slots]


def _named(word: Word) -> tuple[str, int | None]:
    return type(word).__name__, getattr(word, "checkpoint_id", None)


def waiting(world: World) -> Iterator[tuple[Action, str]]:
    """What there is and may not happen yet, each with what it waits for."""
    for each in _awaited(world):
        why_not = refusal(world, each)
        if why_not is not None:
            yield each, why_not


def _awaited(world: World) -> Iterator[Action]:
    yield from (FireTimer(machine, timer) for machine, timer in world.agenda.timers())
    for (sender, receiver), place, message in world.agenda.messages():
        if place == 0:
            yield DeliverMessage(*_named(message.word), sender, receiver)
    for number, (machine, asked) in world.agenda.work.items():
        yield CarryOut(machine, *_named(asked.word), number)
    for task in world.tasks:
        yield TakeTurn(task)


# --- what may not be ------------------------------------------------------------------------------------------------


def stands_still(world: World) -> Iterator[str]:
    """What keeps a world from going on that was made to fail, in sentences."""
    if world.driver_is_dead:
        yield DRIVER_IS_DEAD
    if world.frozen:
        yield f"frozen: worker {', '.join(map(str, sorted(world.frozen)))}; lab.thaw() lets one go on"


def refusal(world: World, action: Action) -> str | None:
    """Why an action may not happen now, and what it waits for; None for one that may."""
    if world.driver_is_dead and not isinstance(action, FileFault):
        return DRIVER_IS_DEAD
    for kind in type(action).__mro__:
        if kind in _REFUSALS:
            return _REFUSALS[kind](world, action)
    raise TypeError(f"{action!r} is nothing that a lab knows how to do")


def _deliver(world: World, action: DeliverMessage) -> str | None:
    first = world.agenda.next_message(action.sender, action.receiver)
    if first is None:
        return f"nothing is under way from {action.sender} to {action.receiver}"
    if _named(first) != (action.message, action.checkpoint_id):
        return f"{type(first).__name__} is before it: messages on one way keep their order"
    until_ms = world.agenda.delayed_until(action.sender, action.receiver)
    if until_ms is not None:
        return f"it is held back until {until_ms} ms"
    return _frozen(world, action.receiver)


def _receive(world: World, action: ReceiveElement) -> str | None:
    if not world.agenda.on_wire(action.channel):
        return f"nothing is under way in channel {action.channel}"
    return _frozen(world, action.task)


def _turn(world: World, action: TakeTurn) -> str | None:
    task = world.tasks.get(action.task)
    if task is None:
        return _not_there(world, action.task)
    if not task.available:
        return f"{action.task} is {task.state.name}, and has no input that it may take or no room for what it sends"
    return _frozen(world, action.task)


def _carry_out(world: World, action: CarryOut) -> str | None:
    return _not_asked(world, action) or _frozen(world, action.machine)


def _not_asked(world: World, action: CarryOut | FailCommand | NeverAnswer | LoseAnswer) -> str | None:
    if action.number in world.agenda.work:
        return None
    return f"{action.command} is not under way: it was not asked for, is done, or is not wanted any more"


def _fire(world: World, action: FireTimer) -> str | None:
    due_ms = world.agenda.due_ms(action.machine, action.timer)
    if due_ms is None:
        return f"{action.machine} has set no timer {action.timer}"
    if due_ms > world.at_ms:
        return f"it is due at {due_ms} ms, and it is {world.at_ms} ms now"
    return _frozen(world, action.machine)


def _wait(world: World, action: LetTimePass) -> str | None:
    return None


def _frozen(world: World, machine: str) -> str | None:
    return f"{machine} is frozen with its worker: thaw it" if machine in world.agenda.held else None


def _not_there(world: World, machine: str) -> str:
    return f"there is no {machine} now; there are {enumerated(machines(world))}"


def _message(world: World, fault: MessageFault) -> str | None:
    meant = world.agenda.message(fault.sender, fault.receiver, fault.place)
    if meant is None or _named(meant.word) != (fault.message, fault.checkpoint_id):
        return f"no {fault.message} is under way there from {fault.sender} to {fault.receiver}"
    rule = MESSAGE_RULES[type(meant.word)]
    if isinstance(fault, DropMessage) and not rule.lost:
        return f"{fault.message} cannot be lost: {rule.why_not_lost}"
    if isinstance(fault, DropMessage) and fault.message == COMPLETE and _no_other_follows(world):
        return f"this {fault.message} cannot be lost: no other checkpoint will follow that could cover it"
    if isinstance(fault, DuplicateMessage) and not rule.doubled:
        return f"{fault.message} cannot be doubled: {rule.why_not_doubled}"
    if isinstance(fault, ForgeMessage):
        if not isinstance(meant.word, REPORTS):
            return f"{fault.message} cannot be forged: only what a task reports on a checkpoint can"
        return why_not_forged(fault.claims)
    if isinstance(fault, DelayMessage) and fault.until_ms <= world.at_ms:
        return f"it is {world.at_ms} ms already"
    return None


def _no_other_follows(world: World) -> bool:
    """Whether the checkpoint that completed last, or is under way, is the job's last one."""
    return world.master.stopping.is_under_way or world.master.checkpoints.ledger.took_last_checkpoint


def _fail(world: World, fault: FailCommand) -> str | None:
    if fault.number not in world.agenda.work:
        return _not_asked(world, fault)
    command = world.agenda.work[fault.number][1].word
    known = {failure.name: failure for failure in command.failures}
    if fault.failure not in known:
        what = f"it may fail with {enumerated([*known])}" if known else NOBODY_HEARS
        return f"{fault.command} does not fail with {fault.failure!r}: {what}"
    if command.failed(known[fault.failure].raised()) is None:
        return f"this {fault.command} cannot be seen to fail: {NOBODY_HEARS}"
    return None


def _read(world: World, fault: FailNextRead) -> str | None:
    task = world.tasks.get(fault.task)
    if task is None:
        return _not_there(world, fault.task)
    if not task.is_source:
        return f"{fault.task} reads no source"
    if fault.task in world.doomed_reads:
        return f"the next read of {fault.task} is to fail already"
    known = [failure.name for failure in ReadSplit.failures]
    return None if fault.failure in known else f"ReadSplit may fail with {enumerated(known)}"


def _worker(world: World, fault: WorkerFault) -> str | None:
    there = workers(world)
    if fault.worker not in there:
        if world.master.status.is_terminal:
            known = f"none, since the job is {world.master.status.name}: lab.back(n) goes back to when it ran"
        else:
            known = ", ".join(map(str, there)) or "none yet: lab.run_until(record='AllTasksRunning')"
        kind = "" if isinstance(fault.worker, int) else ", which are numbers, one for each subtask index"
        return f"no worker {fault.worker!r} runs now{kind}; there are {known}"
    is_frozen = fault.worker in world.frozen
    if isinstance(fault, FreezeWorker) and is_frozen:
        return f"worker {fault.worker} is frozen already"
    if isinstance(fault, ThawWorker | MissHeartbeat) and not is_frozen:
        return f"worker {fault.worker} is not frozen"
    return None


def _lose_slot(world: World, fault: LoseSlot) -> str | None:
    return _worker(world, fault) or _slots(world, fault)


def _slots(world: World, fault: Fault) -> str | None:
    if world.master.ending_as is not None:
        return f"the job is {world.master.status.name}"
    if isinstance(fault, OfferSlots) and fault.slots < len(workers(world)):
        return f"{len(workers(world))} workers run: lab.lose_slot() takes one with its slot"
    return None


def _driver(world: World, fault: KillDriver) -> str | None:
    return None


def _file(world: World, fault: FileFault) -> str | None:
    data = world.edge.files.contents.get(fault.path)
    if data is None:
        return f"there is no file {fault.path}"
    if isinstance(fault, TruncateFile) and not 0 <= fault.size_bytes < len(data):
        return f"{fault.path} has {len(data)} bytes: fewer must be left"
    if isinstance(fault, CorruptFile) and not 0 <= fault.offset < len(data):
        return f"{fault.path} has {len(data)} bytes: there is none at {fault.offset}"
    return None


def _clock(world: World, fault: TurnClock) -> str | None:
    return None if fault.machine in machines(world) else _not_there(world, fault.machine)


_REFUSALS: dict[type[Any], Callable[[World, Any], str | None]] = {
    DeliverMessage: _deliver,
    ReceiveElement: _receive,
    TakeTurn: _turn,
    CarryOut: _carry_out,
    FireTimer: _fire,
    LetTimePass: _wait,
    MessageFault: _message,
    FailCommand: _fail,
    NeverAnswer: _not_asked,
    LoseAnswer: _not_asked,
    FailNextRead: _read,
    LoseSlot: _lose_slot,
    OfferSlots: _slots,
    WorkerFault: _worker,
    KillDriver: _driver,
    FileFault: _file,
    TurnClock: _clock,
}
