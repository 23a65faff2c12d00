"""The facts about a pending checkpoint: missing acknowledgements, the phase of each task, and missing barriers.

All answers about a pending checkpoint use these facts: the chains of causes, the wait-for graph, the life of a
checkpoint, the phases of its subtasks. So none of them can contradict another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.protocol.commands import WriteSnapshot
from kit.core.protocol.messages import AcknowledgeCheckpoint, DeclineCheckpoint, TriggerTaskCheckpoint
from kit.core.trace.trace import TraceRecord
from kit.run.moments.job_state import (
    ABORTED,
    ANSWERED,
    BEGUN,
    CAPTURING,
    DECLINED,
    WRITING,
    ChannelMoment,
    Item,
    lacks_barrier,
)
from kit.why.evidence import Evidence

GONE, TRIGGER, BARRIERS = "gone", "trigger", "barriers"
"""Reasons why a task has not acknowledged, besides the phases of `kit.run.moments.job_state`: it does not run; it has
not received the JobMaster's trigger; it has not taken all barriers.
"""
NOT_SENT, QUEUED, WIRE, ARRIVED, TAKEN, ENDED = (
    "not sent",
    "in the sender's queue",
    "on the wire",
    "in the receiver's queue",
    "taken",
    "none",
)
"""The places of a barrier; `none` on a channel that ended before it."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """The place of a checkpoint's barrier on a channel, and the items before it.

    With `is_end`, the sender has ended its stream and sends no barrier. The end of the stream counts as the barrier,
    and this is its place.
    """

    channel: int
    source: str
    target: str
    place: str
    before: tuple[Item, ...] = ()
    item: Item | None = None
    is_end: bool = False


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why the JobMaster has not counted a task's acknowledgement of a checkpoint.

    `phase` is one of this module's or of `kit.run.moments.job_state`: GONE, TRIGGER, BARRIERS, WRITING, CAPTURING,
    SENT, UNHEARD, DECLINED, ABORTED. `barriers` are those that the task waits for. `record` is the pending
    message or command: to trigger, to write the snapshot, to acknowledge or to decline.
    """

    task: str
    checkpoint_id: int
    phase: str
    barriers: tuple[Barrier, ...] = ()
    record: TraceRecord | None = None


def missing(evidence: Evidence, task: str, checkpoint_id: int) -> Missing:
    """Return what keeps a task from acknowledging a checkpoint."""
    known = evidence.moment.tasks.get(task)
    if known is None or known.lost or known.state != "RUNNING":
        return Missing(task, checkpoint_id, GONE)
    phase = known.phases.get(checkpoint_id)
    if phase in ANSWERED:
        kind = DeclineCheckpoint if phase == DECLINED else AcknowledgeCheckpoint
        answer = evidence.last(kind, role="command", checkpoint_id=checkpoint_id, machine=task)
        return Missing(task, checkpoint_id, str(phase), record=answer)
    if phase == ABORTED:
        return Missing(task, checkpoint_id, ABORTED)
    if phase in (WRITING, CAPTURING):
        copied = evidence.last(WriteSnapshot, machine=task, checkpoint_id=checkpoint_id)
        is_written = copied is None or bool(evidence.answers(copied))
        barriers = _barriers(evidence, awaited(evidence, task, checkpoint_id), checkpoint_id)
        return Missing(task, checkpoint_id, CAPTURING if is_written else WRITING, barriers, copied)
    if phase not in BEGUN and is_triggered(evidence, task, checkpoint_id):
        return Missing(task, checkpoint_id, TRIGGER, record=trigger_of(evidence, task, checkpoint_id))
    return Missing(
        task,
        checkpoint_id,
        BARRIERS,
        _barriers(evidence, inputs_lacking_barrier(evidence, task, checkpoint_id), checkpoint_id),
    )


def barriers_received(evidence: Evidence, waits: Missing) -> tuple[int, int]:
    """Return the number of barriers that a task has, and the total; a channel that has ended counts as its barrier."""
    every = len(evidence.inputs.get(waits.task, []))
    return every - len(waits.barriers), every


def is_triggered(evidence: Evidence, task: str, checkpoint_id: int) -> bool:
    """Return True if a task starts a checkpoint when the JobMaster triggers it, and not at a barrier.

    Sources do, and tasks whose senders have all finished.
    """
    known = evidence.moment.checkpoints.get(checkpoint_id)
    if known is None or known.triggers is None:
        return not evidence.inputs.get(task)
    return task in known.triggers


def trigger_of(evidence: Evidence, task: str, checkpoint_id: int) -> TraceRecord | None:
    """Return the JobMaster's message that triggers a checkpoint at a task, or None."""
    return evidence.last(TriggerTaskCheckpoint, role="command", checkpoint_id=checkpoint_id, task=task)


def is_under_way(evidence: Evidence, record: TraceRecord) -> bool:
    """Return True if a message is in flight."""
    return record.id in evidence.moment.messages


def is_lost(evidence: Evidence, record: TraceRecord) -> bool:
    """Return True if a message will not arrive."""
    return not is_under_way(evidence, record) and not evidence.answers(record)


def inputs_lacking_barrier(evidence: Evidence, task: str, checkpoint_id: int) -> list[int]:
    """Return the task's input channels that may still deliver the barrier of a checkpoint."""
    return [each for each in evidence.inputs.get(task, []) if lacks_barrier(evidence.channel(each), checkpoint_id)]


def awaited(evidence: Evidence, task: str, checkpoint_id: int) -> list[int]:
    """Return the input channels whose barrier a task waits for after it has started a checkpoint."""
    return [each for each in evidence.inputs.get(task, []) if evidence.channel(each).awaited == checkpoint_id]


def _barriers(evidence: Evidence, numbers: Sequence[int], checkpoint_id: int) -> tuple[Barrier, ...]:
    return tuple(barrier_on(evidence, number, checkpoint_id) for number in numbers)


def barrier_on(evidence: Evidence, number: int, checkpoint_id: int) -> Barrier:
    """Return the place of a checkpoint's barrier on a channel."""
    channel, (source, target) = evidence.channel(number), evidence.ends[number]
    found = _place(channel, "barrier", checkpoint_id)
    if found is not None:
        return Barrier(number, source, target, *found)
    if channel.taken is not None and channel.taken >= checkpoint_id:
        return Barrier(number, source, target, TAKEN)
    if channel.ended:
        return Barrier(number, source, target, ENDED)
    end = _place(channel, "last", None)
    if end is not None:
        return Barrier(number, source, target, *end, is_end=True)
    return Barrier(number, source, target, NOT_SENT)


def _place(channel: ChannelMoment, kind: str, checkpoint_id: int | None) -> tuple[str, tuple[Item, ...], Item] | None:
    for place, items in ((ARRIVED, channel.arrived), (WIRE, channel.wire), (QUEUED, channel.queued)):
        for at, item in enumerate(items):
            if (item.kind, item.checkpoint_id) == (kind, checkpoint_id):
                return place, items[:at], item
    return None
