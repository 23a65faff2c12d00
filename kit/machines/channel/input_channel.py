"""One input channel of a task: the elements that have arrived and have not been taken.

Elements are in the order in which they will be taken, usually the order of arrival. An unaligned barrier goes to the
front, past everything but other priority elements. An aligned barrier that may time out keeps its place, and an
`EventAnnouncement` of it goes to the front: on a timeout, `convert_to_priority_event` moves it forward.

Behind an aligned barrier, or the end of recovered data, the channel is closed until `resume`. Flink stops the sender
there, so nothing behind such a barrier reaches the receiver before the checkpoint is over. Here it may already be on
its way. The channel then keeps it apart (`held`), as if it were still at the sender: no priority element there
overtakes, and no barrier there is known. Elements *before* the barrier can still be taken.

Elements are numbered as they enter the queue. When an unaligned checkpoint begins, data with numbers below its
barrier's is in flight: the barrier has overtaken it, or has not come yet. So are the fragments of an unfinished record
that the task has taken (`assembler`); they come first.

Follows Flink's `RemoteInputChannel` (`onBuffer`, `checkpointStarted`, `getInflightBuffersUnsafe`).
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import NamedTuple

from kit.core.protocol.elements import (
    Buffer,
    CheckpointBarrier,
    CreditedElement,
    DataElement,
    Element,
    EndOfChannelState,
    EndOfPartition,
)
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.protocol.words import ProtocolError
from kit.core.state.handles import InputChannelInfo
from kit.machines.channel.channel_state.channel_state_capture import HeldCapture
from kit.machines.channel.channel_state.channel_state_persister import (
    ChannelStatePersister,
    InputStateWriter,
    NoInputStateWriter,
)
from kit.machines.channel.event_announcement import EventAnnouncement
from kit.machines.channel.prioritized_deque import PrioritizedDeque
from kit.machines.channel.ready_numbers import ReadyNumbers
from kit.machines.channel.record_assembler import RecordAssembler

NONE = -1


class Turns:
    """The positions of a task's channels that have an element, have a priority element next, or have ended."""

    __slots__ = ("ended", "prioritized", "ready")

    def __init__(self) -> None:
        self.ready = ReadyNumbers()
        self.prioritized: set[int] = set()
        self.ended: set[int] = set()


class SequenceBuffer(NamedTuple):
    """An element in the queue, its number, and the id of the event that brought it."""

    element: Element | EventAnnouncement
    sequence_number: int
    cause: str


