"""Bad input: each ends in one clear error that names the thing, with nothing committed and nothing left behind.

Run on both hosts. On Spark's side a gang of slots in threads replaces Spark, which these errors do not reach.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit import CheckpointConfig, CsvSource, Lab, ParquetSink, ParquetSource, StreamEnvironment, count
from kit.hosts.lab import LabError
from kit.hosts.spark import JobFailedError, SparkJob
from kit.stream.operators.sources.source import Source
from tests.hosts.lab.jobs import failure, output_of_failed
from tests.hosts.spark.jobs import ThreadGang

SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])
Run = Callable[..., str]


def job(directory: Path, source: Source, *, parallelism: int = 2, key: str = "word") -> StreamEnvironment:
    checkpoint = CheckpointConfig(interval_ms=20, directory=str(directory / "checkpoints"))
    env = StreamEnvironment("words", parallelism=parallelism, max_parallelism=4, checkpoint=checkpoint)
    counted = env.from_source(source, uid="words").key_by(key).aggregate(rows=count()).uid("counts")
    counted.sink_to(ParquetSink(str(directory / "output")), uid="out")
    return env


def words(path: Path, rows: int = 100) -> Path:
    pq.write_table(pa.table({"word": ["a", "b"] * (rows // 2), "n": range(rows)}, schema=SCHEMA), path)
    return path


def error_in_lab(env: StreamEnvironment, restore_path: str | None = None) -> str:
    try:
        lab = Lab(env, restore_path=restore_path)
    except LabError as error:
        return str(error)
    error = failure(lab)
    assert output_of_failed(lab, "output").empty
    assert [path for path in lab.look.files.paths() if "chk-" in path] == []
    return error


def error_on_slots(env: StreamEnvironment, restore_path: str | None = None) -> str:
    job = SparkJob(env, restore_path=restore_path, launch=ThreadGang)
    with job, pytest.raises(JobFailedError) as caught:
        job.start().wait(timeout_s=60)
    return str(caught.value)


@pytest.fixture(params=[error_in_lab, error_on_slots], ids=["lab", "slots"])
def error_of(request: pytest.FixtureRequest) -> Run:
    run: Run = request.param
    return run


def assert_nothing_is_left(directory: Path) -> None:
    assert list((directory / "output").rglob("*.parquet")) == []
    assert [file for file in (directory / "checkpoints").rglob("*") if file.is_file()] == []


# --- found when the job is written ------------------------------------------------------------------------------------


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(ValueError, match=r"empty\.parquet is empty: it has no bytes"):
        ParquetSource(str(tmp_path / "empty.parquet"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.parquet"):
        ParquetSource(str(tmp_path / "nothing.parquet"))


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    file = words(tmp_path / "words.parquet")
    with pytest.raises(ValueError, match=r"(?s)colour.*word.*n"):
        ParquetSource(str(file), columns=("word", "colour"))
    with pytest.raises(ValueError, match=r"(?s)colour.*word.*n"):
        job(tmp_path, ParquetSource(str(file)), key="colour")


def test_a_parallelism_above_the_maximum_names_the_operator_and_both_numbers(tmp_path: Path) -> None:
    source = ParquetSource(str(words(tmp_path / "words.parquet")))
    with pytest.raises(ValueError, match=r"(?s)words.*5.*4"):
        job(tmp_path, source, parallelism=5).job_graph()


def test_a_checkpoint_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file, where a directory must be")
    env = job(tmp_path, ParquetSource(str(words(tmp_path / "words.parquet"))))
    with pytest.raises(OSError, match=r"checkpoint directory .*checkpoints' cannot be written"):
        error_on_slots(env)
    assert not (tmp_path / "output").exists() or not list((tmp_path / "output").iterdir())


# --- found when the job runs ------------------------------------------------------------------------------------------


def test_a_row_that_does_not_parse_is_named_by_file_line_column_and_value(tmp_path: Path, error_of: Run) -> None:
    lines = [f"{'ab'[i % 2]},{i}" for i in range(50)] + ["a,many"] + [f"b,{i}" for i in range(50)]
    (tmp_path / "words.csv").write_text("\n".join(["word,n", *lines]) + "\n")
    error = error_of(job(tmp_path, CsvSource(str(tmp_path / "words.csv"), SCHEMA)))
    assert "words.csv" in error
    assert "column 'n'" in error
    assert "'many'" in error
    assert "Traceback" not in error
    assert_nothing_is_left(tmp_path)


def test_a_savepoint_that_is_not_there_is_named(tmp_path: Path, error_of: Run) -> None:
    env = job(tmp_path, ParquetSource(str(words(tmp_path / "words.parquet"))))
    error = error_of(env, restore_path=str(tmp_path / "savepoint-nowhere"))
    assert str(tmp_path / "savepoint-nowhere") in error
    assert_nothing_is_left(tmp_path)


def test_a_savepoint_of_another_job_names_what_has_no_operator(tmp_path: Path) -> None:
    source = ParquetSource(str(words(tmp_path / "words.parquet")), batch_rows=5)
    lab = Lab(job(tmp_path, source))
    lab.run_until(checkpoint=1)
    request = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    env = StreamEnvironment("other", parallelism=2, max_parallelism=4, checkpoint=CheckpointConfig(interval_ms=20))
    stream = env.from_source(source, uid="words").key_by("word").aggregate(rows=count()).uid("tallies")
    stream.sink_to(ParquetSink(str(tmp_path / "other")), uid="out")
    other = Lab(env, restore_path=lab.look.answer(request), after=lab)
    error = failure(other)
    assert "counts" in error
    assert "allow" in error


def test_no_rows_are_a_legal_input(tmp_path: Path) -> None:
    lab = Lab(job(tmp_path, ParquetSource(str(words(tmp_path / "none.parquet", rows=0)))))
    lab.run()
    assert lab.look.master.status.name == "FINISHED"
    assert lab.output("output").empty
