"""Splits that have nothing for long, and splits that are too far ahead of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kit import (
    CheckpointConfig,
    CollectSink,
    CsvSource,
    Lab,
    ParquetSource,
    StreamEnvironment,
    TextSource,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.lab.world.schedulers import Random
from kit.hosts.spark import SparkJob
from kit.stream.operators.sources.source import ReadResult, Source, Split
from kit.stream.operators.watermarks import TimestampsAndWatermarks
from tests.hosts.lab.test_endless_sources import read_all, steps
from tests.hosts.spark.jobs import ThreadGang
from tests.stream.operators.growing import SCHEMA, Endless
from tests.why.jobs import says


def job(
    source: Endless,
    parallelism: int = 1,
    *,
    idle_ms: int | None = None,
    drift_ms: int | None = None,
    seed: int | None = None,
) -> Lab:
    """Count the rows of each split in windows; with a seed, what happens next is drawn."""
    env = StreamEnvironment(
        "timed", parallelism=parallelism, max_parallelism=8, checkpoint=CheckpointConfig(interval_ms=50)
    )
    timed = env.from_source(source, uid="rows").assign_timestamps("t")
    if idle_ms is not None:
        timed = timed.with_idleness(idle_ms)
    if drift_ms is not None:
        timed = timed.with_alignment(drift_ms)
    windows = timed.key_by("split").window(TumblingEventTimeWindows(100)).aggregate(n=count())
    windows.sink_to(CollectSink("counts"), uid="out")
    return Lab(env) if seed is None else Lab(env, seed=seed, scheduler=Random())


def last_window(lab: Lab, at_ms: int) -> int:
    """The start of the last window that was published by then, -1 if none was."""
    lab.run_until(at_ms=lab.look.at_ms + at_ms)
    output = lab.output("counts")
    return -1 if output.empty else int(output["window_start"].max())


def test_a_split_without_rows_holds_event_time_back_until_it_is_idle() -> None:
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    holding = job(source)
    read_all(holding, source)
    assert last_window(holding, 2_000) == -1  # rows of b at 100 and later may still come
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    lab = job(source, idle_ms=500)
    read_all(lab, source)
    assert last_window(lab, 200) == -1
    assert last_window(lab, 1_000) == 300
    source.rows["a"] = 100
    assert last_window(lab, 1_000) == 800, "b still does not count"
    assert not lab.look.late_rows_dropped


def test_an_idle_split_counts_again_with_its_next_row() -> None:
    source = Endless("ab", {"a": 50, "b": 10}, batch_rows=10)
    lab = job(source, idle_ms=500)
    read_all(lab, source)
    assert last_window(lab, 1_500) == 300
    source.rows["b"] = 60
    read_all(lab, source)
    source.rows["a"] = 200
    read_all(lab, source)
    assert last_window(lab, 300) == 400  # b is at 590, and not idle
    assert sum(lab.look.late_rows_dropped.values()) == 30, "the rows of b from 100 to 399 came too late"


def test_a_split_that_has_rows_is_not_idle_because_its_reader_is_elsewhere() -> None:
    source = Endless("ab", {"a": 400, "b": 400}, batch_rows=1)
    lab = job(source, idle_ms=1)
    read_all(lab, source)
    steps(lab, 200)
    assert not lab.look.late_rows_dropped


@dataclass(frozen=True, eq=False)
class Uneven(Endless):
    """Time passes ten times as fast in split `a`."""

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        read = super().read_split(split, position, max_rows)
        if split["id"] != "a" or read.batch is None:
            return read
        rows = [row | {"t": 10 * row["t"]} for row in read.batch.to_pylist()]
        return ReadResult(read.batch.from_pylist(rows, schema=SCHEMA), read.position, read.finished)


def ahead(lab: Lab) -> int:
    """By how much the time of split a is ahead of that of b."""
    heads = (task.chain.head for task in lab.look.tasks.values() if task.is_source)
    at = {split["id"]: position for head in heads for split, position in head.splits}  # type: ignore[attr-defined]
    return 100 * at["a"] - 10 * at["b"] if {"a", "b"} <= set(at) else 0


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_split_that_is_too_far_ahead_waits_for_the_others(parallelism: int) -> None:
    furthest = {}
    for drift_ms in (None, 2_000):
        source = Uneven("ab", {"a": 4_000, "b": 4_000}, batch_rows=5)
        lab = job(source, parallelism, drift_ms=drift_ms)
        lab.run_until(record="AllTasksRunning")
        furthest[drift_ms] = 0
        while lab.look.at_ms < 6_000 and sum(rows for _, rows in source.reads) < 2_000:
            lab.step()
            furthest[drift_ms] = max(furthest[drift_ms], ahead(lab))
    assert furthest[None] > 50_000
    assert 0 < furthest[2_000] < 40_000


def test_all_rows_are_read_when_splits_wait_for_each_other() -> None:
    source = Uneven("ab", {"a": 60, "b": 600}, batch_rows=5)
    lab = job(source, 2, drift_ms=300)
    read_all(lab, source)
    source.rows["b"] = 601
    read_all(lab, source)
    assert not lab.look.late_rows_dropped


def test_a_drift_has_to_be_something() -> None:
    with pytest.raises(ValueError, match="max_drift_ms is 0, but must be 1 or more"):
        TimestampsAndWatermarks(SCHEMA, "t", max_drift_ms=0)


# --- readers that end, that have no splits, and splits that return ----------------------------------------------------

ROWS_OF = {"a": 60, "b": 300, "c": 30, "d": 300}
"""The rows of each file, one for each 10 ms: the readers at parallelism 2 and 3 end at very different times."""


def csv_files(path: Path) -> Source:
    for name, rows in ROWS_OF.items():
        (path / f"{name}.csv").write_text("t\n" + "".join(f"{10 * n}\n" for n in range(rows)))
    return CsvSource(str(path), batch_rows=10, rows_per_second=150)


def parquet_files(path: Path) -> Source:
    for name, rows in ROWS_OF.items():
        pq.write_table(pa.table({"t": [10 * n for n in range(rows)]}), path / f"{name}.parquet")
    return ParquetSource(str(path), batch_rows=10, rows_per_second=150)


def text_files(path: Path) -> Source:
    for name, rows in ROWS_OF.items():
        (path / f"{name}.txt").write_text("".join(f"{10 * n}\n" for n in range(rows)))
    return TextSource(str(path), batch_rows=10, rows_per_second=150)


def file_job(source: Source, parallelism: int, drift_ms: int = 100) -> StreamEnvironment:
    env = StreamEnvironment(
        "aligned files", parallelism=parallelism, max_parallelism=8, checkpoint=CheckpointConfig(interval_ms=50)
    )
    rows = env.from_source(source, uid="rows")
    if "line" in source.schema.names:
        rows = rows.with_column("t", pc.field("line").cast(pa.int64()))
    timed = rows.select("t").assign_timestamps("t").with_alignment(drift_ms)
    timed.sink_to(CollectSink("out"), uid="out")
    return env


FILES = pytest.mark.parametrize("files", [csv_files, parquet_files, text_files])


@FILES
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_reader_that_has_finished_holds_no_other_back(
    files: Callable[[Path], Source], parallelism: int, tmp_path: Path
) -> None:
    lab = Lab(file_job(files(tmp_path), parallelism))
    lab.run_until(lambda lab: lab.ended or lab.look.at_ms > 60_000)
    assert lab.ended
    assert Counter(lab.output("out")["t"]) == Counter(10 * n for rows in ROWS_OF.values() for n in range(rows))
    assert any(lab.trace.story(kind="SplitsPaused")), "no split was paused, so nothing was tested"


@FILES
def test_on_spark_a_reader_that_has_finished_holds_no_other_back(
    files: Callable[[Path], Source], tmp_path: Path
) -> None:
    with SparkJob(file_job(files(tmp_path), 2), launch=ThreadGang) as job:
        job.start()
        assert job.wait(60) == "FINISHED"
        paused = job.trace.story(kind="SplitsPaused")
        output = job.output("out")
    assert Counter(output["t"]) == Counter(10 * n for rows in ROWS_OF.values() for n in range(rows))
    assert any(paused)


def test_readers_without_splits_hold_no_other_back() -> None:
    source = Uneven("ab", {"a": 60, "b": 600}, batch_rows=5)
    lab = job(source, 4, drift_ms=300)
    read_all(lab, source)
    assert not lab.look.late_rows_dropped


def test_why_names_the_pause_and_the_reader_that_is_furthest_behind() -> None:
    source = Uneven("ab", {"a": 400, "b": 10}, batch_rows=5)
    lab = job(source, 2, drift_ms=300)
    lab.run_until(at_ms=3_000)
    told = says(lab.why("rows/0"))
    assert told[0].startswith("alignment pauses the source of rows/0: its splits may be read up to 389 ms")
    assert told[1].startswith("a at ")
    assert "rows/1 is furthest behind: the slowest of its splits is at 89 ms" in told
    source.rows["b"] = 4_000
    read_all(lab, source)
    assert not any("alignment pauses" in each for each in says(lab.why("rows/0")))


def test_a_split_that_returns_pauses_those_that_went_on_without_it() -> None:
    source = Uneven("ab", {"a": 50, "b": 10}, batch_rows=5)
    lab = job(source, 2, idle_ms=500, drift_ms=300)
    read_all(lab, source)
    lab.run_until(at_ms=lab.look.at_ms + 2_000)  # b is idle, and a read to its end
    source.rows.update(a=60, b=20)
    read_all(lab, source)
    lab.run_until(at_ms=lab.look.at_ms + 300)
    source.rows["a"] = 90
    lab.run_until(at_ms=lab.look.at_ms + 300)
    assert "alignment pauses" in says(lab.why("rows/0"))[0]
    source.rows["b"] = 900
    read_all(lab, source)
