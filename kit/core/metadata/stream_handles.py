"""Stream handles in `_metadata`: a byte that identifies the class, then its fields.

Stream, keyed and operator handles share one numbering of tags. Source: `MetadataV2V3SerializerBase`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.metadata.primitives import DataInput, DataOutput, MetadataError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    PlaceholderStreamStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StateScope,
    StreamStateHandle,
)

NULL = 0
BYTE_STREAM = 1
FILE = 2
KEY_GROUPS = 3
RELATIVE_FILE = 6
SEGMENT_FILE = 15
EMPTY_SEGMENT_FILE = 16
PLACEHOLDER = 127
"""The kit's own, between a task and the coordinator only: the coordinator writes no placeholder into `_metadata`."""


def read_stream(source: DataInput, what: str) -> StreamStateHandle:
    """Read the next stream handle. Raises `MetadataError` if there is none."""
    handle = read_optional_stream(source, what)
    if handle is None:
        raise source.error(f"no handle for {what}", "a stream handle", offset=source.pos - 1)
    return handle


def read_optional_stream(source: DataInput, what: str) -> StreamStateHandle | None:
    """Read the next stream handle; None if the tag says that there is none."""
    tag = source.int8(f"the tag of {what}")
    if tag == NULL:
        return None
    if tag == PLACEHOLDER and source.version.internal:
        return _read_placeholder(source)
    reader = READERS.get(tag)
    if reader is None:
        raise unknown_tag(source, tag, f"a stream handle for {what}", READERS)
    return reader(source)


def write_stream(out: DataOutput, handle: StreamStateHandle | None) -> None:
    """Write one stream handle, or the tag for none."""
    if handle is None:
        out.int8(NULL)
        return
    if isinstance(handle, PlaceholderStreamStateHandle) and out.version.internal:
        _write_placeholder(out, handle)
        return
    writer = WRITERS.get(type(handle))
    if writer is None:
        raise unknown_class(handle, "a stream handle", WRITERS)
    writer(out, handle)


def unknown_tag(source: DataInput, tag: int, expected: str, readers: dict[int, Any]) -> MetadataError:
    """Return the error for a tag, just read, that `readers` does not know."""
    known = ", ".join(str(tag) for tag in sorted(readers))
    return source.error(f"a handle with tag {tag}", f"{expected}, whose tag is one of {known}", offset=source.pos - 1)


def unknown_class(handle: object, expected: str, writers: dict[type, Any]) -> MetadataError:
    """Return the error for an object that `writers` does not know."""
    known = ", ".join(sorted(cls.__name__ for cls in writers))
    return MetadataError(f"a {type(handle).__name__}", f"{expected}, one of {known}", "pass one of these")


# --- byte stream ------------------------------------------------------------------------------------------------------


def _read_byte_stream(source: DataInput) -> ByteStreamStateHandle:
    name = source.utf("the name of a byte stream")
    return ByteStreamStateHandle(name, source.blob("bytes of state"))


def _write_byte_stream(out: DataOutput, handle: ByteStreamStateHandle) -> None:
    out.int8(BYTE_STREAM)
    out.utf(handle.handle_name)
    out.blob(handle.data)


# --- files ------------------------------------------------------------------------------------------------------------


def _read_file(source: DataInput) -> FileStateHandle:
    size = source.int64("the size of a file")
    return FileStateHandle(source.utf("the path of a file"), size)


def _write_file(out: DataOutput, handle: FileStateHandle) -> None:
    out.int8(FILE)
    out.int64(handle.size)
    out.utf(handle.path)


def _read_relative_file(source: DataInput) -> RelativeFileStateHandle:
    relative_path = source.utf("the relative path of a file")
    size = source.int64("the size of a file")
    if source.version.internal:
        return RelativeFileStateHandle(relative_path, size, source.utf("the path of a file"))
    return RelativeFileStateHandle(relative_path, size, source.base + relative_path)


