"""Keyed snapshots: read back whole, cut and merged on a rescale, equal bytes for equal state, damage found."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError, StateRestoreError
from kit.core.state.handles import NO_OFFSET_SET, ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.key_groups import key_group_partitions
from kit.stream.backend.files.framing import state_kind, state_name
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator
from kit.stream.backend.states.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.properties import examples
from tests.stream.backend.conftest import KEYS, contents, plain, written

MAXIMUM = 32
VALUE = ValueStateDescriptor("value", pa.string())
TOTAL = ReducingStateDescriptor(
    "total", pa.struct([("n", pa.int64()), ("low", pa.float64())]), {"n": "count", "low": "min"}
)
FLAG = ValueStateDescriptor("flag", pa.bool_())
LIST = ListStateDescriptor("list", pa.int16())
MAP = MapStateDescriptor("map", pa.string(), pa.float64())
DESCRIPTORS = (VALUE, TOTAL, FLAG, LIST, MAP)


def backends(key_type: pa.DataType, parallelism: int) -> list[HeapKeyedStateBackend]:
    return [HeapKeyedStateBackend(key_type, r, MAXIMUM) for r in key_group_partitions(MAXIMUM, parallelism)]


def write_row(backend: HeapKeyedStateBackend, key: Any, row: dict[str, Any]) -> None:
    backend.set_current_key(key)
    if row["value"] is not None:
        backend.state(VALUE).update(row["value"])
        backend.state(TOTAL, row["n"]).add({"low": row["low"]})
    backend.state(FLAG).update(row["flag"])
    backend.state(LIST, "ab"[row["n"] % 2]).add_all(row["list"])
    backend.state(MAP).put_all(row["map"])
    timers = backend.timer_service("window", pa.int64())
    timers.event_time.register_one(row["n"] * 100, row["n"])
    if row["flag"]:
        timers.processing_time.register_one(row["n"], 0)


ROWS = st.fixed_dictionaries(
    {
        "value": st.none() | st.text(max_size=3),
        "n": st.integers(0, 3),
        "low": st.none() | st.sampled_from([1.5, -0.0, 2.0]),
        "flag": st.none() | st.booleans(),
        "list": st.lists(st.integers(-3, 3), max_size=3),
        "map": st.dictionaries(st.sampled_from("xyz"), st.none() | st.floats(0, 9), max_size=3),
    }
)


def part(backend: HeapKeyedStateBackend, name: str = "file") -> list[tuple[KeyGroupsStateHandle, bytes]]:
    encoded = written(backend)
    if encoded is None:
        return []
    data, offsets = encoded
    return [(KeyGroupsStateHandle(backend.key_group_range, offsets, ByteStreamStateHandle(name, data)), data)]


def everything(backend: HeapKeyedStateBackend) -> dict[str, Any]:
    """All entries and timers of a backend."""
    tables = [
        backend.table(VALUE),
        backend.table(TOTAL, pa.int64()),
        backend.table(FLAG),
        backend.table(LIST, pa.string()),
        backend.table(MAP),
    ]
    found: dict[str, Any] = {table.name: contents(table) for table in tables}
    timers = backend.timer_service("window", pa.int64())
    for queue in (timers.event_time, timers.processing_time):
        in_use = queue.index.slots_in_use()
        columns = [decoder.decode(queue.index.columns[i].take(in_use)) for i, decoder in enumerate(queue.decoders())]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        found[queue.name] = {(time, plain(key), namespace) for time, key, namespace in rows}
    return found


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=15)
@given(data=st.data())
def test_a_rescale_neither_loses_nor_invents_state(keys: str, data: st.DataObject) -> None:
    key_type, key = KEYS[keys]
    rows = data.draw(st.lists(st.tuples(key, ROWS), max_size=15))
    old, new = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    before, after = backends(key_type, old), backends(key_type, new)
    for k, row in rows:
        write_row(before[assign_key_to_parallel_operator(k, MAXIMUM, old, key_type)], k, row)
    if data.draw(st.booleans()):
        for backend in after:
            everything(backend)  # registers the states first
    parts = [p for number, backend in enumerate(before) for p in part(backend, f"file-{number}")]
    for backend in after:
        own = backend.key_group_range
        backend.restore([p for p in parts if p[0].intersection(own) is not None])
    whole: dict[str, Any] = {}
    for backend in before:
        for name, entries in everything(backend).items():
            whole[name] = whole.get(name, type(entries)()) | entries
    merged: dict[str, Any] = {}
    for backend in after:
        for name, entries in everything(backend).items():
            assert not merged.get(name, type(entries)()) & entries if isinstance(entries, set) else True
            merged[name] = merged.get(name, type(entries)()) | entries
    assert repr_of(merged) == repr_of(whole)
    together = HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    again = HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAXIMUM - 1), MAXIMUM)
    together.restore(parts)
    again.restore([p for backend in after for p in part(backend)])
    assert written(again) == written(together)


def repr_of(found: dict[str, Any]) -> dict[str, Any]:
    """For comparing: -0.0 is not 0.0, a set has no order."""
    return {name: sorted(map(repr, e if isinstance(e, set) else e.items())) for name, e in found.items()}


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=15)
@given(data=st.data())
def test_equal_state_makes_equal_bytes(keys: str, data: st.DataObject) -> None:
    key_type, key = KEYS[keys]
    unique = {
        plain(pa.array([k], key_type)[0].as_py()): (k, row)
        for k, row in data.draw(st.lists(st.tuples(key, ROWS), max_size=15))
    }
    one, other = (HeapKeyedStateBackend(key_type, KeyGroupRange(0, MAXIMUM - 1), MAXIMUM) for _ in "ab")
    for k, row in unique.values():
        write_row(one, k, row)
    for k in data.draw(st.lists(key, max_size=5)):  # what came and went leaves no trace
        other.set_current_key(k)
        other.state(ListStateDescriptor("gone", pa.int64())).add(1)
    gone = other.table(ListStateDescriptor("gone", pa.int64()))
    gone.clear(gone.entries())
    for k, row in data.draw(st.permutations(list(unique.values()))):
        write_row(other, k, {**row, "map": dict(reversed(row["map"].items()))})
    assert written(one) == written(other)


def test_a_backend_without_state_writes_nothing() -> None:
    backend = HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, 3), 4)
    assert backend.snapshot() is None
    table = backend.table(VALUE)
    slots = table.slots(np.arange(3))
    assert backend.snapshot() is None  # slots, but no entry
    table.put(slots, pa.array(["a", "b", "c"]))
    table.clear(slots)
    assert backend.snapshot() is None


def example() -> HeapKeyedStateBackend:
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    table = backend.table(ReducingStateDescriptor("flights", pa.int64(), "count"))
    table.reduce(table.slots(pa.array(["UA", "AA", "DL", "B6", "UA"])))
    return backend


def test_a_key_group_can_be_read_alone() -> None:
    data, offsets = written(example())
    file = KeyedStateFile(data, "f")
    (schema,) = file.schemas
    assert (state_name(schema), state_kind(schema)) == ("flights", "reducing")
    assert schema.names == ["key", "value"]
    found = {}
    for key_group, offset in enumerate(offsets):
        if offset != NO_OFFSET_SET:
            ((number, batch),) = file.key_group(key_group, offset)
            assert number == 0
            found |= dict(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))
    assert found == {"UA": 2, "AA": 1, "DL": 1, "B6": 1}
    assert NO_OFFSET_SET in offsets or len(set(offsets)) == 4


def test_a_state_nobody_registers_again_lives_on() -> None:
    (handle,) = part(example())
    restored = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    restored.restore([handle])
    assert written(restored) == written(example())


def test_a_restored_minimum_starts_from_nothing() -> None:
    lowest = ReducingStateDescriptor("lowest", pa.int64(), "min")
    before, after = (HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, 3), 4) for _ in "ab")
    table = before.table(lowest)
    table.reduce(table.slots(np.arange(3)), np.array([5, 6, 7]))
    after.restore(part(before))
    table = after.table(lowest)
    slots = table.slots(np.arange(6))
    table.reduce(slots, np.full(6, 6))
    assert table.get(slots).to_pylist() == [5, 6, 6, 6, 6, 6]


REDUCED = {
    "few sums": (pa.int64(), "sum", [3, None, None, 4], 1),
    "many sums": (pa.int64(), "sum", [3, None, None, 4], 20),
    "unsigned sums": (pa.uint64(), "sum", [1 << 58, None, None, 4], 20),
    "decimal sums": (pa.decimal128(5, 2), "sum", [Decimal("1.5"), None, None, Decimal("-2")], 2),
    "smallest": (pa.float64(), "min", [2.5, None, None, float("nan")], 20),
    "largest text": (pa.string(), "max", ["b", None, None, ""], 3),
    "a function": (pa.int32(), max, [3, None, None, -4], 2),
}


@pytest.mark.parametrize("case", REDUCED)
@pytest.mark.parametrize("masked", [False, True], ids=["nulls", "rows that are not valid"])
def test_a_key_that_has_met_only_nulls_has_no_entry_and_no_row_in_a_snapshot(case: str, masked: bool) -> None:
    arrow_type, reduce, values, times = REDUCED[case]
    if masked and callable(reduce):
        reduce = "max"
    descriptor = ReducingStateDescriptor("reduced", arrow_type, reduce)
    before, after = (HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 31), MAXIMUM) for _ in range(2))
    table = before.table(descriptor)
    for keys in (["a", "b", "c", "d"], ["a", "e", "c", "f"]):  # b, c and e meet nothing; c twice
        column = pa.array(values * times, arrow_type)
        if masked:
            filled = column.fill_null(column[0])
            table.reduce(table.slots(pa.array(keys * times)), filled, column.is_valid().to_numpy(zero_copy_only=False))
        else:
            table.reduce(table.slots(pa.array(keys * times)), column)
    assert len(table) == 3
    assert sorted(table.keys(table.entries()).to_pylist()) == ["a", "d", "f"]
    after.restore(part(before))
    restored = after.table(descriptor)
    assert sorted(map(repr, contents(restored).items())) == sorted(map(repr, contents(table).items()))
    slots = restored.slots(pa.array(["b", "a"]))
    restored.reduce(slots, pa.array(values[:1] * 2, arrow_type))
    assert sorted(restored.keys(restored.entries()).to_pylist()) == ["a", "b", "d", "f"]


def test_a_null_that_an_earlier_version_wrote_for_such_a_key_is_no_entry() -> None:
    before, after = (HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 31), MAXIMUM) for _ in range(2))
    descriptor = ReducingStateDescriptor("reduced", pa.int64(), "sum")
    table = before.table(descriptor)
    slots = table.slots(pa.array(["a", "b", "c"]))
    table.reduce(slots, pa.array([1, 2, 3]))
    table.column.put(slots[1:2], pa.array([None], pa.int64()))
    after.restore(part(before))
    assert contents(after.table(descriptor)) == {("a", None): 1, ("c", None): 3}


def test_a_snapshot_does_not_change_with_its_backend() -> None:
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    table = backend.table(ReducingStateDescriptor("n", pa.int64(), "sum"))
    keys = pa.array([f"k{i}" for i in range(500)])
    table.reduce(table.slots(keys), np.arange(500))
    snapshot = backend.snapshot()
    expected = snapshot.encode()
    table.clear(table.slots(keys.slice(0, 400)))
    others = pa.array([f"other {i}" for i in range(3000)])
    table.reduce(table.slots(others), np.ones(3000, np.int64))
    table.reduce(table.slots(keys), np.ones(500, np.int64))
    assert snapshot.encode() == expected


def test_another_type_than_stored_is_refused_whichever_comes_first() -> None:
    (stored,) = part(example())
    wanted = ValueStateDescriptor("flights", pa.float64())
    first = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    first.table(wanted)
    with pytest.raises(StateDescriptorError, match="registered as value of double, and is stored as reducing of int64"):
        first.restore([stored])
    second = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    second.restore([stored])
    with pytest.raises(StateDescriptorError, match="restored as reducing of int64, and is requested as value of doub"):
        second.table(wanted)


@pytest.mark.parametrize(
    ("key_type", "maximum", "message"),
    [
        (pa.int64(), 4, "keys of type string, this operator's are int64"),
        (pa.string(), 8, "maximum parallelism 4, this operator has 8"),
    ],
)
def test_state_of_another_operator_is_refused(key_type: pa.DataType, maximum: int, message: str) -> None:
    backend = HeapKeyedStateBackend(key_type, KeyGroupRange(0, 3), maximum)
    with pytest.raises(StateRestoreError, match=message):
        backend.restore(part(example(), "chk-7/agg"))


def test_one_key_group_in_two_files_is_refused() -> None:
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    with pytest.raises(StateRestoreError, match="is in 'one' and in 'two'"):
        backend.restore(part(example(), "one") + part(example(), "two"))


@settings(max_examples=examples(200))
@given(data=st.data())
def test_every_changed_byte_is_noticed(data: st.DataObject) -> None:
    (handle, good) = part(example(), "chk-7/agg")[0]
    position = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[position] ^= 1 << data.draw(st.integers(0, 7))
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    with pytest.raises(StateRestoreError, match="'chk-7/agg' is damaged in"):
        backend.restore([(handle, bytes(bad))])


@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_file_cut_short_is_noticed(data: st.DataObject) -> None:
    (handle, good) = part(example(), "chk-7/agg")[0]
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
    with pytest.raises(StateRestoreError, match="'chk-7/agg' is damaged in"):
        backend.restore([(handle, good[: data.draw(st.integers(0, len(good) - 1))])])


def test_damage_is_named() -> None:
    (handle, good) = part(example(), "chk-7/agg")[0]
    offset = next(o for o in handle.offsets if o != NO_OFFSET_SET)
    key_group = handle.offsets.index(offset)
    damages = [
        (b"PARQUET1" + good[8:], "the header: it starts with b'PARQUET1'"),
        (
            good[: offset + 80] + b"\xff" + good[offset + 81 :],
            f"key group {key_group} at offset {offset}: its checksum",
        ),
        (good[: offset + 40], "it ends at byte .* the file was cut off"),
    ]
    for bad, message in damages:
        backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 3), 4)
        with pytest.raises(StateRestoreError, match=message):
            backend.restore([(handle, bad)])
    with pytest.raises(StateRestoreError, match=f"another key group was found: {key_group}"):
        list(KeyedStateFile(good, "f").key_group(key_group + 1, offset))
