"""The decision which data of a task's channels belongs to an unaligned checkpoint, as a replaceable part.

An unaligned checkpoint is a cut through channels that are not empty. Data that the barrier has overtaken, at the sender
or at the receiver, and data that arrives on a channel before its barrier, was sent before the checkpoint and is
processed after it. It is in flight and belongs to the snapshot. Data behind the barrier does not: its sender sends it
again.

By default `ResultSubpartition`, `InputChannel` and `ChannelStatePersister` make this decision; a `ChannelStateCapture`
replaces it. It writes with `addInputData` and `addOutputData` as they do, and is notified when a checkpoint begins and
ends on a channel. The task itself still calls `finishInput` and `finishOutput`.

Flink 1.11 has these decisions in `RemoteInputChannel.spillInflightBuffers`, in
`BufferReceivedListener.notifyBufferReceived` and in `ResultSubpartition.requestInflightBufferSnapshot`, 2.x in
`ChannelStatePersister` and in `PipelinedSubpartition.processPriorityBuffer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kit.core.protocol.elements import DataElement, Element
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.machines.channel.channel_state.channel_state_persister import InputStateWriter
from kit.machines.channel.channel_state.channel_state_writer import SEQUENCE_NUMBER_UNKNOWN
from kit.stream.settings.parts import Factory, PartError, UserDefinedPart, made

NAME = "channel_state_capture"


class OpenChannels:
    """The channels of a task to which a capture may add data now."""

    __slots__ = ("_inputs", "_overtaken", "_overtaking")

    def __init__(self) -> None:
        self._inputs: dict[InputChannelInfo, int] = {}
        """The checkpoint to which each input channel may add data."""
        self._overtaking: tuple[int, ResultSubpartitionInfo] | None = None
        self._overtaken: list[DataElement] = []

    def __len__(self) -> int:
        return len(self._inputs)

    def start(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """Let an input channel add data to this checkpoint."""
        self._inputs[channel] = checkpoint_id

    def stop(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """End a checkpoint on an input channel; the end of an older one closes nothing."""
        if self._inputs.get(channel, checkpoint_id + 1) <= checkpoint_id:
            del self._inputs[channel]

    def takes(self, checkpoint_id: int, channel: InputChannelInfo) -> bool:
        """Return True if the input channel may add data to this checkpoint."""
        return self._inputs.get(channel) == checkpoint_id

    @contextmanager
    def overtaking(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo) -> Iterator[list[DataElement]]:
        """Let an output add data to this checkpoint within the context, which yields the list of that data."""
        self._overtaking, self._overtaken = (checkpoint_id, subpartition), []
        yield self._overtaken
        self._overtaking = None

    def overtaken(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo) -> list[DataElement] | None:
        """Return the list that takes data of the output, or None if it may not add to this checkpoint."""
        return self._overtaken if self._overtaking == (checkpoint_id, subpartition) else None


class CaptureWriter:
    """The writer of a capture, which accepts only data, and only for a checkpoint in progress on that channel.

    Follows Flink's `ChannelStateWriter`; there data that comes too late fails the checkpoint.
    """

    __slots__ = ("_open", "_writer")

    def __init__(self, writer: InputStateWriter, open_channels: OpenChannels) -> None:
        self._writer = writer
        self._open = open_channels

    def add_input_data(self, checkpoint_id: int, channel: InputChannelInfo, buffers: Iterable[DataElement]) -> None:
        """Add this data of an input channel, in this order, to the checkpoint. Flink: `addInputData`.

        Raises PartError for anything but data, and if the checkpoint is not in progress on this channel.
        """
        call = f"add_input_data({checkpoint_id}, {channel!r}, ...)"
        if not self._open.takes(checkpoint_id, channel):
            raise PartError(
                f"{NAME} of your own: {call}: checkpoint {checkpoint_id} is not under way on this channel. Expected "
                "data between checkpoint_started and checkpoint_stopped"
            )
        data = _data(buffers, call)
        if data:
            self._writer.add_input_data(checkpoint_id, channel, SEQUENCE_NUMBER_UNKNOWN, data)

    def add_output_data(
        self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, buffers: Iterable[DataElement]
    ) -> None:
        """Add this data of an output, in this order, to the checkpoint. Flink: `addOutputData`.

        Raises PartError for anything but data, and outside of a `barrier_overtakes` call for the same checkpoint and
        output.
        """
        call = f"add_output_data({checkpoint_id}, {subpartition!r}, ...)"
        overtaken = self._open.overtaken(checkpoint_id, subpartition)
        if overtaken is None:
            raise PartError(
                f"{NAME} of your own: {call}: the barrier of checkpoint {checkpoint_id} is not leaving this output. "
                "Expected data of the output that barrier_overtakes was called for"
            )
        overtaken += _data(buffers, call)

    def __repr__(self) -> str:
        return f"CaptureWriter({len(self._open)} channels open)"


def _data(buffers: Iterable[DataElement], call: str) -> tuple[DataElement, ...]:
    try:
        found = tuple(buffers)
    except TypeError:
        raise PartError(f"{NAME} of your own: {call} was given {buffers!r}: expected a list of elements") from None
    for element in found:
        if not isinstance(element, DataElement):
            raise PartError(
                f"{NAME} of your own: {call} was given {element!r}: expected data only. Events such as barriers are "
                "not in flight: after a restore they mean nothing"
            )
    return found


class ChannelStateCapture(ABC):
    """A part that decides for one task which channel data belongs to an unaligned checkpoint
    (`kit.stream.settings.parts.Parts`).

    `writer` takes that data. Channels are named by `InputChannelInfo` and `ResultSubpartitionInfo`, which can be keys
    of a dictionary. Elements are data (`DataElement`) or events, including barriers.
    """

    def __init__(self, writer: CaptureWriter) -> None:
        self.writer = writer

    @abstractmethod
    def checkpoint_started(self, checkpoint_id: int, channel: InputChannelInfo, queue: Sequence[Element]) -> None:
        """Handle the start of an unaligned checkpoint in this task; called once for each input channel.

        `queue` is what has arrived on the channel and has not been processed, in the order in which it was sent. If the
        checkpoint's barrier has arrived, it is at its place in this order, even if it went ahead or was taken already.
        Flink 1.11: `spillInflightBuffers`.
        """

    @abstractmethod
    def element_received(self, channel: InputChannelInfo, element: Element) -> None:
        """Handle an element that has arrived on an input channel, during a checkpoint or not.

        Flink 1.11: `notifyBufferReceived`, `notifyBarrierReceived`.
        """

    @abstractmethod
    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """Handle the end of a checkpoint: all barriers have come, or it was aborted; called for each input channel.

        The checkpoint may be older than the one in progress. Flink: `stopPersisting`.
        """

    @abstractmethod
    def barrier_overtakes(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: list[Element]) -> None:
        """Handle a barrier that leaves an output ahead of `queue`, the elements waiting there in sending order.

        Flink 1.11: `requestInflightBufferSnapshot`.
        """


class OwnCapture(UserDefinedPart):
    """The checks and messages of a user-defined capture."""

    __slots__ = ()


class HeldCapture:
    """A user-defined capture as a task's channels call it, with the bounds of each checkpoint tracked."""

    __slots__ = ("_open", "_part")

    def __init__(self, own: Factory, writer: InputStateWriter) -> None:
        self._open = OpenChannels()
        contract: Any = ChannelStateCapture
        self._part: ChannelStateCapture = made(NAME, own, contract, OwnCapture, CaptureWriter(writer, self._open))

    def checkpoint_started(self, checkpoint_id: int, channel: InputChannelInfo, queue: Sequence[Element]) -> None:
        """Start a checkpoint on an input channel."""
        self._open.start(checkpoint_id, channel)
        self._part.checkpoint_started(checkpoint_id, channel, queue)

    def element_received(self, channel: InputChannelInfo, element: Element) -> None:
        """Report an element that has arrived."""
        self._part.element_received(channel, element)

    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """End a checkpoint on an input channel."""
        self._part.checkpoint_stopped(checkpoint_id, channel)
        self._open.stop(checkpoint_id, channel)

    def overtaken(
        self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: Iterable[Element]
    ) -> list[DataElement]:
        """Return the part of an output's queue that belongs to the checkpoint whose barrier leaves ahead of it."""
        with self._open.overtaking(checkpoint_id, subpartition) as found:
            self._part.barrier_overtakes(checkpoint_id, subpartition, list(queue))
        return found

    def __repr__(self) -> str:
        return f"HeldCapture({self._part!r})"


def create_capture(own: Factory | None, writer: InputStateWriter) -> HeldCapture | None:
    """Create the user-defined capture, if there is one. Raises PartError for an invalid one."""
    return None if own is None else HeldCapture(own, writer)
