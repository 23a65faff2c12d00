"""Rescaling of running jobs on Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from kit import JobFailedError, RescaleConfig
from kit.hosts.spark import SparkJob
from kit.hosts.spark.driver.warm_slots import WarmSlots
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, generator, staged, totals_job, until
from tests.hosts.spark.test_unaligned import in_flight_bytes

SLOW = generator(rows_per_second=30_000)


@pytest.mark.spark
@pytest.mark.usefixtures("no_thread_left")
def test_up_and_down_each_row_is_published_once(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW), spark) as job:
        job.start()
        assert job.rescale(4) is job
        assert len(job.look.workers()) == 4
        assert set(job.meters()["task"].str.rpartition("/")[0].value_counts()) == {4}
        job.faults.kill(3)
        until(lambda: len(job.look.stages) == 3 and len(job.look.workers()) == 4, job)
        with pytest.raises(ValueError, match="cannot be rescaled: the job needs 100 slots at once"):
            job.rescale(100)
        job.rescale({"totals": 1})
        assert [{each.name: each.parallelism for each in stage.vertices}["totals"] for stage in job.look.stages] == [
            2,
            4,
            4,
            1,
        ]
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []


@pytest.mark.usefixtures("no_thread_left")
def test_in_flight_data_is_dealt_out_while_the_job_runs(tmp_path: Path) -> None:
    job_settings = {"unaligned": True, "memory_threshold_bytes": 0, "tolerable_failures": 1_000, "max_retained": 100}
    env = totals_job(tmp_path, interval_ms=40, copy_pause_ms=20, **job_settings)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        paths = []
        for parallelism in (3, 1, 2):
            await_checkpoint(job, 1, in_flight=True)
            request = job.rescale(parallelism, wait=False)
            until(lambda request=request: job.look.answer(request) is not None, job)  # type: ignore[misc]
            assert {each.parallelism for each in job.look.stages[-1].vertices} == {parallelism}
            paths.append(job.look.answer(request))
        in_flight = [in_flight_bytes(Path(path)) for path in paths if path]
        assert len(in_flight) == 3
        assert max(in_flight) > 0, "barriers overtook nothing: this shows nothing"
        assert job.wait() == "FINISHED"
    check_output(tmp_path)


@pytest.mark.usefixtures("no_thread_left")
def test_what_cannot_be_leaves_the_job_alone(tmp_path: Path) -> None:
    with SparkJob(totals_job(tmp_path, SLOW), launch=ThreadGang) as job:
        job.start()
        with pytest.raises(ValueError, match="can have 1 to 128 subtasks"):
            job.rescale(129)
        with pytest.raises(ValueError, match="no vertex is 'nobody'"):
            job.rescale({"nobody": 2})
        stop = job.stop(tmp_path / "savepoints", wait=False)
        with pytest.raises(JobFailedError, match="the job cannot be rescaled: it is being stopped"):
            job.rescale(3)
        job.wait()
        assert job.look.answer(stop)
        assert len(job.look.stages) == 1


@pytest.mark.usefixtures("no_thread_left")
def test_a_job_goes_on_with_the_slots_that_are_left_and_with_more_when_they_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.hosts.spark.driver.slot_watch.EVERY_MS", 50)
    there = [3]
    rescaling = RescaleConfig(reactive=True, cooldown_ms=300)
    env = totals_job(tmp_path, SLOW, parallelism=3, rescaling=rescaling)
    with SparkJob(env, launch=ThreadGang) as job:
        job._driver.slot_watch.count = lambda: there[0]
        job.start()
        await_checkpoint(job, 1)
        there[0] = 2
        ThreadGang.current.kill(2)
        until(lambda: len(job.look.stages) == 2, job)
        assert {vertex.parallelism for vertex in job.look.stages[-1].vertices} == {2}
        there[0] = 3
        until(lambda: len(job.look.stages) == 3, job)
        assert {vertex.parallelism for vertex in job.look.stages[-1].vertices} == {3}
        assert job.wait() == "FINISHED"
        rescaled = job.trace.story(kind="JobRescaled")
        assert rescaled[0].at_ms >= job.trace.story(kind="StartEpoch")[1].at_ms + 300
        assert len(job.trace.story(kind="SlotsChanged")) == 3
    check_output(tmp_path)


@pytest.mark.usefixtures("no_thread_left")
def test_a_job_that_is_not_reactive_waits_until_all_its_slots_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kit.hosts.spark.driver.slot_watch.WAITING_EVERY_MS", 10)
    there, looked = [2], []
    with SparkJob(totals_job(tmp_path, SLOW), launch=ThreadGang) as job:
        job._driver.slot_watch.count = lambda: looked.append(there[0]) or there[0]
        job.start()
        await_checkpoint(job, 1)
        assert looked == [], "as long as it runs it does not matter"
        there[0] = 0
        ThreadGang.current.kill(0)
        until(lambda: looked.count(0) > 3, job)
        there[0] = 1
        until(lambda: looked.count(1) > 3, job)
        assert (job.status, len(job.look.stages), job.look.summary()["slots"]) == ("RESTARTING", 1, 0)
        there[0] = 5
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert len(job.look.stages) == 2, "nothing was tried in vain"
    assert [each.data["slots"] for each in job.trace.story(kind="SlotsChanged")] == [0, 1, 5]
    assert "totals waits for slots: 0 slots are there, the job needs 2 at least" in caplog.text


def test_slots_that_are_new_count_once_they_are_warm() -> None:
    touched, there, warm = [], [2], threading.Event()

    def parallelize(numbers: range, slices: int) -> SimpleNamespace:
        touched.append(slices)
        return SimpleNamespace(foreachPartition=lambda touch: warm.wait())

    session = SimpleNamespace(sparkContext=SimpleNamespace(parallelize=parallelize))
    slots = WarmSlots(session, lambda: there[0])  # type: ignore[arg-type]
    assert slots() == 2
    there[0] = 5
    assert [slots(), slots()] == [2, 2]
    warm.set()
    assert slots._thread is not None
    slots._thread.join()
    assert slots() == 5
    assert touched == [3], "the new ones, once"
    there[0] = 1
    assert slots() == 1, "what is lost is lost at once"


def test_spare_slots_are_warmed_up_and_those_that_are_wanted_count_cold() -> None:
    touched: list[int] = []

    def parallelize(numbers: range, slices: int) -> SimpleNamespace:
        return SimpleNamespace(foreachPartition=lambda touch: touched.append(slices))

    session = SimpleNamespace(sparkContext=SimpleNamespace(parallelize=parallelize))
    there = [3]
    slots = WarmSlots(session, lambda: there[0], known=2)  # type: ignore[arg-type]
    for there[0], warmed in ((3, [1]), (1, [1]), (3, [1, 2])):
        assert slots() == there[0]
        assert slots._thread is not None
        slots._thread.join()
        assert touched == warmed
