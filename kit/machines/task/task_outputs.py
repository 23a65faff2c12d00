"""The outputs of a task: its partitions, and the choice of a receiver for each record.

Records go to the receivers that the partitioner of their edge chooses; watermarks and events go to all of them. A task
whose receivers cannot keep up is held back: it is *writable* only while every subpartition has room.

Follows Flink's `RecordWriterOutput`, `RecordWriter` and `ResultPartitionWriter`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa

from kit.core.protocol.elements import Element, Watermark, WatermarkStatus
from kit.machines.channel.channel_state.channel_state_capture import HeldCapture
from kit.machines.channel.record_writer import RecordWriter
from kit.machines.channel.result_partition import OutputStateWriter, ResultPartition, ResultSubpartition, Send
from kit.stream.graph.execution_graph import ExecutionGraph, ExecutionVertex


class TaskOutputs:
    """All outputs of one task.

    `send` sends an element on a channel, `waits` is called for one that cannot leave yet, and `writer` takes in-flight
    data. A user-defined `capture` decides what is in flight.
    """

    without_effect: ClassVar = frozenset({"_written"})
    """It has an effect only where a host limits turns."""

    def __init__(
        self,
        graph: ExecutionGraph,
        vertex: ExecutionVertex,
        send: Send,
        waits: Send,
        writer: OutputStateWriter,
        capture: HeldCapture | None = None,
    ) -> None:
        self._full: set[int] = set()
        self.partitions = tuple(
            ResultPartition(
                partition.index,
                [(number, graph.channel(number).target_task) for number in partition.channels],
                send,
                waits,
                writer,
                supports_unaligned=partition.edge.supports_unaligned,
                full=self._full,
                capture=capture,
            )
            for partition in vertex.partitions
        )
        self._partitioners = tuple(partition.create_partitioner() for partition in vertex.partitions)
        self._records = RecordWriter(graph.job_graph.settings.buffer_bytes)
        self._written = [0] * len(self.partitions)
        """The rows that were written to the receivers of each partition in this attempt."""
        self._by_number = {sub.number: sub for sub in self.subpartitions()}

    def subpartition(self, channel: int) -> ResultSubpartition:
        """Return the subpartition at this channel's end."""
        return self._by_number[channel]

    def subpartitions(self) -> Iterator[ResultSubpartition]:
        """Yield every subpartition, partition by partition."""
        for partition in self.partitions:
            yield from partition

    def __iter__(self) -> Iterator[ResultPartition]:
        return iter(self.partitions)

    # --- writing --------------------------------------------------------------------------------------------------

    def write_batch(self, partition: int, batch: pa.RecordBatch) -> None:
        """Send records to the receivers that the partitioner chooses, in buffers of limited size."""
        subpartitions = self.partitions[partition].subpartitions
        for target, part in self._partitioners[partition].split(batch):
            self._written[partition] += part.num_rows
            for element in self._records.elements(part, subpartitions[target].max_rows):
                subpartitions[target].add(element)

    def write_watermark(self, partition: int, timestamp_ms: int) -> None:
        """Send a watermark to all receivers of a partition."""
        self.partitions[partition].broadcast(Watermark(timestamp_ms))

    def write_watermark_status(self, partition: int, *, idle: bool) -> None:
        """Tell all receivers of a partition if this task takes part in event time."""
        self.partitions[partition].broadcast(WatermarkStatus(idle))

    def broadcast(self, element: Element) -> None:
        """Send an event to every receiver. Flink: `OperatorChain.broadcastEvent`."""
        for partition in self.partitions:
            partition.broadcast(element)

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def aligned_barrier_timeout(self, checkpoint_id: int) -> None:
        """Turn the checkpoint's barriers that still wait here unaligned, and send them."""
        for subpartition in self.subpartitions():
            subpartition.aligned_barrier_timeout(checkpoint_id)

    def abort_checkpoint(self, checkpoint_id: int, cause: Exception) -> None:
        """Abort the checkpoint: none of its barriers that still wait here will overtake anything."""
        for subpartition in self.subpartitions():
            subpartition.abort_checkpoint(checkpoint_id, cause)

    def release(self) -> None:
        for subpartition in self.subpartitions():
            subpartition.release()

    # --- the network ----------------------------------------------------------------------------------------------

    def add_credits(self, channel: int, credits: int, max_rows: int | None = None) -> None:
        """Add credits of the receiver at the end of a channel, for buffers of at most `max_rows` (None: no limit)."""
        self._by_number[channel].max_rows = max_rows
        self._by_number[channel].add_credits(credits)

    def most_rows(self, processed: int) -> int | None:
        """Return how many rows to process so that the result is about a buffer for each receiver; None: no limit.

        So far `processed` rows have led to what was written: an aggregate may write less than it takes, and a flat map
        more.
        """
        most: int | None = None
        for partition, written in zip(self.partitions, self._written, strict=True):
            limits = [sub.max_rows for sub in partition if sub.max_rows is not None]
            if written and len(limits) == len(partition.subpartitions):
                rows = max(1, sum(limits) * processed // written)
                most = rows if most is None else min(most, rows)
        return most

    @property
    def writable(self) -> bool:
        return not self._full

    def all_taken(self, credits_granted: int) -> bool:
        """Return True if the receivers have taken every buffer: a checkpoint without this task is then complete."""
        return all(sub.all_taken(credits_granted) for sub in self.subpartitions())

    def __repr__(self) -> str:
        return f"TaskOutputs({len(self.partitions)} partitions, {len(self._by_number)} channels)"
