"""The numbers of a run over time agree with the statistics, the phases of the subtasks and the actions."""

from __future__ import annotations

import pytest

from kit.core.trace.trace import Trace
from kit.hosts.lab import Lab
from kit.run.over_time import OverTime, over_time_of
from kit.why.phases import phases
from tests.hosts.lab.jobs import Shape, environment
from tests.hosts.spark.saved_run import saved
from tests.several_run import job, moments


@pytest.fixture(scope="module")
def lab() -> Lab:
    """The run with several of everything, at its end."""
    *_, (_, lab, _) = moments()
    return lab


@pytest.fixture(scope="module")
def numbers(lab: Lab) -> OverTime:
    return over_time_of(lab)


def test_checkpoints_are_those_of_the_statistics(lab: Lab, numbers: OverTime) -> None:
    told = lab.statistics.history.set_index("id").sort_index()
    mine = numbers.checkpoints.set_index("checkpoint_id")
    assert list(mine.index) == list(told.index)
    assert len(mine) > 5
    complete = mine[mine["status"] == "completed"]
    assert complete["triggered_ms"].tolist() == told.loc[complete.index, "triggered_at_ms"].tolist()
    assert set(complete.index) == set(told.index[told["status"] == "COMPLETED"])
    ends = [record.at_ms for record in lab.trace if record.kind == "CheckpointCompleted"]
    assert (complete["triggered_ms"] + complete["duration_ms"]).tolist() == ends
    assert complete["slowest_ms"].tolist() == told.loc[complete.index, "duration_ms"].tolist()  # Flink's ends there
    beside_tasks = complete["size_bytes"] - told.loc[complete.index, "full_bytes"]  # state of operator coordinators
    assert beside_tasks.between(1, 100).all()
    assert complete["size_bytes"].nunique() > 1
    assert set(mine["kind"]) == {"checkpoint", "savepoint"}
    assert mine.loc[mine["status"] == "aborted", "size_bytes"].isna().all()


def test_the_skew_is_that_of_the_subtasks_that_have_acknowledged(lab: Lab, numbers: OverTime) -> None:
    for row in numbers.checkpoints.itertuples():
        subtasks = phases(lab, row.checkpoint_id)
        took = subtasks.loc[subtasks["status"] == "acknowledged"].set_index("task")["total_ms"]
        if took.empty:
            assert row.slowest == ""
            continue
        assert row.slowest_ms == took.max() == took[row.slowest]
        assert row.median_ms == took.median()
    assert (numbers.checkpoints["slowest_ms"] > numbers.checkpoints["median_ms"]).any()


def test_an_interruption_lasts_from_the_failure_until_all_tasks_run(lab: Lab, numbers: OverTime) -> None:
    found = numbers.recoveries
    assert found["epoch"].tolist() == [1, 2, 3]
    lost = [reason.partition(" was lost")[0] for reason in found["reason"]]
    assert lost == ["worker 0", "worker 1", "worker 0"]
    running = [record.at_ms for record in lab.trace if record.kind == "AllTasksRunning"]
    assert found["running_ms"].tolist() == running[1:]
    assert (found["running_ms"] - found["stopped_ms"] == found["lasting_ms"]).all()


def test_an_interruption_may_not_be_over() -> None:
    lab = Lab(job(), seed=1)
    lab.run_until(record="AllTasksRunning")
    lab.faults.kill(0)
    lab.run_until(record="AllTasksRunning")
    lab.faults.kill(1)
    lab.run_until(lambda lab: lab.moment().job == "RESTARTING")
    found = over_time_of(lab).recoveries
    assert found["lasting_ms"].isna().tolist() == [False, True]


def test_failures_before_all_tasks_run_prolong_the_interruption_and_begin_none() -> None:
    lab = Lab(job(), seed=1)
    lab.run_until(record="StartEpoch")
    lab.faults.kill(0)
    lab.run_until(record="AllTasksRunning")
    assert over_time_of(lab).recoveries.empty, "the job had not run before"
    for worker in (1, 0, 1):
        lab.faults.kill(worker)
        lab.run_until(record="StartEpoch")
    lab.run_until(record="AllTasksRunning")
    (found,) = over_time_of(lab).recoveries.to_dict("records")
    changes = lab.trace.story(kind="JobStatusChanged")
    _, *stopped_ms = (record.at_ms for record in changes if record.data["status"] == "RESTARTING")
    assert len(set(stopped_ms)) == 3
    assert found["stopped_ms"] == stopped_ms[0]
    assert found["running_ms"] == found["stopped_ms"] + found["lasting_ms"] == lab.trace[-1].at_ms


def test_a_rescale_is_an_interruption_too() -> None:
    lab = Lab(environment(Shape(rows=240), interval_ms=None), seed=3)
    lab.run_until(record="AllTasksRunning")
    for parallelism in (3, 1):
        lab.rescale(parallelism)
        lab.run_until(record="AllTasksRunning")
    found = over_time_of(lab).recoveries
    from_to = [reason.rpartition("totals from ")[2] for reason in found["reason"]]
    assert from_to == ["2 to 3", "3 to 1"]
    assert (found["lasting_ms"] > 0).all()


def test_the_backlog_is_what_the_queues_hold(lab: Lab) -> None:
    fork = lab.fork()
    seen = set()
    for position in (40, lab.position // 3, lab.position // 2):
        fork.goto(position)
        table = over_time_of(fork).backlog
        assert table["at_ms"].is_monotonic_increasing
        channels = range(len(fork.look.stages[-1].channels))
        held = sum((fork.queue(channel)["kind"] == "Buffer").sum() for channel in channels)
        assert table["records"].iloc[-1] == held
        seen.add(held)
    assert len(seen) == 3
    assert len(table) > 100


def test_a_job_on_spark_has_the_same_numbers_but_no_backlog() -> None:
    found = over_time_of(saved())
    assert len(found.checkpoints) > 1
    assert found.checkpoints["triggered_ms"].min() >= 0
    assert found.checkpoints["triggered_ms"].max() <= found.until_ms < 10_000_000
    assert found.backlog.empty


def test_nothing_has_happened_yet() -> None:
    found = over_time_of(Trace())
    assert found.checkpoints.empty
    assert found.recoveries.empty
    assert found.backlog.empty
