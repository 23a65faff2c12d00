"""Incremental snapshots: what runs hold together equals the state at their moment, whatever happened between them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kit import StateTtlConfig
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    IncrementalRemoteKeyedStateHandle,
)
from kit.core.state.key_groups import key_group_partitions
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.backend.states.descriptors import (
    ReducingStateDescriptor,
)
from tests.properties import examples
from tests.stream.backend.changes import (
    ALL,
    FULL,
    INCREMENTAL,
    MAXIMUM,
    SUM,
    Changes,
    Checkpoints,
    Subtask,
    go_on,
    restored,
    some_keys,
    with_cold_keys,
)


@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()], ids=str)
@given(seed=st.integers(0, 1 << 32), most_runs=st.sampled_from([2, 3, 5, 64]))
@settings(max_examples=examples(100, in_ci=6), deadline=None)
def test_runs_hold_the_state_at_their_moment(key_type: pa.DataType, seed: int, most_runs: int) -> None:
    """Checkpoints overlap, complete, are aborted or superseded; the job goes on from one of them, or on its own."""
    chance = Random(seed)
    changes = Changes(chance, some_keys(key_type, chance), key_type)
    subtask, checkpoints = Subtask(key_type, most_runs=most_runs), Checkpoints()
    with_cold_keys(subtask, changes)
    open_ids: list[int] = []
    reused = 0
    for checkpoint_id in range(1, 9):
        for _ in range(chance.choice([0, 1, 1, 3, 6])):
            changes.make(subtask)
        handle = checkpoints.take(subtask, checkpoint_id, chance.choice([INCREMENTAL] * 5 + [FULL]))
        open_ids.append(checkpoint_id)
        reused += handle is not None and len(handle.shared_state) > 1
        if chance.random() < 0.3:
            changes.make(subtask)
        if go_on(chance, subtask, open_ids):
            handle, expected = checkpoints.taken[checkpoint_id]
            subtask = restored(key_type, [handle], ALL, most_runs)
            assert subtask.state() == expected
            open_ids.clear()
    handle, expected = chance.choice(list(checkpoints.taken.values()))
    assert restored(key_type, [handle], ALL).state() == expected
    event(f"{reused} checkpoints build on others")


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(40, in_ci=8), deadline=None)
def test_runs_are_dealt_out_on_a_rescale(seed: int) -> None:
    """Two subtasks with different numbers of runs become one or three, whose next snapshots are full."""
    chance = Random(seed)
    changes = Changes(chance, some_keys(pa.int64(), chance), pa.int64())
    subtasks = [Subtask(pa.int64(), groups) for groups in key_group_partitions(MAXIMUM, 2)]
    handles = []
    for subtask, checkpoints in zip(subtasks, (Checkpoints(), Checkpoints()), strict=True):
        own = [key for key in changes.keys if assign_to_key_group(key, MAXIMUM, pa.int64()) in subtask.groups]
        mine, handle = Changes(chance, own, pa.int64()), None
        for checkpoint_id in range(1, chance.randint(2, 6)):
            for _ in range(3 if own else 0):
                mine.make(subtask)
            handle = checkpoints.take(subtask, checkpoint_id)
            subtask.backend.notify_checkpoint_complete(checkpoint_id)
        handles.append(handle)
    one = restored(pa.int64(), handles, ALL)
    for groups in key_group_partitions(MAXIMUM, 3):
        overlapping = [each for each in handles if each is not None and each.intersection(groups) is not None]
        part = restored(pa.int64(), overlapping, groups)
        if overlapping:
            handle = Checkpoints().take(part, 9)
            assert handle is None or [run.local_path for run in handle.shared_state] == [f"{groups.start}-9"]
    changes.make(one)
    after = Checkpoints()
    first = after.take(one, 9)
    one.backend.notify_checkpoint_complete(9)
    changes.make(one)
    handle, expected = after.take(one, 10), one.state()
    assert restored(pa.int64(), [handle], ALL).state() == expected
    assert first is None or handle is None or len(handle.shared_state) in (1, 2)


def grown(most_runs: int = 64, keys: int = 1000) -> tuple[Subtask, Checkpoints]:
    """Return a subtask with so many keys after its first checkpoint, which is complete."""
    subtask, checkpoints = Subtask(pa.int64(), most_runs=most_runs), Checkpoints()
    set_all(subtask, range(keys), 0)
    checkpoints.take(subtask, 1)
    subtask.backend.notify_checkpoint_complete(1)
    return subtask, checkpoints


def set_all(subtask: Subtask, keys: range, number: int) -> None:
    for backend in subtask.both():
        table = backend.table(SUM)
        table.put(table.slots(pa.array(keys)), pa.array([number] * len(keys)))


def sizes(handle: IncrementalRemoteKeyedStateHandle | None) -> list[int]:
    assert handle is not None
    return [each.state_size for each in handle.shared_state]


def test_a_run_is_as_large_as_what_changed() -> None:
    subtask, checkpoints = grown()
    set_all(subtask, range(10, 20), 1)
    handle = checkpoints.take(subtask, 2)
    first, second = sizes(handle)
    assert second < first / 8
    subtask.backend.notify_checkpoint_complete(2)
    unchanged = checkpoints.take(subtask, 3)
    assert sizes(unchanged) == [first, second]


def test_what_an_incomplete_checkpoint_wrote_is_written_again() -> None:
    subtask, checkpoints = grown()
    set_all(subtask, range(10), 1)
    checkpoints.take(subtask, 2)
    set_all(subtask, range(10, 20), 2)
    handle = checkpoints.take(subtask, 3)
    assert handle is not None
    assert [run.local_path for run in handle.shared_state] == ["0-1", "0-3"]
    assert restored(pa.int64(), [handle], ALL).state() == subtask.state()


def test_a_snapshot_that_is_full_reuses_nothing_and_is_reused() -> None:
    subtask, checkpoints = grown()
    full = checkpoints.take(subtask, 2, FULL)
    assert full is not None
    assert [run.local_path for run in full.shared_state] == ["0-2"]
    subtask.backend.notify_checkpoint_complete(2)
    set_all(subtask, range(5), 1)
    handle = checkpoints.take(subtask, 3)
    assert handle is not None
    assert [run.local_path for run in handle.shared_state] == ["0-2", "0-3"]


def test_young_runs_are_merged_when_there_are_as_many_as_allowed() -> None:
    subtask, checkpoints = grown(most_runs=6)
    counts = []
    for checkpoint_id in range(2, 20):
        set_all(subtask, range(checkpoint_id * 10, checkpoint_id * 10 + 10), checkpoint_id)
        handle = checkpoints.take(subtask, checkpoint_id)
        counts.append(len(sizes(handle)))
        assert restored(pa.int64(), [handle], ALL).state() == subtask.state()
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
    assert max(counts) == 6
    assert min(counts[5:]) == 2
    assert counts.count(2) >= 2


def test_all_runs_are_merged_when_the_young_ones_have_more_rows_than_the_first() -> None:
    subtask, checkpoints = grown(keys=100)
    names = []
    for checkpoint_id in range(2, 8):
        set_all(subtask, range(60), checkpoint_id)
        handle = checkpoints.take(subtask, checkpoint_id)
        assert handle is not None
        names.append([run.local_path for run in handle.shared_state])
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
    assert names == [
        ["0-1", "0-2"],
        ["0-1", "0-2", "0-3"],
        ["0-4"],
        ["0-4", "0-5"],
        ["0-4", "0-5", "0-6"],
        ["0-7"],
    ]


def test_a_key_that_came_and_went_between_two_checkpoints_leaves_no_trace() -> None:
    subtask, checkpoints = grown()
    set_all(subtask, range(5000, 5100), 1)
    for backend in subtask.both():
        backend.table(SUM).clear(backend.table(SUM).slots(pa.array(range(5000, 5100))))
    handle = checkpoints.take(subtask, 2)
    assert handle is not None
    assert [run.local_path for run in handle.shared_state] == ["0-1"]


def test_what_is_removed_is_forgotten_once_a_complete_checkpoint_begins_anew() -> None:
    subtask, checkpoints = grown()
    for backend in subtask.both():
        backend.table(SUM).clear(backend.table(SUM).slots(pa.array(range(900))))
    assert "900 removed" in repr(subtask.backend.table(SUM).changes)
    checkpoints.take(subtask, 2)
    subtask.backend.notify_checkpoint_complete(2)
    assert "900 removed" in repr(subtask.backend.table(SUM).changes)
    checkpoints.take(subtask, 3, FULL)
    subtask.backend.notify_checkpoint_complete(3)
    assert "0 removed" in repr(subtask.backend.table(SUM).changes)


def test_after_a_restore_a_run_has_what_changed_since() -> None:
    subtask, checkpoints = grown()
    for checkpoint_id in (2, 3):
        set_all(subtask, range(300), checkpoint_id)
        checkpoints.take(subtask, checkpoint_id)
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
    handle, state = checkpoints.taken[3]
    later = restored(pa.int64(), [handle], ALL)
    assert later.state() == state
    set_all(later, range(5), 4)
    after = checkpoints.take(later, 4)
    assert after is not None
    assert [run.local_path for run in after.shared_state] == ["0-1", "0-2", "0-3", "0-4"]
    assert sizes(after)[-1] < sizes(after)[-2] / 2


def test_state_that_became_empty_has_no_runs() -> None:
    subtask, checkpoints = grown(keys=10)
    for backend in subtask.both():
        backend.table(SUM).clear(backend.table(SUM).entries())
    handle = checkpoints.take(subtask, 2)
    assert restored(pa.int64(), [handle], ALL).state() is None
    subtask.backend.notify_checkpoint_complete(2)
    assert checkpoints.take(subtask, 3, FULL) is None
    subtask.backend.notify_checkpoint_complete(3)
    set_all(subtask, range(3), 1)
    again = checkpoints.take(subtask, 4)
    assert restored(pa.int64(), [again], ALL).state() == subtask.state()


def test_state_in_a_newer_type_begins_with_a_full_snapshot() -> None:
    handle, _ = grown(keys=20)[1].taken[1]
    later = restored(pa.int64(), [handle], ALL)
    wider = ReducingStateDescriptor("sum", pa.int64(), "sum", ttl=StateTtlConfig(100))
    for backend in later.both():
        backend.table(wider)
        backend.table(wider).clear(backend.table(wider).slots(pa.array([3, 4])))
    handle = Checkpoints().take(later, 5)
    assert handle is not None
    assert [run.local_path for run in handle.shared_state] == ["0-5"]
    assert restored(pa.int64(), [handle], ALL).state() == later.state()


DAMAGE = {
    "cut off": lambda data: data[: len(data) // 2],
    "shorter than its end": lambda data: data[:7],
    "another end": lambda data: data[:-1] + b"x",
    "a changed index": lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
    "a changed row": lambda data: data[:700] + bytes([data[700] ^ 1]) + data[701:],
    "another place of its index": lambda data: data[:-16] + (8).to_bytes(8, "little") + data[-8:],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_damage_in_any_run_is_found(damage: Any, which: int) -> None:
    subtask, checkpoints = grown(keys=50)
    for checkpoint_id in (2, 3):
        set_all(subtask, range(5), checkpoint_id)
        checkpoints.take(subtask, checkpoint_id)
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
    handle, _ = checkpoints.taken[3]
    assert handle is not None
    files = list(handle.shared_state)
    stored = files[which].handle
    assert isinstance(stored, ByteStreamStateHandle)
    files[which] = replace(files[which], handle=replace(stored, data=damage(stored.data)))
    with pytest.raises(StateRestoreError) as found:
        restored(pa.int64(), [replace(handle, shared_state=tuple(files))], ALL)
    assert files[which].local_path in str(found.value)


def test_a_missing_run_and_a_damaged_manifest_are_found() -> None:
    subtask, checkpoints = grown(keys=50)
    set_all(subtask, range(5), 1)
    handle = checkpoints.take(subtask, 2)
    assert handle is not None
    with pytest.raises(StateRestoreError, match="run '0-1' is not among its files"):
        restored(pa.int64(), [replace(handle, shared_state=handle.shared_state[1:])], ALL)
    for data, what in (
        (b'{"keyed state runs": [["0-1"', "manifest .* is damaged"),
        (b'{"keyed state runs": []}', "names no runs"),
        (b"RocksDB", "not written by the heap backend"),
    ):
        manifest = ByteStreamStateHandle("m", data)
        with pytest.raises(StateRestoreError, match=what):
            restored(pa.int64(), [replace(handle, meta_state=manifest)], ALL)


def test_slots_that_are_written_again_after_a_checkpoint_are_in_the_next_one() -> None:
    """It may be the same array of slots."""
    subtask, checkpoints = grown(keys=20)
    kept = [backend.table(SUM).slots(pa.array(range(3))) for backend in subtask.both()]
    for checkpoint_id in (2, 3, 4):
        for backend, slots in zip(subtask.both(), kept, strict=True):
            backend.table(SUM).put(slots, pa.array([checkpoint_id] * 3))
        handle, expected = checkpoints.take(subtask, checkpoint_id), subtask.state()
        subtask.backend.notify_checkpoint_complete(checkpoint_id)
        assert restored(pa.int64(), [handle], ALL).state() == expected


def test_a_checkpoint_that_completes_after_a_full_one_keeps_what_was_removed_before() -> None:
    """It was taken before the full one was complete. The next run replaces its run, and must remove the keys again."""
    subtask, checkpoints = grown(most_runs=2)
    for backend in subtask.both():
        backend.table(SUM).clear(backend.table(SUM).slots(pa.array(range(5)), create=False))
    checkpoints.take(subtask, 2, FULL)
    checkpoints.take(subtask, 3)
    subtask.backend.notify_checkpoint_complete(2)
    subtask.backend.notify_checkpoint_complete(3)
    set_all(subtask, range(10, 20), 7)
    handle, expected = checkpoints.take(subtask, 4), subtask.state()
    assert [run.local_path for run in handle.shared_state] == ["0-1", "0-4"]
    assert restored(pa.int64(), [handle], ALL).state() == expected
