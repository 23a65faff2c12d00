"""Two jobs that do not know of each other do not write to one directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import kit
from kit import CheckpointConfig, CollectionSource, ParquetSink, StreamEnvironment
from kit.core.protocol.properties import RetentionPolicy
from kit.hosts.spark import SparkJob
from kit.hosts.spark.output_locks import OutputInUseError
from kit.machines.job.errors import JobFailedError
from kit.stream.connectors import CommitError
from tests.hosts.spark.jobs import ThreadGang
from tests.house.files import ROOT

ROWS = 40


def rows_job(
    directory: Path,
    name: str = "rows",
    *,
    own: str = "checkpoints",
    mode: str = "error",
    first: int = 0,
    rate: float = 40,
    **checkpoint: Any,
) -> StreamEnvironment:
    """A job that writes forty rows below a directory, in a second if `rate` is not another."""
    settings = {"interval_ms": 50, "directory": directory / own} | checkpoint
    env = StreamEnvironment(name, parallelism=2, max_parallelism=4, checkpoint=CheckpointConfig(**settings))
    numbers = [{"n": number} for number in range(first, first + ROWS)]
    source = CollectionSource(numbers, batch_rows=1, rows_per_second=rate)
    env.from_source(source, uid="rows").sink_to(ParquetSink(directory / "out", mode=mode), uid="out")
    return env


def published(directory: Path) -> Counter[int]:
    parts = [pd.read_parquet(part)["n"] for part in (directory / "out").glob("part-*.parquet")]
    return Counter(int(number) for part in parts for number in part)


def await_output(directory: Path) -> None:
    """Wait until something is published."""
    deadline = time.monotonic() + 60
    while not published(directory):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def once(directory: Path, first: int = 0) -> bool:
    return published(directory) == Counter(range(first, first + ROWS))


def left(directory: Path) -> list[Path]:
    return list(directory.rglob("lock-*"))


@contextmanager
def running(env: StreamEnvironment, **start: Any) -> Iterator[SparkJob]:
    with SparkJob(env, launch=ThreadGang, **start) as job:
        yield job.start().wait_until_running(timeout_s=60)


@pytest.mark.parametrize("mode", ["error", "overwrite", "append"])
def test_a_cell_that_is_run_again_while_its_job_runs_is_refused(tmp_path: Path, mode: str) -> None:
    with running(rows_job(tmp_path, mode=mode)) as first:
        second = SparkJob(rows_job(tmp_path, mode="overwrite" if mode == "append" else mode), launch=ThreadGang)
        with pytest.raises(
            OutputInUseError, match=r"written by job 'rows', which runs in this process.*start\(replace=True"
        ):
            second.start()
        assert [job.job.name for job in kit.running()] == ["rows"]
        assert first.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path)
    assert left(tmp_path) == []


def test_a_start_may_end_the_job_that_is_in_its_way(tmp_path: Path) -> None:
    slow = {"mode": "overwrite", "rate": 5}
    with running(rows_job(tmp_path, **slow)) as first, running(rows_job(tmp_path / "other", "other", **slow)):
        await_output(tmp_path)
        with SparkJob(rows_job(tmp_path, mode="overwrite", first=1_000), launch=ThreadGang) as second:
            second.start(replace=True)
            assert first.status == "CANCELED"
            assert [job.job.name for job in kit.running()] == ["other", "rows"]
            assert second.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path, 1_000)
    assert left(tmp_path) == []


def test_nothing_is_ended_for_a_start_that_is_refused_anyway(tmp_path: Path) -> None:
    with running(rows_job(tmp_path)) as first:
        await_output(tmp_path)
        with pytest.raises(FileExistsError, match="already holds"):
            SparkJob(rows_job(tmp_path), launch=ThreadGang).start(replace=True)
        assert first.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path)


def test_jobs_that_append_share_a_directory(tmp_path: Path) -> None:
    with (
        running(rows_job(tmp_path, mode="append")) as first,
        running(rows_job(tmp_path, "others", mode="append", first=1_000, own="others")) as second,
    ):
        assert {job.wait(timeout_s=60) for job in (first, second)} == {"FINISHED"}
    assert published(tmp_path) == Counter(range(ROWS)) + Counter(range(1_000, 1_000 + ROWS))
    assert left(tmp_path) == []


def test_a_job_that_resumes_waits_for_the_one_before_to_end(tmp_path: Path) -> None:
    with running(rows_job(tmp_path)) as first:
        savepoint = first.savepoint(tmp_path / "savepoints")
        with pytest.raises(OutputInUseError):
            SparkJob(rows_job(tmp_path), launch=ThreadGang, restore_path=savepoint).start()
        first.cancel()
    with running(rows_job(tmp_path), restore_path=savepoint, later_output="discard") as again:
        assert again.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path)


def test_a_job_that_cannot_start_leaves_no_lock_and_no_directory(tmp_path: Path) -> None:
    for _ in range(2):
        job = SparkJob(rows_job(tmp_path), launch=ThreadGang, restore_path=tmp_path / "nothing")
        with job, pytest.raises(JobFailedError):
            job.start().wait(timeout_s=60)
        assert not (tmp_path / "out").exists()


OTHER_PROCESS = """
import sys, time
from pathlib import Path
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang
from tests.hosts.spark.test_output_locks import rows_job

