"""The answers about pending checkpoints: why one is pending, what it waits for in short, and why none is pending."""

from __future__ import annotations

from collections.abc import Mapping

from kit.core.protocol.commands import (
    AllocateCheckpointId,
    CancelTimer,
    DiscardState,
    InitializeLocation,
    StoreCheckpoint,
    WriteMetadata,
)
from kit.core.protocol.duties import Command
from kit.core.protocol.events import CheckpointOperatorCoordinator
from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.notes import AllTasksRunning, CheckpointPending, CheckpointTriggered, CoordinatorAcknowledged
from kit.machines.coordinator.checkpoint_state import CheckpointState
from kit.machines.coordinator.ledger import timeout_timer
from kit.machines.coordinator.periodic import PERIODIC_TIMER
from kit.run.captions import listed
from kit.run.checkpoint_log import ACK, COORDINATOR, HOOK, LOCATION, METADATA, STORE, CheckpointLife
from kit.run.durations import duration
from kit.run.moments.job_state import ABORTED, COMPLETED, CheckpointMoment
from kit.why.acknowledgement import outline
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact, limited, not_in_trace
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import injected_faults, unanswered
from kit.why.waits import missing

MOST_DESCRIBED = 2
"""The number of tasks whose activity is described."""
_WAITS = {
    CheckpointState.LOCATING: "for its directory",
    CheckpointState.COORDINATORS: "for the operator coordinator{s} {of}",
    CheckpointState.HOOKS: "for the master hook{s} {of}",
    CheckpointState.TRIGGERING: "for tasks that are about to finish, before the sources are triggered",
    CheckpointState.ACKNOWLEDGED: "for an earlier checkpoint: they complete in order",
    CheckpointState.WRITING: "until its _metadata is written",
    CheckpointState.STORING: "until it is stored",
}
_STEPS: dict[CheckpointState, tuple[str, type[Command] | None]] = {
    CheckpointState.LOCATING: (LOCATION, InitializeLocation),
    CheckpointState.COORDINATORS: (COORDINATOR, None),
    CheckpointState.HOOKS: (HOOK, None),
    CheckpointState.WRITING: (METADATA, WriteMetadata),
    CheckpointState.STORING: (STORE, StoreCheckpoint),
}
"""For each state, the step that a checkpoint waits for, and its command."""


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
    waits = [unanswered(evidence, each) for each in open_work] + _coordinators(evidence, checkpoint_id)
    if not waits and evidence.last(CheckpointTriggered, checkpoint_id=checkpoint_id) is None:
        waits = _not_triggered(inquiry, checkpoint_id)
    elif not open_work:
        waits += [inquiry.ask(Topic.ACK, task, checkpoint_id) for task in known.missing]
    waits = waits or [_other_first(inquiry, checkpoint_id)]
    return fact(_status(evidence, known), *limited(waits, "tasks"), record=began)


def _of_another_run(evidence: Evidence, checkpoint_id: int) -> Fact:
    """Explain a checkpoint of an earlier run, from which this run started."""
    record = next((each for each in evidence.records if each.checkpoint_id == checkpoint_id), None)
    if record is None:
        return Fact(f"checkpoint {checkpoint_id} does not exist")
    restored = fact(evidence.caption(record), record=record)
    return fact(f"checkpoint {checkpoint_id} was taken before this run began", restored)


def _status(evidence: Evidence, known: CheckpointMoment) -> str:
    kind = "savepoint" if known.savepoint else "checkpoint"
    acked = f"{len(known.acked)} of {len(known.expected)} tasks have acknowledged"
    says = f"{kind} {known.checkpoint_id} has been pending for {duration(evidence.at_ms - known.triggered_ms)}: {acked}"
    timer = evidence.timer(JOB, timeout_timer(known.checkpoint_id))
    return says if timer is None else f"{says}; it expires at {duration(evidence.since_start(timer.data['due_ms']))}"


