"""The explanation of a rejected action: the lab's reason, and below it the chain of causes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from kit.hosts.lab.by_words import meant
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Fault
from kit.hosts.lab.faults.faults import CommandFault, FreezeWorker, MessageFault, WorkerFault, possible_faults
from kit.hosts.lab.refusals import refusal
from kit.hosts.lab.world.actions import Action, CarryOut, DeliverMessage, FireTimer, ReceiveElement, TakeTurn
from kit.hosts.lab.world.world import World
from kit.why import Fact, Why
from kit.why.evidence import Evidence
from kit.why.fact import fact
from kit.why.inquiry import Inquiry, Topic
from kit.why.questions import ANSWERS


def why_not(world: World, evidence: Evidence, action: Action) -> Why:
    """Explain why an action may not happen now, or say that it may."""
    question = f"Why may this not happen now: {action.text}?"
    refused = refusal(world, action)
    if refused is None:
        how = "may be made to happen" if isinstance(action, Fault) else "may happen"
        return Why(question, Fact(f"it {how} now"))
    inquiry = Inquiry(evidence, ANSWERS)
    return Why(question, fact(refused, *_below(inquiry, action)))


def _below(inquiry: Inquiry, action: Action) -> Iterator[Fact]:
    """Yield the causes of a rejection, as far as the trace contains them."""
    for kind in type(action).__mro__:
        if kind in _BELOW:
            yield from _BELOW[kind](inquiry, action)
            return


def _turn(inquiry: Inquiry, action: TakeTurn) -> Iterator[Fact]:
    if action.task in inquiry.evidence.moment.tasks:
        yield inquiry.ask(Topic.TURN, action.task)


def _element(inquiry: Inquiry, action: ReceiveElement) -> Iterator[Fact]:
    if action.channel in inquiry.evidence.ends:
        yield inquiry.ask(Topic.QUEUE, action.channel)


def _message(inquiry: Inquiry, action: DeliverMessage | MessageFault) -> Iterator[Fact]:
    sender, receiver, checkpoint_id = action.sender, action.receiver, action.checkpoint_id
    known = inquiry.evidence.moment.checkpoints
    if checkpoint_id is None or checkpoint_id not in known:
        yield inquiry.ask(Topic.NEXT if checkpoint_id is not None else Topic.JOB)
    elif action.message in ("AcknowledgeCheckpoint", "DeclineCheckpoint"):
        yield inquiry.ask(Topic.ACK, sender, checkpoint_id)
    elif action.message == "TriggerTaskCheckpoint":
        yield inquiry.ask(Topic.BEGIN, receiver, checkpoint_id)
    else:
        yield inquiry.ask(Topic.CHECKPOINT, checkpoint_id)


def _work(inquiry: Inquiry, action: CarryOut | CommandFault) -> Iterator[Fact]:
    evidence, checkpoint_id = inquiry.evidence, action.checkpoint_id
    about = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    asked = evidence.last(action.command, machine=action.machine, role="command", **about)
    for answer in [] if asked is None else evidence.answers(asked):
        yield fact(evidence.caption(answer), record=answer)
    if asked is None and checkpoint_id in evidence.moment.checkpoints:
        is_task = action.machine in evidence.moment.tasks
        topic, *named = (Topic.ACK, action.machine) if is_task else (Topic.CHECKPOINT,)
        yield inquiry.ask(topic, *named, checkpoint_id)


def _timer(inquiry: Inquiry, action: FireTimer) -> Iterator[Fact]:
    set_by = inquiry.evidence.timer(action.machine, action.timer)
    if set_by is not None:
        yield fact(inquiry.evidence.caption(set_by), record=set_by)


def _worker(inquiry: Inquiry, action: WorkerFault) -> Iterator[Fact]:
    evidence = inquiry.evidence
    if isinstance(action, FreezeWorker):
        frozen = evidence.frozen(f"/{action.worker}")
        if frozen is not None:
            yield fact(evidence.caption(frozen), record=frozen)
            return
    yield inquiry.ask(Topic.JOB)


_BELOW: dict[type[Action], Callable[[Inquiry, Any], Iterator[Fact]]] = {
    TakeTurn: _turn,
    ReceiveElement: _element,
    DeliverMessage: _message,
    MessageFault: _message,
    CarryOut: _work,
    CommandFault: _work,
    FireTimer: _timer,
    WorkerFault: _worker,
}

# --- an action by its key or a few words ------------------------------------------------------------------------------

_KEY = re.compile(
    r"(?P<verb>turn|timer|receive|deliver|carry_out):"
    r"(?P<first>[^:]+)(?::(?P<rest>.*))?"
)


def named_action(what: str, evidence: Evidence, world: World) -> Action:
    """Return the action that a key or a few words name, allowed or not. Raises LabError if they name none."""
    known = [*world.enabled(), *possible_faults(world)]
    for action in known:
        if what in (action.key, action.text):
            return action
    found = _KEY.fullmatch(what)
    made = (
        None if found is None else _of_key(found["verb"], [found["first"], *(found["rest"] or "").split(":")], evidence)
    )
    task = what.removeprefix("turn of ").removeprefix("turn ")
    if made is None and task != what and task in evidence.moment.tasks:
        made = TakeTurn(task)
    return made or meant(what, known, "that may happen or not")


def _of_key(verb: str, parts: list[str], evidence: Evidence) -> Action | None:
    """Return the action with this key."""
    checkpoint_id = next((int(part[4:]) for part in parts if re.fullmatch(r"chk-\d+", part)), None)
    words = [part for part in parts if part and not part.startswith("chk-")]
    if verb == "turn":
        return TakeTurn(words[0])
    if verb == "timer" and len(words) == 2:
        return FireTimer(*words)
    if verb == "receive" and words[0].isdigit():
        number = int(words[0])
        if number not in evidence.ends:
            raise LabError(f"there is no channel {number}; there are {len(evidence.ends)}")
        return ReceiveElement(number, *evidence.ends[number], element=None)  # type: ignore[arg-type]
    if verb == "deliver" and len(words) == 3:
        return DeliverMessage(words[0], checkpoint_id, *words[1:])
    if verb == "carry_out" and len(words) >= 2:
        number = int(words[2]) if len(words) > 2 and words[2].isdigit() else 0
        return CarryOut(words[0], words[1], checkpoint_id, number)
    return None
