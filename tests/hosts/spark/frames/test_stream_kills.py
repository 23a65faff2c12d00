"""`from_spark_stream` under kills: each row of Spark's streams is published once, whatever dies in between."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, FixedDelay, ParquetSink, SparkJob, StreamEnvironment
from tests.hosts.spark.connectors import KAFKA
from tests.hosts.spark.frames.test_from_spark_stream import arrive, published
from tests.hosts.spark.jobs import await_checkpoint, read, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]


@dataclass(frozen=True)
class Numbers:
    """A stream of 0, 1, 2, ...

    `feed` makes a hundred more of them appear, for the n-th time; with None, they appear by themselves.
    """

    name: str
    frame: Callable[[SparkSession, Path], DataFrame]
    feed: Callable[[SparkSession, Path, int], None] | None = None


def _rate(spark: SparkSession, directory: Path) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 2_000).load().selectExpr("value AS n")


def _files(spark: SparkSession, directory: Path) -> DataFrame:
    (directory / "incoming").mkdir()
    return spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(directory / "incoming"))


def _kafka(spark: SparkSession, directory: Path) -> DataFrame:
    _send(spark, directory, 0)  # the topic exists from here on
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", KAFKA)
    reader = reader.option("subscribe", _topic(directory)).option("startingOffsets", "earliest")
    return reader.load().selectExpr("CAST(CAST(value AS STRING) AS LONG) AS n", "topic", "partition", "offset")


def _send(spark: SparkSession, directory: Path, number: int) -> None:
    rows = spark.range(number * 100, number * 100 + 100).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", KAFKA).option("topic", _topic(directory)).save()


def _topic(directory: Path) -> str:
    return f"{directory.name}-{os.getpid()}"


RATE = Numbers("rate", _rate)
STREAMS = [RATE, Numbers("files", _files, lambda spark, directory, number: arrive(directory, number))]
if KAFKA:
    STREAMS.append(Numbers("kafka", _kafka, lambda spark, directory, number: _send(spark, directory, number + 1)))


def survive(
    running: SparkJob, directory: Path, feed: Callable[[int], None], *, kills: int, rescales: dict[int, int]
) -> None:
    """Kill a slot `kills` times, each after rows were published since the last one. `rescales` has the parallelism
    that the job gets after a number of kills.
    """
    chance = random.Random(26)
    running.start()
    for number in range(kills):
        before = published(directory)
        feed(number)
        until(lambda rows=before: published(directory) > rows, running)
        restarts = running.look.summary()["restarts"]
        running.faults.kill(chance.choice(list(running.look.workers())))
        running.wait_until_running(restarts=restarts + 1)
        if number + 1 in rescales:
            running.rescale(rescales[number + 1])
    await_checkpoint(running, int(running.checkpoints()["id"].max()) + 1)


def check(spark: SparkSession, directory: Path, numbers: Numbers, *, kills: int, rescales: dict[int, int]) -> None:
    """Run a copy of the stream through the faults: the rows are 0, 1, 2, ..., each once."""
    settings = CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints"))
    restart = FixedDelay(attempts=100, delay_ms=1)
    env = StreamEnvironment("stream", parallelism=2, max_parallelism=8, checkpoint=settings, restart=restart)
    frame = numbers.frame(spark, directory)
    rows = env.from_spark_stream(frame, directory / "stream", uid="rows", trigger_every=50)
    rows.sink_to(ParquetSink(directory / "copy"), uid="copy")
    fed = 0

    def feed(number: int) -> None:
        nonlocal fed
        if numbers.feed is not None:
            numbers.feed(spark, directory, number)
            fed += 100

    with SparkJob(env, spark) as running:
        survive(running, directory, feed, kills=kills, rescales=rescales)
        until(lambda: published(directory) >= fed, running)
        running.stop(directory / "savepoints")
    found = sorted(read(directory / "copy")["n"])
    assert found == list(range(len(found)))
    assert not spark.streams.active


def test_two_kills_and_a_rescale_repeat_and_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, RATE, kills=2, rescales={1: 3})


@pytest.mark.soak
@pytest.mark.parametrize("numbers", STREAMS, ids=lambda numbers: numbers.name)
def test_twenty_kills_and_two_rescales_repeat_and_lose_nothing(
    spark: SparkSession, tmp_path: Path, numbers: Numbers
) -> None:
    check(spark, tmp_path, numbers, kills=20, rescales={7: 3, 14: 1})
