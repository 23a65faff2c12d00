"""The answers about ended checkpoints: the first cause of an abort, or the time that a completed one took.

The causes are those of the trace (`Trace.causes`). For a failure, records that merely passed it on are left out; the
chain ends with the first failure and the command that it answered. For an expired checkpoint, the answer is what was
missing at its timeout.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kit.core.protocol.commands import AllocateCheckpointId, WriteSnapshot
from kit.core.protocol.duties import Duty
from kit.core.protocol.events import (
    CheckpointIdAllocated,
    ElementReceived,
    OperatorEventLost,
    SlotLost,
    SplitReadFailed,
)
from kit.core.protocol.messages import DeployTask, TriggerTaskCheckpoint
from kit.core.protocol.notes import CheckpointAborted, CheckpointCompleted, CheckpointPending
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.vocabulary import COMMANDS
from kit.core.trace.trace import TraceRecord, kind_names
from kit.run.captions import lower_first
from kit.run.checkpoint_path import BARRIER, PHASES, TRIGGER
from kit.run.durations import duration
from kit.run.journeys import Follower
from kit.run.kinds import DETAIL, level_of
from kit.run.moments.job_state import COMPLETED, CheckpointMoment
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact, not_in_trace
from kit.why.inquiry import Inquiry, Topic
from kit.why.phases import phases_of

FAILED = kind_names(
    *(command.fails_with for command in COMMANDS if command.fails_with is not None),
    SplitReadFailed,
    SlotLost,
    OperatorEventLost,
)
"""Events of a failure. Of the records before them, only the command that failed is a cause."""
_SUCCEEDED = kind_names(
    *(answer for command in COMMANDS if command.duty is Duty.WORK for answer in command.answers)
).difference(FAILED)
"""Answers of success: their causes are no causes of what they ended."""
_TRIGGERS = kind_names(TriggerTaskCheckpoint, CheckpointPending, AllocateCheckpointId, DeployTask)
"""Records that start a checkpoint or a task, which is no reason for its end."""
LEAST_SHARE = 0.1
"""The least fraction of a checkpoint's time for which a phase is named as a reason."""
_PHASE_WORDS = {
    TRIGGER: "waited {ms} ms for the trigger (start delay)",
    BARRIER: "waited {ms} ms for its first barrier (start delay)",
    "alignment": "waited {ms} ms for its other barriers (alignment)",
    "sync": "copied its state for {ms} ms (sync)",
    "async": "wrote its part for {ms} ms (async)",
    "in_flight": "captured and wrote in-flight data for {ms} ms (a part of async)",
    "ack": "had its acknowledgement under way for {ms} ms",
}


def ended(inquiry: Inquiry, checkpoint_id: int) -> Fact:
    """Explain why a checkpoint was aborted, or how it completed."""
    known = inquiry.evidence.moment.checkpoints[checkpoint_id]
    return completed(inquiry, known) if known.status == COMPLETED else aborted(inquiry, known)


# --- aborted ----------------------------------------------------------------------------------------------------------


def aborted(inquiry: Inquiry, known: CheckpointMoment) -> Fact:
    """Explain an abort back to its first cause."""
    evidence, checkpoint_id = inquiry.evidence, known.checkpoint_id
    record = evidence.last(CheckpointAborted, checkpoint_id=checkpoint_id)
    if record is None:
        return not_in_trace(f"checkpoint {checkpoint_id} was aborted; why")
    note = record.note(CheckpointAborted)
    blamed = f"; {note.task} is to blame" if note.task else ""
    says = (
        f"checkpoint {checkpoint_id} was aborted after {duration(known.duration_ms or 0)} "
        f"with {note.acked} of {note.tasks} acknowledgements: {note.reason}, {note.detail}{blamed}"
    )
    return fact(says, *_led_to_abort(inquiry, known, record), record=record)


def _led_to_abort(inquiry: Inquiry, known: CheckpointMoment, record: TraceRecord) -> list[Fact]:
    evidence, reason = inquiry.evidence, record.note(CheckpointAborted).reason
    event = evidence.cause(record)
    if event is None:
        return [not_in_trace("what led to it")]
    if reason == CheckpointFailureReason.CHECKPOINT_EXPIRED.name:
        then = inquiry.before(evidence.before(record))
        ran_ms = event.at_ms - known.triggered_ms
        timer = fact(f"it timed out after {duration(ran_ms)}", record=event)
        return [timer, then.ask(Topic.CHECKPOINT, known.checkpoint_id)]
    if reason == CheckpointFailureReason.CHECKPOINT_SUBSUMED.name:
        newer = [each for each in evidence.of_same_event(record) if each.is_a(CheckpointCompleted)]
        return [fact(evidence.caption(each), record=each) for each in newer] or [not_in_trace("which one is newer")]
    return [inquiry.ask(Topic.FAILURE, event.id)]


def failure(inquiry: Inquiry, record_id: str) -> Fact:
    """Return the chain from a record back to the first failure."""
    evidence = inquiry.evidence
    record = evidence.find(record_id)
    if record is None:
        return not_in_trace(f"what {record_id} was")
    return _chained(evidence, _failing(evidence, record))