def _coordinators(evidence: Evidence, checkpoint_id: int) -> list[Fact]:
    """Return the operator coordinators that have not acknowledged the checkpoint yet."""
    acknowledged = {
        each.note(CoordinatorAcknowledged).operator_id
        for each in evidence.of_kind(CoordinatorAcknowledged, checkpoint_id=checkpoint_id)
    }
    turns = evidence.of_kind(CheckpointOperatorCoordinator, checkpoint_id=checkpoint_id)
    return [
        fact(f"the coordinator of operator {each.data['operator_id']} has not acknowledged", record=each)
        for each in turns
        if each.data["operator_id"] not in acknowledged
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
        return [not_in_trace("why its sources have not been triggered")]
    says = "its sources are not triggered until those that finish with the last checkpoint have finished"
    return [fact(says, *limited([inquiry.ask(Topic.END, task) for task in leaving], "tasks"))]


def _other_first(inquiry: Inquiry, checkpoint_id: int) -> Fact:
    """Explain that a fully acknowledged checkpoint waits for another, because checkpoints complete in order."""
    evidence = inquiry.evidence
    for kind in (WriteMetadata, StoreCheckpoint):
        for each in evidence.of_kind(kind):
            if each.checkpoint_id != checkpoint_id and not evidence.answers(each):
                return fact(
                    f"checkpoints complete in order, and checkpoint {each.checkpoint_id} is before it",
                    inquiry.ask(Topic.CHECKPOINT, each.checkpoint_id),
                    record=each,
                )
    return not_in_trace("what it waits for")


# --- in short ---------------------------------------------------------------------------------------------------------


def waits_for(evidence: Evidence, life: CheckpointLife, names: Mapping[str, str]) -> str:
    """Return what a pending checkpoint waits for. `names` are those of the operators, by id."""
    state = life.state
    if state is CheckpointState.COLLECTING:
        tasks = [step.of for step in life.open(ACK)]
        return _acknowledgements(evidence, tasks, len(life.of_kind(ACK)), life.checkpoint_id)
    if state is None or state not in _WAITS:
        return "for its id"
    kind, command = _STEPS.get(state, ("", None))
    steps = life.open(kind)
    of = ", ".join(names.get(step.of, step.of[:8]) if kind == COORDINATOR else step.of for step in steps)
    says = _WAITS[state].format(of=of, s="s" * (len(steps) > 1))
    if not steps:
        return says
    record = evidence.last(command, role="command", checkpoint_id=life.checkpoint_id) if command else None
    faults = [] if record is None else injected_faults(evidence, record)
    return fact(f"{says}, for {duration(evidence.at_ms - steps[0].start_ms)}", *faults).in_short


def _acknowledgements(evidence: Evidence, tasks: list[str], expected: int, checkpoint_id: int) -> str:
    """Return which acknowledgements a checkpoint waits for, and what the first of their tasks do."""
    says = "; ".join(
        outline(evidence, missing(evidence, task, checkpoint_id)).in_short for task in tasks[:MOST_DESCRIBED]
    )
    more = f"; and {len(tasks) - MOST_DESCRIBED} more" if len(tasks) > MOST_DESCRIBED else ""
    return f"for {len(tasks)} of {expected} acknowledgements, of {listed(tasks)}: {says}{more}"


# --- no pending checkpoint --------------------------------------------------------------------------------------------


def none_under_way(inquiry: Inquiry) -> Fact:
    """Explain why no checkpoint is pending; if some are, name them."""
    evidence = inquiry.evidence
    waits = [inquiry.ask(Topic.CHECKPOINT, each.checkpoint_id) for each in evidence.moment.pending]
    if waits:
        return waits[0] if len(waits) == 1 else fact(f"{len(waits)} are pending", *limited(waits, "checkpoints"))
    if evidence.moment.job != "RUNNING":
        return inquiry.ask(Topic.JOB)
    open_work = [each for each in evidence.under_way(JOB) if each.is_a(AllocateCheckpointId)]
    if open_work:
        return unanswered(evidence, open_work[0])
    timer = evidence.timer(JOB, PERIODIC_TIMER)
    if timer is not None:
        due_ms = timer.data["due_ms"]
        wait_ms = due_ms - evidence.at_ms
        when = (
            f"in {duration(wait_ms)}" if wait_ms > 0 else f"{duration(-wait_ms)} ago, and its timer has not fired yet"
        )
        return fact(
            f"the next periodic checkpoint is due at {duration(evidence.since_start(due_ms))}, {when}", record=timer
        )
    return _no_timer(inquiry)


def _no_timer(inquiry: Inquiry) -> Fact:
    evidence = inquiry.evidence
    running = evidence.last(AllTasksRunning, epoch=evidence.moment.epoch)
    waits = [task for task, known in evidence.moment.tasks.items() if known.state not in ("RUNNING", "FINISHED")]
    if running is None or waits:
        says = f"not all tasks of epoch {evidence.moment.epoch} are running yet"
        return fact(says, *limited([inquiry.ask(Topic.STATE, task) for task in waits], "tasks"))
    last = evidence.last(CancelTimer, timer=PERIODIC_TIMER)
    if last is not None:
        event = evidence.cause(last)
        ended = None if event is None else fact(evidence.caption(event), record=event)
        return fact("periodic checkpoints have been stopped", ended, record=last)
    return fact("the job takes no periodic checkpoints, and none has been requested", record=running)
