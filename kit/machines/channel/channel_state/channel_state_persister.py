"""The in-flight data of one input channel that an unaligned checkpoint must write.

An unaligned checkpoint begins before its barrier has come on every channel. What such a channel holds then, and what
arrives before its barrier, belongs to the checkpoint. If the barrier has come already, it has overtaken the queue, and
only the queue is in flight.

Follows Flink's `ChannelStatePersister`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from kit.core.protocol.elements import CheckpointBarrier, DataElement, Element
from kit.core.protocol.reasons import CheckpointException, CheckpointFailureReason
from kit.core.state.handles import InputChannelInfo
from kit.machines.channel.channel_state.channel_state_writer import SEQUENCE_NUMBER_UNKNOWN


class InputStateWriter(Protocol):
    """A writer of in-flight input data: the input half of the channel state writer."""

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        """Write these elements of the channel, in order, as state of the checkpoint."""


class NoInputStateWriter:
    """A writer for jobs whose checkpoints never hold in-flight data (`ChannelStateWriter.NO_OP`).

    Flink: `NoOpChannelStateWriter`.
    """

    def add_input_data(
        self, checkpoint_id: int, info: InputChannelInfo, start_seq: int, buffers: Sequence[DataElement]
    ) -> None:
        """Do nothing."""


class CheckpointStatus(Enum):
    """The state of a channel in the newest unaligned checkpoint that it knows of."""

    COMPLETED = "COMPLETED"
    BARRIER_PENDING = "BARRIER_PENDING"
    BARRIER_RECEIVED = "BARRIER_RECEIVED"


class ChannelStatePersister:
    """The selection of the data that is in flight on one channel, for the writer."""

    __slots__ = ("_info", "_writer", "last_seen_barrier", "status")

    def __init__(self, writer: InputStateWriter, info: InputChannelInfo) -> None:
        self._writer = writer
        self._info = info
        self.status = CheckpointStatus.COMPLETED
        self.last_seen_barrier = -1

    def start_persisting(self, checkpoint_id: int, known: Sequence[DataElement]) -> None:
        """Start a checkpoint: write the data `known` to be in flight, and then all that arrives before the barrier.

        Raises CheckpointException (CHECKPOINT_SUBSUMED) if the barrier of a newer checkpoint has already come.
        """
        if self.status is CheckpointStatus.BARRIER_RECEIVED and self.last_seen_barrier > checkpoint_id:
            raise CheckpointException(
                CheckpointFailureReason.CHECKPOINT_SUBSUMED,
                f"the barrier of checkpoint {self.last_seen_barrier} came before checkpoint {checkpoint_id} began",
            )
        if self.last_seen_barrier < checkpoint_id:
            self.status = CheckpointStatus.BARRIER_PENDING
            self.last_seen_barrier = checkpoint_id
        if known:
            self._writer.add_input_data(checkpoint_id, self._info, SEQUENCE_NUMBER_UNKNOWN, known)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """End the checkpoint; the end of an older one changes nothing."""
        if checkpoint_id >= self.last_seen_barrier:
            self.status = CheckpointStatus.COMPLETED
            self.last_seen_barrier = checkpoint_id

    def maybe_persist(self, element: Element) -> None:
        """Write data that arrives before the barrier."""
        if self.status is CheckpointStatus.BARRIER_PENDING and isinstance(element, DataElement):
            self._writer.add_input_data(self.last_seen_barrier, self._info, SEQUENCE_NUMBER_UNKNOWN, (element,))

    def check_for_barrier(self, element: Element) -> int | None:
        """Return the checkpoint whose barrier this is; None for other elements and for a late barrier."""
        if not isinstance(element, CheckpointBarrier):
            return None
        expected = self.last_seen_barrier + (self.status is CheckpointStatus.COMPLETED)
        if element.checkpoint_id < expected:
            return None
        self.status = CheckpointStatus.BARRIER_RECEIVED
        self.last_seen_barrier = element.checkpoint_id
        return element.checkpoint_id

    @property
    def has_barrier_received(self) -> bool:
        """True if the barrier of the newest checkpoint has arrived."""
        return self.status is CheckpointStatus.BARRIER_RECEIVED

    def __repr__(self) -> str:
        return f"ChannelStatePersister(chk-{self.last_seen_barrier} {self.status.name})"
