"""The answers about channels: the place of a barrier, and the chain of waits that delays it or a buffer.

A channel is blocked from its aligned barrier until the other barriers have arrived. A missing barrier is in its
receiver's queue, on the wire, in its sender's queue, or not sent. A buffer in a sender's queue waits for a credit,
which its receiver grants for each buffer that it takes; a barrier waits for the buffers before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kit.core.protocol.messages import DeclineCheckpoint, NotifyCheckpointAborted
from kit.core.protocol.notes import BarrierAligned
from kit.core.trace.trace import TraceRecord
from kit.run.durations import duration
from kit.run.moments.job_state import ALIGNING, Item
from kit.why.evidence import Evidence
from kit.why.fact import NOT_IN_TRACE, Fact, fact, limited, not_in_trace, task_names
from kit.why.inquiry import Inquiry, Topic
from kit.why.under_way import frozen_worker, undelivered
from kit.why.waits import (
    ARRIVED,
    ENDED,
    QUEUED,
    TAKEN,
    WIRE,
    barrier_on,
    inputs_lacking_barrier,
    is_triggered,
    trigger_of,
)

ITEM_WORDS = {
    "buffer": "buffer",
    "barrier": "barrier",
    "watermark": "watermark",
    "status": "idleness mark",
    "cancel": "cancel marker",
    "end": "end of data",
    "last": "end of the stream",
    "recovered": "end of recovered data",
    "from": "mark of a recovered buffer",
}


def blocked(inquiry: Inquiry, number: int) -> Fact:
    """Explain why the receiver of this channel does not read it."""
    evidence = inquiry.evidence
    channel, (source, target) = evidence.channel(number), evidence.ends[number]
    if channel.held is None:
        return fact(f"{evidence.channel_name(number)} is not blocked", inquiry.ask(Topic.QUEUE, number))
    taken = evidence.last(BarrierAligned, checkpoint_id=channel.held, channel=number)
    awaited = [other for other in evidence.inputs[target] if evidence.channel(other).awaited == channel.held]
    others = task_names(evidence.ends[other][0] for other in awaited)
    since = "" if taken is None else f" {duration(evidence.at_ms - taken.at_ms)} ago"
    held = f"; {contents(channel.arrived)} held back here" if channel.arrived and evidence.detailed else ""
    return fact(
        f"{target} took barrier {channel.held} of {source}{since} and reads nothing more from it until barrier "
        f"{channel.held} of {others or 'the others'} has arrived{held}",
        *limited([inquiry.ask(Topic.BARRIER, channel.held, other) for other in awaited], "channels"),
        record=taken,
    )


def barrier(inquiry: Inquiry, checkpoint_id: int, number: int) -> Fact:
    """Explain where the barrier of this checkpoint is on this channel, and why it is not further."""
    evidence = inquiry.evidence
    found = barrier_on(evidence, number, checkpoint_id)
    source, target, is_blocked = found.source, found.target, evidence.channel(number).blocked
    what = (
        f"the end of {source}'s stream, its last barrier," if found.is_end else f"barrier {checkpoint_id} of {source}"
    )
    behind = f" behind {contents(found.before)}" if found.before else ", at the front"
    if not evidence.detailed:
        behind = f" ({NOT_IN_TRACE} which buffers are before it)"
    sent_with = None if found.item is None else evidence.find(found.item.sent_as)
    if found.place == ARRIVED:
        because = inquiry.ask(Topic.CHANNEL, number) if is_blocked else inquiry.ask(Topic.TURN, target)
        return fact(f"{what} is in the queue of {target}{behind}", because, record=sent_with)
    if found.place == WIRE:
        waits = "" if sent_with is None else f", for {duration(evidence.at_ms - sent_with.at_ms)}"
        says = f"{what} is on the wire to {target}{waits}{behind}: it has not been delivered"
        return fact(says, frozen_worker(evidence, target), record=sent_with)
    if found.place == QUEUED:
        return fact(
            f"{what} is in the output queue of {source}{behind}", inquiry.ask(Topic.QUEUE, number), record=sent_with
        )
    if found.place == TAKEN:
        return fact(f"{what} has been taken by {target}")
    if found.place == ENDED:
        return fact(f"{source} has ended its stream to {target}, which counts as its barrier")
    return inquiry.ask(Topic.BEGIN, source, checkpoint_id)


def contents(items: Sequence[Item]) -> str:
    """Describe the contents of a queue: `2 buffers (5 records) and 1 watermark`."""
    counted = Counter(item.kind for item in items)
    rows = sum(item.rows for item in items)
    parts = []
    for kind, many in counted.items():
        word = ITEM_WORDS.get(kind, kind)
        records = f" ({rows} record{'s' * (rows != 1)})" if kind == "buffer" else ""
        parts.append(f"{many} {word}{'s' * (many != 1)}{records}")
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "nothing"


def queue(inquiry: Inquiry, number: int) -> Fact:
    """Explain why a task's output for one receiver is not sent, or what the receiver can take."""
    evidence = inquiry.evidence
    channel, (source, target) = evidence.channel(number), evidence.ends[number]
    held = [item for item in (*channel.arrived, *channel.wire) if item.kind == "buffer"]
    if not channel.queued:
        if channel.arrived:
            says = f"{target} has {contents(channel.arrived)} of {source} to take"
            return fact(says, inquiry.ask(Topic.TURN, target))
        if channel.wire:
            return Fact(f"{contents(channel.wire)} on the wire from {source} to {target}: not delivered yet")
        return fact(f"{source} has sent nothing more to {target}", inquiry.ask(Topic.TURN, source))
    if not held:
        says = f"{source} has no credit from {target}, which holds none of its buffers"
        return fact(says, inquiry.ask(Topic.TURN, target)) if evidence.detailed else not_in_trace(says)
    taken = [item for item in channel.arrived if item.kind == "buffer"]
    says = (
        f"{source} has no credit for {contents(channel.queued)} to {target}: {contents(held)} that it has sent are "
        f"not processed, {len(taken)} of them in the queue of {target}"
    )
    if channel.blocked:
        return fact(says, inquiry.ask(Topic.CHANNEL, number))
    return fact(says, inquiry.ask(Topic.TURN, target) if taken else Fact(f"{contents(channel.wire)} on the wire"))


