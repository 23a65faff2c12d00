"""The time use of tasks, a look at a running job, and the questions that a user may ask about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import CheckpointConfig, CollectSink, GeneratorSource, SparkJob, StreamEnvironment, count
from kit.draw.charts.live import live_of
from kit.hosts.lab import Lab, ready_job
from kit.hosts.spark.slot import meters
from kit.hosts.spark.slot.meters import MeterReadings, Meters
from tests.hosts.spark.jobs import ThreadGang
from tests.machines.task.harness import TaskHarness, buffer, fan_in
from widgets import Monitor

WAIT_S = 30.0


def _slow(batch: pa.RecordBatch) -> pa.RecordBatch:
    time.sleep(0.02)
    return batch


@pytest.fixture
def job(tmp_path: Path) -> Iterator[SparkJob]:
    """An endless job whose last task is slow."""
    env = StreamEnvironment("slow", parallelism=2, max_parallelism=8, checkpoint=CheckpointConfig(interval_ms=100))
    rows = env.from_source(GeneratorSource(10**9, 50, batch_rows=512), uid="numbers")
    sums = rows.key_by("key").aggregate(rows=count()).uid("sums").name("sums")
    sums.rebalance().map_batches(_slow).uid("slow").name("slow").sink_to(CollectSink("out"), uid="out")
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        yield job


def _until(condition: Callable[[], Any]) -> Any:
    end_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end_s, "it never became so"
        time.sleep(0.05)
    return found


def _is_rated(job: SparkJob) -> bool:
    table = job.meters()
    return len(table) == 6 and bool(table["busy_ms_per_s"].notna().all()) and int(table["records_in"].min()) > 200


def test_a_slow_task_is_busy_and_those_before_it_are_back_pressured(job: SparkJob) -> None:
    looks: list[pd.DataFrame] = []

    def is_slow() -> bool:
        looks.append(job.meters())
        means = looks[-1].assign(vertex=looks[-1]["task"].str[:-2]).groupby("vertex").mean(numeric_only=True)
        slow, numbers = means.loc["slow"], means.loc["numbers"]
        return bool(
            slow["busy_ms_per_s"] > 500 > slow["backpressured_ms_per_s"]
            and numbers["backpressured_ms_per_s"] > 500 > numbers["busy_ms_per_s"]
        )

    _until(lambda: _is_rated(job) and is_slow())  # not before the queues are full
    table = looks[-1]
    assert list(table["task"]) == ["numbers/0", "numbers/1", "sums/0", "sums/1", "slow/0", "slow/1"]
    parts = table[["busy_ms_per_s", "backpressured_ms_per_s", "idle_ms_per_s"]].sum(axis="columns")
    assert parts.round().eq(1000).all()
    assert table["sample"].iloc[0].startswith("key=")
    passed = table.set_index("task")[["records_in", "records_out"]]
    assert (passed.loc[["numbers/0", "sums/0", "sums/1"]] > 0).all(axis=None)
    assert (passed.loc[["slow/0", "slow/1"], "records_in"] > 0).all()


def test_a_look_says_what_the_job_does(job: SparkJob) -> None:
    _until(lambda: _is_rated(job) and len(job.statistics.history))
    live = live_of(job)
    table = live.to_pandas().set_index("vertex")
    assert list(table.index) == ["numbers", "sums", "slow"]
    assert table.loc["slow", "busiest"] > 0.5
    html = live._repr_html_()
    assert all(f">{name}<" in html for name in ("numbers", "sums", "slow"))
    assert f"Checkpoint {live.checkpoint} by subtask" in html
    assert "back-pressured" in html
    assert repr(live) == "Live(slow, RUNNING, epoch 1)"


def test_state_is_counted_and_weighed(job: SparkJob) -> None:
    _until(lambda: job.meters()["state_bytes"].sum() > 0 and job.meters()["state_entries"].sum() == 50)
    table = job.meters().set_index("task")
    assert table.loc[["numbers/0", "numbers/1", "slow/0", "slow/1"], "state_entries"].sum() == 0
    metrics = job.metrics()
    of_sums = metrics[(metrics["operator"] == "sums") & (metrics["metric"] == "state_entries")]
    assert of_sums["value"].tolist() == table.loc[["sums/0", "sums/1"], "state_entries"].tolist()
    assert "50 entries of state" in live_of(job)._repr_html_()


def test_event_time_is_behind_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(meters.time, "monotonic", lambda: clock[0])
    values = {"output_watermark_ms": None, "state_entries": 7}
    operator = {"id": "x", "name": "a", "values": values, "own": {"seen.count": 3}}
    task = SimpleNamespace(
        outputs=SimpleNamespace(writable=True),
        chain=SimpleNamespace(late_rows_dropped={}),
        readings=lambda: [operator | {"values": dict(values), "own": dict(operator["own"])}],
    )
    of, readings = Meters({"a/1": task}), MeterReadings()  # type: ignore[dict-item]
    readings.take(0, of.reading())
    assert readings.to_pandas(["a"], 90_000)["behind_ms"].isna().all(), "there is no watermark yet"
    values["output_watermark_ms"], operator["own"] = 88_500, {"seen.count": 13}
    clock[0] += 2.0
    readings.take(0, of.reading())
    row = readings.to_pandas(["a"], 90_000, {("x", 1): 512, ("x", 0): 1}).iloc[0]
    assert (row["watermark_ms"], row["behind_ms"], row["state_entries"], row["state_bytes"]) == (88_500, 1_500, 7, 512)
    ((subtask, reading),) = readings.operators(["a"])
    assert subtask == 1
    assert reading["own"] == {"seen.count": 13, "seen.per_s": 5.0}
    task.readings = list
    readings.take(0, of.reading())
    assert list(readings.operators(["a"])) == [], "the task was restored as finished"
    assert readings.to_pandas(["a"])["state_entries"].tolist() == [0]


def test_the_monitor_asks_and_says_what_became_of_it(job: SparkJob, tmp_path: Path) -> None:
    watched = Monitor(job)
    try:
        buttons = {button.description: button for button in watched._buttons.values()}

        def said(words: str) -> bool:
            watched.refresh()
            return words in watched._said.value

        buttons["Checkpoint"].click()
        _until(lambda: said("chk-"))
        buttons["Savepoint"].click()
        _until(lambda: said('class="bad"') and said("savepoint: "))
        assert "directory" in watched._said.value.rpartition("<p")[2], "none is configured, and that is said"
        watched._target.value = str(tmp_path / "mine")
        buttons["Savepoint"].click()
        _until(lambda: said(f"savepoint: {tmp_path}/mine/savepoint-"))
        watched._parallelism.value = 9
        buttons["Rescale"].click()
        _until(lambda: said("can have 1 to 8 subtasks"))
        assert not job.ended
        watched._parallelism.value = 3
        buttons["Rescale"].click()
        _until(lambda: said("parallelism 3: done"))
        assert watched.job is job
        _until(lambda: len(job.meters()) == 9)
        assert job.look.restores()["checkpoint_id"].nunique() == 1
        buttons["Cancel"].click()
        _until(lambda: said("cancel: done"))
        assert job.status == "CANCELED"
        assert buttons["Checkpoint"].disabled
        assert buttons["Checkpoint"].tooltip == "the job is canceled"
    finally:
        watched.close()


def test_what_is_no_job_on_spark_is_refused() -> None:
    with pytest.raises(TypeError, match="is a Lab; a SparkJob can be watched"):
        live_of(Lab(ready_job("keyed-sum")))


def test_waiting_is_back_pressure_when_an_output_is_full_and_idleness_when_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(meters.time, "monotonic", lambda: clock[0])
    outputs = SimpleNamespace(writable=True)
    of = Meters({"a/0": SimpleNamespace(outputs=outputs, chain=SimpleNamespace(late_rows_dropped={}), readings=list)})  # type: ignore[dict-item]
    readings = MeterReadings()
    readings.take(0, of.reading())
    for writable, busy_s in ((True, 0.25), (False, 0.5), (True, 0.0)):
        outputs.writable = writable
        of.by_task["a/0"].busy_s += busy_s
        clock[0] += 1.0
        of.sample()
    readings.take(0, of.reading())
    row = readings.to_pandas(["a"]).iloc[0]
    assert [row["busy_ms_per_s"], row["backpressured_ms_per_s"], row["idle_ms_per_s"]] == pytest.approx(
        [250, 500 / 3, 1750 / 3]
    )


def metered(task: TaskHarness, clock: list[float], waits_s: float, busy_s: float) -> dict[str, Any]:
    """Return the meter's reading for a task that waited and then processed something, for these times."""
    of = Meters({"sums/0": task.machine})
    clock[0] += waits_s + busy_s
    of.by_task["sums/0"].busy_s += busy_s
    return of.reading()["sums/0"]


