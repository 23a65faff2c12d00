"""`to_spark`: committed output as DataFrames of Spark, at a moment and as a stream of each row once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, types
from pyspark.sql.streaming import StreamingQuery

from kit import (
    CheckpointConfig,
    CollectionSource,
    CollectSink,
    GeneratorSource,
    ParquetSink,
    SparkJob,
    StreamEnvironment,
)
from kit.stream.operators.spec import SchemaError
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, totals_job, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ENDLESS = GeneratorSource(None, 500, batch_rows=1_000, rows_per_second=3_000)
COPY = types.StructType([types.StructField("key", types.LongType()), types.StructField("value", types.LongType())])


def test_the_rows_committed_so_far_are_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, ENDLESS, interval_ms=500), spark) as job:
        before = job.to_spark("copy")
        assert (before.schema, before.count()) == (COPY, 0)
        job.start()
        until(lambda: len(job.output("copy")) > 0, job)
        during = job.to_spark("copy")
        rows = during.count()
        assert during.schema == COPY
        await_checkpoint(job, int(job.checkpoints()["id"].max()) + 1)
        until(lambda: len(job.output("copy")) > rows, job)
        assert during.count() == rows > 0, "a DataFrame keeps its rows"
        job.stop(tmp_path / "savepoints", drain=True)
        job.to_spark("copy").createOrReplaceTempView("copied")
        (found,) = spark.sql("SELECT count(*) AS n, sum(value) AS total FROM copied").collect()
        assert (found.n, found.total) == (len(job.output("copy")), job.output("copy")["value"].sum())
        assert job.to_spark("totals").toPandas()["total"].sum() == found.total


def test_a_stream_has_each_row_once_through_kills_of_the_job_and_of_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches: dict[int, list[int]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        rows = sorted(row.value for row in frame.collect())
        assert batches.setdefault(batch, rows) == rows, "a batch that comes again has the same rows"

    def start(job: SparkJob, *, to_the_end: bool) -> StreamingQuery:
        stream = job.to_spark("copy", stream=True).writeStream.foreachBatch(keep)
        stream = stream.option("checkpointLocation", str(tmp_path / "query"))
        return stream.trigger(availableNow=True).start() if to_the_end else stream.start()

    with SparkJob(totals_job(tmp_path, ENDLESS, interval_ms=500), spark) as job:
        job.start()
        query = start(job, to_the_end=False)
        until(lambda: len(batches) > 0, job)
        query.stop()
        job.faults.kill(0)
        until(lambda: len(job.look.stages) == 2, job)
        job.stop(tmp_path / "savepoints")
        for _ in range(2):  # before PySpark 4.2, a query that repeats a batch ends with that batch
            start(job, to_the_end=True).awaitTermination()
        assert len(batches) > 1
        assert sorted(row for rows in batches.values() for row in rows) == sorted(job.output("copy")["value"])


@pytest.mark.parametrize("unit", [pa.timestamp("us"), pa.timestamp("ns")], ids=["Spark reads", "Arrow reads"])
def test_columns_that_directories_are_named_after_are_where_the_job_has_them(
    spark: SparkSession, tmp_path: Path, unit: pa.DataType
) -> None:
    rows = pa.table(
        {
            "year": [2013, 2014, None],
            "at": pa.array([1_000, 2_000, 3_000], unit),
            "n": ["a b", "c/d", "e"],
        }
    )
    env = StreamEnvironment("partitions", checkpoint=CheckpointConfig(directory=str(tmp_path / "checkpoints")))
    sink = ParquetSink(tmp_path / "out", partition_by=("n", "year"))
    env.from_source(CollectionSource(rows), uid="rows").sink_to(sink, uid="out")
    with SparkJob(env, spark) as job:
        job.start().wait()
        found = job.to_spark("out")
        expected = [("a b", 2013), ("c/d", 2014), ("e", None)]
        assert found.columns == ["year", "at", "n"]
        assert [(row.n, row.year) for row in found.orderBy("at").collect()] == expected
        stream = job.to_spark("out", stream=True).writeStream.option("checkpointLocation", str(tmp_path / "query"))
        stream.trigger(availableNow=True).format("memory").queryName(f"years_{unit.unit}").start().awaitTermination()
        assert [(row.n, row.year) for row in spark.table(f"years_{unit.unit}").orderBy("at").collect()] == expected


def test_types_that_spark_does_not_have_become_those_it_has(spark: SparkSession) -> None:
    rows = pa.table(
        {
            "ns": pa.array([1_001], pa.timestamp("ns")),
            "zoned": pa.array([1], pa.timestamp("ns", "Europe/Berlin")),
            "big": pa.array([2**64 - 1], pa.uint64()),
            "word": pa.array(["x"], pa.large_string()),
            "span": pa.array([3], pa.duration("s")),
            "inside": pa.array([{"spans": [5_000, None]}], pa.struct([("spans", pa.list_(pa.duration("ns")))])),
        }
    )
    env = StreamEnvironment("types")
    env.from_source(CollectionSource(rows), uid="rows").sink_to(CollectSink("out"), uid="out")
    with SparkJob(env, spark) as job:
        job.start().wait()
        found = job.to_spark()
        assert [field.dataType for field in found.schema] == [
            types.TimestampNTZType(),
            types.TimestampType(),
            types.DecimalType(20, 0),
            types.StringType(),
            types.DayTimeIntervalType(),
            types.StructType([types.StructField("spans", types.ArrayType(types.DayTimeIntervalType()))]),
        ]
        (row,) = found.collect()
        assert row.span == timedelta(seconds=3)
        assert row.inside.spans == [timedelta(microseconds=5), None]
        assert (row.ns.microsecond, row.big, row.word) == (1, 2**64 - 1, "x")
        with pytest.raises(ValueError, match=r"no sink 'nowhere'.*writes to 'out'"):
            job.to_spark("nowhere")


def test_a_type_without_a_counterpart_is_named(spark: SparkSession, tmp_path: Path) -> None:
    env = StreamEnvironment("times", checkpoint=CheckpointConfig(directory=str(tmp_path / "checkpoints")))
    rows = pa.table({"half": pa.array([1], pa.decimal256(50, 2))})
    env.from_source(CollectionSource(rows), uid="rows").sink_to(ParquetSink(tmp_path / "out"), uid="out")
    job = SparkJob(env, spark)
    with pytest.raises(SchemaError, match=r"column 'half' is decimal256\(50, 2\), which Spark does not have"):
        job.to_spark()


def test_a_job_without_a_session_says_how_to_give_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"has no Spark session yet: call start\(\)"):
        SparkJob(totals_job(tmp_path), launch=ThreadGang).to_spark("copy")
