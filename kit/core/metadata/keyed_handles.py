"""Keyed handles in `_metadata`: a tag, then the fields of its class.

A class that gained fields got a new tag, and the old one can still be read. Which of the two is written follows from
the handle (whether it has an id) and from the version. Source: `MetadataV2V3SerializerBase`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import md5
from typing import Any
from uuid import UUID

from kit.core.metadata.primitives import DataInput, DataOutput, MetadataError
from kit.core.metadata.stream_handles import (
    KEY_GROUPS,
    NULL,
    read_key_group_offsets,
    read_stream,
    unknown_class,
    unknown_tag,
    write_key_group_offsets,
    write_stream,
)
from kit.core.metadata.versions import ChangelogLayout
from kit.core.state.handles import (
    ChangelogStateBackendHandle,
    ChangelogStateHandle,
    ChangelogStateHandleStreamImpl,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    InMemoryChangelogStateHandle,
    KeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    StateChange,
)

INCREMENTAL = 5
SAVEPOINT_KEY_GROUPS = 7
CHANGELOG = 8
CHANGELOG_IN_MEMORY = 9
CHANGELOG_STREAMS = 10
INCREMENTAL_WITH_ID = 11
KEY_GROUPS_WITH_ID = 12
CHANGELOG_STREAMS_WITH_STORAGE = 13
CHANGELOG_WITH_CHECKPOINT = 14

DEFAULT_STORAGE = "filesystem"


def read_keyed(source: DataInput, what: str) -> KeyedStateHandle | None:
    """Read the next keyed handle; None if the tag says that there is none."""
    tag = source.int8(f"the tag of {what}")
    if tag == NULL:
        return None
    reader = READERS.get(tag)
    if reader is None:
        raise unknown_tag(source, tag, f"a keyed handle for {what}", READERS)
    return reader(source)


def write_keyed(out: DataOutput, handle: KeyedStateHandle | None) -> None:
    """Write one keyed handle, or the tag for none."""
    if handle is None:
        out.int8(NULL)
        return
    writer = WRITERS.get(type(handle))
    if writer is None:
        raise unknown_class(handle, "a keyed handle", WRITERS)
    writer(out, handle)


# --- key groups in one stream -----------------------------------------------------------------------------------------


def _read_key_groups_with_id(source: DataInput) -> KeyGroupsStateHandle:
    key_groups = source.key_group_range()
    offsets = source.longs(len(key_groups), "offsets of key groups")
    delegate = read_stream(source, "key groups")
    return KeyGroupsStateHandle(key_groups, offsets, delegate, source.utf("the id of a handle"))


def _read_savepoint_key_groups(source: DataInput) -> KeyGroupsSavepointStateHandle:
    handle = read_key_group_offsets(source)
    return KeyGroupsSavepointStateHandle(handle.key_group_range, handle.offsets, handle.delegate)


def _write_key_groups(out: DataOutput, handle: KeyGroupsStateHandle) -> None:
    if handle.state_handle_id is None or not out.version.handle_ids:
        out.int8(KEY_GROUPS)
        write_key_group_offsets(out, handle)
    else:
        out.int8(KEY_GROUPS_WITH_ID)
        write_key_group_offsets(out, handle)
        out.utf(handle.state_handle_id)


def _write_savepoint_key_groups(out: DataOutput, handle: KeyGroupsSavepointStateHandle) -> None:
    out.int8(SAVEPOINT_KEY_GROUPS)
    write_key_group_offsets(out, handle)


# --- files of an LSM tree ---------------------------------------------------------------------------------------------


def _read_incremental(source: DataInput, *, with_id: bool) -> IncrementalRemoteKeyedStateHandle:
    checkpoint_id = source.int64("a checkpoint id")
    backend_identifier = _uuid(source.utf("the id of a backend"))
    key_groups = source.key_group_range()
    recorded_size = source.int64("a checkpointed size") if with_id else None
    meta_state = read_stream(source, "the meta data of a backend")
    shared = _read_files(source, "shared files")
    private = _read_files(source, "private files")
    if recorded_size is None:
        recorded_size = meta_state.state_size + sum(part.state_size for part in shared + private)
    # a missing id is written as an empty string: so a handle without an id keeps its recorded size
    state_handle_id = source.utf("the id of a handle") or None if with_id else None
    return IncrementalRemoteKeyedStateHandle(
        backend_identifier, key_groups, checkpoint_id, shared, private, meta_state, recorded_size, state_handle_id
    )


def _write_incremental(out: DataOutput, handle: IncrementalRemoteKeyedStateHandle) -> None:
    nothing_to_add = handle.state_handle_id is None and handle.checkpointed_size == handle.state_size
    with_id = out.version.handle_ids and not nothing_to_add
    out.int8(INCREMENTAL_WITH_ID if with_id else INCREMENTAL)
    out.int64(handle.checkpoint_id)
    out.utf(handle.backend_identifier)
    out.key_group_range(handle.key_group_range)
    if with_id:
        out.int64(handle.checkpointed_size)
    write_stream(out, handle.meta_state)
    _write_files(out, handle.shared_state)
    _write_files(out, handle.private_state)
    if with_id:
        out.utf(handle.state_handle_id or "")


def _read_files(source: DataInput, what: str) -> tuple[HandleAndLocalPath, ...]:
    count = source.count(3, what)
    return tuple(
        HandleAndLocalPath(source.utf("the local path of a file"), read_stream(source, what)) for _ in range(count)
    )


def _write_files(out: DataOutput, files: tuple[HandleAndLocalPath, ...]) -> None:
    out.int32(len(files))
    for file in files:
        out.utf(file.local_path)
        write_stream(out, file.handle)


_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def _uuid(text: str) -> str:
    """Return the id of a backend. Before Flink 1.4 it was any string, from which Flink makes a UUID."""
    if _UUID.fullmatch(lower := text.lower()):
        return lower
    return str(UUID(bytes=md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest(), version=3))


# --- changelog --------------------------------------------------------------------------------------------------------


def _read_changelog(source: DataInput, *, with_checkpoint: bool) -> ChangelogStateBackendHandle:
    has_sizes = source.version.changelog is not ChangelogLayout.FLINK_1_14
    key_groups = source.key_group_range()
    if not key_groups:
        raise source.error("a changelog of no key groups", "one or more", offset=source.pos - 8)
    recorded_size = source.int64("a checkpointed size") if has_sizes else None
    source.enter()
    # Flink omits a materialized handle that is null
    count = source.count(1, "materialized handles")
    read = [read_keyed(source, "a materialized handle") for _ in range(count)]
    materialized = tuple(handle for handle in read if handle is not None)
    count = source.count(1, "changelog handles")
    changes = tuple(_read_changelog_part(source) for _ in range(count))
    source.leave()
    materialization_id = source.int64("a materialization id") if has_sizes else 0
    checkpoint_id = source.int64("a checkpoint id") if with_checkpoint else materialization_id
    state_handle_id = source.utf("the id of a handle") if has_sizes else ""
    if recorded_size is None:
        recorded_size = sum(part.state_size for part in materialized + changes)
    return ChangelogStateBackendHandle(
        materialized, changes, key_groups, checkpoint_id, materialization_id, recorded_size, state_handle_id
    )


def _read_changelog_part(source: DataInput) -> ChangelogStateHandle:
    start = source.pos
    handle = read_keyed(source, "a changelog handle")
    if not isinstance(handle, ChangelogStateHandle):
        raise source.error(f"{handle!r}", "a part of a changelog", offset=start)
    return handle


def _write_changelog(out: DataOutput, handle: ChangelogStateBackendHandle) -> None:
    layout = out.version.changelog
    # version 3 has one number for both ids: if they differ, the newer tag is needed
    with_checkpoint = layout is ChangelogLayout.FLINK_1_16 or (
        layout is ChangelogLayout.FLINK_1_15 and handle.checkpoint_id != handle.materialization_id
    )
    has_sizes = layout is not ChangelogLayout.FLINK_1_14
    if not handle.key_group_range:
        raise MetadataError(f"{handle!r} of no key groups", "one or more", "leave out a subtask without keys")
    out.int8(CHANGELOG_WITH_CHECKPOINT if with_checkpoint else CHANGELOG)
    out.key_group_range(handle.key_group_range)
    if has_sizes:
        out.int64(handle.checkpointed_size)
    for parts in (handle.materialized, handle.non_materialized):
        out.int32(len(parts))
        for part in parts:
            write_keyed(out, part)
    if has_sizes:
        out.int64(handle.materialization_id)
    if with_checkpoint:
        out.int64(handle.checkpoint_id)
    if has_sizes:
        out.utf(handle.state_handle_id)


def _read_changes_in_memory(source: DataInput) -> InMemoryChangelogStateHandle:
    key_groups = source.key_group_range()
    first, last = _read_sequence_number(source), _read_sequence_number(source)
    count = source.count(8, "changes")
    changes = tuple(StateChange(source.int32("a key group"), source.blob("bytes of a change")) for _ in range(count))
    has_id = source.version.changelog is not ChangelogLayout.FLINK_1_14
    state_handle_id = source.utf("the id of a handle") if has_id else ""
    return InMemoryChangelogStateHandle(key_groups, first, last, changes, state_handle_id)


def _read_sequence_number(source: DataInput) -> int:
    number = source.int64("a sequence number")
    if number < 0:
        raise source.error(f"sequence number {number}", "0 or more", offset=source.pos - 8)
    return number


def _write_changes_in_memory(out: DataOutput, handle: InMemoryChangelogStateHandle) -> None:
    if min(handle.from_sequence, handle.to_sequence) < 0:
        found = f"sequence numbers {handle.from_sequence} to {handle.to_sequence} in {handle!r}"
        raise MetadataError(found, "0 or more", "count changes from 0")
    out.int8(CHANGELOG_IN_MEMORY)
    out.key_group_range(handle.key_group_range)
    out.int64(handle.from_sequence)
    out.int64(handle.to_sequence)
    out.int32(len(handle.changes))
    for change in handle.changes:
        out.int32(change.key_group)
        out.blob(change.change)
    if out.version.changelog is not ChangelogLayout.FLINK_1_14:
        out.utf(handle.state_handle_id)


def _read_change_streams(source: DataInput, *, with_storage: bool) -> ChangelogStateHandleStreamImpl:
    key_groups = source.key_group_range()
    count = source.count(9, "streams of changes")
    streams = []
    for _ in range(count):
        offset = source.int64("an offset")
        streams.append((read_stream(source, "changes"), offset))
    size = source.int64("the size of the changes")
    has_sizes = source.version.changelog is not ChangelogLayout.FLINK_1_14
    checkpointed_size = source.int64("a checkpointed size") if has_sizes else size
    state_handle_id = source.utf("the id of a handle") if has_sizes else ""
    storage = source.utf("a storage identifier") if with_storage else DEFAULT_STORAGE
    return ChangelogStateHandleStreamImpl(key_groups, tuple(streams), size, checkpointed_size, storage, state_handle_id)


def _write_change_streams(out: DataOutput, handle: ChangelogStateHandleStreamImpl) -> None:
    layout = out.version.changelog
    with_storage = layout is ChangelogLayout.FLINK_1_16 or (
        layout is ChangelogLayout.FLINK_1_15 and handle.storage_identifier != DEFAULT_STORAGE
    )
    out.int8(CHANGELOG_STREAMS_WITH_STORAGE if with_storage else CHANGELOG_STREAMS)
    out.key_group_range(handle.key_group_range)
    out.int32(len(handle.handles_and_offsets))
    for stream, offset in handle.handles_and_offsets:
        out.int64(offset)
        write_stream(out, stream)
    out.int64(handle.size)
    if layout is not ChangelogLayout.FLINK_1_14:
        out.int64(handle.checkpointed_size)
        out.utf(handle.state_handle_id)
    if with_storage:
        out.utf(handle.storage_identifier)


READERS: dict[int, Callable[[DataInput], KeyedStateHandle]] = {
    KEY_GROUPS: read_key_group_offsets,
    KEY_GROUPS_WITH_ID: _read_key_groups_with_id,
    SAVEPOINT_KEY_GROUPS: _read_savepoint_key_groups,
    INCREMENTAL: lambda source: _read_incremental(source, with_id=False),
    INCREMENTAL_WITH_ID: lambda source: _read_incremental(source, with_id=True),
    CHANGELOG: lambda source: _read_changelog(source, with_checkpoint=False),
    CHANGELOG_WITH_CHECKPOINT: lambda source: _read_changelog(source, with_checkpoint=True),
    CHANGELOG_IN_MEMORY: _read_changes_in_memory,
    CHANGELOG_STREAMS: lambda source: _read_change_streams(source, with_storage=False),
    CHANGELOG_STREAMS_WITH_STORAGE: lambda source: _read_change_streams(source, with_storage=True),
}

WRITERS: dict[type, Callable[[DataOutput, Any], None]] = {
    KeyGroupsStateHandle: _write_key_groups,
    KeyGroupsSavepointStateHandle: _write_savepoint_key_groups,
    IncrementalRemoteKeyedStateHandle: _write_incremental,
    ChangelogStateBackendHandle: _write_changelog,
    InMemoryChangelogStateHandle: _write_changes_in_memory,
    ChangelogStateHandleStreamImpl: _write_change_streams,
}
