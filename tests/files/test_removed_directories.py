"""Directories that are removed while a job runs: the driver creates them again, or stops once with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit.core.protocol.events import StartJob
from kit.files.storage import CheckpointStorage
from kit.files.stores.errors import LeadershipLostError
from kit.files.stores.file_records import FileRecords
from kit.machines.job.status import JobStatus
from tests.files.test_power_loss import HostOnDisk, assert_each_row_once, completed, graph

JOB = "ab" * 16


def running(place: Path) -> tuple[HostOnDisk, Path]:
    """A job that has completed two checkpoints, and its checkpoint directory."""
    host = HostOnDisk(graph(place), place)
    host.tell(StartJob())
    host.run(lambda: completed(host) == 2)
    return host, place / "checkpoints" / host.master.job.job_id


@pytest.mark.parametrize("part", ["chk-*", "shared", "taskowned"])
def test_what_the_driver_knows_it_makes_again(tmp_path: Path, part: str) -> None:
    host, directory = running(tmp_path)
    for path in directory.glob(part):
        shutil.rmtree(path)
    host.run()
    assert host.status is JobStatus.FINISHED, host.master.error
    assert_each_row_once(tmp_path)


@pytest.mark.parametrize("part", [".", "store", "store/leader-1-driver"])
def test_a_driver_without_its_store_stops_once_and_says_why(tmp_path: Path, part: str) -> None:
    host, directory = running(tmp_path)
    before = {path.name for path in tmp_path.glob("copy/letter=*/*.parquet")}
    shutil.rmtree(directory / part)
    host.run()
    assert host.status is JobStatus.SUSPENDED
    assert "was removed while this driver led the job" in host.master.error
    assert "restore_path" in host.master.error
    assert "another driver has taken over" not in host.master.error
    assert host.master.epoch == 1
    assert {path.name for path in tmp_path.glob("copy/letter=*/*.parquet")} >= before


@pytest.mark.parametrize("part", ["", "/leader-1-first"])
def test_records_whose_directory_is_removed_are_not_led_any_more(tmp_path: Path, part: str) -> None:
    records = FileRecords(CheckpointStorage(tmp_path, JOB))
    records.lead("first")
    shutil.rmtree(f"{tmp_path}/{JOB}/store{part}")
    for call in (
        lambda: records.read("run"),
        lambda: records.write("run", b"x"),
        lambda: records.remove("run"),
        lambda: records.names("checkpoints"),
    ):
        with pytest.raises(LeadershipLostError, match="was removed while this driver led the job"):
            call()
    assert not Path(f"{tmp_path}/{JOB}/store/leader-1-first").exists()
