"""W1 in numpy alone: no exchange, no lookup of keys, no checkpoints.

There are two processes, as for every peer. Each makes every second row, in batches as large as the kit's, and adds the
value and one to two arrays, at the row's key. Only this program knows that the keys are 0 to 99,999. The time runs from
both being ready until the slower one is done.
"""

from __future__ import annotations

import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.throughput import workloads
from benchmarks.throughput.measured import Measured, main_of_peer

PROCESSES = 2
BATCH_ROWS = 1 << 16


def totals(first: int, rows: int) -> Any:
    """Sums and counts by key of every second row."""
    sums, counts = np.zeros(workloads.KEYS, np.int64), np.zeros(workloads.KEYS, np.int64)
    block = np.arange(BATCH_ROWS) * PROCESSES + first
    for start in range(0, rows, BATCH_ROWS * PROCESSES):
        numbers = block + start
        made = workloads.columns("W1", numbers if numbers[-1] < rows else numbers[numbers < rows])
        np.add.at(sums, made["key"], made["value"])
        np.add.at(counts, made["key"], 1)
    return np.stack([sums, counts])


def _half(first: int, rows: int, ready: Barrier, done: Any) -> None:
    totals(first, rows // 10)
    ready.wait()
    begin = time.time()
    result = totals(first, rows)
    done.send((begin, time.time(), result))


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """One run."""
    fork = get_context("fork")
    ready = fork.Barrier(PROCESSES)
    ends = [fork.Pipe() for _ in range(PROCESSES)]
    processes = [
        fork.Process(target=_half, args=(first, rows, ready, theirs)) for first, (_, theirs) in enumerate(ends)
    ]
    for process in processes:
        process.start()
    begins, finished, results = zip(*(ours.recv() for ours, _ in ends), strict=True)
    for process in processes:
        process.join()
    sums, counts = sum(results)
    seen = np.flatnonzero(counts)
    seconds = max(finished) - min(begins)
    return Measured(rows, seconds, 0, workloads.checksum(seen, sums[seen], counts[seen]))


if __name__ == "__main__":
    main_of_peer(measure)
