"""Jobs on Spark itself: real processes, and SIGKILL."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kit import CheckpointConfig, NoRestart, ParquetSink, ParquetSource, StreamEnvironment
from kit.hosts.spark import JobFailedError, SparkJob, create_session
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.wire.endpoint import WireSettings
from tests.hosts.spark.jobs import (
    LASTING,
    await_checkpoint,
    await_rows,
    check_output,
    generator,
    staged,
    totals_job,
    until,
)
from tests.house.files import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_thread_left")]

SLOW = generator(rows_per_second=30_000)


def alive(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(autouse=True)
def _spark_holds_no_task_of_ours(spark: SparkSession) -> Iterator[None]:
    yield
    gc.collect()
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []


def test_a_job_publishes_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path), spark) as job:
        job.start()
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []


def test_a_file_that_is_written_anew_while_it_is_read_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = pa.table({"key": pa.array(range(300_000)), "value": pa.array(range(300_000))})
    pq.write_table(table, path, row_group_size=10_000)
    env = StreamEnvironment("changed", parallelism=2, checkpoint=CheckpointConfig(interval_ms=50))
    rows = env.from_source(ParquetSource(path), uid="rows")
    rows.map(slowly).uid("slowly").sink_to(ParquetSink(tmp_path / "out"), uid="out")
    with SparkJob(env, spark) as job:
        job.start()
        await_checkpoint(job, 2)
        pq.write_table(table.slice(0, 100_000), path.with_suffix(".new"), row_group_size=10_000)
        path.with_suffix(".new").replace(path)
        with pytest.raises(JobFailedError, match=r"rows\.parquet was rewritten after the job had started"):
            job.wait()
        assert len(job.look.stages) == 1, "it was not restarted"


def slowly(row: dict[str, int]) -> dict[str, int]:
    """So that a part of the file remains to be read."""
    if row["key"] % 1_000 == 0:
        time.sleep(0.05)
    return row


def test_a_killed_worker_costs_no_row_and_repeats_none(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW), spark) as job:
        job.start()
        await_checkpoint(job, 2)
        before = job.look.workers()
        assert sorted(before) == [0, 1]
        assert job.faults.kill(1) == before[1]
        until(lambda: len(job.look.stages) == 2 and len(job.look.workers()) == 2, job)
        assert job.wait() == "FINISHED"
        assert not alive(before[1])
    check_output(tmp_path)
    assert (job.look.restores()["checkpoint_id"] >= 2).all()
    lost = [record for record in job.trace if record.kind == "SlotLost"]
    assert [record.data["slot"] for record in lost] == [1]
    assert f"process {before[1]}: " in lost[0].data["error"]
    assert "its process died" in lost[0].data["error"]


def test_stopped_and_resumed_with_more_and_fewer_slots(spark: SparkSession, tmp_path: Path) -> None:
    savepoint = None
    for parallelism in (2, 3):
        with SparkJob(totals_job(tmp_path, LASTING, parallelism=parallelism), spark, savepoint) as job:
            job.start()
            await_rows(job)
            savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(totals_job(tmp_path, parallelism=1), spark, savepoint) as job:
        job.start()
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    keyed = job.look.restores().query("kind == 'keyed'")
    assert keyed["from"].tolist() == [[0, 1, 2]]


def test_a_frozen_worker_is_noticed_and_replaced(spark: SparkSession, tmp_path: Path) -> None:
    wire = WireSettings(heartbeat_interval_ms=100, heartbeat_timeout_ms=1_000)
    settings = DriverSettings(wire=wire, leave_ms=60_000)  # Spark kills it too, two seconds after a cancellation
    with SparkJob(totals_job(tmp_path, SLOW), spark, settings=settings) as job:
        job.start()
        await_checkpoint(job, 2)
        frozen = job.look.workers()[0]
        os.kill(frozen, signal.SIGSTOP)
        assert job.wait() == "FINISHED"
        assert not alive(frozen)
    check_output(tmp_path)
    lost = [record.data["error"] for record in job.trace if record.kind == "SlotLost"]
    assert any("no heartbeat" in error for error in lost)


@pytest.mark.parametrize("seed", range(3))
def test_workers_killed_at_any_moment(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    kill_at_random(spark, tmp_path, kills=3, chance=random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_workers_killed_many_times(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    kill_at_random(spark, tmp_path, kills=10, chance=random.Random(seed))


def kill_at_random(spark: SparkSession, directory: Path, kills: int, chance: random.Random) -> None:
    """Kill workers, each a random time after the last, whatever the job does then."""
    with SparkJob(totals_job(directory, SLOW), spark) as job:
        job.start()
        killed = 0
        while killed < kills and job.status not in ("FINISHED", "FAILED"):
            time.sleep(chance.uniform(0.0, 0.5))
            workers = job.look.workers()
            if workers:
                job.faults.kill(chance.choice(list(workers)))
                killed += 1
        assert job.wait() == "FINISHED"
    check_output(directory)
    assert staged(directory) == []


def test_too_few_slots_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, parallelism=7), spark) as job:
        with pytest.raises(JobFailedError, match=r"needs 7 slots at once and Spark has 6 .*slots=7"):
            job.start()
        assert repr(job).startswith("SparkJob(totals, CREATED, epoch 0, not started: job totals cannot run: ")


def fails_at_7(row: dict[str, int]) -> dict[str, int]:
    if row["key"] == 7:
        raise KeyError("no carrier 7")
    return row


def test_an_error_of_a_users_function_names_it(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, restart=NoRestart(), function=fails_at_7), spark) as job:
        with pytest.raises(RuntimeError, match="has not been started"):
            job.wait_until_running()
        job.start()
        with pytest.raises(JobFailedError, match="no carrier 7") as caught:
            job.wait_until_running(restarts=1)
    assert "in fails_at_7" in caught.value.worker_traceback
    assert staged(tmp_path) == []


def stuck(row: dict[str, int]) -> dict[str, int]:
    time.sleep(3600)
    return row


def test_a_worker_stuck_in_a_users_function_is_ended(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, function=stuck), spark, settings=DriverSettings(kill_ms=200)) as job:
        job.start()
        assert job.wait_until_running() is job
        assert [record.data["epoch"] for record in job.trace.story(kind="AllTasksRunning")] == [1]
        with pytest.raises(TimeoutError, match=r"after 0\.1 s not all tasks run after 1 restart: SparkJob\("):
            job.wait_until_running(restarts=1, timeout_s=0.1)
        workers = job.look.workers()
        assert job.cancel() == "CANCELED"
        with pytest.raises(RuntimeError, match="ended CANCELED before all tasks ran after 1 restart"):
            job.wait_until_running(restarts=1)
        assert not any(map(alive, workers.values()))


def test_functions_of_a_script_reach_the_workers(tmp_path: Path) -> None:
    """Objects that a script or notebook defines travel with the job; a job that nobody ends ends with its process."""
    script = """
        from kit import CheckpointConfig, CollectSink, GeneratorSource, StreamEnvironment, create_session, SparkJob
        class Doubled:
            def __call__(self, row):
                return {**row, "value": 2 * row["value"]}
        if __name__ == "__main__":
            env = StreamEnvironment("script", checkpoint=CheckpointConfig(interval_ms=100))
            rows = env.from_source(GeneratorSource(1_000, 10), uid="rows")
            rows.map(Doubled()).sink_to(CollectSink("out"))
            job = SparkJob(env).start()
            job.wait()
            print(job.output()["value"].mod(2).sum(), len(job.output()))
            env.from_source(GeneratorSource(10**9, 10, rows_per_second=10), uid="endless").sink_to(CollectSink("never"))
            SparkJob(env).start().wait(0.5)
    """
    lines = [line.removeprefix(" " * 8) for line in script.splitlines()]
    (tmp_path / "script.py").write_text("\n".join(lines))
    ran = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.stdout == "0 1000\n", ran.stderr
    assert ran.returncode == 0


def test_the_session_is_made_once(spark: SparkSession) -> None:
    assert create_session(slots=4) is spark
    assert spark.conf.get("spark.sql.session.timeZone")
