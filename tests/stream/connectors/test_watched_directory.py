"""A directory whose files are read as they appear."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from kit import CheckpointConfig, CollectSink, DirectorySource, GeneratorSource, Lab, StreamEnvironment
from kit.hosts.lab.errors import LabJobFailedError
from kit.stream.operators.sources.source import Source, Split
from kit.stream.operators.sources.source_operator import SourceOperator

SCHEMA = pa.schema([("n", pa.int64())])


def appear(directory: Path, name: str, numbers: list[int]) -> None:
    """A file is written elsewhere and renamed."""
    hidden, table = directory / f".{name}", pa.table({"n": pa.array(numbers, pa.int64())})
    if name.endswith(".parquet"):
        pq.write_table(table, hidden, row_group_size=2)
    elif name.endswith(".csv"):
        csv.write_csv(table, hidden)
    else:
        hidden.write_text("".join(f"{number}\n" for number in numbers))
    hidden.rename(directory / name)


def job(source: Source, parallelism: int = 2, **checkpoint: Any) -> StreamEnvironment:
    settings = CheckpointConfig(**{"interval_ms": 300} | checkpoint)
    env = StreamEnvironment("watch", parallelism=parallelism, max_parallelism=8, checkpoint=settings)
    env.from_source(source, uid="rows").sink_to(CollectSink("rows"), uid="out")
    return env


def numbers(lab: Lab) -> list[int]:
    output = lab.output()
    return sorted(map(int, output[output.columns[0]])) if len(output) else []


@pytest.mark.parametrize("format", ["parquet", "csv", "text"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_files_are_read_as_they_appear(tmp_path: Path, format: Any, parallelism: int) -> None:
    appear(tmp_path, f"a.{format}", [0, 1, 2])
    lab = Lab(job(DirectorySource(str(tmp_path), format=format, discover_every="100ms"), parallelism))
    lab.run_until(at_ms=500)
    appear(tmp_path, f"c.{format}", [3, 4, 5])
    (tmp_path / "below").mkdir()
    appear(tmp_path / "below", f"b.{format}", [6, 7])
    (tmp_path / f"_later.{format}").write_text("not whole yet")
    lab.run_until(at_ms=1_000)
    lab.faults.kill(0)
    lab.run_until(at_ms=3_000)
    lab.rescale(2, wait=True)
    appear(tmp_path, f"d.{format}", [8])
    lab.run_until(at_ms=lab.look.at_ms + 1_000)
    savepoint = lab.stop(wait=True)
    assert numbers(lab) == [*range(9)]
    os.unlink(tmp_path / f"a.{format}")  # it has been read
    appear(tmp_path, f"e.{format}", [9])
    again = Lab(job(DirectorySource(str(tmp_path), format=format)), restore_path=savepoint, after=lab)
    again.run_until(at_ms=2_000)
    again.stop(wait=True)
    assert numbers(again) == [*range(10)]


def test_files_of_one_listing_are_read_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    for age, name in enumerate(["c.parquet", "a.parquet", "b.parquet"]):
        appear(tmp_path, name, [age])
        os.utime(tmp_path / name, ns=(0, age * 1_000_000_000))
    source = DirectorySource(str(tmp_path))
    assert [Path(split["path"]).stem for split in source.enumerate_splits()] == ["c", "a", "b"]


def test_a_directory_without_files_needs_to_be_told_its_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give `columns`"):
        DirectorySource(str(tmp_path))
    assert DirectorySource(str(tmp_path), columns=SCHEMA).enumerate_splits() == []
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        DirectorySource(str(tmp_path / "missing"), columns=SCHEMA)


def test_a_file_that_changes_after_it_appeared_fails_the_job_by_name(tmp_path: Path) -> None:
    appear(tmp_path, "a.parquet", [*range(40)])
    lab = Lab(job(DirectorySource(str(tmp_path), batch_rows=1), 1))
    lab.run_until(record="SplitRead")
    appear(tmp_path, "a.parquet", [*range(50)])
    with pytest.raises(LabJobFailedError, match=r"a\.parquet was rewritten"):
        lab.run_until(ended=True)


@pytest.mark.parametrize("path", ["/etc/passwd", "{}/../x", "{}-other/x"])
def test_a_checkpoint_cannot_name_a_file_elsewhere(tmp_path: Path, path: str) -> None:
    source = DirectorySource(str(tmp_path), columns=SCHEMA)
    with pytest.raises(ValueError, match="is not in"):
        source.check_split({"id": "x", "path": path.format(tmp_path)})


# --- a generator without an end ---------------------------------------------------------------------------------------


def test_a_generator_without_an_end_keeps_its_rate_and_goes_on_where_it_was() -> None:
    source = GeneratorSource(rows=None, key_count=5, rows_per_second=100, splits=3)
    lab = Lab(job(source, 2, interval_ms=500))
    lab.run_until(at_ms=2_000)
    lab.faults.kill(1)
    lab.run_until(at_ms=4_000)
    lab.rescale(3, wait=True)
    lab.run_until(at_ms=8_000)
    savepoint = lab.stop(wait=True)
    output = lab.output()
    assert 0 < len(output) <= 3 * 100 * 8
    again = Lab(job(source, 1), restore_path=savepoint, after=lab)
    again.run_until(lambda _: len(_held(again)) == 3)
    expected = Counter(
        tuple(row.values())
        for split, position in _held(again)
        for row in source.slice(split["start"], 10_000).slice(0, position).to_pylist()
    )
    assert Counter(output.itertuples(index=False, name=None)) == expected


def _held(lab: Lab) -> list[tuple[Split, int]]:
    heads = (task.chain.head for task in lab.look.tasks.values() if task.is_source)
    return [pair for head in heads if isinstance(head, SourceOperator) for pair in head.splits]


def test_a_generator_without_an_end_has_no_number_of_rows() -> None:
    with pytest.raises(ValueError, match="it never ends"):
        print(GeneratorSource(rows=None, key_count=3).row_count)
    assert repr(GeneratorSource(rows=None, key_count=3)) == "GeneratorSource(endless rows, 3 keys)"
