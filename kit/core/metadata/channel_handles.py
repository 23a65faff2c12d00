"""Handles of in-flight data in `_metadata`.

Up to version 5 each channel has a handle of its own; Flink 1.11 left out the subtask's index. Version 6 gives each
handle a type and adds merged ones, which list many channels in a nested block. For earlier versions, merged handles are
split into single ones.

Source: `ChannelStateHandleSerializer`, and from 2.1 on its second version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

from kit.core.metadata.primitives import INT_PAIR, NONE, DataInput, DataOutput, MetadataError
from kit.core.metadata.stream_handles import read_stream, unknown_class, write_stream
from kit.core.metadata.versions import ChannelLayout
from kit.core.state.handles import (
    ChannelStateContent,
    InputChannelInfo,
    InputChannelStateHandle,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    ResultSubpartitionInfo,
    ResultSubpartitionStateHandle,
)


@dataclass(frozen=True, slots=True)
class ChannelSide:
    """The input or the output side: its classes, their types in version 6, and the two numbers of a channel."""

    what: str
    info: Callable[[int, int], Any]
    numbers: attrgetter[tuple[int, int]]
    single: type
    single_type: int
    merged: type
    merged_type: int


INPUT = ChannelSide(
    what="input channels' state",
    info=InputChannelInfo,
    numbers=attrgetter("gate_idx", "input_channel_idx"),
    single=InputChannelStateHandle,
    single_type=1,
    merged=MergedInputChannelStateHandle,
    merged_type=3,
)

OUTPUT = ChannelSide(
    what="result subpartitions' state",
    info=ResultSubpartitionInfo,
    numbers=attrgetter("partition_idx", "subpartition_idx"),
    single=ResultSubpartitionStateHandle,
    single_type=2,
    merged=MergedResultSubpartitionStateHandle,
    merged_type=4,
)

_MIN_BYTES_OF_HANDLE = 18  # for a merged one: type, subtask index, size, the tag of its delegate, length of the rest
_MIN_BYTES_OF_CONTENT = 20


def read_channels(source: DataInput, side: ChannelSide, subtask_index: int) -> tuple[Any, ...]:
    """Read the handles of one side of subtask `subtask_index`."""
    layout = source.version.channels
    if layout is ChannelLayout.NONE:
        return ()
    count = source.count(_MIN_BYTES_OF_HANDLE, side.what)
    if not count:
        return ()
    if layout is ChannelLayout.TYPED:
        return tuple(_read_typed(source, side) for _ in range(count))
    if layout is ChannelLayout.WITH_SUBTASK:
        return tuple(_read_single(source, side, source.int32("a subtask index")) for _ in range(count))
    return tuple(_read_single(source, side, subtask_index) for _ in range(count))


def write_channels(out: DataOutput, side: ChannelSide, handles: tuple[Any, ...]) -> None:
    """Write the handles of one side of a subtask."""
    layout = out.version.channels
    if not handles and layout is not ChannelLayout.NONE:
        out += NONE
        return
    for handle in handles:
        if not isinstance(handle, side.single | side.merged):
            raise unknown_class(handle, f"a handle of {side.what}", {side.single: 0, side.merged: 0})
    if layout is ChannelLayout.NONE:
        if handles:
            raise MetadataError(
                f"{len(handles)} handles of {side.what}", f"none in {out.version!r}", "write version 3 or later"
            )
        return
    if handles and layout is not ChannelLayout.TYPED:
        handles = tuple(chain.from_iterable(handle.unmerge() for handle in handles))
    out.int32(len(handles))
    for handle in handles:
        if layout is ChannelLayout.TYPED:
            _write_typed(out, side, handle)
        else:
            _write_single(out, side, handle)


def _read_typed(source: DataInput, side: ChannelSide) -> Any:
    kind = source.int8(f"the type of a handle of {side.what}")
    if kind not in (side.single_type, side.merged_type):
        expected = f"{side.single_type} or {side.merged_type} for {side.what}"
        raise source.error(f"a handle of type {kind}", expected, offset=source.pos - 1)
    subtask_index = source.int32("a subtask index")
    if kind == side.single_type:
        return _read_single(source, side, subtask_index)
    size = source.int64("the size of channel state")
    delegate = read_stream(source, side.what)
    return side.merged(subtask_index, _read_contents(source, side), size, delegate)


def _read_single(source: DataInput, side: ChannelSide, subtask_index: int) -> Any:
    info = side.info(*source.int_pair("a channel"))
    offsets = source.longs(source.count(8, "offsets of buffers"), "offsets of buffers")
    size = source.int64("the size of channel state")
    return side.single(subtask_index, info, offsets, size, read_stream(source, side.what))


def _read_contents(source: DataInput, side: ChannelSide) -> tuple[ChannelStateContent[Any], ...]:
    length = source.count(1, "bytes of channel offsets")
    end = source.pos + length
    contents = []
    for _ in range(source.count(_MIN_BYTES_OF_CONTENT, "channels")):
        info = side.info(*source.int_pair("a channel"))
        size = source.int64("the size of channel state")
        offsets = source.longs(source.count(8, "offsets of buffers"), "offsets of buffers")
        contents.append(ChannelStateContent(info, offsets, size))
    if source.pos != end:
        raise source.error(f"channel offsets that end {source.pos - end:+d} bytes off", f"their end at byte {end}")
    return tuple(contents)


def _write_typed(out: DataOutput, side: ChannelSide, handle: Any) -> None:
    if isinstance(handle, side.single):
        out.int8(side.single_type)
        _write_single(out, side, handle)
        return
    out.int8(side.merged_type)
    out.int32(handle.subtask_index)
    out.int64(handle.size)
    write_stream(out, handle.delegate)
    contents = DataOutput.of(out.version)
    contents.int32(len(handle.contents))
    for content in handle.contents:
        contents += INT_PAIR.pack(*side.numbers(content.info))
        contents.int64(content.size)
        contents.int32(len(content.offsets))
        contents.longs(content.offsets)
    out.blob(contents)


def _write_single(out: DataOutput, side: ChannelSide, handle: Any) -> None:
    if out.version.channels is not ChannelLayout.WITHOUT_SUBTASK:
        out.int32(handle.subtask_index)
    out += INT_PAIR.pack(*side.numbers(handle.info))
    out.int32(len(handle.offsets))
    out.longs(handle.offsets)
    out.int64(handle.size)
    write_stream(out, handle.delegate)
