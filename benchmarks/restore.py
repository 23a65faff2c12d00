"""A restore at another parallelism beside Parquet: the state of ten million keys, read back by one thread.

    python -m benchmarks restore
    python -m benchmarks.restore --keys 1000000 --runs 9

Two subtasks write a checkpoint: a sum and a count for each int64 key, keys spread over 64 bits. Three subtasks, one
after the other, read their key groups and build their state: from the first byte read until a batch can be folded in.
Then pyarrow reads the same rows (key, sum, count) from one Parquet file into a table. The file is written with the
default settings, and also neither encoded nor compressed, which is faster to read.

Both read the same rows in the same order from the page cache, in one thread, whose processor time is measured. Runs
alternate, each in a process of its own, because a restore is the first thing that a worker does, with memory that the
system still has to provide. A restore does more than Parquet: it checks every byte's checksum and every key's group,
and builds an index of the keys. At the end the restored state is compared with the state that was written.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._options import options
from kit.core.state.handles import KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.key_groups import key_group_partitions
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.stream.backend.files.partial_file import read_wanted
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.states.descriptors import ReducingStateDescriptor

KEYS, FEWEST = 10_000_000, 10_000
RUNS = 5
BEFORE, AFTER = 2, 3
MAX_PARALLELISM = 128
GOAL = 2.0
BATCH_ROWS = 1 << 16
TOTALS = ReducingStateDescriptor(
    "totals", pa.struct([("total", pa.int64()), ("n", pa.int64())]), {"total": "sum", "n": "count"}
)


def spread_keys(count: int) -> np.ndarray:
    """Return this number of keys, spread over 64 bits."""
    return (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def filled(groups: KeyGroupRange, keys: np.ndarray, numbers: np.ndarray) -> HeapKeyedStateBackend:
    """The state of one subtask."""
    backend = HeapKeyedStateBackend(pa.int64(), groups, MAX_PARALLELISM)
    table = backend.table(TOTALS)
    for start in range(0, len(keys), BATCH_ROWS):
        some = keys[start : start + BATCH_ROWS]
        table.reduce(table.slots(some), {"total": numbers[start : start + len(some)] % 1_000})
    return backend


def checkpoint(
    storage: CheckpointStorage, location: CheckpointLocation, keys: np.ndarray
) -> list[KeyGroupsStateHandle]:
    """Write the checkpoint of two subtasks."""
    groups, handles = key_groups(keys, MAX_PARALLELISM), []
    for own in key_group_partitions(MAX_PARALLELISM, BEFORE):
        numbers = np.flatnonzero((groups >= own.start) & (groups <= own.end))
        snapshot = filled(own, keys[numbers], numbers).snapshot()
        assert snapshot is not None
        with storage.create_stream(location, f"{own.start}") as out:
            offsets = snapshot.write(out.write)
            handles.append(KeyGroupsStateHandle(own, offsets, out.close_and_get_handle()))
    return handles


def restored(storage: CheckpointStorage, handles: list[KeyGroupsStateHandle]) -> list[HeapKeyedStateBackend]:
    """Return the state of three subtasks after a restore."""
    backends = []
    for own in key_group_partitions(MAX_PARALLELISM, AFTER):
        backend = HeapKeyedStateBackend(pa.int64(), own, MAX_PARALLELISM)
        theirs = [part for handle in handles if (part := handle.intersection(own)) is not None]
        backend.restore((part, read_wanted(part, partial(storage.read_range, part.delegate))) for part in theirs)
        backend.table(TOTALS)
        backends.append(backend)
    return backends


def read_parquet(path: str) -> int:
    """Read all rows into memory; return their number."""
    return len(pq.read_table(path, use_threads=False))


def rows(backends: list[HeapKeyedStateBackend]) -> pa.Table:
    """Return the rows of the backends, in the order of their slots."""
    tables = []
    for backend in backends:
        table = backend.table(TOTALS)
        slots = table.entries()
        total, n = table.get_fields(slots)
        tables.append(pa.table({"key": table.keys(slots), "total": total, "n": n}))
    return pa.concat_tables(tables)


def written(keys: np.ndarray) -> pa.Table:
    """Return the rows of the state that was written."""
    numbers = np.arange(len(keys))
    return pa.table({"key": keys, "total": numbers % 1_000, "n": np.ones_like(numbers)})


def sum_of(table: pa.Table) -> list[int]:
    """Return a checksum that does not depend on the order of the rows."""
    key, total, n = (table[name].to_numpy().view(np.uint64) for name in ("key", "total", "n"))
    mixed = (key ^ (total * np.uint64(0xD6E8FEB86659FD93)) ^ (n << np.uint64(40))) * np.uint64(0x9E3779B97F4A7C15)
    return [len(table), int((mixed ^ (mixed >> np.uint64(32))).sum())]


class Took(NamedTuple):
    """Seconds of processor time, which other work on the machine changes less than the time by the clock."""

    own: float
    system: float
    """The system's, for this process: above all for memory, which it clears before it gives it."""

    @property
    def both(self) -> float:
        """Return the sum of both."""
        return self.own + self.system

    def __str__(self) -> str:
        return f"{self.own:.2f} + {self.system:.2f} s"


