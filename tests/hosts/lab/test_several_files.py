"""Event time over several files that cover the same time: no row is late because another file was read before."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

from kit import (
    CheckpointConfig,
    CollectSink,
    CsvSource,
    Lab,
    ParquetSource,
    StreamEnvironment,
    TumblingEventTimeWindows,
    count,
)
from kit.hosts.lab.errors import LabJobFailedError
from kit.hosts.spark import SparkJob
from kit.stream.operators.sources.source import Source
from tests.hosts.spark.jobs import ThreadGang
from tests.properties import examples

Rows = list[tuple[str, int]]
"""Sensor and time, ms."""
SCHEMA = pa.schema([("sensor", pa.string()), ("at", pa.int64())])


def write(directory: Path, files: list[Rows], kind: str = "csv") -> None:
    for number, rows in enumerate(files):
        table = pa.table([[row[0] for row in rows], [row[1] for row in rows]], schema=SCHEMA)
        path = directory / f"{number:03d}.{kind}"
        if kind == "csv":
            csv.write_csv(table, path)
        else:
            pq.write_table(table, path, row_group_size=7)


def job(
    source: Source,
    *,
    parallelism: int = 2,
    size_ms: int = 1_000,
    between: bool = False,
    interval_ms: int | None = 20,
) -> StreamEnvironment:
    checkpoint = CheckpointConfig(interval_ms=interval_ms)
    env = StreamEnvironment("several files", parallelism=parallelism, max_parallelism=16, checkpoint=checkpoint)
    rows = env.from_source(source, uid="rows")
    if between:
        rows = rows.filter(lambda row: row["at"] % 3 != 1).map(lambda row: row).uid("mapped")
    windows = rows.assign_timestamps("at").key_by("sensor").window(TumblingEventTimeWindows(size_ms))
    windows.aggregate(n=count()).uid("counts").sink_to(CollectSink("out"), uid="out")
    return env


def expected(files: list[Rows], size_ms: int = 1_000, *, between: bool = False) -> Counter[tuple[str, int, int]]:
    kept = [row for row in itertools.chain(*files) if not (between and row[1] % 3 == 1)]
    windows = Counter((sensor, time // size_ms * size_ms) for sensor, time in kept)
    return Counter((sensor, start, n) for (sensor, start), n in windows.items())


def found(output: pd.DataFrame) -> Counter[tuple[str, int, int]]:
    if output.empty:
        return Counter()
    return Counter(output[["sensor", "window_start", "n"]].itertuples(index=False, name=None))


FOUR_SENSORS = [[(f"s{sensor}", 1_000 * second + sensor) for second in range(1_700)] for sensor in range(4)]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_four_files_of_the_same_time_lose_no_window(tmp_path: Path, parallelism: int) -> None:
    write(tmp_path, FOUR_SENSORS)
    lab = Lab(job(CsvSource(str(tmp_path / "*.csv"), batch_rows=100), parallelism=parallelism, interval_ms=1_000))
    lab.run()
    assert len(lab.output()) == 6_800
    assert found(lab.output()) == expected(FOUR_SENSORS)


def test_four_files_of_the_same_time_lose_no_window_on_slots(tmp_path: Path) -> None:
    write(tmp_path, FOUR_SENSORS)
    with SparkJob(job(CsvSource(str(tmp_path / "*.csv"), batch_rows=100)), launch=ThreadGang) as running:
        running.start()
        assert running.wait(timeout_s=120) == "FINISHED", running.error
        assert found(running.output()) == expected(FOUR_SENSORS)


def test_files_that_follow_each_other_in_time_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Their windows come out as time passes, not at the end."""
    days = [[("s", 10_000 * day + 100 * n) for n in range(100)] for day in range(6)]
    write(tmp_path, days)
    lab = Lab(job(CsvSource(str(tmp_path / "*.csv"), batch_rows=10), parallelism=1, interval_ms=None))
    reads = []
    while not lab.ended:
        before = len(lab.trace)
        lab.step()
        reads += [each.data["split"]["id"] for each in lab.trace.since(before) if each.kind == "ReadSplit"]
    assert found(lab.output()) == expected(days)
    names = [Path(each).stem for each in reads]
    assert names[:6] == sorted(set(names)), "a row of each, to know where it begins"
    assert names[6:] == sorted(names[6:])


TIMES = st.lists(st.integers(0, 60), max_size=15).map(sorted)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(TIMES, min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(["csv", "parquet"]),
    st.integers(0, 2**16),
)
def test_whatever_files_hold_no_row_is_late(
    tmp_path_factory: pytest.TempPathFactory,
    times: list[list[int]],
    before: int,
    after: int,
    between: bool,
    kind: str,
    seed: int,
) -> None:
    """With a failure, a savepoint somewhere and another parallelism behind it."""
    directory = tmp_path_factory.mktemp("files")
    files = [[(f"s{number % 2}", time) for time in each] for number, each in enumerate(times)]
    write(directory, files, kind)
    made = (CsvSource if kind == "csv" else ParquetSource)(
        str(directory / f"*.{kind}"), batch_rows=2, **({"columns": SCHEMA} if kind == "csv" else {})
    )

    def of(parallelism: int) -> StreamEnvironment:
        return job(made, parallelism=parallelism, size_ms=10, between=between, interval_ms=15)

    lab = Lab(of(before), seed=seed)
    for _ in range(seed % 150):
        if not lab.ended:
            lab.step()
    if not lab.ended and seed % 3 == 0 and lab.look.tasks:
        lab.faults.kill(0)
    lab.run_until(at_ms=40 + seed % 60, ended=True)
    if not lab.ended:
        with suppress(LabJobFailedError):  # nothing runs any more, or not yet
            savepoint = lab.stop(wait=True)
            lab = Lab(of(after), seed=seed, restore_path=savepoint, after=lab)
    lab.run()
    assert found(lab.output()) == expected(files, 10, between=between)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1), (1, 4)])
def test_a_rescale_in_the_middle_of_several_files_loses_no_window(
    tmp_path: Path, kind: str, before: int, after: int
) -> None:
    files = [[(f"s{sensor}", 10 * n + sensor) for n in range(60)] for sensor in range(5)]
    write(tmp_path, files, kind)
    made = (CsvSource if kind == "csv" else ParquetSource)(str(tmp_path / f"*.{kind}"), batch_rows=3)
    lab = Lab(job(made, parallelism=before, size_ms=20))
    lab.run_until(checkpoint=1)
    savepoint = lab.stop(wait=True)
    assert sum(found(lab.output()).values()) < sum(expected(files, 20).values())
    again = Lab(job(made, parallelism=after, size_ms=20), restore_path=savepoint, after=lab)
    again.run()
    assert found(again.output()) == expected(files, 20)
