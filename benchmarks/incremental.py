"""Incremental checkpoints of a keyed aggregate of twenty million keys, beside full ones: time, bytes and their price.

    python -m benchmarks incremental
    python -m benchmarks.incremental --keys 1000000 --checkpoints 20

For each share of keys that change between two checkpoints, a backend takes full and incremental snapshots in turns of
the same changes: seconds (the synchronous part, and encoding and writing to local files) and bytes. Then one backend
takes many incremental checkpoints of one share, merges included: bytes written for each byte of a changed row, the most
runs, and the time to restore from all of them beside that of a full file. At last the rate of the aggregate with and
without noting what changes, in turns. One thread does everything.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from kit.core.protocol.properties import SharingFilesStrategy
from kit.core.state.handles import (
    FileStateHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
)
from kit.files.run_files import read_runs
from kit.files.storage import StateFiles
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.runs.incremental_snapshots import IncrementalSnapshots
from kit.stream.backend.runs.manifest import encode_manifest
from kit.stream.backend.states.descriptors import ReducingStateDescriptor

KEYS, FEWEST = 20_000_000, 20_000
CHECKPOINTS, SHARE = 100, 0.01
SHARES = (0.001, 0.01, 0.1, 0.5)
ROUNDS = 3
BATCH_ROWS = 65_536
ALL = KeyGroupRange(0, 127)
ROW_BYTES = 24
"""A key and its two numbers."""
TOTALS = ReducingStateDescriptor(
    "totals", pa.struct([("total", pa.int64()), ("n", pa.int64())]), {"total": "sum", "n": "count"}
)


@dataclass
class Subtask:
    """A backend with `keys` entries, and the files of its checkpoints in `directory`."""

    keys: int
    directory: Path
    incremental: IncrementalSnapshots | None = None
    checkpoint_id: int = 0
    files: dict[str, FileStateHandle] = field(default_factory=dict)
    draw: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self.backend = HeapKeyedStateBackend(pa.int64(), ALL, len(ALL), incremental=self.incremental)
        self.table = self.backend.table(TOTALS)
        for start in range(0, self.keys, BATCH_ROWS):
            self.add(np.arange(start, min(start + BATCH_ROWS, self.keys)))

    def add(self, numbers: np.ndarray) -> None:
        """Fold one row into the entries of these keys, which are far apart."""
        keys = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
        self.table.reduce(self.table.slots(pa.array(keys)), {"total": numbers})

    def change(self, share: float) -> int:
        """Change this share of the keys, and return how many that are."""
        chosen = self.draw.choice(self.keys, max(1, round(self.keys * share)), replace=False, shuffle=False)
        for start in range(0, len(chosen), BATCH_ROWS):
            self.add(chosen[start : start + BATCH_ROWS])
        return len(chosen)

    def full(self) -> tuple[float, float, int]:
        """Take a full snapshot; return the seconds of both parts, and the bytes."""
        begin = time.perf_counter()
        snapshot = self.backend.snapshot()
        sync_s = time.perf_counter() - begin
        size, self.offsets = self.written("full", snapshot.write)
        return sync_s, time.perf_counter() - begin - sync_s, size

    def run(self) -> tuple[float, float, int]:
        """Take an incremental checkpoint, which completes; the same figures."""
        self.checkpoint_id += 1
        name = str(self.checkpoint_id)
        begin = time.perf_counter()
        runs, own = self.backend.snapshot_run(self.checkpoint_id, name, SharingFilesStrategy.FORWARD_BACKWARD)
        sync_s = time.perf_counter() - begin
        size, _ = self.written(name, own.write)
        manifest = encode_manifest(run.entry for run in runs)
        self.files[name] = FileStateHandle(str(self.directory / name), size)
        (self.directory / "manifest").write_bytes(manifest)
        async_s = time.perf_counter() - begin - sync_s
        files = tuple(HandleAndLocalPath(run.name, self.files[run.name]) for run in runs)
        where = FileStateHandle(str(self.directory / "manifest"), len(manifest))
        self.handle = IncrementalRemoteKeyedStateHandle("me", ALL, self.checkpoint_id, files, (), where, 0)
        self.backend.run_written(self.checkpoint_id, self.handle)
        self.backend.notify_checkpoint_complete(self.checkpoint_id)
        for old in set(self.files) - {run.name for run in runs}:
            (self.directory / old).unlink()
            del self.files[old]
        return sync_s, async_s, size + len(manifest)

    def written(self, name: str, write: object) -> tuple[int, tuple[int, ...]]:
        """Write a file, and return its size and the offsets of its key groups."""
        with open(self.directory / name, "wb") as out:
            offsets = write(out.write)
            return out.tell(), offsets


def compared(keys: int, directory: Path, rounds: int) -> None:
    """Print the two ways for each share of changed keys."""
    subtask = Subtask(keys, directory, IncrementalSnapshots(most_runs=1_000))
    subtask.run()
    print("changed  full: sync ms, s, MB     incremental: sync ms, s, MB     time  bytes per changed byte")
    for share in SHARES:
        rows, figures = 0, []
        for _ in range(rounds):
            rows = subtask.change(share)
            figures.append((subtask.full(), subtask.run()))
        full, run = (tuple(map(statistics.median, zip(*(pair[side] for pair in figures)))) for side in (0, 1))
        print(
            f"{share:6.1%}  {full[0] * 1e3:9.1f} {sum(full[:2]):6.2f} {full[2] / 1e6:7.1f}"
            f"  {run[0] * 1e3:14.1f} {sum(run[:2]):6.2f} {run[2] / 1e6:7.1f}"
            f"  {sum(run[:2]) / sum(full[:2]):10.3f}  {run[2] / (rows * ROW_BYTES):8.2f}",
            flush=True,
        )


def many(keys: int, directory: Path, checkpoints: int, most_runs: int) -> None:
    """Print what many checkpoints write, and what restoring from the last one takes."""
    subtask = Subtask(keys, directory, IncrementalSnapshots(most_runs))
    subtask.run()
    changed = written = most = 0
    for _ in range(checkpoints):
        changed += subtask.change(SHARE) * ROW_BYTES
        written += subtask.run()[2]
        most = max(most, len(subtask.files))
    print(
        f"{checkpoints} checkpoints of {SHARE:.0%}, at most {most_runs} runs: {written / 1e6:.0f} MB for "
        f"{changed / 1e6:.0f} MB of changed rows, {written / changed:.2f} times; at most {most} runs, at last "
        f"{len(subtask.files)}"
    )
    _, _, size = subtask.full()
    whole = KeyGroupsStateHandle(ALL, subtask.offsets, FileStateHandle(str(directory / "full"), size))
    took = []
    for part in ([(whole, StateFiles().read(whole))], [(subtask.handle, read_runs(subtask.handle, StateFiles(), ALL))]):
        backend = HeapKeyedStateBackend(pa.int64(), ALL, len(ALL), incremental=IncrementalSnapshots(most_runs))
        begin = time.perf_counter()
        backend.restore(part)
        took.append(time.perf_counter() - begin)
        assert len(backend.tables["totals"]) == keys, "not all keys were restored"
    held = sum(file.size for file in subtask.files.values()) / size
    print(f"restored from one file in {took[0]:.2f} s, from runs of {held:.2f} times its bytes in {took[1]:.2f} s")


def rates(keys: int, directory: Path, rounds: int) -> None:
    """Print the rate of the aggregate with and without noting what changes."""
    plain, noting = Subtask(keys, directory), Subtask(keys, directory, IncrementalSnapshots(128))
    noting.run()
    ratios, found = [], []
    for _ in range(2 * rounds + 1):
        pair = []
        for subtask in (plain, noting):
            numbers = subtask.draw.integers(0, keys, 32 * BATCH_ROWS)
            begin = time.perf_counter()
            for start in range(0, len(numbers), BATCH_ROWS):
                subtask.add(numbers[start : start + BATCH_ROWS])
            pair.append(len(numbers) / (time.perf_counter() - begin) / 1e6)
        found.append(pair[0])
        ratios.append(pair[1] / pair[0])
    print(f"rate {statistics.median(found):.1f} Mrows/s; noting what changes, {statistics.median(ratios):.2f} of it")


def main() -> int:
    """Print the tables."""
    arguments = options(__doc__)
    arguments.add_argument("--keys", type=int, default=KEYS)
    arguments.add_argument("--checkpoints", type=int, default=CHECKPOINTS)
    given = arguments.parse_args()
    keys, checkpoints, rounds = (FEWEST, 3, 1) if given.smallest else (given.keys, given.checkpoints, ROUNDS)
    print(f"{keys:,} keys, {ROW_BYTES} bytes each")
    for measure in (
        lambda place: compared(keys, place, rounds),
        lambda place: many(keys, place, checkpoints, 32),
        lambda place: many(keys, place, checkpoints, 128),
        lambda place: rates(keys, place, rounds),
    ):
        with tempfile.TemporaryDirectory() as directory:
            measure(Path(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
