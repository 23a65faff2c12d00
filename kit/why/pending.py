"""The answers about pending checkpoints: why one is pending, why an acknowledgement is missing, why none is pending."""

from __future__ import annotations

from kit.core.protocol.commands import (
    AllocateCheckpointId,
    CancelTimer,
    DiscardState,
    StoreCheckpoint,
    WriteChannelStateFile,
    WriteMetadata,
)
from kit.core.protocol.events import CheckpointOperatorCoordinator
from kit.core.protocol.messages import AcknowledgeCheckpoint, TaskStateChanged
from kit.core.protocol.notes import (
    AllTasksRunning,
    BarrierAligned,
    CheckpointPending,
    CheckpointTriggered,
    CoordinatorAcknowledged,
)
from kit.core.protocol.tasks import split_task_name
from kit.machines.channel.channel_state.slot_channel_state import slot_name
from kit.machines.coordinator.ledger import timeout_timer
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from kit.run.captions import listed
from kit.run.durations import duration
from kit.run.moments.job_state import (
    ABORTED,
    ACKNOWLEDGED,
    ALIGNING,
    CAPTURING,
    COMPLETED,
    DECLINED,
    SENT,
    UNHEARD,
    WRITING,
    CheckpointMoment,
)
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact, named, some, untold
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import asked, sent
from kit.why.waits import BARRIERS, GONE, TRIGGER, Missing, awaited, barriers_there, missing


def pending(inquiry: Inquiry, checkpoint_id: int) -> Fact:
    """Explain what a checkpoint waits for, or how it ended."""
    evidence = inquiry.evidence
    known = evidence.moment.checkpoints.get(checkpoint_id)
    if known is None:
        return _of_another_run(evidence, checkpoint_id)
    if known.status in (COMPLETED, ABORTED):
        return inquiry.ask(Topic.ENDED, checkpoint_id)
    began = evidence.last(CheckpointPending, checkpoint_id=checkpoint_id)
    open_work = [each for each in evidence.under_way(JOB, checkpoint_id) if not each.is_a(DiscardState)]
    waits = [asked(evidence, each) for each in open_work] + _coordinators(evidence, checkpoint_id)
    if not waits and evidence.last(CheckpointTriggered, checkpoint_id=checkpoint_id) is None:
        waits = _not_triggered(inquiry, checkpoint_id)
    elif not open_work:
        waits += [inquiry.ask(Topic.ACK, task, checkpoint_id) for task in known.missing]
    waits = waits or [_other_first(inquiry, checkpoint_id)]
    return fact(_status(evidence, known), *some(waits, "tasks"), record=began)


def _of_another_run(evidence: Evidence, checkpoint_id: int) -> Fact:
    """Explain a checkpoint of an earlier run, from which this run started."""
    told = next((each for each in evidence.records if each.checkpoint_id == checkpoint_id), None)
    if told is None:
        return Fact(f"there is no checkpoint {checkpoint_id}")
    led = fact(evidence.caption(told), record=told)
    return fact(f"checkpoint {checkpoint_id} was taken before this run began", led)


def _status(evidence: Evidence, known: CheckpointMoment) -> str:
    kind = "savepoint" if known.savepoint else "checkpoint"
    acked = f"{len(known.acked)} of {len(known.expected)} tasks have acknowledged"
    says = f"{kind} {known.checkpoint_id} has been pending for {duration(evidence.at_ms - known.triggered_ms)}: {acked}"
    timer = evidence.timer(JOB, timeout_timer(known.checkpoint_id))
    return says if timer is None else f"{says}; it expires at {duration(evidence.since_start(timer.data['due_ms']))}"


def _coordinators(evidence: Evidence, checkpoint_id: int) -> list[Fact]:
    """Return the operator coordinators that were asked and have not answered yet."""
    given = {
        each.note(CoordinatorAcknowledged).operator_id
        for each in evidence.of_kind(CoordinatorAcknowledged, checkpoint_id=checkpoint_id)
    }
    turns = evidence.of_kind(CheckpointOperatorCoordinator, checkpoint_id=checkpoint_id)
    return [
        fact(f"the coordinator of operator {each.data['operator_id']} has not given its part", record=each)
        for each in turns
        if each.data["operator_id"] not in given
    ]


