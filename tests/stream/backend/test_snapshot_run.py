"""Snapshot runs: restored rows are used where they are, until a merge has put them in order."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest

from kit import StateTtlConfig
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.stream.backend import heap
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.spill import cold_rows, merging
from kit.stream.backend.spill.memory_budget import MemoryBudget
from kit.stream.backend.spill.spill_space import MemorySpace
from kit.stream.backend.states.descriptors import ValueStateDescriptor
from tests.stream.backend.changes import ALL
from tests.stream.backend.ttl import Clock

STRUCT = pa.struct([("a", pa.string()), ("b", pa.int64())])


@pytest.mark.parametrize("key_type", [pa.int64(), pa.float64(), pa.string(), pa.decimal128(21, 2), STRUCT], ids=str)
@pytest.mark.parametrize("ttl", [None, StateTtlConfig(60_000)], ids=["", "with TTL"])
def test_restored_rows_are_used_before_they_are_sorted(
    key_type: pa.DataType, ttl: StateTtlConfig | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that are there, and others, are found; then merges put the rows in order, and nothing is lost on the way."""
    monkeypatch.setattr(heap, "LEFT_ON_DISK_BYTES", 0)
    monkeypatch.setattr(merging, "RANGE_BYTES", 300)
    monkeypatch.setattr(cold_rows, "_PUT_IN_ORDER_FOR_WRITTEN", 1)
    last, clock = ValueStateDescriptor("last", pa.string(), ttl=ttl), Clock(1_000)

    def keys_of(numbers: range) -> pa.Array:
        if key_type == STRUCT:
            return pa.array([{"a": None if n % 7 == 0 else str(n % 9), "b": n} for n in numbers], key_type)
        return pa.array(numbers).cast(key_type)

    def subtask(groups: KeyGroupRange, budget: MemoryBudget | None) -> HeapKeyedStateBackend:
        return HeapKeyedStateBackend(key_type, groups, 8, clock=clock, budget=budget)

    def put(backend: HeapKeyedStateBackend, numbers: range, value: str) -> None:
        table = backend.table(last)
        table.put(table.slots(keys_of(numbers)), pa.array([f"{value} {number}" for number in numbers]))
        backend.make_room()

    def values(backend: HeapKeyedStateBackend, numbers: range) -> list[str | None]:
        table = backend.table(last)
        found = table.get(table.slots(keys_of(numbers), create=False)).to_pylist()
        backend.make_room()
        return found

    before = subtask(ALL, None)
    put(before, range(600), "restored")
    taken = before.snapshot()
    assert taken is not None
    data, offsets = taken.encode()
    backend = subtask(ALL, MemoryBudget(MemorySpace(), 2_000))
    backend.restore([(KeyGroupsStateHandle(ALL, offsets, ByteStreamStateHandle("file", data.to_pybytes())), data)])
    cold = backend.cold_rows["last"]
    assert [(run.is_in_order, run.rows) for run in cold.runs] == [(False, 600)]
    assert values(backend, range(550, 650)) == [f"restored {n}" for n in range(550, 600)] + [None] * 50

    expected = {number: f"restored {number}" for number in range(600)}
    in_order = []
    restored_run = weakref.ref(cold.runs[0])
    for turn in range(60):
        some = range(37 * turn % 640, min(640, 37 * turn % 640 + 25))
        put(backend, some, f"turn {turn} of")
        expected |= {number: f"turn {turn} of {number}" for number in some}
        gone = range(53 * turn % 640, min(640, 53 * turn % 640 + 3))
        table = backend.table(last)
        table.clear(table.slots(keys_of(gone), create=False))
        for number in gone:
            expected.pop(number, None)
        asked = range(91 * turn % 600, 91 * turn % 600 + 40)
        assert values(backend, asked) == [expected.get(number) for number in asked]
        in_order.append(cold.runs[-1].is_in_order)
        assert len(table) == len(expected)
    assert 2 < in_order.index(True) < 20, "they are put in order long before there are as many newer rows"
    gc.collect()
    assert restored_run() is None, "what was restored takes no space any more"
    assert values(backend, range(640)) == [expected.get(number) for number in range(640)]
    rows = pa.concat_tables(list(backend.rows(backend.table(last))))
    wanted = dict(zip(map(str, keys_of(range(640)).to_pylist()), range(640), strict=True))
    found = zip(map(str, rows["key"].to_pylist()), rows["value"].to_pylist(), strict=True)
    assert {wanted[key]: value for key, value in found} == expected
