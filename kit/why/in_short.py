"""Short answers about pending checkpoints and their tasks: a sentence, or a cell of a table.

`kit.why.pending` gives the same answers as chains of causes, from the same facts (`kit.why.waits`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kit.core.protocol.commands import InitializeLocation, StoreCheckpoint, WriteMetadata
from kit.core.protocol.duties import Command
from kit.core.trace.trace import TraceRecord
from kit.machines.coordinator.checkpoint_state import CheckpointState
from kit.run.captions import listed
from kit.run.checkpoint_log import ACK, COORDINATOR, HOOK, LOCATION, METADATA, STORE, CheckpointLife
from kit.run.checkpoint_words import enumerated
from kit.run.durations import duration
from kit.run.moments.job_state import ABORTED, CAPTURING, DECLINED, SENT, UNHEARD, WRITING, TaskMoment
from kit.why.evidence import Evidence
from kit.why.under_way import in_brackets
from kit.why.waits import (
    ARRIVED,
    GONE,
    NOT_SENT,
    QUEUED,
    TRIGGER,
    WIRE,
    Barrier,
    Missing,
    barriers_there,
    is_lost,
    is_under_way,
    missing,
)

MOST_TOLD = 2
"""The number of tasks whose activity is described."""
_WAITS = {
    CheckpointState.LOCATING: "for its directory",
    CheckpointState.COORDINATORS: "for the operator coordinator{s} {of}",
    CheckpointState.HOOKS: "for the master hook{s} {of}",
    CheckpointState.TRIGGERING: "for tasks that are about to finish, before the sources are triggered",
    CheckpointState.ACKNOWLEDGED: "for its turn: checkpoints complete one after another",
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
_PLACES = {QUEUED: "in its sender's queue", WIRE: "on its way", ARRIVED: "in the queue here", NOT_SENT: "not sent yet"}


def checkpoint(evidence: Evidence, life: CheckpointLife, names: Mapping[str, str]) -> str:
    """Return what a pending checkpoint waits for. `names` are those of the operators, by id."""
    state = life.state
    if state is CheckpointState.COLLECTING:
        tasks = [step.of for step in life.open(ACK)]
        return acknowledgements(evidence, tasks, len(life.of_kind(ACK)), life.checkpoint_id)
    if state is None or state not in _WAITS:
        return "for its number"
    kind, command = _STEPS.get(state, ("", None))
    steps = life.open(kind)
    of = ", ".join(names.get(step.of, step.of[:8]) if kind == COORDINATOR else step.of for step in steps)
    says = _WAITS[state].format(of=of, s="s" * (len(steps) > 1))
    if not steps:
        return says
    asked = evidence.last(command, role="command", checkpoint_id=life.checkpoint_id) if command else None
    fault = "" if asked is None else in_brackets(evidence, asked)
    return f"{says}, for {duration(evidence.at_ms - steps[0].start_ms)}{fault}"


def acknowledgements(evidence: Evidence, tasks: list[str], expected: int, checkpoint_id: int) -> str:
    """Return which acknowledgements a checkpoint waits for, and what the first of their tasks do."""
    says = "; ".join(acknowledgement(evidence, missing(evidence, task, checkpoint_id)) for task in tasks[:MOST_TOLD])
    more = f"; and {len(tasks) - MOST_TOLD} more" if len(tasks) > MOST_TOLD else ""
    return f"for {len(tasks)} of {expected} acknowledgements, of {listed(tasks)}: {says}{more}"


def acknowledgement(evidence: Evidence, waits: Missing) -> str:
    """Return why a task's acknowledgement is missing."""
    task, record = waits.task, waits.record
    if waits.phase == GONE:
        known = evidence.moment.tasks.get(task, TaskMoment())
        return f"{task} is {known.state}" + (f": {known.error}" if known.error else "")
    if waits.phase == SENT:
        return _since(evidence, f"the acknowledgement of {task} has been under way", record)
    if waits.phase == UNHEARD:
        return f"the acknowledgement of {task} was lost on its way"
    if waits.phase == WRITING:
        return _since(evidence, f"{task} has been writing its state", record)
    if waits.phase == CAPTURING:
        return f"{task} captures and writes in-flight data"
    if waits.phase == DECLINED:
        return _since(evidence, f"{task} has declined, and its word has been under way", record)
    if waits.phase == ABORTED:
        return f"{task} has given it up"
    if waits.phase == TRIGGER:
        return _trigger(evidence, task, record)
    there, every = barriers_there(evidence, waits)
    return f"{task} has {there} of {every} barriers" if every else f"{task} has begun"


def _trigger(evidence: Evidence, task: str, record: TraceRecord | None) -> str:
    if record is None:
        return f"{task} has not been triggered"
    if is_lost(evidence, record):
        return f"the trigger to {task} was lost"
    return _since(evidence, f"the trigger to {task} has been under way", record)


def _since(evidence: Evidence, says: str, record: TraceRecord | None) -> str:
    if record is None:
        return says
    return f"{says} for {duration(evidence.at_ms - record.at_ms)}{in_brackets(evidence, record)}"


# --- in a cell of a table ---------------------------------------------------------------------------------------------


def what(evidence: Evidence, waits: Missing) -> str:
    """Return what a task waits for that has not acknowledged; "" for one that does not run."""
    barriers = _barriers(waits)
    if waits.phase == GONE:
        return ""
    if waits.phase in (SENT, DECLINED):
        is_there = waits.record is None or not is_under_way(evidence, waits.record)
        return "its acknowledgement" if is_there else "its acknowledgement, on its way"
    if waits.phase == UNHEARD:
        return "its acknowledgement, lost on its way"
    if waits.phase == TRIGGER:
        return f"the trigger{_of_trigger(evidence, waits.record)}"
    if waits.phase == WRITING:
        return f"its files to be written{f', and {barriers}' if barriers else ''}"
    if waits.phase == CAPTURING:
        return barriers or "its in-flight data to be written"
    return "nothing: it has given it up" if waits.phase == ABORTED else barriers or "its barriers"


def _of_trigger(evidence: Evidence, record: TraceRecord | None) -> str:
    if record is None:
        return ", not sent yet"
    return (
        ", lost on its way" if is_lost(evidence, record) else ", on its way" if is_under_way(evidence, record) else ""
    )


def _barriers(waits: Missing) -> str:
    told = [f"{each.source} ({_place(each)})" for each in waits.barriers]
    return f"barrier {waits.checkpoint_id} from {enumerated(told)}" if told else ""


def _place(barrier: Barrier) -> str:
    ahead = sum(item.kind == "buffer" for item in barrier.before)
    behind = f", behind {ahead}" if ahead else ""
    return f"{'its end instead, ' if barrier.is_end else ''}{_PLACES[barrier.place]}{behind}"