def _not_triggered(inquiry: Inquiry, checkpoint_id: int) -> list[Fact]:
    """Return why the sources were not triggered although everything else is ready: one is about to finish."""
    evidence = inquiry.evidence
    began = evidence.last(CheckpointPending, checkpoint_id=checkpoint_id)
    leaving = [
        task
        for task in ([] if began is None else began.note(CheckpointPending).trigger)
        if evidence.last(TaskStateChanged, machine=task, end_of_data=True) is not None
    ]
    if not leaving:
        return [untold("why its sources have not been triggered")]
    says = "its sources are not triggered before those that finish with the last checkpoint have finished"
    return [fact(says, *some([inquiry.ask(Topic.END, task) for task in leaving], "tasks"))]


def _other_first(inquiry: Inquiry, checkpoint_id: int) -> Fact:
    """Explain that a fully acknowledged checkpoint waits for another, because checkpoints complete in order."""
    evidence = inquiry.evidence
    for kind in (WriteMetadata, StoreCheckpoint):
        for each in evidence.of_kind(kind):
            if each.checkpoint_id != checkpoint_id and not evidence.answers(each):
                return fact(
                    f"checkpoints complete one after another, and {each.checkpoint_id} is before it",
                    inquiry.ask(Topic.CHECKPOINT, each.checkpoint_id),
                    record=each,
                )
    return untold("what it waits for")


# --- a missing acknowledgement ----------------------------------------------------------------------------------------


def acknowledgement(inquiry: Inquiry, task: str, checkpoint_id: int) -> Fact:
    """Explain why the coordinator has no acknowledgement of this task."""
    evidence = inquiry.evidence
    heard = evidence.last(AcknowledgeCheckpoint, role="event", checkpoint_id=checkpoint_id, task=task)
    if heard is not None:
        return fact(evidence.caption(heard), record=heard)
    waits = missing(evidence, task, checkpoint_id)
    if waits.phase == GONE:
        return fact(f"{task} cannot acknowledge checkpoint {checkpoint_id}", inquiry.ask(Topic.STATE, task))
    if waits.phase == TRIGGER:
        return inquiry.ask(Topic.BEGIN, task, checkpoint_id)
    if waits.phase in (WRITING, CAPTURING):
        return _writing(inquiry, waits)
    if waits.phase == ABORTED:
        return fact(f"{task} has given checkpoint {checkpoint_id} up", inquiry.ask(Topic.ENDED, checkpoint_id))
    if waits.phase == BARRIERS:
        return _before_its_snapshot(inquiry, waits)
    what = f"the {'refusal' if waits.phase == DECLINED else 'acknowledgement'} of {task} to the JobMaster"
    return untold(what) if waits.record is None else sent(evidence, waits.record, what)


def _writing(inquiry: Inquiry, waits: Missing) -> Fact:
    """Explain a task that has copied its state, and still writes files or in-flight data."""
    task, checkpoint_id, copied = waits.task, waits.checkpoint_id, waits.record
    because = []
    if waits.phase == WRITING and copied is not None:
        because.append(asked(inquiry.evidence, copied))
    if waits.barriers:
        others = named(each.source for each in waits.barriers)
        says = f"what is in flight from {others} before barrier {checkpoint_id} still belongs to the checkpoint"
        barriers = [inquiry.ask(Topic.BARRIER, checkpoint_id, each.channel) for each in waits.barriers]
        because.append(fact(says, *some(barriers, "channels")))
    elif not because:
        because = _in_flight(inquiry, task, checkpoint_id)
    says = f"{task} has copied its state for checkpoint {checkpoint_id} and has not all of it written"
    return fact(says, *because, record=copied)


