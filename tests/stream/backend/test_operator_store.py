"""Operator state: lists are split, unions and maps are copied, equal state has equal bytes, and damage is found."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError, StateRestoreError, StateTypeError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    OperatorStateMode,
    OperatorStreamStateHandle,
    StateMetaInfo,
)
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor
from tests.properties import examples

SPLIT = pa.struct([("path", pa.string()), ("offset", pa.int64())])
SPLITS = ListStateDescriptor("splits", SPLIT)
PENDING = ListStateDescriptor("pending", pa.int64())
RULES = MapStateDescriptor("rules", pa.string(), pa.float64())


def written(store: OperatorStateStore, name: str = "file") -> tuple[OperatorStreamStateHandle, bytes]:
    snapshot = store.snapshot()
    assert snapshot is not None
    data, layout = snapshot.encode()
    return OperatorStreamStateHandle(layout, ByteStreamStateHandle(name, data)), data


def split(number: int) -> dict[str, Any]:
    return {"path": f"part-{number}", "offset": number * 10}


def example() -> OperatorStateStore:
    store = OperatorStateStore()
    store.list_state(SPLITS).add_all([split(0), split(1), split(2)])
    store.union_list_state(PENDING).update([7, 8])
    store.broadcast_state(RULES).put_all({"b": 2.0, "a": 1.0})
    return store


def test_a_list_is_a_list() -> None:
    state = OperatorStateStore().list_state(PENDING)
    state.add(1)
    state.add_all([2, 3])
    assert state.get() == [1, 2, 3]
    assert len(state) == 3
    state.update([4])
    assert state.get() == [4]
    state.clear()
    assert state.get() == []


def test_a_broadcast_state_is_a_map() -> None:
    state = OperatorStateStore().broadcast_state(RULES)
    state.put("b", 2)
    state.put("a", 1.5)
    assert state.items() == [("a", 1.5), ("b", 2.0)]
    assert (state.get("a"), state.get("c"), state.contains("b")) == (1.5, None, True)
    state.remove("b")
    state.remove("b")
    assert state.items() == [("a", 1.5)]
    state.clear()
    assert len(state) == 0


def test_what_is_added_after_other_entries_stays_beside_them() -> None:
    rules = OperatorStateStore().broadcast_state(RULES)
    for entries in ({"d": 1, "a": 2}, {"c": 3, "a": 4}, {}):
        rules.put_all(entries)
    assert rules.items() == [("a", 4.0), ("c", 3.0), ("d", 1.0)]


@pytest.mark.flink("OperatorStateRestoreOperationTest.testRestoringMixedOperatorState")
@pytest.mark.parametrize("registered_first", [True, False])
def test_lists_unions_and_maps_come_back(registered_first: bool) -> None:
    part = written(example())
    store = OperatorStateStore()
    if registered_first:
        store.list_state(SPLITS), store.union_list_state(PENDING), store.broadcast_state(RULES)
    store.restore([part])
    assert store.list_state(SPLITS).get() == [split(0), split(1), split(2)]
    assert store.union_list_state(PENDING).get() == [7, 8]
    assert store.broadcast_state(RULES).items() == [("a", 1.0), ("b", 2.0)]
    assert written(store) == part


@pytest.mark.flink("OperatorStateRestoreOperationTest.testMergeOperatorState")
def test_several_handles_merge_in_order() -> None:
    parts = []
    for number in range(3):
        store = OperatorStateStore()
        store.list_state(PENDING).add_all([number, number + 10])
        store.broadcast_state(RULES).put("a", 1.0)
        parts.append(written(store))
    merged = OperatorStateStore()
    merged.restore(parts)
    assert merged.list_state(PENDING).get() == [0, 10, 1, 11, 2, 12]
    assert merged.broadcast_state(RULES).items() == [("a", 1.0)]


@pytest.mark.flink("OperatorStateRestoreOperationTest.testEmptyPartitionedOperatorState")
def test_empty_state_restores_as_empty() -> None:
    store = OperatorStateStore()
    store.list_state(PENDING), store.broadcast_state(RULES)
    assert store.snapshot() is None
    store.list_state(SPLITS).add(split(1))
    handle, data = written(store)
    assert list(handle.state_name_to_partition_offsets) == ["splits"]
    layout = {**handle.state_name_to_partition_offsets, "pending": StateMetaInfo((), OperatorStateMode.UNION)}
    restored = OperatorStateStore()
    restored.restore([(OperatorStreamStateHandle(layout, handle.delegate), data)])
    assert restored.union_list_state(PENDING).get() == []


@pytest.mark.flink("OperatorStateRestoreOperationTest.testRepartitionOperatorState")
@settings(max_examples=examples(30))
@given(data=st.data())
def test_entries_dealt_out_anew_are_the_entries_there_were(data: st.DataObject) -> None:
    old, new = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    dealt: list[list[Any]] = [[] for _ in range(new)]
    expected: list[list[int]] = [[] for _ in range(new)]
    for subtask in range(old):
        entries = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
        store = OperatorStateStore()
        store.list_state(PENDING).update(entries)
        handle, file = written(store, f"file-{subtask}")
        offsets = handle.state_name_to_partition_offsets["pending"].offsets
        assert len(offsets) == len(entries)
        for index in data.draw(st.permutations(range(len(entries)))):
            target = data.draw(st.integers(0, new - 1))
            layout = {"pending": StateMetaInfo((offsets[index],), OperatorStateMode.SPLIT_DISTRIBUTE)}
            dealt[target].append((OperatorStreamStateHandle(layout, handle.delegate), file))
            expected[target].append(entries[index])
    for parts, entries in zip(dealt, expected, strict=True):
        store = OperatorStateStore()
        store.restore(parts)
        assert store.list_state(PENDING).get() == entries


@given(st.permutations(["splits", "pending", "rules"]), st.permutations("abcd"))
def test_equal_state_makes_equal_bytes(order: list[str], keys: list[str]) -> None:
    store = OperatorStateStore()
    for name in order:
        if name == "splits":
            store.list_state(SPLITS).add_all([split(1), split(2)])
        elif name == "pending":
            store.union_list_state(PENDING).add(3)
        else:
            store.broadcast_state(RULES).put_all({key: float(ord(key)) for key in keys})
    store.list_state(ListStateDescriptor("unused", pa.int64()))
    other = OperatorStateStore()
    other.broadcast_state(RULES).put_all({key: float(ord(key)) for key in "abcd"})
    other.union_list_state(PENDING).add(3)
    other.list_state(SPLITS).add_all([split(1), split(2)])
    assert written(store) == written(other)


def test_a_snapshot_does_not_change_with_its_store() -> None:
    store = example()
    snapshot = store.snapshot()
    assert snapshot is not None
    expected = snapshot.encode()
    store.list_state(SPLITS).add(split(9))
    store.union_list_state(PENDING).clear()
    store.broadcast_state(RULES).put("a", 9.0)
    assert snapshot.encode() == expected


def test_values_that_do_not_fit_are_refused_at_once() -> None:
    store = example()
    for write, message in [
        (lambda: store.list_state(SPLITS).add({"path": 1}), r"'splits' \(struct<.*rejects .*1 \(int\) is not string"),
        (lambda: store.union_list_state(PENDING).add_all([9, "x"]), r"'pending' \(int64\) rejects 'x'"),
        (lambda: store.union_list_state(PENDING).update([None]), "None is not a value"),
        (lambda: store.broadcast_state(RULES).put_all({"c": 1.0, "d": "x"}), "rejects 'x'"),
        (lambda: store.broadcast_state(RULES).put(3, 1.0), "rejects 3"),
    ]:
        with pytest.raises(StateTypeError, match=message):
            write()
    assert written(store) == written(example())


def test_one_name_is_one_state() -> None:
    store = example()
    for ask, message in [
        (lambda: store.union_list_state(SPLITS), "registered as SPLIT_DISTRIBUTE of struct.*requested as UNION of str"),
        (lambda: store.list_state(ListStateDescriptor("splits", pa.int64())), "as SPLIT_DISTRIBUTE of int64"),
        (lambda: store.broadcast_state(MapStateDescriptor("splits", pa.string(), pa.int64())), "BROADCAST of string"),
    ]:
        with pytest.raises(StateDescriptorError, match=message):
            ask()


def test_another_type_than_stored_is_refused_whichever_comes_first() -> None:
    part = written(example())
    wanted = ListStateDescriptor("pending", pa.string())
    first = OperatorStateStore()
    first.union_list_state(wanted)
    with pytest.raises(StateDescriptorError, match="registered as UNION of string, and is stored as UNION of int64"):
        first.restore([part])
    second = OperatorStateStore()
    second.restore([part])
    with pytest.raises(StateDescriptorError, match="restored as UNION of int64, and is requested as UNION of string"):
        second.union_list_state(wanted)


OLD_ROW = pa.struct([("n", pa.int32()), ("gone", pa.string())])
NEW_ROW = pa.struct([("note", pa.string()), ("n", pa.int64())])
OLD_LIST, NEW_LIST = (ListStateDescriptor("rows", kind) for kind in (OLD_ROW, NEW_ROW))
OLD_MAP, NEW_MAP = (MapStateDescriptor("map", pa.string(), kind) for kind in (OLD_ROW, NEW_ROW))


def stored(*numbers: int, to: bool = False) -> OperatorStateStore:
    """A list, a united list's namesake and a map of rows in the old type, or in the one that it changes to."""
    store = OperatorStateStore()
    rows = [{"note": f"note {n}", "n": n} if to else {"n": n, "gone": f"gone {n}"} for n in numbers]
    store.list_state(NEW_LIST if to else OLD_LIST).add_all(rows)
    store.broadcast_state(NEW_MAP if to else OLD_MAP).put_all({f"key {row['n']}": row for row in rows})
    return store


