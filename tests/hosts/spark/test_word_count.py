"""The first word count that everyone writes, on Spark, with a worker killed meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kit import CheckpointConfig, FixedDelay, ParquetSink, StreamEnvironment, TextSource, count
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import await_checkpoint, read

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]


def test_words_are_counted_once_though_a_worker_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    words = random.Random(7).choices(["rose", "apple", "theory", "caf\u00e9", "the"], k=12_000)
    (tmp_path / "book").mkdir()
    for number in range(3):
        part = words[number::3]
        lines = [" ".join(part[at : at + 5]) for at in range(0, len(part), 5)]
        (tmp_path / "book" / f"{number}.txt").write_bytes("\r\n".join(lines).encode())
    env = StreamEnvironment(
        "words",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(tmp_path / "checkpoints")),
        restart=FixedDelay(10, 10),
    )
    source = TextSource(tmp_path / "book", batch_rows=50, rows_per_second=800)
    split = env.from_source(source, uid="lines").flat_map(
        lambda row: [{"word": word} for word in row["line"].split()], {"word": pa.string()}
    )
    counts = split.uid("words").key_by("word").aggregate(n=count(), emit="final").uid("counts")
    counts.sink_to(ParquetSink(str(tmp_path / "counts")), uid="out")
    with SparkJob(env, spark) as job:
        job.start()
        await_checkpoint(job, 2)
        job.faults.kill(0)
        assert job.wait() == "FINISHED"
        assert len(job.look.stages) == 2
    found = read(tmp_path / "counts")
    assert found["word"].is_unique
    assert dict(zip(found["word"], found["n"], strict=True)) == Counter(words)
