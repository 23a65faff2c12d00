"""Dealing out operator state against what Flink answers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.state.handles import OperatorStateMode, OperatorStreamStateHandle, StateMetaInfo
from kit.machines.restore.errors import RepartitionError
from kit.machines.restore.java_hashmap_order import compute_if_absent_order
from kit.machines.restore.repartition import repartition_state
from kit.machines.restore.shared_handles import SharedHandles
from tests.flink_data import vectors
from tests.machines.restore.build import as_operator_set, operator_handles, operator_set, stream

SPLIT, UNION, BROADCAST = OperatorStateMode


@pytest.mark.flink(
    "StateAssignmentOperationTest.testRepartitionSplitDistributeStates",
    "StateAssignmentOperationTest.testRepartitionUnionState",
    "StateAssignmentOperationTest.testRepartitionBroadcastState",
    "StateAssignmentOperationTest.testRepartitionBroadcastStateWithNullSubtaskState",
    "StateAssignmentOperationTest.testRepartitionBroadcastStateWithEmptySubtaskState",
    "StateAssignmentOperationTest.testReDistributeCombinedPartitionableStates",
)
@pytest.mark.parametrize("kind", ["plain", "weird", "chained", "big", "args"])
def test_every_vector(kind: str) -> None:
    rows = [row for row in vectors("repartition") if row["kind"] == kind]
    assert rows
    for row in rows:
        previous = [operator_handles(handles) for handles in row["previous"]]
        asked = previous, row["old_parallelism"], row["new_parallelism"]
        if row["error"]:
            with pytest.raises(RepartitionError) as caught:
                repartition_state(*asked)
            assert caught.value.flink_class == row["error"]["class"]
            assert caught.value.flink_message == row["error"]["message"]
        else:
            found = [operator_set(handles) for handles in repartition_state(*asked)]
            assert found == [as_operator_set(handles) for handles in row["result"]], row["id"]


def test_names_are_walked_in_the_order_flink_walks_them() -> None:
    for row in vectors("repartition"):
        if row["error"]:
            continue
        met = [
            name
            for handles in row["previous"]
            for handle in handles
            for name, info in handle["states"].items()
            if info["mode"] == "SPLIT_DISTRIBUTE"
        ]
        assert compute_if_absent_order(met) == row["split_name_order"]


@given(st.lists(st.lists(st.sampled_from([f"n{i}" for i in range(40)]), unique=True), min_size=1, max_size=4))
def test_names_met_again_count_too(names: list[list[str]]) -> None:
    """Each name has one entry, in the first stream that has the name: subtask k gets the k-th name that is walked."""
    met = [name for of_subtask in names for name in of_subtask]
    first = {name: subtask for subtask, of_subtask in reversed(list(enumerate(names))) for name in of_subtask}
    previous = [
        (
            OperatorStreamStateHandle(
                {name: StateMetaInfo((7,) if first[name] == subtask else (), SPLIT) for name in of_subtask},
                stream(f"s{subtask}"),
            ),
        )
        for subtask, of_subtask in enumerate(names)
    ]
    dealt = repartition_state(previous, len(names), 50)
    got = [
        name for handles in dealt for h in handles for name, i in h.state_name_to_partition_offsets.items() if i.offsets
    ]
    assert got == compute_if_absent_order(met)


def offsets_by_name(handles: OperatorStreamStateHandle) -> Counter[tuple[str, str, int]]:
    return Counter(
        (str(handles.delegate.path), name, offset)
        for name, info in handles.state_name_to_partition_offsets.items()
        for offset in info.offsets
    )


NAMES = st.sampled_from(["a", "b", "Aa", "BB", "topic-partition-offset-states"])
LENGTHS = st.dictionaries(NAMES, st.integers(0, 6), max_size=4)


def one_stream_each(lengths: list[dict[str, int]], mode: OperatorStateMode) -> list[tuple[OperatorStreamStateHandle]]:
    return [
        (
            OperatorStreamStateHandle(
                {name: StateMetaInfo(tuple(range(size)), mode) for name, size in sizes.items()}, stream(f"s{i}")
            ),
        )
        for i, sizes in enumerate(lengths)
    ]


@given(st.lists(LENGTHS, min_size=1, max_size=7), st.integers(1, 9))
def test_split_loses_nothing_deals_nothing_twice_and_is_fair(lengths: list[dict[str, int]], new: int) -> None:
    previous = one_stream_each(lengths, SPLIT)
    dealt = repartition_state(previous, len(previous), new)
    before = sum((offsets_by_name(handle) for handles in previous for handle in handles), Counter())
    after = sum((offsets_by_name(handle) for handles in dealt for handle in handles), Counter())
    assert after == before
    if new != len(previous):
        for name in {name for sizes in lengths for name in sizes}:
            sizes = [
                sum(
                    len(h.state_name_to_partition_offsets[name].offsets)
                    for h in handles
                    if name in h.state_name_to_partition_offsets
                )
                for handles in dealt
            ]
            assert max(sizes) - min(sizes) <= 1


@given(st.lists(LENGTHS, min_size=1, max_size=7), st.integers(1, 9))
def test_union_reaches_every_subtask_whole(lengths: list[dict[str, int]], new: int) -> None:
    previous = one_stream_each(lengths, UNION)
    before = sum((offsets_by_name(handle) for handles in previous for handle in handles), Counter())
    for handles in repartition_state(previous, len(previous), new):
        assert sum((offsets_by_name(handle) for handle in handles), Counter()) == before


def test_a_union_list_is_shared_not_copied() -> None:
    lengths = [{"a": 2}, {"a": 1}, {"a": 3}]
    first, second, *_ = repartition_state(one_stream_each(lengths, UNION), 3, 5)
    assert isinstance(first, SharedHandles)
    assert isinstance(second, SharedHandles)
    assert first.shared is second.shared
    assert len(first) == 3
    assert first == tuple(first)
    assert tuple(first) == first
    assert hash(first) == hash(tuple(first))
    assert first != (*tuple(first)[:-1], first[0])
    assert first != tuple(first)[:-1]
    assert first[0] == next(iter(first))
    assert first[1:] == tuple(first)[1:]


def test_a_name_twice_in_one_stream_loses_the_first_as_flink_does() -> None:
    one = OperatorStreamStateHandle({"a": StateMetaInfo((0, 1), SPLIT)}, stream("s"))
    two = OperatorStreamStateHandle({"a": StateMetaInfo((7,), SPLIT)}, stream("s"))
    (kept,) = repartition_state([(one,), (two,)], 2, 1)
    assert [handle.state_name_to_partition_offsets["a"].offsets for handle in kept] == [(7,)]


def test_unchanged_parallelism_passes_handles_through() -> None:
    previous = one_stream_each([{"a": 3}, {"a": 1}], SPLIT)
    assert repartition_state(previous, 2, 2) is previous


def test_two_handles_of_one_stream_at_unchanged_parallelism_are_refused() -> None:
    one = OperatorStreamStateHandle({"a": StateMetaInfo((0,), UNION)}, stream("s"))
    with pytest.raises(RepartitionError, match="two operator state handles of subtask 1 in one stream"):
        repartition_state([(), (one, one)], 2, 2)


def test_broadcast_that_some_did_not_report_reaches_all() -> None:
    copy = OperatorStreamStateHandle({"a": StateMetaInfo((0, 5), BROADCAST)}, stream("s1"))
    dealt = repartition_state([(), (copy,), ()], 3, 3)
    assert [operator_set(handles) for handles in dealt] == [operator_set([copy])] * 3
