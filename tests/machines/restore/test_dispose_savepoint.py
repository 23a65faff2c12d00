"""Deleting a savepoint by its path: its metadata and its files go, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyarrow import fs

from kit import CheckpointError, CheckpointInUseError, Lab, SparkJob, dispose_savepoint
from kit.core.protocol.properties import RetentionPolicy
from kit.core.state.errors import SavepointNotFoundError, StorageError
from kit.files.storage import StateFiles
from kit.hosts.lab import open_scenario, ready_job, save_scenario
from tests.files.test_confinement import with_path
from tests.hosts.lab.jobs import Shape, environment, settle, wrong
from tests.hosts.spark.jobs import ThreadGang, await_rows, generator, totals_job

LONG = Shape("totals", rows=120, splits=2, batch_rows=2)


def running_lab(**checkpoint: object) -> Lab:
    lab = Lab(environment(LONG, **checkpoint))
    lab.run_until(checkpoint=1)
    return lab


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    """The directory of a savepoint on a real disk, below `savepoints`, with state in files."""
    lab = running_lab()
    path = lab.savepoint("/savepoints", wait=True)
    lab.look.files.export(tmp_path / "savepoints", path)
    return tmp_path / "savepoints"


def everything_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.flink("CheckpointMetadataTest.testConstructAndDispose")
def test_the_metadata_and_all_its_files_are_deleted(on_disk: Path) -> None:
    assert len(everything_below(on_disk)) > 3
    dispose_savepoint(on_disk)
    assert not on_disk.exists()
    with pytest.raises(SavepointNotFoundError, match="Cannot find checkpoint or savepoint"):
        dispose_savepoint(on_disk)


def test_the_metadata_goes_before_the_state(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion that is cut off leaves files without metadata, never metadata without its files."""
    deleted: list[str] = []
    discard = StateFiles.discard

    def cut_off(self: StateFiles, paths: Iterable[str]) -> None:
        listed = list(paths)
        deleted.extend(listed)
        if len(deleted) > len(listed):
            raise KeyboardInterrupt
        discard(self, listed)

    monkeypatch.setattr(StateFiles, "discard", cut_off)
    with pytest.raises(KeyboardInterrupt):
        dispose_savepoint(on_disk)
    assert deleted[0].endswith("/_metadata")
    assert len(deleted) > 3
    assert not (on_disk / "_metadata").exists()
    assert everything_below(on_disk), "state is left, and nobody takes it for a savepoint"


def test_metadata_that_cannot_be_deleted_is_told_with_the_rest(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    discard = StateFiles.discard

    def fails(self: StateFiles, paths: Iterable[str]) -> None:
        listed = list(paths)
        if listed[0].endswith("_metadata"):
            raise StorageError("first")
        discard(self, listed[:1])
        raise StorageError("second")

    monkeypatch.setattr(StateFiles, "discard", fails)
    with pytest.raises(StorageError, match="first; second"):
        dispose_savepoint(on_disk)


def test_what_is_not_the_savepoints_own_stays(on_disk: Path) -> None:
    (on_disk / "notes.txt").write_text("mine")
    dispose_savepoint(on_disk / "_metadata")
    assert everything_below(on_disk) == ["notes.txt"]


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("where", ["above", "beside, in `shared`", "behind a link"])
def test_files_outside_the_savepoints_directory_are_never_deleted(on_disk: Path, where: str, relative: bool) -> None:
    shared, above = on_disk.parent / "shared" / "file", on_disk.parent / "file"
    shared.parent.mkdir()
    for file in (shared, above):
        file.write_text("mine")
    (on_disk / "link").symlink_to(on_disk.parent)
    name = {"above": "../file", "beside, in `shared`": "../shared/file", "behind a link": "link/file"}[where]
    metadata = (on_disk / "_metadata").read_bytes()
    path = name if relative else f"{on_disk}/{name}"
    (on_disk / "_metadata").write_bytes(with_path(metadata, str(on_disk), path, relative=relative))
    before = everything_below(on_disk.parent)
    with pytest.raises(StorageError, match="outside its own directory: other snapshots may use this file"):
        dispose_savepoint(on_disk)
    assert everything_below(on_disk.parent) == before


def test_with_damaged_metadata_nothing_is_deleted(on_disk: Path) -> None:
    metadata = on_disk / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:40])
    before = everything_below(on_disk)
    with pytest.raises(CheckpointError, match="Nothing was deleted"):
        dispose_savepoint(on_disk)
    assert everything_below(on_disk) == before


