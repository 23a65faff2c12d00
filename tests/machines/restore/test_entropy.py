"""Entropy in the paths of state files, with which an object store spreads them over its partitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit import CheckpointConfig, Lab, SparkJob, dispose_savepoint, open_checkpoint
from kit.core.arguments.allowed import SettingError
from kit.core.state.errors import StorageError
from kit.files.confinement import OutsidePathError, check_metadata
from kit.files.entropy import Entropy, without_entropy
from tests.files.test_confinement import with_path
from tests.hosts.lab.jobs import Shape, environment, settle, wrong
from tests.hosts.spark.jobs import ThreadGang, await_rows, check_output, generator, totals_job

LONG = Shape("totals", rows=120, splits=2, batch_rows=2)
KEY = "_entropy_"


def lab_with_entropy(directory: str = f"/{KEY}/checkpoints", **checkpoint: object) -> Lab:
    lab = Lab(environment(LONG, directory=directory, entropy_key=KEY, **checkpoint))
    lab.run_until(checkpoint=1)
    return lab


def state_files(lab: Lab) -> list[str]:
    return [path for path in lab.look.files.paths() if not path.endswith("/_metadata")]


@pytest.mark.flink("SavepointITCase.testShouldAddEntropyToSavepointPath")
def test_the_state_files_of_a_savepoint_have_entropy_in_their_paths_and_its_metadata_has_none() -> None:
    lab = lab_with_entropy("/checkpoints", savepoint_directory=f"/mine/{KEY}/savepoints")
    before = set(lab.look.files.paths())
    path = lab.stop(wait=True)
    assert path.startswith("/mine/savepoints/savepoint-")
    new = set(lab.look.files.paths()) - before - {f"{path}/_metadata"}
    of_savepoint = {file for file in new if "/savepoint-" in file}
    assert len(of_savepoint) > 3
    inner = path.removeprefix("/mine/")
    assert all(re.fullmatch(rf"/mine/[0-9a-f]{{4}}/{inner}/[^/]+", file) for file in of_savepoint)
    assert len({file.split("/")[2] for file in of_savepoint}) > 1, "each file has characters of its own"

    resumed = Lab(lab.job, restore_path=path, after=lab)
    resumed.run()
    assert wrong(resumed, LONG) == {}
    resumed.dispose_savepoint(path)
    assert not of_savepoint & set(resumed.look.files.paths())
    assert resumed.look.files.paths(path) == []


def test_a_checkpoint_with_entropy_is_restored_after_a_failure_and_deleted_when_it_is_subsumed() -> None:
    lab = lab_with_entropy(unaligned=True)
    metadata = lab.look.master.checkpoints.store.latest.location
    assert re.fullmatch(r"/checkpoints/[0-9a-f]{32}/chk-1", metadata)
    files = state_files(lab)
    assert files
    assert all(re.fullmatch(r"/[0-9a-f]{4}/checkpoints/[0-9a-f]{32}/chk-1/[^/]+", file) for file in files)
    lab.faults.kill(0)
    lab.run()
    settle(lab)
    assert lab.look.master.epoch > 1
    assert wrong(lab, LONG) == {}
    assert state_files(lab) == [], "a finished job leaves nothing"


def test_the_same_job_leaves_the_same_files_wherever_it_runs() -> None:
    assert state_files(lab_with_entropy()) == state_files(lab_with_entropy())
    longer = state_files(lab_with_entropy(entropy_length=9))
    assert all(re.match(r"/[0-9a-f]{9}/checkpoints/", file) for file in longer)


def test_a_savepoints_own_target_may_be_below_the_configured_directory_and_no_other_has_the_key() -> None:
    lab = lab_with_entropy()
    path = lab.savepoint(f"/{KEY}/checkpoints/of-today", wait=True)
    assert path.startswith("/checkpoints/of-today/savepoint-")
    with pytest.raises(Exception, match=f"target '/other/{KEY}' has the entropy key '{KEY}', but the tasks know"):
        lab.savepoint(f"/other/{KEY}", wait=True)
    assert f"/{KEY}" not in lab.savepoint("/plain", wait=True)


@pytest.mark.parametrize("key", ["", "a/b", "..", 7, "_other_"])
def test_a_key_that_no_directory_has_is_refused(key: object) -> None:
    with pytest.raises(SettingError, match=r"entropy_key = .*: expected"):
        CheckpointConfig(directory=f"/{KEY}/checkpoints", entropy_key=key)


# --- readers ----------------------------------------------------------------------------------------------------------


def on_disk(tmp_path: Path) -> Path:
    """Write a checkpoint with entropy to a real disk; return the directory of its metadata."""
    env = totals_job(
        tmp_path / KEY,
        generator(rows_per_second=20_000),
        memory_threshold_bytes=0,
        interval_ms=60_000,
        entropy_key=KEY,
    )
    with SparkJob(env, launch=ThreadGang).start() as job:
        await_rows(job)
        return Path(job.stop())


def test_a_savepoint_with_entropy_is_restored_on_spark_opened_and_deleted(tmp_path: Path) -> None:
    path = on_disk(tmp_path)
    assert path.parent == tmp_path / "checkpoints" / "savepoints"
    assert not (tmp_path / KEY / "checkpoints").exists()
    opened = open_checkpoint(path)
    assert opened.state("totals", "totals").num_rows > 0, "its files are read without follow=True"
    files = [Path(file) for file in opened.metadata.files()]
    assert all(re.fullmatch("[0-9a-f]{4}", file.relative_to(tmp_path).parts[0]) for file in files)

    plain = totals_job(tmp_path / KEY, generator(rows_per_second=1_000_000), interval_ms=None)
    with SparkJob(plain, restore_path=path, launch=ThreadGang) as job:
        assert job.start().wait() == "FINISHED"
    check_output(tmp_path / KEY)
    dispose_savepoint(path)
    assert not path.exists()
    assert not any(file.exists() for file in files)


def test_a_strangers_path_with_entropy_leads_to_files_of_this_savepoint_only(tmp_path: Path) -> None:
    """Entropy is accepted only before the snapshot's own directory, and in characters that belong to the path."""
    path = on_disk(tmp_path)
    metadata = (path / "_metadata").read_bytes()
    good = open_checkpoint(path).metadata.files()[0]
    split = without_entropy(good)
    assert split is not None
    entropy = Entropy(KEY, 4)
    other = f"/{'0000' if split.digits != '0000' else '0001'}/"
    secret = Path(entropy.in_place_of_key(f"{tmp_path}/{KEY}", f"{tmp_path}/secret"))
    secret.parent.mkdir(exist_ok=True)
    secret.write_text("mine")
    beside = entropy.in_place_of_key(f"{tmp_path}/{KEY}", f"{path}-2/f")
    for name in (good.replace(f"/{split.digits}/", other), str(secret), beside, f"{good}/../../../secret"):
        check_that_it_is_refused(path, metadata, name)
    assert secret.exists()

    linked = tmp_path / "elsewhere"
    Path(good).parent.parent.rename(linked)
    Path(good).parent.parent.symlink_to(linked)
    check_that_it_is_refused(path, metadata, good)
    assert (linked / path.name / Path(good).name).exists()


def check_that_it_is_refused(path: Path, metadata: bytes, name: str) -> None:
    """Put a file's name into the metadata of the savepoint: it is neither read nor deleted."""
    crafted = with_path(metadata, str(path), name, relative=False)
    with pytest.raises(OutsidePathError, match=re.escape(name)):
        check_metadata(crafted, str(path), "/j", is_real=True)
    (path / "_metadata").write_bytes(crafted)
    with pytest.raises(StorageError, match=f"{re.escape(name)}, outside .* nothing was deleted"):
        dispose_savepoint(path)
