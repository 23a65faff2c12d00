"""The answer to why the acknowledgement of a task is missing, as a chain of causes and in short.

The phase of a task (`kit.why.waits`) decides the answer. `outline` returns it, in full and in short, and
`acknowledgement` adds the causes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kit.core.protocol.commands import WriteChannelStateFile
from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.core.protocol.notes import BarrierAligned
from kit.core.trace.trace import TraceRecord
from kit.machines.channel.channel_state.slot_channel_state import slot_name
from kit.run.captions import listed
from kit.run.checkpoint_words import enumerated
from kit.run.durations import duration
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    CAPTURING,
    DECLINED,
    SENT,
    UNHEARD,
    WRITING,
    TaskMoment,
)
from kit.why.evidence import Evidence
from kit.why.fact import Fact, fact, limited, not_in_trace, task_names
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import injected_faults, unanswered, undelivered
from kit.why.waits import (
    ARRIVED,
    BARRIERS,
    GONE,
    NOT_SENT,
    QUEUED,
    TRIGGER,
    WIRE,
    Barrier,
    Missing,
    awaited,
    barriers_received,
    is_lost,
    is_under_way,
    missing,
)

_PLACES = {QUEUED: "in its sender's queue", WIRE: "on its way", ARRIVED: "in the queue here", NOT_SENT: "not sent yet"}


def acknowledgement(inquiry: Inquiry, task: str, checkpoint_id: int) -> Fact:
    """Explain why the coordinator has no acknowledgement of this task."""
    evidence = inquiry.evidence
    heard = evidence.last(AcknowledgeCheckpoint, role="event", checkpoint_id=checkpoint_id, task=task)
    if heard is not None:
        return fact(evidence.caption(heard), record=heard)
    waits = missing(evidence, task, checkpoint_id)
    if waits.phase == TRIGGER or (waits.phase == BARRIERS and not waits.barriers):
        return inquiry.ask(Topic.BEGIN, task, checkpoint_id)
    found = outline(evidence, waits)
    causes: Sequence[Fact]
    if waits.phase == GONE:
        causes = [inquiry.ask(Topic.STATE, task)]
    elif waits.phase in (WRITING, CAPTURING):
        causes = _of_writing(inquiry, waits)
    elif waits.phase == ABORTED:
        causes = [inquiry.ask(Topic.ENDED, checkpoint_id)]
    elif waits.phase == BARRIERS:
        causes = _of_barriers(inquiry, waits)
    else:
        return found
    return replace(found, because=tuple(causes))


# --- the facts --------------------------------------------------------------------------------------------------------


def outline(evidence: Evidence, waits: Missing) -> Fact:
    """Return the fact that a task has not acknowledged, with the faults that delay it, and no other causes."""
    if waits.phase in (SENT, UNHEARD, DECLINED):
        return _on_its_way(evidence, waits)
    if waits.phase == TRIGGER:
        return _not_triggered(evidence, waits)
    if waits.phase in (WRITING, CAPTURING):
        return _not_written(evidence, waits)
    if waits.phase == BARRIERS:
        return _not_begun(evidence, waits)
    task, checkpoint_id = waits.task, waits.checkpoint_id
    if waits.phase == ABORTED:
        says = f"{task} has aborted checkpoint {checkpoint_id}"
        return Fact(says, brief=f"{task} has aborted it", awaits="nothing: it has aborted the checkpoint")
    known = evidence.moment.tasks.get(task, TaskMoment())
    brief = f"{task} is {known.state}" + (f": {known.error}" if known.error else "")
    return Fact(f"{task} cannot acknowledge checkpoint {checkpoint_id}", brief=brief)


def _on_its_way(evidence: Evidence, waits: Missing) -> Fact:
    record, task = waits.record, waits.task
    what = f"the {'refusal' if waits.phase == DECLINED else 'acknowledgement'} of {task}"
    found = (
        not_in_trace(f"{what} to the JobMaster")
        if record is None
        else undelivered(evidence, record, f"{what} to the JobMaster")
    )
    if waits.phase == UNHEARD:
        return replace(found, brief=f"{what} was lost on its way", awaits="its acknowledgement, lost on its way")
    has_arrived = record is None or not is_under_way(evidence, record)
    awaits = "its acknowledgement" if has_arrived else "its acknowledgement, on its way"
    return replace(found, brief=f"{what} has been under way{_since(evidence, record)}", awaits=awaits)


def _not_triggered(evidence: Evidence, waits: Missing) -> Fact:
    task, checkpoint_id, record = waits.task, waits.checkpoint_id, waits.record
    if record is None:
        says = f"the JobMaster has not triggered checkpoint {checkpoint_id} at {task}"
        return Fact(says, brief=f"{task} has not been triggered", awaits="the trigger, not sent yet")
    brief, where = f"the trigger to {task} has been under way{_since(evidence, record)}", ""
    if is_lost(evidence, record):
        brief, where = f"the trigger to {task} was lost", ", lost on its way"
    elif is_under_way(evidence, record):
        where = ", on its way"
    found = undelivered(evidence, record, f"the JobMaster's trigger to {task} for checkpoint {checkpoint_id}", task)
    return replace(found, brief=brief, awaits=f"the trigger{where}")


def _since(evidence: Evidence, record: TraceRecord | None) -> str:
    return "" if record is None else f" for {duration(evidence.at_ms - record.at_ms)}"


def _not_written(evidence: Evidence, waits: Missing) -> Fact:
    """Return the fact about a task that has copied its state, and still writes files or in-flight data."""
    task, record, barriers = waits.task, waits.record, _cell(waits)
    says = f"{task} has copied its state for checkpoint {waits.checkpoint_id} and has not written all of it"
    if waits.phase == CAPTURING:
        brief = f"{task} captures and writes in-flight data"
        return fact(says, record=record, brief=brief, awaits=barriers or "its in-flight data to be written")
    faults = [] if record is None else injected_faults(evidence, record)
    awaits = f"its files to be written{f', and {barriers}' if barriers else ''}"
    return fact(
        says,
        *faults,
        record=record,
        brief=f"{task} has been writing its state{_since(evidence, record)}",
        awaits=awaits,
    )


def _not_begun(evidence: Evidence, waits: Missing) -> Fact:
    """Return the fact about a task that has not received all its barriers."""
    task, checkpoint_id = waits.task, waits.checkpoint_id
    is_aligning = evidence.moment.tasks[task].phases.get(checkpoint_id) == ALIGNING
    first = evidence.last(BarrierAligned, machine=task, checkpoint_id=checkpoint_id) if is_aligning else None
    (received, every), others = barriers_received(evidence, waits), task_names(each.source for each in waits.barriers)
    have = f"has {received} of its {every} barriers" if received or is_aligning else "has taken no barrier yet"
    says = f"{task} {have} of checkpoint {checkpoint_id}: those of {others} are missing"
    brief = f"{task} has {received} of {every} barriers" if every else f"{task} has begun"
    return fact(says, record=first, brief=brief, awaits=_cell(waits) or "its barriers")


def _cell(waits: Missing) -> str:
    """Return the barriers that a task waits for, with their places; "" if it waits for none."""
    places = [f"{each.source} ({_place(each)})" for each in waits.barriers]
    return f"barrier {waits.checkpoint_id} from {enumerated(places)}" if places else ""


def _place(barrier: Barrier) -> str:
    ahead = sum(item.kind == "buffer" for item in barrier.before)
    behind = f", behind {ahead}" if ahead else ""
    return f"{'its end instead, ' if barrier.is_end else ''}{_PLACES[barrier.place]}{behind}"


# --- the causes -------------------------------------------------------------------------------------------------------


def _of_writing(inquiry: Inquiry, waits: Missing) -> list[Fact]:
    """Return what the writing of a snapshot waits for: the command, barriers whose data belongs to it, the file."""
    task, checkpoint_id, copied = waits.task, waits.checkpoint_id, waits.record
    because = []
    if waits.phase == WRITING and copied is not None:
        because.append(unanswered(inquiry.evidence, copied))
    if waits.barriers:
        others = task_names(each.source for each in waits.barriers)
        says = f"the data in flight from {others} before barrier {checkpoint_id} still belongs to the checkpoint"
        because.append(fact(says, *_of_barriers(inquiry, waits)))
    elif not because:
        because = _in_flight(inquiry, task, checkpoint_id)
    return because


def _of_barriers(inquiry: Inquiry, waits: Missing) -> tuple[Fact, ...]:
    barriers = [inquiry.ask(Topic.BARRIER, waits.checkpoint_id, each.channel) for each in waits.barriers]
    return limited(barriers, "channels")


def _in_flight(inquiry: Inquiry, task: str, checkpoint_id: int) -> list[Fact]:
    """Return what the file with in-flight data waits for; the tasks of a worker may share it."""
    evidence = inquiry.evidence
    slot = slot_name(evidence.slot_of(task))
    files = [each for each in evidence.under_way(slot, checkpoint_id) if each.is_a(WriteChannelStateFile)]
    if files:
        return [unanswered(evidence, each) for each in files]
    held = [
        number
        for number in evidence.outputs.get(task, [])
        if any(item.checkpoint_id == checkpoint_id for item in evidence.channel(number).queued)
    ]
    if held:
        to = task_names(evidence.ends[number][1] for number in held)
        says = f"barrier {checkpoint_id} waits in the output to {to}: it is not decided yet which buffers it overtakes"
        return [fact(says, *limited([inquiry.ask(Topic.QUEUE, number) for number in held], "outputs"))]
    others = [other for other in evidence.sharing_slot(task) if _gives_in_flight_data(evidence, other, checkpoint_id)]
    if not others:
        return [not_in_trace("which of its in-flight data is not written")]
    says = f"its in-flight data shares a file with that of {listed(others)}, which is not complete"
    return [fact(says, *limited([inquiry.ask(Topic.ACK, other, checkpoint_id) for other in others], "tasks"))]


def _gives_in_flight_data(evidence: Evidence, task: str, checkpoint_id: int) -> bool:
    """Return True if a task will still submit in-flight data for the checkpoint."""
    known = evidence.moment.tasks[task]
    if known.state != "RUNNING" or known.phases.get(checkpoint_id) in (SENT, ACKNOWLEDGED, UNHEARD):
        return False
    queued = (item for number in evidence.outputs.get(task, []) for item in evidence.channel(number).queued)
    undecided = any(item.checkpoint_id == checkpoint_id for item in queued)
    return (
        known.phases.get(checkpoint_id) not in (WRITING, CAPTURING)
        or bool(awaited(evidence, task, checkpoint_id))
        or undecided
    )
