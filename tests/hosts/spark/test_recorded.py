"""Runs on Spark that are repeated in the lab: the same events, and the same records."""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from kit import Lab, NoRestart, StreamEnvironment
from kit.core.protocol.events import StateRead, TimerFired
from kit.core.trace.schedule import Handled, Schedule
from kit.core.trace.trace import Trace, keeps_record
from kit.hosts.lab.errors import LabError, LabWarning
from kit.hosts.spark import JobFailedError, SparkJob
from kit.hosts.spark.recording import EventFile, read_schedule
from kit.hosts.spark.recording import recorded as recorded_in
from kit.stream.settings.setting_rules import SlotSharing
from tests.hosts.spark.jobs import RESTARTS, ThreadGang, await_checkpoint, check_output, generator, totals_job, until
from tests.hosts.spark.one_driver import ROWS_PER_SECOND
from tests.hosts.spark.test_two_drivers import drive

ROWS = 20_000


def recorded(env: StreamEnvironment, restore_path: str | None = None, *, kill: bool = False) -> Trace:
    """The recording of the job, run to its end by the driver and slots of Spark, as threads."""
    try:
        with SparkJob(env, None, restore_path, launch=ThreadGang, record=True) as job:
            job.start()
            if kill:
                await_checkpoint(job, 2)
                ThreadGang.current.kill(1)
            assert job.wait() == "FINISHED"
    finally:
        for thread in threading.enumerate():
            if thread.name.startswith("kit-"):
                thread.join(10)
    return job.trace


@pytest.mark.spark
@pytest.mark.usefixtures("no_thread_left")
def test_a_worker_killed_in_the_middle_of_a_checkpoint_dies_so_in_the_lab(spark: SparkSession, tmp_path: Path) -> None:
    env = totals_job(tmp_path, generator(ROWS), copy_pause_ms=60)
    with SparkJob(env, spark, record=True) as job:
        job.start()
        await_checkpoint(job, 1)
        until(lambda: in_progress(job) > 0, job)
        broken = in_progress(job)
        job.faults.kill(1)
        assert job.wait() == "FINISHED"
        with_schedule = job.trace.save_recording(tmp_path / "killed.recording")
        trace, output = job.trace, {name: job.output(name) for name in ("copy", "totals")}
    check_output(tmp_path, ROWS)

    lab = Lab.follow(env, with_schedule)
    assert lab.past.agreement is not None
    assert lab.past.agreement.records == len(trace) > 500
    assert lab.past.agreement.events == len(trace.schedule) > 500
    assert {machine.rpartition("/")[2] for machine in lab.past.agreement.unheard} <= {"1@1"}
    assert lab.status == "FINISHED"
    statuses = lab.checkpoints().set_index("id")["status"]
    assert statuses[broken] == "FAILED"
    pd.testing.assert_frame_equal(lab.checkpoints(), job.checkpoints())
    assert statuses.tolist().count("COMPLETED") >= 2
    assert [record.data["slot"] for record in lab.trace.story(kind="SlotLost")] == [1]
    assert len(lab.look.restores()) > 0
    pd.testing.assert_frame_equal(lab.look.restores(), job.look.restores())
    for name, rows in output.items():
        columns = list(rows.columns)
        mine = lab.output(name).sort_values(columns, ignore_index=True)
        assert mine.equals(rows.sort_values(columns, ignore_index=True))


def in_progress(job: SparkJob) -> int:
    """A checkpoint that some task has acknowledged and others have not; 0 while there is none."""
    taken = job.checkpoints().query("status == 'IN_PROGRESS' and acked > 0")
    return int(taken["id"].max()) if len(taken) else 0


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.usefixtures("nothing_left")
def test_every_record_is_the_same(tmp_path: Path, unaligned: bool) -> None:
    env = totals_job(tmp_path, generator(ROWS, 40_000), interval_ms=50, unaligned=unaligned, aligned_timeout_ms=0)
    trace = recorded(env, kill=True)
    lab = Lab.follow(env, trace)
    assert lab.past.agreement is not None
    assert lab.past.agreement.records == len(trace) > 300
    known = {record.id for record in trace}
    lost = [record for record in lab.trace if record.id not in known and keeps_record(record)]
    assert len(lost) == sum(lab.past.agreement.unheard.values())
    assert all("/1@1" in record.id or "slot 1@1" in record.id for record in lost)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("nothing_left")
def test_whatever_happens_happens_again(tmp_path: Path, seed: int) -> None:
    at_random(tmp_path, random.Random(seed))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_much_that_happens_happens_again(tmp_path: Path, seed: int) -> None:
    at_random(tmp_path, random.Random(seed))


