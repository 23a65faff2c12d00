"""The failover of regions on Spark: each region is a gang of its own, and the others run on."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit import (
    CheckpointConfig,
    FixedDelay,
    GeneratorSource,
    Lab,
    NoRestart,
    ParquetSink,
    RescaleConfig,
    StreamEnvironment,
    count,
    sum_,
)
from kit.core.protocol.events import SlotLost
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import Trace
from kit.hosts.spark.job import SparkJob
from kit.machines.job.errors import JobFailedError
from kit.run.moments.moment import moments
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, KEYS = 4_000, 50
PATIENCE_S = 100.0
"""The time after which a job that has not ended never will."""
NAMES = ("steady", "shaky")
STEADY, SHAKY = (0, 1), (2, 3)
"""The slots of the two regions."""


def source(rows_per_second: float | None) -> GeneratorSource:
    return GeneratorSource(ROWS, KEYS, splits=4, batch_rows=100, rows_per_second=rows_per_second)


def two_pipelines(
    directory: Path,
    *,
    rows_per_second: float | None = 4_000,
    function: Callable[[dict[str, int]], dict[str, int]] | None = None,
    failover: str = "region",
    restart: Any = None,
    parallelism: int = 2,
    rescaling: RescaleConfig | None = None,
    **checkpoint: Any,
) -> StreamEnvironment:
    """Totals and a copy of each row, in two pipelines that nothing connects; `function` is in `shaky`."""
    env = StreamEnvironment(
        "two pipelines",
        parallelism=parallelism,
        max_parallelism=16,
        failover=failover,
        restart=restart or FixedDelay(1_000, 10),
        rescaling=rescaling,
        checkpoint=CheckpointConfig(interval_ms=50, directory=f"{directory}/checkpoints", **checkpoint),
    )
    for name in NAMES:
        rows = env.from_source(source(rows_per_second), uid=name)
        if function is not None and name == "shaky":
            rows = rows.map(function).uid("function")
        rows.rebalance().sink_to(ParquetSink(f"{directory}/{name}/copy"), uid=f"{name}-copy")
        totals = rows.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid(f"{name}-totals")
        totals.sink_to(ParquetSink(f"{directory}/{name}/totals"), uid=f"{name}-out")
    return env


def check_outputs(directory: Path) -> None:
    """Each pipeline has published each row once, and the totals of all rows."""
    for name in NAMES:
        check_output(directory / name, ROWS, source(None))


def attempts_of(trace: Trace, pipeline: str) -> set[int]:
    """The attempts in which tasks of a pipeline were deployed."""
    deployed = [record for record in trace if record.kind == "DeployTask" and record.role == "command"]
    return {record.data["attempt"] for record in deployed if record.data["task"].startswith(pipeline)}


def lost_tasks(trace: Trace) -> set[str]:
    """The tasks that a picture shows as lost when a slot has been lost."""
    at = next(moment for moment in moments(trace) if moment.record is not None and moment.record.kind == "SlotLost")
    return {task for task, known in at.tasks.items() if known.lost}


def gangs_of(job: SparkJob) -> set[tuple[int, ...]]:
    return {deployment.slots for deployment in job._driver.slots._deployments.values()}


def job_of(env: StreamEnvironment, **options: Any) -> SparkJob:
    return SparkJob(env, launch=ThreadGang, **options)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("slot", SHAKY)
def test_a_lost_slot_restarts_its_region_and_the_other_runs_on(tmp_path: Path, unaligned: bool, slot: int) -> None:
    with job_of(two_pipelines(tmp_path, unaligned=unaligned), record=True) as job:
        job.start()
        await_checkpoint(job, 1)
        assert gangs_of(job) == {STEADY, SHAKY}
        before = job._driver.slots.hellos()
        ThreadGang.of_slot[slot].kill(slot)
        until(lambda: attempts_of(job.trace, "shaky") == {1, 2}, job)
        until(lambda: len(job.look.workers()) == 4, job)
        after = job._driver.slots.hellos()
        assert job.wait(PATIENCE_S) == "FINISHED"
        assert [stage.epoch for stage in job.look.stages] == [1]
        assert job.look.summary()["restarts"] == 1
    assert {each for each in after if after[each] == before[each]} == set(STEADY)
    assert attempts_of(job.trace, "steady") == {1}
    check_outputs(tmp_path)
    trace = job.trace
    lab = Lab.follow(two_pipelines(tmp_path, unaligned=unaligned), trace)
    assert lab.status == "FINISHED"
    in_the_slot = set(job.look.stages[0].slots[slot])
    assert in_the_slot
    assert lost_tasks(trace) == lost_tasks(lab.trace) == in_the_slot
    assert attempts_of(lab.trace, "shaky") == {1, 2}


@pytest.mark.usefixtures("nothing_left")
def test_both_regions_may_restart_one_after_the_other_and_at_once(tmp_path: Path) -> None:
    with job_of(two_pipelines(tmp_path, rows_per_second=800)) as job:
        job.start()
        await_checkpoint(job, 1)
        ThreadGang.of_slot[3].kill(3)
        until(lambda: attempts_of(job.trace, "shaky") == {1, 2}, job)
        until(lambda: len(job.look.workers()) == 4, job)
        ThreadGang.of_slot[0].kill(0)
        until(lambda: attempts_of(job.trace, "steady") == {1, 2}, job)
        until(lambda: len(job.look.workers()) == 4, job)
        ThreadGang.of_slot[1].kill(1)
        ThreadGang.of_slot[2].kill(2)
        assert job.wait(PATIENCE_S) == "FINISHED"
    assert max(attempts_of(job.trace, "steady")) == max(attempts_of(job.trace, "shaky")) == 3
    check_outputs(tmp_path)


class FailsOnce:
    """A function that raises when it first comes to a row, in one of the two subtasks, at its first attempt."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, row: dict[str, int]) -> dict[str, int]:
        if row["key"] == 7 and not self.mark.exists() and any(self.mark.parent.glob("checkpoints/*/*/_metadata")):
            self.mark.touch()
            raise ValueError("not this one")
        return row


