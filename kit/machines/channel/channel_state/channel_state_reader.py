"""The reader that restores a task's in-flight data into its channels.

The handles of several channels, and of several old subtasks, may refer to one stream of bytes. Each stream is read once
from front to back, chunk by chunk in order of offset, so that each channel gets its buffers in the order in which they
were written. The code is pure: the host has read the bytes (`RestoredPart`).

Follows `SequentialChannelStateReaderImpl` and `ChannelStateChunkReader`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from kit.core.protocol.elements import DataElement
from kit.core.protocol.snapshots import RestoredPart
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import InputChannelStateHandle, ResultSubpartitionStateHandle, StreamStateHandle
from kit.core.state.rescale_mappings import NO_RESCALE, InflightDataRescalingDescriptor
from kit.core.state.subtask_state_kind import SubtaskStateKind
from kit.machines.channel.channel_state.channel_state_serializer import ChannelStateSerializer, Source
from kit.machines.channel.recovered_state_handlers import (
    InputChannelRecoveredStateHandler,
    RecoveringChannel,
    RecoveringPartition,
    ResultSubpartitionRecoveredStateHandler,
)

InfoT = TypeVar("InfoT")
InfoT_contra = TypeVar("InfoT_contra", contravariant=True)

_Handle = InputChannelStateHandle | ResultSubpartitionStateHandle


class RecoveredChannelStateHandler(Protocol[InfoT_contra]):
    """A receiver of recovered buffers; see `kit.machines.channel.recovered_state_handlers`."""

    def recover(self, info: InfoT_contra, old_subtask: int, elements: Sequence[DataElement]) -> None:
        """Take elements that were in channel `info` of the old subtask."""

    def close(self) -> None:
        """Finish: everything has been read."""


class ChannelStateChunkReader(Generic[InfoT]):
    """The reader of one chunk, which passes on its elements."""

    def __init__(self, serializer: ChannelStateSerializer) -> None:
        self._serializer = serializer

    def read_chunk(
        self,
        source: Source,
        offset: int,
        handler: RecoveredChannelStateHandler[InfoT],
        info: InfoT,
        old_subtask: int,
    ) -> None:
        """Pass on the elements of the chunk at `offset`: all of them, or none if they cannot be read.

        Raises StateRestoreError for a damaged chunk.
        """
        if source.tell() != offset:
            source.seek(offset)
        length = self._serializer.read_length(source)
        if length:
            handler.recover(info, old_subtask, self._serializer.read_data(source, length))


class SequentialChannelStateReader:
    """The reader of the channel state among `parts`; it skips parts of other kinds.

    `input_rescaling` comes from the head of the chain, `output_rescaling` from its tail (`RestoredSubtaskState`).

    Follows Flink's `SequentialChannelStateReader`.
    """

    def __init__(
        self,
        parts: Iterable[RestoredPart],
        input_rescaling: InflightDataRescalingDescriptor = NO_RESCALE,
        output_rescaling: InflightDataRescalingDescriptor = NO_RESCALE,
    ) -> None:
        self._parts = tuple(parts)
        self._input_rescaling = input_rescaling
        self._output_rescaling = output_rescaling
        self._serializer = ChannelStateSerializer()

    def read_input_data(self, gates: Sequence[Sequence[RecoveringChannel]]) -> None:
        """Fill the input channels, gate by gate, and signal the end to each. Raises StateRestoreError.

        Output buffers of upstream subtasks that this one recovers itself come after its own input, as they did before.

        Flink: `readInputData`.
        """
        handler = InputChannelRecoveredStateHandler(gates, self._input_rescaling)
        for kind in (SubtaskStateKind.INPUT_CHANNEL, SubtaskStateKind.UPSTREAM_OUTPUT_BUFFER):
            self._read(kind, handler)
        handler.close()

    def read_output_data(
        self, partitions: Sequence[RecoveringPartition], *, notify_and_block_on_completion: bool = False
    ) -> None:
        """Fill the result partitions, and signal the end to each. Raises StateRestoreError.

        Flink: `readOutputData`.
        """
        handler = ResultSubpartitionRecoveredStateHandler(
            partitions, self._output_rescaling, notify_and_block_on_completion=notify_and_block_on_completion
        )
        self._read(SubtaskStateKind.RESULT_SUBPARTITION, handler)
        handler.close()

    def _read(self, kind: SubtaskStateKind, handler: RecoveredChannelStateHandler[Any]) -> None:
        chunks = ChannelStateChunkReader[Any](self._serializer)
        for data, handles in _by_stream(part for part in self._parts if part.kind == kind):
            try:
                source = pa.BufferReader(data)
                self._serializer.read_header(source)
                offsets = [(offset, handle) for handle in handles for offset in handle.offsets]
                for offset, handle in sorted(offsets, key=itemgetter(0)):
                    chunks.read_chunk(source, offset, handler, handle.info, handle.subtask_index)
            except StateRestoreError as error:
                stream = handles[0].delegate
                raise StateRestoreError(f"in-flight data in {stream.path or stream}: {error}") from error

    def __repr__(self) -> str:
        return f"SequentialChannelStateReader({len(self._parts)} parts)"


def _by_stream(parts: Iterable[RestoredPart]) -> list[tuple[Any, list[_Handle]]]:
    """Return the handles of each stream, with its bytes, in the order in which the streams first appear."""
    streams: dict[StreamStateHandle, tuple[Any, list[_Handle]]] = {}
    seen: set[tuple[Any, int]] = set()
    for part in parts:
        for handle in part.handle.unmerge():
            channel = (handle.info, handle.subtask_index)
            if channel in seen:
                raise StateRestoreError(f"{handle!r} is the second of its channel: its buffers would lose their order")
            seen.add(channel)
            streams.setdefault(handle.delegate, (part.data, []))[1].append(handle)
    return list(streams.values())
