"""Directories in which nothing can be written: one clear error before the job starts, or the job ends by itself.

Tests may run as root, who may write to any ordinary directory. `/sys` belongs to the kernel: nobody makes a file there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kit import CheckpointConfig, ExponentialDelay, ParquetSink, StreamEnvironment
from kit.files.stores.errors import StoreError
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.spark.jobs import LASTING, ThreadGang, await_checkpoint

UNWRITABLE = "/sys"


def job(checkpoints: Path | str, out: Path | str, store: str = "memory") -> StreamEnvironment:
    env = StreamEnvironment(
        "unwritable",
        parallelism=2,
        checkpoint=CheckpointConfig(interval_ms=50, directory=str(checkpoints), store=store),
        restart=ExponentialDelay(initial_delay_ms=1, max_delay_ms=2),
    )
    env.from_source(LASTING, uid="rows").sink_to(ParquetSink(out), uid="out")
    return env


@pytest.mark.parametrize("below", ["", "/checkpoints", "/some/checkpoints"])
def test_a_checkpoint_directory_is_named_before_the_job_starts(tmp_path: Path, below: str) -> None:
    with pytest.raises(OSError, match=rf"^checkpoint directory '{UNWRITABLE}{below}' cannot be written: .*make it"):
        SparkJob(job(f"{UNWRITABLE}{below}", tmp_path / "out"), launch=ThreadGang)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "/out", "/some/out"])
def test_an_output_directory_is_named_before_the_job_starts(tmp_path: Path, below: str) -> None:
    with pytest.raises(OSError, match=rf"^output directory {UNWRITABLE}{below} cannot be written: "):
        SparkJob(job(tmp_path / "checkpoints", f"{UNWRITABLE}{below}"), launch=ThreadGang)
    assert list(tmp_path.iterdir()) == []


def test_a_database_for_the_store_is_named_before_the_job_starts(tmp_path: Path) -> None:
    env = job(tmp_path / "checkpoints", tmp_path / "out", f"sqlite://{UNWRITABLE}/kit.db")
    with (
        SparkJob(env, launch=ThreadGang) as running,
        pytest.raises(StoreError, match=rf"{UNWRITABLE}/kit\.db: unable to open database file: can this user write"),
    ):
        running.start()
    assert not (tmp_path / "out").exists()


def test_a_directory_for_the_recording_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=rf"^record is '{UNWRITABLE}', which cannot be written: .*name another"):
        SparkJob(job(tmp_path / "checkpoints", tmp_path / "out"), launch=ThreadGang, record=UNWRITABLE)


def test_a_job_outlives_savepoints_that_cannot_be_written(tmp_path: Path) -> None:
    with SparkJob(job(tmp_path / "checkpoints", tmp_path / "out"), launch=ThreadGang).start() as running:
        await_checkpoint(running, 1)
        for ask in (running.savepoint, running.stop):
            with pytest.raises(JobFailedError, match=rf"'{UNWRITABLE}/savepoints.*check that the path exists"):
                ask(f"{UNWRITABLE}/savepoints")
        assert (running.status, len(running.look.stages)) == ("RUNNING", 1)
        running.cancel()


def test_a_job_whose_output_directory_can_no_longer_be_written_ends_and_names_it(tmp_path: Path) -> None:
    """However long its restarts go on otherwise; what was published before stays."""
    out = tmp_path / "out"
    with SparkJob(job(tmp_path / "checkpoints", out), launch=ThreadGang).start() as running:
        await_checkpoint(running, 2)
        kept = {path.name for path in out.glob("part-*.parquet")}
        moved = out.rename(tmp_path / "moved")
        out.write_text("a file, where a directory was")
        with pytest.raises(JobFailedError, match=rf"{out}.*(cannot be written|cannot be published)"):
            running.wait(timeout_s=60)
        assert running.status == "FAILED"
        assert {path.name for path in moved.glob("part-*.parquet")} >= kept
        assert len(running.look.stages) <= 4
    shutil.rmtree(moved)
