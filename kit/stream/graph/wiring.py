"""The channels of one edge between two vertices: which subtasks they connect, and how they are numbered.

Channels are numbered within an edge by sender and then by receiver. Follows Flink's `VertexInputInfoComputationUtils`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.protocol.tasks import task_name
from kit.stream.graph.job_graph import JobEdge


@dataclass(frozen=True, slots=True)
class Channel:
    """One connection between two subtasks.

    Subpartition `subpartition` of `source_task`'s partition `partition` is input channel `index` of `target_task`'s
    gate `gate`.
    """

    number: int
    source_task: str
    partition: int
    subpartition: int
    target_task: str
    gate: int
    index: int

    def __repr__(self) -> str:
        return f"Channel({self.number}: {self.source_task} -> {self.target_task})"


@dataclass(frozen=True, slots=True)
class Wiring:
    """The channels of one edge: `first` is the number of its first, `senders` and `receivers` are parallelisms."""

    edge: JobEdge
    first: int
    senders: int
    receivers: int

    @property
    def count(self) -> int:
        """The number of channels."""
        if self.edge.is_pointwise:
            return max(self.senders, self.receivers)
        return self.senders * self.receivers

    def of_sender(self, sender: int) -> range:
        """Return the channels of a sending subtask, in order of subpartition."""
        if not self.edge.is_pointwise:
            return self._range(sender * self.receivers, (sender + 1) * self.receivers)
        if self.senders >= self.receivers:
            return self._range(sender, sender + 1)
        return self._range(self._first_receiver(sender), self._first_receiver(sender + 1))

    def of_receiver(self, receiver: int) -> range:
        """Return the channels of a receiving subtask, in order of input channel."""
        if not self.edge.is_pointwise:
            return range(self.first + receiver, self.first + self.count, self.receivers)
        if self.senders >= self.receivers:
            return self._range(self._first_sender(receiver), self._first_sender(receiver + 1))
        return self._range(receiver, receiver + 1)

    def receivers_of(self, sender: int) -> range:
        """Return the subtasks that a sending subtask has channels to."""
        if not self.edge.is_pointwise:
            return range(self.receivers)
        if self.senders >= self.receivers:
            receiver = ((sender + 1) * self.receivers - 1) // self.senders
            return range(receiver, receiver + 1)
        return range(self._first_receiver(sender), self._first_receiver(sender + 1))

    def senders_of(self, receiver: int) -> range:
        """Return the subtasks that have channels to a receiving subtask."""
        if not self.edge.is_pointwise:
            return range(self.senders)
        if self.senders >= self.receivers:
            return range(self._first_sender(receiver), self._first_sender(receiver + 1))
        sender = receiver * self.senders // self.receivers
        return range(sender, sender + 1)

    def channel(self, number: int) -> Channel:
        """Return the channel with this number."""
        offset = number - self.first
        if not self.edge.is_pointwise:
            sender, receiver = divmod(offset, self.receivers)
            subpartition, index = receiver, sender
        elif self.senders >= self.receivers:
            sender, (receiver,) = offset, self.receivers_of(offset)
            subpartition, index = 0, sender - self._first_sender(receiver)
        else:
            (sender,), receiver = self.senders_of(offset), offset
            subpartition, index = receiver - self._first_receiver(sender), 0
        return Channel(
            number=number,
            source_task=task_name(self.edge.source, sender),
            partition=self.edge.partition,
            subpartition=subpartition,
            target_task=task_name(self.edge.target, receiver),
            gate=self.edge.gate,
            index=index,
        )

    def _first_sender(self, receiver: int) -> int:
        return receiver * self.senders // self.receivers

    def _first_receiver(self, sender: int) -> int:
        return (sender * self.receivers + self.senders - 1) // self.senders

    def _range(self, start: int, end: int) -> range:
        return range(self.first + start, self.first + end)
