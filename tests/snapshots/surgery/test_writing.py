"""The place of a new savepoint, and the errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kit
from kit.core.state.errors import StorageError
from kit.filesystems.local_disk import LocalDisk
from kit.snapshots.checkpoints import Checkpoint
from tests.files.power_loss import recorded
from tests.flink_data import checkpoint_cases, checkpoints, value_cases, values
from tests.snapshots.surgery.truths import digests
from tests.snapshots.truth import called

VERSION = value_cases()[-1][0]
FOLDER = values(VERSION) / "savepoint-canonical"


@pytest.fixture
def old(tmp_path: Path) -> Checkpoint:
    shutil.copytree(FOLDER, tmp_path / "old")
    return kit.open_checkpoint(tmp_path / "old")


@pytest.mark.parametrize("where", ["old", "old/new", "."])
def test_the_old_directory_is_never_written_into(old: Checkpoint, tmp_path: Path, where: str) -> None:
    before = digests(tmp_path)
    with pytest.raises(kit.CheckpointError, match="the old checkpoint is never changed"):
        old.edit().write((tmp_path / where).resolve())
    assert digests(tmp_path) == before


def test_a_directory_with_files_is_refused(old: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "notes").write_text("mine")
    with pytest.raises(kit.CheckpointError, match="is not empty"):
        old.edit().write(tmp_path / "new")
    assert digests(tmp_path / "new").keys() == {"notes"}


@pytest.mark.parametrize("made", [False, True])
def test_nothing_is_left_if_a_change_fails(old: Checkpoint, tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "new").mkdir()

    def fails(keys: pa.Array) -> Any:
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        old.edit().delete_keys("timers", fails).write(tmp_path / "new" / "savepoint")
    assert {each.name for each in tmp_path.iterdir()} <= {"old", "new"}
    assert (tmp_path / "new").exists() == made
    assert not (tmp_path / "new" / "savepoint").exists()


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        ("create", OSError("no room"), StorageError),
        ("create", KeyboardInterrupt(), KeyboardInterrupt),
        ("sync", OSError("no room"), StorageError),
    ],
)
def test_nothing_is_left_if_the_metadata_cannot_be_written(
    old: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: BaseException,
    told: type[BaseException],
) -> None:
    """The file is created, and then there is an error; or it is renamed, and its directory cannot be synced."""
    real = getattr(LocalDisk, call)

    def fails(disk: LocalDisk, path: str) -> Any:
        done = real(disk, path)
        if Path(path).name == ("new" if call == "sync" else "_metadata.unfinished"):
            raise error
        return done

    monkeypatch.setattr(LocalDisk, call, fails)
    with pytest.raises(told, match=r"Cannot write '.*/new/_metadata': no room" if told is StorageError else None):
        old.edit().rename("scalars", "numbers").write(tmp_path / "new")
    assert {each.name for each in tmp_path.iterdir()} == {"old"}


def test_a_savepoint_that_was_written_survives_a_loss_of_power(old: Checkpoint, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with recorded(place) as recording:
        old.edit().rename("scalars", "numbers").write(place / "new")
    written = digests(place)
    recording.after(len(recording.changes), None).build(place)
    assert digests(place) == written
    assert kit.open_checkpoint(place / "new").state("numbers", "long").equals(old.state("scalars", "long"))


def test_a_missing_file_is_noticed_before_there_is_a_savepoint(old: Checkpoint, tmp_path: Path) -> None:
    next(path for path in (tmp_path / "old").iterdir() if "-" in path.name and path.suffix != ".json").unlink()
    with pytest.raises(kit.CheckpointError, match="of the checkpoint is missing"):
        old.edit().write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_files_stay_where_they_are_without_a_copy(old: Checkpoint, tmp_path: Path) -> None:
    written = old.edit().rename("scalars", "numbers").write(tmp_path / "new", copy=False)
    assert digests(tmp_path / "new").keys() == {"_metadata"}
    assert written.state("numbers", "long").equals(old.state("scalars", "long"))


def test_paths_are_rewritten_for_another_place(tmp_path: Path) -> None:
    version = checkpoint_cases()[-1][0]
    (newest,) = sorted((checkpoints(version) / "rocksdb-incremental").rglob("_metadata"))[-1:]
    checkpoint = kit.open_checkpoint(newest)
    recorded = {path.rpartition("/")[0] for path in checkpoint.metadata.files() if "/shared/" in path}
    (shared,) = recorded
    written = checkpoint.edit().relocate({shared: "s3://bucket/shared"}).write(tmp_path / "new")
    moved = {path for path in written.metadata.files() if path.startswith("s3://bucket/shared/")}
    assert {Path(path).name for path in moved} == {
        Path(path).name for path in checkpoint.metadata.files() if path.startswith(shared)
    }
    assert not {Path(path).name for path in moved} & digests(tmp_path / "new").keys()
    with pytest.raises(ValueError, match="no file of the checkpoint is below '/nowhere'"):
        checkpoint.edit().relocate({"/nowhere": "s3://bucket"})


def test_paths_are_rewritten_step_by_step_and_the_last_step_counts(tmp_path: Path) -> None:
    version = checkpoint_cases()[-1][0]
    (newest,) = sorted((checkpoints(version) / "rocksdb-incremental").rglob("_metadata"))[-1:]
    checkpoint = kit.open_checkpoint(newest)
    directories = sorted({path.rpartition("/")[0] for path in checkpoint.metadata.files() if "/" in path})
    assert len(directories) > 1
    edited = checkpoint.edit()
    for bucket in ("first", "second"):
        for directory in directories:
            edited = edited.relocate({directory: f"s3://{bucket}/{directory.rpartition('/')[2]}"})
    written = edited.write(tmp_path / "new")
    assert {path.rpartition("/")[0] for path in written.metadata.files()} == {
        f"s3://second/{directory.rpartition('/')[2]}" for directory in directories
    }


def test_a_plan_says_what_it_changes_and_can_be_extended_in_two_ways(old: Checkpoint) -> None:
    first = old.edit().rename("scalars", "numbers")
    one, other = first.drop("numbers", "long"), first.set_max_parallelism(256, "by-int")
    assert one.changes.to_dict("records") == [
        {"operation": "rename", "operator": called(old, "scalars"), "detail": "numbers"},
        {"operation": "drop", "operator": called(old, "numbers"), "detail": "state long"},
    ]
    by_int = called(old, "by-int")
    assert repr(other).splitlines()[1:] == [
        f"  rename: {called(old, 'scalars')} numbers",
        f"  max parallelism: {by_int} 256",
    ]
    assert f">{by_int}</td>" in other._repr_html_()
    assert len(first.changes) == 1


def test_a_rehearsal_knows_the_size_of_the_savepoint(old: Checkpoint, tmp_path: Path) -> None:
    def plan() -> Any:
        return old.edit().set_max_parallelism(256, "scalars").delete_keys("timers", lambda keys: [False] * len(keys))

    assert plan().rehearse().state_size == plan().write(tmp_path / "new").size > 0


def test_impossible_changes_are_refused_at_once(old: Checkpoint) -> None:
    edited = old.edit()
    with pytest.raises(KeyError, match="there is no operator 'nobody'; there are "):
        edited.drop("nobody")
    with pytest.raises(KeyError, match="has no state 'nothing'; it has "):
        edited.drop("scalars", "nothing")
    with pytest.raises(ValueError, match=rf"'{called(old, 'timers')}' has the id .* already"):
        edited.rename("scalars", "timers")
    with pytest.raises(ValueError, match="32 hex digits"):
        edited.rename("scalars", uid_hash="abc")
    with pytest.raises(ValueError, match="give the new uid"):
        edited.rename("scalars")
    with pytest.raises(ValueError, match="has parallelism 3, which is more"):
        edited.set_max_parallelism(2)
    with pytest.raises(KeyError, match=rf"source '{called(old, 'source')}' has no split .* it has "):
        edited.set_offsets("source", {("topic", 0): 3})


@pytest.mark.parametrize(("version", "case"), [each for each in checkpoint_cases() if "unaligned" in each[1]])
def test_data_in_flight_forbids_another_max_parallelism(version: str, case: str) -> None:
    edited = kit.open_checkpoint(checkpoints(version) / case, follow=True).edit()
    with pytest.raises(ValueError, match=r"without_in_flight\(\)|which no|which has no layout"):
        edited.set_max_parallelism(512)


def test_a_source_continues_at_another_offset(tmp_path: Path) -> None:
    version = checkpoint_cases()[-1][0]
    checkpoint = kit.open_checkpoint(checkpoints(version) / "coordinator-master")
    source = next(
        label for label, name in checkpoint.states[["operator", "name"]].values if name == "SourceReaderState"
    )
    before = checkpoint.state(source, "SourceReaderState").to_pylist()
    offsets = {before[0]["split"]: 77}
    written = checkpoint.edit().set_offsets(source, offsets).write(tmp_path / "new")
    after = written.state(source, "SourceReaderState").to_pylist()
    assert after == [{**before[0], "next": 77}, *before[1:]]
