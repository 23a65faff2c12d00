"""The answers about tasks: why a task has no turn, does not run, or has not finished.

A task can take a turn (take one element, or request one batch from its source) if it has input and space for its
output. So it has no turn while any of its outputs is full, its inputs are empty or blocked, or its source waits, nor
before it runs or after it has ended. The state of the channels shows which of these is true.

These are the rules of `StreamTask.available`, evaluated on the trace alone.
"""

from __future__ import annotations

from kit.core.protocol.commands import ReadSplit, ReadState, StopEpoch, WriteSnapshot
from kit.core.protocol.events import ProcessInput, SlotLost, TimerFired
from kit.core.protocol.messages import (
    DeployTask,
    NotifyCheckpointComplete,
    OperatorEventToCoordinator,
    OperatorEventToTask,
    TaskStateChanged,
)
from kit.core.protocol.notes import CheckpointPending, RegionsFailed
from kit.core.protocol.properties import SavepointFormatType, SavepointType
from kit.core.trace.trace import TraceRecord
from kit.machines.channel.result_partition import MAX_QUEUED_BUFFERS
from kit.machines.task.source_loop import SOURCE_TIMER
from kit.run.durations import duration
from kit.run.moments.job_changes import runs_there
from kit.run.moments.job_state import TaskMoment
from kit.why.channels import contents
from kit.why.evidence import Evidence
from kit.why.fact import MOST, Fact, fact, limited, not_in_trace, task_names
from kit.why.inquiry import Inquiry, Topic
from kit.why.paused import paused
from kit.why.under_way import frozen_worker, injected_faults, unanswered, undelivered

STOPS = {kind(SavepointFormatType.CANONICAL).name for kind in (SavepointType.suspend, SavepointType.terminate)}
"""The trace's names of savepoints that stop the job."""


def turn(inquiry: Inquiry, task: str) -> Fact:
    """Explain why a task has no turn, or what it can do if it has one."""
    evidence = inquiry.evidence
    known = evidence.moment.tasks.get(task)
    if known is None or known.state != "RUNNING" or known.lost:
        return inquiry.ask(Topic.STATE, task)
    full = full_outputs(evidence, task)
    if full:
        waits = [inquiry.ask(Topic.QUEUE, number) for number in full]
        to = task_names(evidence.ends[number][1] for number in full)
        says = f"{task} takes no input: its output queue to {to} is full ({MAX_QUEUED_BUFFERS} buffers or more)"
        return fact(says, *limited(waits, "outputs"))
    readable = readable_inputs(evidence, task)
    if readable:
        return _may_be_next(evidence, task, readable)
    ended = _end_of_data(evidence, task)
    if ended is not None:
        return inquiry.ask(Topic.END, task)
    inputs = evidence.inputs.get(task, [])
    if not inputs:
        return _source(inquiry, task)
    if not evidence.detailed:
        return _not_detailed(inquiry, task, inputs)
    return fact(f"{task} has no input to take", *_inputs(inquiry, inputs))


def full_outputs(evidence: Evidence, task: str) -> list[int]:
    """Return the full output channels of a task; it takes no input while it has any."""
    return [
        number
        for number in evidence.outputs.get(task, [])
        if len(evidence.channel(number).queued) >= MAX_QUEUED_BUFFERS
    ]


def readable_inputs(evidence: Evidence, task: str) -> list[int]:
    """Return the channels from which a task may take something."""
    return [
        number
        for number in evidence.inputs.get(task, [])
        if evidence.channel(number).arrived and not evidence.channel(number).blocked
    ]


def _may_be_next(evidence: Evidence, task: str, readable: list[int]) -> Fact:
    parts = [
        f"{contents(evidence.channel(number).arrived)} of {evidence.ends[number][0]}" for number in readable[:MOST]
    ]
    inputs = "; ".join([*parts, *([f"more of {len(readable) - MOST} others"] if len(readable) > MOST else [])])
    last = evidence.last(ProcessInput, machine=task)
    since = "" if last is None else f"; its last turn was {duration(evidence.at_ms - last.at_ms)} ago"
    says = f"{task} has input to take ({inputs}) and has not done so yet{since}"
    return fact(says, frozen_worker(evidence, task), record=last)


def _inputs(inquiry: Inquiry, inputs: list[int]) -> tuple[Fact, ...]:
    """Explain each input of a task that can take nothing: blocked ones first, ended ones together."""
    evidence = inquiry.evidence
    blocked = [number for number in inputs if evidence.channel(number).blocked]
    ended = [number for number in inputs if evidence.channel(number).ended]
    others = [number for number in inputs if number not in blocked and number not in ended]
    facts = [inquiry.ask(Topic.CHANNEL, number) for number in blocked]
    facts += [inquiry.ask(Topic.QUEUE, number) for number in others]
    if ended:
        facts.append(Fact(f"{', '.join(evidence.ends[number][0] for number in ended)} ended its stream"))
    return limited(facts, "inputs")


