"""Sinks whose directories are named after the values of columns."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import CheckpointConfig, CollectionSource, Lab, ParquetSink, ParquetSource, SparkJob, StreamEnvironment
from kit.core.protocol.snapshots import Effect
from kit.core.state.errors import StateRestoreError
from kit.files import output_files
from kit.stream.connectors import CollectSink, CommitError, RollingPolicy, SinkSpec
from kit.stream.connectors.partitions import by_partition, keys_of
from kit.stream.operators.spec import SchemaError
from tests.hosts.spark.jobs import ThreadGang
from tests.stream.connectors.parts import paths_of_part

DAYS = [dt.date(2013, 1, day) for day in (1, 2, 3)]
ROWS = [{"city": ("Bern", "São Paulo/SP", "a=b %", None)[n % 4], "day": DAYS[n % 3], "n": n} for n in range(48)]
SCHEMA = pa.schema([("city", pa.string()), ("day", pa.date32()), ("n", pa.int64())])
COLUMNS = ("city", "day")


def job(sink: ParquetSink, batch_rows: int = 2, **settings: object) -> StreamEnvironment:
    env = StreamEnvironment("partitions", parallelism=2, checkpoint=CheckpointConfig(interval_ms=40, **settings))
    env.from_source(CollectionSource(pa.Table.from_pylist(ROWS, SCHEMA), batch_rows=batch_rows), uid="rows").sink_to(
        sink, uid="out"
    )
    return env


def expected() -> list[tuple[str | None, str, int]]:
    return sorted([(row["city"], str(row["day"]), row["n"]) for row in ROWS], key=lambda row: row[2])


def read_back(directory: Path) -> list[tuple[str | None, str, int]]:
    """The rows as another reader of Hive's layout has them."""
    layout = ds.partitioning(pa.schema([("city", pa.string()), ("day", pa.date32())]), flavor="hive")
    found = ds.dataset(directory, format="parquet", partitioning=layout).to_table().to_pylist()
    return sorted([(row["city"], str(row["day"]), row["n"]) for row in found], key=lambda row: row[2])


def test_rows_are_in_directories_named_after_their_values(tmp_path: Path) -> None:
    lab = Lab(job(ParquetSink(tmp_path / "out", partition_by=COLUMNS), batch_rows=12))
    lab.run()
    frame = lab.output("out")
    assert list(frame.columns) == ["n", "city", "day"]
    found = [
        (None if row.city is None else row.city, str(row.day), row.n) for row in frame.sort_values("n").itertuples()
    ]
    assert found == expected()
    directories = {
        path.rpartition("/part-")[0].removeprefix(f"{tmp_path}/out/") for path in lab._world.edge.output.published
    }
    assert "city=Bern/day=2013-01-01" in directories
    assert "city=São Paulo%2FSP/day=2013-01-03" in directories
    assert "city=__HIVE_DEFAULT_PARTITION__/day=2013-01-02" in directories


@pytest.mark.parametrize("rolling", [RollingPolicy(), RollingPolicy(max_rows=3, held_rows=4)])
def test_a_job_leaves_each_row_once_and_sources_read_the_columns_again(tmp_path: Path, rolling: RollingPolicy) -> None:
    sink = ParquetSink(tmp_path / "out", partition_by=COLUMNS, rolling=rolling)
    with SparkJob(job(sink), launch=ThreadGang).start() as running:
        assert running.wait() == "FINISHED"
        assert sorted(running.output("out")["n"]) == list(range(48))
    assert read_back(tmp_path / "out") == expected()
    assert not (tmp_path / "out" / ".staging").exists()
    source = ParquetSource(tmp_path / "out")
    assert source.schema.names == ["n", "city", "day"]
    with pytest.raises(FileExistsError, match=r"out already holds \d+ Parquet files \(city="):
        SparkJob(job(sink), launch=ThreadGang).start()
    again = ParquetSink(sink.path, "overwrite", partition_by="day")
    with SparkJob(job(again), launch=ThreadGang).start() as running:
        assert running.wait() == "FINISHED"
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [f"day={day}" for day in DAYS]


@pytest.mark.parametrize("day", ["", "day=2013-01-01/"])
def test_only_visible_files_in_partitions_count_as_output(tmp_path: Path, day: str) -> None:
    """Other files below the directory belong to others: the job neither fails because of them nor deletes them."""
    sink = ParquetSink(tmp_path / "out", "overwrite", partition_by="day")
    own = paths_of_part(sink, 1, partition=day, writer="earlier")[1].removeprefix(f"{sink.path}/")
    others = [
        f"{day}.hidden.parquet",
        f"{day}_hidden.parquet",
        f"archive/{own}",
        f".staging/job/{own}",
        f"{day}notes.txt",
    ]
    for name in (own, *others):
        path = tmp_path / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), path)
    assert output_files.published_files(sink.path) == [own]
    with SparkJob(job(sink), launch=ThreadGang).start() as running:
        assert running.wait() == "FINISHED"
    assert not (tmp_path / "out" / own).exists()
    assert all((tmp_path / "out" / name).exists() for name in others)


@pytest.mark.parametrize("seed", range(4))
def test_each_row_comes_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    sink = ParquetSink(tmp_path / "out", partition_by=COLUMNS, rolling=RollingPolicy(max_rows=3, held_rows=2))
    chance = random.Random(seed)
    lab = Lab(job(sink), seed=seed)
    for _ in range(3):
        for _ in range(chance.randrange(20, 50)):
            lab.step()
        lab.faults.kill(chance.randrange(2))
    lab.run()
    assert sorted(lab.output("out")["n"]) == list(range(48))
    assert lab.look.master.restarts > 1


