"""Checkpoint storage on a local directory: the layout, nothing half written, and errors that name the path."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from kit.core.state.errors import SavepointNotFoundError, StorageError
from kit.core.state.file_names import state_file_name
from kit.core.state.handles import (
    ByteStreamStateHandle,
    FileStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    RelativeFileStateHandle,
    SegmentFileStateHandle,
    StateScope,
)
from kit.files.storage import CheckpointStorage, exists, read, read_range, resolve

JOB = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def storage(tmp_path: Path) -> CheckpointStorage:
    return CheckpointStorage(tmp_path / "checkpoints", JOB)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_nothing_is_made_before_it_is_needed(storage: CheckpointStorage, tmp_path: Path) -> None:
    location = storage.location_for_checkpoint(17)
    assert location.directory == f"{tmp_path}/checkpoints/{JOB}/chk-17"
    assert location.metadata_path == f"{location.directory}/_metadata"
    assert tree(tmp_path) == []


def test_the_layout_is_flinks(storage: CheckpointStorage, tmp_path: Path) -> None:
    storage.init_base_locations()
    storage.init_base_locations()
    location = storage.initialize_location_for_checkpoint(3)
    storage.to_handle(b"x" * 30_000, location, state_file_name("ab" * 16, 0, 3, "keyed"))
    storage.write_metadata(location, b"meta")
    assert tree(tmp_path / "checkpoints" / JOB) == [
        "chk-3",
        "chk-3/_metadata",
        f"chk-3/{'ab' * 16}-0-3-keyed",
        "shared",
        "taskowned",
    ]


def test_small_state_goes_into_the_handle(storage: CheckpointStorage, tmp_path: Path) -> None:
    location = storage.location_for_checkpoint(1)
    small = storage.to_handle(pa.py_buffer(b"x" * 20 * 1024), location, "small")
    assert small == ByteStreamStateHandle("small", b"x" * 20 * 1024)
    assert tree(tmp_path) == []
    large = storage.to_handle(b"x" * (20 * 1024 + 1), location, "large")
    assert large == RelativeFileStateHandle("large", 20 * 1024 + 1, f"{location.directory}/large")
    assert read(large).to_pybytes() == b"x" * (20 * 1024 + 1)
    everything = CheckpointStorage(tmp_path, JOB, memory_threshold_bytes=0)
    assert isinstance(everything.to_handle(b"x", location, "tiny"), RelativeFileStateHandle)
    assert isinstance(everything.to_handle(b"", location, "empty"), ByteStreamStateHandle)


def test_state_in_pieces_is_kept_as_state_at_once_is(storage: CheckpointStorage, tmp_path: Path) -> None:
    location = storage.location_for_checkpoint(1)
    for last in (b"", b"z"):
        pieces = [b"x" * 10_000, pa.py_buffer(b"y" * (20 * 1024 - 10_000)), last]
        with storage.create_stream(location, "pieces") as out:
            for piece in pieces:
                out.write(piece)
            handle = out.close_and_get_handle()
        data = b"".join(pieces)
        assert handle == storage.to_handle(data, location, "pieces")
        assert read(handle).to_pybytes() == data
        assert tree(tmp_path) == [] or tree(Path(location.directory)) == ["pieces"]


def test_state_in_pieces_that_ends_early_leaves_nothing(storage: CheckpointStorage) -> None:
    location = storage.location_for_checkpoint(1)
    with storage.create_stream(location, "pieces") as out:
        out.write(b"x" * 30_000)
        assert tree(Path(location.directory)) == [".pieces.part"]
    assert tree(Path(location.directory)) == []


def test_every_kind_of_handle_is_read(storage: CheckpointStorage) -> None:
    location = storage.location_for_checkpoint(1)
    path = f"{location.directory}/file"
    storage.write(path, b"0123456789")
    whole = FileStateHandle(path, 10)
    segment = SegmentFileStateHandle(3, 4, StateScope.SHARED, path, "logical")
    inline = ByteStreamStateHandle("inline", b"0123456789")
    assert read(path).to_pybytes() == read(whole).to_pybytes() == read(inline).to_pybytes() == b"0123456789"
    assert read(segment).to_pybytes() == b"3456"
    assert read(KeyGroupsStateHandle(KeyGroupRange(0, 0), (0,), whole)).to_pybytes() == b"0123456789"
    assert read_range(whole, 2, 3).to_pybytes() == read_range(inline, 2, 3).to_pybytes() == b"234"
    assert read_range(segment, 1, 2).to_pybytes() == b"45"
    assert read(f"file://{path}").to_pybytes() == b"0123456789"


def test_state_that_is_gone_or_cut_off_is_named(storage: CheckpointStorage) -> None:
    path = f"{storage.location_for_checkpoint(1).directory}/file"
    storage.write(path, b"0123")
    for handle in (FileStateHandle(path, 10), SegmentFileStateHandle(2, 4, StateScope.SHARED, path, "x")):
        with pytest.raises(StorageError, match=r"chk-1/file' ends at byte 4, .* it was cut off"):
            read(handle)
    with pytest.raises(StorageError, match="'inline' ends at byte 2"):
        read_range(ByteStreamStateHandle("inline", b"01"), 1, 2)
    with pytest.raises(StorageError, match=r"Cannot read '.*chk-1/gone'"):
        read(f"{path[:-4]}gone")


def test_metadata_is_never_overwritten(storage: CheckpointStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    storage.write_metadata(location, b"first")
    with pytest.raises(StorageError, match="chk-1/_metadata' exists already"):
        storage.write_metadata(location, b"second")
    # The same if another process writes between the check and the write.
    monkeypatch.setattr(storage, "exists", lambda path: False)
    with pytest.raises(StorageError, match="chk-1/_metadata' exists already"):
        storage.write_metadata(location, b"second")
    assert read(location.metadata_path).to_pybytes() == b"first"


def test_nothing_half_written_is_seen(storage: CheckpointStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    storage.write(f"{location.directory}/state", b"state")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.link", fail)
    monkeypatch.setattr("os.rename", fail)
    with pytest.raises(OSError, match="disk full"):
        storage.write_metadata(location, b"meta")
    assert os.listdir(location.directory) == ["state"]
    with pytest.raises(SavepointNotFoundError, match="never completed"):
        resolve(location.directory)


def test_metadata_without_hard_links(storage: CheckpointStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refuse)
    location = storage.initialize_location_for_checkpoint(1)
    storage.write_metadata(location, b"meta")
    assert os.listdir(location.directory) == ["_metadata"]


def test_a_directory_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    storage = CheckpointStorage(tmp_path / "file", JOB)
    location = storage.location_for_checkpoint(1)
    for use in (
        storage.init_base_locations,
        lambda: storage.initialize_location_for_checkpoint(1),
        lambda: storage.write(f"{location.directory}/x", b"x"),
        lambda: storage.write_metadata(location, b"x"),
    ):
        with pytest.raises(StorageError, match=f"{tmp_path}/file/{JOB}.*check that"):
            use()


def test_discarding(storage: CheckpointStorage) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    paths = [f"{location.directory}/{name}" for name in "ab"]
    for path in paths:
        storage.write(path, b"x")
    storage.discard(paths[:1])
    storage.discard(paths[:1])  # gone already
    assert not exists(paths[0])
    assert not storage.discard_location(location)  # something is left
    storage.discard([paths[1]])
    assert storage.discard_location(location)
    assert storage.discard_location(location)
    assert not exists(location.directory)


def test_files_that_are_gone_keep_no_other_file_from_being_discarded(storage: CheckpointStorage) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    paths = [f"{location.directory}/{name}" for name in "abcdef"]
    for path in paths[::2]:
        storage.write(path, b"x")
    storage.discard(paths)
    assert not any(map(exists, paths))


def test_a_directory_that_was_discarded_is_made_again(storage: CheckpointStorage) -> None:
    for number in (1, 2):
        location = storage.initialize_location_for_checkpoint(number)
        for discard in (storage.discard_location, storage.dispose_on_failure):
            discard(location)
            assert not exists(location.directory)
            assert storage.initialize_location_for_checkpoint(number) == location
            assert exists(location.directory)
    assert sorted(storage.checkpoint_locations()) == [1, 2]


def test_all_files_are_tried_before_a_failure_is_told(storage: CheckpointStorage) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    good, bad = f"{location.directory}/good", f"{location.directory}/folder"
    storage.write(good, b"x")
    storage.write(f"{bad}/inside", b"x")
    storage.write(f"{bad}-2/inside", b"x")
    with pytest.raises(StorageError, match=r"Cannot delete .*chk-1/folder \(.*; .*chk-1/folder-2 \("):
        storage.discard([bad, f"{bad}-2", good])
    assert not exists(good)


def test_a_failed_checkpoint_leaves_nothing(storage: CheckpointStorage) -> None:
    location = storage.initialize_location_for_checkpoint(1)
    storage.write(f"{location.directory}/state", b"x")
    storage.dispose_on_failure(location)
    storage.dispose_on_failure(location)
    assert not exists(location.directory)
    storage.write(f"{location.directory}/late", b"x")  # the directory is made again


def test_savepoints_get_directories_of_their_own(tmp_path: Path) -> None:
    storage = CheckpointStorage(tmp_path / "checkpoints", JOB, savepoint_directory=tmp_path / "savepoints")
    again = CheckpointStorage(tmp_path / "checkpoints", JOB, savepoint_directory=tmp_path / "savepoints")
    one, two = storage.initialize_location_for_savepoint(1), again.initialize_location_for_savepoint(1)
    assert one != two
    for location in (one, two):
        assert Path(location.directory).is_dir()
        assert location.directory.startswith(f"{tmp_path}/savepoints/savepoint-012345-")
        assert len(location.directory.rpartition("-")[2]) == 12
    elsewhere = storage.initialize_location_for_savepoint(1, str(tmp_path / "other"))
    assert Path(elsewhere.directory).name == Path(one.directory).name  # the same job and checkpoint, the same name
    with pytest.raises(ValueError, match="no default location configured"):
        CheckpointStorage(tmp_path, JOB).initialize_location_for_savepoint(1)


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata"])
def test_a_checkpoint_is_found_by_directory_or_metadata(storage: CheckpointStorage, suffix: str) -> None:
    location = storage.initialize_location_for_checkpoint(5)
    storage.write_metadata(location, b"meta")
    for prefix in ("", "file://"):
        found = resolve(prefix + location.directory + suffix)
        assert found.metadata == b"meta"
        assert found.location.directory == prefix + location.directory


def test_metadata_may_have_been_renamed(storage: CheckpointStorage, tmp_path: Path) -> None:
    (tmp_path / "kept-metadata").write_bytes(b"meta")
    assert resolve(tmp_path / "kept-metadata").metadata == b"meta"


def test_what_is_not_found_is_explained(storage: CheckpointStorage, tmp_path: Path) -> None:
    with pytest.raises(SavepointNotFoundError, match=r"Cannot find checkpoint or savepoint '.*gone' on file system"):
        resolve(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SavepointNotFoundError, match=r"Cannot find '_metadata' in directory '.*empty': it is empty"):
        resolve(tmp_path / "empty")
    for checkpoint_id in (2, 10):
        storage.write_metadata(storage.initialize_location_for_checkpoint(checkpoint_id), b"meta")
    with pytest.raises(SavepointNotFoundError, match="it holds chk-2, chk-10; give one of these"):
        resolve(storage.job_directory)
    with pytest.raises(ValueError, match="Empty checkpoint path"):
        resolve("")
    with pytest.raises(StorageError, match="Cannot open the file system of 'nosuch://x/y'"):
        resolve("nosuch://x/y")


def test_any_file_system_will_do() -> None:
    storage = CheckpointStorage("/checkpoints", JOB, memory_threshold_bytes=0, file_system=fs._MockFileSystem())
    location = storage.initialize_location_for_checkpoint(1)
    handle = storage.to_handle(b"0123", location, "state")
    assert storage.read_range(handle, 1, 2).to_pybytes() == b"12"
    storage.write_metadata(location, b"meta")
    with pytest.raises(StorageError, match="exists already"):
        storage.write_metadata(location, b"more")
    assert storage.resolve(location.directory).metadata == b"meta"
    storage.discard([location.metadata_path, *handle.files()])
    assert storage.discard_location(location)
    assert not exists(location.directory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"job_id": "x"}, "32 hex digits"), ({"job_id": JOB, "memory_threshold_bytes": 1 << 21}, "expected 0 to 1048576")],
)
def test_settings_that_make_no_sense(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CheckpointStorage(tmp_path, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 or more"):
        CheckpointStorage(tmp_path, JOB).location_for_checkpoint(-1)
