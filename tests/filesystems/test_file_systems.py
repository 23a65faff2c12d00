"""The file layer on this machine's disk and in the lab's memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from kit.filesystems.file_system import FileSystem
from kit.filesystems.local_disk import LocalDisk
from kit.filesystems.memory import MemoryFiles
from kit.filesystems.places import LOCAL_DISK, absolute, open_path, over
from tests.filesystems.contract import FileSystemContract


class TestLocalDisk(FileSystemContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> tuple[FileSystem, str]:
        return LOCAL_DISK, str(tmp_path)


class TestMemory(FileSystemContract):
    @pytest.fixture
    def place(self) -> tuple[FileSystem, str]:
        return over(MemoryFiles().filesystem), "/base"


class TestAnotherFileSystemOfArrow(FileSystemContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> tuple[FileSystem, str]:
        (tmp_path / "base").mkdir()
        return over(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())), "base"


@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("/a/../b", "/a/../b"),  # it was checked for links, and another spelling may be another file
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("a/b", f"{Path.cwd()}/a/b"),
    ],
)
def test_paths_without_another_scheme_are_of_this_machine(path: str, inner: str) -> None:
    assert open_path(path) == (LOCAL_DISK, inner)


def test_a_path_means_the_same_everywhere() -> None:
    assert absolute("a/../b") == f"{Path.cwd()}/b"
    assert absolute("~/a") == f"{Path.home()}/a"
    assert absolute("s3://bucket/a") == "s3://bucket/a"


def test_a_file_that_cannot_be_completed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()  # in its way
    with pytest.raises(OSError, match="directory"):
        LOCAL_DISK.put(f"{tmp_path}/a", b"1", durable=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


class OtherWriterFirst(LocalDisk):
    """A disk on which another process writes the same new file while this one is about to name its own."""

    def sync(self, path: str) -> None:
        super().sync(path)
        if path.endswith(".part"):
            assert LOCAL_DISK.put_new(f"{Path(path).parent}/a", b"the other's", durable=False)


def test_two_writers_of_one_new_file_do_not_share_a_temporary_name(tmp_path: Path) -> None:
    assert not OtherWriterFirst().put_new(f"{tmp_path}/a", b"own", durable=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"the other's"}
