"""W1 over Parquet files, read by the kit alone and as DataFrames of Spark: what a DataFrame as input costs.

The rows are in four files that Spark has written. Timed is from the start of a job to its end, so a staged DataFrame
includes the copy that Spark writes. Spark's write of the same rows, without a job, is measured beside them.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.throughput import workloads
from benchmarks.throughput.kit_jobs import PARALLELISM, result_checksum
from benchmarks.throughput.measured import Measured, check
from kit import (
    CheckpointConfig,
    CollectSink,
    NoRestart,
    ParquetSource,
    SparkJob,
    StreamEnvironment,
    count,
    create_session,
    sum_,
)

WORKLOAD, FILES = "W1", 4
_CHUNK = 1 << 20
PARQUET, DIRECT, STAGED, WRITE = "ParquetSource", "direct", "staged", "Spark's write"
GOAL = 80
"""The least speed of direct input, in percent of that of `ParquetSource`."""


def compare(rounds: int, rows: int) -> int:
    """Print the seconds of each way, in turns; return 1 if the goal is missed."""
    spark = create_session("frames", slots=PARALLELISM)
    took: dict[str, list[float]] = {PARQUET: [], DIRECT: [], STAGED: [], WRITE: []}
    with tempfile.TemporaryDirectory(prefix="kit-bench-") as directory:
        files = _written(Path(directory, "rows"), rows)
        frame = spark.read.parquet(str(files))
        for number in range(-1, rounds):  # the first round warms up the JVM and the page cache
            for way, seconds in took.items():
                place = Path(directory, "run")
                measured = _write(frame, place) if way == WRITE else _run(way, frame, files, rows, place)
                shutil.rmtree(place)
                if number >= 0:
                    seconds.append(measured)
    spark.stop()
    return _tell(rows, took)


def _tell(rows: int, took: dict[str, list[float]]) -> int:
    print(f"{rows / 1e6:g} M rows of {WORKLOAD} in {FILES} files, parallelism {PARALLELISM}, seconds from start to end")
    for way, seconds in took.items():
        print(f"    {way:14} median {statistics.median(seconds):5.2f}: {', '.join(f'{each:.2f}' for each in seconds)}")
    parquet, direct, staged, write = (statistics.median(seconds) for seconds in took.values())
    speed = 100 * parquet / direct
    print(
        f"direct has {speed:.0f} % of the speed of {PARQUET}, at least {GOAL} is the goal; staged takes "
        f"{100 * staged / (parquet + write):.0f} % of the time of {PARQUET} and one write"
    )
    return int(speed < GOAL)


def _written(directory: Path, rows: int) -> Path:
    """Write the rows, in row groups of a million."""
    directory.mkdir()
    for file in range(FILES):
        numbers = range(file, rows, FILES)
        with pq.ParquetWriter(directory / f"{file}.parquet", _SCHEMA) as writer:
            for begin in range(0, len(numbers), _CHUNK):
                chosen = numbers[begin : begin + _CHUNK]
                columns = workloads.columns(WORKLOAD, np.arange(chosen.start, chosen.stop, chosen.step))
                writer.write_table(pa.table(columns, schema=_SCHEMA))
    return directory


_SCHEMA = pa.schema([pa.field(name, pa.int64()) for name in workloads.columns(WORKLOAD, np.arange(1))])
_MAKE: dict[str, Callable[[StreamEnvironment, Any, Path], Any]] = {
    PARQUET: lambda env, frame, files: env.from_source(ParquetSource(files), uid="rows"),
    DIRECT: lambda env, frame, files: env.from_spark(frame, uid="rows", mode="direct"),
    STAGED: lambda env, frame, files: env.from_spark(frame, uid="rows"),
}


def _run(way: str, frame: Any, files: Path, rows: int, directory: Path) -> float:
    """Return the seconds of a job. Raises PeerError if its result is wrong."""
    env = StreamEnvironment(
        "frames",
        parallelism=PARALLELISM,
        checkpoint=CheckpointConfig(interval_ms=1_000, directory=str(directory)),
        restart=NoRestart(),
    )
    totals = _MAKE[way](env, frame, files).key_by("key").aggregate(total=sum_("value"), n=count(), emit="final")
    totals.uid("totals").sink_to(CollectSink("result"), uid="out")
    with SparkJob(env, frame.sparkSession) as job:
        begin_s = time.perf_counter()
        job.start().wait()
        seconds = time.perf_counter() - begin_s
        check(Measured(rows, seconds, 0, result_checksum(WORKLOAD, job.output("result"))), WORKLOAD)
    return seconds


def _write(frame: Any, directory: Path) -> float:
    begin_s = time.perf_counter()
    frame.write.parquet(str(directory))
    return time.perf_counter() - begin_s
