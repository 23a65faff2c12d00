"""Backends to which the same random changes are made, and checkpoints of incremental ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from kit import StateTtlConfig
from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.handles import (
    NO_OFFSET_SET,
    ByteStreamStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
)
from kit.files.run_files import read_runs
from kit.files.storage import StateFiles
from kit.stream.backend.files.framing import state_name
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.runs.incremental_snapshots import IncrementalSnapshots
from kit.stream.backend.runs.manifest import encode_manifest
from kit.stream.backend.spill.memory_budget import MemoryBudget
from kit.stream.backend.spill.spill_space import MemorySpace
from kit.stream.backend.states.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.stream.backend.conftest import written
from tests.stream.backend.test_keyed_states import TOTALS, Average
from tests.stream.backend.ttl import Clock

MAXIMUM = 8
ALL = KeyGroupRange(0, MAXIMUM - 1)
INCREMENTAL, FULL = SharingFilesStrategy.FORWARD_BACKWARD, SharingFilesStrategy.FORWARD
VALUE = ValueStateDescriptor("value", pa.string())
PAIR = ValueStateDescriptor("pair", pa.struct([("a", pa.int64()), ("b", pa.decimal128(9, 2))]))
TOTAL = ReducingStateDescriptor(
    "total", pa.struct([("n", pa.int64()), ("low", pa.float64())]), {"n": "count", "low": "min"}
)
SUM = ReducingStateDescriptor("sum", pa.int64(), "sum")
LIST = ListStateDescriptor("list", pa.int16())
MAP = MapStateDescriptor("map", pa.string(), pa.float64())
MEAN = AggregatingStateDescriptor("mean", TOTALS, Average())


class Fading:
    """States with a TTL."""

    def __init__(self, cleanup_size: int, leaves_out_expired: bool) -> None:
        ttl = StateTtlConfig(
            100,
            update_type="on_read_and_write",
            cleanup_size=cleanup_size,
            cleanup_full_snapshot=leaves_out_expired,
        )
        self.value = ValueStateDescriptor("fading", pa.int64(), ttl=ttl)
        self.sum = ReducingStateDescriptor("fading sum", pa.int64(), "sum", ttl=ttl)
        self.list = ListStateDescriptor("fading list", pa.int64(), ttl=ttl)
        self.map = MapStateDescriptor("fading map", pa.string(), pa.int64(), ttl=ttl)


class Subtask:
    """A backend with incremental snapshots, and beside it one without, to which the same is done.

    The first has memory for about this many bytes of entries, None: for all.
    """

    in_bytes: ClassVar = True
    """False if only rows are compared: of texts, a message at the beginning of a range has some bytes more."""

    def __init__(
        self, key_type: pa.DataType, groups: KeyGroupRange = ALL, most_runs: int = 64, most_bytes: int | None = None
    ) -> None:
        self.clock = Clock()
        self.fading: Fading | None = None
        self.incremental = IncrementalSnapshots(most_runs)
        self.groups = groups
        budget = None if most_bytes is None else MemoryBudget(MemorySpace(), most_bytes)
        self.backend = HeapKeyedStateBackend(
            key_type, groups, MAXIMUM, clock=self.clock, incremental=self.incremental, budget=budget
        )
        self.plain = HeapKeyedStateBackend(key_type, groups, MAXIMUM, clock=self.clock)

    def both(self) -> tuple[HeapKeyedStateBackend, HeapKeyedStateBackend]:
        return self.backend, self.plain

    def state(self) -> Any:
        """All state as a full snapshot has it, which must be the same on both sides: bytes, or rows if it leaves some
        out. (On disk, a state of which everything has expired is written without rows.)
        """
        for table in self.backend.tables.values():
            assert self.backend.all_rows(table).num_rows == len(table)
        found, plain = written(self.backend), written(self.plain)
        if self.fading is not None or not self.in_bytes:
            found, plain = rows_of(found, self.groups), rows_of(plain, self.groups)
        assert found == plain
        return found

    def leave_out_expired(self, fading: Fading) -> None:
        """Let full snapshots leave out expired entries, those that were restored too."""
        self.fading = fading
        for backend in self.both():
            for descriptor in (fading.value, fading.sum, fading.list, fading.map):
                backend.table(descriptor)


@dataclass
class Checkpoints:
    """The runs that were written, by name, and the handles of checkpoints with the state at their moment; and when."""

    files: dict[str, ByteStreamStateHandle] = field(default_factory=dict)
    taken: dict[int, tuple[IncrementalRemoteKeyedStateHandle | None, Any]] = field(default_factory=dict)
    at_ms: dict[int, int] = field(default_factory=dict)

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
        self.at_ms[checkpoint_id] = subtask.clock.processing_time_ms
        return self.taken[checkpoint_id][0]


def go_on(chance: Random, subtask: Subtask, open_ids: list[int]) -> bool:
    """Abort or complete one of the open checkpoints, or none. Return True if the job is to be restored."""
    match chance.randint(0, 5):
        case 0:
            subtask.backend.notify_checkpoint_aborted(open_ids.pop(chance.randrange(len(open_ids))))
        case 1:
            pass
        case 2:
            return True
        case _:
            complete = chance.choice(open_ids)
            subtask.backend.notify_checkpoint_complete(complete)
            open_ids[:] = [number for number in open_ids if number > complete]
    return False


def restored(
    key_type: pa.DataType,
    handles: list[Any],
    groups: KeyGroupRange,
    most_runs: int = 64,
    most_bytes: int | None = None,
    at_ms: int = 0,
    fading: Fading | None = None,
) -> Subtask:
    """Return a subtask with the state of these handles, at a processing time; `fading` are left out when expired."""
    made = Subtask(key_type, groups, most_runs, most_bytes)
    made.clock.processing_time_ms = at_ms
    for backend in made.both():
        backend.restore([(handle, read_runs(handle, StateFiles(), groups)) for handle in handles if handle is not None])
    if fading is not None:
        made.leave_out_expired(fading)
    return made


def rows_of(snapshot: tuple[bytes, tuple[int, ...]] | None, groups: KeyGroupRange) -> dict[str, list[Any]]:
    """Return the rows of each state that has some, with their key groups, in order."""
    found: dict[str, list[Any]] = {}
    if snapshot is None:
        return found
    data, offsets = snapshot
    file = KeyedStateFile(pa.py_buffer(data), "a snapshot")
    for key_group, offset in zip(groups, offsets, strict=True):
        for number, batch in file.key_group(key_group, offset) if offset != NO_OFFSET_SET else ():
            found.setdefault(state_name(file.schemas[number]), []).append((key_group, batch.to_pylist()))
    return found


class Changes:
    """Random changes to all kinds of state, of a few keys that come and go."""

    def __init__(
        self,
        chance: Random,
        keys: list[Any],
        key_type: pa.DataType,
        cleanup_size: int = 2,
        leaves_out_expired: bool = False,
    ) -> None:
        self.chance, self.keys, self.key_type = chance, keys, key_type
        self.fading = Fading(cleanup_size, leaves_out_expired)

    def make(self, subtask: Subtask) -> None:
        chance = self.chance
        subtask.clock.processing_time_ms += chance.choice([0, 0, 0, 7, 60, 200])
        keys = [chance.choice(self.keys) for _ in range(chance.choice([1, 2, 3, 20]))]
        how = chance.choice([self.one_key, self.in_turn, self.batch, self.clear, self.timers])
        seed = chance.random()
        for backend in subtask.both():
            how(backend, keys, Random(seed))
            backend.make_room()

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
                    backend.state(self.fading.list).add(number)
                case 8:
                    backend.state(self.fading.map).put(chance.choice("abc"), number)
                case 9:
                    list(backend.state(self.fading.list).get()), backend.state(self.fading.value).value()

    def in_turn(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        fading, total = backend.state(self.fading.value), backend.state(self.fading.sum)
        value = backend.state(VALUE)
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
        for state in (SUM, self.fading.sum):
            table = backend.table(state)
            table.reduce(table.slots(column), numbers)
        table = backend.table(TOTAL, pa.int64())
        slots = table.slots(column, pa.array([chance.randint(0, 2) for _ in keys]))
        table.reduce(slots, {"low": numbers.cast(pa.float64())})
        backend.table(LIST).add(backend.table(LIST).slots(column), pa.array([7] * len(keys), pa.int16()))

    def clear(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        if chance.random() < 0.3:
            for table in backend.tables.values():
                for rows in list(backend.rows(table)):
                    namespaces = rows["namespace"] if "namespace" in rows.column_names else None
                    table.clear(table.slots(rows["key"], namespaces, create=False))
            return
        for key in keys:
            backend.set_current_key(key)
            for state in (VALUE, SUM, LIST, MAP, MEAN, self.fading.value):
                if chance.random() < 0.5:
                    backend.state(state).clear()

    def timers(self, backend: HeapKeyedStateBackend, keys: list[Any], chance: Random) -> None:
        queue = backend.timer_service("windows", pa.int64()).processing_time
        column, numbers = pa.array(keys, self.key_type), pa.array([chance.randint(0, 9) for _ in keys])
        chance.choice([queue.register, queue.delete])(column, numbers, numbers)
        if chance.random() < 0.3:
            queue.pop_due(chance.randint(0, 9))


def with_cold_keys(subtask: Subtask, changes: Changes) -> None:
    """Set entries that hardly ever change, so that the first run is large and others build on it."""
    keys = changes.keys
    cold = [f"cold {n}" if isinstance(keys[-1], str) else -1 - n for n in range(60)]
    for backend in subtask.both():
        for number, key in enumerate([*cold, *keys]):
            backend.set_current_key(key)
            for state in (VALUE, SUM, LIST, MAP, MEAN, changes.fading.list):
                match state:
                    case ListStateDescriptor():
                        backend.state(state).add(number)
                    case MapStateDescriptor():
                        backend.state(state).put("a", 1.0)
                    case ReducingStateDescriptor() | AggregatingStateDescriptor():
                        backend.state(state).add(number)
                    case _:
                        backend.state(state).update(str(number))
        backend.make_room()


def some_keys(key_type: pa.DataType, chance: Random) -> list[Any]:
    if pa.types.is_string(key_type):
        return ["", "a", "é", "long" * 50, "b", "c", "d", "e"]
    base = chance.choice([0, 1 << 40])
    return [base * number + number for number in range(12)]
