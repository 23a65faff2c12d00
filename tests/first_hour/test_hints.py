"""Hints that name what helps: the right conversion, file, option and name, and no cut text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kit
from kit import CollectionSource, CollectSink, CsvSource, DirectorySource, Lab, ParquetSink, StreamEnvironment
from kit.advice import plan_parallelism
from kit.hosts.spark.progress import Progress
from kit.machines.job.status import JobStatus
from kit.stream.connectors import CommitError
from kit.stream.operators.spec import SchemaError
from tests.cli.test_commands import ran
from tests.snapshots.written import longs


@pytest.mark.parametrize("text", ["2024-03-01", "2024-03-01 10:30:00", "2024-03-01T10:30:00.250"])
def test_the_conversion_that_is_proposed_for_times_as_text_reads_a_time_of_day(text: str) -> None:
    env = StreamEnvironment("times")
    stream = env.from_source(CollectionSource([{"at": text}]), uid="rows")
    with pytest.raises(SchemaError) as raised:
        stream.assign_timestamps("at")
    way = str(raised.value).partition("write ")[2].partition(" before")[0]
    timed = eval(f"stream.{way}", {"stream": stream, "pc": pc, "pa": pa})
    timed.assign_timestamps("at").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    assert str(lab.output()["at"][0]) == text.replace("T", " ").ljust(10) + " 00:00:00" * (len(text) == 10) + (
        "000" * ("." in text)
    )


def test_a_plan_for_few_keys_warns() -> None:
    few = plan_parallelism([f"key {n}" for n in range(24)] * 9, [2, 8])
    assert "only 24 keys for up to 8 subtasks" in few.verdict
    assert "only" not in plan_parallelism(list(range(1_000)), [2, 8]).verdict
    assert few.hot_groups()["share"].map(str).str.len().max() <= 6


def test_advice_in_a_shell_names_no_function_of_python() -> None:
    _, _, error = ran("advise", "no-such-file")
    assert "save_flink" not in error
    assert "answers were saved" in error


def test_no_table_is_cut_in_a_pipe(tmp_path: Path) -> None:
    for number in (1, 2):
        longs(tmp_path / ("a-long-name-of-a-directory" * 2) / f"chk-{number}", np.arange(5), 8)
    command = [sys.executable, "-m", "kit", "size", str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "…" not in told
    assert "metadata_bytes" in told
    lines = [line for line in told.splitlines() if "chk-" in line]
    assert len(lines) == 2, "a row is one line"


def test_a_check_names_an_operator_as_its_table_does(tmp_path: Path) -> None:
    folder = longs(tmp_path / "chk-1", np.arange(5), 8)
    metadata = kit.open_checkpoint(folder).metadata
    from dataclasses import replace

    from kit.core.metadata import NEWEST, write_metadata

    nameless = (replace(each, uid=None, name="Keyed Aggregation") for each in metadata.operator_states)
    changed = replace(metadata, operator_states=tuple(nameless))
    (folder / "_metadata").write_bytes(write_metadata(changed, NEWEST))
    checkpoint = kit.open_checkpoint(folder)
    for job in ({"sums": (2, 64)}, {"sums": {"parallelism": 2, "states": {"total": "String"}}}):
        answer = checkpoint.check(job)
        assert not answer.restores
        assert {each.operator for each in answer.findings} <= {*answer.operators["operator"]} == {"sums"}


@pytest.mark.parametrize("length", [1, 7, 11])
def test_a_csv_file_with_quoted_line_ends_names_the_option(length: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n" + (b'1,"' + b"x" * length + b'\n,y\nq,,"\n') * 150_000)

    def read(source: CsvSource) -> int:
        (split,) = source.enumerate_splits()
        reader, position, finished = source.open_reader(), 0, False
        while not finished:
            found = reader.read(split, position, 100_000)
            position, finished = found.position, found.finished
        return position

    with pytest.raises(ValueError, match=r"(?s)rows\.csv.*multiline=True"):
        read(CsvSource(path))
    assert read(CsvSource(path, multiline=True)) == 150_000


def _parquet(table: pa.Table) -> Callable[[Path], None]:
    return lambda folder: pq.write_table(table, folder / "new.parquet")


@pytest.mark.parametrize(
    ("kind", "write", "says"),
    [
        ("parquet", _parquet(pa.table({"b": [1]})), "has no column 'a'; its columns are b"),
        ("parquet", _parquet(pa.table({"a": ["x"]})), "does not have the columns a: int64"),
        ("csv", lambda folder: (folder / "new.csv").write_bytes(b"b\n1\n"), "has no column 'a'; its columns are 'b'"),
    ],
)
def test_a_file_that_arrives_in_a_directory_is_named(
    kind: str, write: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    source = DirectorySource(str(tmp_path), format=kind, columns={"a": pa.int64()})
    write(tmp_path)
    (split,) = source.enumerate_splits()
    with pytest.raises(SchemaError, match=rf"{tmp_path}/new\.{kind} .*{says}"):
        source.read_split(split, 0, 10)


def test_state_that_expires_has_a_signpost() -> None:
    with pytest.raises(ImportError, match=r"write StateTtlConfig\('1h'\) and pass it to a descriptor"):
        from kit import StateTtl  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("path", ["/proc/x", "/sys/x/y", "/proc"])
def test_a_directory_of_the_kernel_is_rejected_for_output_in_a_lab_too(path: str) -> None:
    with pytest.raises(CommitError, match=f"output directory {path} cannot be written"):
        ParquetSink(path)


def test_a_lab_writes_no_file(tmp_path: Path) -> None:
    env = StreamEnvironment("lab")
    env.from_source(CollectionSource([{"a": 1}]), uid="rows").sink_to(ParquetSink(tmp_path / "out"), uid="out")
    lab = Lab(env)
    lab.run()
    assert lab.output()["a"].tolist() == [1]
    assert not (tmp_path / "out").exists()


def progress(epoch: int) -> Progress:
    """Progress after some epochs: 70 rows in this one, 500 in all."""
    return Progress("job", JobStatus.RUNNING, epoch, 2, 2, 1, 4, 70, 500 if epoch > 1 else 70, 3, 3, None, "", 0)


def test_rows_read_are_those_of_the_epoch_and_of_all() -> None:
    assert "70 rows," in progress(1).line()
    assert ">rows read<" in progress(1).html()
    again = progress(3)
    assert "70 rows in this epoch, 500 in all" in again.line()
    html = again.html()
    assert html.index("rows read in this epoch") < html.index("70") < html.index("rows read in all") < html.index("500")