def took(work: Callable[[], object]) -> Took:
    """Measure in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_timed, work).result()


def _timed(work: Callable[[], object]) -> Took:
    pa.set_cpu_count(1)
    begin = os.times()
    work()
    end = os.times()
    return Took(end.user - begin.user, end.system - begin.system)


def times(seconds: dict[str, float], name: str) -> float:
    """Return how many times as long the restore takes; nan when the other is too short for the system's clock."""
    return seconds["restore"] / (seconds[name] or math.nan)


def main() -> int:
    """Print the times of each turn and the ratios of the medians; return 1 if the restored state is wrong."""
    arguments = options(__doc__)
    arguments.add_argument("--keys", type=int, default=KEYS)
    arguments.add_argument("--runs", type=int, default=RUNS)
    given = arguments.parse_args()
    keys_held, runs_each = (FEWEST, 1) if given.smallest else (given.keys, given.runs)
    with tempfile.TemporaryDirectory() as directory:
        storage = CheckpointStorage(directory, "0" * 32)
        location = storage.initialize_location_for_checkpoint(1)
        keys = spread_keys(keys_held)
        handles = checkpoint(storage, location, keys)
        table = rows(restored(storage, handles))
        encoded, plain = (str(Path(directory) / name) for name in ("encoded.parquet", "plain.parquet"))
        pq.write_table(table, encoded)
        pq.write_table(table, plain, use_dictionary=False, compression="none")
        del table
        ways: dict[str, Callable[[], object]] = {
            "restore": partial(restored, storage, handles),
            "parquet": partial(read_parquet, encoded),
            "plain parquet": partial(read_parquet, plain),
        }
        runs: dict[str, list[Took]] = {name: [] for name in ways}
        for _ in range(runs_each):
            for name, way in ways.items():
                runs[name].append(took(way))
            print(", ".join(f"{name} {each[-1]}" for name, each in runs.items()), flush=True)
        size = sum(handle.state_size for handle in handles)
        same = sum_of(rows(restored(storage, handles))) == sum_of(written(keys))
    medians = {name: statistics.median(each.both for each in each_run) for name, each_run in runs.items()}
    own = {name: statistics.median(each.own for each in each_run) for name, each_run in runs.items()}
    print(
        f"{keys_held} keys, {size / 1e6:.0f} MB, from {BEFORE} subtasks to {AFTER}: "
        + ", ".join(f"{name} {median:.2f} s" for name, median in medians.items())
    )
    for name in ("parquet", "plain parquet"):
        print(
            f"{times(medians, name):.1f} times {name}, {times(own, name):.1f} times without "
            f"the system's part; at most {GOAL:g} is the goal"
        )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
