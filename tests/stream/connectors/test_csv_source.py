"""CSV files of all kinds: columns and types as pandas finds them, and the errors for files that do not fit."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit import CsvSource
from kit.stream.connectors import csv_files
from kit.stream.operators.spec import SchemaError
from tests.properties import examples

WORDS = st.text(st.sampled_from("ab é,;\"'"), min_size=1, max_size=5).map(lambda word: f"w{word}")
VALUES = {
    "int": st.integers(-(2**50), 2**50),
    "float": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.5),
    "bool": st.booleans(),
    "text": WORDS,
    "date": st.dates(pd.Timestamp("1970-01-02").date(), pd.Timestamp("2200-01-01").date()),
}


def csv(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def frame(source: CsvSource, max_rows: int = 7, seek: bool = False) -> pd.DataFrame:
    """All rows, by one reader, or by a new one for each read."""
    reader, batches = source.open_reader(), []
    for split in source.enumerate_splits():
        position, finished = 0, False
        while not finished:
            result = source.read_split(split, position, max_rows) if seek else reader.read(split, position, max_rows)
            batches += [result.batch] if result.batch else []
            position, finished = result.position, result.finished
    return pa.Table.from_batches(batches, source.schema).to_pandas()


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4), rows=st.integers(1, 12))
def test_what_pandas_writes_is_read_as_pandas_reads_it(tmp_path, data, kinds, rows) -> None:
    columns: dict[str, list[Any]] = {}
    for number, kind in enumerate(kinds):
        missing = data.draw(st.booleans())
        value = VALUES[kind] | st.none() if missing else VALUES[kind]
        columns[f"{kind}{number}"] = [data.draw(value) for _ in range(rows - 1)] + [data.draw(VALUES[kind])]
    delimiter = data.draw(st.sampled_from([",", ";", "\t"]))
    path = tmp_path / "written.csv"
    pd.DataFrame(columns, dtype=object).to_csv(path, index=False, sep=delimiter)
    source = CsvSource(path, delimiter=delimiter)
    types = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "text": pa.string(), "date": pa.date32()}
    assert source.schema == pa.schema([(name, types[name[:-1]]) for name in columns])
    found = frame(source, data.draw(st.integers(1, 5)), seek=data.draw(st.booleans()))
    for name, values in columns.items():
        assert [None if pd.isna(value) else value for value in found[name]] == values
    with path.open() as file:
        theirs = pd.read_csv(file, sep=delimiter)
    for name in columns:
        if not name.startswith(("date", "bool")):
            both = (series.fillna(value=float("nan")) for series in (found[name], theirs[name]))
            pd.testing.assert_series_equal(*both, check_dtype=False)


def test_types_are_those_of_all_rows_not_of_the_first(tmp_path) -> None:
    rows = [f"{n},{n}" for n in range(200_000)]
    source = CsvSource(csv(tmp_path / "long.csv", "a,b", *rows, "1.5,late"))
    assert source.schema == pa.schema([("a", pa.float64()), ("b", pa.string())])
    assert frame(source, 1 << 16)["b"].iloc[-1] == "late"


def test_a_column_without_values_is_text(tmp_path) -> None:
    assert CsvSource(csv(tmp_path / "a.csv", "a,b", ",1", "NA,2")).schema.field("a").type == pa.string()


def test_blank_lines_are_no_rows_wherever_reading_goes_on(tmp_path) -> None:
    source = CsvSource(csv(tmp_path / "gaps.csv", "n", "", "1", "", "", "2", "3", ""))
    assert frame(source, 1, seek=True)["n"].tolist() == [1, 2, 3]


def test_dialects(tmp_path) -> None:
    bare = csv(tmp_path / "bare.csv", "1;'a;b'", "2;'c'")
    source = CsvSource(bare, delimiter=";", header=False, quote="'")
    assert frame(source).to_dict("list") == {"f0": [1, 2], "f1": ["a;b", "c"]}
    named = CsvSource(bare, {"n": pa.int32(), "word": pa.string()}, delimiter=";", header=False, quote="'")
    assert frame(named, seek=True, max_rows=1).to_dict("list") == {"n": [1, 2], "word": ["a;b", "c"]}
    lines = csv(tmp_path / "lines.csv", "n,text", '1,"two', 'lines"', "2,one")
    assert frame(CsvSource(lines, multiline=True), 1, seek=True)["text"].tolist() == ["two\nlines", "one"]
    nulls = CsvSource(csv(tmp_path / "nulls.csv", "n,text", "-,NA", "1,x"), null_values=("-",))
    assert nulls.schema == pa.schema([("n", pa.int64()), ("text", pa.string())])
    assert frame(nulls)["text"].tolist() == ["NA", "x"]
    (tmp_path / "latin.csv").write_bytes("word\ncafé\n".encode("latin-1"))
    assert frame(CsvSource(tmp_path / "latin.csv", encoding="latin-1"))["word"].tolist() == ["café"]
    (tmp_path / "small.csv.gz").write_bytes(gzip.compress(b"n\n1\n2\n"))
    assert frame(CsvSource(tmp_path / "small.csv.gz"), 1, seek=True)["n"].tolist() == [1, 2]


def test_some_types_may_be_said(tmp_path) -> None:
    source = CsvSource(csv(tmp_path / "zip.csv", "zip,n", "01234,1"), types={"zip": pa.string()})
    assert source.schema == pa.schema([("zip", pa.string()), ("n", pa.int64())])
    assert frame(source)["zip"].tolist() == ["01234"]
    with pytest.raises(SchemaError, match=r"types has 'zap', and the columns are 'zip', 'n'"):
        CsvSource(tmp_path / "zip.csv", types={"zap": pa.string()})


def test_several_files_have_the_same_columns_or_the_one_that_has_not_is_named(tmp_path) -> None:
    csv(tmp_path / "a.csv", "n,word", "1,x")
    csv(tmp_path / "b.csv", "n,word", "1.5,y")
    csv(tmp_path / "c.csv", "word,n", "z,")
    source = CsvSource(tmp_path / "*.csv")
    assert source.schema == pa.schema([("n", pa.float64()), ("word", pa.string())])
    assert frame(source)["word"].tolist() == ["x", "y", "z"]
    csv(tmp_path / "d.csv", "n,word", "late,x")
    with pytest.raises(
        SchemaError, match=r"d\.csv, column 'n': found string, expected double as in .*a\.csv; give .*\"n\": pa.str"
    ):
        CsvSource(tmp_path)
    frame(CsvSource(tmp_path, types={"n": pa.string()}))
    csv(tmp_path / "d.csv", "n,wort", "1,x")
    with pytest.raises(
        SchemaError, match=r"d\.csv has no column 'word', which .*a\.csv has; its columns are n: double, w"
    ):
        CsvSource(tmp_path)
    csv(tmp_path / "d.csv", "n,word,more", "1,x,y")
    with pytest.raises(SchemaError, match=r"d\.csv has a column 'more', which .*a\.csv has not"):
        CsvSource(tmp_path)


def test_a_late_row_that_does_not_fit_says_where_it_is_and_how_to_give_the_type(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(csv_files, "_INFERRED_BYTES", 64)
    monkeypatch.setattr(csv_files, "_LEAST_INFERRED_BYTES", 64)
    path = csv(tmp_path / "late.csv", "n", *map(str, range(100)), "1.5")
    with pytest.raises(ValueError, match=r"late\.csv, line 102, column 'n': '1.5' is not of type int64") as caught:
        frame(CsvSource(path))
    assert "CsvSource(..., types={'n': pa.float64()})" in str(caught.value)
    assert frame(CsvSource(path, types={"n": pa.float64()}))["n"].iloc[-1] == 1.5
    csv(path, "n", *map(str, range(100)), "late")
    with pytest.raises(ValueError, match=r"types=\{'n': pa.string\(\)\}"):
        frame(CsvSource(path))


def test_what_is_wrong_is_said_when_the_source_is_made(tmp_path) -> None:
    with pytest.raises(SchemaError, match=r"two output columns are named 'a'"):
        CsvSource(csv(tmp_path / "twice.csv", "a,a", "1,2"))
    with pytest.raises(ValueError, match=r"ragged\.csv, line 3: 3 values where the header has 2 columns: '1,2,3'"):
        CsvSource(csv(tmp_path / "ragged.csv", "a,b", "1,2", "1,2,3"))
    (tmp_path / "latin.csv").write_bytes("n,word\n1,café\n".encode("latin-1"))
    source = CsvSource(tmp_path / "latin.csv", {"word": pa.string()})
    with pytest.raises(ValueError, match=r"latin\.csv.*column 'word': .*UTF8.*encoding="):
        frame(source)
    for wrong, said in (
        ({"delimiter": ",,"}, "delimiter = ',,': expected one character"),
        ({"encoding": "klingon"}, "there is no encoding 'klingon'"),
    ):
        with pytest.raises(ValueError, match=said):
            CsvSource(tmp_path / "latin.csv", **wrong)
    with pytest.raises(TypeError, match=r"a path is a text, a pathlib\.Path, or several of these, and this is 3"):
        CsvSource(3)
    (tmp_path / "bare").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \.csv .*files: .*bare"):
        CsvSource(tmp_path / "bare")
    with pytest.raises(FileNotFoundError, match=r"nothing matches .*\*\.tsv"):
        CsvSource(tmp_path / "*.tsv")


def test_it_reads_what_pandas_reads_of_a_file_with_a_byte_order_mark(tmp_path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufeffn,word\r\n1,x\r\n".encode())
    pd.testing.assert_frame_equal(frame(CsvSource(path)), pd.read_csv(io.BytesIO(path.read_bytes())), check_dtype=False)
