"""Directories as Hive and Spark write them: values in the names of directories become columns of the rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kit import CsvSource, ParquetSource
from kit.stream.connectors.file_sources import _FileSource
from kit.stream.operators.spec import SchemaError


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    rows = pd.DataFrame({"year": [2013] * 4 + [2014] * 2, "month": [1, 1, 10, 2, 1, 2], "delay": range(6)})
    table = pa.Table.from_pandas(rows, preserve_index=False)
    ds.write_dataset(
        table,
        tmp_path / "flights",
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("year", pa.int32()), ("month", pa.int32())]), flavor="hive"),
    )
    return tmp_path / "flights"


def frame(source: _FileSource, max_rows: int = 1) -> pd.DataFrame:
    batches = []
    for split in source.enumerate_splits():
        position, finished = 0, False
        while not finished:
            result = source.read_split(split, position, max_rows)
            batches += [result.batch] if result.batch else []
            position, finished = result.position, result.finished
    return pa.Table.from_batches(batches, source.schema).to_pandas()


def test_it_reads_what_arrow_and_pandas_read(flights: Path) -> None:
    source = ParquetSource(flights)
    assert source.schema == pa.schema([("delay", pa.int64()), ("year", pa.int32()), ("month", pa.int32())])
    theirs = ds.dataset(flights, partitioning="hive").to_table().to_pandas()
    pd.testing.assert_frame_equal(
        frame(source).sort_values("delay", ignore_index=True), theirs.sort_values("delay", ignore_index=True)
    )
    pd.testing.assert_frame_equal(frame(ParquetSource(flights, splits=3)), frame(source))


def test_columns_of_either_kind_are_picked_in_any_order(flights: Path) -> None:
    assert frame(ParquetSource(flights, columns=("month", "delay"))).columns.tolist() == ["month", "delay"]
    assert frame(ParquetSource(flights, columns=("year",)))["year"].tolist() == [2013] * 4 + [2014] * 2


def test_a_pattern_leaves_out_what_comes_before_its_first_wildcard(flights: Path) -> None:
    assert frame(ParquetSource(flights / "year=2013" / "*")).columns.tolist() == ["delay", "month"]
    found = frame(ParquetSource(flights / "year=*" / "month=1" / "*.parquet"))
    assert found[["year", "month"]].to_numpy().tolist() == [[2013, 1], [2013, 1], [2014, 1]]


def test_csv_has_them_too_with_text_and_nothing_and_escapes(tmp_path: Path) -> None:
    for name in ("carrier=UA", "carrier=__HIVE_DEFAULT_PARTITION__", "carrier=a%2Fb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.csv").write_text("delay\n1\n")
    source = CsvSource(tmp_path)
    assert source.schema == pa.schema([("delay", pa.int64()), ("carrier", pa.string())])
    assert sorted(frame(source)["carrier"], key=str) == [None, "UA", "a/b"]


def test_the_type_of_such_a_column_may_be_said(tmp_path: Path) -> None:
    (tmp_path / "zip=01234").mkdir()
    (tmp_path / "zip=01234" / "part.csv").write_text("n\n1\n")
    columns = {"zip": pa.string(), "n": pa.int64()}
    assert frame(CsvSource(tmp_path, columns)).to_dict("list") == {"zip": ["01234"], "n": [1]}
    assert frame(CsvSource(tmp_path))["zip"].tolist() == [1234]


def test_a_file_in_another_kind_of_directory_is_named(flights: Path) -> None:
    pq.write_table(pa.table({"delay": [1]}), flights / "year=2013" / "stray.parquet")
    with pytest.raises(
        SchemaError, match=r"stray\.parquet has the partition columns year=\.\.\., expected year=.../mon"
    ):
        ParquetSource(flights)


def test_a_file_of_other_columns_is_named_with_what_was_found_and_expected(flights: Path) -> None:
    other = next((flights / "year=2014" / "month=1").glob("*.parquet"))
    pq.write_table(pa.table({"delay": ["late"]}), other)
    with pytest.raises(SchemaError, match=r"month=1/.*\.parquet, column 'delay': found string, expected int64 as in "):
        ParquetSource(flights)
    pq.write_table(pa.table({"dely": [1]}), other)
    with pytest.raises(SchemaError, match=r"has no column 'delay', which .* has; its columns are dely: int64"):
        ParquetSource(flights)
