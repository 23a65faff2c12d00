"""Handles of in-flight data: the buffers of a channel, in one direction, that an unaligned checkpoint captured.

Source: `AbstractChannelStateHandle` and its classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from kit.core.state.stream_handles import DelegatingStateObject, SizedStateObject, StreamStateHandle


@dataclass(frozen=True, slots=True, order=True)
class InputChannelInfo:
    """An input channel of a subtask: its gate, and its number in the gate. Source: `InputChannelInfo`."""

    gate_idx: int
    input_channel_idx: int


@dataclass(frozen=True, slots=True, order=True)
class ResultSubpartitionInfo:
    """An output channel of a subtask: its result partition, and its number in the partition.

    Source: `ResultSubpartitionInfo`.
    """

    partition_idx: int
    subpartition_idx: int


ChannelInfoT = TypeVar("ChannelInfoT", InputChannelInfo, ResultSubpartitionInfo)


@dataclass(frozen=True, slots=True)
class ChannelStateContent(Generic[ChannelInfoT]):
    """The buffers of one channel inside a merged handle: the offset of each, in bytes, and their total size."""

    info: ChannelInfoT
    offsets: tuple[int, ...]
    size: int


class ChannelStateHandle(SizedStateObject, DelegatingStateObject):
    """The buffers of one channel. Source: `AbstractChannelStateHandle`."""

    __slots__ = ()

    def unmerge(self) -> tuple[Self, ...]:
        """Return the handle itself: it is that of one channel."""
        return (self,)


@dataclass(frozen=True, slots=True, repr=False)
class InputChannelStateHandle(ChannelStateHandle):
    """Buffers that had arrived on one input channel. Source: `InputChannelStateHandle`.

    `subtask_index` is the subtask that took the snapshot. `size` is the size of this channel's buffers, each with its
    length prefix; the delegate may hold other channels too.
    """

    subtask_index: int
    info: InputChannelInfo
    offsets: tuple[int, ...]
    size: int
    delegate: StreamStateHandle

    def _label(self) -> str:
        where = f"gate {self.info.gate_idx} channel {self.info.input_channel_idx}"
        return f"subtask {self.subtask_index}, {where}, {len(self.offsets)} buffers, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class ResultSubpartitionStateHandle(ChannelStateHandle):
    """Buffers that had not yet left one result subpartition.

    The fields are those of the input handle. Source: `ResultSubpartitionStateHandle`.
    """

    subtask_index: int
    info: ResultSubpartitionInfo
    offsets: tuple[int, ...]
    size: int
    delegate: StreamStateHandle

    def _label(self) -> str:
        where = f"partition {self.info.partition_idx} subpartition {self.info.subpartition_idx}"
        return f"subtask {self.subtask_index}, {where}, {len(self.offsets)} buffers, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class MergedInputChannelStateHandle(SizedStateObject, DelegatingStateObject):
    """All input channels of a subtask that are in one stream. Source: `MergedInputChannelStateHandle`, since 2.1."""

    subtask_index: int
    contents: tuple[ChannelStateContent[InputChannelInfo], ...]
    size: int
    delegate: StreamStateHandle

    def unmerge(self) -> tuple[InputChannelStateHandle, ...]:
        """Return one handle per channel, in order."""
        return tuple(
            InputChannelStateHandle(self.subtask_index, part.info, part.offsets, part.size, self.delegate)
            for part in self.contents
        )

    def _label(self) -> str:
        return f"subtask {self.subtask_index}, {len(self.contents)} channels, {self.size} B"


@dataclass(frozen=True, slots=True, repr=False)
class MergedResultSubpartitionStateHandle(SizedStateObject, DelegatingStateObject):
    """All result subpartitions of a subtask that are in one stream.

    Source: `MergedResultSubpartitionStateHandle`, since 2.1.
    """

    subtask_index: int
    contents: tuple[ChannelStateContent[ResultSubpartitionInfo], ...]
    size: int
    delegate: StreamStateHandle

    def unmerge(self) -> tuple[ResultSubpartitionStateHandle, ...]:
        """Return one handle per subpartition, in order."""
        return tuple(
            ResultSubpartitionStateHandle(self.subtask_index, part.info, part.offsets, part.size, self.delegate)
            for part in self.contents
        )

    def _label(self) -> str:
        return f"subtask {self.subtask_index}, {len(self.contents)} subpartitions, {self.size} B"


InputStateHandle = InputChannelStateHandle | MergedInputChannelStateHandle
OutputStateHandle = ResultSubpartitionStateHandle | MergedResultSubpartitionStateHandle