@pytest.mark.usefixtures("nothing_left")
def test_a_task_that_fails_restarts_its_region_only(tmp_path: Path) -> None:
    with job_of(two_pipelines(tmp_path, function=FailsOnce(tmp_path / "failed"))) as job:
        assert job.start().wait(PATIENCE_S) == "FINISHED"
    assert (tmp_path / "failed").exists()
    assert attempts_of(job.trace, "shaky") == {1, 2}
    assert attempts_of(job.trace, "steady") == {1}
    check_outputs(tmp_path)


@pytest.mark.usefixtures("nothing_left")
def test_the_failed_region_takes_the_job_with_it_if_no_restart_is_allowed(tmp_path: Path) -> None:
    with job_of(two_pipelines(tmp_path, restart=NoRestart(), rows_per_second=1_000)) as job:
        job.start()
        await_checkpoint(job, 1)
        ThreadGang.of_slot[2].kill(2)
        with pytest.raises(JobFailedError, match="worker 2 was lost"):
            job.wait(PATIENCE_S)
    assert job._driver.slots._deployments == {}


@pytest.mark.usefixtures("nothing_left")
def test_a_job_may_be_cancelled_while_a_region_restarts(tmp_path: Path) -> None:
    env = two_pipelines(tmp_path, restart=FixedDelay(1_000, 60_000), rows_per_second=1_000)
    with job_of(env) as job:
        job.start()
        await_checkpoint(job, 1)
        ThreadGang.of_slot[2].kill(2)
        until(lambda: bool(job.trace.story(kind="TasksStopped")), job)
        assert set(job.look.workers()) == set(STEADY)
        job.cancel()
        assert job.status == "CANCELED"
    assert job._driver.slots._deployments == {}


@pytest.mark.usefixtures("nothing_left")
def test_a_region_waits_for_its_slots_while_the_other_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kit.hosts.spark.driver.slot_watch.WAITING_EVERY_MS", 10)
    there, looked = [4], []
    with job_of(two_pipelines(tmp_path, rows_per_second=1_000)) as job:
        job._driver.slot_watch.count = lambda: looked.append(there[0]) or there[0]
        job.start()
        await_checkpoint(job, 1)
        there[0] = 2
        ThreadGang.of_slot[3].kill(3)
        until(lambda: looked.count(2) > 3, job)
        assert set(job.look.workers()) == set(STEADY)
        there[0] = 4
        until(lambda: len(job.look.workers()) == 4, job)
        assert job.wait(PATIENCE_S) == "FINISHED"
    assert [each.data["slots"] for each in job.trace.story(kind="SlotsChanged")] == [2, 4]
    assert attempts_of(job.trace, "steady") == {1}
    assert "waits for slots: 2 slots are there, the job needs 4" in caplog.text
    check_outputs(tmp_path)


