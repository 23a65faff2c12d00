"""Handles: ranges of key groups, cutting keyed handles, sizes, files, equality."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state import handles as h
from kit.core.state.operator_state import (
    FINISHED_ON_RESTORE,
    FINISHED_SUBTASK_STATE,
    OperatorState,
    OperatorSubtaskState,
    TaskStateSnapshot,
)

ID = "0123456789abcdef" * 2
FILE = h.FileStateHandle("/checkpoints/chk-1/0f3a", 100)
SHARED = h.FileStateHandle("/checkpoints/shared/77b1", 30)
BYTES = h.ByteStreamStateHandle("in memory", b"12345")
LISTS = h.OperatorStreamStateHandle({"items": h.StateMetaInfo((0, 4), h.OperatorStateMode.SPLIT_DISTRIBUTE)}, BYTES)
KEYED = h.KeyGroupsStateHandle(h.KeyGroupRange(10, 13), (5, 6, h.NO_OFFSET_SET, 8), FILE, "an id")
INCREMENTAL = h.IncrementalRemoteKeyedStateHandle(
    "a backend",
    h.KeyGroupRange(10, 13),
    4,
    (h.HandleAndLocalPath("000012.sst", SHARED),),
    (h.HandleAndLocalPath("CURRENT", BYTES),),
    FILE,
    105,
    "an id",
)
INPUT = h.InputChannelStateHandle(0, h.InputChannelInfo(0, 1), (4, 20), 32, FILE)
OUTPUT = h.ResultSubpartitionStateHandle(0, h.ResultSubpartitionInfo(0, 1), (36,), 8, FILE)

ranges = st.builds(lambda start, length: h.KeyGroupRange.of(start, start + length - 1), *[st.integers(0, 40)] * 2)


@pytest.mark.flink("KeyGroupRangeTest.testKeyGroupRangeBasics")
@given(ranges)
def test_a_range_holds_its_key_groups_from_start_to_end(key_groups: h.KeyGroupRange) -> None:
    expected = list(range(key_groups.start, key_groups.end + 1))
    assert list(key_groups) == expected
    assert len(key_groups) == len(expected)
    assert [key_group for key_group in range(-2, 90) if key_group in key_groups] == expected
    assert bool(key_groups) == (key_groups != h.KeyGroupRange.EMPTY)


@pytest.mark.flink("KeyGroupRangeTest.testKeyGroupRangeBasics")
@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (5, -1), (0, -2)])
def test_a_range_with_bad_bounds_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"key group range {start} to {end}: expected 0 <= start <= end"):
        h.KeyGroupRange(start, end)


@pytest.mark.flink("KeyGroupRangeTest.testKeyGroupIntersection")
@given(ranges, ranges)
def test_an_intersection_holds_the_key_groups_of_both(one: h.KeyGroupRange, other: h.KeyGroupRange) -> None:
    assert set(one.intersect(other)) == set(one) & set(other)
    assert one.intersect(other) == other.intersect(one)


@pytest.mark.flink("KeyGroupRangeOffsetTest.testKeyGroupRangeOffsetsBasics")
def test_each_key_group_has_its_offset() -> None:
    assert [KEYED.offset_of(key_group) for key_group in KEYED.key_group_range] == list(KEYED.offsets)
    for outside in (9, 14):
        with pytest.raises(KeyError, match=f"key group {outside} is not in"):
            KEYED.offset_of(outside)
    with pytest.raises(ValueError, match="3 offsets for KeyGroupRange"):
        replace(KEYED, offsets=(1, 2, 3))


@pytest.mark.flink("KeyGroupRangeOffsetTest.testKeyGroupIntersection")
@given(ranges)
def test_cutting_a_handle_keeps_offsets_with_their_key_groups(key_groups: h.KeyGroupRange) -> None:
    cut = KEYED.intersection(key_groups)
    common = KEYED.key_group_range.intersect(key_groups)
    if not common:
        assert cut is None
    else:
        assert cut is not None
        assert cut.key_group_range == common
        assert [cut.offset_of(key_group) for key_group in common] == [
            KEYED.offset_of(key_group) for key_group in common
        ]
        assert (cut.delegate, cut.state_handle_id) == (KEYED.delegate, KEYED.state_handle_id)


def test_a_savepoint_handle_stays_one_when_cut() -> None:
    savepoint = h.KeyGroupsSavepointStateHandle(KEYED.key_group_range, KEYED.offsets, FILE)
    assert savepoint != replace(KEYED, state_handle_id=None)
    assert savepoint.intersection(h.KeyGroupRange(11, 20)) == h.KeyGroupsSavepointStateHandle(
        h.KeyGroupRange(11, 13), KEYED.offsets[1:], FILE
    )


def test_an_incremental_handle_is_never_cut() -> None:
    assert INCREMENTAL.intersection(h.KeyGroupRange(13, 20)) is INCREMENTAL
    assert INCREMENTAL.intersection(h.KeyGroupRange(14, 20)) is None


def test_a_changelog_is_cut_part_by_part() -> None:
    streams = h.ChangelogStateHandleStreamImpl(h.KeyGroupRange(10, 13), ((FILE, 7),), 50, 20, "filesystem", "id")
    memory = h.InMemoryChangelogStateHandle(h.KeyGroupRange(10, 11), 0, 2, (h.StateChange(10, b"123"),), "id")
    handle = h.ChangelogStateBackendHandle((KEYED,), (streams, memory), h.KeyGroupRange(10, 13), 4, 2, 9, "id")
    assert handle.state_size == FILE.size + 50 + 3
    cut = handle.intersection(h.KeyGroupRange(12, 30))
    assert cut is not None
    assert cut.key_group_range == h.KeyGroupRange(12, 13)
    assert cut.materialized == (KEYED.intersection(h.KeyGroupRange(12, 13)),)
    assert cut.non_materialized == (
        replace(streams, key_group_range=h.KeyGroupRange(12, 13), size=0, checkpointed_size=0),
    )
    assert handle.intersection(h.KeyGroupRange(0, 9)) is None


@pytest.mark.flink("OperatorSubtaskStateTest.testGetDiscardables")
def test_a_subtask_names_every_file_behind_its_handles() -> None:
    state = OperatorSubtaskState(
        managed_operator_state=(LISTS,),
        managed_keyed_state=(INCREMENTAL,),
        input_channel_state=(INPUT,),
        result_subpartition_state=(OUTPUT,),
    )
    assert list(state.files()) == [FILE.path, SHARED.path, FILE.path, FILE.path]
    assert list(state.handles()) == [LISTS, INCREMENTAL, INPUT, OUTPUT]


@pytest.mark.flink("FullyFinishedOperatorStateTest.testGetDiscardables")
def test_an_operator_names_every_handle_of_its_subtasks_and_its_coordinators() -> None:
    channels = {"input_channel_state": (INPUT,), "result_subpartition_state": (OUTPUT,)}
    one = OperatorSubtaskState(managed_operator_state=(LISTS,), managed_keyed_state=(KEYED,), **channels)
    other = OperatorSubtaskState(raw_operator_state=(LISTS,), raw_keyed_state=(INCREMENTAL,), **channels)
    coordinator = h.ByteStreamStateHandle("splits", b"1234")
    state = OperatorState(ID, 2, 256, {0: one, 1: other}, coordinator)
    assert list(state.handles()) == [coordinator, LISTS, KEYED, INPUT, OUTPUT, LISTS, INCREMENTAL, INPUT, OUTPUT]
    assert list(state.files()) == [*one.files(), *other.files()]
    assert set(one.files()) == {FILE.path}
    assert set(other.files()) == {FILE.path, SHARED.path}


@pytest.mark.flink("TaskStateSnapshotTest.getStateSize")
@pytest.mark.flink("TaskStateSnapshotTest.testSizeIncludesChannelState")
def test_sizes_are_sums_and_count_channel_state() -> None:
    state = OperatorSubtaskState(
        managed_operator_state=(LISTS,),
        managed_keyed_state=(INCREMENTAL,),
        input_channel_state=(INPUT,),
        result_subpartition_state=(OUTPUT,),
    )
    assert state.state_size == len(BYTES.data) + INCREMENTAL.state_size + INPUT.size + OUTPUT.size
    assert INCREMENTAL.state_size == FILE.size + SHARED.size + len(BYTES.data)
    assert state.checkpointed_size == state.state_size - INCREMENTAL.state_size + INCREMENTAL.checkpointed_size
    snapshot = TaskStateSnapshot({ID: state, ID[::-1]: state})
    assert (snapshot.state_size, snapshot.checkpointed_size) == (2 * state.state_size, 2 * state.checkpointed_size)
    operator = OperatorState(ID, 2, 128, {0: state, 1: state}, BYTES)
    assert operator.state_size == 2 * state.state_size + len(BYTES.data)
    assert operator.checkpointed_size == 2 * state.checkpointed_size + len(BYTES.data)


@pytest.mark.flink("TaskStateSnapshotTest.hasState")
@pytest.mark.flink("TaskStateSnapshotTest.putGetSubtaskStateByOperatorID")
def test_a_task_has_state_only_if_a_handle_exists() -> None:
    assert not TaskStateSnapshot().has_state()
    assert not TaskStateSnapshot({ID: OperatorSubtaskState()}).has_state()
    held = OperatorSubtaskState(raw_operator_state=(LISTS,))
    assert TaskStateSnapshot({ID[::-1]: OperatorSubtaskState(), ID: held}).has_state()
    assert TaskStateSnapshot({ID: held}).subtask_states[ID] is held
    assert FINISHED_ON_RESTORE.has_state()


def test_what_has_finished_has_no_state() -> None:
    with pytest.raises(ValueError, match="a finished subtask has no state"):
        OperatorSubtaskState(managed_operator_state=(LISTS,), finished=True)
    with pytest.raises(ValueError, match="counter: a fully finished operator has no state"):
        OperatorState(ID, 1, 1, {}, BYTES, name="counter", fully_finished=True)
    assert OperatorState(ID, 1, 1, fully_finished=True).state_of(0) == FINISHED_SUBTASK_STATE


@pytest.mark.parametrize(
    ("handle", "file", "physical_id"),
    [
        (BYTES, None, "in memory"),
        (FILE, "/checkpoints/chk-1/0f3a", "/checkpoints/chk-1/0f3a"),
        (h.RelativeFileStateHandle("0f3a", 1, "/chk-1/0f3a"), "/chk-1/0f3a", "/chk-1/0f3a"),
        (h.SegmentFileStateHandle(3, 4, h.StateScope.SHARED, "/shared/1", "logical"), "/shared/1", "logical"),
        (h.EmptySegmentFileStateHandle(), None, "DUMMY"),
        (KEYED, "/checkpoints/chk-1/0f3a", "/checkpoints/chk-1/0f3a"),
    ],
)
def test_a_stream_says_where_it_lies(handle: h.StreamStateHandle, file: str | None, physical_id: str) -> None:
    assert handle.path == file
    assert handle.physical_id == physical_id
    assert list(handle.files()) == ([] if file is None else [file])


def test_merged_channel_handles_come_apart_in_order() -> None:
    contents = tuple(h.ChannelStateContent(h.ResultSubpartitionInfo(0, i), (4 * i,), i) for i in range(3))
    merged = h.MergedResultSubpartitionStateHandle(2, contents, 3, FILE)
    assert merged.unmerge() == tuple(
        h.ResultSubpartitionStateHandle(2, h.ResultSubpartitionInfo(0, i), (4 * i,), i, FILE) for i in range(3)
    )


@pytest.mark.parametrize("handle", [BYTES, FILE, KEYED, INCREMENTAL, LISTS, INPUT, OUTPUT], ids=repr)
def test_handles_are_values(handle: h.StateObject) -> None:
    """Equal and hashed by content, frozen, without a dict, and short to look at."""
    twin = replace(handle)  # type: ignore[type-var]
    assert twin == handle
    assert hash(twin) == hash(handle)
    assert not hasattr(handle, "__dict__")
    assert len(repr(handle)) < 120


def test_the_order_of_state_names_does_not_matter() -> None:
    info = h.StateMetaInfo((1,), h.OperatorStateMode.UNION)
    one = h.OperatorStreamStateHandle({"a": info, "b": info}, BYTES)
    other = h.OperatorStreamStateHandle({"b": info, "a": info}, BYTES)
    assert one == other
    assert hash(one) == hash(other)
