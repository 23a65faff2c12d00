"""A snapshot that a job has claimed is deleted once a newer checkpoint is complete, and not before."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kit import CheckpointConfig, CollectionSource, Lab, NoRestart, ParquetSink, StreamEnvironment, count
from kit.core.protocol.properties import RecoveryClaimMode, RetentionPolicy
from kit.hosts.lab.errors import LabError
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from tests.hosts.spark.jobs import ThreadGang
from tests.stories.rollbacks import ALL, ROWS, STOP, InLab, OnSlots, environment

RAISES, REJECTED, CANCELED = "raises", "rejected", "cancelled at once"
CLAIM = {"claim_mode": RecoveryClaimMode.CLAIM}


def variant(host: InLab | OnSlots, how: str, *, durable: bool) -> StreamEnvironment:
    """The job of the stories, which ends before its first checkpoint, and would not retain any."""
    env = StreamEnvironment(
        "rows",
        parallelism=2,
        max_parallelism=8 if how == REJECTED else 16,
        checkpoint=CheckpointConfig(
            interval_ms=60_000,
            directory=host.checkpoints,
            retention=RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION,
            **({"store": "filesystem"} if durable else {}),
        ),
        restart=NoRestart(),
    )
    source = CollectionSource([{"n": n} for n in range(ROWS)], batch_rows=1, rows_per_second=200)
    counted = env.from_source(source, uid="rows").key_by("n").aggregate(times=count()).uid("counted")
    if how == RAISES:
        counted = counted.map(_raise).uid("raises")
    counted.sink_to(ParquetSink(host.out), uid="out")
    return env


def _raise(row: dict[str, int]) -> dict[str, int]:
    raise ValueError("this version has a bug")


def end_early(host: InLab | OnSlots, env: StreamEnvironment, snapshot: str, *, cancel: bool) -> str:
    """Run a job that ends before its first checkpoint; returns its final status."""
    if isinstance(host, OnSlots):
        with SparkJob(env, launch=ThreadGang, restore_path=snapshot, **CLAIM) as job, suppress(JobFailedError):
            job.start()
            if cancel:
                job.wait_until_running(timeout_s=60).cancel()
            job.wait(timeout_s=60)
        return job.status
    host.last = lab = Lab(env, restore_path=snapshot, after=host.last, **CLAIM)
    with suppress(LabError):
        if cancel:
            lab.run_until(record="AllTasksRunning")
            lab.cancel()
        lab.run()
    return lab.status


@pytest.mark.parametrize("durable", [False, True], ids=["one driver", "durable"])
@pytest.mark.parametrize("how", [RAISES, REJECTED, CANCELED])
@pytest.mark.parametrize("host_of", [InLab, OnSlots])
def test_a_claimed_snapshot_outlasts_a_job_that_took_no_checkpoint(
    host_of: type[InLab | OnSlots], how: str, durable: bool, tmp_path: Path
) -> None:
    host = host_of(tmp_path)
    job: dict[str, Any] = {"parallelism": 2, "durable": durable}
    first = environment(host.out, host.checkpoints, rows_per_second=30, **job)
    (snapshot,) = host.run(first, 1, STOP)
    rows = host.rows_of(snapshot)
    for _ in range(2):
        status = end_early(host, variant(host, how, durable=durable), snapshot, cancel=how == CANCELED)
        assert status == ("CANCELED" if how == CANCELED else "FAILED")
        assert host.rows_of(snapshot) == rows
    host.run(environment(host.out, host.checkpoints, **job), 1, "finish", restore_path=snapshot, **CLAIM)
    assert host.output() == Counter(ALL)
    with pytest.raises((OSError, ValueError)):
        host.rows_of(snapshot)
