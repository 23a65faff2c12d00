"""Jobs in Spark's REST API: their names, no rows for a slot, and the rows that Spark itself reads and writes."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kit import CheckpointConfig, CollectionSource, CollectSink, ParquetSink, SparkJob, StreamEnvironment, count
from tests.hosts.spark.jobs import await_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

ROWS = 20_000


def shown(spark: SparkSession, path: str) -> Any:
    """Return the answer of the REST API about the application."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{path}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def stages(spark: SparkSession, wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The stages of the Spark jobs that are wanted, once Spark shows that they have ended. Spark shows things late."""
    found: list[dict[str, Any]] = []

    def complete() -> bool:
        jobs = [job for job in shown(spark, "jobs") if wanted(job)]
        ids = {stage for job in jobs for stage in job["stageIds"]}
        found[:] = [stage for stage in shown(spark, "stages?details=true") if stage["stageId"] in ids]
        return bool(jobs) and all(job["status"] != "RUNNING" for job in jobs)

    while not complete():
        pass
    return [stage for stage in found if stage["status"] == "COMPLETE"]


def test_spark_shows_the_name_of_a_job_and_counts_only_rows_that_it_moves(spark: SparkSession, tmp_path: Path) -> None:
    settings = CheckpointConfig(interval_ms=50, directory=str(tmp_path / "checkpoints"))
    env = StreamEnvironment("shown", parallelism=2, checkpoint=settings)
    frame = spark.range(ROWS, numPartitions=2).selectExpr("id", "id % 7 AS key")
    rows = env.from_spark(frame, uid="rows", batch_rows=500, rows_per_second=10_000)
    rows.sink_to(ParquetSink(tmp_path / "copy"), uid="copy")
    totals = rows.key_by("key").aggregate(n=count(), emit="final").uid("totals")
    totals.sink_to(ParquetSink(tmp_path / "totals"), uid="out")
    with SparkJob(env, spark) as running:
        running.start()
        await_checkpoint(running, 1)
        group = running.spark_group
        running.wait()
        copied = running.to_spark("copy")
        spark.sparkContext.setJobDescription(f"read {group}")
        assert len(copied.collect()) == ROWS
        spark.sparkContext.setJobDescription(None)
        meters = running.meters()

    (stage,) = stages(spark, lambda job: job.get("jobGroup") == group)
    assert stage["description"] == "shown, epoch 1"
    assert len(stage["tasks"]) == 2
    counted = [stage[f"{kind}{what}"] for kind in ("input", "output", "shuffleRead") for what in ("Records", "Bytes")]
    assert counted == [0] * 6, "the slots read, exchange and write rows themselves"
    assert stage["accumulatorUpdates"] == []
    assert meters.loc[meters["task"].str.startswith("rows/"), "records_out"].sum() == ROWS

    (copying,) = stages(spark, lambda job: "shown writes the rows of" in job.get("description", ""))
    assert (copying["outputRecords"], copying["outputBytes"] > 0) == (ROWS, True)
    (reading,) = stages(spark, lambda job: job.get("description") == f"read {group}")
    assert (reading["inputRecords"], reading["inputBytes"] > 0) == (ROWS, True)


def test_rows_that_only_arrow_can_read_are_counted_too(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array(range(100), pa.timestamp("ns"))})
    env = StreamEnvironment("nanoseconds", checkpoint=CheckpointConfig(directory=str(tmp_path)))
    env.from_source(CollectionSource(rows), uid="rows").sink_to(CollectSink("out"), uid="out")
    with SparkJob(env, spark) as running:
        running.start().wait()
        spark.sparkContext.setJobDescription("read nanoseconds")
        assert len(running.to_spark("out").collect()) == 100
        spark.sparkContext.setJobDescription(None)
    (reading,) = stages(spark, lambda job: job.get("description") == "read nanoseconds")
    assert reading["inputRecords"] == 100
