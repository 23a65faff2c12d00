"""One input channel while it recovers: which of the old job's connections each buffer belongs to.

After a rescale the buffers of several old connections come over one channel; before each of them a
`SubtaskConnectionDescriptor` names its connection. Every connection is a *virtual channel*, in which fragments of
records come together, with its own watermark and status; the channel's are what all of them together allow. Where an
old subtask's buffers are recovered by several new ones (the connection is *ambiguous*), each keeps only the records
that it would have been sent today.

Follows Flink's `DemultiplexingRecordDeserializer`, `RecordFilter` and `RecordFilterFactory`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from kit.core.protocol.elements import MIN_WATERMARK_MS, SubtaskConnectionDescriptor
from kit.core.protocol.words import ProtocolError
from kit.core.state.handles import InputChannelInfo
from kit.core.state.rescale_mappings import GateOrPartitionRescalingDescriptor
from kit.machines.channel.record_assembler import RecordAssembler
from kit.machines.channel.recovered_state_handlers import connection_is_unknown
from kit.stream.graph.partitioners import Partitioner

RecordFilter = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Gives those rows of a batch that belong here."""


def accept_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Every row belongs here."""
    return batch


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """Keeps the rows that `partitioner` would send to subtask `subtask`; it may keep count, so each has its own."""

    partitioner: Partitioner
    subtask: int

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `batch` for this subtask, in their order; none is an empty batch."""
        parts = dict(self.partitioner.split(batch))
        return parts.get(self.subtask, batch.slice(0, 0))


@dataclass(slots=True)
class VirtualChannel:
    """One connection of the old job: what it lets through, how far its event time has come, its unfinished record."""

    keep: RecordFilter
    watermark_ms: int = MIN_WATERMARK_MS
    idle: bool = False
    assembler: RecordAssembler = field(default_factory=RecordAssembler)


class Demultiplexer:
    """The virtual channels of one input channel; empty when nothing of it may be recovered here."""

    def __init__(
        self,
        channel: InputChannelInfo,
        gate: GateOrPartitionRescalingDescriptor,
        create_filter: Callable[[], RecordFilter],
    ) -> None:
        """`gate` says which old subtasks' buffers the channel recovers, and from which old senders."""
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
        """What comes next belongs to this connection.

        Raises StateRestoreError where none is recovered at all, ProtocolError for any other that is not.
        """
        if not self._channels:
            raise connection_is_unknown(self.channel, "it takes over no old subtask there")
        if connection not in self._channels:
            known = ", ".join(map(repr, self._channels))
            raise ProtocolError(f"{self.channel!r} was sent data of {connection!r}, but recovers {known}")
        self._selected = self._channels[connection]

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that belong to this subtask."""
        return self._current.keep(batch)

    @property
    def assembler(self) -> RecordAssembler:
        """The fragments of the unfinished record of this connection."""
        return self._current.assembler

    @property
    def assemblers(self) -> list[RecordAssembler]:
        """Those of all connections."""
        return [channel.assembler for channel in self._channels.values()]

    def watermark(self, timestamp_ms: int) -> int | None:
        """The event time that all connections have reached; None while one has none."""
        self._current.watermark_ms = timestamp_ms
        reached_ms = min(channel.watermark_ms for channel in self._channels.values())
        return None if reached_ms == MIN_WATERMARK_MS else reached_ms

    def status(self, *, idle: bool) -> bool:
        """Whether all connections are idle now."""
        self._current.idle = idle
        return all(channel.idle for channel in self._channels.values())

    @property
    def _current(self) -> VirtualChannel:
        if self._selected is None:
            raise ProtocolError(f"{self.channel!r} was sent recovered data before the connection it belongs to")
        return self._selected

    def __repr__(self) -> str:
        return f"Demultiplexer({self.channel!r}, {len(self._channels)} connections)"