def _in_flight(inquiry: Inquiry, task: str, checkpoint_id: int) -> list[Fact]:
    """Return what the file with in-flight data waits for; the tasks of a worker may share it."""
    evidence = inquiry.evidence
    slot = slot_name(split_task_name(task)[1])
    files = [each for each in evidence.under_way(slot, checkpoint_id) if each.is_a(WriteChannelStateFile)]
    if files:
        return [asked(evidence, each) for each in files]
    held = [
        number
        for number in evidence.outputs.get(task, [])
        if any(item.checkpoint_id == checkpoint_id for item in evidence.channel(number).queued)
    ]
    if held:
        to = named(evidence.ends[number][1] for number in held)
        says = f"barrier {checkpoint_id} waits in the output to {to}: what it will overtake is not decided"
        return [fact(says, *some([inquiry.ask(Topic.QUEUE, number) for number in held], "outputs"))]
    others = [other for other in evidence.beside_in_slot(task) if _gives_in_flight_data(evidence, other, checkpoint_id)]
    if not others:
        return [untold("which of its in-flight data is not written")]
    says = f"its in-flight data goes into one file with that of {listed(others)}, whose is not all there"
    return [fact(says, *some([inquiry.ask(Topic.ACK, other, checkpoint_id) for other in others], "tasks"))]


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


def _before_its_snapshot(inquiry: Inquiry, waits: Missing) -> Fact:
    """Explain a task that has not received all its barriers."""
    evidence, task, checkpoint_id = inquiry.evidence, waits.task, waits.checkpoint_id
    if not waits.barriers:
        return inquiry.ask(Topic.BEGIN, task, checkpoint_id)
    is_aligning = evidence.moment.tasks[task].phases.get(checkpoint_id) == ALIGNING
    first = evidence.last(BarrierAligned, machine=task, checkpoint_id=checkpoint_id) if is_aligning else None
    (there, every), others = barriers_there(evidence, waits), named(each.source for each in waits.barriers)
    have = f"has {there} of its {every} barriers" if there or is_aligning else "has taken no barrier yet"
    says = f"{task} {have} of checkpoint {checkpoint_id}: missing are those of {others}"
    barriers = [inquiry.ask(Topic.BARRIER, checkpoint_id, each.channel) for each in waits.barriers]
    return fact(says, *some(barriers, "channels"), record=first)


# --- none at all ------------------------------------------------------------------------------------------------------


def none_under_way(inquiry: Inquiry) -> Fact:
    """Explain why no checkpoint is pending; if some are, name them."""
    evidence = inquiry.evidence
    waits = [inquiry.ask(Topic.CHECKPOINT, each.checkpoint_id) for each in evidence.moment.pending]
    if waits:
        return waits[0] if len(waits) == 1 else fact(f"{len(waits)} are pending", *some(waits, "checkpoints"))
    if evidence.moment.job != "RUNNING":
        return inquiry.ask(Topic.JOB)
    open_work = [each for each in evidence.under_way(JOB) if each.is_a(AllocateCheckpointId)]
    if open_work:
        return asked(evidence, open_work[0])
    timer = evidence.timer(JOB, PERIODIC_TIMER)
    if timer is not None:
        due_ms = timer.data["due_ms"]
        wait_ms = due_ms - evidence.at_ms
        when = f"in {duration(wait_ms)}" if wait_ms > 0 else f"{duration(-wait_ms)} ago, and has not been taken note of"
        return fact(
            f"the next periodic checkpoint is due at {duration(evidence.since_start(due_ms))}, {when}", record=timer
        )
    return _no_timer(inquiry)


def _no_timer(inquiry: Inquiry) -> Fact:
    evidence = inquiry.evidence
    running = evidence.last(AllTasksRunning, epoch=evidence.moment.epoch)
    if running is None:
        waits = [task for task, known in evidence.moment.tasks.items() if known.state != "RUNNING"]
        says = f"not all tasks of epoch {evidence.moment.epoch} are running yet"
        return fact(says, *some([inquiry.ask(Topic.STATE, task) for task in waits], "tasks"))
    last = [each for each in evidence.of_kind(CancelTimer, timer=PERIODIC_TIMER) if evidence.position(each)]
    if last:
        event = evidence.cause(last[-1])
        ended = None if event is None else fact(evidence.caption(event), record=event)
        return fact("periodic checkpoints have been stopped", ended, record=last[-1])
    return fact("the job takes no periodic checkpoints, and nobody has asked for one", record=running)