@pytest.mark.flink("StreamTaskTest.testProcessWithUnAvailableInput")
def test_a_task_whose_input_is_unavailable_is_idle_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(meters.time, "monotonic", lambda: clock[0])
    task = TaskHarness(fan_in(2, chaining=False))
    assert not task.machine.available
    read = metered(task, clock, 0.042, 0.044)
    assert (read["idle_s"], read["backpressured_s"], read["busy_s"]) == pytest.approx((0.042, 0, 0.044))
    task.rows(0)
    assert len(task.sent()) == 1, "and goes on when there is some"


@pytest.mark.flink("StreamTaskTest.testProcessWithUnAvailableOutput")
def test_a_task_whose_output_is_unavailable_is_back_pressured_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(meters.time, "monotonic", lambda: clock[0])
    task = TaskHarness(fan_in(2, chaining=False), credits=False)
    for channel in (0, 1):
        task.receive(channel, buffer(), buffer(), run=False)
    task.run()
    assert not task.machine.available
    assert 0 < sum(task.queued) < 4, "some were processed before the output was full"
    read = metered(task, clock, 0.042, 0.044)
    assert (read["backpressured_s"], read["idle_s"], read["busy_s"]) == pytest.approx((0.042, 0, 0.044))
    task.give_credits(4)
    task.run()
    assert task.queued == [0, 0]
    assert len(task.sent()) == 4, "and goes on when there is room"


def test_without_readings_there_is_an_empty_table() -> None:
    assert isinstance(MeterReadings().to_pandas(["a"]), pd.DataFrame)
    assert len(MeterReadings().to_pandas(["a"])) == 0