@pytest.mark.usefixtures("nothing_left")
def test_a_region_that_gets_no_slots_fails_the_job_with_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kit.hosts.spark.driver.slot_watch.WAITING_EVERY_MS", 10)
    env = two_pipelines(
        tmp_path, rows_per_second=400, restart=FixedDelay(2, 10), rescaling=RescaleConfig(slot_wait_ms=50)
    )
    there = [4]
    with job_of(env) as job:
        job._driver.slot_watch.count = lambda: there[0]
        job.start()
        await_checkpoint(job, 1)
        there[0] = 3
        ThreadGang.of_slot[2].kill(2)
        said = r"region 2 .* cannot restart: the job needs 4 slots, 3 are there, and the tasks that run hold 2 of them"
        with pytest.raises(JobFailedError, match=said):
            job.wait(PATIENCE_S)


@pytest.mark.usefixtures("nothing_left")
def test_with_full_failover_all_tasks_share_the_slots_and_restart(tmp_path: Path) -> None:
    with job_of(two_pipelines(tmp_path, failover="full")) as job:
        job.start()
        await_checkpoint(job, 1)
        assert gangs_of(job) == {(0, 1)}
        ThreadGang.current.kill(1)
        assert job.wait(PATIENCE_S) == "FINISHED"
        assert [stage.epoch for stage in job.look.stages] == [1, 2]
    check_outputs(tmp_path)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3))])
