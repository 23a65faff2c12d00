"""`from_spark`: Spark writes a DataFrame once, and the job reads the copy through kills, recoveries and savepoints."""

from __future__ import annotations

import datetime as dt
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, CollectSink, FixedDelay, Lab, ParquetSink, SparkJob, StreamEnvironment, count, sum_
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.lab.errors import LabError
from kit.hosts.spark import JobFailedError
from kit.stream.operators.spec import SchemaError
from tests.hosts.spark.frames.test_spark_ui import stages
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, read, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ROWS = 20_000


def numbers(spark: SparkSession) -> DataFrame:
    """Rows whose column `chance` is another one each time they are computed."""
    return spark.range(ROWS, numPartitions=3).selectExpr("id", "id % 7 AS key", "rand() AS chance")


def job(frame: DataFrame, directory: Path, *, parallelism: int = 2, slow: bool = True, **checkpoint: Any) -> Any:
    """A copy of every row, and totals by key."""
    env = StreamEnvironment(
        "frames",
        parallelism=parallelism,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints"), **checkpoint),
        restart=FixedDelay(attempts=20, delay_ms=1),
    )
    rows = env.from_spark(frame, uid="rows", batch_rows=500, rows_per_second=5_000 if slow else None)
    rows.sink_to(ParquetSink(directory / "copy"), uid="copy")
    totals = rows.key_by("key").aggregate(n=count(), total=sum_("id"), emit="final").uid("totals")
    totals.sink_to(ParquetSink(directory / "totals"), uid="out")
    return env


def check(directory: Path) -> pd.DataFrame:
    """Each row was read once."""
    copy = read(directory / "copy")
    assert sorted(copy["id"]) == list(range(ROWS))
    totals = read(directory / "totals").set_index("key").sort_index()
    expected = copy.groupby("key")["id"].agg(["size", "sum"])
    assert totals[["n", "total"]].to_numpy().tolist() == expected.to_numpy().tolist()
    return copy


def copies(directory: Path) -> list[Path]:
    """The directories into which Spark wrote a copy."""
    return [path for path in directory.glob("checkpoints/*/sources/*/*") if path.is_dir()]


def test_rows_that_chance_decides_are_the_same_after_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(job(numbers(spark), tmp_path), spark) as running:
        running.start()
        await_checkpoint(running, 2)
        (copy,) = copies(tmp_path)
        written = pd.read_parquet(copy)
        running.faults.kill(1)
        assert running.wait() == "FINISHED"
        assert len(running.look.stages) == 2
    order = check(tmp_path).sort_values("id")["chance"].tolist()
    assert order == written.sort_values("id")["chance"].tolist()
    assert copies(tmp_path) == [], "the copy of a finished job is deleted"


