"""The answers about requests for a checkpoint: rejected, queued, failed before the trigger, or triggered."""

from __future__ import annotations

from kit.core.protocol.commands import AllocateCheckpointId, CompleteRequest, DiscardState
from kit.core.protocol.events import (
    CheckpointIdAllocated,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
)
from kit.core.protocol.notes import (
    CheckpointCompleted,
    CheckpointTriggered,
    RequestFailed,
    RequestNote,
    RequestQueued,
    RequestRefused,
    RescalePhaseChanged,
    TriggeringFailed,
    TriggeringStarted,
)
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact, limited, not_in_trace
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import unanswered

REQUESTS = (
    RequestCheckpoint,
    RequestSavepoint,
    RequestStop,
    RequestRescale,
)
_RESCALE = {
    "COOLDOWN": "the end of the cooldown: the job was deployed a moment ago",
    "IDLING": "slots: there are too few, or the job has the parallelism that it wants",
    "STABILIZING": "further changes, or a checkpoint to restart from",
    "STABILIZED": "a checkpoint to restart from",
    "TRANSITIONING": "the tasks of the next epoch to run",
}
"""For each phase of a rescale, what it waits for."""


def request(inquiry: Inquiry, number: int) -> Fact:
    """Explain the outcome of the request with this number."""
    evidence = inquiry.evidence
    answer = evidence.last(CompleteRequest, request_id=number)
    if answer is not None:
        return _answered(inquiry, number, answer)
    checkpoint_id = _checkpoint_of(evidence, number)
    if checkpoint_id is not None:
        return _stop(inquiry, number) or inquiry.ask(Topic.CHECKPOINT, checkpoint_id)
    if evidence.last(RequestRescale, request_id=number) is not None:
        return _rescale(evidence, number)
    started = _last_note(evidence, TriggeringStarted, number)
    if started is not None:
        waits = [each for each in evidence.under_way(JOB) if each.is_a(AllocateCheckpointId)]
        says = f"request {number} has begun and has no checkpoint id yet"
        return fact(says, *(unanswered(evidence, each) for each in waits), record=started)
    queued = _last_note(evidence, RequestQueued, number)
    if queued is not None:
        return fact(_queued_says(evidence, number, queued.note(RequestQueued)), *_ahead(inquiry, queued), record=queued)
    return not_in_trace(f"what happened to request {number}")


def _rescale(evidence: Evidence, number: int) -> Fact:
    """Explain what a rescale waits for, such as a pending checkpoint."""
    phases = evidence.of_kind(RescalePhaseChanged)
    if not phases:
        return not_in_trace(f"what happened to request {number}")
    now = phases[-1]
    return fact(f"request {number} waits for {_RESCALE[now.note(RescalePhaseChanged).phase]}", record=now)


def refusal(inquiry: Inquiry, record_id: str) -> Fact:
    """Explain why a request was rejected, or why its checkpoint could not start."""
    evidence = inquiry.evidence
    record = evidence.find(record_id)
    if record is None:
        return not_in_trace("why it was refused")
    note = record.note(RequestFailed)
    says = f"{note.request} was refused: {note.reason}, {note.detail}"
    return fact(says, *_grounds(inquiry, record), record=record)


def _answered(inquiry: Inquiry, number: int, answer: TraceRecord) -> Fact:
    evidence = inquiry.evidence
    refused = [each for each in evidence.of_same_event(answer) if each.is_a(RequestRefused, TriggeringFailed)]
    mine = [each for each in refused if f"(request {number})" in each.note(RequestFailed).request]
    if mine:
        return inquiry.ask(Topic.REFUSAL, mine[-1].id)
    checkpoint_id = _checkpoint_of(evidence, number)
    below = None if checkpoint_id is None else inquiry.ask(Topic.ENDED, checkpoint_id)
    error = answer.data["error"]
    says = f"request {number} failed: {error}" if error else f"request {number} is answered: {answer.data['path']}"
    return fact(says, below, record=answer)


def _last_note(evidence: Evidence, kind: type[RequestNote], number: int) -> TraceRecord | None:
    """Return the newest note of a kind about this request."""
    notes = reversed(evidence.of_kind(kind))
    return next((each for each in notes if each.note(RequestNote).request.endswith(f"(request {number})")), None)


def _checkpoint_of(evidence: Evidence, number: int) -> int | None:
    """Return the id that was allocated for the request."""
    started = _last_note(evidence, TriggeringStarted, number)
    if started is None:
        return None
    beside = list(evidence.of_same_event(started))
    after = beside[beside.index(started) :]
    wanted = next((each for each in after if each.is_a(AllocateCheckpointId)), None)
    answers = [] if wanted is None else evidence.answers(wanted)
    return next((each.checkpoint_id for each in answers if each.is_a(CheckpointIdAllocated)), None)