def _not_detailed(inquiry: Inquiry, task: str, inputs: list[int]) -> Fact:
    """Explain a task from its barriers alone, for a trace without single buffers."""
    evidence = inquiry.evidence
    blocked = [number for number in inputs if evidence.channel(number).blocked]
    if not blocked:
        return not_in_trace(f"{task} is running; whether it has input")
    says = f"{len(blocked)} of the {len(inputs)} inputs of {task} are blocked"
    return fact(says, *limited([inquiry.ask(Topic.CHANNEL, number) for number in blocked], "channels"))


# --- sources ----------------------------------------------------------------------------------------------------------


def _source(inquiry: Inquiry, task: str) -> Fact:
    """Explain why a source does not read now: it waits for its turn, rows, a time, a split, or slower splits."""
    evidence = inquiry.evidence
    if evidence.detailed and _is_idle(evidence, task):
        return fact(f"the source of {task} may be read and has not had its turn", frozen_worker(evidence, task))
    timer = evidence.timer(task, SOURCE_TIMER)
    if timer is not None:
        due_ms = timer.data["due_ms"]
        at, wait = duration(evidence.since_start(due_ms)), duration(due_ms - evidence.at_ms)
        says = f"the source of {task} reads again at {at}, in {wait}"
        return fact(says, record=timer)
    waits = paused(inquiry, task)
    if waits is not None:
        return waits
    read = evidence.last(ReadSplit, machine=task)
    if read is not None and evidence.is_present(read) and not evidence.answers(read):
        return fact(f"{task} has requested rows and has not received them yet", record=read)
    request = evidence.last(OperatorEventToCoordinator, role="command", machine=task)
    answer = evidence.last(OperatorEventToTask, role="event", machine=task)
    if request is not None and (answer is None or evidence.position(answer) < evidence.position(request)):
        return _waits_for_split(evidence, task, request)
    return not_in_trace(f"{task} is running; what its source does")


def _is_idle(evidence: Evidence, task: str) -> bool:
    """Return True if a source may request rows: its last read has ended, or it had none."""
    last = evidence.last(ProcessInput, machine=task)
    if last is None or not evidence.is_present(last):
        return True
    read = next((each for each in evidence.of_same_event(last) if each.is_a(ReadSplit)), None)
    if read is not None:
        return bool(evidence.answers(read))
    woken = [
        *evidence.of_kind(OperatorEventToTask, role="event", machine=task),
        *evidence.of_kind(TimerFired, machine=task, timer=SOURCE_TIMER),
    ]
    return any(evidence.position(each) > evidence.position(last) for each in woken)


def _waits_for_split(evidence: Evidence, task: str, request: TraceRecord) -> Fact:
    heard = next(iter(evidence.answers(request)), None)
    if heard is None:
        return undelivered(evidence, request, f"the request of {task} to its operator coordinator for a split")
    replies = [each for each in evidence.of_same_event(heard) if each.is_a(OperatorEventToTask)]
    if replies:
        return undelivered(evidence, replies[0], f"the split for {task}", task)
    return fact(f"the operator coordinator has no split for {task} at present", record=heard)


# --- before and after -------------------------------------------------------------------------------------------------


def state(inquiry: Inquiry, task: str) -> Fact:
    """Explain why a task is not running."""
    evidence = inquiry.evidence
    known = evidence.moment.tasks.get(task)
    if known is None:
        return fact(f"{task} does not exist yet", inquiry.ask(Topic.JOB))
    if known.lost:
        lost = [each for each in evidence.of_kind(SlotLost) if runs_there(task, each)]
        return fact(f"{task} is lost: {known.error}", *_failed_by(inquiry, lost[-1:]))
    changed = evidence.last(TaskStateChanged, role="command", machine=task)
    if known.state == "FAILED":
        return fact(f"{task} has failed", *_failed_by(inquiry, [] if changed is None else [changed]))
    if known.state == "FINISHED":
        return fact(f"{task} has finished: it has processed all its input", record=changed)
    if known.state in ("CANCELING", "CANCELED") and (stopped := _stopped_with_region(evidence, task)) is not None:
        says = f"{task} was stopped, because it belongs to a region that restarts"
        return fact(says, *_failed_by(inquiry, [stopped]))
    if known.state == "CANCELED":
        return fact(f"{task} was cancelled", inquiry.ask(Topic.JOB))
    if known.state == "RUNNING":
        return fact(f"{task} is running", record=changed)
    return _deploying(inquiry, task, known)