def test_a_driver_that_recovers_the_job_does_not_write_the_copy_again(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(job(numbers(spark), tmp_path, store="filesystem"), spark) as first:
        first.start()
        await_checkpoint(first, 2)
        before = copies(tmp_path)
        with SparkJob(job(numbers(spark), tmp_path, store="filesystem"), spark, recover=True) as second:
            second.start()
            assert copies(tmp_path) == before
            assert second.wait() == "FINISHED"
        with pytest.raises(JobFailedError, match="has taken over this job"):
            first.wait()
    check(tmp_path)
    assert copies(tmp_path) == []


def test_a_savepoint_is_resumed_at_another_parallelism_without_a_second_copy(
    spark: SparkSession, tmp_path: Path
) -> None:
    with SparkJob(job(numbers(spark), tmp_path), spark) as first:
        first.start()
        await_checkpoint(first, 1)
        savepoint = first.stop(tmp_path / "savepoints")
    (copy,) = copies(tmp_path)
    written = len(stages(spark, _writes_a_copy))
    with SparkJob(job(numbers(spark), tmp_path, parallelism=3, slow=False), spark, savepoint) as second:
        assert second.start().wait() == "FINISHED"
    check(tmp_path)
    assert copies(tmp_path) == [copy], "the savepoint refers to it"
    stages(spark, lambda job: job.get("jobGroup") == second.spark_group)  # Spark shows what came before it, too
    assert len(stages(spark, _writes_a_copy)) == written, "nothing was written"


def _writes_a_copy(job: dict[str, Any]) -> bool:
    return "writes the rows of" in job.get("description", "")


def test_a_run_from_scratch_does_not_use_the_copy_of_an_earlier_run(spark: SparkSession, tmp_path: Path) -> None:
    settings = CheckpointConfig(
        interval_ms=20, directory=str(tmp_path), retention=RetentionPolicy.RETAIN_ON_CANCELLATION
    )
    for rows, speed in ((5_000, 1_000), (20, None)):
        env = StreamEnvironment("again", job_id="ab" * 16, checkpoint=settings)
        stream = env.from_spark(spark.range(rows), uid="rows", batch_rows=100, rows_per_second=speed)
        stream.sink_to(CollectSink("out"), uid="out")
        with SparkJob(env, spark) as running:
            running.start()
            if speed:
                await_checkpoint(running, 1)
                running.cancel()
                assert list(tmp_path.glob("*/sources/*/manifest.json"))
            else:
                running.wait()
                assert len(running.output()) == rows


def test_a_job_that_is_cancelled_while_spark_writes_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(8, numPartitions=8).selectExpr("id", "id AS key").mapInArrow(_slowly, "id long, key long")
    running = SparkJob(job(frame, tmp_path), spark)
    tracker = spark.sparkContext.statusTracker()
    starting = threading.Thread(target=running.start, name="starting")
    starting.start()
    until(lambda: bool(tracker.getActiveJobsIds()), running)
    assert running.cancel() == "CANCELED"
    starting.join()
    assert list(tracker.getActiveJobsIds()) == []
    assert copies(tmp_path) == []


def _slowly(batches: Any) -> Any:
    for batch in batches:
        time.sleep(60)
        yield batch


def test_what_spark_cannot_compute_ends_the_job_with_sparks_reason(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id", "id AS key", "CAST(raise_error('the disk is on fire') AS INT) AS x")
    with pytest.raises(JobFailedError, match=r"source 'rows': its DataFrame cannot be written.*the disk is on fire"):
        SparkJob(job(frame, tmp_path), spark).start()


def test_a_table_of_a_database_becomes_the_table_that_spark_sql_makes_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
    system.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    database = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true", "dbtable": "orders"}
    numbers(spark).select("id", "key").write.format("jdbc").options(**database).save()
    orders = spark.read.format("jdbc").options(**database).load()
    env = StreamEnvironment("orders", parallelism=2, checkpoint=CheckpointConfig(interval_ms=50))
    rows = env.from_spark(orders, uid="orders", batch_rows=500, rows_per_second=10_000)
    totals = rows.key_by("key").aggregate(n=count(), total=sum_("id"), emit="final")
    totals.uid("totals").sink_to(CollectSink("out"), uid="out")
    with SparkJob(env, spark) as running:
        running.start()
        await_checkpoint(running, 1)
        running.faults.kill(0)
        running.wait()
        running.to_spark("out").write.option("path", str(tmp_path / "table")).saveAsTable("by_key")
    orders.createOrReplaceTempView("orders")
    expected = spark.sql("SELECT key, count(*) AS n, sum(id) AS total FROM orders GROUP BY key ORDER BY key").collect()
    assert spark.sql("SELECT key, n, total FROM by_key ORDER BY key").collect() == expected
    spark.sql("DROP TABLE by_key")


TYPES = """
    CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small, CAST(id AS INT) AS int, id, CAST(id AS FLOAT) AS float,
    id / 3 AS double, CAST(id AS DECIMAL(12, 2)) AS money, CAST(id AS STRING) AS text, CAST('x' AS BINARY) AS bytes,
    id > 1 AS flag, DATE'0001-01-01' AS day, TIMESTAMP'9999-12-31 23:59:59.999999' AS at,
    TIMESTAMP_NTZ'1600-01-01 00:00:00' AS wall, array(id, NULL) AS list, struct(id, 'x' AS s) AS struct,
    map('k', id) AS map, IF(id > 1, id, NULL) AS nullable, INTERVAL '1 02:03:04.000005' DAY TO SECOND * id AS span,
    array(INTERVAL '-5' SECOND, NULL) AS spans
"""


def test_every_type_arrives_as_spark_has_it(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr(*(each for each in _columns(TYPES)))
    env = StreamEnvironment("types")
    stream = env.from_spark(frame, uid="rows")
    stream.sink_to(CollectSink("out"), uid="out")
    with SparkJob(env) as running:  # in the session of the DataFrame
        running.start().wait()
        rows = running.to_spark("out").orderBy("id").collect()
    assert rows == frame.orderBy("id").collect()
    assert stream.schema.field("at").type == pa.timestamp("us", "UTC")
    assert stream.schema.field("wall").type == pa.timestamp("us")
    assert not stream.schema.field("id").nullable
    assert stream.schema.field("nullable").nullable
    assert stream.schema.field("span").type == pa.duration("us")
    assert rows[0].money == Decimal("0.00")
    assert rows[0].day == dt.date(1, 1, 1)


def _columns(text: str) -> list[str]:
    """The expressions between the commas that are in no bracket."""
    found, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


def test_a_lab_collects_the_sample_that_the_job_allows(spark: SparkSession) -> None:
    frame = spark.range(1_000)
    for sample in (50, None):
        env = StreamEnvironment("sampled", parallelism=2, checkpoint=CheckpointConfig(interval_ms=20))
        env.from_spark(frame, uid="rows", sample=sample).sink_to(CollectSink("out"), uid="out")
        if sample is None:
            with pytest.raises(JobFailedError, match=r"from_spark\(df, sample=1_000\).*SparkJob"):
                Lab(env).run()
        else:
            lab = Lab(env)
            lab.run()
            assert len(lab.output("out")) == sample


def test_a_lab_says_why_it_cannot_repeat_a_recorded_run(spark: SparkSession, tmp_path: Path) -> None:
    def env() -> StreamEnvironment:
        job = StreamEnvironment("recorded", checkpoint=CheckpointConfig(directory=str(tmp_path)))
        job.from_spark(spark.range(20), uid="rows").sink_to(CollectSink("out"), uid="out")
        return job

    with SparkJob(env(), spark, record=True, launch=ThreadGang) as running:
        running.start().wait()
        running.trace.save_recording(tmp_path / "run")
    with pytest.raises(LabError, match=r"a lab does not read these: .*from_spark\(df, mode='direct'\)"):
        Lab.follow(env(), tmp_path / "run")


def test_a_streaming_frame_and_names_that_occur_twice_are_rejected(spark: SparkSession) -> None:
    env = StreamEnvironment("rejected")
    with pytest.raises(ValueError, match=r"streaming DataFrame.*from_spark_stream"):
        env.from_spark(spark.readStream.format("rate").load())
    frame = spark.range(3)
    with pytest.raises(ValueError, match=r"several columns with the name 'id'.*withColumnRenamed"):
        env.from_spark(frame.join(frame.alias("other"), how="cross"))
    with pytest.raises(ValueError, match="sample = 0: expected 1 or more"):
        env.from_spark(frame, sample=0)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        ("""parse_json('{"a": 1}')""", "a variant"),
        ("array(named_struct('x', INTERVAL '2-3' YEAR TO MONTH))", "an interval of months"),
        ("map('k', make_interval(1, 2))", "a calendar interval"),
    ],
)
def test_a_type_that_a_job_cannot_have_is_named_with_its_column(spark: SparkSession, column: str, found: str) -> None:
    frame = spark.range(3).selectExpr("id", f"{column} AS odd")
    with pytest.raises(SchemaError, match=rf"column 'odd' .* contains {found}, .*CAST\(odd AS STRING\)"):
        StreamEnvironment("odd").from_spark(frame, uid="rows")
