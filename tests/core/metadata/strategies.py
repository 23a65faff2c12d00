"""Random metadata for hypothesis: anything a version can hold, small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kit.core.metadata import LAYOUTS, CheckpointMetadata, MetadataVersion
from kit.core.metadata.versions import ChangelogLayout, ChannelLayout
from kit.core.protocol.properties import (
    CheckpointProperties,
    CheckpointType,
    PostCheckpointAction,
    SavepointFormatType,
    SavepointType,
    SharingFilesStrategy,
)
from kit.core.state import handles as h
from kit.core.state.operator_state import (
    FINISHED_SUBTASK_STATE,
    MasterState,
    OperatorState,
    OperatorSubtaskState,
    TaskStateSnapshot,
)

BASE = "file:/checkpoints/job/chk-7"

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(0, 2**63 - 1)
offsets = st.lists(longs, max_size=4).map(tuple)
names = st.text(max_size=12)
texts = st.text(min_size=1, max_size=12)
# what Flink's Path takes and gives back as it was
segments_of_paths = st.text("aZ09 _-%+ä日😀", min_size=1, max_size=5)
relative_paths = st.lists(segments_of_paths, min_size=1, max_size=3).map("/".join)
paths = relative_paths.map("file:/".__add__)
blobs = st.binary(max_size=20)
uuids = st.integers(0, 2**128 - 1).map(lambda number: str(UUID(int=number)))
operator_ids = st.binary(min_size=16, max_size=16).map(bytes.hex)


def several(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


# --- streams ----------------------------------------------------------------------------------------------------------

byte_streams = st.builds(h.ByteStreamStateHandle, names, blobs)
relative_files = st.builds(
    lambda path, size: h.RelativeFileStateHandle(path, size, f"{BASE}/{path}"), relative_paths, sizes
)
segments = st.builds(h.SegmentFileStateHandle, sizes, sizes, st.sampled_from(h.StateScope), paths, names)
simple_streams = st.one_of(
    byte_streams,
    st.builds(h.FileStateHandle, paths, sizes),
    relative_files,
    segments,
    st.just(h.EmptySegmentFileStateHandle()),
)


@st.composite
def key_group_ranges(draw: st.DrawFn, least: int = 0) -> h.KeyGroupRange:
    start = draw(st.integers(0, 32767))
    return h.KeyGroupRange.of(start, min(32767, start + draw(st.integers(least - 1, 5))))


@st.composite
def key_groups(draw: st.DrawFn, cls: type = h.KeyGroupsStateHandle, ids: bool = False) -> h.KeyGroupsStateHandle:
    span = draw(key_group_ranges())
    where = draw(st.lists(longs, min_size=len(span), max_size=len(span)).map(tuple))
    return cls(span, where, draw(streams), draw(st.none() | texts) if ids else None)


streams = st.deferred(lambda: simple_streams | key_groups())

# --- keyed state ------------------------------------------------------------------------------------------------------

local_files = several(st.builds(h.HandleAndLocalPath, names, simple_streams))


@st.composite
def incremental(draw: st.DrawFn, ids: bool) -> h.IncrementalRemoteKeyedStateHandle:
    handle = h.IncrementalRemoteKeyedStateHandle(
        draw(uuids), draw(key_group_ranges()), draw(longs), draw(local_files), draw(local_files), draw(streams), 0
    )
    if ids and draw(st.booleans()):
        return replace(handle, checkpointed_size=draw(longs), state_handle_id=draw(st.none() | texts))
    return replace(handle, checkpointed_size=handle.state_size)


@st.composite
def changelog_parts(draw: st.DrawFn, layout: ChangelogLayout) -> h.ChangelogStateHandle:
    old = layout is ChangelogLayout.FLINK_1_14
    state_handle_id = "" if old else draw(names)
    if draw(st.booleans()):
        changes = draw(several(st.builds(h.StateChange, st.integers(-1, 32767), blobs)))
        return h.InMemoryChangelogStateHandle(
            draw(key_group_ranges()), draw(sizes), draw(sizes), changes, state_handle_id
        )
    size = draw(longs)
    storage = "filesystem" if old else draw(st.just("filesystem") | names)
    return h.ChangelogStateHandleStreamImpl(
        draw(key_group_ranges()),
        draw(several(st.tuples(streams, longs))),
        size,
        size if old else draw(longs),
        storage,
        state_handle_id,
    )


@st.composite
def changelogs(draw: st.DrawFn, version: MetadataVersion) -> h.ChangelogStateBackendHandle:
    handle = h.ChangelogStateBackendHandle(
        draw(several(full_states(version))),
        draw(several(changelog_parts(version.changelog))),
        draw(key_group_ranges(least=1)),
        0,
        0,
        0,
        "",
    )
    if version.changelog is ChangelogLayout.FLINK_1_14:
        return replace(handle, checkpointed_size=handle.state_size)
    return replace(
        handle,
        checkpoint_id=draw(longs),
        materialization_id=draw(longs),
        checkpointed_size=draw(longs),
        state_handle_id=draw(names),
    )


def full_states(version: MetadataVersion) -> st.SearchStrategy[Any]:
    return st.one_of(
        key_groups(ids=version.handle_ids),
        key_groups(h.KeyGroupsSavepointStateHandle),
        incremental(version.handle_ids),
    )


def keyed(version: MetadataVersion) -> st.SearchStrategy[Any]:
    return st.one_of(full_states(version), changelogs(version), changelog_parts(version.changelog))


# --- operator state ---------------------------------------------------------------------------------------------------

list_states = st.dictionaries(
    names, st.builds(h.StateMetaInfo, offsets, st.sampled_from(h.OperatorStateMode)), max_size=3
)
merged_files = segments | st.just(h.EmptySegmentFileStateHandle())
operator_handles = st.one_of(
    st.builds(h.OperatorStreamStateHandle, list_states, streams),
    st.builds(h.FileMergingOperatorStreamStateHandle, list_states, merged_files, paths, paths),
    st.builds(h.EmptyFileMergingOperatorStreamStateHandle, list_states, merged_files, paths, paths),
)

# --- channel state ----------------------------------------------------------------------------------------------------

input_infos = st.builds(h.InputChannelInfo, ints, ints)
output_infos = st.builds(h.ResultSubpartitionInfo, ints, ints)


def channels(version: MetadataVersion, index: int, single: type, merged: type, infos: Any) -> Any:
    subtasks = st.just(index) if version.channels is ChannelLayout.WITHOUT_SUBTASK else ints
    handle = st.builds(single, subtasks, infos, offsets, longs, streams)
    if version.channels is ChannelLayout.NONE:
        return st.just(())
    if version.channels is not ChannelLayout.TYPED:
        return several(handle)
    contents = several(st.builds(h.ChannelStateContent, infos, offsets, longs))
    return several(handle | st.builds(merged, subtasks, contents, longs, streams))


# --- from a subtask to the whole file ---------------------------------------------------------------------------------


def subtask_states(version: MetadataVersion, index: int) -> st.SearchStrategy[OperatorSubtaskState]:
    most = 3 if version.internal else 1
    return st.builds(
        OperatorSubtaskState,
        several(operator_handles, most),
        several(operator_handles, most),
        several(keyed(version), most),
        several(keyed(version), most),
        channels(version, index, h.InputChannelStateHandle, h.MergedInputChannelStateHandle, input_infos),
        channels(version, index, h.ResultSubpartitionStateHandle, h.MergedResultSubpartitionStateHandle, output_infos),
    )


def maybe_finished(version: MetadataVersion, index: int) -> st.SearchStrategy[OperatorSubtaskState]:
    state = subtask_states(version, index)
    return state | st.just(FINISHED_SUBTASK_STATE) if version.finished_markers else state


@st.composite
def operators(draw: st.DrawFn, version: MetadataVersion) -> OperatorState:
    name, uid = (draw(st.none() | texts), draw(st.none() | texts)) if version.names else (None, None)
    parallelism = draw(st.integers(0, 4))
    identity = draw(operator_ids), parallelism, draw(st.integers(parallelism, 32768))
    if version.finished_markers and draw(st.booleans()):
        return OperatorState(*identity, name=name, uid=uid, fully_finished=True)
    indices = draw(st.lists(st.integers(0, parallelism - 1), unique=True, max_size=2)) if parallelism else []
    subtasks = {index: draw(maybe_finished(version, index)) for index in indices}
    coordinator = draw(st.none() | byte_streams) if version.coordinators else None
    return OperatorState(*identity, subtasks, coordinator, name, uid)


snapshot_types = st.one_of(
    st.builds(CheckpointType, names, st.sampled_from(SharingFilesStrategy)),
    st.builds(SavepointType, names, st.sampled_from(PostCheckpointAction), st.sampled_from(SavepointFormatType)),
)
properties = st.builds(CheckpointProperties, snapshot_types, *[st.booleans()] * 7)
master_states = st.builds(MasterState, names, ints, blobs)


def metadata(version: MetadataVersion) -> st.SearchStrategy[CheckpointMetadata]:
    return st.builds(
        CheckpointMetadata,
        sizes,
        several(operators(version), 3),
        several(master_states),
        st.none() | properties if version.properties else st.none(),
    )


VERSIONS = [version for layouts in LAYOUTS.values() for version in layouts]


def snapshots(version: MetadataVersion) -> st.SearchStrategy[TaskStateSnapshot]:
    states = st.dictionaries(operator_ids, maybe_finished(version, 0), max_size=3)
    return st.builds(TaskStateSnapshot, states, st.booleans(), st.booleans())
