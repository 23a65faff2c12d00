"""The answer to why an output lacks rows: they were dropped as late, are not published, or wait for event time."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kit.core.event_time import MAX_WATERMARK_MS
from kit.core.protocol.events import EffectsCommitted, ElementReceived
from kit.core.protocol.notes import LateRowsDropped
from kit.core.trace.trace import TraceRecord
from kit.machines.job.status import JobStatus
from kit.why.evidence import Evidence
from kit.why.fact import Fact, fact, limited
from kit.why.inquiry import Inquiry, Topic
from kit.why.late import counts, event_time, subtasks_of, upstream
from kit.why.values import origin

KEYED = "hash"
"""The partitioning of keyed streams; windows and joins read such channels."""
_ENDED_BADLY = (JobStatus.RESTARTING.name, JobStatus.FAILING.name, JobStatus.FAILED.name, JobStatus.CANCELED.name)


def missing_rows(inquiry: Inquiry, sink: str = "") -> Fact:
    """Explain why the output of a sink lacks rows; that of all sinks together if none is named."""
    evidence = inquiry.evidence
    sinks = subtasks_of(evidence, sink) if sink else []
    before = upstream(evidence, *sinks) if sinks else set(evidence.moment.tasks)
    what = f"the output of {sink}" if sink else "the output"
    dropped = tuple(sorted({note.machine for note in counts(evidence, LateRowsDropped) if note.machine in before}))
    late = [inquiry.ask(Topic.LATE, dropped)] if dropped else []
    facts = [*late, *_not_published(inquiry, before), *_held(evidence, before)]
    if not facts:
        says = f"no row was dropped as late, and all that reached {what} is published: look at what the functions emit"
        return Fact(says)
    return fact(f"rows may be missing from {what} for {len(facts)} reason{'s' * (len(facts) > 1)}", *facts)


def _not_published(inquiry: Inquiry, before: Collection[str]) -> Iterator[Fact]:
    """Yield the unpublished rows of sinks, which publish when the checkpoint that covers the rows completes."""
    evidence = inquiry.evidence
    status = evidence.moment.job
    if status == JobStatus.FINISHED.name:
        return
    published = [each for each in evidence.of_kind(EffectsCommitted) if each.machine in before]
    last = published[-1] if published else None
    upto = "none has done so yet" if last is None else f"the last was checkpoint {last.data['checkpoint_id']}"
    says = f"a sink publishes its rows when a checkpoint that covers them completes, and {upto}"
    why = Topic.JOB if status in _ENDED_BADLY else Topic.NEXT
    yield fact(says, inquiry.ask(why), record=last)


def _held(evidence: Evidence, before: Collection[str]) -> tuple[Fact, ...]:
    """Return the tasks whose windows and joins wait for event time, and the input that holds it back."""
    if not evidence.detailed or evidence.moment.job == JobStatus.FINISHED.name or evidence.stage is None:
        return ()
    keyed = {channel.target for channel in evidence.stage.channels if channel.partitioner == KEYED}
    facts = [_waits_for_event_time(evidence, task) for task in sorted(keyed & set(before))]
    return limited([each for each in facts if each is not None], "tasks")


def _waits_for_event_time(evidence: Evidence, task: str) -> Fact | None:
    """Return the fact, or None if event time has ended, or was never received."""
    watermarks = {number: _watermark(evidence, number) for number in evidence.inputs.get(task, ())}
    if not any(watermarks.values()):
        return None
    held_by = min(watermarks, key=lambda number: -1 if (at := watermarks[number]) is None else at[0])
    sender, at = evidence.ends[held_by][0], watermarks[held_by]
    if at is None:
        return fact(f"windows in {task} wait for event time: {sender} has sent no watermark yet")
    at_ms, received = at
    if at_ms == MAX_WATERMARK_MS:
        return None
    says = f"windows in {task} that end after {event_time(at_ms)} have not fired: {sender} holds event time there"
    return fact(says, origin(evidence, received), record=received)


def _watermark(evidence: Evidence, number: int) -> tuple[int, TraceRecord] | None:
    """Return the last watermark received on a channel, and its record."""
    for received in reversed(evidence.of_kind(ElementReceived, channel=number)):
        if received.data["element"].get("type") == "Watermark" and evidence.is_present(received):
            return int(received.data["element"]["timestamp_ms"]), received
    return None


def sinks(evidence: Evidence) -> dict[str, str]:
    """Return the names of the sinks, by name and by uid: the operators without an outgoing edge."""
    if evidence.stage is None:
        return {}
    sources = {edge.source for edge in evidence.stage.edges}
    last = [each for index, each in enumerate(evidence.stage.operators) if index not in sources]
    return {name: each.name for each in last for name in (each.uid, each.name) if name}
