"""A job with much state resumes at another parallelism: each subtask reads its own key groups, and none is lost."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectSink, GeneratorSource, StreamEnvironment, count, sum_
from kit.files.storage import CheckpointStorage
from kit.hosts.spark.job import SparkJob
from tests.hosts.spark.jobs import ThreadGang, until

ROWS, KEYS = 400_000, 300_000


def environment(directory: Path, parallelism: int, rows_per_second: float | None) -> StreamEnvironment:
    env = StreamEnvironment(
        "totals",
        parallelism=parallelism,
        max_parallelism=128,
        checkpoint=CheckpointConfig(interval_ms=None, directory=str(directory)),
    )
    rows = env.from_source(source(rows_per_second), uid="rows")
    rows.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid("totals").sink_to(
        CollectSink("totals"), uid="out"
    )
    return env


def source(rows_per_second: float | None = None) -> GeneratorSource:
    return GeneratorSource(ROWS, KEYS, splits=8, batch_rows=5_000, rows_per_second=rows_per_second)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("parallelism", [1, 3])
def test_none_is_lost_and_none_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallelism: int) -> None:
    with SparkJob(environment(tmp_path, 2, 150_000), launch=ThreadGang) as job:
        job.start()
        until(lambda: job.meters()["records_in"].max() > ROWS // 3, job)
        savepoint = Path(job.stop(tmp_path / "savepoints"))
    files = {str(path): path.stat().st_size for path in savepoint.glob("*") if path.stat().st_size > 1 << 20}
    assert len(files) == 2
    read: list[int] = []
    read_file = CheckpointStorage.read_part

    def counted(self: CheckpointStorage, path: str, offset: int, length: int | None) -> pa.Buffer:
        found = read_file(self, path, offset, length)
        if path in files:
            read.append(found.size)
        return found

    monkeypatch.setattr(CheckpointStorage, "read_part", counted)
    with SparkJob(environment(tmp_path, parallelism, None), launch=ThreadGang, restore_path=savepoint) as job:
        job.start().wait()
        totals = job.output("totals").set_index("key").sort_index()
    assert sum(files.values()) <= sum(read) < 1.1 * sum(files.values())
    expected = _rows().groupby("key")["value"].agg(["sum", "size"])
    assert (totals.index == expected.index).all()
    assert (totals[["total", "n"]].to_numpy() == expected.to_numpy()).all()


def _rows() -> pd.DataFrame:
    parts: list[pa.RecordBatch] = []
    while (begin := sum(part.num_rows for part in parts)) < ROWS:
        parts.append(source().slice(begin, ROWS - begin))
    return pa.Table.from_batches(parts).to_pandas()