def _stop(inquiry: Inquiry, number: int) -> Fact | None:
    """Explain a request to stop, which is answered when the job has ended, not when its savepoint is complete."""
    evidence = inquiry.evidence
    stop = evidence.last(RequestStop, request_id=number)
    checkpoint_id = _checkpoint_of(evidence, number)
    known = evidence.moment.checkpoints.get(checkpoint_id or -1)
    if stop is None or known is None or known.status != "completed":
        return None
    staying = [task for task, each in evidence.moment.tasks.items() if each.state != "FINISHED"]
    ends = [inquiry.ask(Topic.END, task) for task in staying] or [inquiry.ask(Topic.JOB)]
    says = f"savepoint {checkpoint_id} is complete; request {number} is answered when the job has finished"
    return fact(says, *limited(ends, "tasks"), record=stop)


# --- queued and rejected requests -------------------------------------------------------------------------------------


def _in_the_way(evidence: Evidence, queued: RequestQueued) -> str:
    """Return why the first request in the queue does not start now: the limit of "pending" checkpoints is reached,
    another one is still "triggering", or too many old ones are being deleted ("cleaning").
    """
    pending = evidence.moment.pending
    if len(pending) >= queued.at_most:
        return "pending"
    triggered = {each.checkpoint_id for each in evidence.of_kind(CheckpointTriggered)}
    has_no_number = any(each.is_a(AllocateCheckpointId) for each in evidence.under_way(JOB))
    if has_no_number or any(each.checkpoint_id not in triggered for each in pending):
        return "triggering"
    return "cleaning"


def why_queued(evidence: Evidence, label: str) -> str:
    """Return why the request with this label is queued, in words."""
    record = evidence.last(RequestQueued, request=label)
    if record is None:
        return ""
    queued = record.note(RequestQueued)
    what, pending = _in_the_way(evidence, queued), len(evidence.moment.pending)
    if what == "pending":
        many = "1 checkpoint is" if pending == 1 else f"{pending} checkpoints are"
        return f"{many} pending, and at most {queued.at_most} may be"
    if what == "triggering":
        return "another checkpoint is being triggered"
    return f"{queued.cleaning} old checkpoints were being deleted when it arrived, too many to start another"


def _queued_says(evidence: Evidence, number: int, queued: RequestQueued) -> str:
    what = _in_the_way(evidence, queued)
    says = f"request {number} is queued, {queued.position} before it: "
    if what == "pending":
        return f"{says}{len(evidence.moment.pending)} pending already, and at most {queued.at_most} may be"
    if what == "triggering":
        return f"{says}another one was being triggered"
    return f"{says}{queued.cleaning} old ones were being deleted, and at most {queued.at_most} may be"


def _ahead(inquiry: Inquiry, queued: TraceRecord) -> tuple[Fact, ...]:
    """Return what must end before the next request can start."""
    evidence = inquiry.evidence
    facts = [inquiry.ask(Topic.CHECKPOINT, each.checkpoint_id) for each in evidence.moment.pending]
    facts += [unanswered(evidence, each) for each in evidence.under_way(JOB) if each.is_a(AllocateCheckpointId)]
    if not facts and queued.data.get("cleaning"):
        cleaning = [each for each in evidence.of_kind(DiscardState) if not evidence.answers(each)]
        facts = [fact(evidence.caption(each), record=each) for each in cleaning]
    return limited(facts, "checkpoints")


def _grounds(inquiry: Inquiry, record: TraceRecord) -> list[Fact]:
    """Return the numbers behind a rejection, and the state of the tasks that it names; otherwise its cause."""
    evidence, reason = inquiry.evidence, record.note(RequestFailed).reason
    if reason == CheckpointFailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS.name:
        complete = evidence.of_kind(CheckpointCompleted)
        last = [each for each in complete if evidence.position(each) < evidence.position(record)][-1:]
        return [
            fact(f"{evidence.caption(each)}, {duration(record.at_ms - each.at_ms)} before", record=each)
            for each in last
        ]
    then = inquiry.before(evidence.before(record))
    if reason == CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING.name:
        tasks = then.evidence.moment.tasks
        away = [task for task, known in tasks.items() if known.state != "RUNNING"]
        return list(limited([then.ask(Topic.STATE, task) for task in away], "tasks"))
    if reason == CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS.name:
        return list(_ahead(then, record))
    led = evidence.cause(record)
    return [] if led is None else [inquiry.ask(Topic.FAILURE, led.id)]
