"""A task's handling of its input elements: one small rule for each kind.

Records go to the head of the chain, barriers and cancel markers to the barrier handler, and watermarks through the
valve that combines the channels. The ends of channels are counted. One turn takes one element.

Follows Flink's `StreamOneInputProcessor`, `AbstractStreamTaskNetworkInput` and `CheckpointedInputGate`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from heapq import nsmallest
from operator import itemgetter
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from kit.core.protocol.commands import ElementTaken, GrantCredit
from kit.core.protocol.elements import (
    Buffer,
    CancelCheckpointMarker,
    CheckpointBarrier,
    CreditedElement,
    Element,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    RecordFragment,
    SubtaskConnectionDescriptor,
    Watermark,
    WatermarkStatus,
)
from kit.core.protocol.words import ProtocolError, ProtocolMessage
from kit.core.state.rescale_mappings import InflightDataRescalingDescriptor
from kit.machines.channel.channel_state.channel_state_capture import HeldCapture
from kit.machines.channel.channel_state.channel_state_persister import InputStateWriter
from kit.machines.channel.channel_state.channel_state_reader import SequentialChannelStateReader
from kit.machines.channel.demultiplexer import Demultiplexer, PartitionFilter
from kit.machines.channel.event_announcement import EventAnnouncement
from kit.machines.channel.input_channel import InputChannel
from kit.machines.channel.input_gate import InputGates
from kit.machines.channel.record_assembler import RecordAssembler
from kit.machines.channel.recovered_channel import RecoveredInputChannel
from kit.machines.task.barrier_handler import CheckpointBarrierHandler
from kit.machines.task.upstream_recovery import UpstreamRecoveryTracker
from kit.machines.task.watermark_valve import InputWatermarks
from kit.stream.graph.execution_graph import ExecutionGraph, ExecutionVertex
from kit.stream.graph.partitioners import create_partitioner

MOST_BEHIND = 4
"""The number of channels that are named where rows are late."""


class InputActions(Protocol):
    """The calls of the inputs to their task."""

    name: str
    cause: str

    @property
    def event_id(self) -> str:
        """The id of the event being handled."""

    def emit(self, word: ProtocolMessage) -> None:
        """Give a command."""

    def process_batch(self, batch: pa.RecordBatch, input_index: int) -> None:
        """Process records in the head of the chain."""

    def advance_event_time(self, timestamp_ms: int) -> None:
        """Advance event time: no earlier record will come on any input."""

    def announce_idleness(self, idle: bool) -> None:
        """Report that all inputs have become idle, or that one is active again."""

    def end_input(self, drain: bool) -> None:
        """End the input: all inputs have ended their data."""

    def leave_when_done(self) -> None:
        """Leave, if the end of this channel was the last thing to wait for."""


def create_gates(
    graph: ExecutionGraph, vertex: ExecutionVertex, writer: InputStateWriter, capture: HeldCapture | None = None
) -> InputGates:
    """Create the gates of a task."""
    senders = [[(number, graph.channel(number).source_task) for number in gate.channels] for gate in vertex.gates]
    return InputGates(senders, writer, capture)


class TaskInput:
    """All inputs of one task: its `gates`, and `barriers`, the handler of the barriers that arrive there."""

    without_effect: ClassVar = frozenset({"_recovered_by", "_taking"})

    def __init__(
        self, vertex: ExecutionVertex, task: InputActions, gates: InputGates, barriers: CheckpointBarrierHandler
    ) -> None:
        self.gates = gates
        self.barriers = barriers
        self._task = task
        self._input_indexes = tuple(gate.edge.input_index for gate in vertex.gates)
        self._valve = InputWatermarks(
            {channel.number: self._input_indexes[channel.info.gate_idx] for channel in self.gates}
        )
        self._recovery = [
            UpstreamRecoveryTracker([each for each in self.gates if self._input_indexes[each.info.gate_idx] == index])
            for index in range(max(self._input_indexes, default=-1) + 1)
        ]
        self._vertex = vertex
        self._recovering: deque[tuple[RecoveredInputChannel, InputChannel]] = deque()
        self._recovered_by = ""
        self._demultiplexers: dict[int, Demultiplexer] = {}
        self._old_event_time: set[int] = set()
        """The channels that still deliver event time of senders that were rescaled; it is dropped."""
        self._before_live: set[int] = set()
        """The channels that still deliver recovered data."""
        self._recovered_idle: set[int] = set()
        """The channels that are idle only according to recovered data."""
        self._data_ended: set[int] = set()
        self._drain = True
        self._max_rows: int | None = None
        """The limit of the present turn, which the senders are told."""
        self._taking: int | None = None
        """The channel of the element that is being processed, or was last."""

    @property
    def watermarks_ms(self) -> dict[int, int]:
        """The event time of each input of the head."""
        return self._valve.by_input

    # --- in-flight data of a checkpoint ---------------------------------------------------------------------------

    def begin_recovery(
        self,
        reader: SequentialChannelStateReader,
        rescaling: InflightDataRescalingDescriptor,
        behind_rescaled: Collection[int] = (),
    ) -> None:
        """Start recovery: the in-flight data of the checkpoint comes before anything newly sent.

        From each sender, recovered data comes before new data. `behind_rescaled` are the gates with rescaled
        senders (`RestoredSubtaskState.gates_behind_rescaled`). A new sender may have taken over splits or state of
        another one, which was behind the old sender. So recovered watermarks and statuses are dropped there, and each
        new sender reports its own. Flink forwards a watermark when all old connections of the channel have one
        (`DemultiplexingRecordDeserializer`), so rows that the new sender still has to read may be dropped as late.
        """
        self._recovered_by = self._task.event_id
        gates: list[list[RecoveredInputChannel]] = [[] for _ in self._vertex.gates]
        for channel in self.gates:
            recovered = RecoveredInputChannel(channel.info)
            gates[channel.info.gate_idx].append(recovered)
            self._recovering.append((recovered, channel))
        reader.read_input_data(gates)
        self._before_live = {each.number for each in self.gates}
        self._old_event_time = {each.number for each in self.gates if each.info.gate_idx in behind_rescaled}
        if rescaling.is_rescaling:
            self._demultiplexers = {
                channel.number: Demultiplexer(
                    channel.info, rescaling.gates[channel.info.gate_idx], partial(self._create_filter, channel)
                )
                for channel in self.gates
            }
        self._drop_consumed()

    def _create_filter(self, channel: InputChannel) -> PartitionFilter:
        """Return the filter for what the sender would send to this subtask now."""
        vertex, edge = self._vertex, self._vertex.gates[channel.info.gate_idx].edge
        partitioner = create_partitioner(
            edge.partitioner,
            subpartitions=vertex.parallelism,
            subtask=0,
            key_columns=edge.key_columns,
            max_parallelism=vertex.max_parallelism,
            function=edge.partition_function,
        )
        return PartitionFilter(partitioner, vertex.subtask_index)

    def recovered(self, channel: int) -> tuple[Element, ...]:
        """Return the recovered elements of this channel that have not been taken."""
        return next((recovered.queued for recovered, live in self._recovering if live.number == channel), ())

    @property
    def is_recovering(self) -> bool:
        """True if some recovered in-flight data has not been taken."""
        return bool(self._recovering)

    @property
    def is_rescaling(self) -> bool:
        """True if recovered data of the old job's connections may still come: it cannot be checkpointed again."""
        return bool(self._demultiplexers)

    def take_recovered(self) -> None:
        """Take one recovered element."""
        self._task.cause = self._recovered_by
        recovered, channel = self._recovering[0]
        self._taking = channel.number
        element = recovered.next_element()
        if isinstance(element, CreditedElement):
            self._process(channel, element)
        elif element is not None:
            self._RULES[type(element)](self, channel, element)
        self._drop_consumed()

    def _drop_consumed(self) -> None:
        """Drop channels whose recovered data is all taken: they are live from now on."""
        while self._recovering and not self._recovering[0][0].has_data:
            recovered, _ = self._recovering.popleft()
            recovered.next_element()
            recovered.check_consumed()

    def _on_connection(self, channel: InputChannel, element: SubtaskConnectionDescriptor) -> None:
        demultiplexer = self._demultiplexers.get(channel.number)
        if demultiplexer is not None:
            demultiplexer.select(element)

    # --- live data ------------------------------------------------------------------------------------------------

    def take_turn(self, max_rows: int | None = None, *, only_priority: bool = False) -> None:
        """Take one element from the channel whose turn it is, at most `max_rows` rows of a buffer (None: all)."""
        self._max_rows = max_rows
        channel = self.gates.next_channel(only_priority=only_priority)
        if channel is None:
            return
        self._taking = channel.number
        part = None if max_rows is None else channel.take_part(max_rows)
        if part is not None:
            buffer, self._task.cause = part
            self.barriers.add_processed_bytes(buffer.size_bytes)
            self._process(channel, buffer)
            return
        element, self._task.cause = channel.take()
        if not isinstance(element, Buffer | CheckpointBarrier | EventAnnouncement):
            self._task.emit(ElementTaken(channel=channel.number))
        self._RULES[type(element)](self, channel, element)

    def _on_data(self, channel: InputChannel, element: CreditedElement) -> None:
        channel.grant(1)
        self._task.emit(GrantCredit(channel=channel.number, credits=1, max_rows=self._max_rows))
        self.barriers.add_processed_bytes(element.size_bytes)
        self._process(channel, element)

    def _process(self, channel: InputChannel, element: CreditedElement) -> None:
        """Pass records to the chain, and collect fragments until they form a record."""
        demultiplexer = self._demultiplexers.get(channel.number)
        assembler = channel.assembler if demultiplexer is None else demultiplexer.assembler
        if isinstance(element, RecordFragment):
            record = assembler.add(element)
            if record is None:
                return
            element = record
        else:
            assembler.expect_none(element)
        batch = element.batch if demultiplexer is None else demultiplexer.records(element.batch)
        if batch.num_rows:
            self._task.process_batch(batch, self._input_indexes[channel.info.gate_idx])

    def _on_barrier(self, channel: InputChannel, element: CheckpointBarrier) -> None:
        self.barriers.process_barrier(element, channel)

    def _on_announcement(self, channel: InputChannel, element: EventAnnouncement) -> None:
        self.barriers.process_barrier_announcement(element.barrier, element.sequence_number, channel)

    def _on_cancel_marker(self, channel: InputChannel, element: CancelCheckpointMarker) -> None:
        self.barriers.process_cancellation(element, channel)

    def _on_end_of_channel_state(self, channel: InputChannel, element: EndOfChannelState) -> None:
        tracker = self._recovery[self._input_indexes[channel.info.gate_idx]]
        tracker.handle_end_of_recovery(channel)
        self._old_event_time.discard(channel.number)
        self._before_live.discard(channel.number)
        if tracker.all_channels_recovered:
            for each in tracker.channels:
                for assembler in self._assemblers_of(each):
                    assembler.expect_none(element)
                self._demultiplexers.pop(each.number, None)

    def _assemblers_of(self, channel: InputChannel) -> list[RecordAssembler]:
        demultiplexer = self._demultiplexers.get(channel.number)
        return [channel.assembler] if demultiplexer is None else demultiplexer.assemblers

    def _on_watermark(self, channel: InputChannel, element: Watermark) -> None:
        """Advance the channel's event time.

        A sender does not know after a restore that it was idle, so it does not report that it is active again. Its
        first watermark does. Flink ignores the watermarks of such a channel until its next pair of statuses.
        """
        if channel.number in self._old_event_time:
            return
        timestamp_ms: int | None = element.timestamp_ms
        if channel.number in self._demultiplexers:
            timestamp_ms = self._demultiplexers[channel.number].watermark(element.timestamp_ms)
        number = channel.number
        if number in self._recovered_idle and number not in self._before_live:
            self._recovered_idle.remove(number)
            self._tell(lambda: self._valve.status(number, idle=False))
        if timestamp_ms is not None:
            self._tell(lambda: self._valve.watermark(number, timestamp_ms))

    def _on_watermark_status(self, channel: InputChannel, element: WatermarkStatus) -> None:
        if channel.number in self._old_event_time:
            return
        idle = element.idle
        if channel.number in self._demultiplexers:
            idle = self._demultiplexers[channel.number].status(idle=idle)
        if idle and channel.number in self._before_live:
            self._recovered_idle.add(channel.number)
        else:
            self._recovered_idle.discard(channel.number)
        self._tell(lambda: self._valve.status(channel.number, idle=idle))

    @property
    def event_time(self) -> dict[str, Any]:
        """The channel of the present element, whether event time waits for it, and the channels furthest behind, each
        with its watermark, as JSON-like data. A source has none.
        """
        if self._taking is None:
            return {}
        watermarks = self._valve.channels
        inputs = nsmallest(MOST_BEHIND, watermarks.items(), key=itemgetter(1))
        return {"channel": self._taking, "awaited": self._taking in watermarks, "inputs": [*map(list, inputs)]}

    def _tell(self, change: Callable[[], int | None]) -> None:
        """Change the valve, and tell the task where event time is and whether all inputs are idle, if that changed."""
        was_idle, timestamp_ms = self._valve.all_idle, change()
        if was_idle and not self._valve.all_idle:
            self._task.announce_idleness(False)
        if timestamp_ms is not None:
            self._task.advance_event_time(timestamp_ms)
        if self._valve.all_idle and not was_idle:
            self._task.announce_idleness(True)

    def _on_end_of_data(self, channel: InputChannel, element: EndOfData) -> None:
        self._data_ended.add(channel.number)
        self._drain = self._drain and element.drain
        if len(self._data_ended) == len(self.gates):
            self._task.end_input(self._drain)

    def _on_end_of_partition(self, channel: InputChannel, element: EndOfPartition) -> None:
        channel.assembler.expect_none(element)
        if channel.number not in self._data_ended:
            raise ProtocolError(f"{channel.source_task} ended its partition to {self._task.name} before its data")
        self.barriers.process_end_of_partition(channel)
        self._task.leave_when_done()

    _RULES: dict[type, Callable[[TaskInput, InputChannel, Element | EventAnnouncement], None]] = {
        Buffer: _on_data,  # type: ignore[dict-item]
        RecordFragment: _on_data,  # type: ignore[dict-item]
        CheckpointBarrier: _on_barrier,  # type: ignore[dict-item]
        EventAnnouncement: _on_announcement,  # type: ignore[dict-item]
        CancelCheckpointMarker: _on_cancel_marker,  # type: ignore[dict-item]
        Watermark: _on_watermark,  # type: ignore[dict-item]
        WatermarkStatus: _on_watermark_status,  # type: ignore[dict-item]
        SubtaskConnectionDescriptor: _on_connection,  # type: ignore[dict-item]
        EndOfChannelState: _on_end_of_channel_state,  # type: ignore[dict-item]
        EndOfData: _on_end_of_data,  # type: ignore[dict-item]
        EndOfPartition: _on_end_of_partition,  # type: ignore[dict-item]
    }

    def validate(self, credits_granted: int) -> None:
        """Check that no channel holds more buffers than its sender has credits for."""
        self.barriers.validate()
        for channel in self.gates:
            queued = channel.queued_buffers
            assert 0 <= channel.credits_granted <= credits_granted, f"{channel!r}: {channel.credits_granted} credits"
            assert queued <= credits_granted, f"{channel!r} holds {queued} buffers for {credits_granted} credits"

    def __repr__(self) -> str:
        return f"TaskInput({len(self.gates)} channels)"
