"""Faults of a job's workers on Spark: a stage that is cancelled, a full disk, and user-defined functions that hang,
leak, or end the process. The output is the same each time.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.hosts.spark import SparkJob
from kit.hosts.spark.driver.driver_settings import DriverSettings
from tests.hosts.spark.jobs import IN_MEMORY, await_checkpoint, check_output, generator, staged, totals_job, until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

SLOW = generator(rows_per_second=30_000)
LEAK_BYTES = 1 << 30


def test_a_stage_that_is_cancelled_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """As with the link beside it on Spark's own page."""
    tracker = spark.sparkContext.statusTracker()
    with SparkJob(totals_job(tmp_path, SLOW), spark) as job:
        job.start()
        await_checkpoint(job, 2)
        (number,) = tracker.getJobIdsForGroup(job.spark_group)
        (stage,) = tracker.getJobInfo(number).stageIds
        spark.sparkContext._jsc.sc().cancelStage(stage)
        assert job.wait(120) == "FINISHED"
    check_output(tmp_path)
    assert len(job.look.stages) == 2
    (lost,) = [record for record in job.trace if record.kind == "SlotLost"]
    assert "cancelled" in lost.data["error"] or "its process died" in lost.data["error"]


def test_a_full_disk_costs_checkpoints_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    """The workers may not write a byte to a file; then they may again."""
    env = totals_job(tmp_path, SLOW, rolling=IN_MEMORY, tolerable_failures=1_000, memory_threshold_bytes=0)
    with SparkJob(env, spark) as job:
        job.start()
        await_checkpoint(job, 2)
        workers = list(job.look.workers().values())
        before = [resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in workers]
        try:
            for pid, (_, most) in zip(workers, before, strict=True):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
            until(lambda: (job.checkpoints()["status"] == "FAILED").sum() >= 2, job)
            last = job.checkpoints().query("status == 'FAILED'")["id"].max()
        finally:  # Spark uses these processes again
            for pid, limits in zip(workers, before, strict=True):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
        await_checkpoint(job, last + 1)
        assert job.wait(120) == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []
    assert len(job.look.stages) == 1
    failures = set(job.checkpoints().query("status == 'FAILED'")["failure"])
    assert any("[Errno 27] Error writing bytes to file" in each for each in failures), failures


def hang() -> None:
    time.sleep(3_600)


def leak() -> None:
    """Under a limit, as `spark.executor.pyspark.memory` sets one."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + LEAK_BYTES, limits[1]))
    kept = []
    try:
        while True:
            kept.append(bytes(LEAK_BYTES // 8))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def exit_at_once() -> None:
    os._exit(3)


def exit_by_exception() -> None:
    sys.exit(3)


def once(misdeed: Callable[[], None], done: str, row: dict[str, int]) -> dict[str, int]:
    """Return the row; the first row with one key also commits the misdeed."""
    if row["key"] == 7:
        try:
            os.close(os.open(done, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return row
        misdeed()
    return row


@pytest.mark.parametrize(
    ("misdeed", "said", "timeout_ms"),
    [
        (hang, "Checkpoint expired before completing", 1_500),
        (leak, "MemoryError", 600_000),
        (exit_at_once, "its process died", 600_000),
        (exit_by_exception, "SystemExit: 3", 600_000),
    ],
    ids=["hangs", "leaks memory", "ends the process", "asks the process to end"],
)
def test_a_function_of_the_users_that(
    spark: SparkSession, tmp_path: Path, misdeed: Callable[[], None], said: str, timeout_ms: int
) -> None:
    """Hanging is noticed by a checkpoint that expires; on a busy machine, a later one may expire too."""
    function = partial(once, misdeed, str(tmp_path / "done"))
    env = totals_job(tmp_path, SLOW, function=function, timeout_ms=timeout_ms)
    with SparkJob(env, spark, settings=DriverSettings(kill_ms=500)) as job:
        job.start()
        assert job.wait(120) == "FINISHED"
        told = [str(record.data) for record in job.trace]
        lost = [record.data["slot"] for record in job.trace if record.kind == "SlotLost"]
    check_output(tmp_path)
    assert len(job.look.stages) >= 2 if misdeed is hang else len(job.look.stages) == 2
    assert any(said in each for each in told)
    assert len(lost) == (misdeed in (exit_at_once, exit_by_exception)), "only who ends the process loses the slot"