@given(
    st.lists(st.tuples(st.text(max_size=6) | st.none(), st.integers(-2, 2) | st.none(), st.booleans()), max_size=30),
    st.sets(st.sampled_from(["text", "number", "flag"]), min_size=1),
)
def test_every_row_is_in_one_partition_and_keeps_its_order(
    rows: list[tuple[str | None, int | None, bool]], columns: set[str]
) -> None:
    by = sorted(columns)
    types = [pa.field("text", pa.string()), pa.field("number", pa.int64()), pa.field("flag", pa.bool_())]
    table = [dict(zip(("text", "number", "flag"), row, strict=True)) | {"n": n} for n, row in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist(table, schema=pa.schema([*types, pa.field("n", pa.int64())]))
    seen: list[int] = []
    for directory, part in by_partition(batch, by):
        values = dict(keys_of(f"{directory}part.parquet"))
        assert part.num_rows > 0
        assert list(values) == by
        numbers = part.column("n").to_pylist()
        assert numbers == sorted(numbers)
        for n in numbers:
            for name in by:
                value = table[n][name]
                text = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
                assert values[name] == (text or None)
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))


@pytest.mark.parametrize(
    ("columns", "schema", "said"),
    [
        ("town", SCHEMA, "no column 'town' to partition by"),
        (("city", "day", "n"), SCHEMA, "none is left"),
        ("x", pa.schema([("x", pa.float64()), ("n", pa.int64())]), "'x', which is double; expected text, an integer"),
        (".x", pa.schema([(".x", pa.int64()), ("n", pa.int64())]), "would begin with a dot"),
        ("a=b", pa.schema([("a=b", pa.int64()), ("n", pa.int64())]), "special character"),
    ],
)
def test_columns_that_name_no_directory_are_refused(tmp_path: Path, columns: str, schema: pa.Schema, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        SinkSpec(schema, ParquetSink(tmp_path / "out", partition_by=columns), name="sink out")


def test_what_names_no_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"partition_by is \(1,\), expected the names of columns"):
        ParquetSink(tmp_path / "out", partition_by=(1,))
    with pytest.raises(ValueError, match="each column may be named once"):
        ParquetSink(tmp_path / "out", partition_by=("n", "n"))
    with pytest.raises(TypeError):
        CollectSink("out", partition_by="n")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("column", "directories"),
    [
        (pa.array(["b", "a", None, "a"]), ["x=__HIVE_DEFAULT_PARTITION__/", "x=a/", "x=b/"]),
        (pa.array(["b", "a", "b", "a"], pa.large_string()), ["x=a/", "x=b/"]),
        (pa.array(["b", "a", None, "a"]).dictionary_encode(), ["x=__HIVE_DEFAULT_PARTITION__/", "x=a/", "x=b/"]),
        (pa.array([True, False, True, False]), ["x=false/", "x=true/"]),
        (pa.array([-1, 2, -1, 2], pa.int16()), ["x=-1/", "x=2/"]),
        (pa.array([dt.date(2013, 1, 1)] * 4), ["x=2013-01-01/"]),
    ],
    ids=lambda given: str(given.type) if isinstance(given, pa.Array) else "",
)
def test_a_column_of_any_short_value_names_directories(
    tmp_path: Path, column: pa.Array, directories: list[str]
) -> None:
    batch = pa.record_batch({"x": column, "n": pa.array(range(4))})
    SinkSpec(batch.schema, ParquetSink(tmp_path / "out", partition_by="x"), name="sink out")
    found = dict(by_partition(batch, ["x"]))
    assert sorted(found) == directories
    assert sorted(n for part in found.values() for n in part.column("n").to_pylist()) == list(range(4))


def test_a_value_that_is_too_long_for_a_directory_fails_before_its_checkpoint() -> None:
    def directories(value: str) -> list[str]:
        return [directory for directory, _ in by_partition(pa.record_batch({"text": [value], "n": [1]}), ["text"])]

    assert directories("x" * 250) == [f"text={'x' * 250}/"]
    assert directories("ã" * 125) == [f"text={'ã' * 125}/"]
    for value, size in (("x" * 251, 256), ("ã" * 126, 257), ("/" * 84, 257)):
        with pytest.raises(ValueError, match=rf"partitioned by 'text'.*{size} bytes, and 255 is the most"):
            directories(value)


@pytest.mark.parametrize(
    "final",
    [
        "{out}/../part-{job}-00000-000001.parquet",
        "{out}/x=1/../part-{job}-00000-000001.parquet",
        "{out}/.x=1/part-{job}-00000-000001.parquet",
        "{out}/x/part-{job}-00000-000001.parquet",
        "{out}x=1/part-{job}-00000-000001.parquet",
    ],
)
def test_a_checkpoint_names_nothing_outside_the_partitions(tmp_path: Path, final: str) -> None:
    sink = ParquetSink(tmp_path / "out", partition_by="x")
    staged, published = paths_of_part(sink, 1, partition="x=1/")
    sink.check_own(staged, published)
    with pytest.raises(StateRestoreError, match="the sink writes to"):
        sink.check_own(staged, final.format(out=sink.path, job="job"))


def test_nothing_is_published_through_a_partition_that_is_a_link_to_elsewhere(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path / "out", partition_by="x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x=1").symlink_to(tmp_path / "elsewhere")
    effect = Effect("out", *paths_of_part(sink, 1, partition="x=1/"), pa.table({"n": [1]}))
    output_files.stage(effect)
    with pytest.raises(CommitError, match=r"outside .*; remove the link"):
        output_files.commit([effect])
    assert list((tmp_path / "elsewhere").iterdir()) == []
