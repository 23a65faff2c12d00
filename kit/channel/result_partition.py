"""Where a task's output waits for the network: one queue a subpartition, one partition a job edge.

A buffer leaves when the receiver has given a credit for it; events need none, but never overtake the buffers before
them. What has no credit waits here, inside the machine, where an unaligned barrier can overtake it. While any
subpartition holds `MAX_QUEUED_BUFFERS` or more, the task is back-pressured and takes no further input.

Follows Flink's `PipelinedSubpartition`, `ResultPartition` and `RecordWriter`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from kit.protocol.elements import Buffer, Element
from kit.state.handles import ResultSubpartitionInfo

MAX_QUEUED_BUFFERS = 2
"""Buffers that may wait in one subpartition before its task stops taking input."""

Send = Callable[[int, Element], None]


class ResultSubpartition:
    """One output channel: what was produced and not yet sent.

    `number` is the channel's number in the execution graph, `info` its place in the task, `target_task` the receiver.
    """

    __slots__ = ("_send", "credits", "info", "number", "queue", "target_task")

    def __init__(self, number: int, info: ResultSubpartitionInfo, target_task: str, send: Send) -> None:
        self.number = number
        self.info = info
        self.target_task = target_task
        self.queue: deque[Element] = deque()
        self.credits = 0
        self._send = send

    def add(self, element: Element) -> None:
        """Send the element, or queue it behind what waits already."""
        self.queue.append(element)
        self._flush()

    def add_credits(self, credits: int) -> None:
        """The receiver can take more buffers: send what now may go."""
        self.credits += credits
        self._flush()

    def _flush(self) -> None:
        queue = self.queue
        while queue:
            if isinstance(queue[0], Buffer):
                if self.credits == 0:
                    return
                self.credits -= 1
            self._send(self.number, queue.popleft())

    def all_taken(self, credits_granted: int) -> bool:
        """Whether the receiver has taken every buffer out of its queue: it gives a credit back for each, and so all
        of the `credits_granted` at first are here again.
        """
        return not self.queue and self.credits == credits_granted

    @property
    def writable(self) -> bool:
        """Whether the task may go on producing for this receiver."""
        return len(self.queue) < MAX_QUEUED_BUFFERS

    def __repr__(self) -> str:
        return f"ResultSubpartition({self.target_task}, {len(self.queue)} queued, {self.credits} credits)"


class ResultPartition:
    """The subpartitions of one job edge, `targets` = (channel number, receiver's task) in subpartition order."""

    def __init__(self, index: int, targets: Sequence[tuple[int, str]], send: Send) -> None:
        self.index = index
        self.subpartitions = tuple(
            ResultSubpartition(number, ResultSubpartitionInfo(index, position), task, send)
            for position, (number, task) in enumerate(targets)
        )

    def __iter__(self) -> Iterator[ResultSubpartition]:
        return iter(self.subpartitions)

    def __repr__(self) -> str:
        return f"ResultPartition({self.index}, {len(self.subpartitions)} subpartitions)"

    def broadcast(self, element: Element) -> None:
        """Give every receiver the element."""
        for subpartition in self.subpartitions:
            subpartition.add(element)

    @property
    def writable(self) -> bool:
        """Whether no receiver holds the task back."""
        return all(subpartition.writable for subpartition in self.subpartitions)
