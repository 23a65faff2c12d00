"""`SparkJob.statistics`: what Flink's web UI shows of checkpoints, of a job that runs on real slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hosts.spark.job import SparkJob
from kit.run.statistics import HISTORY, SUBTASKS
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, generator, totals_job, until

SLOW = generator(rows_per_second=30_000)
TASKS = {f"{vertex}/{subtask}" for vertex in ("rows", "copy", "totals") for subtask in (0, 1)}


@pytest.mark.usefixtures("nothing_left")
def test_statistics_tell_the_life_of_a_job_and_do_not_change_once_taken(tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW, memory_threshold_bytes=0), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 1)
        ThreadGang.current.kill(1)
        until(lambda: not job.look.restores().empty, job)
        restored = int(job.look.restores()["checkpoint_id"].iloc[0])
        await_checkpoint(job, restored + 1)
        early = job.statistics
        seen = early.counts
        savepoint = job.savepoint(tmp_path / "savepoints")
        job.wait()
        statistics = job.statistics

    assert early.counts.equals(seen)
    [counts] = statistics.counts.to_dict("records")
    assert counts["triggered"] == counts["completed"] + counts["failed"] + counts["in_progress"]
    assert counts["completed"] > seen["completed"].item()
    assert counts["restored"] == 1
    assert statistics.latest.loc["restore", "id"] == restored
    assert statistics.latest.loc["savepoint", "path"] == savepoint

    history = statistics.history
    assert tuple(history.columns) == tuple(HISTORY)
    assert list(history["id"]) == sorted(history["id"], reverse=True)
    done = history[history["status"] == "COMPLETED"]
    assert set(done["id"]) == set(job.checkpoints().query("status == 'COMPLETED'")["id"])
    assert (done["full_bytes"] > 0).all()
    assert (done["duration_ms"] >= 0).all()
    assert (statistics.summary["count"] == len(done)).all()

    for number in (restored, int(statistics.latest.loc["savepoint", "id"])):
        subtasks = statistics.subtasks(number)
        assert tuple(subtasks.columns) == SUBTASKS
        assert set(subtasks["task"]) == TASKS
        assert (subtasks["status"] == "acknowledged").all()
        assert (subtasks["end_to_end_ms"] >= 0).all()
    assert statistics.configuration["interval_ms"] == 100
