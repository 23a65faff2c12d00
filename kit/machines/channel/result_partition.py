"""The outputs of a task: one queue per subpartition, one partition per job edge.

A buffer, or a fragment of a record, leaves only with a credit of the receiver. Events need none, but never overtake the
data before them, except for unaligned barriers. Such a barrier leaves at once, and the data that it overtakes goes into
the checkpoint. An aligned barrier that may time out waits at its place. The data that it would overtake is undecided
until it leaves (then none), it times out (`aligned_barrier_timeout`) or the checkpoint is aborted.

While any subpartition holds `MAX_QUEUED_BUFFERS` or more, the task is back-pressured and takes no further input.

Follows Flink's `PipelinedSubpartition`, `ResultPartition` and `RecordWriter`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from kit.core.protocol.elements import CheckpointBarrier, CreditedElement, DataElement, Element, EndOfChannelState
from kit.core.state.handles import ResultSubpartitionInfo
from kit.machines.channel.channel_state.channel_state_capture import HeldCapture
from kit.machines.channel.channel_state.channel_state_writer import SEQUENCE_NUMBER_UNKNOWN

MAX_QUEUED_BUFFERS = 2
"""Buffers that may wait in one subpartition before its task stops taking input."""

Send = Callable[[int, Element], None]


class OutputStateWriter(Protocol):
    """A writer of in-flight output data: the output half of the channel state writer."""

    def add_output_data(
        self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int, buffers: Iterable[DataElement]
    ) -> None:
        """Write these elements, in order, as state of the checkpoint."""

    def add_output_data_future(self, checkpoint_id: int, info: ResultSubpartitionInfo, start_seq: int) -> None:
        """Write the elements that are not known yet."""

    def output_data_decided(
        self,
        checkpoint_id: int,
        info: ResultSubpartitionInfo,
        buffers: Iterable[DataElement],
        error: Exception | None = None,
    ) -> None:
        """Report these elements, or the error that says why there are none."""


class ResultSubpartition:
    """One output channel: the elements that were produced and not yet sent.

    `number` is the channel's number in the execution graph, `info` its place in the task, `target_task` the receiver.
    """

    __slots__ = (
        "_capture",
        "_full",
        "_in_flight",
        "_send",
        "_waits",
        "_writer",
        "credits",
        "info",
        "max_rows",
        "number",
        "queue",
        "target_task",
    )

    def __init__(
        self,
        number: int,
        info: ResultSubpartitionInfo,
        target_task: str,
        send: Send,
        waits: Send,
        writer: OutputStateWriter,
        full: set[int],
        capture: HeldCapture | None = None,
    ) -> None:
        """Initialize an empty queue.

        `send` sends an element, and `waits` is called for one that cannot leave yet. While this channel holds its task
        back, its number is in `full`. A user-defined `capture` decides which data a barrier overtakes.
        """
        self.number = number
        self.info = info
        self.target_task = target_task
        self.queue: deque[Element] = deque()
        self.credits = 0
        self.max_rows: int | None = None
        """The rows that the receiver wants in a buffer at most; None: there is no limit."""
        self._send = send
        self._waits = waits
        self._writer = writer
        self._full = full
        self._capture = capture
        self._in_flight: int | None = None
        """The checkpoint whose barrier waits here and may time out; what it would overtake is undecided."""

    # --- sending --------------------------------------------------------------------------------------------------

    def add(self, element: Element) -> None:
        """Send the element, or queue it behind those that wait; an unaligned barrier overtakes them."""
        if isinstance(element, CheckpointBarrier):
            if element.options.is_unaligned:
                self._overtake(element, self.queue)
                return
            if element.options.is_timeoutable:
                self._may_time_out(element.checkpoint_id)
        self.queue.append(element)
        self._flush()
        if self.queue:
            if not self.writable:
                self._full.add(self.number)
            self._waits(self.number, element)

    def add_credits(self, credits: int) -> None:
        """Add credits of the receiver, and send what may leave now."""
        self.credits += credits
        self._flush()
        self._has_room()

    def _has_room(self) -> None:
        if self.writable:
            self._full.discard(self.number)

    def _flush(self) -> None:
        queue = self.queue
        while queue:
            element = queue[0]
            if isinstance(element, CreditedElement):
                if self.credits == 0:
                    return
                self.credits -= 1
            elif self._in_flight is not None and _is_barrier_of(element, self._in_flight):
                self._settle(())
            self._send(self.number, queue.popleft())

    def all_taken(self, credits_granted: int) -> bool:
        """Return True if the receiver has taken every buffer out of its queue.

        It returns a credit for each buffer, so all of the `credits_granted` at the start are here again then.
        """
        return not self.queue and self.credits == credits_granted

    @property
    def writable(self) -> bool:
        """True if the task may produce more for this receiver."""
        return len(self.queue) < MAX_QUEUED_BUFFERS

    @property
    def queued_bytes(self) -> int:
        """Bytes of the buffers that wait here."""
        return sum(element.size_bytes for element in self.queue if isinstance(element, CreditedElement))

    # --- in-flight data -------------------------------------------------------------------------------------------

    def _overtake(self, barrier: CheckpointBarrier, overtaken: Iterable[Element]) -> None:
        """Send the barrier ahead of the queue, and add the data that it overtakes to the checkpoint."""
        data = self._data(barrier.checkpoint_id, overtaken)
        if data:
            self._writer.add_output_data(barrier.checkpoint_id, self.info, SEQUENCE_NUMBER_UNKNOWN, data)
        self._send(self.number, barrier)

    def _data(self, checkpoint_id: int, overtaken: Iterable[Element]) -> list[DataElement]:
        """Return the overtaken data that belongs to the checkpoint."""
        if self._capture is not None:
            return self._capture.overtaken(checkpoint_id, self.info, overtaken)
        return [element for element in overtaken if isinstance(element, DataElement)]

    def _may_time_out(self, checkpoint_id: int) -> None:
        if self._in_flight is not None:
            overlap = RuntimeError(
                f"the barrier of checkpoint {checkpoint_id} came to {self!r} while that of checkpoint "
                f"{self._in_flight} waits: checkpoints with an alignment timeout cannot overlap"
            )
            self._settle((), overlap)
        self._in_flight = checkpoint_id
        self._writer.add_output_data_future(checkpoint_id, self.info, SEQUENCE_NUMBER_UNKNOWN)

    def aligned_barrier_timeout(self, checkpoint_id: int) -> None:
        """Turn the barrier of this checkpoint unaligned and send it now, if it still waits here."""
        if self._in_flight != checkpoint_id:
            return
        position = next(at for at, element in enumerate(self.queue) if _is_barrier_of(element, checkpoint_id))
        before = [element for at, element in enumerate(self.queue) if at < position]
        barrier = self.queue[position]
        assert isinstance(barrier, CheckpointBarrier)
        del self.queue[position]
        self._settle(self._data(checkpoint_id, before))
        self._send(self.number, replace(barrier, options=barrier.options.to_unaligned()))
        self._flush()
        self._has_room()

    def abort_checkpoint(self, checkpoint_id: int, cause: Exception) -> None:
        """Abort the checkpoint: nothing will be overtaken for it."""
        if self._in_flight == checkpoint_id:
            self._settle((), cause)

    def release(self) -> None:
        """Release the output when the task leaves."""
        if self._in_flight is not None:
            self._settle((), RuntimeError(f"{self!r} was released"))

    def _settle(self, data: Iterable[DataElement], error: Exception | None = None) -> None:
        assert self._in_flight is not None
        checkpoint_id, self._in_flight = self._in_flight, None
        self._writer.output_data_decided(checkpoint_id, self.info, data, error)

    def __repr__(self) -> str:
        return f"ResultSubpartition({self.target_task}, {len(self.queue)} queued, {self.credits} credits)"


class ResultPartition:
    """The subpartitions of one job edge; `targets` are pairs (channel number, receiver's task) in subpartition order.

    `supports_unaligned` is False if in-flight data could not be redistributed; barriers never overtake there. `full`
    holds the channels that hold the task back, from all its partitions.
    """

    def __init__(
        self,
        index: int,
        targets: Sequence[tuple[int, str]],
        send: Send,
        waits: Send,
        writer: OutputStateWriter,
        *,
        supports_unaligned: bool = True,
        full: set[int] | None = None,
        capture: HeldCapture | None = None,
    ) -> None:
        self.index = index
        self.supports_unaligned = supports_unaligned
        full = set() if full is None else full
        self.subpartitions = tuple(
            ResultSubpartition(
                number, ResultSubpartitionInfo(index, position), task, send, waits, writer, full, capture
            )
            for position, (number, task) in enumerate(targets)
        )

    def __iter__(self) -> Iterator[ResultSubpartition]:
        return iter(self.subpartitions)

    def __repr__(self) -> str:
        return f"ResultPartition({self.index}, {len(self.subpartitions)} subpartitions)"

    def add_recovered(self, subpartition: int, element: Element) -> None:
        """Add an element that had not been sent when the checkpoint was taken, before any other element."""
        self.subpartitions[subpartition].add(element)

    def finish_read_recovered_state(self, notify_and_block_on_completion: bool) -> None:
        """End the recovered elements; with the flag, every receiver is notified and blocks what comes after that."""
        if notify_and_block_on_completion:
            self.broadcast(EndOfChannelState())

    def broadcast(self, element: Element) -> None:
        """Add the element for every receiver; a barrier that may not overtake here becomes FORCED_ALIGNED."""
        if isinstance(element, CheckpointBarrier) and not self.supports_unaligned:
            element = replace(element, options=element.options.with_unaligned_unsupported())
        for subpartition in self.subpartitions:
            subpartition.add(element)

    @property
    def writable(self) -> bool:
        """True if no receiver holds the task back."""
        return all(subpartition.writable for subpartition in self.subpartitions)


def _is_barrier_of(element: Element, checkpoint_id: int) -> bool:
    return isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id
