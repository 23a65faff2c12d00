"""What was asked for, or sent, and has not come: since when, and what befell it if that was made to happen in a lab."""

from __future__ import annotations

from kit.core.protocol.record_kinds import RecordKind
from kit.core.protocol.trace import TraceRecord
from kit.run.captions import lower_first
from kit.run.durations import duration
from kit.run.job_state import task_of
from kit.why.evidence import JOB, Evidence
from kit.why.fact import Fact, fact


def asked(evidence: Evidence, record: TraceRecord) -> Fact:
    """A command that no event has answered."""
    says = f"{evidence.caption(record)}: not answered for {duration(evidence.at_ms - record.at_ms)}"
    return fact(says, *befell(evidence, record), standing_still(evidence, task_of(record)), record=record)


def sent(evidence: Evidence, record: TraceRecord, what: str, receiver: str = JOB) -> Fact:
    """A message that has not arrived; `what` is the subject of the sentence."""
    lost = any(each.kind == RecordKind.DROP_MESSAGE for each in evidence.faults(record))
    under_way = f"has been under way for {duration(evidence.at_ms - record.at_ms)}"
    says = f"{what} {'was lost, and is not sent again' if lost else under_way}"
    return fact(says, *befell(evidence, record), standing_still(evidence, receiver), record=record)


def befell(evidence: Evidence, record: TraceRecord) -> list[Fact]:
    """The faults that were brought about on a command or a message."""
    return [fact(evidence.caption(each), record=each) for each in evidence.faults(record)]


def in_brackets(evidence: Evidence, record: TraceRecord) -> str:
    """The same as the end of a sentence; "" where nothing was done to it."""
    faults = evidence.faults(record)
    return f" ({lower_first(evidence.caption(faults[-1]))})" if faults else ""


def standing_still(evidence: Evidence, machine: str) -> Fact | None:
    """That the worker of a task is frozen, if it is."""
    frozen = evidence.frozen(machine) if machine in evidence.moment.tasks else None
    return None if frozen is None else fact(evidence.caption(frozen), record=frozen)