@pytest.mark.parametrize("is_first", [True, False], ids=["registered first", "restored first"])
@pytest.mark.parametrize("is_newer_first", [True, False], ids=["newer file first", "older file first"])
def test_lists_and_maps_of_older_types_are_restored_beside_newer_ones(is_first: bool, is_newer_first: bool) -> None:
    old, new = written(stored(1, 2), "old"), written(stored(3, 4, to=True), "new")
    store = OperatorStateStore()

    def registered() -> tuple[list[Any], list[Any]]:
        return store.list_state(NEW_LIST).get(), store.broadcast_state(NEW_MAP).items()

    if is_first:
        assert registered() == ([], [])
    store.restore([new, old] if is_newer_first else [old, new])
    rows = {n: {"note": None if n < 3 else f"note {n}", "n": n} for n in (1, 2, 3, 4)}
    elements, entries = registered()
    assert elements == [rows[n] for n in ((3, 4, 1, 2) if is_newer_first else (1, 2, 3, 4))]
    assert entries == [(f"key {n}", row) for n, row in rows.items()]
    again = OperatorStateStore()
    again.restore([written(store)])
    assert again.list_state(NEW_LIST).get() == elements


def test_a_lists_type_that_cannot_change_is_refused_with_the_difference() -> None:
    store = OperatorStateStore()
    store.list_state(ListStateDescriptor("rows", pa.struct([("n", pa.int8())])))
    with pytest.raises(StateDescriptorError, match=r"n: int32 became int8\. A restore accepts: a column is added"):
        store.restore([written(stored(1))])
    store = OperatorStateStore()
    store.broadcast_state(MapStateDescriptor("map", pa.large_string(), OLD_ROW))
    with pytest.raises(StateDescriptorError, match="use another name, or the descriptor it was stored with"):
        store.restore([written(stored(1))])


def test_files_that_disagree_are_refused() -> None:
    one, other = OperatorStateStore(), OperatorStateStore()
    one.list_state(PENDING).add(1)
    other.list_state(ListStateDescriptor("pending", pa.string())).add("x")
    with pytest.raises(StateRestoreError, match="of int64 in 'one', and SPLIT_DISTRIBUTE of string in 'two'"):
        OperatorStateStore().restore([written(one, "one"), written(other, "two")])


@settings(max_examples=examples(100))
@given(data=st.data())
def test_every_changed_byte_is_noticed(data: st.DataObject) -> None:
    handle, good = written(example(), "chk-7/source")
    position = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(StateRestoreError, match="Operator state file 'chk-7/source' is damaged in"):
        OperatorStateStore().restore([(handle, bytes(bad))])


def test_an_offset_of_another_state_is_noticed() -> None:
    handle, data = written(example(), "chk-7/source")
    layout = {"pending": handle.state_name_to_partition_offsets["splits"]}
    with pytest.raises(StateRestoreError, match="an entry of 'splits' is there"):
        OperatorStateStore().restore([(OperatorStreamStateHandle(layout, handle.delegate), data)])
