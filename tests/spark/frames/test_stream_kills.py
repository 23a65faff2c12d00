"""`from_spark_stream` under kills: each row of rate and file streams is published once, whatever dies in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kit import CheckpointConfig, FixedDelay, ParquetSink, SparkJob, StreamEnvironment
from tests.spark.frames.test_from_spark_stream import arrive, published
from tests.spark.jobs import await_checkpoint, read, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

Feed = Callable[[Path, int], None]
"""Makes more rows appear, for the n-th time."""


def rate(spark: SparkSession, directory: Path) -> DataFrame:
    """Numbers from 0 on that Spark counts by itself."""
    return spark.readStream.format("rate").option("rowsPerSecond", 2_000).load().selectExpr("value AS n")


def files(spark: SparkSession, directory: Path) -> DataFrame:
    """Numbers in files that appear."""
    (directory / "incoming").mkdir()
    return spark.readStream.schema("n long").option("maxFilesPerTrigger", 1).json(str(directory / "incoming"))


def nothing(directory: Path, number: int) -> None:
    """The rate stream has more rows by itself."""


def survive(running: SparkJob, directory: Path, feed: Feed, *, kills: int, rescales: dict[int, int]) -> None:
    """Kill a slot `kills` times, each after rows were published since the last one. `rescales` has the parallelism
    that the job gets after a number of kills.
    """
    chance = random.Random(26)
    running.start()
    for number in range(kills):
        before = published(directory)
        feed(directory, number)
        until(lambda rows=before: published(directory) > rows, running)
        epoch = len(running.look.stages)
        running.faults.kill(chance.choice(list(running.look.workers())))
        until(lambda past=epoch: len(running.look.stages) > past, running)
        running.wait_until_running(epoch + 1)
        if number + 1 in rescales:
            running.rescale(rescales[number + 1])
    await_checkpoint(running, int(running.checkpoints()["id"].max()) + 1)


def check(spark: SparkSession, directory: Path, source: Callable[..., DataFrame], feed: Feed, **faults: object) -> None:
    """Run a copy of the stream through the faults: the rows are 0, 1, 2, ..., each once."""
    settings = CheckpointConfig(interval_ms=50, directory=str(directory / "checkpoints"))
    restart = FixedDelay(attempts=100, delay_ms=1)
    env = StreamEnvironment("stream", parallelism=2, max_parallelism=8, checkpoint=settings, restart=restart)
    frame = source(spark, directory)
    rows = env.from_spark_stream(frame, directory / "stream", uid="rows", trigger_every=50)
    rows.sink_to(ParquetSink(directory / "copy"), uid="copy")
    with SparkJob(env, spark) as running:
        survive(running, directory, feed, **faults)  # type: ignore[arg-type]
        running.stop(directory / "savepoints")
    found = sorted(read(directory / "copy")["n"])
    assert found == list(range(len(found)))
    assert not spark.streams.active


def test_two_kills_and_a_rescale_repeat_and_lose_nothing(spark: SparkSession, tmp_path: Path) -> None:
    check(spark, tmp_path, rate, nothing, kills=2, rescales={1: 3})


@pytest.mark.soak
@pytest.mark.parametrize("source", [rate, files])
def test_twenty_kills_and_two_rescales_repeat_and_lose_nothing(
    spark: SparkSession, tmp_path: Path, source: Callable[..., DataFrame]
) -> None:
    feed = nothing if source is rate else arrive
    check(spark, tmp_path, source, feed, kills=20, rescales={7: 3, 14: 1})
    if source is files:
        assert len(read(tmp_path / "copy")) == 20 * 100
