"""Workers that died because memory ran out are distinguished from other deaths."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.hosts.spark.driver.gang import explain
from kit.hosts.spark.driver.oom_kills import OomKills
from kit.hosts.spark.job import SparkJob
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, totals_job, until

LOST = "Job aborted: ExecutorLostFailure (executor 1 exited) Reason: Command exited with code {code}"


def counted(path: Path, kills: int) -> Path:
    path.write_text(f"low 0\nhigh 3\noom 7\noom_kill {kills}\noom_group_kill 0\n")
    return path


def test_a_count_that_has_grown_names_the_cause_and_the_limit(tmp_path: Path) -> None:
    counters = [counted(tmp_path / "memory.events", 4), tmp_path / "missing"]
    limit = tmp_path / "memory.max"
    limit.write_text("536870912\n")
    kills = OomKills(counters, [tmp_path / "missing", limit])
    assert kills.explain() == ""
    counted(tmp_path / "memory.events", 5)
    assert "(SIGKILL) because memory ran out (the limit is 512 MiB): give" in kills.explain()


@pytest.mark.parametrize("limit", ["max\n", str(2**63 - 4096)])
def test_no_limit_is_not_told(tmp_path: Path, limit: str) -> None:
    counter = counted(tmp_path / "vmstat", 0)
    (tmp_path / "memory.max").write_text(limit)
    kills = OomKills([counter], [tmp_path / "memory.max"])
    counted(counter, 1)
    assert "because memory ran out: give" in kills.explain()


@pytest.mark.parametrize(("code", "killed"), [(137, True), (1, False), (1370, False)])
def test_sparks_exit_code_is_put_in_words(code: int, killed: bool) -> None:
    text = f"Could not recover from a failed barrier ResultStage. Most recent failure reason: {LOST.format(code=code)}"
    said = explain(RuntimeError(text))
    assert LOST.format(code=code) in said
    assert ("SIGKILL" in said) is killed


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("kills", [0, 1])
def test_a_lost_worker_of_this_machine_says_whether_memory_ran_out(tmp_path: Path, kills: int) -> None:
    counter = counted(tmp_path / "memory.events", 2)
    with SparkJob(totals_job(tmp_path, generator(rows_per_second=30_000)), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 1)
        (deployment,) = job._driver.slots._deployments.values()
        deployment.oom_kills = OomKills([counter], [])
        counted(counter, 2 + kills)
        ThreadGang.current.kill(1)
        until(lambda: any(record.kind == "SlotLost" for record in job.trace), job)
        (lost,) = [record for record in job.trace if record.kind == "SlotLost"]
        assert ("because memory ran out" in lost.data["error"]) is bool(kills)
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
