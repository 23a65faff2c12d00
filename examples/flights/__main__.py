"""`make demo`: the main job on Spark, from start to a result that is checked to the last unit.

1. The job starts at parallelism 2, with a checkpoint every few hundred ms.
2. After a completed checkpoint one Python worker is killed with SIGKILL; the job resumes from the latest checkpoint.
3. It is stopped with a savepoint, and resumed from that at parallelism 3.
4. It finishes, and every group is compared with the same query in Spark SQL over the same file.
5. What happened is printed, and written to `demo/index.html` to step through, offline.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from examples.flights.job import (
    ALL_FLIGHTS,
    CARRIERS,
    DAYS,
    batch_result,
    carrier_totals,
    destination_days,
    flights_job,
    write_flights,
)
from examples.flights.report import compare, story, write_page
from kit import CheckpointConfig, SparkJob, create_session
from kit.machines.job.status import JobStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_EVERY_MS = 300
ROWS_PER_SECOND = 24_000
PATIENCE_S = 120


class DemoError(Exception):
    """The demonstration failed."""


def main(arguments: list[str] | None = None) -> int:
    """Run the story below `--directory`; 0 when every group is as Spark SQL says."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--directory", type=Path, default=Path("demo"), help="where everything is written (emptied first)"
    )
    parser.add_argument("--rows-per-second", type=float, default=ROWS_PER_SECOND, help="of each source subtask")
    options = parser.parse_args(arguments)
    directory = options.directory.resolve()
    shutil.rmtree(directory, ignore_errors=True)
    flights = write_flights(directory / "flights.parquet")
    say(f"the input: {ALL_FLIGHTS:,} flights in {flights.relative_to(directory.parent)}")
    say("starting Spark")
    spark = create_session("flights", slots=3)
    try:
        runs = run(directory, flights, options.rows_per_second, spark)
        say("comparing every group with Spark SQL")
        differences = check(spark, flights, directory / "output")
        write_page(directory / "index.html", runs)
    finally:
        spark.stop()
    print(story(runs))
    if differences:
        print("\n".join(differences), file=sys.stderr)
        return 1
    say(f"every group is as Spark SQL says, to the last unit; step through the run in {options.directory}/index.html")
    return 0


def run(directory: Path, flights: Path, rows_per_second: float, spark: SparkSession) -> list[SparkJob]:
    """Steps 1 to 4: two runs of the job, a kill in the first, a savepoint between them."""
    checkpoint = CheckpointConfig(
        interval_ms=CHECKPOINT_EVERY_MS, directory=str(directory / "checkpoints"), tolerable_failures=10
    )
    first = SparkJob(
        flights_job(
            flights, directory / "output", parallelism=2, checkpoint=checkpoint, rows_per_second=rows_per_second
        ),
        spark=spark,
    )
    with first:
        first.start()
        say("running at parallelism 2")
        wait_for(lambda: completed(first) >= 2, first, "two checkpoints")
        victim = 1
        process = first.look.workers()[victim]
        say(f"{completed(first)} checkpoints completed; kill -9 of worker {victim} (process {process})")
        first.faults.kill(victim)
        wait_for(lambda: len(first.look.restores()) > 0, first, "the restore")
        after = completed(first)
        wait_for(lambda: completed(first) > after, first, "a checkpoint after the restore")
        say("restored, and checkpointing again; stopping with a savepoint")
        savepoint = first.stop(str(directory / "savepoints"))
    say(f"resuming from {Path(savepoint).name} at parallelism 3")
    second = SparkJob(
        flights_job(
            flights, directory / "output", parallelism=3, checkpoint=checkpoint, rows_per_second=rows_per_second
        ),
        spark=spark,
        restore_path=savepoint,
    )
    with second:
        second.start()
        second.wait(timeout_s=PATIENCE_S)
    return [first, second]


def check(spark: SparkSession, flights: Path, output: Path) -> list[str]:
    """Return the differences from the batch result, in words; none if all groups are equal."""
    carriers, days = batch_result(spark, flights)
    return [
        *compare("carriers", carrier_totals(pd.read_parquet(output / CARRIERS)), carriers),
        *compare("destinations and days", destination_days(pd.read_parquet(output / DAYS)), days),
    ]


def completed(job: SparkJob) -> int:
    """Return the number of completed checkpoints."""
    return int((job.checkpoints()["status"] == "COMPLETED").sum())


def wait_for(condition: Callable[[], bool], job: SparkJob, what: str) -> None:
    """Wait for something to happen in a running job; raises DemoError when it ends or takes too long before."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if JobStatus[job.status].is_terminal:
            job.wait()
            raise DemoError(f"the job ended before {what}: lower --rows-per-second")
        if time.monotonic() > until:
            raise DemoError(f"no sign of {what} within {PATIENCE_S} s")
        time.sleep(0.02)


def say(text: str) -> None:
    """One line of the story, as it happens."""
    print(f"--- {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
