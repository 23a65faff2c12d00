"""The answers about the job: its present wait, a restart, and the checkpoint that was restored."""

from __future__ import annotations

from kit.core.protocol.commands import (
    AllocateCheckpointId,
    JobStatusChanged,
    SetCheckpointIdCounter,
    StartEpoch,
    StartTasks,
    StopEpoch,
    StopTasks,
)
from kit.core.protocol.events import StartJob
from kit.core.protocol.notes import CheckpointCompleted, RegionsFailed, StateAssigned
from kit.core.trace.trace import TraceRecord
from kit.machines.job.region_failover import RESTART_REGIONS_TIMER
from kit.machines.job.status import JobStatus
from kit.run.captions import listed
from kit.run.durations import duration
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact, limited, not_in_trace
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import unanswered

RESTART_TIMER = "restart"
_OF_CHECKPOINTS = (AllocateCheckpointId, SetCheckpointIdCounter)
_FAILED = (JobStatus.RESTARTING.name, JobStatus.FAILING.name, JobStatus.FAILED.name)


def job(inquiry: Inquiry) -> Fact:
    """Explain what the job waits for, or why it has ended."""
    evidence = inquiry.evidence
    status = evidence.moment.job
    record = evidence.last(JobStatusChanged)
    if status in _FAILED:
        waits = [] if status == JobStatus.FAILED.name else _under_way(evidence)
        return fact(_status_text(evidence, record), *waits, _why_it_failed(inquiry), record=record)
    if status == JobStatus.RUNNING.name:
        return fact(_status_text(evidence, record), *_running(inquiry), record=record)
    cause = None if record is None else evidence.cause(record)
    first = None if cause is None else fact(evidence.caption(cause), record=cause)
    return fact(_status_text(evidence, record), *_under_way(evidence), first, record=record)


def _status_text(evidence: Evidence, record: TraceRecord | None) -> str:
    return f"the job is {evidence.moment.job}" if record is None else evidence.caption(record)


def _under_way(evidence: Evidence) -> list[Fact]:
    """Return what a job that starts, restarts or ends waits for."""
    waits = [
        unanswered(evidence, each)
        for each in evidence.under_way(JOB)
        if each.checkpoint_id is None and not each.is_a(*_OF_CHECKPOINTS)
    ]
    waits += _regions_under_way(evidence)
    leaving = evidence.last(StopEpoch)
    if leaving is not None and not evidence.answers(leaving):
        waits.append(fact(f"not all workers of epoch {leaving.data['epoch']} have stopped", record=leaving))
    timer = evidence.timer(JOB, RESTART_TIMER)
    return waits if timer is None else [*waits, _delay(evidence, timer, "the restart delay")]


def _delay(evidence: Evidence, timer: TraceRecord, what: str) -> Fact:
    due_ms = timer.data["due_ms"]
    ends = f"{duration(evidence.since_start(due_ms))}, in {duration(due_ms - evidence.at_ms)}"
    return fact(f"{what} ends at {ends}", record=timer)


def _regions_under_way(evidence: Evidence) -> list[Fact]:
    """Return what the restarts of regions wait for: tasks that stop, and delays."""
    waits = []
    for stop in evidence.of_kind(StopTasks, epoch=evidence.moment.epoch):
        if not evidence.answers(stop):
            waits.append(fact(f"not all of {listed(stop.data['tasks'])} have stopped", record=stop))
        timer = evidence.timer(JOB, f"{RESTART_REGIONS_TIMER}{stop.data['restart']}")
        if timer is not None:
            waits.append(_delay(evidence, timer, f"the delay before the restart of {listed(stop.data['tasks'])}"))
    return waits


def _why_it_failed(inquiry: Inquiry) -> Fact:
    """Explain the failure that ended the last good status."""
    evidence = inquiry.evidence
    first = None
    for record in reversed(evidence.of_kind(JobStatusChanged)):
        if record.data["status"] not in _FAILED:
            break
        first = record
    if first is None:
        return not_in_trace("why it failed")
    cause = evidence.cause(first)
    return not_in_trace("why it failed") if cause is None else inquiry.ask(Topic.FAILURE, cause.id)


def _running(inquiry: Inquiry) -> tuple[Fact, ...]:
    """Return the facts about a running job: tasks that do not run yet, pending checkpoints."""
    evidence = inquiry.evidence
    away = [task for task, known in evidence.moment.tasks.items() if known.state not in ("RUNNING", "FINISHED")]
    facts = [inquiry.ask(Topic.STATE, task) for task in away]
    return limited([*facts, *_under_way(evidence)] or [inquiry.ask(Topic.NEXT)], "tasks")


