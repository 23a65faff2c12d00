"""Opening large checkpoints: how long, in how much memory, and how the Spark data source compares with Parquet.

    python -m benchmarks opening
    python -m benchmarks.opening --keys 10000000 --without-spark

Three measures. A checkpoint of 10,000 subtasks is opened, with its tables of operators and subtasks. A canonical
savepoint larger than what is read at once (64 MiB) is read key group by key group, in a process of its own: its peak
resident size, less that before. And a sum over all keys of this savepoint is taken in Spark, through the data source
and from the same rows as Parquet, in turns; the quickest run of each counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kit
from benchmarks._options import options
from kit.core.metadata import NEWEST, CheckpointMetadata, write_metadata
from kit.core.state.handles import ByteStreamStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.stream.graph.hashing import operator_id_of_uid
from tests.snapshots.written import longs

SUBTASKS, OPERATORS = 10_000, 10
MIB = 1 << 20
STREAMED = """
import sys, kit, json

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

checkpoint = kit.open_checkpoint(sys.argv[1])
first = next(checkpoint.stream(sys.argv[2], "total"))
before = peak()
rows, largest = 0, 0
for part in checkpoint.stream(sys.argv[2], "total"):
    rows, largest = rows + part.num_rows, max(largest, part.nbytes)
print(json.dumps([rows, largest, before, peak()]))
"""
"""Read a state by key group; the first is read before the measure, so that all modules are there."""


def with_subtasks(folder: Path, subtasks: int) -> Path:
    """Write the metadata of a checkpoint with keyed state in every subtask; the state itself is inline and empty."""
    folder.mkdir()
    each = subtasks // OPERATORS
    operators = []
    for number in range(OPERATORS):
        states = {}
        for subtask in range(each):
            groups = KeyGroupRange(subtask * 4, subtask * 4 + 3)
            handle = KeyGroupsStateHandle(
                groups, (0, 10, 20, 30), ByteStreamStateHandle(f"{number}-{subtask}", b"x" * 40)
            )
            states[subtask] = OperatorSubtaskState(managed_keyed_state=(handle,))
        uid = f"operator {number}"
        operators.append(OperatorState(operator_id_of_uid(uid), each, each * 4, states, name=uid, uid=uid))
    (folder / "_metadata").write_bytes(write_metadata(CheckpointMetadata(1, tuple(operators)), NEWEST))
    return folder


def opened(folder: Path) -> float:
    """Return the seconds to open a checkpoint with its first tables."""
    start = time.perf_counter()
    checkpoint = kit.open_checkpoint(folder)
    rows = len(checkpoint.operators) + len(checkpoint.subtasks)
    assert rows
    return time.perf_counter() - start


def streamed(folder: Path) -> tuple[int, int, int, int]:
    """Return rows, bytes of the largest key group, and the peak resident size before and after."""
    command = [sys.executable, "-c", STREAMED, str(folder), "sums"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    rows, largest, before, after = json.loads(ran.stdout)
    return rows, largest, before, after


def in_spark(folder: Path, parquet: Path, times: int) -> tuple[float, float]:
    """Return the seconds of the same sum through the data source and from Parquet, the quickest of each."""
    from kit.hosts.spark import create_session

    spark = create_session(slots=2)
    try:
        frames = {
            "checkpoint": spark.read.format("checkpoint")
            .option("operator", "sums")
            .option("state", "total")
            .load(str(folder)),
            "parquet": spark.read.parquet(str(parquet)),
        }
        found: dict[str, list[float]] = {name: [] for name in frames}
        sums = set()
        for _ in range(times + 1):  # the first is not counted
            for name, frame in frames.items():
                start = time.perf_counter()
                sums.add(tuple(frame.selectExpr("sum(key)", "sum(value)", "count(*)").first()))
                found[name].append(time.perf_counter() - start)
        assert len(sums) == 1
    finally:
        spark.stop()
    return min(found["checkpoint"][1:]), min(found["parquet"][1:])


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--without-spark", action="store_true", help="leave out the data source")
    wanted = parser.parse_args()
    keys, times = (10_000, 1) if wanted.smallest else (wanted.keys, wanted.times)
    with tempfile.TemporaryDirectory(prefix="opening-") as place:
        wide = with_subtasks(Path(place) / "wide", SUBTASKS)
        print(f"{SUBTASKS:,} subtasks opened: {min(opened(wide) for _ in range(times)):.2f} s")
        values = np.arange(keys, dtype=np.int64)
        folder = longs(Path(place) / "longs", values)
        size = (folder / "keyed").stat().st_size
        rows, largest, before, after = streamed(folder)
        assert rows == keys
        print(
            f"{keys:,} keys, {size / MIB:.0f} MiB, by key group of at most {largest / MIB:.1f} MiB: "
            f"{(after - before) / MIB:.1f} MiB more of resident memory, {after / MIB:.0f} MiB in all"
        )
        if wanted.smallest or wanted.without_spark:
            print("Spark is measured at other sizes only")
            return 0
        (parquet := Path(place) / "parquet").mkdir()
        for part in range(4):
            own = values[part::4]
            pq.write_table(pa.table({"key": own, "value": -own}), parquet / f"{part}.parquet")
        ours, theirs = in_spark(folder, parquet, times)
        print(f"sum in Spark: data source {ours:.2f} s, Parquet {theirs:.2f} s, {ours / theirs:.1f} times as long")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
