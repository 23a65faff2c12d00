"""The names of directories are on the disk when their making returns, also if others made them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.filesystems.local_disk import LocalDisk

LOCAL = LocalDisk()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories whose names were synced, in order."""
    found: list[str] = []
    monkeypatch.setattr(LocalDisk, "sync", lambda system, path: found.append(path))
    return found


def test_each_directory_that_is_made_is_synced_into_the_one_above(tmp_path: Path, synced: list[str]) -> None:
    LOCAL.make_directory(f"{tmp_path}/a/b/c", durable=True)
    assert synced == [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/a/b"]


def test_a_directory_that_another_process_made_is_synced_too(tmp_path: Path, synced: list[str]) -> None:
    """Its maker may have been killed before it synced the name."""
    os.mkdir(tmp_path / "a")
    LOCAL.make_directory(f"{tmp_path}/a", durable=True)
    assert synced == [str(tmp_path)]


def test_a_directory_that_another_process_makes_meanwhile_is_synced_too(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def be_late(path: str) -> None:
        make(path)
        make(path)  # fails: the other process was faster

    monkeypatch.setattr(os, "mkdir", be_late)
    LOCAL.make_directory(f"{tmp_path}/a/b", durable=True)
    assert synced == [str(tmp_path), f"{tmp_path}/a"]


def test_nothing_is_synced_for_a_job_that_does_not_ask_for_it(tmp_path: Path, synced: list[str]) -> None:
    LOCAL.make_directory(f"{tmp_path}/a", durable=False)
    assert synced == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_directory_that_another_process_removes_meanwhile_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another one makes it first and removes it, or it removes what was made."""
    make, removed = os.mkdir, []

    def with_another(path: str) -> None:
        make(path)
        if path.endswith("/a") and len(removed) < 3:
            try:
                if moment == "before":
                    make(path)
            finally:
                os.rmdir(path)
                removed.append(path)

    monkeypatch.setattr(os, "mkdir", with_another)
    with LOCAL.create_in_directory(f"{tmp_path}/a/b/file", durable=False) as stream:
        stream.write(b"rows")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"rows"
    assert len(removed) == 3


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(OSError, match="/a'"):
        LOCAL.create_in_directory(f"{tmp_path}/a/file", durable=False)
