"""The answer to why a source does not read splits that have rows: alignment pauses them until slower splits catch up.

A task records when all its splits with rows are paused, and when it reads again. The readers' reports to their
coordinator show which of them is furthest behind (`kit.stream.operators.sources.split_alignment`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.protocol.messages import OperatorEventToCoordinator
from kit.core.protocol.notes import SplitsPaused, SplitsResumed
from kit.core.protocol.tasks import vertex_of
from kit.core.trace.trace import TraceRecord
from kit.stream.operators.sources.split_alignment import REPORT_WATERMARK
from kit.why.evidence import Evidence
from kit.why.fact import Fact, fact, limited
from kit.why.inquiry import Inquiry, Topic
from kit.why.late import event_time


def paused(inquiry: Inquiry, task: str) -> Fact | None:
    """Explain why alignment pauses a source, or return None if it does not."""
    evidence = inquiry.evidence
    changes = (evidence.last(kind, machine=task) for kind in (SplitsPaused, SplitsResumed))
    last = max((each for each in changes if each is not None), key=evidence.position, default=None)
    if last is None or not last.is_a(SplitsPaused) or not evidence.is_present(last):
        return None
    note = last.note(SplitsPaused)
    splits = [f"{split} at {event_time(at_ms)}" for split, at_ms in note.splits.items()]
    limit = event_time(note.max_watermark_ms)
    says = (
        f"alignment pauses the source of {task}: its splits may be read up to {limit} (with_alignment), "
        "and those with rows are further ahead"
    )
    ahead = limited([Fact(each) for each in splits], "splits")
    return fact(says, *ahead, *_furthest_behind(inquiry, task), record=last)


def _furthest_behind(inquiry: Inquiry, task: str) -> Iterator[Fact]:
    """Name the reader whose splits are furthest behind, and why it does not read, if that is another one."""
    evidence = inquiry.evidence
    reports = _reports(evidence, task)
    if not reports:
        return
    report = min(reports, key=lambda each: (each.data["payload"]["watermark"], each.machine))
    says = f"{report.machine} is furthest behind: the slowest of its splits is at "
    says += event_time(report.data["payload"]["watermark"])
    yield fact(says, None if report.machine == task else inquiry.ask(Topic.TURN, report.machine), record=report)


def _reports(evidence: Evidence, task: str) -> list[TraceRecord]:
    """Return the last report of each reader of the task's source that takes part in the alignment."""
    newest = {
        each.machine: each
        for each in evidence.of_kind(OperatorEventToCoordinator, role="command")
        if each.data["payload"].get("kind") == REPORT_WATERMARK
        and vertex_of(each.machine) == vertex_of(task)
        and evidence.is_present(each)
    }
    return [each for each in newest.values() if each.data["payload"]["watermark"] is not None]