def _write_relative_file(out: DataOutput, handle: RelativeFileStateHandle) -> None:
    out.int8(RELATIVE_FILE)
    out.utf(handle.relative_path)
    out.int64(handle.size)
    if out.version.internal:
        out.utf(handle.path)


# --- registered files -------------------------------------------------------------------------------------------------


def _read_placeholder(source: DataInput) -> PlaceholderStreamStateHandle:
    size = source.int64("the size of a registered file")
    return PlaceholderStreamStateHandle(source.utf("the key of a registered file"), size)


def _write_placeholder(out: DataOutput, handle: PlaceholderStreamStateHandle) -> None:
    out.int8(PLACEHOLDER)
    out.int64(handle.size)
    out.utf(handle.registered_id)


# --- segments of files ------------------------------------------------------------------------------------------------


def _read_segment_file(source: DataInput) -> SegmentFileStateHandle:
    start_pos = source.int64("the start of a segment")
    size = source.int64("the size of a segment")
    scope = source.int32("the scope of a segment")
    if scope not in (StateScope.EXCLUSIVE, StateScope.SHARED):
        raise source.error(f"scope {scope}", "0 (exclusive) or 1 (shared)", offset=source.pos - 4)
    path = source.utf("the path of a file")
    return SegmentFileStateHandle(start_pos, size, StateScope(scope), path, source.utf("the id of a logical file"))


def _write_segment_file(out: DataOutput, handle: SegmentFileStateHandle) -> None:
    out.int8(SEGMENT_FILE)
    out.int64(handle.start_pos)
    out.int64(handle.size)
    out.int32(handle.scope)
    out.utf(handle.path)
    out.utf(handle.logical_file_id)


def _read_empty_segment_file(source: DataInput) -> EmptySegmentFileStateHandle:
    return EmptySegmentFileStateHandle()


def _write_empty_segment_file(out: DataOutput, handle: EmptySegmentFileStateHandle) -> None:
    out.int8(EMPTY_SEGMENT_FILE)


# --- a keyed handle read as one stream --------------------------------------------------------------------------------


def read_key_group_offsets(source: DataInput) -> KeyGroupsStateHandle:
    """Read the fields that every form of a `KeyGroupsStateHandle` starts with; the id is left out."""
    key_groups = source.key_group_range()
    offsets = source.longs(len(key_groups), "offsets of key groups")
    source.enter()
    delegate = read_stream(source, "key groups")
    source.leave()
    return KeyGroupsStateHandle(key_groups, offsets, delegate)


def write_key_group_offsets(out: DataOutput, handle: KeyGroupsStateHandle) -> None:
    """Write the fields that every form of a `KeyGroupsStateHandle` starts with."""
    out.key_group_range(handle.key_group_range)
    out.longs(handle.offsets)
    write_stream(out, handle.delegate)


def _write_key_groups_as_stream(out: DataOutput, handle: KeyGroupsStateHandle) -> None:
    out.int8(KEY_GROUPS)
    write_key_group_offsets(out, handle)


READERS: dict[int, Callable[[DataInput], StreamStateHandle]] = {
    BYTE_STREAM: _read_byte_stream,
    FILE: _read_file,
    KEY_GROUPS: read_key_group_offsets,
    RELATIVE_FILE: _read_relative_file,
    SEGMENT_FILE: _read_segment_file,
    EMPTY_SEGMENT_FILE: _read_empty_segment_file,
}

WRITERS: dict[type, Callable[[DataOutput, Any], None]] = {
    ByteStreamStateHandle: _write_byte_stream,
    FileStateHandle: _write_file,
    KeyGroupsStateHandle: _write_key_groups_as_stream,
    KeyGroupsSavepointStateHandle: _write_key_groups_as_stream,
    RelativeFileStateHandle: _write_relative_file,
    SegmentFileStateHandle: _write_segment_file,
    EmptySegmentFileStateHandle: _write_empty_segment_file,
}
