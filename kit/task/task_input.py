"""What a task does with an element of its inputs: one small rule for each kind.

Records go to the head of the chain, barriers and cancel markers to the barrier handler, watermarks through the valve
that combines the channels, the ends of channels to the count of them. One turn takes one element.

Follows Flink's `StreamOneInputProcessor`, `AbstractStreamTaskNetworkInput` and `CheckpointedInputGate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from kit.channel.channel_state_persister import InputStateWriter
from kit.channel.event_announcement import EventAnnouncement
from kit.channel.input_channel import InputChannel
from kit.channel.input_gate import InputGates
from kit.graph.execution_graph import ExecutionGraph, ExecutionVertex
from kit.protocol.commands import GrantCredit
from kit.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    Element,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    Watermark,
    WatermarkStatus,
)
from kit.protocol.words import ProtocolError, Word
from kit.task.barrier_handler import CheckpointBarrierHandler
from kit.task.upstream_recovery import UpstreamRecoveryTracker
from kit.task.watermark_valve import InputWatermarks


class InputActions(Protocol):
    """What the inputs ask of their task."""

    name: str
    cause: str

    def emit(self, word: Word) -> None:
        """Give a command."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Records for the head of the chain."""

    def advance_event_time(self, timestamp_ms: int) -> None:
        """No earlier record will come on any input."""

    def announce_idleness(self, idle: bool) -> None:
        """All inputs have become idle, or one is active again."""

    def end_input(self, drain: bool) -> None:
        """All inputs have ended their data."""

    def leave_when_done(self) -> None:
        """A channel has ended."""


class TaskInput:
    """All inputs of one task. `barriers` is set by the task, whose handler it is."""

    barriers: CheckpointBarrierHandler

    def __init__(
        self, graph: ExecutionGraph, vertex: ExecutionVertex, task: InputActions, writer: InputStateWriter
    ) -> None:
        self.gates = InputGates(
            [[(number, graph.channel(number).source_task) for number in gate.channels] for gate in vertex.gates],
            writer,
        )
        self._task = task
        self._input_indexes = tuple(gate.edge.input_index for gate in vertex.gates)
        self._valve = InputWatermarks(
            {channel.number: self._input_indexes[channel.info.gate_idx] for channel in self.gates}
        )
        self._recovery = [
            UpstreamRecoveryTracker([each for each in self.gates if self._input_indexes[each.info.gate_idx] == index])
            for index in range(max(self._input_indexes, default=-1) + 1)
        ]
        self._data_ended: set[int] = set()
        self._drain = True

    def take_turn(self, *, only_priority: bool = False) -> None:
        """Take one element from the channel whose turn it is."""
        channel = self.gates.next_channel(only_priority=only_priority)
        if channel is not None:
            element, self._task.cause = channel.take()
            self._RULES[type(element)](self, channel, element)

    def _on_buffer(self, channel: InputChannel, element: Buffer) -> None:
        channel.credits_granted += 1
        self._task.emit(GrantCredit(channel=channel.number, credits=1))
        self.barriers.add_processed_bytes(element.size_bytes)
        self._task.process_batch(element.batch, self._input_indexes[channel.info.gate_idx])

    def _on_barrier(self, channel: InputChannel, element: CheckpointBarrier) -> None:
        self.barriers.process_barrier(element, channel)

    def _on_announcement(self, channel: InputChannel, element: EventAnnouncement) -> None:
        self.barriers.process_barrier_announcement(element.barrier, element.sequence_number, channel)

    def _on_cancel_marker(self, channel: InputChannel, element: CancelCheckpointMarker) -> None:
        self.barriers.process_cancellation(element, channel)

    def _on_end_of_channel_state(self, channel: InputChannel, element: EndOfChannelState) -> None:
        self._recovery[self._input_indexes[channel.info.gate_idx]].handle_end_of_recovery(channel)

    def _on_watermark(self, channel: InputChannel, element: Watermark) -> None:
        self._advance(self._valve.watermark(channel.number, element.timestamp_ms))

    def _on_watermark_status(self, channel: InputChannel, element: WatermarkStatus) -> None:
        was_idle = self._valve.all_idle
        self._advance(self._valve.status(channel.number, idle=element.idle))
        if self._valve.all_idle != was_idle:
            self._task.announce_idleness(self._valve.all_idle)

    def _advance(self, timestamp_ms: int | None) -> None:
        if timestamp_ms is not None:
            self._task.advance_event_time(timestamp_ms)

    def _on_end_of_data(self, channel: InputChannel, element: EndOfData) -> None:
        self._data_ended.add(channel.number)
        self._drain = self._drain and element.drain
        if len(self._data_ended) == len(self.gates):
            self._task.end_input(self._drain)

    def _on_end_of_partition(self, channel: InputChannel, element: EndOfPartition) -> None:
        if channel.number not in self._data_ended:
            raise ProtocolError(f"{channel.source_task} ended its partition to {self._task.name} before its data")
        self.barriers.process_end_of_partition(channel)
        self._task.leave_when_done()

    _RULES: dict[type, Callable[[TaskInput, InputChannel, Element | EventAnnouncement], None]] = {
        Buffer: _on_buffer,  # type: ignore[dict-item]
        CheckpointBarrier: _on_barrier,  # type: ignore[dict-item]
        EventAnnouncement: _on_announcement,  # type: ignore[dict-item]
        CancelCheckpointMarker: _on_cancel_marker,  # type: ignore[dict-item]
        Watermark: _on_watermark,  # type: ignore[dict-item]
        WatermarkStatus: _on_watermark_status,  # type: ignore[dict-item]
        EndOfChannelState: _on_end_of_channel_state,  # type: ignore[dict-item]
        EndOfData: _on_end_of_data,  # type: ignore[dict-item]
        EndOfPartition: _on_end_of_partition,  # type: ignore[dict-item]
    }

    def validate(self, credits_granted: int) -> None:
        """Check that no channel holds more buffers than its sender was given credits for."""
        self.barriers.validate()
        for channel in self.gates:
            queued = channel.queued_buffers
            assert 0 <= channel.credits_granted <= credits_granted, f"{channel!r}: {channel.credits_granted} credits"
            assert queued <= credits_granted, f"{channel!r} holds {queued} buffers for {credits_granted} credits"

    def __repr__(self) -> str:
        return f"TaskInput({len(self.gates)} channels)"
