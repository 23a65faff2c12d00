"""Several jobs in one process: none continues unnoticed."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kit
from kit.hosts.spark import SparkJob, preflight
from kit.hosts.spark.driver.driver import JobFailedError
from kit.hosts.spark.preflight import check_session, waits_for
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, generator, totals_job

SLOW = generator(rows_per_second=2_000)  # no test waits for its end, and none may come after it


def started(directory: Path, **options: Any) -> SparkJob:
    return SparkJob(totals_job(directory, SLOW, **options), launch=ThreadGang).start()


@pytest.mark.usefixtures("nothing_left")
def test_a_job_under_the_same_variable_leaves_the_first_in_sight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = started(tmp_path / "first")
    assert "also running" not in capsys.readouterr().err
    job = started(tmp_path / "second")
    gc.collect()
    assert "job totals is started; also running: SparkJob(totals, RUNNING, epoch 1); kit.running()" in (
        capsys.readouterr().err
    )
    assert "also running: SparkJob(totals, RUNNING, epoch 1)" in job._repr_html_()
    first, second = kit.running()
    assert second is job
    assert kit.running()["totals"] is job
    assert repr(kit.running()[:1]) == "RunningJobs(SparkJob(totals, RUNNING, epoch 1))"
    first.close()
    assert list(kit.running()) == [job]
    kit.running().cancel()
    assert [first.status, job.status] == ["CANCELED", "CANCELED"]
    assert repr(kit.running()) == "RunningJobs(none)"
    assert kit.running()._repr_html_() == "<i>no job runs on Spark</i>"


@pytest.mark.usefixtures("nothing_left")
def test_what_runs_is_a_table(tmp_path: Path) -> None:
    with started(tmp_path) as job:
        await_checkpoint(job, 1)
        (row,) = kit.running().to_pandas().to_dict("records")
        assert row["since"].timestamp() == int(job.started_s)
        assert {name: row[name] for name in ("name", "status", "epoch", "slots", "restarts", "end_with")} == {
            "name": "totals",
            "status": "RUNNING",
            "epoch": 1,
            "slots": 2,
            "restarts": 0,
            "end_with": "kit.running()[0].cancel()",
        }
        assert row["checkpoint"] >= 1
        html = kit.running()._repr_html_()
        assert set(re.findall(r"<th[^>]*>([^<]+)</th>", html)) >= {"name", "end with"}
        assert re.search(r"<td[^>]*>kit\.running\(\)\[0\]\.cancel\(\)</td>", html)
        with pytest.raises(KeyError, match="no job 'sums' runs; totals does"):
            kit.running()["sums"]


class Session:
    """A session of four slots, which says what Spark would."""

    def __init__(self, stopped: bool = False) -> None:
        pool = SimpleNamespace(defaultResourceProfile=lambda: None)
        inner = SimpleNamespace(
            isStopped=lambda: stopped, maxNumConcurrentTasks=lambda _: 4, resourceProfileManager=lambda: pool
        )
        self.sparkContext = SimpleNamespace(
            master="local[4]",
            applicationId="local-1",
            getConf=lambda: {"spark.authenticate": "true"},
            _jsc=SimpleNamespace(sc=lambda: inner),
        )


def other(name: str, slots: int, spark: object) -> Any:
    look = SimpleNamespace(summary=lambda: {"slots": slots})
    return SimpleNamespace(job=SimpleNamespace(name=name), spark=spark, look=look)


def test_who_holds_the_slots_is_said() -> None:
    spark: Any = Session()
    assert waits_for(spark, 2, [other("a", 2, spark), other("elsewhere", 4, Session())]) == ""
    said = waits_for(spark, 3, [other("a", 1, spark), other("b", 1, spark)])
    assert said == "it waits for 3 of Spark's 4 slots, of which job a holds 1, job b holds 1"


def test_a_session_that_cannot_run_the_job_is_refused() -> None:
    spark: Any = Session(stopped=True)
    with pytest.raises(JobFailedError, match=r"job sums cannot run: its Spark session was stopped; .*slots=2"):
        check_session(spark, "sums", 2)
    spark = Session()
    check_session(spark, "sums", 4)
    with pytest.raises(JobFailedError, match=r"job sums cannot run: the job needs 5 slots at once and Spark has 4"):
        check_session(spark, "sums", 5)
    check_session(spark, "sums", 3, beside=1)
    with pytest.raises(JobFailedError, match=r"needs 4 slots and a core for the query of its .* and Spark has 4"):
        check_session(spark, "sums", 4, beside=1)


def test_a_spark_connect_session_is_refused() -> None:
    connect: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(JobFailedError, match="job sums cannot run on a Spark Connect session"):
        check_session(connect, "sums", 2)


@pytest.mark.parametrize("master", ["spark://head:7077", "local-cluster[2,1,1024]"])
def test_executors_on_their_way_are_waited_for(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    left = ["there are none", "there is one", ""]
    monkeypatch.setattr(preflight, "missing_slots", lambda spark, *cores: left.pop(0) if len(left) > 1 else left[0])
    monkeypatch.setattr(preflight, "is_stopped", lambda spark: False)
    monkeypatch.setattr(preflight, "ASK_EVERY_S", 0.0)
    context = SimpleNamespace(master=master, applicationId="app-1", getConf=lambda: {"spark.authenticate": "true"})
    cluster: Any = SimpleNamespace(sparkContext=context)
    check_session(cluster, "sums", 2, wait_s=60)
    left[:] = ["there are none"]
    with pytest.raises(JobFailedError, match="there are none"):
        check_session(cluster, "sums", 2)