def _stopped_with_region(evidence: Evidence, task: str) -> TraceRecord | None:
    """Return the note that the task's region restarts, if it was stopped for that reason."""
    if evidence.last(StopEpoch, epoch=evidence.moment.epoch) is not None:
        return None
    return next((each for each in reversed(evidence.of_kind(RegionsFailed)) if task in each.data["tasks"]), None)


def _failed_by(inquiry: Inquiry, records: list[TraceRecord]) -> list[Fact]:
    return [inquiry.ask(Topic.FAILURE, record.id) for record in records]


def _deploying(inquiry: Inquiry, task: str, known: TaskMoment) -> Fact:
    """Explain a task that is being deployed, or starts."""
    evidence = inquiry.evidence
    deployed = evidence.last(DeployTask, role="command", task=task, attempt=known.attempt)
    if deployed is None or not evidence.answers(deployed):
        return fact(f"{task} is being deployed to its worker", frozen_worker(evidence, task), record=deployed)
    reading = [each for each in evidence.under_way(task) if each.is_a(ReadState)]
    if reading:
        restored = "" if known.restored is None else f" of checkpoint {known.restored}"
        says = f"{task} has been reading its state{restored} for {duration(evidence.at_ms - reading[0].at_ms)}"
        return fact(says, *injected_faults(evidence, reading[0]), frozen_worker(evidence, task), record=reading[0])
    full = full_outputs(evidence, task)
    says = f"{task} processes what was in flight at checkpoint {known.restored} before it runs"
    return fact(says, *limited([inquiry.ask(Topic.QUEUE, number) for number in full], "outputs"))


# --- the end ----------------------------------------------------------------------------------------------------------


def _end_of_data(evidence: Evidence, task: str) -> TraceRecord | None:
    """Return the record that a task has processed all its input, or has stopped at the savepoint of a stop, if it has.
    It then waits for its last checkpoint.
    """
    finished = evidence.last(TaskStateChanged, role="command", machine=task, end_of_data=True)
    if finished is not None and evidence.is_present(finished):
        return finished
    pending = reversed(evidence.of_kind(CheckpointPending))
    stop = next((each for each in pending if each.note(CheckpointPending).snapshot in STOPS), None)
    if stop is None:
        return None
    copied = evidence.last(WriteSnapshot, machine=task, checkpoint_id=stop.checkpoint_id)
    return copied if copied is not None and evidence.is_present(copied) else None


def end(inquiry: Inquiry, task: str) -> Fact:
    """Explain why a task that has processed all its input has not finished."""
    evidence = inquiry.evidence
    ended = _end_of_data(evidence, task)
    if ended is None:
        return inquiry.ask(Topic.TURN, task)
    work = [unanswered(evidence, each) for each in evidence.under_way(task)]
    inputs = [number for number in evidence.inputs.get(task, []) if not evidence.channel(number).ended]
    sources = [evidence.ends[number][0] for number in inputs]
    waits = [fact(f"{source} has not ended its stream", inquiry.ask(Topic.END, source)) for source in sources]
    outputs = {number: evidence.channel(number) for number in evidence.outputs.get(task, [])}
    unread = [
        inquiry.ask(Topic.QUEUE, number)
        for number, channel in outputs.items()
        if any(item.kind == "buffer" for item in (*channel.queued, *channel.wire, *channel.arrived))
    ]
    last = [] if work else _last_checkpoint(inquiry, task, ended)
    stopped = ended.is_a(WriteSnapshot)
    what = f"has stopped at savepoint {ended.checkpoint_id}" if stopped else "has processed all its input"
    says = f"{task} {what}, {duration(evidence.at_ms - ended.at_ms)} ago, and has not finished"
    return fact(says, *limited([*last, *work, *unread, *waits], "causes"), record=ended)


def _last_checkpoint(inquiry: Inquiry, task: str, ended: TraceRecord) -> list[Fact]:
    """Return the checkpoint for which the task waits, one that started after its end; empty if it is complete."""
    evidence = inquiry.evidence
    taken = [
        each
        for each in evidence.of_kind(WriteSnapshot, machine=task)
        if evidence.is_present(each) and evidence.position(each) >= evidence.position(ended)
    ]
    if not taken:
        says = f"no checkpoint has started at {task} since then; the next one publishes its last output"
        pending = [inquiry.ask(Topic.ACK, task, each.checkpoint_id) for each in evidence.moment.pending]
        return [fact(says, *pending or [inquiry.ask(Topic.NEXT)])]
    checkpoint_id = taken[0].checkpoint_id
    heard = evidence.last(NotifyCheckpointComplete, role="event", machine=task)
    if heard is not None and (heard.checkpoint_id or -1) >= (checkpoint_id or 0):
        return []
    says = f"{task} stays until it is notified that checkpoint {checkpoint_id} is complete"
    return [fact(says, inquiry.ask(Topic.CHECKPOINT, checkpoint_id), record=taken[0])]