def at_random(directory: Path, chance: random.Random) -> None:
    """A job with settings and kills at random, ended by itself, by the user or by an error; and then in the lab."""
    pick = chance.choice
    checkpoint: dict[str, Any] = {"unaligned": pick([False, True]), "local_recovery": pick([False, True])}
    if checkpoint["unaligned"]:
        checkpoint["aligned_timeout_ms"] = pick([0, 5, 50])
    source = generator(ROWS // 2, pick([None, 20_000, 60_000]))
    env = totals_job(
        directory,
        source,
        parallelism=pick([1, 2, 3]),
        interval_ms=pick([20, 50, 200]),
        copy_pause_ms=pick([0, 5, 20]),
        restart=pick([RESTARTS, RESTARTS, NoRestart()]),
        **checkpoint,
    )
    with SparkJob(env, launch=ThreadGang, record=True) as job:
        job.start()
        end = pick([job.wait, job.wait, job.cancel, lambda: job.stop(directory / "savepoints")])
        for _ in range(pick([0, 1, 1, 2])):
            time.sleep(chance.uniform(0, 0.3))
            workers = job.look.workers()
            if workers:
                ThreadGang.current.kill(pick(list(workers)))
        with contextlib.suppress(JobFailedError):
            end()
            job.wait()
    for thread in threading.enumerate():
        if thread.name.startswith("kit-"):
            thread.join(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabWarning)
        lab = Lab.follow(env, job.trace)
        rows = len(lab.output("copy"))
    assert lab.past.agreement is not None
    assert lab.past.agreement.records == len(job.trace)
    assert lab.past.agreement.events == len(job.trace.schedule)
    assert rows == len(job.output("copy"))
    pd.testing.assert_frame_equal(lab.checkpoints(), job.checkpoints())


@pytest.mark.usefixtures("nothing_left")
def test_a_job_goes_on_from_a_savepoint_as_it_did(tmp_path: Path) -> None:
    lab = path = None
    for parallelism in (2, 3):
        env = totals_job(tmp_path, generator(ROWS, 40_000), parallelism=parallelism, unaligned=True, interval_ms=50)
        with SparkJob(env, None, path, launch=ThreadGang, record=True) as job:
            job.start()
            if parallelism == 2:
                path = job.stop(tmp_path / "savepoints")
            job.wait()
        lab = Lab.follow(env, job.trace, after=lab)
        assert lab.past.agreement is not None
        assert lab.past.agreement.records == len(job.trace)
    assert lab is not None
    assert len(lab.output("copy")) == ROWS

    alone = Lab.follow(env, job.trace)
    assert list(alone.trace) == list(lab.trace)
    rows = lab.output("totals").sort_values("key", ignore_index=True)
    pd.testing.assert_frame_equal(alone.output("totals").sort_values("key", ignore_index=True), rows)
    shutil.rmtree(str(path))
    with pytest.raises(LabError, match=rf"(?s)went on from the snapshot {path}, and .* give after="):
        Lab.follow(env, job.trace)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_died_is_followed_to_its_death(tmp_path: Path, moment: str) -> None:
    assert drive(tmp_path, "filesystem", recover=False, die=("WriteMetadata", moment, 2), record=True) is None
    trace = recorded_in(tmp_path)
    lab = Lab.follow(totals_job(tmp_path, generator(rows_per_second=ROWS_PER_SECOND), store="filesystem"), trace)
    assert lab.past.agreement is not None
    assert lab.past.agreement.events == len(trace.schedule) > 100
    assert lab.status == "RUNNING"
    assert sorted(lab.checkpoints()["status"]) == ["COMPLETED", "IN_PROGRESS"]
    assert lab.past.last_action.event.machine != "lab"
    lab.run()
    assert len(lab.output("copy")) == 60_000


def test_where_no_driver_has_recorded_or_several_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no driver has recorded a run"):
        recorded_in(tmp_path)
    for run in ("one", "two"):
        (tmp_path / run).mkdir()
        EventFile(str(tmp_path / run), "driver").close()
    with pytest.raises(ValueError, match="2 runs are recorded below"):
        recorded_in(tmp_path)


# --- a recording that is not the run's -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[StreamEnvironment, Trace]:
    """A job and its recording."""
    env = totals_job(tmp_path_factory.mktemp("run"), generator(4_000), interval_ms=20)
    return env, recorded(env)


def without(schedule: Schedule, left_out: Handled) -> Schedule:
    processes = {name: [each for each in of if each is not left_out] for name, of in schedule.processes.items()}
    return Schedule(processes, host=schedule.host, job_id=schedule.job_id, checkpoints=schedule.checkpoints)


@pytest.mark.parametrize(
    ("kind", "machine", "message"),
    [
        ("AcknowledgeCheckpoint", "job", r"the lab is at job#\d+ where the recording says .* job#\d+"),
        ("ProcessInput", "rows/0", r"the lab is at rows/0@1#\d+ where the recording says .* rows/0@1#\d+"),
        ("DeployTask", "rows/1", r"the lab (is at rows/1@1#\d where|cannot)"),
    ],
)
def test_an_event_that_is_left_out_is_missed(
    run: tuple[StreamEnvironment, Trace], kind: str, machine: str, message: str
) -> None:
    env, trace = run
    assert trace.schedule is not None
    left_out = next(each for each in trace.schedule if each.kind == kind and each.machine == machine)
    with pytest.raises(LabError, match=message):
        Lab.follow(env, Trace(trace, stages=trace.stages, schedule=without(trace.schedule, left_out)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"at_ms": 1}, "the lab's record .* is 1 ms job CheckpointCompleted chk-1 in the recording"),
        ({"cause": "job#1"}, "led to it in the lab, 'job#1' in the recording"),
        ({"data": {}}, "is .* in the lab, None in the recording"),
        (None, "the lab's record .* CheckpointCompleted chk-1 is .* NotifyCheckpointComplete chk-1 in the recording"),
    ],
)
def test_a_record_that_is_not_the_labs_is_told(
    run: tuple[StreamEnvironment, Trace], changed: dict[str, Any] | None, message: str
) -> None:
    env, trace = run
    found = next(record for record in trace if record.kind == "CheckpointCompleted")
    records = [
        record if record is not found else replace(found, **changed)
        for record in trace
        if changed is not None or record is not found
    ]
    with pytest.raises(LabError, match=f"the lab does not do what was recorded of .* {message}"):
        Lab.follow(env, Trace(records, stages=trace.stages, schedule=trace.schedule))


