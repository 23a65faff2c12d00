"""The changes of channels that records report: elements in transit, blocked channels and awaited channels.

An element passes through three places: the sender's queue, the wire, and the receiver's queue. A detailed trace reports
each buffer, a cluster's trace reports barriers only; the same code handles both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kit.core.protocol.notes import BarrierNote, BarrierTaken
from kit.core.trace.trace import TraceRecord
from kit.run.element_kinds import element_kind
from kit.run.moments.job_state import (
    ALIGNING,
    BEGUN,
    ChannelMoment,
    Item,
    Moment,
    changed,
    gated,
    task_of,
    with_channel,
    with_phase,
)


def _item(channel: ChannelMoment, record: TraceRecord) -> Item:
    element = record.data["element"]
    alignment = str((element.get("options") or {}).get("alignment", ""))
    return Item(
        serial=channel.count,
        kind=element_kind(element).name,
        rows=(element.get("batch") or {}).get("rows", 0),
        checkpoint_id=element.get("checkpoint_id"),
        after=channel.last_barrier,
        unaligned=alignment == "UNALIGNED",
        sent_as=record.id,
    )


def _same(item: Item, element: Mapping[str, Any]) -> bool:
    return item.kind == element_kind(element).name and item.checkpoint_id == element.get("checkpoint_id")


def queue(moment: Moment, record: TraceRecord) -> Moment:
    """Put an element into the sender's queue, where it waits to be sent."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    item = _item(channel, record)
    queued = (*channel.queued, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    return with_channel(
        moment, number, queued=queued, count=channel.count + 1, last_barrier=last, sender=task_of(record)
    )


def send(moment: Moment, record: TraceRecord) -> Moment:
    """Put an element on the wire, and remove it from the sender's queue. A priority element overtakes that queue."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    queued = channel.queued
    waiting = next((item for item in queued if _same(item, record.data["element"])), None) if queued else None
    if waiting is None:
        item, count = _item(channel, record), channel.count + 1
    else:
        item, count = changed(waiting, sent_as=record.id), channel.count
        queued = tuple(other for other in queued if other is not waiting)
    if record.data.get("priority"):  # an overtaken buffer belongs to the checkpoint, but is behind the barrier now
        item = changed(item, unaligned=True)
    wire = (*channel.wire, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    sender = task_of(record)
    return with_channel(moment, number, queued=queued, wire=wire, count=count, last_barrier=last, sender=sender)


def receive(moment: Moment, record: TraceRecord) -> Moment:
    """Move an element from the wire to the receiver's queue; a barrier that overtakes goes to its front."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    wire, count = channel.wire, channel.count
    item: Item | None
    if wire and wire[0].sent_as == record.cause:
        item, wire = wire[0], wire[1:]
    else:
        element = record.data["element"]
        item = next((item for item in wire if item.sent_as == record.cause), None) or next(
            (item for item in wire if _same(item, element)), None
        )
        if item is None:
            item, count = _item(channel, record), channel.count + 1
        wire = tuple(other for other in wire if other is not item)
    overtakes = item.kind == "barrier" and item.unaligned
    arrived = (item, *channel.arrived) if overtakes else (*channel.arrived, item)
    return with_channel(moment, number, wire=wire, arrived=arrived, count=count, receiver=task_of(record))


def taken(moment: Moment, record: TraceRecord) -> Moment:
    """Take an element that is neither a buffer nor a barrier, which credits and barrier records report."""
    number = record.data["channel"]
    channel = moment.channels.get(number)
    return _take(moment, number) if channel is not None and channel.arrived else moment


def _take(moment: Moment, number: int) -> Moment:
    channel = moment.channels[number]
    ended = channel.ended or channel.arrived[0].kind == "last"
    return with_channel(moment, number, arrived=channel.arrived[1:], ended=ended)


def credit(moment: Moment, record: TraceRecord) -> Moment:
    """Take a buffer: the receiver returns its credit."""
    number = record.data["channel"]
    channel = moment.channels.get(number)
    if channel is None or not channel.arrived or channel.arrived[0].kind != "buffer":
        return moment
    return _take(moment, number)


def _take_barrier(moment: Moment, number: int, checkpoint_id: int | None, **changes: Any) -> Moment:
    channel = moment.channels.get(number, ChannelMoment())
    barrier = next(
        (item for item in channel.arrived if (item.kind, item.checkpoint_id) == ("barrier", checkpoint_id)), None
    )
    arrived = tuple(item for item in channel.arrived if item is not barrier)
    return with_channel(moment, number, arrived=arrived, taken=checkpoint_id, **changes)


def barrier_aligned(moment: Moment, record: TraceRecord) -> Moment:
    """Take a barrier: its channel is blocked, and the task waits for the barriers of the channels in `awaited`.

    The last barrier unblocks all channels. A barrier that was already awaited only shortens the list of awaited
    channels.
    """
    note, task = record.note(BarrierTaken), task_of(record)
    number, checkpoint_id = note.channel, note.checkpoint_id
    moment = _collecting(moment, task, checkpoint_id)
    if not note.awaited:
        return release(_take_barrier(moment, number, checkpoint_id), checkpoint_id, task)
    known = moment.channels.get(number)
    waited = known is not None and known.awaited == checkpoint_id and known.receiver == task
    moment = _take_barrier(moment, number, checkpoint_id, held=checkpoint_id, awaited=None, receiver=task)
    return moment if waited else _awaiting(moment, note.awaited, checkpoint_id, task)


def _awaiting(moment: Moment, numbers: Iterable[int], checkpoint_id: int | None, task: str) -> Moment:
    """Mark the channels from which the task awaits the checkpoint's barrier; most are marked already."""
    for number in numbers:
        known = moment.channels.get(number)
        if known is None or known.awaited != checkpoint_id or known.receiver != task:
            moment = with_channel(moment, number, awaited=checkpoint_id, receiver=task)
    return moment


def barrier_counted(moment: Moment, record: TraceRecord) -> Moment:
    """Take a barrier that blocks nothing, in an at-least-once or an unaligned checkpoint.

    In an unaligned checkpoint `awaited` are the channels whose data still becomes part of the checkpoint.
    """
    note, task = record.note(BarrierTaken), task_of(record)
    moment = _collecting(moment, task, note.checkpoint_id)
    moment = _take_barrier(moment, note.channel, note.checkpoint_id)
    return moment if note.awaited is None else _still_awaiting(moment, note, task)


def _collecting(moment: Moment, task: str, checkpoint_id: int | None) -> Moment:
    """Enter the alignment phase, unless the snapshot of an unaligned checkpoint is already in progress."""
    known = moment.tasks.get(task)
    if known is None or known.phases.get(checkpoint_id or -1) in BEGUN:
        return moment
    return with_phase(moment, task, checkpoint_id, ALIGNING)


def end_counted(moment: Moment, record: TraceRecord) -> Moment:
    """Count the end of a channel as its barrier."""
    return _still_awaiting(moment, record.note(BarrierTaken), task_of(record))


def _still_awaiting(moment: Moment, note: BarrierTaken, task: str) -> Moment:
    """Await the barriers of the note's awaited channels only, and no longer the one of its own channel."""
    if not note.awaited:
        return release(moment, note.checkpoint_id, task)
    moment = with_channel(moment, note.channel, awaited=None)
    return _awaiting(moment, note.awaited, note.checkpoint_id, task)


def barrier_prioritized(moment: Moment, record: TraceRecord) -> Moment:
    """Move an announced barrier to the front of its channel."""
    note = record.note(BarrierNote)
    number = note.channel
    channel = moment.channels.get(number, ChannelMoment())
    barrier = next((item for item in channel.arrived if item.checkpoint_id == note.checkpoint_id), None)
    if barrier is None:
        return moment
    others = tuple(item for item in channel.arrived if item is not barrier)
    return with_channel(moment, number, arrived=(changed(barrier, unaligned=True), *others))


def barrier_ignored(moment: Moment, record: TraceRecord) -> Moment:
    """Take a barrier and drop it."""
    note = record.note(BarrierNote)
    return _take_barrier(moment, note.channel, note.checkpoint_id)


def release(moment: Moment, checkpoint_id: int | None, task: str) -> Moment:
    """Finish with the checkpoint's barriers at this task: no channel stays blocked or awaited for it."""
    for number in gated(moment, task):
        channel = moment.channels[number]
        if channel.receiver == task and checkpoint_id in (channel.held, channel.awaited):
            moment = with_channel(moment, number, held=None, awaited=None)
    return moment
