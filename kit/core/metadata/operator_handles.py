"""Handles of operator state in `_metadata`: the offsets of each list state by name, then their stream.

Source: `MetadataV2V3SerializerBase.serializeOperatorStateHandle`.
"""

from __future__ import annotations

from kit.core.metadata.primitives import DataInput, DataOutput
from kit.core.metadata.stream_handles import NULL, read_stream, unknown_class, unknown_tag, write_stream
from kit.core.state.handles import (
    EmptyFileMergingOperatorStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    SegmentFileStateHandle,
    StateMetaInfo,
    StreamStateHandle,
)

STREAM = 4
FILE_MERGING = 17

_MODES = {mode.value: mode for mode in OperatorStateMode}
_TAGS: dict[type, int] = {
    OperatorStreamStateHandle: STREAM,
    FileMergingOperatorStreamStateHandle: FILE_MERGING,
    EmptyFileMergingOperatorStreamStateHandle: FILE_MERGING,
}


def read_operator(source: DataInput, what: str) -> OperatorStreamStateHandle | None:
    """Read the next handle of operator state; None if the tag says that there is none."""
    tag = source.int8(f"the tag of {what}")
    if tag == NULL:
        return None
    if tag not in (STREAM, FILE_MERGING):
        raise unknown_tag(source, tag, f"a handle of {what}", {STREAM: None, FILE_MERGING: None})
    states = _read_states(source)
    if tag == STREAM:
        return OperatorStreamStateHandle(states, read_stream(source, what))
    task_owned_dir = source.utf("the directory of task-owned state")
    shared_dir = source.utf("the directory of shared state")
    empty = source.int8("whether there is operator state")
    delegate = _read_segment(source, what)
    cls = EmptyFileMergingOperatorStreamStateHandle if empty else FileMergingOperatorStreamStateHandle
    return cls(states, delegate, task_owned_dir, shared_dir)


def _read_states(source: DataInput) -> dict[str, StateMetaInfo]:
    states: dict[str, StateMetaInfo] = {}
    for _ in range(source.count(7, "list states")):
        name = source.utf("the name of a list state")
        mode = _MODES.get(source.int8("the mode of a list state"))
        if mode is None:
            expected = ", ".join(f"{mode.value} ({mode.name})" for mode in OperatorStateMode)
            found = f"an unknown mode of the list state {name!r}"
            raise source.error(found, f"one of {expected}", offset=source.pos - 1)
        count = source.count(8, "entries of a list state")
        if name in states:
            raise source.error(f"the list state {name!r} a second time", "each name once")
        states[name] = StateMetaInfo(source.longs(count, "offsets"), mode)
    return states


def _read_segment(source: DataInput, what: str) -> StreamStateHandle:
    start = source.pos
    handle = read_stream(source, what)
    if not isinstance(handle, SegmentFileStateHandle | EmptySegmentFileStateHandle):
        raise source.error(f"{handle!r}", "a segment of a merged file", offset=start)
    return handle


def write_operator(out: DataOutput, handle: OperatorStreamStateHandle) -> None:
    """Write one handle of operator state."""
    tag = _TAGS.get(type(handle))
    if tag is None:
        raise unknown_class(handle, "a handle of operator state", _TAGS)
    out.int8(tag)
    states = handle.state_name_to_partition_offsets
    out.int32(len(states))
    for name, info in states.items():
        out.utf(name)
        out.int8(info.mode)
        out.int32(len(info.offsets))
        out.longs(info.offsets)
    if isinstance(handle, FileMergingOperatorStreamStateHandle):
        out.utf(handle.task_owned_dir)
        out.utf(handle.shared_dir)
        out.int8(isinstance(handle, EmptyFileMergingOperatorStreamStateHandle))
    write_stream(out, handle.delegate)
