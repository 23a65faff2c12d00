"""Which data of a task's channels belongs to an unaligned checkpoint: the decision as a part of one's own.

An unaligned checkpoint is a cut through channels that are not empty. What the barrier has overtaken, at the sender's
end and at the receiver's, and what comes on a channel until its barrier does, was sent before the checkpoint and is
processed after it: it is in flight, and belongs to the snapshot. What comes behind the barrier does not; its sender
sends it again.

The kit decides so in `ResultSubpartition`, `InputChannel` and `ChannelStatePersister`. A `ChannelStateCapture` is
asked instead of them. It writes with `addInputData` and `addOutputData` as they do; when a checkpoint begins and ends
on a channel is said to it, and `finishInput` and `finishOutput` stay the task's.

Flink 1.11 has these decisions in `RemoteInputChannel.spillInflightBuffers`, in
`BufferReceivedListener.notifyBufferReceived` and in `ResultSubpartition.requestInflightBufferSnapshot`, 2.x in
`ChannelStatePersister` and in `PipelinedSubpartition.processPriorityBuffer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from kit.core.protocol.elements import DataElement, Element
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.machines.channel.channel_state.channel_state_persister import InputStateWriter
from kit.machines.channel.channel_state.channel_state_writer import SEQUENCE_NUMBER_UNKNOWN
from kit.stream.settings.parts import Factory, OwnPart, PartError, made

NAME = "channel_state_capture"


class CaptureWriter:
    """What a capture writes with, held to what may be written: data, to a checkpoint that is under way there.

    Follows Flink's `ChannelStateWriter`; there data that comes too late fails the checkpoint.
    """

    __slots__ = ("_open", "_overtaken", "_overtaking", "_writer")

    def __init__(self, writer: InputStateWriter) -> None:
        self._writer = writer
        self._open: dict[InputChannelInfo, int] = {}
        """The checkpoint to which each input channel may add."""
        self._overtaking: tuple[int, ResultSubpartitionInfo] | None = None
        self._overtaken: list[DataElement] = []

    def add_input_data(self, checkpoint_id: int, channel: InputChannelInfo, buffers: Iterable[DataElement]) -> None:
        """This data of an input channel, in this order, belongs to the checkpoint. Flink: `addInputData`.

        Raises PartError for what is no data, and when the checkpoint is not under way on this channel.
        """
        call = f"add_input_data({checkpoint_id}, {channel!r}, ...)"
        if self._open.get(channel) != checkpoint_id:
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
        """This data of an output, in this order, belongs to the checkpoint. Flink: `addOutputData`.

        Raises PartError for what is no data, and outside of `barrier_overtakes` with the same two.
        """
        call = f"add_output_data({checkpoint_id}, {subpartition!r}, ...)"
        if self._overtaking != (checkpoint_id, subpartition):
            raise PartError(
                f"{NAME} of your own: {call}: the barrier of checkpoint {checkpoint_id} is not leaving this output. "
                "Expected data of the output that barrier_overtakes was called for"
            )
        self._overtaken += _data(buffers, call)

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
    """Decides for one task which data of its channels belongs to an unaligned checkpoint
    (`kit.stream.settings.parts.Parts`).

    `writer` takes that data. Channels are named by `InputChannelInfo` and `ResultSubpartitionInfo`, which can be keys
    of a dictionary. Elements are data (`DataElement`) or events, barriers among them.
    """

    def __init__(self, writer: CaptureWriter) -> None:
        self.writer = writer

    @abstractmethod
    def checkpoint_started(self, checkpoint_id: int, channel: InputChannelInfo, queue: Sequence[Element]) -> None:
        """An unaligned checkpoint begins in this task; said once for each input channel.

        `queue` is what the channel has brought and the task has not processed, in the order in which it was sent. The
        checkpoint's barrier is in its place there if it has come, even if it went ahead or was taken already. Flink
        1.11: `spillInflightBuffers`.
        """

    @abstractmethod
    def element_received(self, channel: InputChannelInfo, element: Element) -> None:
        """An input channel has brought an element, whether a checkpoint is under way or not.

        Flink 1.11: `notifyBufferReceived`, `notifyBarrierReceived`.
        """

    @abstractmethod
    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """All barriers of the checkpoint have come, or it was given up; said for each input channel.

        It may be said of an older checkpoint than the one that is under way. Flink: `stopPersisting`.
        """

    @abstractmethod
    def barrier_overtakes(self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: list[Element]) -> None:
        """The barrier leaves an output now, ahead of `queue`: what waits there, in the order in which it will be sent.

        Flink 1.11: `requestInflightBufferSnapshot`.
        """


class OwnCapture(OwnPart):
    """A capture of the user's own."""

    __slots__ = ()


class HeldCapture:
    """A user's capture as the channels of its task see it: with the bounds of each checkpoint kept."""

    __slots__ = ("_part", "_writer")

    def __init__(self, own: Factory, writer: InputStateWriter) -> None:
        self._writer = CaptureWriter(writer)
        contract: Any = ChannelStateCapture
        self._part: ChannelStateCapture = made(NAME, own, contract, OwnCapture, self._writer)

    def checkpoint_started(self, checkpoint_id: int, channel: InputChannelInfo, queue: Sequence[Element]) -> None:
        """A checkpoint begins on an input channel."""
        self._writer._open[channel] = checkpoint_id
        self._part.checkpoint_started(checkpoint_id, channel, queue)

    def element_received(self, channel: InputChannelInfo, element: Element) -> None:
        """An element has come."""
        self._part.element_received(channel, element)

    def checkpoint_stopped(self, checkpoint_id: int, channel: InputChannelInfo) -> None:
        """A checkpoint is over on an input channel; the end of an older one closes nothing."""
        self._part.checkpoint_stopped(checkpoint_id, channel)
        if self._writer._open.get(channel, checkpoint_id + 1) <= checkpoint_id:
            del self._writer._open[channel]

    def overtaken(
        self, checkpoint_id: int, subpartition: ResultSubpartitionInfo, queue: Iterable[Element]
    ) -> list[DataElement]:
        """What of an output's queue belongs to the checkpoint whose barrier leaves ahead of it."""
        writer = self._writer
        writer._overtaking, writer._overtaken = (checkpoint_id, subpartition), []
        self._part.barrier_overtakes(checkpoint_id, subpartition, list(queue))
        writer._overtaking = None
        found, writer._overtaken = writer._overtaken, []
        return found

    def __repr__(self) -> str:
        return f"HeldCapture({self._part!r})"


def create_capture(own: Factory | None, writer: InputStateWriter) -> HeldCapture | None:
    """The user's capture, if there is one. Raises PartError for what is none."""
    return None if own is None else HeldCapture(own, writer)
