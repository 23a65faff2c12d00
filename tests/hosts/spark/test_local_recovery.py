"""Copies of state on real disks: a slot that comes back reads its own, and nothing is left when the job has ended."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.core.protocol.properties import RecoveryClaimMode
from kit.hosts.spark import JobFailedError, SparkJob
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, totals_job, until
from tests.zookeeper import ZooKeeper

SLOW = generator(rows_per_second=30_000)
COPIED = {"local_recovery": True, "memory_threshold_bytes": 0}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files of a machine whose only jobs are ours; none may leave anything there."""
    directory = tmp_path / "machine"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.rglob("kit-local-state-*")) == []


def read_from_copies(job: SparkJob) -> dict[str, int]:
    """Return the number of local copies that each restored task has read."""
    return {record.machine: record.data["from_local"] for record in job.trace if record.kind == "StateRead"}


@pytest.mark.spark
@pytest.mark.usefixtures("no_thread_left")
def test_a_killed_workers_successor_reads_its_copies(spark: SparkSession, tmp_path: Path, machine: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW, **COPIED), spark) as job:
        job.start()
        await_checkpoint(job, 2)
        job.faults.kill(1)
        until(lambda: len(job.look.stages) == 2 and bool(read_from_copies(job)), job)
        assert [path.name for path in machine.rglob("slot-*")] != []
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert read_from_copies(job)["totals/0"] >= 1
    assert read_from_copies(job)["totals/1"] >= 1


def test_a_slot_that_was_cut_off_reads_the_checkpoint_itself(tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW, **COPIED), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 2)
        ThreadGang.current.kill(1)
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    read = read_from_copies(job)
    assert read["totals/0"] == 1
    assert read["totals/1"] == 0


@pytest.mark.parametrize("end", ["cancel", "stop", "fail"])
def test_however_a_job_ends_it_leaves_no_copy(tmp_path: Path, machine: Path, end: str) -> None:
    def function(row: dict[str, int]) -> dict[str, int]:
        if (tmp_path / "fail").exists():
            raise ValueError("no more")
        return row

    env = totals_job(tmp_path, SLOW, function=function, savepoint_directory=str(tmp_path / "savepoints"), **COPIED)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 1)
        assert list(machine.rglob("*-managed_keyed*")) or list(machine.rglob("chk-*"))
        if end == "fail":
            (tmp_path / "fail").touch()
            with pytest.raises(JobFailedError):
                job.wait()
        else:
            getattr(job, end)()


@pytest.mark.parametrize(
    "local_recovery",
    [
        pytest.param(
            False, marks=pytest.mark.flink("ResumeCheckpointManuallyITCase.testExternalizedFSCheckpointsZookeeper")
        ),
        pytest.param(
            True,
            marks=pytest.mark.flink(
                "ResumeCheckpointManuallyITCase.testExternalizedFSCheckpointsWithLocalRecoveryZookeeper"
            ),
        ),
    ],
)
@pytest.mark.parametrize("mode", list(RecoveryClaimMode))
def test_retained_checkpoints_resume_one_after_the_other_with_zookeeper(
    tmp_path: Path, zookeeper: ZooKeeper, local_recovery: bool, mode: RecoveryClaimMode
) -> None:
    """Each run takes two checkpoints, so it subsumes the restored one, which may be deleted only if it was claimed."""
    checkpoint = {
        "store": f"zookeeper://{zookeeper.hosts}/{tmp_path.name}",
        "memory_threshold_bytes": 0,
        "local_recovery": local_recovery,
    }

    def resumed(path: str | None, rows_per_second: float | None) -> SparkJob:
        env = totals_job(tmp_path, generator(rows_per_second=rows_per_second), interval_ms=None, **checkpoint)
        return SparkJob(env, launch=ThreadGang, restore_path=path, claim_mode=mode, later_output="discard")

    taken: list[str] = []
    for _ in range(2):
        with resumed(taken[-1] if taken else None, 30_000) as job:
            job.start()
            job.trigger_checkpoint()
            taken.append(job.trigger_checkpoint())
            job.cancel()
            assert (Path(taken[-1]) / "_metadata").is_file()
    with resumed(taken[-1], None) as job:
        job.start()
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    first = Path(taken[0]) / "_metadata"
    assert first.is_file() is (mode is not RecoveryClaimMode.CLAIM)
    if first.is_file():
        with resumed(taken[0], None) as job:
            job.start()
            assert job.wait() == "FINISHED"
        check_output(tmp_path)
