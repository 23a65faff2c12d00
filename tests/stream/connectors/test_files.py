"""The edge: files read from any position, errors that name the file, and output that appears whole, once."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.core.protocol.snapshots import Effect
from kit.files import output_files
from kit.files.publication_records import lone_records, write_record
from kit.filesystems.local_disk import LocalDisk
from kit.stream.connectors import CommitError, CsvSource, ParquetSink, ParquetSource, SinkSpec
from kit.stream.operators.spec import SchemaError
from tests.properties import examples
from tests.stream.operators.harness import Harness

ROWS = pa.schema([("row", pa.int64()), ("name", pa.string())])


def table(rows: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table({"row": list(numbers), "name": [f"n{number}" for number in numbers]}, schema=ROWS)


def write(path: Path, rows: int, row_group_size: int = 10, first: int = 0) -> str:
    pq.write_table(table(rows, first), path, row_group_size=row_group_size)
    return str(path)


def read_all(source, max_rows: int = 7) -> list[int]:
    """All rows, split by split, by one reader."""
    reader, rows = source.open_reader(), []
    for split in source.enumerate_splits():
        position, finished = 0, False
        while not finished:
            result = reader.read(split, position, max_rows)
            rows += result.batch.column("row").to_pylist() if result.batch else []
            position, finished = result.position, result.finished
    reader.close()
    return rows


# --- Parquet ----------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 50), st.integers(1, 20), st.none() | st.integers(1, 9), st.data())
def test_parquet_is_read_from_any_position(tmp_path, rows, group, splits, data) -> None:
    source = ParquetSource(write(tmp_path / "flights.parquet", rows, group), splits=splits)
    assert read_all(source) == list(range(rows))
    found = source.enumerate_splits()
    assert [split["start"] for split in found[1:]] == [split["end"] for split in found[:-1]]
    assert len({split["id"] for split in found}) == len(found)
    if splits is not None:
        assert len(found) == min(splits, rows)
    for split in found:
        position = data.draw(st.integers(0, split["end"] - split["start"]))
        result = source.read_split(split, position, 1_000)
        expected = list(range(split["start"] + position, split["end"]))
        read = result.batch.column("row").to_pylist() if result.batch else []
        assert read == expected[: len(read)]
        assert result.position == position + len(read)
        assert result.finished == (read == expected)


def test_a_reader_of_several_splits_in_turn_keeps_each_where_it_is(tmp_path) -> None:
    source = ParquetSource(write(tmp_path / "flights.parquet", 40))
    reader, opened = source.open_reader(), []
    stream = reader._stream
    reader._stream = lambda split, position: opened.append(split["id"]) or stream(split, position)
    one, other = source.enumerate_splits()[:2]
    for position in range(10):
        for split in (one, other):
            result = reader.read(split, position, 1)
            assert result.batch.column("row").to_pylist() == [split["start"] + position]
    assert opened == [one["id"], other["id"]]


def test_columns_are_picked_in_the_order_given(tmp_path) -> None:
    path = write(tmp_path / "flights.parquet", 3)
    source = ParquetSource(path, columns=["name", "row"])
    assert source.schema.names == ["name", "row"]
    (split,) = source.enumerate_splits()
    assert source.read_split(split, 1, 1).batch.to_pylist() == [{"name": "n1", "row": 1}]
    assert repr(source) == f"ParquetSource(path='{path}', columns=('name', 'row'), splits=None)"


def test_a_directory_is_its_files_in_order_of_name(tmp_path) -> None:
    for name, first in (("b.parquet", 3), ("a.parquet", 0), ("_hidden.parquet", 99)):
        write(tmp_path / name, 3, first=first)
    (tmp_path / "notes.txt").write_text("no")
    assert read_all(ParquetSource(tmp_path)) == list(range(6))
    assert read_all(ParquetSource([str(tmp_path / "b.parquet"), str(tmp_path / "a.parquet")])) == [3, 4, 5, 0, 1, 2]
    assert read_all(ParquetSource(tmp_path, splits=2)) == list(range(6))


def test_a_file_without_rows_is_an_empty_input(tmp_path) -> None:
    assert ParquetSource(write(tmp_path / "none.parquet", 0)).enumerate_splits() == []
    assert ParquetSource(write(tmp_path / "none.parquet", 0), splits=3).enumerate_splits() == []


def test_relative_paths_are_made_absolute(tmp_path, monkeypatch) -> None:
    write(tmp_path / "flights.parquet", 1)
    monkeypatch.chdir(tmp_path)
    assert ParquetSource("flights.parquet").path == str(tmp_path / "flights.parquet")
    assert ParquetSink("out").path == str(tmp_path / "out")


def test_what_is_wrong_with_a_parquet_file_is_said_when_the_source_is_made(tmp_path) -> None:
    good, empty, text = write(tmp_path / "good.parquet", 1), tmp_path / "empty.parquet", tmp_path / "text.parquet"
    empty.write_bytes(b"")
    text.write_text("row,name\n")
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"row": ["a"]}), other)
    with pytest.raises(FileNotFoundError, match=r"no file or directory .*gone\.parquet"):
        ParquetSource(tmp_path / "gone.parquet")
    with pytest.raises(ValueError, match=r"empty\.parquet is empty: it has no bytes"):
        ParquetSource([good, str(empty)])
    with pytest.raises(ValueError, match=r"text\.parquet is not a Parquet file"):
        ParquetSource(text)
    with pytest.raises(
        SchemaError, match=r"other\.parquet, column 'row': found string, expected int64 as in .*good\.p"
    ):
        ParquetSource([good, str(other)])
    with pytest.raises(
        SchemaError, match=r"ParquetSource\(.*good.parquet\): there is no column 'tail'; .*'row', 'name'"
    ):
        ParquetSource(good, columns=["tail"])
    with pytest.raises(ValueError, match="splits = 0"):
        ParquetSource(good, splits=0)
    (tmp_path / "bare").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \.parquet files: .*bare"):
        ParquetSource(tmp_path / "bare")


# --- CSV --------------------------------------------------------------------------------------------------------------


def csv(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_csv_is_read_from_any_position(tmp_path) -> None:
    path = csv(tmp_path / "flights.csv", "name,row,more", *(f"n{row},{row},x" for row in range(50)))
    source = CsvSource(path, pa.schema([("row", pa.int64())]))
    assert read_all(source) == list(range(50))
    (split,) = source.enumerate_splits()
    for position in (0, 1, 49, 50):
        result = source.read_split(split, position, 100)
        assert (result.batch.column("row").to_pylist() if result.batch else []) == list(range(position, 50))
        assert result.finished


def test_csv_has_nulls_and_other_delimiters(tmp_path) -> None:
    path = csv(tmp_path / "flights.csv", "row;name", "1;NA", ";x")
    source = CsvSource(path, ROWS, delimiter=";")
    result = source.read_split(source.enumerate_splits()[0], 0, 10)
    assert result.batch.to_pylist() == [{"row": 1, "name": None}, {"row": None, "name": "x"}]


@pytest.mark.parametrize("position", [0, 2])
def test_a_row_that_does_not_parse_is_named(tmp_path, position) -> None:
    path = csv(tmp_path / "flights.csv", "name,row", "a,1", "b,2", "c,3", "d,late")
    source = CsvSource(path, pa.schema([("row", pa.int64())]))
    with pytest.raises(ValueError, match=r"flights\.csv, line 5, column 'row': 'late' is not of type int64"):
        source.read_split(source.enumerate_splits()[0], position, 10)


def test_a_row_with_other_columns_is_named(tmp_path) -> None:
    path = csv(tmp_path / "flights.csv", "name,row", "a,1", "b")
    source = CsvSource(path, ROWS)
    with pytest.raises(ValueError, match=r"flights\.csv, line 3: 1 values where the header has 2 columns: 'b'"):
        source.read_split(source.enumerate_splits()[0], 0, 10)


def test_what_is_wrong_with_a_csv_file_is_said_when_the_source_is_made(tmp_path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty\.csv is empty"):
        CsvSource(tmp_path / "empty.csv", ROWS)
    with pytest.raises(SchemaError, match=r"CsvSource\(.*a\.csv\): there is no column 'row'; the columns are 'name'"):
        CsvSource(csv(tmp_path / "a.csv", "name", "x"), ROWS)
    assert read_all(CsvSource(csv(tmp_path / "header.csv", "row,name"), ROWS)) == []


# --- output -----------------------------------------------------------------------------------------------------------


def staged_by(path: str, rows: int = 2, checkpoint_id: int = 1) -> tuple[Effect, ...]:
    harness = Harness(SinkSpec(ROWS, ParquetSink(path)))
    harness.process(table(rows).to_batches()[0])
    return harness.snapshot(checkpoint_id).staged


def visible(path: str) -> list[str]:
    """Return the names that a reader of the directory sees."""
    return sorted(found.name for found in Path(path).iterdir() if not found.name.startswith("."))


def test_output_appears_whole_once_it_is_committed(tmp_path) -> None:
    path = str(tmp_path / "new" / "totals")
    (effect,) = staged_by(path)
    output_files.stage(effect)
    assert visible(path) == []
    output_files.commit([effect])
    output_files.commit([effect])
    assert visible(path) == ["part-job-00000-000001.parquet"]
    assert pq.read_table(effect.final).equals(effect.table)
    output_files.remove_staged(path, "job", output_files.staged_files(path, "job"))
    assert list(Path(path).iterdir()) == [Path(effect.final)]


def test_staging_again_after_publishing_is_no_harm(tmp_path) -> None:
    (effect,) = staged_by(str(tmp_path))
    for _ in range(2):
        output_files.stage(effect)
        output_files.commit([effect])
    assert not Path(effect.staged).exists()


def test_output_of_an_earlier_run_is_not_taken_for_ones_own(tmp_path) -> None:
    for rows in (2, 3):
        (effect,) = staged_by(str(tmp_path), rows)
        output_files.stage(effect)
        if rows == 2:
            output_files.commit([effect])
    with pytest.raises(CommitError, match=r"was published already with other rows: an earlier run .* empty that"):
        output_files.commit([effect])


def test_what_is_neither_staged_nor_published_cannot_be_committed(tmp_path) -> None:
    (effect,) = staged_by(str(tmp_path))
    with pytest.raises(CommitError, match=r"000001\.parquet cannot be published: it is not there, neither is"):
        output_files.commit([effect])


def test_what_is_dropped_is_gone_and_may_have_been_before(tmp_path) -> None:
    (effect,) = staged_by(str(tmp_path))
    output_files.stage(effect)
    output_files.drop([effect])
    output_files.drop([effect])
    assert not Path(effect.staged).exists()


def test_staging_of_other_jobs_is_left_alone(tmp_path) -> None:
    (effect,) = staged_by(str(tmp_path))
    output_files.stage(effect)
    name = Path(effect.staged).name
    output_files.remove_staged(str(tmp_path), "another job", [name])
    assert Path(effect.staged).exists()
    output_files.remove_staged(str(tmp_path), "job", [name])
    assert list(tmp_path.iterdir()) == []
    output_files.remove_staged(str(tmp_path), "job", [name])


def test_of_several_staged_files_no_record_outlasts_its_file(tmp_path, monkeypatch) -> None:
    effects = [staged_by(str(tmp_path), checkpoint_id=number)[0] for number in (1, 2, 3)]
    for effect in effects:
        output_files.stage(effect)
        write_record(LocalDisk(), effect.staged, effect.final, durable=True)
    delete, left = LocalDisk.delete, []

    def watched(system, path: str) -> None:
        delete(system, path)
        left.append(output_files.staged_files(str(tmp_path), "job"))

    monkeypatch.setattr(LocalDisk, "delete", watched)
    names = output_files.staged_files(str(tmp_path), "job")
    output_files.remove_staged(str(tmp_path), "job", names)
    assert [len(each) for each in left] == [5, 4, 3, 2, 1, 0]
    assert not any(map(lone_records, left)), "a record without its file says that the part was published"


def test_a_directory_that_cannot_be_written_is_named(tmp_path) -> None:
    (effect,) = staged_by(str(tmp_path / "out"))
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(CommitError, match=r"output directory .*/out cannot be written"):
        output_files.stage(effect)


def test_a_staging_directory_that_is_removed_meanwhile_takes_no_file_along(tmp_path, monkeypatch) -> None:
    """Another process removes what is left of an aborted checkpoint, and the directory if it is empty."""
    first, second = (staged_by(str(tmp_path), checkpoint_id=number)[0] for number in (1, 2))
    output_files.stage(first)
    name = Path(first.staged).name
    delete = LocalDisk.delete_if_empty

    def too_late(system, path: str) -> None:
        output_files.stage(second)
        delete(system, path)

    monkeypatch.setattr(LocalDisk, "delete_if_empty", too_late)
    output_files.remove_staged(str(tmp_path), "job", [name])
    assert Path(second.staged).exists()
    output_files.commit([second])


def test_a_staging_directory_that_is_removed_is_made_again(tmp_path, monkeypatch) -> None:
    (effect,) = staged_by(str(tmp_path))
    make, removed = LocalDisk.make_directory, []

    def removed_once(system, path: str, *, durable: bool) -> None:
        make(system, path, durable=durable)
        if not removed:
            removed.append(path)
            Path(path).rmdir()

    monkeypatch.setattr(LocalDisk, "make_directory", removed_once)
    output_files.stage(effect)
    assert removed
    assert Path(effect.staged).exists()


def test_a_staging_directory_that_is_removed_while_it_is_made_is_made_again(tmp_path, monkeypatch) -> None:
    (effect,) = staged_by(str(tmp_path))
    sync, removed = LocalDisk.sync, []

    def removed_once(system, path: str) -> None:
        if path.endswith(".staging") and not removed:
            removed.append(path)
            rmtree(path)
        sync(system, path)

    monkeypatch.setattr(LocalDisk, "sync", removed_once)
    output_files.stage(effect)
    assert removed
    assert Path(effect.staged).exists()
