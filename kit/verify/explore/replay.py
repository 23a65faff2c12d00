"""The replay of a path of an exploration in a lab, which shows that it really happens.

The search may combine several actions, or let a timer fire once it is set. The lab then adds the steps in
between: it lets time pass until the timer is due, and lets the workers of a lost epoch, or of lost regions, leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kit.core.protocol.words import ProtocolMessage
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import CommandFault, MessageFault, WorkerFault
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import Action, CarryOut, DeliverMessage, FireTimer, ReceiveElement, TakeTurn, named
from kit.hosts.lab.world.world import JOB
from kit.verify.explore.machines import Arrivals, DueTimer
from kit.verify.explore.space import Space
from kit.verify.explore.steps import EXPLORED, Step
from kit.verify.explore.tables import Rows


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a path: the action, the machine, and the word that it is about.

    With `takes_turns`, tasks take what has arrived in the same step, in the search and in the replay.
    """

    step: Step
    machine: str
    word: ProtocolMessage | None
    text: str
    takes_turns: bool = False

    def __repr__(self) -> str:
        return f"<{self.text}>"


def moves(space: Space, path: Sequence[Step]) -> tuple[list[Move], Rows]:
    """Return the steps of a path with their words, and the state that it leads to."""
    found = []
    row = space.first()
    for step in path:
        found.append(_move(space, row, step))
        _, row = space.successors(row, step)
        assert len(row) == 1, f"{step} cannot be done"
    return found, row


def _move(space: Space, row: Rows, step: Step) -> Move:
    name = space.machine_names[step.machine]
    number = space.word_of(row, step)
    word = space.words[number] if number else None
    about = "" if word is None else _about(word)
    text = _TEXTS[step.kind].format(name=name, about=about, number=step.number)
    return Move(step, name, word, text, space.takes_turns)


_TEXTS = {
    "message": "deliver {about} to {name}",
    "report": "deliver {about} from {name} to job",
    "wire": "let {name} receive {about}",
    "overtake": "let {name} receive {about} before its turn",
    "turn": "give {name} its turn",
    "timer": "let timer {about} of {name} fire",
    "work": "carry out {about} for {name}",
    "request": "ask for a checkpoint",
    "kill": "kill worker {number}",
    "expire": "let {about} of {name} fire",
    "overdue": "let {about} of {name} fire, since nothing else can happen",
    "fail": "let {about} fail for {name}",
    "lose": "lose {about} from {name} to job",
    "repeat": "deliver {about} from {name} to job, and again later",
}


def _about(word: ProtocolMessage) -> str:
    if isinstance(word, DueTimer):
        return word.timer
    if isinstance(word, Arrivals):
        return ", ".join(repr(each.element) for each in word.events)
    element = getattr(word, "element", None)
    if element is not None:
        return repr(element)
    checkpoint_id = getattr(word, "checkpoint_id", None)
    return type(word).__name__ + ("" if checkpoint_id is None else f" of chk-{checkpoint_id}")


def replay(lab: Lab, path: Sequence[Move]) -> Lab:
    """Do the moves in a lab. Raises LabError for an impossible one."""
    for number, move in enumerate(path, 1):
        try:
            _DO[move.step.kind](lab, move)
            if move.takes_turns:
                _take_turns(lab)
        except LabError as error:
            raise LabError(f"move {number} of {len(path)}, {move.text!r}, cannot be done in a lab: {error}") from error
    return lab


def _take_turns(lab: Lab) -> None:
    """Let tasks with inputs take all that they can."""
    while True:
        turns = [each for each in lab.enabled() if isinstance(each, TakeTurn)]
        found = next((each for each in turns if not lab._world.tasks[each.task].is_source), None)
        if found is None:
            return
        lab.step(found)


def _do(lab: Lab, move: Move, kind: type[Action], **fields: object) -> None:
    """Take the first enabled action of this type with these fields."""
    for action in lab.enabled():
        if isinstance(action, kind) and all(getattr(action, name) == value for name, value in fields.items()):
            lab.step(action)
            return
    raise LabError(f"{move.text!r} is not enabled")


def _report(lab: Lab, move: Move) -> None:
    _do(lab, move, DeliverMessage, sender=move.machine, receiver=JOB)


def _wire(lab: Lab, move: Move) -> None:
    for _ in move.word.events if isinstance(move.word, Arrivals) else (move.word,):
        _do(lab, move, ReceiveElement, channel=move.step.number)


def _timer(lab: Lab, move: Move) -> None:
    assert isinstance(move.word, DueTimer)
    due_ms = lab._world.agenda.due_ms(move.machine, move.word.timer)
    if due_ms is not None and due_ms > lab.look.at_ms:
        lab.wait_until(due_ms)
    _do(lab, move, FireTimer, machine=move.machine, timer=move.word.timer)


def _work(lab: Lab, move: Move) -> None:
    assert move.word is not None
    command, checkpoint_id = named(move.word)
    _do(lab, move, CarryOut, machine=move.machine, command=command, checkpoint_id=checkpoint_id)


def _inflict(lab: Lab, move: Move) -> None:
    """Do the fault to what the move is about: a worker, a command, or the next message of a machine."""
    for fault in EXPLORED[move.step.kind].targets(lab._world):
        if _is_meant(fault, move):
            lab.step(fault)
            return
    raise LabError(f"{move.text!r} is not possible")


def _is_meant(fault: Fault, move: Move) -> bool:
    if isinstance(fault, WorkerFault):
        return fault.worker == move.step.number
    if isinstance(fault, CommandFault):
        assert move.word is not None
        return (fault.machine, fault.command, fault.checkpoint_id) == (move.machine, *named(move.word))
    assert isinstance(fault, MessageFault)
    return (fault.sender, fault.place) == (move.machine, 0)


def _kill(lab: Lab, move: Move) -> None:
    _inflict(lab, move)
    stops = ("StopEpoch", "StopTasks")
    stop = next((each for each in lab.enabled() if isinstance(each, CarryOut) and each.command in stops), None)
    if stop is not None:
        lab.step(stop)


def _repeat(lab: Lab, move: Move) -> None:
    _inflict(lab, move)
    _report(lab, move)


_DO: dict[str, Callable[[Lab, Move], object]] = {
    "message": lambda lab, move: _do(lab, move, DeliverMessage, receiver=move.machine),
    "report": _report,
    "wire": _wire,
    "overtake": _wire,
    "turn": lambda lab, move: _do(lab, move, TakeTurn, task=move.machine),
    "timer": _timer,
    "work": _work,
    "request": lambda lab, move: lab.trigger_checkpoint(),
    "kill": _kill,
    "expire": _timer,
    "overdue": _timer,
    "fail": _inflict,
    "lose": _inflict,
    "repeat": _repeat,
}
