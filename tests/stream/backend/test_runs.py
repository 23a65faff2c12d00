"""Incremental snapshots: what runs hold together equals the state at their moment, whatever happened between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kit import StateTtlConfig
from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import (
    ByteStreamStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
)
from kit.core.state.key_groups import key_group_partitions
from kit.files.run_files import read_runs
from kit.files.storage import StateFiles
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from kit.stream.backend.runs.incremental_snapshots import IncrementalSnapshots
from kit.stream.backend.runs.manifest import encode_manifest
from kit.stream.backend.states.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.properties import examples
from tests.stream.backend.conftest import written
from tests.stream.backend.test_keyed_states import TOTALS, Average
from tests.stream.backend.ttl import Clock

MAXIMUM = 8
ALL = KeyGroupRange(0, MAXIMUM - 1)
INCREMENTAL, FULL = SharingFilesStrategy.FORWARD_BACKWARD, SharingFilesStrategy.FORWARD
TTL = StateTtlConfig(100, update_type="on_read_and_write", cleanup_size=2)
VALUE = ValueStateDescriptor("value", pa.string())
PAIR = ValueStateDescriptor("pair", pa.struct([("a", pa.int64()), ("b", pa.decimal128(9, 2))]))
TOTAL = ReducingStateDescriptor(
    "total", pa.struct([("n", pa.int64()), ("low", pa.float64())]), {"n": "count", "low": "min"}
)
SUM = ReducingStateDescriptor("sum", pa.int64(), "sum")
LIST = ListStateDescriptor("list", pa.int16())
MAP = MapStateDescriptor("map", pa.string(), pa.float64())
MEAN = AggregatingStateDescriptor("mean", TOTALS, Average())
FADING = ValueStateDescriptor("fading", pa.int64(), ttl=TTL)
FADING_SUM = ReducingStateDescriptor("fading sum", pa.int64(), "sum", ttl=TTL)
FADING_LIST = ListStateDescriptor("fading list", pa.int64(), ttl=TTL)
FADING_MAP = MapStateDescriptor("fading map", pa.string(), pa.int64(), ttl=TTL)


class Subtask:
    """A backend with incremental snapshots, and beside it one without, to which the same is done."""

    def __init__(self, key_type: pa.DataType, groups: KeyGroupRange = ALL, most_runs: int = 64) -> None:
        self.clock = Clock()
        self.incremental = IncrementalSnapshots(most_runs)
        self.groups = groups
        self.backend = HeapKeyedStateBackend(key_type, groups, MAXIMUM, clock=self.clock, incremental=self.incremental)
        self.plain = HeapKeyedStateBackend(key_type, groups, MAXIMUM, clock=self.clock)

    def both(self) -> tuple[HeapKeyedStateBackend, HeapKeyedStateBackend]:
        return self.backend, self.plain

    def state(self) -> Any:
        """All state as a full snapshot has it, which must be the same on both sides."""
        found = written(self.backend)
        assert found == written(self.plain)
        return found


@dataclass
class Checkpoints:
    """The runs that were written, by name, and the handles of checkpoints with the state at their moment."""

    files: dict[str, ByteStreamStateHandle] = field(default_factory=dict)
    taken: dict[int, tuple[IncrementalRemoteKeyedStateHandle | None, Any]] = field(default_factory=dict)

    def take(
        self, subtask: Subtask, checkpoint_id: int, sharing: SharingFilesStrategy = INCREMENTAL
    ) -> IncrementalRemoteKeyedStateHandle | None:
        """Take a snapshot as a host does, and return its handle, with files in the place of placeholders."""
        state = subtask.state()
        name = f"{subtask.groups.start}-{checkpoint_id}"
        runs, own = subtask.backend.snapshot_run(checkpoint_id, name, sharing)
        if own is not None:
            self.files[name] = ByteStreamStateHandle(name, own.encode()[0].to_pybytes())
        files = tuple(HandleAndLocalPath(run.name, self.files[run.name]) for run in runs)
        manifest = ByteStreamStateHandle(f"{name}-runs", encode_manifest(run.entry for run in runs))
        handle = IncrementalRemoteKeyedStateHandle("me", subtask.groups, checkpoint_id, files, (), manifest, 0)
        subtask.backend.run_written(checkpoint_id, handle)
        self.taken[checkpoint_id] = (handle if runs else None), state
        return self.taken[checkpoint_id][0]


def restored(key_type: pa.DataType, handles: list[Any], groups: KeyGroupRange, most_runs: int = 64) -> Subtask:
    """Return a subtask with the state of these handles."""
    made = Subtask(key_type, groups, most_runs)
    for backend in made.both():
        backend.restore([(handle, read_runs(handle, StateFiles(), groups)) for handle in handles if handle is not None])
    return made


class Changes:
    """Random changes to all kinds of state, of a few keys that come and go."""

    def __init__(self, chance: Random, keys: list[Any], key_type: pa.DataType) -> None:
        self.chance, self.keys, self.key_type = chance, keys, key_type

    def make(self, subtask: Subtask) -> None:
        chance = self.chance
        subtask.clock.processing_time_ms += chance.choice([0, 0, 0, 7, 60, 200])
        keys = [chance.choice(self.keys) for _ in range(chance.choice([1, 2, 3, 20]))]
        how = chance.choice([self.one_key, self.in_turn, self.batch, self.clear, self.timers])
        seed = chance.random()
        for backend in subtask.both():
            how(backend, keys, Random(seed))

    def one_key(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        for key in keys:
            backend.set_current_key(key)
            number = chance.randint(-9, 9)
            match chance.randint(0, 9):
                case 0:
                    backend.state(VALUE).update(chance.choice(["x", "yy", None]))
                case 1:
                    backend.state(PAIR, "w").update({"a": number, "b": None})
                case 2:
                    backend.state(TOTAL, number % 3).add({"low": float(number)})
                case 3:
                    backend.state(LIST).add_all([number] * chance.randint(0, 2))
                case 4:
                    backend.state(MAP).put(chance.choice("abc"), None)
                case 5:
                    backend.state(MAP).remove(chance.choice("abc"))
                case 6:
                    backend.state(MEAN).add(number)
                case 7:
                    backend.state(FADING_LIST).add(number)
                case 8:
                    backend.state(FADING_MAP).put(chance.choice("abc"), number)
                case 9:
                    list(backend.state(FADING_LIST).get()), backend.state(FADING).value()

    def in_turn(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        fading, total, value = backend.state(FADING), backend.state(FADING_SUM), backend.state(VALUE)
        timers = backend.timer_service("runs")
        for _ in backend.in_turn(pa.array(keys, self.key_type)):
            number = chance.randint(0, 5)
            fading.update(number if number else None)
            total.add(number)
            value.update(str(number))
            timers.event_time.register_one(number)
            timers.event_time.delete_one(number + 1)

    def batch(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        numbers = pa.array([chance.choice([None, 1, 2]) for _ in keys], pa.int64())
        column = pa.array(keys, self.key_type)
        for state in (SUM, FADING_SUM):
            table = backend.table(state)
            table.reduce(table.slots(column), numbers)
        table = backend.table(TOTAL, pa.int64())
        slots = table.slots(column, pa.array([chance.randint(0, 2) for _ in keys]))
        table.reduce(slots, {"low": numbers.cast(pa.float64())})
        backend.table(LIST).add(backend.table(LIST).slots(column), pa.array([7] * len(keys), pa.int16()))

    def clear(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        if chance.random() < 0.3:
            for table in backend.tables.values():
                table.clear(table.entries())
            return
        for key in keys:
            backend.set_current_key(key)
            for state in (VALUE, SUM, LIST, MAP, MEAN, FADING):
                if chance.random() < 0.5:
                    backend.state(state).clear()

    def timers(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        queue = backend.timer_service("windows", pa.int64()).processing_time
        column, numbers = pa.array(keys, self.key_type), pa.array([chance.randint(0, 9) for _ in keys])
        chance.choice([queue.register, queue.delete])(column, numbers, numbers)
        if chance.random() < 0.3:
            queue.pop_due(chance.randint(0, 9))


def with_cold_keys(subtask: Subtask, keys: list[Any]) -> None:
    """Set entries that hardly ever change, so that the first run is large and others build on it."""
    cold = [f"cold {n}" if isinstance(keys[-1], str) else -1 - n for n in range(60)]
    for backend in subtask.both():
        for number, key in enumerate([*cold, *keys]):
            backend.set_current_key(key)
            for state in (VALUE, SUM, LIST, MAP, MEAN, FADING_LIST):
                match state:
                    case ListStateDescriptor():
                        backend.state(state).add(number)
                    case MapStateDescriptor():
                        backend.state(state).put("a", 1.0)
                    case ReducingStateDescriptor() | AggregatingStateDescriptor():
                        backend.state(state).add(number)
                    case _:
                        backend.state(state).update(str(number))


def some_keys(key_type: pa.DataType, chance: Random) -> list[Any]:
    if pa.types.is_string(key_type):
        return ["", "a", "é", "long" * 50, "b", "c", "d", "e"]
    base = chance.choice([0, 1 << 40])
    return [base * number + number for number in range(12)]


@pytest.mark.parametrize("key_type", [pa.int64(), pa.string()], ids=str)
@given(seed=st.integers(0, 1 << 32), most_runs=st.sampled_from([2, 3, 5, 64]))
@settings(max_examples=examples(100, in_ci=6), deadline=None)
def test_runs_hold_the_state_at_their_moment(key_type: pa.DataType, seed: int, most_runs: int) -> None:
    """Checkpoints overlap, complete, are aborted or superseded; the job goes on from one of them, or on its own."""
    chance = Random(seed)
    changes = Changes(chance, some_keys(key_type, chance), key_type)
    subtask, checkpoints = Subtask(key_type, most_runs=most_runs), Checkpoints()
    with_cold_keys(subtask, changes.keys)
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
        match chance.randint(0, 5):
            case 0:
                subtask.backend.notify_checkpoint_aborted(open_ids.pop(chance.randrange(len(open_ids))))
            case 1:
                pass
            case 2 if open_ids:
                handle, expected = checkpoints.taken[checkpoint_id]
                subtask = restored(key_type, [handle], ALL, most_runs)
                assert subtask.state() == expected
                open_ids.clear()
            case _ if open_ids:
                complete = chance.choice(open_ids)
                subtask.backend.notify_checkpoint_complete(complete)
                open_ids = [number for number in open_ids if number > complete]
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
    wider = ReducingStateDescriptor("sum", pa.int64(), "sum", ttl=TTL)
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
