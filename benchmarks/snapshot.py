"""A snapshot of a keyed aggregate of ten million keys: what it costs the task while it is taken, and while written.

    python -m benchmarks snapshot
    python -m benchmarks.snapshot --keys 1000000 --runs 9

A task folds batches of 64k rows into a count and a sum for each int64 key. In every run it works for a while, takes a
snapshot (the synchronous part), and works on while another thread encodes and writes it. The rate kept is the rate
meanwhile over the mean of the rates just before and just after. It says something only where a core is free for the
other thread, so each line says how many cores other processes took meanwhile. At the end the state is restored.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import ReducingStateDescriptor

KEYS, FEWEST = 10_000_000, 10_000
RUNS = 7
BATCH_ROWS = 65_536
BATCHES = 64
ALONE_S, BRIEFLY_S = 1.0, 0.01
MAX_PARALLELISM = 128
TOTALS = ReducingStateDescriptor(
    "totals", pa.struct([("total", pa.int64()), ("n", pa.int64())]), {"total": "sum", "n": "count"}
)


@dataclass(frozen=True)
class Run:
    """The cost of one snapshot; `others` are the cores that other processes took meanwhile."""

    sync_ms: float
    async_s: float
    kept: float
    stall_ms: float
    mrows_per_s: float
    others: float

    def __str__(self) -> str:
        return (
            f"synchronous {self.sync_ms:5.1f} ms, asynchronous {self.async_s:5.2f} s, rate kept {self.kept:4.0%} of "
            f"{self.mrows_per_s:5.1f} Mrows/s, longest batch {self.stall_ms:.0f} ms, others: {self.others:.1f} cores"
        )


class Task:
    """A keyed aggregate, as its operator works on it."""

    def __init__(self, keys: int, sparse: bool) -> None:
        self.backend = new_backend()
        self._table = self.backend.table(TOTALS)
        factor = 0x9E3779B97F4A7C15 if sparse else 1
        self._batches = self._drawn(keys, factor)
        self._turn = 0
        for start in range(0, keys, BATCH_ROWS):
            rows = np.arange(start, min(start + BATCH_ROWS, keys), dtype=np.uint64) * np.uint64(factor)
            self._fold(pa.array(rows.view(np.int64)), np.ones(len(rows), np.int64))

    @staticmethod
    def _drawn(keys: int, factor: int) -> list[tuple[pa.Array, np.ndarray]]:
        draw = np.random.default_rng(0)
        rows = draw.integers(0, keys, (BATCHES, BATCH_ROWS)).astype(np.uint64) * np.uint64(factor)
        return [(pa.array(batch.view(np.int64)), draw.integers(0, 100, BATCH_ROWS)) for batch in rows]

    def _fold(self, keys: pa.Array, values: np.ndarray) -> None:
        self._table.reduce(self._table.slots(keys), {"total": values})

    def work(self, go_on: Callable[[float], bool]) -> tuple[float, float]:
        """Fold in one batch and more while `go_on` (of the seconds gone by); million rows per second, longest batch."""
        rows, longest_s = 0, 0.0
        begin = before = time.perf_counter()
        while not rows or go_on(before - begin):
            self._fold(*self._batches[self._turn % BATCHES])
            self._turn += 1
            rows += BATCH_ROWS
            now = time.perf_counter()
            longest_s = max(longest_s, now - before)
            before = now
        return rows / (before - begin) / 1e6, longest_s


def new_backend() -> HeapKeyedStateBackend:
    """An empty backend of all key groups."""
    return HeapKeyedStateBackend(pa.int64(), KeyGroupRange(0, MAX_PARALLELISM - 1), MAX_PARALLELISM)


def seconds_of_others() -> float:
    """The processor time that all other processes have taken, where Linux reports it; else 0."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    user, nice, system, _, _, irq, softirq, *_ = map(int, stat.read_text().split()[1:9])
    own = time.process_time()
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - own


def snapshots(task: Task, directory: str, runs: int, alone_s: float) -> Iterator[Run]:
    """Work alone, take a snapshot, work while it is written; the files are `directory`/0, /1, ..."""
    storage = CheckpointStorage(directory, "0" * 32)
    for number in range(runs):
        alone, _ = task.work(lambda gone_s: gone_s < alone_s)
        begin = time.perf_counter()
        snapshot = task.backend.snapshot()
        sync_s = time.perf_counter() - begin
        took_s: list[float] = []

        def write(snapshot=snapshot, number=number, took_s=took_s) -> None:
            begin = time.perf_counter()
            data, _ = snapshot.encode()
            storage.to_handle(data, CheckpointLocation(directory), str(number))
            took_s.append(time.perf_counter() - begin)

        before_s = seconds_of_others()
        writer = threading.Thread(target=write)
        writer.start()
        del snapshot, write
        meanwhile, longest_s = task.work(lambda _, writer=writer: writer.is_alive())
        writer.join()
        others = (seconds_of_others() - before_s) / took_s[0]
        again, _ = task.work(lambda gone_s: gone_s < alone_s)
        rate = (alone + again) / 2
        yield Run(sync_s * 1e3, took_s[0], meanwhile / rate, longest_s * 1e3, rate, others)


def restored_s(task: Task) -> tuple[float, int]:
    """Seconds to restore what the task holds now, and the size of its file. AssertionError when that changes it."""
    data, offsets = task.backend.snapshot().encode()
    handle = KeyGroupsStateHandle(KeyGroupRange(0, MAX_PARALLELISM - 1), offsets, ByteStreamStateHandle("file", b""))
    backend = new_backend()
    begin = time.perf_counter()
    backend.restore([(handle, data)])
    took_s = time.perf_counter() - begin
    assert backend.snapshot().encode() == (data, offsets), "the restored state is another"
    return took_s, len(data)


def main() -> int:
    """Prints a line for each snapshot, and the medians."""
    arguments = options(__doc__)
    arguments.add_argument("--keys", type=int, default=KEYS)
    arguments.add_argument("--runs", type=int, default=RUNS)
    arguments.add_argument("--sparse", action="store_true", help="keys far apart, which are hashed")
    given = arguments.parse_args()
    keys_held, times = (FEWEST, 1) if given.smallest else (given.keys, given.runs)
    task = Task(keys_held, given.sparse)
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for run in snapshots(task, directory, times, BRIEFLY_S if given.smallest else ALONE_S):
            runs.append(run)
            print(run, flush=True)
    restore_s, size = restored_s(task)
    medians = Run(*(statistics.median(values) for values in zip(*(vars(run).values() for run in runs), strict=True)))
    print(f"{keys_held} keys, {size / 1e6:.0f} MB, medians: {medians}; restored in {restore_s:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