def test_where_in_a_record_the_difference_is_is_told(run: tuple[StreamEnvironment, Trace]) -> None:
    env, trace = run
    found = next(record for record in trace if record.kind == "AcknowledgeCheckpoint" and record.data["state"])
    metrics = {**found.data["metrics"], "bytes_persisted": 10**9}
    changed = replace(found, data={**found.data, "metrics": metrics})
    records = [changed if record is found else record for record in trace]
    with pytest.raises(LabError, match=r"metrics\.bytes_persisted is \d+ in the lab, 1000000000 in the recording"):
        Lab.follow(env, Trace(records, stages=trace.stages, schedule=trace.schedule))


def test_another_jobs_recording_is_told(run: tuple[StreamEnvironment, Trace], tmp_path: Path) -> None:
    with pytest.raises(LabError, match="the lab"):
        Lab.follow(totals_job(tmp_path, generator(5_000), interval_ms=20), run[1])


def test_a_run_that_was_not_recorded_is_no_scenario(run: tuple[StreamEnvironment, Trace], tmp_path: Path) -> None:
    env, trace = run
    with pytest.raises(ValueError, match=r"SparkJob\(env, record=True\)"):
        Trace(trace, stages=trace.stages).save_recording(tmp_path / "run.recording")
    with pytest.raises(ValueError, match="does not say what its machines did with single buffers"):
        Lab.follow(env, Trace(trace, stages=trace.stages))


def test_a_recording_can_be_kept_where_the_user_says(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir()
    with SparkJob(totals_job(tmp_path, generator(1_000)), launch=ThreadGang, record=tmp_path / "recordings") as job:
        job.start()
        job.wait()
    (kept,) = (tmp_path / "recordings").iterdir()
    assert sorted(path.name for path in kept.iterdir()) == [
        "driver.events", "epoch 1 slot 0.events", "epoch 1 slot 1.events",
    ]  # fmt: skip


def test_what_was_done_without_a_word_and_a_line_that_was_not_ended(tmp_path: Path) -> None:
    file = EventFile(str(tmp_path), "epoch 1 slot 0")
    file.add("rows/0@1#1", 7, TimerFired(timer="source"), "rows/0@1#0.1")
    file.add("rows/0@1#2", 8, StateRead(parts=(), from_local=2), "rows/0@1#1.1")
    for command in ("rows/0@1#1.1", "rows/0@1#1.2"):
        file.add_done(command)
    file.close()
    file.add_done("rows/0@1#1.3")
    with file.path.open("ab") as written:
        written.write(b'["rows/0@1#3",9,"ProcessIn')
    driver = EventFile(str(tmp_path), "driver")
    driver.begin("0" * 32, "checkpoints", SlotSharing.REGION)
    driver.close()
    read = read_schedule(str(tmp_path))
    assert (read.job_id, read.checkpoints) == ("0" * 32, "checkpoints")
    assert list(read) == [
        Handled("rows/0@1#1", 7, "TimerFired", "rows/0@1#0.1", {"timer": "source"}),
        Handled("rows/0@1#2", 8, "StateRead", "rows/0@1#1.1", {"from_local": 2}),
    ]
    assert read.done == {"rows/0@1#1.2"}
    assert Schedule.from_dict(read.to_dict()).to_dict() == read.to_dict()


def test_a_directory_that_workers_cannot_write_to_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"epoch 1 slot 0 cannot write down what it does: .* give SparkJob\(record=...\)"):
        EventFile(str(tmp_path / "nowhere"), "epoch 1 slot 0")
