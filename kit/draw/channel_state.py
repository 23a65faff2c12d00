"""What a record means for the channels: elements on their way, blocked and awaited channels.

A channel's content is followed through three places: the sender's queue, the wire, the receiver's queue. A detailed
trace tells of each buffer, a cluster's trace of barriers only; both go through the same code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kit.draw.job_state import (
    ALIGNING,
    ChannelMoment,
    Item,
    Moment,
    TaskMoment,
    task_of,
    with_channel,
    with_phase,
    with_task,
)
from kit.protocol.trace import TraceRecord

_ITEM_KINDS = {
    "Buffer": "buffer",
    "CheckpointBarrier": "barrier",
    "CancelCheckpointMarker": "cancel",
    "Watermark": "watermark",
    "WatermarkStatus": "status",
    "EndOfData": "end",
    "EndOfPartition": "last",
}


def _item(channel: ChannelMoment, record: TraceRecord) -> Item:
    element = record.data["element"]
    kind = _ITEM_KINDS.get(element["type"], "status")
    alignment = str((element.get("options") or {}).get("alignment", ""))
    return Item(
        serial=channel.count,
        kind=kind,
        rows=(element.get("batch") or {}).get("rows", 0),
        checkpoint_id=element.get("checkpoint_id"),
        after=channel.last_barrier,
        unaligned=alignment == "UNALIGNED",
        sent_as=record.id,
    )


def _same(item: Item, element: Mapping[str, Any]) -> bool:
    kind = _ITEM_KINDS.get(element["type"], "status")
    return item.kind == kind and item.checkpoint_id == element.get("checkpoint_id")


def queue(moment: Moment, record: TraceRecord) -> Moment:
    """An element was put into the sender's queue, in front of it when it overtakes."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    item = _item(channel, record)
    queued = (item, *channel.queued) if record.data.get("priority") else (*channel.queued, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    return with_channel(
        moment, number, queued=queued, count=channel.count + 1, last_barrier=last, sender=task_of(record)
    )


def send(moment: Moment, record: TraceRecord) -> Moment:
    """An element went on the wire, from the sender's queue when it lay there; a priority one overtakes the wire.

    Who sends a cancel marker waits for that checkpoint's barriers no more.
    """
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    waiting = next((item for item in channel.queued if _same(item, record.data["element"])), None)
    if waiting is None:
        item, count = _item(channel, record), channel.count + 1
    else:
        item, count = replace(waiting, sent_as=record.id), channel.count
    queued = tuple(other for other in channel.queued if other is not waiting)
    wire = (item, *channel.wire) if record.data.get("priority") else (*channel.wire, item)
    last = item.checkpoint_id if item.kind == "barrier" else channel.last_barrier
    sender = task_of(record)
    moment = with_channel(moment, number, queued=queued, wire=wire, count=count, last_barrier=last, sender=sender)
    return release(moment, item.checkpoint_id, sender) if item.kind == "cancel" else moment


def receive(moment: Moment, record: TraceRecord) -> Moment:
    """An element left the wire; a barrier that overtakes goes to the front of the receiver's queue."""
    number = record.data["channel"]
    channel = moment.channels.get(number, ChannelMoment())
    element = record.data["element"]
    item = next((item for item in channel.wire if item.sent_as == record.cause), None) or next(
        (item for item in channel.wire if _same(item, element)), None
    )
    count = channel.count
    if item is None:
        item, count = _item(channel, record), channel.count + 1
    wire = tuple(other for other in channel.wire if other is not item)
    overtakes = item.kind == "barrier" and item.unaligned
    arrived = (item, *channel.arrived) if overtakes else (*channel.arrived, item)
    return with_channel(moment, number, wire=wire, arrived=arrived, count=count, receiver=task_of(record))


def turn(moment: Moment, record: TraceRecord) -> Moment:
    """A task takes one element, its channels in turn. A buffer or a barrier tells itself that it was taken (by the
    credit given, by the handler's note); any other element is taken here.
    """
    name = task_of(record)
    task = moment.tasks.get(name, TaskMoment())
    open_channels = sorted(
        number
        for number, channel in moment.channels.items()
        if channel.receiver == name and channel.arrived and not channel.blocked
    )
    if not open_channels:
        return moment
    number = next((number for number in open_channels if number > task.turn), open_channels[0])
    return moment if moment.channels[number].arrived[0].kind in ("buffer", "barrier") else _take(moment, name, number)


def _take(moment: Moment, task: str, number: int) -> Moment:
    channel = moment.channels[number]
    ended = channel.ended or channel.arrived[0].kind == "last"
    moment = with_channel(moment, number, arrived=channel.arrived[1:], ended=ended)
    return with_task(moment, task, turn=number) if task in moment.tasks else moment


def credit(moment: Moment, record: TraceRecord) -> Moment:
    """A receiver gives a credit when it takes a buffer."""
    number = record.data["channel"]
    channel = moment.channels.get(number)
    if channel is None or not channel.arrived or channel.arrived[0].kind != "buffer":
        return moment
    return _take(moment, task_of(record), number)


def _take_barrier(moment: Moment, number: int, checkpoint_id: int | None) -> Moment:
    channel = moment.channels.get(number, ChannelMoment())
    barrier = next(
        (item for item in channel.arrived if (item.kind, item.checkpoint_id) == ("barrier", checkpoint_id)), None
    )
    arrived = tuple(item for item in channel.arrived if item is not barrier)
    moment = with_channel(moment, number, arrived=arrived, taken=checkpoint_id)
    receiver = channel.receiver
    return with_task(moment, receiver, turn=number) if receiver in moment.tasks else moment


def barrier_aligned(moment: Moment, record: TraceRecord) -> Moment:
    """A barrier was taken: its channel is blocked, and those in `awaited` are what the task now waits for. With the
    last barrier all channels are free again.
    """
    number, checkpoint_id, task = record.data["channel"], record.checkpoint_id, task_of(record)
    moment = with_phase(moment, task, checkpoint_id, ALIGNING)
    moment = _take_barrier(moment, number, checkpoint_id)
    awaited = record.data.get("awaited", ())
    if not awaited:
        return release(moment, checkpoint_id, task)
    moment = with_channel(moment, number, held=checkpoint_id, awaited=None, receiver=task)
    for other in awaited:
        moment = with_channel(moment, other, awaited=checkpoint_id, receiver=task)
    return moment


def barrier_counted(moment: Moment, record: TraceRecord) -> Moment:
    """At least once: a barrier was taken, and nothing is blocked."""
    moment = with_phase(moment, task_of(record), record.checkpoint_id, ALIGNING)
    return _take_barrier(moment, record.data["channel"], record.checkpoint_id)


def barrier_ignored(moment: Moment, record: TraceRecord) -> Moment:
    """A barrier was taken and dropped."""
    return _take_barrier(moment, record.data["channel"], record.checkpoint_id)


def release(moment: Moment, checkpoint_id: int | None, task: str) -> Moment:
    """The task is done with the checkpoint's barriers: its channels are neither blocked nor awaited for it."""
    channels = dict(moment.channels)
    for number, channel in moment.channels.items():
        if channel.receiver == task and checkpoint_id in (channel.held, channel.awaited):
            channels[number] = replace(channel, held=None, awaited=None)
    return replace(moment, channels=channels)