class InputChannel:
    """One input channel of a task.

    `number` is its number in the execution graph, `info` its place in the task, `source_task` the sender. `blocked`
    means that its aligned barrier was taken and that the task waits for the others. `turns` is shared with the other
    channels of the task, and `position` is this one's position in it. A user-defined `capture` decides what is in
    flight, for all channels of the task.
    """

    __slots__ = (
        "_capture",
        "_closed_by",
        "_held",
        "_last_barrier_id",
        "_last_barrier_number",
        "_next_number",
        "_persister",
        "_position",
        "_queue",
        "_turns",
        "assembler",
        "blocked",
        "credits_granted",
        "info",
        "number",
        "source_task",
    )

    def __init__(
        self,
        number: int,
        info: InputChannelInfo,
        source_task: str,
        writer: InputStateWriter | None = None,
        turns: Turns | None = None,
        position: int = 0,
        capture: HeldCapture | None = None,
    ) -> None:
        self.number = number
        self.info = info
        self.source_task = source_task
        self.blocked = False
        self.credits_granted = 0
        self.assembler = RecordAssembler()
        self._queue: PrioritizedDeque[SequenceBuffer] = PrioritizedDeque()
        self._turns = turns or Turns()
        self._position = position
        self._held: deque[tuple[Element, str]] = deque()
        self._closed_by: CheckpointBarrier | EndOfChannelState | None = None
        self._capture = capture
        if writer is None or capture is not None:
            writer = NoInputStateWriter()
        self._persister = ChannelStatePersister(writer, info)
        self._next_number = 0
        self._last_barrier_id = NONE
        self._last_barrier_number = NONE

    def grant(self, credits: int) -> None:
        """Let the sender send this number of buffers more."""
        self.credits_granted += credits

    # --- what arrives ---------------------------------------------------------------------------------------------

    def receive(self, element: Element, cause: str = "") -> None:
        """Add an element that the network delivered; `cause` is the id of the event that brought it."""
        if self.ended:
            raise ProtocolError(f"channel {self.number} from {self.source_task} delivered {element!r} after its end")
        if isinstance(element, CreditedElement):
            self.credits_granted -= 1
            if self.credits_granted < 0:
                raise ProtocolError(f"{self.source_task} sent a buffer on channel {self.number} without a credit")
        if self._closed_by is None:
            self._enqueue(element, cause)
        else:
            self._held.append((element, cause))

    def _enqueue(self, element: Element, cause: str) -> None:
        """Insert the element at its place (`onBuffer`)."""
        item = SequenceBuffer(element, self._next_number, cause)
        self._next_number += 1
        if not self._queue:
            self._turns.ready.add(self._position)
        if isinstance(element, CheckpointBarrier):
            self._enqueue_barrier(element, item)
        else:
            self._queue.add(item)
            self._persister.maybe_persist(element)
            if isinstance(element, EndOfChannelState):
                self._closed_by = element
        if self._capture is not None:
            self._capture.element_received(self.info, element)

    def _enqueue_barrier(self, barrier: CheckpointBarrier, item: SequenceBuffer) -> None:
        if barrier.options.is_unaligned:
            self._add_priority(item)
        else:
            self._queue.add(item)
            if barrier.options.is_timeoutable:
                announcement = EventAnnouncement(barrier, item.sequence_number)
                self._add_priority(SequenceBuffer(announcement, item.sequence_number, item.cause))
        checkpoint_id = self._persister.check_for_barrier(barrier)
        if checkpoint_id is not None and checkpoint_id > self._last_barrier_id:
            self._last_barrier_id = checkpoint_id
            self._last_barrier_number = item.sequence_number
        if barrier.options.needs_alignment:
            self._closed_by = barrier

    def _add_priority(self, item: SequenceBuffer) -> None:
        self._queue.add_priority(item)
        self._turns.prioritized.add(self._position)

    # --- what is taken --------------------------------------------------------------------------------------------

    @property
    def available(self) -> bool:
        """True if an element may be taken."""
        return bool(self._queue)

    @property
    def has_priority(self) -> bool:
        """True if the next element to be taken has priority."""
        return self._position in self._turns.prioritized

    @property
    def ended(self) -> bool:
        """True if its EndOfPartition has been taken: nothing follows."""
        return self._position in self._turns.ended

    def end(self) -> None:
        """Mark the channel as ended."""
        self._turns.ended.add(self._position)

    def take_part(self, max_rows: int) -> tuple[Buffer, str] | None:
        """Take `max_rows` rows of the first element, together with the cause of its arrival; None if it is no buffer
        with more rows.

        The rest keeps the buffer's place, and so its position before or behind a barrier, and the sender's credit.
        """
        item = next(iter(self._queue))
        if not isinstance(item.element, Buffer) or item.element.rows <= max_rows:
            return None
        taken, rest = item.element.split(max_rows)
        self._queue.poll()
        self._queue.put_back(item._replace(element=rest))
        return taken, item.cause

    def take(self) -> tuple[Element | EventAnnouncement, str]:
        """Take the first element, together with the cause of its arrival."""
        item = self._queue.poll()
        turns = self._turns
        if turns.prioritized and self._queue.priority_count == 0:
            turns.prioritized.discard(self._position)
        if not self._queue:
            turns.ready.discard(self._position)
        if isinstance(item.element, EndOfPartition):
            self.end()
        return item.element, item.cause

    def block(self) -> None:
        """Block the channel: its aligned barrier was taken, and the task waits for those of the others."""
        self.blocked = True

    def resume(self) -> None:
        """Unblock the channel: admit the held elements, up to the next aligned barrier."""
        self.blocked = False
        self._closed_by = None
        while self._held and self._closed_by is None:
            self._enqueue(*self._held.popleft())

    # --- unaligned checkpoints ------------------------------------------------------------------------------------

    def checkpoint_started(self, barrier: CheckpointBarrier) -> None:
        """Start an unaligned checkpoint: write what is in flight here.

        Raises CheckpointException (CHECKPOINT_SUBSUMED) if the barrier of a newer one has arrived.
        """
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id < self._last_barrier_id:
            raise CheckpointException(
                CheckpointFailureReason.CHECKPOINT_SUBSUMED,
                f"{self.source_task} has sent the barrier of checkpoint {self._last_barrier_id} already",
            )
        if checkpoint_id > self._last_barrier_id:
            self._forget_barrier()
        self._persister.start_persisting(checkpoint_id, self._in_flight())
        if self._capture is not None:
            self._capture.checkpoint_started(checkpoint_id, self.info, self._as_sent(barrier))

    def checkpoint_stopped(self, checkpoint_id: int) -> None:
        """Stop writing: the unaligned checkpoint has all its barriers, or was aborted."""
        self._persister.stop_persisting(checkpoint_id)
        if self._last_barrier_id == checkpoint_id:
            self._forget_barrier()
        if self._capture is not None:
            self._capture.checkpoint_stopped(checkpoint_id, self.info)

    def convert_to_priority_event(self, sequence_number: int) -> None:
        """Move the announced barrier with this number to the front, past the elements before it."""
        if not self._persister.has_barrier_received or self._last_barrier_number != sequence_number:
            raise ProtocolError(f"channel {self.number} holds no announced barrier with the number {sequence_number}")
        priority_count = self._queue.priority_count
        item = self._queue.remove_first(lambda item: item.sequence_number == sequence_number)
        if self._queue.priority_count != priority_count:
            raise ProtocolError(f"{item.element!r} of channel {self.number} has priority already")
        self._add_priority(item)

    def _in_flight(self) -> list[DataElement]:
        """Return the data that the barrier has overtaken, or all data if the barrier has not come yet.

        An aligned barrier follows complete records: the assembler of a channel that has delivered one is empty.
        """
        found: list[DataElement] = [*self.assembler.fragments]
        for item in self._queue.others:
            if isinstance(item.element, DataElement):
                if self._last_barrier_number != NONE and item.sequence_number >= self._last_barrier_number:
                    break
                found.append(item.element)
        return found

    def _as_sent(self, barrier: CheckpointBarrier) -> list[Element]:
        """Return all elements that have arrived and were not processed, in sending order, including the barrier."""
        number = self._last_barrier_number
        sent = [item for item in self._queue if item.sequence_number != number]
        sent.sort(key=attrgetter("sequence_number"))
        before = [item.element for item in sent if number == NONE or item.sequence_number < number]
        behind = [item.element for item in sent[len(before) :]]
        found = [*self.assembler.fragments, *before, *([] if number == NONE else [barrier]), *behind]
        return [element for element in found if not isinstance(element, EventAnnouncement)]

    def _forget_barrier(self) -> None:
        self._last_barrier_id = self._last_barrier_number = NONE

    # --- its contents -----------------------------------------------------------------------------------------------

    @property
    def queue(self) -> list[Element]:
        """The elements that wait here, in the order in which they will be taken; held ones come last."""
        waiting = [item.element for item in self._queue if not isinstance(item.element, EventAnnouncement)]
        return [*waiting, *(element for element, _ in self._held)]

    @property
    def held(self) -> int:
        """The number of elements that wait behind an aligned barrier."""
        return len(self._held)

    @property
    def queued_buffers(self) -> int:
        """The number of buffers that wait here."""
        if not (self._queue or self._held):
            return 0
        return sum(isinstance(element, CreditedElement) for element in self.queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes of the buffers that wait here."""
        return sum(element.size_bytes for element in self.queue if isinstance(element, CreditedElement))

    def validate(self) -> None:
        """Check that an aligned barrier closes its channel while it is queued or the task waits for the others."""
        assert (self._position in self._turns.ready) == self.available, f"{self!r} is ready or is not"
        if self._closed_by is None and not self._queue:
            holds = self.has_priority or self._held
            assert not holds, f"{self!r} holds elements back for no reason"
            return
        waiting = any(item.element is self._closed_by for item in self._queue)
        barrier = isinstance(self._closed_by, CheckpointBarrier)
        assert self.has_priority == (self._queue.priority_count > 0), (
            f"{self!r} disagrees with its queue about its priority"
        )
        assert not barrier or self.blocked or waiting, f"{self!r} is closed forever"
        assert self._closed_by is not None or not self._held, f"{self!r} holds elements back for no reason"

    def __repr__(self) -> str:
        state = "ended" if self.ended else "blocked" if self.blocked else "open"
        return f"InputChannel({self.source_task}, {len(self.queue)} queued, {state})"
