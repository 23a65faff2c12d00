"""One protocol, two hosts: the same job, checkpointed at the same source offsets, leaves the same directory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectSink, Lab, SparkJob, StreamEnvironment, TumblingEventTimeWindows, count, sum_
from kit.core.protocol.properties import RetentionPolicy
from kit.stream.operators.sources.source import ReadResult, Source, Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4_000
WORDS = np.array(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"])


@dataclass(frozen=True, eq=False)
class StandingSource(Source):
    """Each split gives `ROWS` rows in batches and then stands still, neither reading nor ending.

    A read beyond the last row leaves a file in `notes`: by then all rows have been emitted.
    """

    notes: Path

    @property
    def schema(self) -> pa.Schema:
        """word, n, and the time of an event every ten seconds."""
        return pa.schema([("word", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("ms"))])

    def enumerate_splits(self) -> list[Split]:
        """One for each of the two readers."""
        return [{"id": f"split-{number}", "seed": number} for number in range(2)]

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """The same rows from the same position, on any host."""
        numbers = np.arange(position, min(position + max_rows, ROWS))
        if not len(numbers):
            (self.notes / split["id"]).touch()
            time.sleep(0.001)
            return ReadResult(None, position, finished=False)
        words = WORDS[(numbers * (3 + split["seed"])) % len(WORDS)]
        times = pa.array(numbers * 10_000).cast(pa.timestamp("ms"))
        batch = pa.RecordBatch.from_arrays([pa.array(words), pa.array(numbers), times], schema=self.schema)
        return ReadResult(batch, int(numbers[-1]) + 1, finished=False)

    def all_read(self) -> bool:
        """Return True if every split was read beyond its last row."""
        return all((self.notes / split["id"]).exists() for split in self.enumerate_splits())


def job_of(directory: Path, notes: Path, memory_threshold_bytes: int) -> tuple[StreamEnvironment, StandingSource]:
    notes.mkdir()
    source = StandingSource(notes, batch_rows=333)
    env = StreamEnvironment(
        "same bytes",
        job_id=f"{memory_threshold_bytes:032x}",  # a second run of one id has a name of its own in the metadata
        parallelism=2,
        max_parallelism=32,
        checkpoint=CheckpointConfig(
            directory=str(directory),
            memory_threshold_bytes=memory_threshold_bytes,
            retention=RetentionPolicy.RETAIN_ON_CANCELLATION,
            max_retained=3,
        ),
    )
    stream = env.from_source(source, uid="words").assign_timestamps("at", out_of_orderness_ms=60_000)
    counted = stream.key_by("word").aggregate(rows=count(), total=sum_("n")).uid("totals")
    counted.sink_to(CollectSink("totals"), uid="totals-out")
    windows = stream.key_by("word").window(TumblingEventTimeWindows(3_600_000)).aggregate(total=sum_("n"))
    windows.uid("hours").sink_to(CollectSink("hours"), uid="hours-out")
    return env, source


def contents(directory: Path) -> dict[str, bytes]:
    return {
        file.relative_to(directory).as_posix(): file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


@pytest.mark.spark
@pytest.mark.parametrize("memory_threshold_bytes", [0, 20 * 1024], ids=["files", "inlined"])
def test_lab_and_spark_leave_the_same_bytes(spark: SparkSession, tmp_path: Path, memory_threshold_bytes: int) -> None:
    checkpoints = tmp_path / "checkpoints"

    env, source = job_of(checkpoints, tmp_path / "lab-notes", memory_threshold_bytes)
    lab = Lab(env, seed=7)
    while not source.all_read():
        lab.step()
    for _ in range(2):
        request = lab.trigger_checkpoint()
        lab.run_until(lambda lab, request=request: lab.look.answer(request) is not None)
        for _ in range(300):
            lab.step()
    in_lab = contents(lab.look.files.export(tmp_path / "lab", below=str(checkpoints)))

    env, source = job_of(checkpoints, tmp_path / "spark-notes", memory_threshold_bytes)
    with SparkJob(env, spark=spark) as job:
        job.start()
        deadline = time.monotonic() + 60
        while not source.all_read():
            assert time.monotonic() < deadline, "the sources have not read their rows"
            time.sleep(0.02)
        for _ in range(2):
            job.trigger_checkpoint()
            time.sleep(0.5)
        job.cancel()
    on_spark = contents(checkpoints)

    assert len(in_lab) >= 2
    assert any(name.endswith("_metadata") for name in in_lab)
    assert sorted(in_lab) == sorted(on_spark)
    for name, data in in_lab.items():
        assert on_spark[name] == data, f"{name} differs"