def test_slots_die_at_random(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    with job_of(two_pipelines(tmp_path, rows_per_second=2_500, unaligned=bool(seed % 2))) as job:
        job.start()
        await_checkpoint(job, 1)
        kills = 0
        while kills < 6 and job.status in ("RUNNING", "RESTARTING"):
            time.sleep(draw.uniform(0, 0.2))
            slot = draw.randrange(4)
            ThreadGang.of_slot[slot].kill(slot)
            kills += 1
        assert job.wait(PATIENCE_S) == "FINISHED"
        assert {stage.epoch for stage in job.look.stages} == {1}
    assert kills >= 3
    check_outputs(tmp_path)


def restarts_of(job: SparkJob) -> int:
    return int(job.look.summary()["restarts"])


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("failover", ["region", "full"])
def test_waiting_for_all_tasks_does_not_end_while_some_restart(tmp_path: Path, failover: str) -> None:
    env = two_pipelines(tmp_path, failover=failover, restart=FixedDelay(1_000, 60_000), rows_per_second=400)
    with job_of(env) as job:
        assert job.start().wait_until_running() is job
        ThreadGang.of_slot[1].kill(1)
        until(lambda: 1 not in job.look.workers(), job)
        for restarts in (0, 1):
            with pytest.raises(TimeoutError, match=r"after 0\.2 s not all tasks run( after 1 restart)?: SparkJob"):
                job.wait_until_running(restarts=restarts, timeout_s=0.2)
        assert job.cancel() == "CANCELED"
        with pytest.raises(RuntimeError, match="ended CANCELED before all tasks ran after 1 restart"):
            job.wait_until_running(restarts=1)


@pytest.mark.usefixtures("nothing_left")
def test_waiting_for_all_tasks_does_not_end_before_a_lost_slot_is_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job_of(two_pipelines(tmp_path, rows_per_second=400)) as job:
        job.start().wait_until_running()
        handle, handled = job._driver.handle, threading.Event()

        def handle_late(event: ProtocolMessage, cause: str = "") -> None:
            if isinstance(event, SlotLost):
                handled.wait()
            handle(event, cause)

        monkeypatch.setattr(job._driver, "handle", handle_late)
        ThreadGang.of_slot[2].kill(2)
        until(lambda: 2 not in job.look.workers(), job)
        try:
            with pytest.raises(TimeoutError):
                job.wait_until_running(timeout_s=0.2)
        finally:
            handled.set()
        assert restarts_of(job.wait_until_running()) == 1
        job.cancel()


@pytest.mark.usefixtures("nothing_left")
def test_restarts_of_regions_of_the_whole_job_and_rescales_are_waited_for_alike(tmp_path: Path) -> None:
    with job_of(two_pipelines(tmp_path, rows_per_second=400)) as job:
        job.start().wait_until_running()
        for number, slot in enumerate((2, 3, 0), 1):
            before = job._driver.slots.hellos()
            ThreadGang.of_slot[slot].kill(slot)
            job.wait_until_running(restarts=number)
            after = job._driver.slots.hellos()
            assert after.keys() == before.keys()
            assert {each for each in after if after[each] != before[each]} == set(SHAKY if slot in SHAKY else STEADY)
        job.rescale(1).wait_until_running(restarts=4, timeout_s=0)
        ThreadGang.of_slot[1].kill(1)
        assert restarts_of(job.wait_until_running(restarts=5)) == 5
        job.cancel()


@pytest.mark.spark
def test_on_spark_each_restart_of_a_region_is_waited_for(tmp_path: Path, spark: SparkSession) -> None:
    with SparkJob(two_pipelines(tmp_path, rows_per_second=400), spark) as job:
        job.start().wait_until_running()
        for number in (1, 2):
            before = job._driver.slots.hellos()
            job.faults.kill(3)
            job.wait_until_running(restarts=number)
            after = job._driver.slots.hellos()
            assert {slot for slot in STEADY + SHAKY if after[slot] != before[slot]} == set(SHAKY)
        job.rescale(1)
        assert restarts_of(job.wait_until_running(restarts=3)) == 3
        job.cancel()


@pytest.mark.spark
def test_on_spark_a_restart_of_all_tasks_is_waited_for(tmp_path: Path, spark: SparkSession) -> None:
    with SparkJob(two_pipelines(tmp_path, rows_per_second=400, failover="full"), spark) as job:
        job.start().wait_until_running()
        before = job._driver.slots.hellos()
        job.faults.kill(0)
        job.wait_until_running(restarts=1)
        after = job._driver.slots.hellos()
        assert [slot for slot in (0, 1) if after[slot] == before[slot]] == []
        assert restarts_of(job) == 1
        job.cancel()


@pytest.mark.spark
def test_on_spark_each_region_is_a_barrier_stage_of_its_own(tmp_path: Path, spark: SparkSession) -> None:
    with SparkJob(two_pipelines(tmp_path, rows_per_second=1_000), spark) as job:
        job.start()
        await_checkpoint(job, 2)
        before = job._driver.slots.hellos()
        job.faults.kill(3)
        job.wait_until_running(restarts=1)
        after = job._driver.slots.hellos()
        with pytest.raises(ValueError, match="cannot be rescaled: the job needs 18 slots at once"):
            job.rescale({"shaky-totals": 16})
        assert job.wait(PATIENCE_S) == "FINISHED"
    assert {slot for slot in after if after[slot] == before[slot]} == set(STEADY)
    assert attempts_of(job.trace, "steady") == {1}
    check_outputs(tmp_path)


@pytest.mark.spark
def test_a_session_with_too_few_slots_shares_them_and_says_so(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    with SparkJob(two_pipelines(tmp_path, parallelism=4), spark) as job:
        job.start()
        await_checkpoint(job, 1)
        assert gangs_of(job) == {(0, 1, 2, 3)}
        job.faults.kill(1)
        assert job.wait(PATIENCE_S) == "FINISHED"
        assert [stage.epoch for stage in job.look.stages] == [1, 2]
    assert "it needs 8 slots to keep them apart, and Spark has " in capsys.readouterr().err
    check_outputs(tmp_path)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("unaligned", [False, True])
def test_on_spark_workers_are_killed_fifty_times(tmp_path: Path, spark: SparkSession, unaligned: bool) -> None:
    draw = random.Random(int(unaligned))
    kills: Counter[str] = Counter()
    with SparkJob(two_pipelines(tmp_path, rows_per_second=40, unaligned=unaligned), spark) as job:
        job.start()
        await_checkpoint(job, 1)
        while kills.total() < 50:
            until(lambda: len(job.look.workers()) == 4, job)
            time.sleep(draw.uniform(0, 0.3))
            slot = draw.randrange(4)
            job.faults.kill(slot)
            kills[NAMES[slot // 2]] += 1
            until(lambda slot=slot: slot not in job.look.workers(), job)  # type: ignore[misc]
        assert job.wait(PATIENCE_S) == "FINISHED"
        assert {stage.epoch for stage in job.look.stages} == {1}
    assert {name: max(attempts_of(job.trace, name)) - 1 for name in NAMES} == kills
    check_outputs(tmp_path)
