"""W1 and W2 in numpy alone: no exchange, no lookup of keys, no checkpoints.

There are two processes, as for every peer. In W1 each makes every second row, in batches as large as the kit's, and
adds the value and one to two arrays, at the row's key. Only this program knows that the keys are 0 to 99,999. In W2
each reads every second file, numbers its words with Arrow, and counts the numbers. The time runs from both being ready
until the slower one is done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

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


def words(first: int, texts: list[Path]) -> Counter[str]:
    """Counts by word of every second file."""
    counts: Counter[str] = Counter()
    for path in texts[first::PROCESSES]:
        text = np.fromfile(path, np.uint8)
        text[text == ord("\n")] = ord(" ")
        ends = np.flatnonzero(text == ord(" ")) + 1
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        numbered = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text)).dictionary_encode()
        found = np.bincount(numbered.indices.to_numpy())
        counts.update(dict(zip(numbered.dictionary.to_pylist(), found.tolist(), strict=True)))
    return counts


def _half(work: Callable[[int, int], Any], first: int, rows: int, ready: Barrier, done: Any) -> None:
    work(first, rows // 10)
    ready.wait()
    begin = time.time()
    result = work(first, rows)
    done.send((begin, time.time(), result))


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """One run."""

    def work(first: int, rows: int) -> Any:
        return totals(first, rows) if workload == "W1" else words(first, texts[: rows // workloads.WORDS_PER_FILE])

    fork = get_context("fork")
    ready = fork.Barrier(PROCESSES)
    ends = [fork.Pipe() for _ in range(PROCESSES)]
    processes = [
        fork.Process(target=_half, args=(work, first, rows, ready, theirs)) for first, (_, theirs) in enumerate(ends)
    ]
    for process in processes:
        process.start()
    begins, finished, results = zip(*(ours.recv() for ours, _ in ends), strict=True)
    for process in processes:
        process.join()
    seconds = max(finished) - min(begins)
    if workload == "W2":
        counted = {word[:-1]: times for word, times in sum(results, Counter()).items()}
        return Measured(rows, seconds, 0, workloads.word_checksum(counted))
    sums, counts = sum(results)
    seen = np.flatnonzero(counts)
    return Measured(rows, seconds, 0, workloads.checksum(seen, sums[seen], counts[seen]))


if __name__ == "__main__":
    main_of_peer(measure)