def _failing(evidence: Evidence, record: TraceRecord) -> list[TraceRecord]:
    """Return the records of a failure, from the last to the first."""
    if record.kind in _SUCCEEDED and record.role == "event":
        return [record]
    chain: list[TraceRecord] = []
    at: TraceRecord | None = record
    while at is not None and at not in chain and not (chain and at.kind in _TRIGGERS):
        said = chain[-1] if chain else None
        if said is not None and said.role == "event" and (at.kind, at.role) == (said.kind, "command"):
            chain[-1] = at  # a message sent is the same fact as the message received
        elif not chain or level_of(at) >= DETAIL or at.kind in FAILED:
            chain.append(at)
        before = evidence.cause(at)
        if at.kind in FAILED and at.role == "event":
            return [*chain, *evidence.faults(before), *([] if before is None else [before])]
        at = before
    return chain


def _chained(evidence: Evidence, records: Sequence[TraceRecord]) -> Fact:
    """Return a chain of facts, each because of the next record."""
    chain: Fact | None = None
    for record in reversed(records):
        first, _, _ = str(record.data.get("traceback") or "").partition("\nThe above exception was the direct cause of")
        places = [line.strip() for line in first.splitlines() if line.startswith('  File "')]
        place = f" ({places[-1]})" if places else ""  # at which a task's own code failed
        chain = fact(f"{evidence.caption(record)}{place}", chain, record=record)
    return chain or not_in_trace("what led to it")


# --- complete ---------------------------------------------------------------------------------------------------------


def completed(inquiry: Inquiry, known: CheckpointMoment) -> Fact:
    """Explain the duration of a checkpoint: its critical path, and the slowest subtask of each phase."""
    evidence, checkpoint_id = inquiry.evidence, known.checkpoint_id
    record = evidence.last(CheckpointCompleted, checkpoint_id=checkpoint_id)
    if record is None:
        return not_in_trace(f"checkpoint {checkpoint_id} is complete; how it completed")
    took_ms = record.note(CheckpointCompleted).duration_ms
    path = _critical_path(evidence, record, known.triggered_ms)
    gaps = [later.at_ms - earlier.at_ms for later, earlier in pairwise(path)]
    longest = gaps.index(max(gaps)) if gaps else 0
    says = f"checkpoint {checkpoint_id} is complete, {duration(took_ms)} after its trigger"
    if gaps and gaps[longest]:
        later, earlier = path[longest], path[longest + 1]
        task = later.machine.partition("@")[0]
        who = "the JobMaster" if task == JOB else task
        says += f"; the longest wait was for {who}: {_wait(evidence, earlier, later, gaps[longest])}"
    way = _timed(evidence, path[1:], gaps)
    return fact(says, way, *_slowest(evidence, checkpoint_id, took_ms), record=record)


def _wait(evidence: Evidence, earlier: TraceRecord, later: TraceRecord, gap_ms: int) -> str:
    """Describe the time between two steps; work that starts with the later step is left out."""
    if not later.is_a(WriteSnapshot):
        return f"{duration(gap_ms)} went by before {lower_first(evidence.caption(later))}"
    if earlier.is_a(ElementReceived):
        return f"a barrier waited in its queue for {duration(gap_ms)}"
    return f"{duration(gap_ms)} went by before it began to copy its state"


def _critical_path(evidence: Evidence, record: TraceRecord, triggered_ms: int) -> list[TraceRecord]:
    """Return the critical path, from the end back to the trigger, without turns and credits."""
    path, at = [record], evidence.cause(record)
    while at is not None and at.at_ms >= triggered_ms and len(path) < len(evidence.records):
        if level_of(at) >= DETAIL or at.machine == JOB or at.checkpoint_id is not None:
            path.append(at)
        if at.is_a(CheckpointPending) or (at.is_a(CheckpointIdAllocated) and at.role == "event"):
            break
        created = evidence.creation(at)
        at = evidence.cause(at) if created is at else created
    return path


def _timed(evidence: Evidence, path: Sequence[TraceRecord], gaps: Sequence[int]) -> Fact | None:
    """Return the path as a chain of facts, each step with the time until its successor."""
    chain: Fact | None = None
    for record, gap_ms in reversed([*zip(path, gaps)]):
        took = f", {duration(gap_ms)} before" if gap_ms else ""
        chain = fact(f"{evidence.caption(record)}{took}", chain, record=record)
    return chain


def _slowest(evidence: Evidence, checkpoint_id: int, took_ms: int) -> list[Fact]:
    """Return the slowest subtask of each phase that took a relevant part of the time."""
    table = phases_of(Follower().follow(evidence.reading, evidence.n), checkpoint_id)
    found = []
    for phase in PHASES:
        spent = table[f"{phase}_ms"].dropna()
        if not spent.empty and spent.max() > took_ms * LEAST_SHARE:
            slowest, ms = table.loc[spent.astype(int).idxmax(), "task"], int(spent.max())
            was_triggered = evidence.last(TriggerTaskCheckpoint, checkpoint_id=checkpoint_id, task=slowest) is not None
            words = _PHASE_WORDS[TRIGGER if phase == BARRIER and was_triggered else phase]
            found.append(Fact(f"{slowest} {words.format(ms=ms)}; no other subtask took longer"))
    return found