directory, mode, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if __name__ == "__main__":
    settings = {"store": "filesystem"} if how == "durable" else {"own": "others"}
    name = "rows" if how == "durable" else "other"
    env = rows_job(directory, name, mode=mode, first=1_000, rate=10, **settings)
    job = SparkJob(env, launch=ThreadGang).start()
    job.wait_until_running(timeout_s=60).trigger_checkpoint()
    print("runs", flush=True)
    time.sleep(600)
"""


@contextmanager
def in_another_process(directory: Path, mode: str = "error", how: str = "") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OTHER_PROCESS, str(directory), mode, how]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "runs\n"
            yield process
        finally:
            process.kill()


def test_a_job_of_another_process_is_in_the_way_until_that_ends_in_whatever_way(tmp_path: Path) -> None:
    with in_another_process(tmp_path) as process:
        for replace in (False, True):
            with pytest.raises(OutputInUseError, match=rf"job 'other' in process {process.pid}: .*End that job first"):
                SparkJob(rows_job(tmp_path, mode="overwrite"), launch=ThreadGang).start(replace=replace)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(OutputInUseError):
            SparkJob(rows_job(tmp_path, mode="overwrite"), launch=ThreadGang).start()
        assert not Path(f"/proc/{process.pid}/status").read_text().count("zombie")
        process.kill()
        process.wait()
    assert len(left(tmp_path)) == 1, "the killed process could not remove it"
    with running(rows_job(tmp_path, mode="overwrite")) as job:
        assert job.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path)
    assert left(tmp_path) == []


def test_a_frozen_driver_does_not_keep_out_the_one_that_takes_its_job_over(tmp_path: Path) -> None:
    env = rows_job(tmp_path, first=1_000, rate=10, store="filesystem", retention=RetentionPolicy.RETAIN_ON_CANCELLATION)
    with in_another_process(tmp_path, how="durable") as process:
        process.send_signal(signal.SIGSTOP)
        os.kill(process.pid, 0)
        with running(env, recover=True) as job:
            with pytest.raises(OutputInUseError):
                SparkJob(rows_job(tmp_path, "third", own="third"), launch=ThreadGang).start()
            process.kill()
            process.wait()
            with pytest.raises(OutputInUseError):
                SparkJob(rows_job(tmp_path, "third", own="third"), launch=ThreadGang).start()
            assert job.wait(timeout_s=60) == "FINISHED"
    assert once(tmp_path, 1_000)
    assert left(tmp_path) == []


def test_two_jobs_of_one_name_with_checkpoints_of_their_own_do_not_mix(tmp_path: Path) -> None:
    """Not even without locks, as on an object store: each run has files of its own."""
    settings = {"store": "filesystem", "mode": "append"}
    with (
        running(rows_job(tmp_path, own="one", **settings)) as first,
        running(rows_job(tmp_path, own="two", first=1_000, **settings)) as second,
    ):
        assert first.job.job_id == second.job.job_id
        assert {job.wait(timeout_s=60) for job in (first, second)} == {"FINISHED"}
    assert published(tmp_path) == Counter(range(ROWS)) + Counter(range(1_000, 1_000 + ROWS))


def test_a_directory_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".staging").write_text("in the way")
    with pytest.raises(CommitError, match=rf"output directory {tmp_path}/out cannot be written: .*File exists"):
        SparkJob(rows_job(tmp_path), launch=ThreadGang).start()
