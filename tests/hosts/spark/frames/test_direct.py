"""`from_spark(df, mode="direct")`: the job reads the Parquet files of a DataFrame, and rejects one that computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, CollectSink, FixedDelay, Lab, ParquetSink, SparkJob, StreamEnvironment
from kit.core.arguments.allowed import SettingError
from kit.hosts.spark import JobFailedError
from tests.hosts.spark.jobs import await_checkpoint, read

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ROWS = 20_000


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Columns of Parquet files, in another order than there."""
    spark.range(ROWS, numPartitions=3).selectExpr("id % 7 AS key", "id", "'x' AS not_wanted").write.parquet(
        str(tmp_path / "orders of 2026")
    )
    return spark.read.parquet(str(tmp_path / "orders of 2026")).select("id", "key")


def job(frame: DataFrame, directory: Path, *, parallelism: int = 2, attempts: int = 20, **limits: Any) -> Any:
    """A copy of every row."""
    env = StreamEnvironment(
        "direct",
        parallelism=parallelism,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints")),
        restart=FixedDelay(attempts=attempts, delay_ms=1),
    )
    rows = env.from_spark(frame, uid="rows", mode="direct", batch_rows=500, **limits)
    rows.sink_to(ParquetSink(directory / "copy"), uid="copy")
    return env


def test_each_row_is_read_once_through_a_kill_and_a_savepoint_and_nothing_is_written(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    with SparkJob(job(frame, tmp_path, rows_per_second=4_000), spark) as first:
        first.start()
        await_checkpoint(first, 2)
        first.faults.kill(1)
        first.wait_until_running(restarts=1)
        await_checkpoint(first, int(first.checkpoints()["id"].max()) + 1)
        savepoint = first.stop(tmp_path / "savepoints")
    with SparkJob(job(frame, tmp_path, parallelism=3), spark, savepoint) as second:
        assert second.start().wait() == "FINISHED"
    copy = read(tmp_path / "copy").sort_values("id", ignore_index=True)
    pd.testing.assert_frame_equal(copy, frame.orderBy("id").toPandas())
    assert list(tmp_path.glob("checkpoints/*/sources")) == []


def test_a_lab_reads_the_files_and_repeats_a_recorded_run(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    with SparkJob(job(frame, tmp_path), spark, record=True) as running:
        running.start().wait()
        running.trace.save_recording(tmp_path / "run")
    lab = Lab.follow(job(frame, tmp_path), tmp_path / "run")
    assert lab.status == "FINISHED"
    assert len(lab.output("copy")) == ROWS


def test_a_file_that_is_replaced_ends_the_job_and_repeats_nothing(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    with SparkJob(job(frame, tmp_path, attempts=1, rows_per_second=2_000), spark) as running:
        running.start()
        await_checkpoint(running, 2)
        for path in (tmp_path / "orders of 2026").glob("*.parquet"):
            rows = pq.read_table(path)
            pq.write_table(rows.slice(1), path)
        running.faults.kill(0)
        with pytest.raises(JobFailedError, match=r"orders of 2026/part-.* was rewritten after the job had started"):
            running.wait()
    copy = read(tmp_path / "copy")["id"]
    assert copy.is_unique


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda frame: frame.selectExpr("id", "rand() AS chance"), r"the computed column rand\("),
        (lambda frame: frame.selectExpr("id AS other"), r"the computed column id AS other"),
        (lambda frame: frame.where("key = 3"), r"the step Filter in its plan"),
        (lambda frame: frame.orderBy("id"), r"the step Sort in its plan"),
        (lambda frame: frame.limit(3), r"the step GlobalLimit in its plan"),
        (lambda frame: frame.sparkSession.range(3), r"the step Range in its plan"),
    ],
)
def test_a_data_frame_that_computes_is_rejected(frame: DataFrame, tmp_path: Path, make: Any, found: str) -> None:
    with pytest.raises(ValueError, match=rf"only selects columns of Parquet files.*{found}.*leave out mode='direct'"):
        job(make(frame), tmp_path)


def test_files_that_spark_reads_in_its_own_way_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    numbers = spark.range(10).selectExpr("id", "id % 2 AS half")
    numbers.write.json(str(tmp_path / "json"))
    numbers.write.partitionBy("half").parquet(str(tmp_path / "halves"))
    for frame, found in (
        (spark.read.schema("id long").json(str(tmp_path / "json")), "files of the format JSON"),
        (spark.read.parquet(str(tmp_path / "halves")), r"columns from names of directories \(half\)"),
        (spark.read.parquet(str(tmp_path / "halves")).select("id"), r"columns from names of directories \(half\)"),
    ):
        with pytest.raises(ValueError, match=found):
            job(frame, tmp_path)
    with pytest.raises(ValueError, match=r"streaming DataFrame.*from_spark_stream"):
        job(spark.readStream.format("rate").load(), tmp_path)
    with pytest.raises(SettingError, match="mode = 'fast': expected 'staged' or 'direct'"):
        StreamEnvironment("modes").from_spark(numbers, mode="fast")


def test_types_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "small": pa.array([1], pa.uint16()),
            "zoned": pa.array([1_767_270_600_123], pa.timestamp("ms", "UTC")),
            "old": pa.array([1_767_270_600_123_456_000], pa.timestamp("ns")),
            "text": pa.array(["x"], pa.dictionary(pa.int32(), pa.string())),
        }
    )
    pq.write_table(rows, tmp_path / "typed.parquet", use_deprecated_int96_timestamps=True)
    frame = spark.read.parquet(str(tmp_path / "typed.parquet"))
    outputs = []
    for mode in ("direct", "staged"):
        env = StreamEnvironment(mode)
        env.from_spark(frame, uid="rows", mode=mode).sink_to(CollectSink("out"), uid="out")
        with SparkJob(env, spark) as running:
            running.start().wait()
            found = running.to_spark("out")
            outputs.append((found.schema, found.collect()))
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == frame.collect()
