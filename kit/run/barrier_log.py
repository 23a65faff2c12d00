"""The path of each barrier of a run: when it was queued, sent, received and taken, what it delayed and overtook.

A trace without single buffers still gives the times, but not what a barrier overtook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from kit.core.protocol.commands import ElementQueued, SendElement
from kit.core.protocol.events import ElementReceived
from kit.core.protocol.notes import BarrierAligned, BarrierCounted, BarrierPrioritized, BarrierTaken, EndCounted
from kit.core.trace.trace import TraceRecord, kind_names
from kit.run.element_kinds import element_kind
from kit.run.moments.job_state import ChannelMoment, Item, task_of
from kit.run.reading import Reading
from kit.run.uncollected import uncollected


@dataclass(slots=True)
class BarrierPath:
    """One barrier in one channel.

    Times are in ms, and None for what has not happened. `blocks` is True if taking the barrier blocked its channel.
    `overtaken` are the buffers that it overtook, at its sender and at its receiver.
    """

    queued_ms: int | None = None
    sent_ms: int | None = None
    taken_ms: int | None = None
    blocks: bool = False
    overtaken: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class TaskBarriers:
    """The barriers of one checkpoint at one task: the time of the first, and the time from which none is awaited."""

    first_ms: int | None = None
    released_ms: int | None = None


class BarrierLog:
    """The barriers of a run after the first `n` records of its reading.

    `paths[checkpoint, channel]` and `tasks[checkpoint, task]` hold them.
    """

    def __init__(self, reading: Reading, n: int | None = None) -> None:
        self.paths: dict[tuple[int, int], BarrierPath] = {}
        self.tasks: dict[tuple[int, str], TaskBarriers] = {}
        for record in reading.of_kinds(_HANDLERS, n):
            _HANDLERS[record.kind](self, record)
        ahead = [record for kind in _OVERTAKING for record in reading.of_kind(kind, n) if _may_overtake(record)]
        with uncollected():
            for record, moment in reading.with_moments(sorted(ahead, key=reading.position)):
                number, checkpoint_id = record.data["channel"], record.checkpoint_id or -1
                if number in moment.channels:
                    overtaken = _OVERTAKING[record.kind](moment.channels[number], checkpoint_id)
                    self.path(checkpoint_id, number).overtaken += [item for item in overtaken if item.kind == "buffer"]

    def path(self, checkpoint_id: int, channel: int) -> BarrierPath:
        """Return the path of a barrier; it is empty if nothing is known."""
        return self.paths.setdefault((checkpoint_id, channel), BarrierPath())

    def task(self, checkpoint_id: int, task: str) -> TaskBarriers:
        """Return what the log knows about a checkpoint's barriers at a task."""
        return self.tasks.setdefault((checkpoint_id, task), TaskBarriers())

    def _element(self, record: TraceRecord) -> None:
        """Note an element that was queued or sent."""
        element = record.data["element"]
        if element_kind(element).name != "barrier":
            return
        path = self.path(element["checkpoint_id"], record.data["channel"])
        if path.queued_ms is None:
            path.queued_ms = record.at_ms
        if record.is_a(SendElement):
            path.sent_ms = record.at_ms

    def _taken(self, record: TraceRecord) -> None:
        """Note a barrier that was taken from its channel."""
        note = record.note(BarrierTaken)
        path = self.path(note.checkpoint_id, note.channel)
        path.taken_ms = record.at_ms
        path.blocks = record.is_a(BarrierAligned) and bool(note.awaited)
        self._met(record, note)

    def _ended(self, record: TraceRecord) -> None:
        """Note the end of a channel, which counts as its barrier."""
        self._met(record, record.note(BarrierTaken))

    def _met(self, record: TraceRecord, note: BarrierTaken) -> None:
        """Note that the task has a barrier, or the end that counts as one."""
        task = self.task(note.checkpoint_id, task_of(record))
        if task.first_ms is None:
            task.first_ms = record.at_ms
        if note.awaited is not None and not note.awaited:
            task.released_ms = record.at_ms


_HANDLERS: dict[str, Callable[[BarrierLog, TraceRecord], None]] = {
    ElementQueued.__name__: BarrierLog._element,
    SendElement.__name__: BarrierLog._element,
    BarrierAligned.__name__: BarrierLog._taken,
    BarrierCounted.__name__: BarrierLog._taken,
    EndCounted.__name__: BarrierLog._ended,
}


def _before(items: Sequence[Item], checkpoint_id: int) -> Iterator[Item]:
    """Return the items ahead of a barrier; all items if the barrier is not among them."""
    return takewhile(lambda item: (item.kind, item.checkpoint_id) != ("barrier", checkpoint_id), items)


_OVERTAKING: dict[str, Callable[[ChannelMoment, int], Iterable[Item]]] = {
    SendElement.__name__: lambda channel, checkpoint_id: _before(channel.queued, checkpoint_id),
    ElementReceived.__name__: lambda channel, checkpoint_id: channel.arrived,
    BarrierPrioritized.__name__: lambda channel, checkpoint_id: _before(channel.arrived, checkpoint_id),
}
"""What a barrier that overtakes (`_may_overtake`) passes with a record, from the content of its channel before that."""


def _may_overtake(record: TraceRecord) -> bool:
    """Return True if the barrier of this record overtakes in a channel, or has done so at its sender."""
    if record.is_a(BarrierPrioritized):
        return True
    element = record.data["element"]
    if element_kind(element).name != "barrier":
        return False
    if record.is_a(SendElement):
        return bool(record.data.get("priority"))
    return bool(element.get("options", {}).get("alignment") == "UNALIGNED")


def awaits(record: TraceRecord) -> bool:
    """Return True if a task took a barrier with this record and awaits others."""
    return record.kind in _TAKEN and bool(record.note(BarrierTaken).awaited)


_TAKEN = kind_names(BarrierAligned, BarrierCounted, EndCounted)
