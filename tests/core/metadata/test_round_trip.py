"""Metadata that is written and read again is equal in every field, and a version rejects what it cannot hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.metadata import (
    CheckpointMetadata,
    MetadataError,
    MetadataVersion,
    decode_subtask_state,
    decode_task_state_snapshot,
    encode_subtask_state,
    encode_task_state_snapshot,
    read_metadata,
    write_metadata,
)
from kit.core.metadata.versions import SOCKET, V2, V3, V3_FLINK_1_11, V4, V5, V6
from kit.core.state import handles as h
from kit.core.state.operator_state import FINISHED_SUBTASK_STATE, OperatorState, OperatorSubtaskState, TaskStateSnapshot
from tests.core.metadata import strategies as some

ID = "0123456789abcdef" * 2
STREAM = h.ByteStreamStateHandle("bytes", b"state")
KEYED = h.KeyGroupsStateHandle(h.KeyGroupRange(3, 5), (0, h.NO_OFFSET_SET, 7), STREAM, "an id")


def one_subtask(state: OperatorSubtaskState) -> CheckpointMetadata:
    return CheckpointMetadata(7, (OperatorState(ID, 4, 128, {1: state}),))


@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithNoState")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithOnlyMasterState")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithOnlyTaskStateForCheckpoint")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithOnlyTaskStateForSavepoint")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithMasterAndTaskStateForCheckpoint")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithMasterAndTaskStateForSavepoint")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithFinishedTasksForCheckpoint")
@pytest.mark.flink("MetadataV3SerializerTest.testCheckpointWithFinishedTasksForSavepoint")
@pytest.mark.flink("MetadataV3SerializerTest.testSerializeIncrementalChangelogStateBackendHandle")
@pytest.mark.flink("MetadataV3SerializerTest.testSerializeFullChangelogStateBackendHandle")
@pytest.mark.flink("MetadataV4SerializerTest.testSerializeProperties")
@pytest.mark.parametrize("version", some.VERSIONS, ids=repr)
@given(data=st.data())
def test_any_metadata_is_read_as_it_was_written(version: MetadataVersion, data: st.DataObject) -> None:
    metadata = data.draw(some.metadata(version))
    written = write_metadata(metadata, version)
    # version 3 has three layouts, and a small file may fit more than one: read in the one it was written in
    assert read_metadata(written, some.BASE, version) == (metadata, version)
    again, layout = read_metadata(written, some.BASE)
    assert layout.number == version.number
    assert write_metadata(again, layout) == written


@pytest.mark.flink("MetadataV3SerializerTest.testSerializeKeyGroupsStateHandle")
@pytest.mark.parametrize("version", some.VERSIONS, ids=repr)
def test_offsets_of_key_groups_are_kept(version: MetadataVersion) -> None:
    written = write_metadata(one_subtask(OperatorSubtaskState(managed_keyed_state=(KEYED,))), version)
    (operator,) = read_metadata(written, some.BASE)[0].operator_states
    (handle,) = operator.subtask_states[1].managed_keyed_state
    assert isinstance(handle, h.KeyGroupsStateHandle)
    assert (handle.offsets, handle.delegate) == (KEYED.offsets, KEYED.delegate)
    assert handle.state_handle_id == (KEYED.state_handle_id if version.handle_ids else None)


@pytest.mark.flink("MetadataV5SerializerTest.testSerializeOperatorUidAndName")
def test_names_and_uids_are_kept_from_version_5_on() -> None:
    metadata = CheckpointMetadata(1, (OperatorState(ID, 1, 1, name="Näme \0 🧀", uid="uid"),))
    for version in (V5, V6):
        assert read_metadata(write_metadata(metadata, version), "")[0] == metadata
    (older,) = read_metadata(write_metadata(metadata, V4), "")[0].operator_states
    assert (older.name, older.uid) == (None, None)


@pytest.mark.flink("MetadataV5SerializerTest.testSerializeOperatorNameWithEmptyValue")
@pytest.mark.flink("MetadataV5SerializerTest.testSerializeOperatorUidWithEmptyValue")
@pytest.mark.parametrize("field", ["name", "uid"])
def test_an_empty_name_or_uid_is_refused(field: str) -> None:
    operator = replace(OperatorState(ID, 1, 1), **{field: ""})
    with pytest.raises(MetadataError, match="empty name or uid"):
        write_metadata(CheckpointMetadata(1, (operator,)))


def test_a_number_means_the_last_layout_of_that_version() -> None:
    metadata = CheckpointMetadata(1)
    assert write_metadata(metadata, 3) == write_metadata(metadata, V3)
    assert write_metadata(metadata) == write_metadata(metadata, 6)
    for unknown in (1, 7):
        with pytest.raises(MetadataError, match=f"version {unknown}; expected one of 2, 3, 4, 5, 6"):
            write_metadata(metadata, unknown)


@pytest.mark.parametrize("ids", [(5, 5), (5, 3), (3, 5)])
@pytest.mark.parametrize("version", [V3, V4, V5, V6], ids=repr)
def test_both_ids_of_a_changelog_are_kept(version: MetadataVersion, ids: tuple[int, int]) -> None:
    """The id of the checkpoint may be above that of the materialization, below, or the same."""
    changelog = h.ChangelogStateBackendHandle((KEYED,), (), h.KeyGroupRange(3, 5), *ids, 20, "an id")
    written = write_metadata(one_subtask(OperatorSubtaskState(managed_keyed_state=(changelog,))), version)
    (operator,) = read_metadata(written, "", version)[0].operator_states
    (found,) = operator.subtask_states[1].managed_keyed_state
    assert (found.checkpoint_id, found.materialization_id) == ids


def test_a_layout_of_another_version_is_refused() -> None:
    with pytest.raises(MetadataError, match="version 6"):
        read_metadata(write_metadata(CheckpointMetadata(1)), "", V5)


# --- in-flight data ---------------------------------------------------------------------------------------------------

MERGED = h.MergedInputChannelStateHandle(
    1,
    (
        h.ChannelStateContent(h.InputChannelInfo(0, 0), (4, 20), 32),
        h.ChannelStateContent(h.InputChannelInfo(0, 1), (36,), 10),
    ),
    42,
    STREAM,
)


def test_versions_before_6_take_merged_channel_handles_apart() -> None:
    metadata = one_subtask(OperatorSubtaskState(input_channel_state=(MERGED,)))
    for version in (V3_FLINK_1_11, V3, V4, V5):
        (operator,) = read_metadata(write_metadata(metadata, version), some.BASE)[0].operator_states
        assert operator.subtask_states[1].input_channel_state == MERGED.unmerge()


def test_version_3_is_read_in_the_layout_that_fits() -> None:
    """The file does not name its layout; only one of the layouts ends exactly where the file ends."""
    metadata = one_subtask(OperatorSubtaskState(input_channel_state=MERGED.unmerge()))
    for version in (V3, V3_FLINK_1_11):
        assert read_metadata(write_metadata(metadata, version), some.BASE) == (metadata, version)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "operator", "found"),
    [
        (V2, OperatorState(ID, 1, 1, coordinator_state=STREAM), "coordinator state"),
        (V2, OperatorState(ID, 1, 1, {0: OperatorSubtaskState(input_channel_state=(MERGED,))}), "input channels"),
        (V2, OperatorState(ID, 1, 1, {0: FINISHED_SUBTASK_STATE}), "the finished subtask 0"),
        (V3_FLINK_1_11, OperatorState(ID, 1, 1, fully_finished=True), "the finished operator"),
        (V6, OperatorState(ID, 1, 1, {0: OperatorSubtaskState(managed_keyed_state=(KEYED, KEYED))}), "2 handles"),
        (V6, OperatorState(ID, 1, 1, {1: OperatorSubtaskState()}), "subtask 1"),
        (V6, OperatorState("abc", 1, 1), "operator id 'abc'"),
        (V6, OperatorState(ID, 1, 1 << 31), "does not fit its field"),
        (V6, OperatorState(ID, 1, 1, name="x" * 65536), "a string of 65536 bytes"),
    ],
)
def test_what_a_version_cannot_hold_is_refused(version: MetadataVersion, operator: OperatorState, found: str) -> None:
    with pytest.raises(MetadataError, match=found) as raised:
        write_metadata(CheckpointMetadata(1, (operator,)), version)
    assert raised.value.offset is None


def test_a_handle_of_the_wrong_kind_is_refused_by_name() -> None:
    wrong = OperatorSubtaskState(managed_keyed_state=(STREAM,))  # type: ignore[arg-type]
    with pytest.raises(MetadataError, match="a ByteStreamStateHandle; expected a keyed handle") as raised:
        write_metadata(one_subtask(wrong))
    assert raised.value.__notes__ == [f"in the state of subtask 1 of {ID}"]


def test_a_negative_checkpoint_id_is_refused() -> None:
    with pytest.raises(MetadataError, match="checkpoint id -1"):
        write_metadata(CheckpointMetadata(-1))


# --- our own sockets --------------------------------------------------------------------------------------------------


@given(some.maybe_finished(SOCKET, 0))
def test_a_subtask_state_crosses_the_socket_whole(state: OperatorSubtaskState) -> None:
    assert decode_subtask_state(encode_subtask_state(state)) == state


@given(some.snapshots(SOCKET))
def test_an_ack_crosses_the_socket_whole(snapshot: TaskStateSnapshot) -> None:
    assert decode_task_state_snapshot(encode_task_state_snapshot(snapshot)) == snapshot


def test_a_relative_handle_keeps_its_full_path_on_the_socket() -> None:
    """On the socket, no `_metadata` file gives the directory that the path is relative to."""
    handle = h.RelativeFileStateHandle("file", 1, "/another/checkpoint/file")
    state = OperatorSubtaskState(managed_operator_state=(h.OperatorStreamStateHandle({}, handle),))
    assert decode_subtask_state(encode_subtask_state(state)) == state


@given(some.snapshots(SOCKET), st.data())
def test_a_damaged_ack_is_one_clear_error(snapshot: TaskStateSnapshot, data: st.DataObject) -> None:
    whole = encode_task_state_snapshot(snapshot)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MetadataError):
        decode_task_state_snapshot(whole[:cut])
    with pytest.raises(MetadataError, match="1 more bytes"):
        decode_task_state_snapshot(whole + b"\0")
