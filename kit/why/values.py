"""The answers about the state of a task, as far as a trace has them: what it restored, and its input since then.

A trace contains no values. A detailed one has each buffer that a task took, and the positions of its sources. A lab can
repeat the steps, and so finds those that changed a value (`kit.hosts.lab.recordings.state_history`).
"""

from __future__ import annotations

from collections import Counter

from kit.core.protocol.events import ElementReceived, ProcessInput, SplitRead
from kit.core.protocol.messages import DeployTask
from kit.core.protocol.notes import StateAssigned
from kit.core.trace.trace import TraceRecord
from kit.why.evidence import Evidence
from kit.why.fact import Fact, fact, limited, not_in_trace
from kit.why.inquiry import Inquiry


def state_of(inquiry: Inquiry, task: str) -> Fact:
    """Explain the state of a task."""
    evidence = inquiry.evidence
    says = f"the state of {task} is what it started with, changed by the input it has taken since then"
    return fact(says, beginning(evidence, task), *limited(_taken(evidence, task), "channels"))


def beginning(evidence: Evidence, task: str) -> Fact:
    """Explain what a task restored at the beginning of the present epoch."""
    epoch = evidence.moment.epoch
    known = evidence.moment.tasks.get(task)
    attempt = epoch if known is None else known.attempt
    deployed = evidence.last(DeployTask, role="command", task=task, attempt=attempt)
    assigned = evidence.of_kind(StateAssigned, epoch=epoch)
    assignment = next((each for each in reversed(assigned) if task in (each.data.get("tasks") or [task])), None)
    if assignment is None:
        return fact(f"{task} started epoch {epoch} without state", record=deployed)
    rows = [row for row in assignment.note(StateAssigned).assignments if row.get("task") == task]
    kinds = ", ".join(sorted({str(row["kind"]) for row in rows if row.get("kind")}))
    what = f" ({kinds})" if kinds else ""
    says = f"{task} restored its part{what} of checkpoint {assignment.checkpoint_id} in epoch {epoch}"
    return fact(says, record=assignment)


def _taken(evidence: Evidence, task: str) -> list[Fact]:
    """Return the amount that the task has taken from each channel, and the source positions at those reads."""
    if not evidence.detailed:
        return [not_in_trace(f"what {task} has taken since then")]
    rows: Counter[int] = Counter()
    newest: dict[int, TraceRecord] = {}
    for turn in evidence.of_kind(ProcessInput, machine=task):
        received = evidence.cause(turn)
        if received is None or not received.is_a(ElementReceived) or not evidence.is_present(turn):
            continue
        batch = received.data["element"].get("batch")
        if batch is not None and received is not newest.get(received.data["channel"]):  # else: the same buffer's rest
            rows[received.data["channel"]] += batch["rows"]
            newest[received.data["channel"]] = received
    facts = []
    for number in sorted(rows):
        many = f"{rows[number]} record{'s' * (rows[number] != 1)}"
        says = f"{task} has taken {many} of {evidence.ends[number][0]}"
        facts.append(fact(says, origin(evidence, newest[number]), record=newest[number]))
    return facts or [Fact(f"{task} has taken nothing since then")]


def origin(evidence: Evidence, received: TraceRecord) -> Fact | None:
    """Return the read of a source that led to an element; None if no read did."""
    at: TraceRecord | None = received
    while at is not None and not at.is_a(SplitRead):
        at = evidence.cause(evidence.creation(at))
    if at is None:
        return None
    return fact(f"{at.machine} had read {at.data['split_id']} up to position {at.data['position']}", record=at)
