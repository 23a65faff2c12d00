"""A canonical savepoint of a million Long keys, read to Arrow: how long, in how much memory, and how long Flink takes.

    python -m benchmarks savepoint
    python -m benchmarks.savepoint --keys 1000000 --times 3

Flink writes the savepoint and reads it in a job on a cluster in one process, as its State Processor API does: it
restores the state to a backend, walks the backend's keys, and reads the value of each. The kit opens the same file
again each time. The quickest of several runs is shown, on both sides, because other work on the machine only adds time.
`stream` holds one key group at a time. Memory is the most that Arrow and numpy allocate (`tracemalloc`, Arrow's pool).
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import kit
from benchmarks._options import options
from scripts.flink import VERSION, FlinkMissing, fetch, run_java
from tests.flink_data import value_cases, values

JAVA = Path(__file__).with_name("ReadKeys.java")
MIB = 1 << 20


def quickest(times: int, run: Callable[[], object]) -> float:
    """Return the seconds of the quickest run."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def measure(path: str, operator: str, state: str, times: int) -> tuple[float, float, int, pa.Table]:
    """Return the seconds for the whole table and for the stream, the bytes of the stream at most, and the table."""
    table = kit.open_checkpoint(path).state(operator, state)
    whole = quickest(times, lambda: kit.open_checkpoint(path).state(operator, state))
    streamed = quickest(times, lambda: [part.num_rows for part in kit.open_checkpoint(path).stream(operator, state)])
    tracemalloc.start()
    most = 0
    for part in kit.open_checkpoint(path).stream(operator, state):
        most = max(most, tracemalloc.get_traced_memory()[1] + part.nbytes)
    tracemalloc.stop()
    return whole, streamed, most, table


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    wanted = parser.parse_args()
    if wanted.smallest:
        version, case = next(each for each in value_cases() if each[1] == "savepoint-canonical")
        whole, streamed, most, table = measure(str(values(version) / case), "scalars", "long", 1)
        print(f"{table.num_rows} rows: {whole:.3f} s, streamed {streamed:.3f} s, {most / MIB:.1f} MiB at most")
        print("Flink is measured at other sizes only")
        return 0
    try:
        fetch()
    except FlinkMissing as missing:
        print(missing)
        return 1
    with tempfile.TemporaryDirectory(prefix="savepoint-") as folder:
        path, *lines = run_java(JAVA, str(wanted.keys), folder, str(wanted.times)).split("\n")
        flink = [tuple(map(int, line.split())) for line in lines if line]
        size = kit.open_checkpoint(path).size
        whole, streamed, most, table = measure(path, "totals", "total", wanted.times)
    assert table.num_rows == wanted.keys == flink[0][1]
    assert pc.sum(table["value"]).as_py() == flink[0][2]
    theirs = min(ms for ms, _, _ in flink) / 1000
    print(f"{wanted.keys:,} keys, {size / MIB:.1f} MiB; both found the same sum of all values")
    print(f"kit, one table:             {whole:.2f} s")
    print(f"kit, key group by key group: {streamed:.2f} s, at most {most / MIB:.1f} MiB")
    print(f"Flink {VERSION}, a job:          {theirs:.2f} s, {theirs / whole:.1f} times as long as the table")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
