"""W1 on a standalone cluster of this machine beside the same job on `local`, in turns.

A master and three workers of one core each are started as the tests start them, and a session on their three executors;
another process has a session on `local[3]`. The job is that of the throughput benchmark: a keyed sum over 100,000 keys,
with a checkpoint a second. Both sides have three subtasks of each vertex, so the same number of processes shares the
same cores. They differ in the JVMs that start the Python workers, one or three, and in the addresses of the workers and
the driver. The result is compared with the checksum.

    python -m benchmarks cluster --rounds 4 --rows 100000000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._options import options
from benchmarks.throughput import workloads
from benchmarks.throughput.kit_jobs import Rows, result_checksum
from kit import CheckpointConfig, CollectSink, NoRestart, SparkJob, StreamEnvironment, count, create_session, sum_
from kit.core.protocol.messages import OperatorEventToTask
from kit.core.protocol.notes import AllTasksRunning
from kit.stream.operators.sources.source import ReadResult, Split
from kit.stream.operators.sources.split_enumerator import NO_MORE_SPLITS
from tests.hosts.spark.cluster import StandaloneCluster, session_settings

SUBTASKS = 3
FEWEST_ROWS = 3_000
WORKLOAD = "W1"
GOAL = 0.9
"""The cluster is to have at least this part of what `local` has."""
MOST_ROWS = 1 << 16
"""That a source gives at once."""


@dataclass(frozen=True, eq=False)
class RowsInTurn(Rows):
    """The rows of the workload in `splits` splits, dealt out in turn."""

    splits: int

    def enumerate_splits(self) -> list[Split]:
        """Every third row each, if there are three."""
        firsts = range(self.splits)
        return [{"id": f"rows-{n}", "first": n, "rows": len(range(n, self.rows, self.splits))} for n in firsts]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Rows from their numbers."""
        end = min(position + min(max_rows, MOST_ROWS), split["rows"])
        if end <= position:
            return ReadResult(None, position, finished=True)
        numbers = np.arange(position, end) * self.splits + split["first"]
        columns = [pa.array(column) for column in workloads.columns(self.workload, numbers).values()]
        return ReadResult(pa.RecordBatch.from_arrays(columns, schema=self.schema), end, end >= split["rows"])


def environment(rows: int, directory: str, subtasks: int) -> StreamEnvironment:
    """The job."""
    checkpoint = CheckpointConfig(interval_ms=1_000, directory=directory)
    env = StreamEnvironment(WORKLOAD, parallelism=subtasks, checkpoint=checkpoint, restart=NoRestart())
    source = env.from_source(RowsInTurn(WORKLOAD, rows, subtasks), uid="rows")
    sums = source.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid("totals")
    sums.sink_to(CollectSink("result"), uid="out")
    return env


# --- one side, a process ----------------------------------------------------------------------------------------------


def side(master: str, subtasks: int) -> None:
    """Start a session on `master`, run the job for each number of rows in the input, and print a line for each run."""
    is_local = master.startswith("local")
    cluster = session_settings() | {"spark.executor.cores": "1", "spark.executor.memory": "1g"}
    spark = create_session("W1", slots=subtasks, master=master, config={} if is_local else cluster)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as directory:
            print(json.dumps(run(spark, int(line), directory, subtasks)), flush=True)
    spark.stop()


def run(spark: Any, rows: int, directory: str, subtasks: int) -> dict[str, float]:
    """Timed from all tasks running until the last split has been read."""
    with SparkJob(environment(rows, directory, subtasks), spark) as job:
        job.start()
        job.wait()
        trace, result = job.trace, job.output("result")
        completed = int((job.checkpoints()["status"] == "COMPLETED").sum())
    assert result_checksum(WORKLOAD, result) & (1 << 64) - 1 == workloads.expected(WORKLOAD, rows), "a wrong result"
    began_ms = next(record.at_ms for record in trace if record.is_a(AllTasksRunning))
    ends_ms = [
        record.at_ms
        for record in trace
        if record.is_a(OperatorEventToTask) and record.data["payload"]["kind"] == NO_MORE_SPLITS
    ]
    return {"rows_per_s": rows / (max(ends_ms) - began_ms) * 1e3, "checkpoints": completed}


# --- both, in turns ---------------------------------------------------------------------------------------------------


class Side:
    """A process that runs the job on request."""

    def __init__(self, name: str, master: str, subtasks: int) -> None:
        self.name, self.rows_per_s = name, list[float]()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.cluster", "--side", master, "--subtasks", str(subtasks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, rows: int, *, counts: bool = True) -> None:
        """One run; the first ones of a session do not count."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{rows}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not come through")
        told = json.loads(line)
        if counts:
            self.rows_per_s.append(told["rows_per_s"])
            print(
                f"{self.name:8} {told['rows_per_s'] / 1e6:6.1f} M rows/s, {told['checkpoints']} checkpoints", flush=True
            )

    def close(self) -> None:
        """End its session."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each run and the ratio of the medians."""
    parser = options(__doc__)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--subtasks", type=int, default=SUBTASKS)
    given = parser.parse_args(arguments)
    if given.smallest:
        given.rounds, given.rows, given.subtasks = 1, FEWEST_ROWS, 1
    if given.side:
        side(given.side, given.subtasks)
        return 0
    with (
        tempfile.TemporaryDirectory() as directory,
        StandaloneCluster(Path(directory), given.subtasks, cores=1) as cluster,
    ):
        masters = {"local": f"local[{given.subtasks}]", "cluster": cluster.url}
        sides = [Side(name, master, given.subtasks) for name, master in masters.items()]
        for each in sides:
            each.run(given.rows // 10, counts=False)
        for number in range(given.rounds):
            for each in sides if number % 2 == 0 else reversed(sides):
                each.run(given.rows)
        for each in sides:
            each.close()
    local, on_cluster = (statistics.median(each.rows_per_s) for each in sides)
    print(
        f"W1, {given.subtasks} subtasks on {os.cpu_count()} cores, {given.rows:,} rows, medians of {given.rounds}: "
        f"local {local / 1e6:.1f}, cluster {on_cluster / 1e6:.1f} M rows/s: {on_cluster / local:.2f} of local "
        f"(goal {GOAL})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
