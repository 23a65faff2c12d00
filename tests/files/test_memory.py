"""The lab's disk: a pyarrow file system in memory, and output in two phases."""

from __future__ import annotations

import copy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kit.core.protocol.snapshots import Effect
from kit.files.memory_output import MemoryOutput
from kit.filesystems.memory import MemoryFiles
from kit.stream.connectors import CommitError

TABLE = pa.table({"n": [1, 2]})


def write(files: MemoryFiles, path: str, data: bytes = b"x") -> None:
    with files.filesystem.open_output_stream(path) as stream:
        stream.write(data)


# --- files ------------------------------------------------------------------------------------------------------------


def test_what_is_written_can_be_read_once_the_file_is_closed() -> None:
    files = MemoryFiles()
    stream = files.filesystem.open_output_stream("/a/b")
    stream.write(b"one ")
    stream.write(b"two")
    assert files.contents == {}
    stream.close()
    assert files.filesystem.open_input_stream("/a/b").read() == b"one two"
    assert files.filesystem.open_input_file("a/b").read_at(3, 4) == b"two"


def test_a_parquet_file_goes_round() -> None:
    files = MemoryFiles()
    pq.write_table(TABLE, "/t.parquet", filesystem=files.filesystem)
    assert pq.read_table("/t.parquet", filesystem=files.filesystem).equals(TABLE)


def test_directories_are_there_when_made_or_when_something_is_in_them() -> None:
    files = MemoryFiles()
    files.filesystem.create_dir("/made")
    write(files, "/full/below/x", b"12")
    infos = {info.path: info for info in files.filesystem.get_file_info(["/made", "/full", "/full/below/x", "/no"])}
    assert [infos[path].type for path in ("/made", "/full", "/full/below/x", "/no")] == [
        fs.FileType.Directory,
        fs.FileType.Directory,
        fs.FileType.File,
        fs.FileType.NotFound,
    ]
    assert infos["/full/below/x"].size == 2


@pytest.mark.parametrize(("recursive", "found"), [(False, ["/d/e", "/d/x"]), (True, ["/d/e", "/d/e/y", "/d/x"])])
def test_a_directory_is_listed_flat_or_deep(recursive: bool, found: list[str]) -> None:
    files = MemoryFiles()
    for path in ("/d/x", "/d/e/y", "/other/z"):
        write(files, path)
    selector = fs.FileSelector("/d", recursive=recursive)
    assert [info.path for info in files.filesystem.get_file_info(selector)] == found


def test_a_directory_that_is_not_there_is_an_error_unless_that_is_fine() -> None:
    files = MemoryFiles()
    assert files.filesystem.get_file_info(fs.FileSelector("/no", allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        files.filesystem.get_file_info(fs.FileSelector("/no"))


def test_files_are_moved_copied_and_deleted() -> None:
    files = MemoryFiles()
    write(files, "/a")
    files.filesystem.copy_file("/a", "/b")
    files.filesystem.move("/a", "/c")
    assert files.paths() == ["/b", "/c"]
    files.filesystem.delete_file("/b")
    assert files.paths() == ["/c"]
    for action in (lambda: files.filesystem.delete_file("/b"), lambda: files.filesystem.move("/b", "/d")):
        with pytest.raises(FileNotFoundError):
            action()
    with pytest.raises(FileNotFoundError):
        files.filesystem.open_input_file("/b")
    with pytest.raises(OSError, match="written as a whole"):
        files.filesystem.open_append_stream("/c")


def test_a_directory_is_deleted_with_all_below_and_nothing_beside() -> None:
    files = MemoryFiles()
    files.filesystem.create_dir("/d/empty")
    for path in ("/d/x", "/d/e/y", "/dd/z"):
        write(files, path)
    files.filesystem.delete_dir("/d")
    assert files.paths() == ["/dd/z"]
    assert files.directories == set()


@pytest.mark.parametrize("make", [MemoryFiles.copy, copy.deepcopy])
def test_a_copy_shares_bytes_and_nothing_else(make: object) -> None:
    files = MemoryFiles()
    write(files, "/a")
    other = make(files)  # type: ignore[operator]
    write(other, "/b")
    files.filesystem.delete_file("/a")
    assert files.paths() == []
    assert other.paths() == ["/a", "/b"]
    assert other.filesystem != files.filesystem
    assert repr(other) == "MemoryFiles(2 files, 2 B)"


def test_files_can_be_exported_to_a_real_disk(tmp_path: Path) -> None:
    files = MemoryFiles()
    write(files, "/checkpoints/chk-1/state", b"abc")
    write(files, "/elsewhere")
    target = files.export(tmp_path / "out", "/checkpoints")
    assert [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()] == ["chk-1/state"]
    assert (target / "chk-1/state").read_bytes() == b"abc"


# --- output -----------------------------------------------------------------------------------------------------------


def effect(name: str, table: pa.Table | None = None) -> Effect:
    return Effect("op", f"memory://out/.staging/{name}", f"memory://out/{name}", table)


def test_rows_are_seen_once_they_are_committed() -> None:
    output = MemoryOutput()
    output.stage(effect("a", TABLE))
    assert output.read("out").empty
    output.commit([effect("a")])
    output.commit([effect("a")])
    assert output.read("out")["n"].tolist() == [1, 2]
    assert output.directories() == ["memory://out"]
    assert repr(output) == "MemoryOutput(1 parts published, 0 staged)"


def test_rows_that_were_never_staged_cannot_be_committed() -> None:
    with pytest.raises(CommitError, match="memory://out/a cannot be published"):
        MemoryOutput().commit([effect("a")])


def test_dropped_rows_are_gone() -> None:
    output = MemoryOutput()
    output.stage(effect("a", TABLE))
    output.drop([effect("a"), effect("unknown")])
    with pytest.raises(CommitError):
        output.commit([effect("a")])


def test_a_copy_of_the_output_goes_on_by_itself() -> None:
    output = MemoryOutput()
    output.stage(effect("a", TABLE))
    other = output.copy()
    other.commit([effect("a")])
    assert output.read("out").empty
    assert len(other.read("out")) == 2
