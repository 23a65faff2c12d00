"""State on disk: a backend with little memory does what one does that has all state in memory."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kit import StateTtlConfig
from kit.core.state.handles import KeyGroupRange
from kit.core.state.key_groups import key_group_partitions
from kit.stream.backend import heap
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.spill import blocks, merging, places, spilled_run, spilled_state
from kit.stream.backend.spill.memory_budget import MemoryBudget
from kit.stream.backend.spill.spill_space import MemorySpace
from kit.stream.backend.states import tables
from kit.stream.backend.states.descriptors import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.properties import examples
from tests.stream.backend.changes import (
    ALL,
    FULL,
    INCREMENTAL,
    Changes,
    Checkpoints,
    Subtask,
    go_on,
    restored,
    some_keys,
    with_cold_keys,
)
from tests.stream.backend.ttl import Clock

AS_THEY_ARE, SMALL, ONE_PLACE = "as they are", "small blocks and ranges", "one place for all keys of a key group"
LEFT = "restored rows left where they are"
SUM = ReducingStateDescriptor("sum", pa.int64(), "sum")


@pytest.fixture(params=[AS_THEY_ARE, SMALL, ONE_PLACE, LEFT], autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test with the sizes as they are, with many blocks and ranges of few rows, with equal places, and with
    restored rows that are found in the order of their snapshot.
    """
    if request.param != AS_THEY_ARE:
        monkeypatch.setattr(blocks.Messages, "block_bytes", 100)
        monkeypatch.setattr(blocks.Records, "block_bytes", 100)
        monkeypatch.setattr(merging, "RANGE_BYTES", 300)
        monkeypatch.setattr(spilled_run, "PIECE_BYTES", 2000)
        monkeypatch.setattr(spilled_run, "GAP_BYTES", 500)
        for module, rows in ((tables, 7), (spilled_state, 20), (heap, 30)):
            monkeypatch.setattr(module, "_ROWS_AT_ONCE", rows)
        monkeypatch.setattr(heap, "SPAN_ROWS", 10)
        monkeypatch.setattr(Subtask, "in_bytes", False)
    if request.param in (ONE_PLACE, LEFT):
        monkeypatch.setattr(heap, "LEFT_ON_DISK_BYTES", 0)
    if request.param == ONE_PLACE:
        monkeypatch.setattr(heap, "MOST_LEFT_RUNS", 2)
        monkeypatch.setattr(places, "_MULTIPLIER", 0)
    return str(request.param)


def spilled(subtask: Subtask) -> tuple[int, int]:
    """Return how many runs were written and merged."""
    each = subtask.backend.cold_rows.values()
    return sum(cold.bytes_spilled > 0 for cold in each), sum(cold.merges for cold in each)


@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()], ids=str)
@given(
    seed=st.integers(0, 1 << 32),
    most_runs=st.sampled_from([2, 3, 64]),
    most_bytes=st.sampled_from([0, 3_000, 10_000, 60_000]),
    cleanup_size=st.sampled_from([None, 0, 2]),
)
@settings(max_examples=examples(100, in_ci=4), deadline=None)
def test_state_on_disk_is_that_in_memory(
    key_type: pa.DataType, seed: int, most_runs: int, most_bytes: int, cleanup_size: int | None
) -> None:
    """All kinds of state, with checkpoints that complete, are aborted, and are restored, in whichever memory.

    With a `cleanup_size` expired entries are left out of snapshots; other entries are checked in another order.
    """
    chance = Random(seed)
    leaves_out_expired = cleanup_size is not None
    changes = Changes(chance, some_keys(key_type, chance), key_type, cleanup_size or 0, leaves_out_expired)
    subtask, checkpoints = Subtask(key_type, most_runs=most_runs, most_bytes=most_bytes), Checkpoints()
    fading = changes.fading if leaves_out_expired else None
    if fading is not None:
        subtask.leave_out_expired(fading)
    with_cold_keys(subtask, changes)
    open_ids: list[int] = []
    for checkpoint_id in range(1, 9):
        for _ in range(chance.choice([0, 1, 3, 6, 12])):
            changes.make(subtask)
        checkpoints.take(subtask, checkpoint_id, chance.choice([INCREMENTAL] * 5 + [FULL]))
        open_ids.append(checkpoint_id)
        if chance.random() < 0.3:
            changes.make(subtask)
        if go_on(chance, subtask, open_ids):
            handle, expected = checkpoints.taken[checkpoint_id]
            memory, at_ms = chance.choice([None, 0, most_bytes]), checkpoints.at_ms[checkpoint_id]
            subtask = restored(key_type, [handle], ALL, most_runs, memory, at_ms, fading)
            assert subtask.state() == expected
            open_ids.clear()
    chosen = chance.choice(list(checkpoints.taken))
    handle, expected = checkpoints.taken[chosen]
    assert restored(key_type, [handle], ALL, at_ms=checkpoints.at_ms[chosen], fading=fading).state() == expected
    event(f"{spilled(subtask)} states on disk and merges")


