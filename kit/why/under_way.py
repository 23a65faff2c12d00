"""Facts about pending commands and messages in flight: since when, and the faults that a lab injected into them."""

from __future__ import annotations

from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.run.faults import DROP_MESSAGE
from kit.run.moments.job_state import task_of
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact


def unanswered(evidence: Evidence, record: TraceRecord) -> Fact:
    """Return the fact about a command without an answer."""
    says = f"{evidence.caption(record)}: not answered for {duration(evidence.at_ms - record.at_ms)}"
    return fact(says, *injected_faults(evidence, record), frozen_worker(evidence, task_of(record)), record=record)


def undelivered(evidence: Evidence, record: TraceRecord, what: str, receiver: str = JOB) -> Fact:
    """Return the fact about a message that has not arrived; `what` is the subject of the sentence."""
    lost = any(each.is_a(DROP_MESSAGE) for each in evidence.faults(record))
    under_way = f"has been under way for {duration(evidence.at_ms - record.at_ms)}"
    says = f"{what} {'was lost, and is not sent again' if lost else under_way}"
    return fact(says, *injected_faults(evidence, record), frozen_worker(evidence, receiver), record=record)


def injected_faults(evidence: Evidence, record: TraceRecord) -> list[Fact]:
    """Return the faults injected into a command or a message."""
    return [fact(evidence.caption(each), record=each) for each in evidence.faults(record)]


def frozen_worker(evidence: Evidence, machine: str) -> Fact | None:
    """Return the fact that a task's worker is frozen, or None."""
    frozen = evidence.frozen(machine) if machine in evidence.moment.tasks else None
    return None if frozen is None else fact(evidence.caption(frozen), record=frozen)
