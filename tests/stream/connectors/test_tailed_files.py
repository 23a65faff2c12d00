"""Files that grow while a job reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectSink, Lab, StreamEnvironment, TailSource
from kit.hosts.lab.errors import LabError, LabJobFailedError
from kit.stream.connectors.file_versions import FileChangedError

CSV = {"n": pa.int64(), "word": pa.string()}


def job(source: Any, parallelism: int = 2) -> StreamEnvironment:
    checkpoint = CheckpointConfig(interval_ms=None)
    env = StreamEnvironment("tail", parallelism=parallelism, max_parallelism=8, checkpoint=checkpoint)
    env.from_source(source, uid="rows").sink_to(CollectSink("rows"), uid="out")
    return env


def rest(lab: Lab) -> None:
    """Step until all written rows have been read."""
    with pytest.raises(LabError, match=r"came to rest|nothing can happen"):
        lab.run()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_four_growing_files_are_all_read_by_two_readers(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(4)]
    for path in paths:
        path.write_text("first\n")
    lab = Lab(job(TailSource(paths, columns=("path", "line"))))
    rest(lab)
    for path in paths:
        append(path, "second\nnot yet")
    rest(lab)
    append(paths[3], " but now\n")
    rest(lab)
    lab.stop(wait=True)
    found = sorted((Path(row.path).stem, row.line) for row in lab.output().itertuples())
    assert found == sorted(
        [(str(n), word) for n in range(4) for word in ("first", "second")] + [("3", "not yet but now")]
    )


def test_a_tailed_file_is_resumed_behind_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("a\nb\r\nc\n")
    lab = Lab(job(TailSource(path)))
    rest(lab)
    savepoint = lab.stop(wait=True)
    append(path, "d\n\ne")
    again = Lab(job(TailSource(path), 1), restore_path=savepoint, after=lab)
    rest(again)
    again.stop(wait=True)
    assert again.output()["line"].tolist() == ["a", "b", "c", "d", ""]


def test_rows_of_csv_follow_the_names_in_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("wo")
    lab = Lab(job(TailSource(path, format="csv", columns=CSV)))
    rest(lab)
    append(path, "rd,other,n\n")
    rest(lab)
    append(path, 'one,x,1\n"two, too",y,2\nthr')
    rest(lab)
    append(path, "ee,z,3\n")
    rest(lab)
    lab.stop(wait=True)
    assert lab.output().to_dict("records") == [
        {"n": 1, "word": "one"},
        {"n": 2, "word": "two, too"},
        {"n": 3, "word": "three"},
    ]


def test_the_types_of_csv_follow_from_the_rows_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n,x\n1,0.5\n")
    assert TailSource(path, format="csv").schema == pa.schema([("n", pa.int64()), ("x", pa.float64())])
    path.write_text("")
    with pytest.raises(ValueError, match="give `columns`"):
        TailSource(path, format="csv")


def test_one_file_without_rows_among_several_is_enough_to_need_columns(tmp_path: Path) -> None:
    for name, text in (("a", "n,x\n1,0.5\n"), ("b", ""), ("c", "n,x\n2,1.5\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    with pytest.raises(ValueError, match="TailSource: the files have no rows to infer types from: give `columns`"):
        TailSource(tmp_path, format="csv")


@pytest.mark.parametrize("max_rows", [1, 2, 100])
def test_reading_from_a_position_gives_the_same_rows_again(tmp_path: Path, max_rows: int) -> None:
    path = tmp_path / "app.log"
    lines = [f"{n} " + "x" * (n * 300 % 4_000) for n in range(900)]
    path.write_text("".join(f"{line}\n" for line in lines))
    source = TailSource(path)
    (split,) = source.enumerate_splits()
    found, position = [], 0
    while (read := source.read_split(split, position, max_rows)).batch is not None:
        again = source.read_split(split, position, max_rows)
        assert again.batch is not None
        assert again.batch.equals(read.batch)
        found += read.batch["line"].to_pylist()
        position = read.position
    assert found == lines
    assert position == path.stat().st_size
    assert not source.has_rows(split, position)


def test_a_line_longer_than_a_block_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("x" * 3_000_000)
    source = TailSource(path)
    (split,) = source.enumerate_splits()
    assert source.read_split(split, 0, 10).batch is None
    append(path, "\n")
    read = source.read_split(split, 0, 10)
    assert read.batch is not None
    assert [len(line) for line in read.batch["line"].to_pylist()] == [3_000_000]


def cut_off(path: Path) -> None:
    path.write_text("first\n")


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_text("other\n" * 100)
    other.rename(path)


def gone(path: Path) -> None:
    path.unlink()


def written_anew(path: Path) -> None:
    path.write_text("elsewhere are the line ends\n" * 10)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (cut_off, "was cut off: 13 bytes of it had been read, and it has 6"),
        (replaced, "was replaced by another file"),
        (gone, "is gone"),
        (written_anew, "was rewritten: byte 12"),
    ],
)
def test_a_file_that_did_more_than_grow_fails_the_job_by_name(
    tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "app.log"
    path.write_text("first\nsecond\n")
    lab = Lab(job(TailSource(path), 1))
    rest(lab)
    harm(path)
    with pytest.raises(LabJobFailedError) as failed:
        lab.run()
    assert f"{path} {said}" in str(failed.value)


def test_a_checkpoint_cannot_name_another_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("")
    with pytest.raises(ValueError, match="not among the files of this source"):
        TailSource(path).check_split({"id": "x", "path": "/etc/passwd"})
    assert issubclass(FileChangedError, ValueError)


@pytest.mark.parametrize(
    ("what", "said"),
    [({"format": "json"}, "must be 'text' or 'csv'"), ({"columns": ("word",)}, "word")],
)
def test_what_cannot_be_tailed_is_refused(tmp_path: Path, what: dict[str, Any], said: str) -> None:
    (tmp_path / "app.log").write_text("")
    with pytest.raises(ValueError, match=said):
        TailSource(tmp_path / "app.log", **what)