@given(seed=st.integers(0, 1 << 32), most_bytes=st.sampled_from([0, 5_000]))
@settings(max_examples=examples(30, in_ci=3), deadline=None)
def test_parts_are_restored_elsewhere(seed: int, most_bytes: int) -> None:
    chance = Random(seed)
    changes = Changes(chance, some_keys(pa.int64(), chance), pa.int64(), cleanup_size=0)
    subtask, checkpoints = Subtask(pa.int64(), most_bytes=most_bytes), Checkpoints()
    with_cold_keys(subtask, changes)
    handle = None
    for checkpoint_id in range(1, 4):
        changes.make(subtask)
        handle = checkpoints.take(subtask, checkpoint_id)
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
    parts = [restored(pa.int64(), [handle], groups, most_bytes=most_bytes) for groups in key_group_partitions(8, 3)]
    again = [Checkpoints().take(part, 9) for part in parts]
    assert restored(pa.int64(), again, ALL, most_bytes=most_bytes).state() == subtask.state()


def small(most_bytes: int) -> HeapKeyedStateBackend:
    return HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, 127), 128, budget=MemoryBudget(MemorySpace(), most_bytes))


def test_sums_of_many_keys_exceed_memory_many_times(sizes: str) -> None:
    """Most rows are on disk, are read back, and are merged; what is left in memory stays within the budget."""
    many, most_bytes = (5_000, 20_000) if sizes == AS_THEY_ARE else (1_000, 4_000)
    backend, expected = small(most_bytes), np.zeros(many, np.int64)
    chance = np.random.default_rng(7)
    table = backend.table(SUM)
    for _ in range(120 if sizes == AS_THEY_ARE else 60):
        keys = chance.integers(0, many, many // 16)
        table.reduce(table.slots(pa.array(keys)), pa.array(keys + 1))
        np.add.at(expected, keys, keys + 1)
        backend.make_room()
        assert len(table.index) * table.bytes_per_row() <= most_bytes
    cold = backend.cold_rows["sum"]
    assert len(cold) > 0.8 * many
    assert cold.merges > 10
    assert len(cold.runs) < 17
    rows = backend.all_rows(table)
    found = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
    assert found == {key: int(total) for key, total in enumerate(expected) if total}
    assert len(table) == len(found)


def test_state_that_fits_never_touches_the_disk() -> None:
    backend = small(10_000_000)
    table = backend.table(SUM)
    for _ in range(20):
        table.reduce(table.slots(pa.array(range(1000))), pa.array(range(1000)))
        backend.make_room()
    assert not table.has_cold


def test_a_removed_key_does_not_come_back() -> None:
    """It is removed while it is on disk; the note of that goes to disk, and a merge drops both."""
    backend = small(0)
    table = backend.table(SUM)

    def change(keys: range, how: Any) -> None:
        how(pa.array(keys))
        backend.make_room()

    def add(keys: pa.Array) -> None:
        table.reduce(table.slots(keys), keys)

    change(range(100), add)
    change(range(50), lambda keys: table.clear(table.slots(keys, create=False)))
    assert table.slots(pa.array([7, 70]), create=False).tolist()[0] == -1
    backend.make_room()
    change(range(10), add)
    for _ in range(20):
        change(range(1000, 1200), add)
    rows = backend.all_rows(table)
    left = {key for key in rows["key"].to_pylist() if key < 1000}
    assert left == {*range(10), *range(50, 100)}
    assert len(table) == rows.num_rows
    assert backend.cold_rows["sum"].merges


@pytest.mark.parametrize("cleanup_size", [0, 1])
@pytest.mark.parametrize("kind", ["value", "list"])
def test_merges_leave_out_what_has_expired(kind: str, cleanup_size: int) -> None:
    """Expired entries go while a merge proceeds; those that were written or read again in time stay."""
    clock = Clock()
    groups, budget = KeyGroupRange(0, 127), MemoryBudget(MemorySpace(), 0)
    backend = HeapKeyedStateBackend(pa.int64(), groups, 128, clock=clock, budget=budget)
    ttl = StateTtlConfig(100, update_type="on_read_and_write", cleanup_size=cleanup_size)
    descriptor = {"value": ValueStateDescriptor, "list": ListStateDescriptor}[kind]("state", pa.int64(), ttl=ttl)
    table = backend.table(descriptor)
    state: Any = backend.state(descriptor)
    write_one, read = (state.update, state.value) if kind == "value" else (state.add, state.get)

    def write(keys: range) -> None:
        for key in keys:
            backend.set_current_key(key)
            write_one(key)
        backend.make_room()

    def held() -> set[int]:
        rows = backend.all_rows(table)
        assert rows.num_rows == len(table)
        return set(rows["key"].to_pylist())

    write(range(100))
    for begin in range(1_000, 1_400, 40):
        clock.processing_time_ms += 30
        write(range(10))
        backend.set_current_key(50)
        read()
        write(range(begin, begin + 40))
        late = range(60, 60 + (begin - 1_000) // 10)  # one after another, some while a merge leaves them out
        write(late[-4:])
        assert held() >= {*range(10), 50, *late[-12:], *range(begin, begin + 40)}
    cold = backend.cold_rows["state"]
    assert cold.merges > 1
    assert held() >= {*range(10), 50, *range(1_240, 1_400)}
    assert (held() >= set(range(100))) == (cleanup_size == 0)
    clock.processing_time_ms += 1_000
    for _ in range(12):
        write(range(500, 600))
    assert (held() == set(range(500, 600))) == (cleanup_size == 1)
    assert len(cold) == len(table)


def test_an_entry_in_memory_outlives_the_merge_that_leaves_it_out_on_disk(sizes: str) -> None:
    """It was read in time and did not change since, so that it would not be written again when it leaves memory.

    Fences of small blocks leave too little memory for it to stay there.
    """
    clock = Clock()
    backend = HeapKeyedStateBackend(
        pa.int64(), KeyGroupRange(0, 127), 128, clock=clock, budget=MemoryBudget(MemorySpace(), 20_000)
    )
    table = backend.table(ValueStateDescriptor("state", pa.int64(), ttl=StateTtlConfig(100)))
    few = pa.array(range(10))

    def write(keys: range) -> None:
        table.put(table.slots(pa.array(keys)), pa.array(keys))
        backend.make_room()

    write(range(10))
    for begin in range(1_000, 2_000, 40):
        write(range(begin, begin + 40))
    assert not set(range(10)) & set(table.keys(table.entries()).to_pylist())
    clock.processing_time_ms = 150
    cold = backend.cold_rows["state"]
    before = cold.merges
    for begin in range(2_000, 5_000, 40):
        assert (table.slots(few, create=False) >= 0).all() or sizes != AS_THEY_ARE
        write(range(begin, begin + 40))
    assert cold.merges > before
    assert 1_100 not in backend.all_rows(table)["key"].to_pylist()
    for begin in range(6_000, 7_000, 40):
        write(range(begin, begin + 40))
    rows = backend.all_rows(table)
    assert not set(range(10)) & set(table.keys(table.entries()).to_pylist())
    assert rows.num_rows == len(table)


def test_a_look_at_the_state_changes_nothing() -> None:
    backend = small(2_000)
    table = backend.table(SUM)
    for begin in range(0, 600, 100):
        keys = pa.array(range(begin, begin + 100))
        table.reduce(table.slots(keys), keys)
        backend.make_room()
    in_memory, runs = len(table.index), backend.cold_rows["sum"].runs
    assert in_memory < 600
    assert backend.all_rows(table).num_rows == len(table) == 600
    assert (len(table.index), backend.cold_rows["sum"].runs) == (in_memory, runs)


def test_keys_that_are_used_often_stay_in_memory(sizes: str) -> None:
    many, most_bytes = (14_000, 200_000) if sizes == AS_THEY_ARE else (4_200, 90_000)
    backend = small(most_bytes)
    table = backend.table(SUM)
    hot = pa.array(range(20))
    for begin in range(1_000, 1_000 + many, 100):
        for keys in (hot, pa.array(range(begin, begin + 100))):
            table.reduce(table.slots(keys), keys)
            backend.make_room()
    assert len(backend.cold_rows["sum"]) > 5 * many // 14
    in_memory = set(table.keys(table.entries()).to_pylist())
    assert in_memory >= set(hot.to_pylist())
