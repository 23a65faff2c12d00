"""Rows a second of a keyed sum on Spark, checkpointed every second, with the result checked.

    python -m benchmarks throughput
    python -m benchmarks.throughput --rows 3000000000 --keys 1000000
    KIT_PROFILE=/tmp python -m benchmarks.throughput    # a profile of each slot's main thread goes to /tmp

Generated int64 keys (100k distinct) and values go through a hash exchange between two slots into a sum by key; batches
of 64k rows. Timed is from all tasks running until the last split has been read; the totals of every run are checked.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile

import numpy as np

from kit import (
    CheckpointConfig,
    CollectSink,
    GeneratorSource,
    NoRestart,
    SparkJob,
    StreamEnvironment,
    count,
    create_session,
    sum_,
)
from kit.operators.split_enumerator import NO_MORE_SPLITS
from kit.protocol.trace import TraceRecord

ROWS = 1_000_000_000
KEYS = 100_000
PARALLELISM = 2
RUNS = 3


def keyed_sum(source: GeneratorSource, directory: str) -> StreamEnvironment:
    """The job."""
    env = StreamEnvironment(
        "throughput",
        parallelism=PARALLELISM,
        checkpoint=CheckpointConfig(interval_ms=1_000, directory=directory),
        restart=NoRestart(),
    )
    totals = env.from_source(source, uid="rows").key_by("key").aggregate(total=sum_("value"), n=count(), emit="final")
    totals.uid("totals").sink_to(CollectSink("totals"), uid="out")
    return env


def expected_sum(source: GeneratorSource) -> int:
    """The sum of all values: blocks of them repeat."""
    block = source.slice(0, source.rows).column(1).to_numpy()
    repetitions, rest = divmod(source.rows, len(block))
    return int(block.sum(dtype=np.int64)) * repetitions + int(block[:rest].sum(dtype=np.int64))


def is_end_of_input(record: TraceRecord) -> bool:
    """Whether a source's reader is told that there is no more to read."""
    return record.kind == "OperatorEventToTask" and record.data["payload"]["kind"] == NO_MORE_SPLITS


def run(spark: object, source: GeneratorSource) -> tuple[float, int]:
    """Million rows per second, and checkpoints completed, of one run. AssertionError when the result is wrong."""
    with tempfile.TemporaryDirectory() as directory, SparkJob(keyed_sum(source, directory), spark) as job:
        job.start()
        job.wait()
        trace, checkpoints, totals = job.trace, job.checkpoints(), job.output("totals")
    assert len(totals) == min(source.key_count, source.rows), f"{len(totals)} keys"
    assert totals["n"].sum() == source.rows, f"{totals['n'].sum()} rows were counted"
    assert totals["total"].sum() == expected_sum(source), "the sum is wrong"
    begin = next(record.at_ms for record in trace if record.kind == "AllTasksRunning")
    end = max(record.at_ms for record in trace if is_end_of_input(record))
    return source.rows / (end - begin) / 1e3, int((checkpoints["status"] == "COMPLETED").sum())


def main() -> int:
    """Prints a line for each run, and the summary."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=ROWS)
    arguments.add_argument("--keys", type=int, default=KEYS)
    arguments.add_argument("--runs", type=int, default=RUNS)
    given = arguments.parse_args()
    source = GeneratorSource(given.rows, given.keys, splits=16)
    spark = create_session("throughput", slots=PARALLELISM)
    run(spark, GeneratorSource(given.keys, given.keys, splits=2))
    figures = []
    for _ in range(given.runs):
        speed, checkpoints = run(spark, source)
        figures.append(speed)
        print(f"{speed:6.1f} Mrows/s, {checkpoints} checkpoints, sum right", flush=True)
    print(
        f"keyed sum, {given.keys} keys, parallelism {PARALLELISM}: median {statistics.median(figures):.1f}, "
        f"best {max(figures):.1f} Mrows/s"
    )
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
