"""State on disk, before it is built: two designs on W7, each in the same memory.

    python -m benchmarks.disk_state --design runs --keys 5000000 --memory-mb 128 --skew uniform --seconds 15
    python -m benchmarks.disk_state --design rocksdict ...     # needs `pip install rocksdict`, in any environment

Measures W7: the sum and the last value of each of N keys that are spread over 64 bits, and a checkpoint each second. A
key has 104 bytes of state, itself included. The design `runs` is sorted runs of the kit's own, `rocksdict` is RocksDB;
both are below the same cache of hot rows. With `--access update` each row needs the new sum, so a miss reads the disk.
With `--access blind` nobody reads, and `runs` appends deltas. With `--io direct`, the default, the kernel caches no
file (O_DIRECT), so no memory is used beside the budget. With `--checkpoint-s 0` there are no checkpoints: if the state
fits, this is the speed of state in memory.

Each run loads N keys, fills the cache with the first of them (the most frequent ones), warms up, and measures. At the
end the sum over all keys is compared with what went in.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks._options import options
from benchmarks.disk_state.hot_rows import Counts, HotRows, bytes_of, rows_within
from benchmarks.disk_state.process import Usage, resident_bytes, usage
from benchmarks.disk_state.rows import Generator, keys_of, loaded, state_of
from benchmarks.disk_state.run_store import RunStore

_META_BYTES_A_KEY = 4
"""Of the filters and fence keys, with as many obsolete entries as current ones, and the output of a merge beside."""
_FILLED_AT_ONCE = 1 << 15
COLUMNS = (
    "design",
    "access",
    "skew",
    "state/memory",
    "M rows/s",
    "CPU us/row",
    "misses",
    "read B/row",
    "written B/row",
    "checkpoint ms (median, most)",
    "memory MB (cache + store, RSS)",
    "where the time went",
)


@dataclass(slots=True)
class Measured:
    """One run."""

    counts: Counts = field(default_factory=Counts)
    used: Usage = field(default_factory=usage)
    stalls_s: list[float] = field(default_factory=list)
    resident_bytes: int = 0


def store_of(given: Namespace, directory: Path) -> tuple[Any, int]:
    """Return the store and the memory that is left for the cache."""
    memory, direct = int(given.memory_mb * 1e6), given.io == "direct"
    if given.design == "rocksdict":
        from benchmarks.disk_state.rocks_store import RocksStore  # its package is needed only here

        return RocksStore(directory, memory // 4, direct=direct), memory * 3 // 4
    store = RunStore(directory, direct=direct, merge_mb_s=given.merge_mb_s)
    return store, memory - store.memory_bytes() - _META_BYTES_A_KEY * given.keys


def measure(given: Namespace, store: Any, cache: HotRows, directory: Path) -> tuple[Measured, int]:
    """Warm up, then measure; return also the sum of all values."""
    generator = Generator(given.keys, given.skew, given.seed, given.batch_rows)
    fits = given.keys + given.batch_rows <= cache.capacity
    total = 0
    if fits or given.access == "update":  # else the cache holds deltas, and no row complete
        for begin in range(0, given.keys if fits else cache.capacity - given.batch_rows, _FILLED_AT_ONCE):
            numbers = np.arange(begin, min(begin + _FILLED_AT_ONCE, given.keys))
            cache.fill(keys_of(numbers), *state_of(numbers))
    ctypes.CDLL(None).malloc_trim(0)  # else memory that loading the state needed counts as memory of the store
    total += _run(cache, generator, directory, given.warm_seconds, given.checkpoint_s, Measured())
    cache.counts = Counts()
    store.disk_write_s = store.waited_s = 0.0
    measured = Measured(cache.counts)
    total += _run(cache, generator, directory, given.seconds, given.checkpoint_s, measured)
    return measured, total


def _run(
    cache: HotRows, generator: Generator, directory: Path, seconds: float, every_s: float, measured: Measured
) -> int:
    before, total, number = usage(), 0, 0
    end = before.wall_s + seconds
    due = before.wall_s + every_s if every_s else end
    while (now := time.monotonic()) < end:
        if now >= due:
            cache.checkpoint(directory / f"checkpoint-{number % 2}")
            measured.stalls_s.append(time.monotonic() - now)
            due = max(due + every_s, time.monotonic())
            number += 1
            measured.resident_bytes = max(measured.resident_bytes, resident_bytes())
        batch = generator.batch()
        cache.update(*batch)
        total += int(batch[1].sum())
    measured.resident_bytes = max(measured.resident_bytes, resident_bytes())
    measured.used = usage().since(before)
    return total


def check(given: Namespace, store: Any, cache: HotRows, directory: Path, added: int) -> None:
    """Compare the sum over all keys with what was added to it."""
    cache.checkpoint(directory / "checkpoint-0")
    keys = total = 0
    for entries in store.scan():
        keys += len(entries)
        total += int(entries.sums.sum())
    expected = given.keys, given.keys * (given.keys - 1) // 2 + added
    if (keys, total) != expected:
        raise SystemExit(f"{given.design}: {keys} keys with a sum of {total}, expected {expected}")


def row(given: Namespace, measured: Measured, store: Any, cache: HotRows, base: int) -> dict[str, Any]:
    """Return the row of the table as a mapping."""
    counts, used, wall = measured.counts, measured.used, measured.used.wall_s
    stalls = [1000 * stall for stall in measured.stalls_s] or [0.0]
    busy = {
        "read": counts.read_s,
        "write": counts.write_s,
        "disk": store.disk_write_s,
        "evict": counts.evict_s,
        "checkpoint": sum(stalls) / 1000,
    }
    shares = " ".join(f"{name} {100 * spent / wall:.0f}%" for name, spent in busy.items())
    flushed = (
        f"{counts.flushed / max(1, counts.rows):.2f} entries/row flushed, waited {store.waited_s:.1f} s for merges"
    )
    cells = (
        given.design,
        given.access,
        given.skew,
        f"{given.keys * 104 / given.memory_mb / 1e6:.1f}",
        f"{counts.rows / wall / 1e6:.3f}",
        f"{1e6 * used.cpu_s / max(1, counts.rows):.2f}",
        f"{100 * counts.misses / max(1, counts.rows):.0f}%",
        f"{used.read_bytes / max(1, counts.rows):.0f}",
        f"{used.written_bytes / max(1, counts.rows):.0f}",
        f"{median(stalls):.0f}, {max(stalls):.0f}",
        f"{(bytes_of(cache.capacity) + store.memory_bytes()) / 1e6:.0f}, {(measured.resident_bytes - base) / 1e6:.0f}",
        f"{shares}; {flushed}; {store.described()}",
    )
    return dict(zip(COLUMNS, cells, strict=True))


def arguments() -> Namespace:
    """Return what was asked for."""
    parser = options(__doc__, "python -m benchmarks.disk_state")
    parser.add_argument("--design", choices=("runs", "rocksdict"), default="runs")
    parser.add_argument("--access", choices=("update", "blind"), default="update")
    parser.add_argument("--skew", choices=("uniform", "zipf"), default="uniform")
    parser.add_argument("--io", choices=("direct", "buffered"), default="direct")
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--memory-mb", type=float, default=130)
    parser.add_argument("--merge-mb-s", type=float, default=150, help="what merges may write a second")
    parser.add_argument("--checkpoint-s", type=float, default=1, help="the interval of checkpoints, 0 for none")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--warm-seconds", type=float, default=8)
    parser.add_argument("--batch-rows", type=int, default=1 << 16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="where the state is written; a file system with O_DIRECT")
    parser.add_argument("--json", type=Path, help="append the row to this file as well")
    given = parser.parse_args()
    if given.smallest:
        given.keys, given.memory_mb, given.warm_seconds, given.io = 100_000, 26, 0.1, "buffered"
        given.seconds, given.checkpoint_s = 0.5, 0.2
    return given


def main() -> int:
    """Measure one design once."""
    given = arguments()
    directory = Path(tempfile.mkdtemp(prefix="disk-state-", dir=given.directory))
    try:
        base = resident_bytes()
        store, memory = store_of(given, directory)
        store.load(loaded(given.keys), given.keys)
        cache = HotRows(store, rows_within(memory), answers=given.access == "update")
        measured, added = measure(given, store, cache, directory)
        line = row(given, measured, store, cache, base)
        check(given, store, cache, directory, added)
        store.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n| {' | '.join(line.values())} |")
    if given.json:
        with given.json.open("a") as out:
            out.write(json.dumps(line | {"stalls": measured.stalls_s, "io": given.io}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