# --- restarts and restores --------------------------------------------------------------------------------------------


def restart(inquiry: Inquiry, epoch: int) -> Fact:
    """Explain why an epoch started: the failure before it, and the state that it restored."""
    evidence = inquiry.evidence
    began = evidence.last(StartEpoch, epoch=epoch)
    if began is None:
        return fact(f"epoch {epoch} has not begun", inquiry.ask(Topic.JOB))
    then = inquiry.before(evidence.before(began))
    failed = [
        each
        for each in evidence.of_kind(JobStatusChanged, status=JobStatus.RESTARTING.name)
        if evidence.position(each) < evidence.position(began)
    ]
    causes = [_restored(inquiry, epoch, then)]
    if epoch > 1 and failed:
        cause = evidence.cause(failed[-1])
        because = not_in_trace("why") if cause is None else inquiry.ask(Topic.FAILURE, cause.id)
        causes.insert(0, fact(evidence.caption(failed[-1]), because, record=failed[-1]))
    regions = [_region_restarted(inquiry, each) for each in evidence.of_kind(StartTasks, epoch=epoch)]
    return fact(f"epoch {epoch} began", *regions, *causes, record=began)


def _region_restarted(inquiry: Inquiry, began: TraceRecord) -> Fact:
    """Explain why some regions restarted within an epoch: their failure, and the checkpoint that they restored."""
    evidence = inquiry.evidence
    then = evidence.before(began)
    failed = [
        fact(evidence.caption(each), *_cause_of(inquiry, each), record=each)
        for each in then.of_kind(RegionsFailed)
        if began.data["attempts"].keys() >= set(each.data["tasks"])
    ]
    assignments = [each for each in evidence.of_same_event(began) if each.is_a(StateAssigned)]
    restored = [fact(evidence.caption(each), record=each) for each in assignments]
    nothing = Fact("no checkpoint was complete: these tasks started without state")
    return fact(evidence.caption(began), *failed[-1:], *(restored or [nothing]), record=began)


def _cause_of(inquiry: Inquiry, record: TraceRecord) -> list[Fact]:
    cause = inquiry.evidence.cause(record)
    return [] if cause is None else [inquiry.ask(Topic.FAILURE, cause.id)]


def _restored(inquiry: Inquiry, epoch: int, then: Inquiry) -> Fact:
    """Explain which checkpoint the epoch's tasks restored."""
    evidence = inquiry.evidence
    assignment = next(
        (each for each in evidence.of_kind(StateAssigned, epoch=epoch) if not each.data.get("tasks")), None
    )
    if assignment is None:
        later = _later_checkpoints(then, 0)
        says = f"epoch {epoch} started without state: no checkpoint was complete"
        return fact(says, *limited(later, "checkpoints"))
    restored = assignment.checkpoint_id or 0
    complete = evidence.last(CheckpointCompleted, checkpoint_id=restored)
    if complete is None:
        start = evidence.last(StartJob)
        source = f"the job was started from the snapshot at {assignment.note(StateAssigned).path}"
        first = fact(
            source if start and start.data["restore_path"] else "an earlier driver had stored it", record=start
        )
    else:
        first = fact(
            f"checkpoint {restored} was complete {duration(assignment.at_ms - complete.at_ms)} before", record=complete
        )
    later = _later_checkpoints(then, restored)
    newest = "" if complete is None else ", the newest complete one"
    says = f"epoch {epoch} restored checkpoint {restored}{newest}"
    return fact(says, first, *limited(later, "checkpoints"), record=assignment)


def _later_checkpoints(then: Inquiry, restored: int) -> list[Fact]:
    """Return the state of each later checkpoint at the time when the restored one was chosen."""
    moment = then.evidence.moment
    return [_not_restored(then, number) for number in sorted(moment.checkpoints) if number > restored]


def _not_restored(then: Inquiry, checkpoint_id: int) -> Fact:
    known = then.evidence.moment.checkpoints[checkpoint_id]
    if known.savepoint and known.status == "completed":
        return Fact(
            f"savepoint {checkpoint_id} was complete, but savepoints belong to the user: restarts do not restore them"
        )
    return then.ask(Topic.CHECKPOINT, checkpoint_id)