def begin(inquiry: Inquiry, task: str, checkpoint_id: int) -> Fact:
    """Explain why a task has not sent its barrier of this checkpoint."""
    evidence = inquiry.evidence
    known = evidence.moment.tasks.get(task)
    if known is None or known.state != "RUNNING":
        return fact(f"{task} has not sent barrier {checkpoint_id}", inquiry.ask(Topic.STATE, task))
    triggered = trigger_of(evidence, task, checkpoint_id)
    if triggered is not None:
        return _triggered(evidence, task, checkpoint_id, triggered)
    if is_triggered(evidence, task, checkpoint_id):
        says = f"the JobMaster has not triggered checkpoint {checkpoint_id} at {task}"
        return fact(says, inquiry.ask(Topic.CHECKPOINT, checkpoint_id))
    waits = inputs_lacking_barrier(evidence, task, checkpoint_id)
    if known.phases.get(checkpoint_id) == ALIGNING and waits:
        others = task_names(evidence.ends[number][0] for number in waits)
        says = f"{task} sends barrier {checkpoint_id} when that of {others} has arrived"
        return fact(says, *limited([inquiry.ask(Topic.BARRIER, checkpoint_id, each) for each in waits], "channels"))
    gone = evidence.last(NotifyCheckpointAborted, role="event", checkpoint_id=checkpoint_id, machine=task)
    if gone is not None:
        return fact(f"{task} was notified that checkpoint {checkpoint_id} was aborted", record=gone)
    says = f"{task} has taken no barrier {checkpoint_id} and so has sent none"
    return fact(says, *limited([inquiry.ask(Topic.BARRIER, checkpoint_id, each) for each in waits], "channels"))


def _triggered(evidence: Evidence, task: str, checkpoint_id: int, trigger: TraceRecord) -> Fact:
    """Return the fact about a task that the JobMaster has triggered."""
    if not evidence.answers(trigger):
        return undelivered(evidence, trigger, f"the JobMaster's trigger to {task} for checkpoint {checkpoint_id}", task)
    heard = evidence.answers(trigger)[0]
    refused = evidence.last(DeclineCheckpoint, role="command", checkpoint_id=checkpoint_id, machine=task)
    if refused is not None:
        return fact(evidence.caption(refused), fact(evidence.caption(heard), record=heard), record=refused)
    return fact(
        f"checkpoint {checkpoint_id} was triggered at {task}", not_in_trace("why no barrier followed"), record=heard
    )
