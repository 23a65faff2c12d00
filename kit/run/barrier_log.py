"""The path of each barrier of a run: when it was made, sent, received and taken, what it delayed and what it overtook.

One pass over a trace builds the log. A trace without single buffers still gives the times, but not what a barrier
overtook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kit.core.trace.record_kinds import RecordKind
from kit.core.trace.trace import TraceRecord
from kit.run.element_kinds import element_kind
from kit.run.moments.job_state import Item, Moment, Running, task_of
from kit.run.moments.moment import advance
from kit.run.reading import Reading
from kit.run.uncollected import uncollected


@dataclass(slots=True)
class BarrierPath:
    """One barrier in one channel.

    Times are in ms, and None for what has not happened. `blocks` is True if taking the barrier blocked its channel.
    `overtaken` are the buffers that it overtook, at its sender and at its receiver.
    """

    made_ms: int | None = None
    sent_ms: int | None = None
    arrived_ms: int | None = None
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
        self._moment: Moment = Running.of(Moment())
        """The contents of the channels before a record, which matter only where a barrier overtakes."""
        records = reading.of_kinds(_HANDLERS, n)
        if not any(map(_may_overtake, records)):
            for record in records:
                _HANDLERS[record.kind](self, record)
            return
        with uncollected():
            for record in reading.records[:n]:
                handler = _HANDLERS.get(record.kind)
                if handler is not None:
                    handler(self, record)
                advance(self._moment, record)

    def path(self, checkpoint_id: int, channel: int) -> BarrierPath:
        """Return the path of a barrier; it is empty if nothing is known."""
        return self.paths.setdefault((checkpoint_id, channel), BarrierPath())

    def task(self, checkpoint_id: int, task: str) -> TaskBarriers:
        """Return what the log knows about a checkpoint's barriers at a task."""
        return self.tasks.setdefault((checkpoint_id, task), TaskBarriers())

    def _element(self, record: TraceRecord) -> None:
        """Note an element that was queued, sent or received."""
        element = record.data["element"]
        if element_kind(element).name != "barrier":
            return
        number, checkpoint_id = record.data["channel"], element["checkpoint_id"]
        path = self.path(checkpoint_id, number)
        channel = self._moment.channels.get(number)
        if record.kind == RecordKind.ELEMENT_RECEIVED:
            path.arrived_ms = record.at_ms
            wire = [] if channel is None else channel.wire
            if any(item.checkpoint_id == checkpoint_id and item.unaligned for item in wire) and channel is not None:
                path.overtaken += _buffers(channel.arrived)
            return
        if path.made_ms is None:
            path.made_ms = record.at_ms
        if record.kind == RecordKind.SEND_ELEMENT:
            path.sent_ms = record.at_ms
            if record.data.get("priority") and channel is not None:
                path.overtaken += _buffers(_before(channel.queued, checkpoint_id))

    def _taken(self, record: TraceRecord) -> None:
        """Note a barrier that was taken from its channel."""
        checkpoint_id = record.checkpoint_id or -1
        path, task = self.path(checkpoint_id, record.data["channel"]), self.task(checkpoint_id, task_of(record))
        path.taken_ms = record.at_ms
        path.blocks = record.kind == RecordKind.BARRIER_ALIGNED and bool(record.data.get("awaited"))
        self._met(task, record)

    def _ended(self, record: TraceRecord) -> None:
        self._met(self.task(record.checkpoint_id or -1, task_of(record)), record)

    def _met(self, task: TaskBarriers, record: TraceRecord) -> None:
        if task.first_ms is None:
            task.first_ms = record.at_ms
        if not record.data.get("awaited", True):
            task.released_ms = record.at_ms

    def _prioritized(self, record: TraceRecord) -> None:
        number, checkpoint_id = record.data["channel"], record.checkpoint_id or -1
        channel = self._moment.channels.get(number)
        if channel is not None:
            self.path(checkpoint_id, number).overtaken += _buffers(_before(channel.arrived, checkpoint_id))


_HANDLERS: dict[str, Callable[[BarrierLog, TraceRecord], None]] = {
    RecordKind.ELEMENT_QUEUED: BarrierLog._element,
    RecordKind.SEND_ELEMENT: BarrierLog._element,
    RecordKind.ELEMENT_RECEIVED: BarrierLog._element,
    RecordKind.BARRIER_ALIGNED: BarrierLog._taken,
    RecordKind.BARRIER_COUNTED: BarrierLog._taken,
    RecordKind.END_COUNTED: BarrierLog._ended,
    RecordKind.BARRIER_PRIORITIZED: BarrierLog._prioritized,
}


def _may_overtake(record: TraceRecord) -> bool:
    """Return True if the barrier of this record overtakes in a channel, or has done so at its sender."""
    if record.kind not in _HANDLERS or record.checkpoint_id is None:
        return False
    options = (record.data.get("element") or {}).get("options") or {}
    ahead = record.data.get("priority") or options.get("alignment") == "UNALIGNED"
    return bool(ahead) or record.kind == RecordKind.BARRIER_PRIORITIZED


def _before(items: Iterable[Item], checkpoint_id: int) -> list[Item]:
    """Return the items ahead of a barrier; all items if the barrier is not among them."""
    found: list[Item] = []
    for item in items:
        if (item.kind, item.checkpoint_id) == ("barrier", checkpoint_id):
            break
        found.append(item)
    return found


def _buffers(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if item.kind == "buffer"]
