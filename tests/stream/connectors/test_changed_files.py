"""A job fails with an error that names the file if a file is rewritten while the job reads it or before it resumes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from kit import (
    CheckpointConfig,
    CollectSink,
    CsvSource,
    JobFailedError,
    Lab,
    ParquetSource,
    StreamEnvironment,
    TextSource,
)
from kit.stream.connectors.file_versions import FileChangedError
from kit.stream.operators.sources.source import Source, Split, SplitReader

ROWS = 400_000


def write(path: Path, rows: int, first: int = 0) -> None:
    """Write a file of `rows` rows, numbered from `first`, and put it under this name atomically."""
    table = pa.table({"n": pa.array(range(first, first + rows))})
    new = path.with_suffix(".new")
    match path.suffix:
        case ".parquet":
            pq.write_table(table, new, row_group_size=50_000)
        case ".csv":
            pa_csv.write_csv(table, new)
        case _:
            new.write_text("".join(f"{n}\n" for n in range(first, first + rows)))
    os.replace(new, path)


def source_of(path: Path) -> Source:
    match path.suffix:
        case ".parquet":
            return ParquetSource(path, splits=2)
        case ".csv":
            return CsvSource(path)
        case _:
            return TextSource(path, splits=2)


def job(path: Path, **options: Any) -> StreamEnvironment:
    env = StreamEnvironment("changed", checkpoint=CheckpointConfig(**options))
    env.from_source(source_of(path), uid="rows").sink_to(CollectSink("out"), uid="out")
    return env


@pytest.fixture(params=[".parquet", ".csv", ".txt"])
def path(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / f"rows{request.param}"
    write(path, ROWS)
    return path


def in_the_midst(path: Path) -> Lab:
    """A lab whose job has read a part of the file, and taken a checkpoint of that."""
    lab = Lab(job(path))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    return lab


def read_on(reader: SplitReader, split: Split, position: int, most: int) -> tuple[int, int]:
    """Return the number of rows that were read, and the position behind them."""
    read = reader.read(split, position, most)
    return 0 if read.batch is None else read.batch.num_rows, read.position


def read_to_end(reader: SplitReader, split: Split, position: int) -> tuple[int, int]:
    """Read the rest of the split, and return the number of rows, and the position behind them."""
    rows, finished = 0, False
    while not finished:
        read = reader.read(split, position, 1 << 16)
        rows, position, finished = (
            rows + (read.batch.num_rows if read.batch is not None else 0),
            read.position,
            read.finished,
        )
    return rows, position


def rows_of(lab: Lab) -> int:
    return len(lab.output("out"))


def test_a_file_that_is_left_alone_is_read_to_its_end(path: Path) -> None:
    lab = in_the_midst(path)
    os.utime(path.parent)  # the directory's own time does not matter
    lab.run()
    assert rows_of(lab) == ROWS


@pytest.mark.parametrize("rows", [ROWS - 150_000, ROWS, ROWS + 500_000])
def test_a_file_that_is_written_anew_fails_the_job_at_once(path: Path, rows: int) -> None:
    lab = in_the_midst(path)
    write(path, rows, first=1_000)
    with pytest.raises(JobFailedError, match=r"source 'rows'.*was rewritten after the job had started: it had .*has"):
        lab.run()
    assert str(path) in lab.error
    assert lab.look.master.epoch == 1, "it was not restarted"


def test_what_stays_the_same_but_for_its_time_is_another_file(path: Path) -> None:
    lab = in_the_midst(path)
    os.utime(path, ns=(0, 1_000_000_000))
    with pytest.raises(JobFailedError, match="1970-01-01 00:00:01"):
        lab.run()


def test_a_restore_notices_a_file_that_was_written_meanwhile(path: Path) -> None:
    lab = Lab(job(path))
    lab.run_until(record="AllTasksRunning")
    savepoint = lab.savepoint(wait=True)
    lab.cancel()
    lab.run_until(lambda lab: lab.ended)
    write(path, ROWS + 1)
    again = Lab(job(path), restore_path=savepoint, after=lab)
    with pytest.raises(JobFailedError, match="was rewritten after the job had started"):
        again.run()


def test_a_file_that_is_deleted_while_it_is_read_is_read_to_its_end(path: Path) -> None:
    source = source_of(path)
    reader, splits = source.open_reader(), source.enumerate_splits()
    read = [read_on(reader, split, 0, 10) for split in splits]
    path.unlink()
    assert sum(rows for rows, _ in read) == 10 * len(splits)
    read += [read_to_end(reader, split, position) for split, (_, position) in zip(splits, read, strict=True)]
    assert sum(rows for rows, _ in read) == ROWS
    reader.close()


def test_a_split_of_before_remembers_nothing(path: Path) -> None:
    (split, *_) = source_of(path).enumerate_splits()
    del split["version"]
    write(path, ROWS + 7)
    reader = source_of(path).open_reader()
    assert reader.read(split, 0, 10).batch is not None
    reader.close()


def test_a_file_that_cannot_be_decoded_since_it_was_cut_off_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": range(500_000)}), path, row_group_size=250_000)
    source = ParquetSource(path)
    reader, (split, *_) = source.open_reader(), source.enumerate_splits()
    reader.read(split, 0, 10)
    with path.open("r+b") as file:
        file.truncate(1_000)
    with pytest.raises(FileChangedError, match=r"it had .* bytes and 500,000 rows, of .*has 1,000 bytes"):
        read_to_end(reader, split, 10)
