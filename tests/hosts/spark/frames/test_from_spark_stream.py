"""`from_spark_stream`: what Spark's streams read arrives once, through kills, rescales and savepoints."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from kit import CheckpointConfig, FixedDelay, Lab, ParquetSink, SparkJob, StreamEnvironment
from kit.hosts.spark import JobFailedError
from kit.hosts.spark.scheduler import concurrent_tasks
from tests.hosts.spark.jobs import read, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]


def job(spark: SparkSession, directory: Path, *, parallelism: int = 2) -> StreamEnvironment:
    """A copy of the rows of files that appear, read by Spark file after file."""
    env = StreamEnvironment(
        "stream",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints")),
        restart=FixedDelay(attempts=20, delay_ms=1),
    )
    (directory / "incoming").mkdir(exist_ok=True)
    frame = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(directory / "incoming"))
    rows = env.from_spark_stream(frame, directory / "stream", uid="rows", trigger_every=50)
    rows.sink_to(ParquetSink(directory / "copy"), uid="copy")
    return env


def arrive(directory: Path, file: int) -> None:
    """A file of a hundred rows appears."""
    rows = pd.DataFrame({"n": range(file * 100, file * 100 + 100)})
    rows.to_json(directory / f"{file}.unfinished", orient="records", lines=True)
    (directory / f"{file}.unfinished").replace(directory / "incoming" / f"{file}.json")


def published(directory: Path) -> int:
    """The number of rows that can be seen."""
    return len(read(directory / "copy")) if list((directory / "copy").glob("part-*")) else 0


def test_each_row_arrives_once_through_kills_rescales_and_a_savepoint(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(job(spark, tmp_path), spark) as running:
        arrive(tmp_path, 0)
        running.start()
        until(lambda: published(tmp_path) == 100, running)
        running.faults.kill(0)
        arrive(tmp_path, 1)
        until(lambda: published(tmp_path) == 200, running)
        running.rescale(3)
        arrive(tmp_path, 2)
        until(lambda: published(tmp_path) == 300, running)
        savepoint = running.stop(tmp_path / "savepoints")
    arrive(tmp_path, 3)
    with SparkJob(job(spark, tmp_path, parallelism=1), spark, savepoint) as running:
        running.start()
        until(lambda: published(tmp_path) == 400, running)
        running.stop(tmp_path / "savepoints")
    assert sorted(read(tmp_path / "copy")["n"]) == list(range(400))
    assert not spark.streams.active


def test_a_batch_that_spark_runs_again_after_a_crash_is_published_once(spark: SparkSession, tmp_path: Path) -> None:
    def commits() -> list[Path]:
        """What Spark noted of its batches: it does so a moment after the job could read their rows."""
        return [path for path in (tmp_path / "stream" / "spark" / "commits").glob("*") if path.name.isdecimal()]

    with SparkJob(job(spark, tmp_path), spark) as running:
        arrive(tmp_path, 0)
        running.start()
        until(lambda: published(tmp_path) == 100 and bool(commits()), running)
        savepoint = running.stop(tmp_path / "savepoints")
    (committed,) = commits()
    committed.unlink()  # as if Spark had died before it noted that the batch was written
    (committed.parent / f".{committed.name}.crc").unlink()
    with SparkJob(job(spark, tmp_path), spark, savepoint) as running:
        running.start()
        arrive(tmp_path, 1)
        until(lambda: published(tmp_path) == 200, running)
        running.stop(tmp_path / "savepoints")
    assert sorted(read(tmp_path / "copy")["n"]) == list(range(200))
    assert len(list((tmp_path / "stream" / "rows").iterdir())) == 2, "each batch was written once"


def test_a_query_that_fails_ends_the_job_with_sparks_reason(spark: SparkSession, tmp_path: Path) -> None:
    env = StreamEnvironment("failing", restart=FixedDelay(attempts=1, delay_ms=1))
    frame = spark.readStream.format("rate").load().selectExpr("value", "raise_error('out of paper') AS n")
    rows = env.from_spark_stream(frame.selectExpr("CAST(n AS LONG) AS n"), tmp_path, uid="rows", trigger_every=20)
    rows.sink_to(ParquetSink(tmp_path / "out"), uid="out")
    with SparkJob(env, spark) as running, pytest.raises(JobFailedError, match=r"Spark's query .* failed"):
        running.start().wait()


def test_what_is_no_stream_and_a_lab_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    env = StreamEnvironment("rejected")
    with pytest.raises(ValueError, match=r"not streaming: write env\.from_spark\(df"):
        env.from_spark_stream(spark.range(3), tmp_path)
    with pytest.raises(TypeError, match="from_spark_stream takes a DataFrame of Spark"):
        env.from_spark_stream([1], tmp_path)
    with pytest.raises(JobFailedError, match="only Spark reads a streaming DataFrame"):
        Lab(job(spark, tmp_path)).run()


def test_a_job_that_leaves_its_query_no_core_is_rejected_before_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    cores = concurrent_tasks(spark)
    assert cores is not None
    refused = rf"needs {cores} slots and a core for the query of its streaming DataFrame and Spark has {cores}"
    with pytest.raises(JobFailedError, match=refused):
        SparkJob(job(spark, tmp_path, parallelism=cores), spark).start()
    with SparkJob(job(spark, tmp_path), spark) as running:
        running.start()
        with pytest.raises(ValueError, match=refused):
            running.rescale(cores)
        running.cancel()