def test_a_file_that_cannot_be_deleted_is_named_and_the_others_go() -> None:
    lab = running_lab()
    path = lab.savepoint(wait=True)
    stays = lab.look.files.paths(path)[-1]

    class Stubborn(type(lab.look.files.filesystem.handler)):  # type: ignore[misc]
        def delete_file(self, path: str) -> None:
            if path == stays:
                raise PermissionError(path)
            super().delete_file(path)

    with pytest.raises(StorageError, match=stays):
        dispose_savepoint(path, file_system=fs.PyFileSystem(Stubborn(lab.look.files)))
    assert lab.look.files.paths(path) == [stays]


# --- in the lab -------------------------------------------------------------------------------------------------------


def test_the_lab_deletes_a_savepoint_as_a_step_which_can_be_undone() -> None:
    lab = running_lab()
    path = lab.savepoint(wait=True)
    there, position = lab.look.files.paths(path), lab.position
    lab.dispose_savepoint(path)
    assert lab.look.files.paths(path) == []
    assert lab.position == position + 1
    assert str(lab.past.actions[-1]) == f"dispose of the savepoint {path}"
    lab.back()
    assert lab.look.files.paths(path) == there
    lab.goto(position + 1)
    lab.run()
    assert lab.look.files.paths(path) == []
    assert wrong(lab, LONG) == {}


def test_the_lab_keeps_what_the_job_may_restore_until_the_job_has_ended() -> None:
    lab = running_lab(retention=RetentionPolicy.RETAIN_ON_CANCELLATION)
    latest = lab.look.master.checkpoints.store.latest.location
    with pytest.raises(CheckpointInUseError, match="the job keeps and may restore"):
        lab.dispose_savepoint(latest)
    assert lab.look.files.paths(latest) != []
    lab.cancel()
    settle(lab)
    lab.dispose_savepoint(latest)
    assert lab.look.files.paths(latest) == []


def test_a_savepoint_that_a_job_started_from_is_kept_until_it_has_a_checkpoint_of_its_own() -> None:
    lab = running_lab()
    path = lab.stop(wait=True)
    resumed = Lab(environment(LONG), restore_path=path, after=lab)
    resumed.run_until(record="CheckpointRestored")
    with pytest.raises(CheckpointInUseError):
        resumed.dispose_savepoint(path)
    resumed.run_until(checkpoint=resumed.look.master.checkpoints.store.latest_id + 1)
    settle_store(resumed, path)
    resumed.dispose_savepoint(path)
    resumed.faults.kill(0)
    resumed.run()
    assert wrong(resumed, LONG) == {}


def settle_store(lab: Lab, path: str) -> None:
    """Step until the job needs the snapshot no longer."""
    lab.run_until(lambda lab: path not in lab.look.master.checkpoints.store.in_use)


@pytest.mark.parametrize("wrong_path", [None, 3, b"/savepoints"])
@pytest.mark.parametrize("how", [dispose_savepoint, running_lab().dispose_savepoint])
def test_what_is_no_path_is_refused(how: Callable[[object], None], wrong_path: object) -> None:
    with pytest.raises(TypeError, match=r"path is .*, but must be the path of a savepoint"):
        how(wrong_path)


def test_a_run_with_a_disposal_is_saved_as_a_scenario_and_repeated(tmp_path: Path) -> None:
    lab = Lab(ready_job("keyed-sum", rows=60))
    lab.run_until(record="AllTasksRunning")
    path = lab.savepoint(wait=True)
    lab.dispose_savepoint(path)
    file = save_scenario(lab, tmp_path / "it.scenario", job="keyed-sum, rows=60")
    assert f"dispose of {path}" in file.read_text().splitlines()
    again = open_scenario(file).run().lab
    assert again.past.actions == lab.past.actions
    assert again.look.files.contents == lab.look.files.contents
    assert (
        Lab(ready_job("keyed-sum", rows=60)).replay(lab.past.actions[1:]).look.files.contents == lab.look.files.contents
    )


# --- on Spark ---------------------------------------------------------------------------------------------------------


def test_a_job_on_spark_deletes_its_savepoint_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    env = totals_job(tmp_path, generator(rows_per_second=20_000), memory_threshold_bytes=0, interval_ms=None)
    with SparkJob(env, launch=ThreadGang).start() as job:
        await_rows(job)
        checkpoint, savepoint = Path(job.trigger_checkpoint()), Path(job.savepoint(tmp_path / "savepoints"))
        with pytest.raises(CheckpointInUseError, match="the job keeps and may restore"):
            job.dispose_savepoint(checkpoint)
        assert (checkpoint / "_metadata").exists()
        assert everything_below(savepoint) != []
        job.dispose_savepoint(savepoint)
        assert not savepoint.exists()
        job.cancel()
