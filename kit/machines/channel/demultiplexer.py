"""The recovery of one input channel: the old job's connection that each buffer belongs to.

After a rescale the buffers of several old connections arrive on one channel; before each buffer a
`SubtaskConnectionDescriptor` names its connection. Every connection is a *virtual channel* that assembles its own
fragments of records and has its own watermark and status; the channel's are combined from all of them. If the buffers
of an old subtask are recovered by several new ones (the connection is *ambiguous*), each keeps only the records that it
would receive today.

Follows Flink's `DemultiplexingRecordDeserializer`, `RecordFilter` and `RecordFilterFactory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from kit.core.event_time import MIN_WATERMARK_MS
from kit.core.protocol.elements import SubtaskConnectionDescriptor
from kit.core.protocol.words import ProtocolError
from kit.core.state.handles import InputChannelInfo
from kit.core.state.rescale_mappings import GateOrPartitionRescalingDescriptor
from kit.machines.channel.record_assembler import RecordAssembler
from kit.machines.channel.recovered_state_handlers import connection_is_unknown
from kit.stream.graph.partitioners import Partitioner

RecordFilter = Callable[[pa.RecordBatch], pa.RecordBatch]
"""A function that returns the rows of a batch that belong to this subtask."""


def accept_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the whole batch: every row belongs here."""
    return batch


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A filter for the rows that `partitioner` sends to `subtask`; it may be stateful, so it is not shared."""

    partitioner: Partitioner
    subtask: int

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of `batch` for this subtask, in their order, possibly none."""
        parts = dict(self.partitioner.split(batch))
        return parts.get(self.subtask, batch.slice(0, 0))


@dataclass(slots=True)
class VirtualChannel:
    """One connection of the old job: its filter, its event time and its unfinished record."""

    keep: RecordFilter
    watermark_ms: int = MIN_WATERMARK_MS
    idle: bool = False
    assembler: RecordAssembler = field(default_factory=RecordAssembler)


class Demultiplexer:
    """The virtual channels of one input channel; empty if none of its data may be recovered here."""

    def __init__(
        self,
        channel: InputChannelInfo,
        gate: GateOrPartitionRescalingDescriptor,
        create_filter: Callable[[], RecordFilter],
    ) -> None:
        """Initialize from `gate`, which names the old subtasks and old senders whose buffers the channel recovers."""
        self.channel = channel
        self._channels = {
            SubtaskConnectionDescriptor(subtask, sender): VirtualChannel(
                create_filter() if subtask in gate.ambiguous else accept_all
            )
            for subtask in gate.old_subtasks
            for sender in gate.channels.mapped_indexes(channel.input_channel_idx)
        }
        self._selected: VirtualChannel | None = None

    def select(self, connection: SubtaskConnectionDescriptor) -> None:
        """Select the connection of the elements that come next.

        Raises StateRestoreError if the channel recovers no connection, ProtocolError for a connection that it does not
        recover.
        """
        if not self._channels:
            raise connection_is_unknown(self.channel, "it takes over no old subtask there")
        if connection not in self._channels:
            known = ", ".join(map(repr, self._channels))
            raise ProtocolError(f"{self.channel!r} was sent data of {connection!r}, but recovers {known}")
        self._selected = self._channels[connection]

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that belong to this subtask."""
        return self._current.keep(batch)

    @property
    def assembler(self) -> RecordAssembler:
        """The assembler of this connection's unfinished record."""
        return self._current.assembler

    @property
    def assemblers(self) -> list[RecordAssembler]:
        """The assemblers of all connections."""
        return [channel.assembler for channel in self._channels.values()]

    def watermark(self, timestamp_ms: int) -> int | None:
        """Return the event time that all connections have reached, or None while one has none."""
        self._current.watermark_ms = timestamp_ms
        reached_ms = min(channel.watermark_ms for channel in self._channels.values())
        return None if reached_ms == MIN_WATERMARK_MS else reached_ms

    def status(self, *, idle: bool) -> bool:
        """Return True if all connections are idle now."""
        self._current.idle = idle
        return all(channel.idle for channel in self._channels.values())

    @property
    def _current(self) -> VirtualChannel:
        if self._selected is None:
            raise ProtocolError(f"{self.channel!r} was sent recovered data before the connection it belongs to")
        return self._selected

    def __repr__(self) -> str:
        return f"Demultiplexer({self.channel!r}, {len(self._channels)} connections)"
