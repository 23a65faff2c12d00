"""The contract of the file layer, for any file system: the tests of each file system inherit these tests."""

from __future__ import annotations

from typing import Any

import pytest

from kit.filesystems.file_system import CutOffError, FileSystem, is_directory


class FileSystemContract:
    """A subclass gives `place`: a file system, and an empty directory in it."""

    @pytest.fixture
    def place(self) -> tuple[FileSystem, str]:
        raise NotImplementedError

    def test_what_is_put_is_read(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        system.put(f"{base}/a", b"0123456789", durable=True)
        assert system.is_file(f"{base}/a")
        assert system.info(f"{base}/a").size == 10
        assert system.read_range(f"{base}/a").to_pybytes() == b"0123456789"
        assert system.read_range(f"{base}/a", 3).to_pybytes() == b"3456789"
        assert system.read_range(f"{base}/a", 3, 4).to_pybytes() == b"3456"
        assert system.read_range(f"{base}/a", 10, 0).to_pybytes() == b""
        with system.open_file(f"{base}/a") as file:
            file.seek(8)
            assert (file.size(), file.read(), file.tell()) == (10, b"89", 10)
        with system.open_stream(f"{base}/a") as stream:
            assert (stream.read(4), stream.read()) == (b"0123", b"456789")
        assert [info.base_name for info in system.entries(base)] == ["a"]

    def test_an_empty_file_is_a_file(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        system.put(f"{base}/a", b"", durable=True)
        assert system.is_file(f"{base}/a")
        assert system.read_range(f"{base}/a").to_pybytes() == b""
        with system.open_file(f"{base}/a") as file:
            assert (file.size(), file.read()) == (0, b"")

    def test_a_file_is_replaced(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        system.put(f"{base}/a", b"one", durable=True)
        system.put(f"{base}/a", b"other", durable=False, temporary=f"{base}/b")
        assert system.read_range(f"{base}/a").to_pybytes() == b"other"
        assert [info.base_name for info in system.entries(base)] == ["a"]

    @pytest.mark.parametrize(("offset", "length"), [(0, 5), (2, 3), (5, 1), (4, 0)])
    def test_a_file_that_is_too_short_is_not_read(
        self, place: tuple[FileSystem, str], offset: int, length: int
    ) -> None:
        system, base = place
        system.put(f"{base}/a", b"0123", durable=True)
        if offset + length <= 4:
            assert system.read_range(f"{base}/a", offset, length).size == length
            return
        with pytest.raises(CutOffError) as error:
            system.read_range(f"{base}/a", offset, length)
        assert (error.value.size, error.value.wanted) == (4, length)

    def test_the_first_of_two_new_files_stays(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        assert system.put_new(f"{base}/a", b"one", durable=True)
        assert not system.put_new(f"{base}/a", b"other", durable=True)
        assert system.read_range(f"{base}/a").to_pybytes() == b"one"

    def test_a_file_is_written_piece_by_piece(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        pieces = [bytes([number]) * 1_000_000 for number in range(12)]
        with system.create_in_directory(f"{base}/below/a", durable=True) as stream:
            for piece in pieces:
                stream.write(piece)
        assert system.read_range(f"{base}/below/a").to_pybytes() == b"".join(pieces)

    def test_a_file_has_another_name(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        system.put(f"{base}/a", b"one", durable=True)
        system.link(f"{base}/a", f"{base}/b", durable=True)
        system.rename(f"{base}/a", f"{base}/c", durable=True)
        assert not system.is_file(f"{base}/a")
        for name in "bc":
            assert system.read_range(f"{base}/{name}").to_pybytes() == b"one"

    def test_files_below_a_directory_are_listed(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        for name in ("a", "d/b", "d/e/c"):
            system.make_directory(f"{base}/{name}".rpartition("/")[0], durable=True)
            system.put(f"{base}/{name}", b"1", durable=True)
        found = {info.base_name: is_directory(info) for info in system.entries(base)}
        assert found == {"a": False, "d": True}
        below = system.entries(base, recursive=True)
        assert sorted(info.path.removeprefix(f"{base}/") for info in below if info.is_file) == ["a", "d/b", "d/e/c"]
        assert is_directory(system.info(f"{base}/d/e"))
        assert not system.is_file(f"{base}/d")
        system.delete_directory(f"{base}/d")
        assert [info.base_name for info in system.entries(base, recursive=True)] == ["a"]

    def test_what_is_missing_is_named(self, place: tuple[FileSystem, str]) -> None:
        system, base = place
        missing = f"{base}/missing"
        assert not system.is_file(missing)
        assert not is_directory(system.info(missing))
        assert system.entries(missing) == []
        attempts: list[Any] = [system.delete, system.open_file, system.open_stream, system.read_range]
        for attempt in attempts:
            with pytest.raises(FileNotFoundError):
                attempt(missing)
        with pytest.raises(FileNotFoundError):
            system.entries(missing, missing_ok=False)
        with pytest.raises(FileNotFoundError):
            system.rename(missing, f"{base}/b", durable=True)
