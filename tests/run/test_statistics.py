"""The statistics of a run's checkpoints: every figure in Flink's web UI, under stable names."""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import pandas as pd
import pytest

from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.hosts.lab.lab import Lab
from kit.machines.coordinator.stats_summary import StatsSummary
from kit.run.statistics import HISTORY, SUBTASKS
from kit.stream.settings.job_settings import settings_table
from tests.hosts.lab.jobs import Shape, environment

DONE = ["acknowledged"] * 4


@pytest.fixture(scope="module")
def ended() -> Lab:
    """A run with two checkpoints, a failure, a restore, a savepoint, and a checkpoint that expired."""
    lab = Lab(environment(Shape(rows=240), interval_ms=None, timeout_ms=300), seed=3)
    lab.run_until(record="AllTasksRunning")
    for number in (1, 2):
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=number)
    lab.faults.kill(1)
    lab.run_until(record="AllTasksRunning")
    asked = lab.savepoint()
    lab.run_until(lambda lab: lab.look.answer(asked) is not None)
    lab.trigger_checkpoint()
    lab.run_until(record="CheckpointTriggered")
    stuck = "totals/1"
    while not any(record.kind == "CheckpointAborted" for record in lab.trace):
        free = [a for a in lab.enabled() if stuck not in a.text]
        lab.step(Random(lab.position).choice(free))
    return lab


def test_how_the_tasks_came_to_run(ended: Lab) -> None:
    table = ended.statistics.initialization.set_index("task")
    assert sorted(table.index) == ["rows/0", "rows/1", "totals/0", "totals/1"]
    assert set(table["status"]) == {"COMPLETED"}
    assert set(table["attempt"]) == {2}
    assert (table["read_state_ms"] + table["gate_restore_ms"] == table["duration_ms"]).all()
    assert table["restored_bytes"].sum() == ended.statistics.operators(2)["full_bytes"].sum() > 0
    assert len(Lab(environment(Shape(rows=240))).statistics.initialization) == 0


def test_the_overview(ended: Lab) -> None:
    statistics = ended.statistics
    assert statistics.counts.to_dict("records") == [
        {"triggered": 4, "in_progress": 0, "completed": 3, "failed": 1, "restored": 1}
    ]
    latest = statistics.latest
    assert latest["id"].to_dict() == {"completed": 2, "failed": 4, "savepoint": 3, "restore": 2}
    assert latest.loc["savepoint", "format"] == "CANONICAL"
    assert latest.loc["savepoint", "path"].startswith("/savepoints/")
    assert "expired" in latest.loc["failed", "failure"]
    assert latest.loc["restore", "path"] == latest.loc["completed", "path"]
    assert repr(statistics) == "CheckpointStatistics(4 triggered, 0 in progress, 3 completed, 1 failed, 1 restored)"
    assert all(part in statistics._repr_html_() for part in ("Counts", "History", "p99.9", "Savepoint"))


def test_the_history(ended: Lab) -> None:
    history = ended.statistics.history
    assert tuple(history.columns) == tuple(HISTORY)
    assert list(history["id"]) == [4, 3, 2, 1]
    assert list(history["status"]) == ["FAILED", "COMPLETED", "COMPLETED", "COMPLETED"]
    assert list(history["acknowledged"])[1:] == [4, 4, 4]
    done = history[history["status"] == "COMPLETED"]
    assert (done["triggered_at_ms"] + done["duration_ms"] == done["latest_ack_at_ms"]).all()
    assert (done["full_bytes"] > 0).all()


def test_the_summary_is_of_all_that_completed(ended: Lab) -> None:
    summary = ended.statistics.summary
    done = ended.statistics.history.query("status == 'COMPLETED'")
    assert list(summary.columns) == ["count", "min", "average", "max", "p50", "p90", "p99", "p99.9"]
    assert list(summary["count"]) == [3] * 5
    ours = summary.loc["end_to_end_ms"]
    assert (ours["min"], ours["max"]) == (done["duration_ms"].min(), done["duration_ms"].max())
    assert ours["p50"] == sorted(done["duration_ms"])[1]
    assert ours["p99.9"] == done["duration_ms"].max()


def test_percentiles_lie_between_values_in_proportion() -> None:
    figure = StatsSummary()
    assert figure.average == 0
    assert all(pd.isna(value) for value in figure.percentiles())
    for value in (-1, 10, 20, 30, 40):
        figure.add(value)
    assert (figure.count, figure.least, figure.average, figure.most) == (4, 10, 25, 40)
    assert figure.percentiles() == [25.0, 40.0, 40.0, 40.0]


def test_the_configuration(ended: Lab) -> None:
    configuration = ended.statistics.configuration
    assert configuration["mode"] == "exactly_once"
    assert configuration["interval_ms"] is None
    assert configuration["timeout_ms"] == 300
    assert not configuration["unaligned"]
    table = settings_table()
    assert set(table[table["of"] == "CheckpointConfig"]["setting"]) < set(configuration.index)


def test_one_checkpoint_opened(ended: Lab) -> None:
    statistics = ended.statistics
    detail = statistics.detail(3)
    assert (detail["kind"], detail["status"], detail["format"]) == ("Savepoint", "COMPLETED", "CANONICAL")
    assert statistics.detail(1)["discarded"], "the second one has subsumed it"
    operators = statistics.operators(2)
    assert list(operators["acknowledged"]) == list(operators["subtasks"]) == [2] * len(operators)
    assert operators["full_bytes"].sum() == statistics.detail(2)["full_bytes"]
    subtasks = statistics.subtasks(2)
    assert tuple(subtasks.columns) == SUBTASKS
    assert list(subtasks["status"]) == DONE
    assert subtasks["end_to_end_ms"].max() == statistics.detail(2)["duration_ms"]
    spread = statistics.spread(2)
    assert set(spread.index.get_level_values("figure")) == {"min", "mean", "max", "p50", "p90", "p99"}
    with pytest.raises(KeyError, match=r"no statistics of checkpoint 9; there are \[4, 3, 2, 1\]"):
        statistics.subtasks(9)


def test_a_subtask_that_never_finished_shows_how_far_it_came(ended: Lab) -> None:
    subtasks = ended.statistics.subtasks(4).set_index("task")
    stuck = subtasks.loc["totals/1"]
    assert stuck["status"] == "unfinished"
    assert stuck["open_phase"] in ("start_delay", "alignment")
    assert stuck["start_delay_ms"] > 0
    assert pd.isna(stuck["ack_at_ms"])
    assert "acknowledged" in set(subtasks["status"])


@pytest.mark.flink("DefaultCheckpointStatsTrackerTest.testMetricsRegistration")
def test_the_metrics_that_flink_documents(ended: Lab) -> None:
    metrics = ended.statistics.metrics
    assert list(metrics.index) == [
        "totalNumberOfCheckpoints",
        "numberOfInProgressCheckpoints",
        "numberOfCompletedCheckpoints",
        "numberOfFailedCheckpoints",
        "lastCheckpointRestoreTimestamp",
        "lastCheckpointSize",
        "lastCheckpointFullSize",
        "lastCheckpointDuration",
        "lastCheckpointProcessedData",
        "lastCheckpointPersistedData",
        "lastCheckpointExternalPath",
        "lastCompletedCheckpointId",
        "lastCheckpointCompletedTimestamp",
    ]
    latest = ended.statistics.latest.loc["completed"]
    assert metrics["lastCompletedCheckpointId"] == latest["id"]
    assert metrics["lastCheckpointDuration"] == latest["duration_ms"]
    assert metrics["lastCheckpointExternalPath"] == latest["path"]
    tasks = ended.statistics.task_metrics
    assert len(tasks) == 4
    assert (tasks["checkpointAlignmentTime"] >= -1).all()
    for row in tasks.itertuples():
        told = {each: ended.statistics.subtasks(each).set_index("task").loc[row.task] for each in (1, 2, 3, 4)}
        newest = max(each for each in told if told[each]["status"] in ("acknowledged", "reported"))
        assert row.checkpoint_id == newest > 1
        for found, figure in (
            (row.checkpointAlignmentTime, "alignment_ms"),
            (row.checkpointStartDelayNanos, "start_delay_ms"),
        ):
            wanted = told[newest][figure]
            assert found == (-1 if pd.isna(wanted) else wanted * 1_000_000)


def test_each_checkpoint_has_its_own_figures(ended: Lab) -> None:
    """The newest checkpoints of each kind, and the times and sums of each, agree with the records in the trace."""
    statistics, latest = ended.statistics, ended.statistics.latest
    triggered = {number: statistics.detail(number)["triggered_at_ms"] for number in (1, 2, 3, 4)}
    begun = {each.checkpoint_id: each.at_ms for each in ended.trace if each.kind == "CheckpointTriggered"}
    ends = [statistics.detail(number)["ended_at_ms"] for number in triggered]
    assert all(triggered[number] <= begun[number] < end for number, end in zip(begun, ends, strict=True))
    assert all(end < begun[number + 1] for number, end in enumerate(ends[:-1], 1))
    for name in ("completed", "savepoint", "failed"):
        assert latest.loc[name, "at_ms"] == statistics.detail(latest.loc[name, "id"])["ended_at_ms"]
    for number, at_ms in triggered.items():
        detail, operators, subtasks = (
            get(number) for get in (statistics.detail, statistics.operators, statistics.subtasks)
        )
        acked = subtasks[subtasks["status"] == "acknowledged"]
        assert operators["acknowledged"].sum() == len(acked)
        for row in operators.itertuples():
            own = acked[acked["vertex"] == row.vertex]
            if len(own):
                assert row.latest_ack_at_ms == own["ack_at_ms"].max()
                assert row.duration_ms == own["ack_at_ms"].max() - at_ms
        span = statistics.spans.query(f"name == 'Checkpoint' and checkpoint_id == {number}").iloc[0]
        assert (span["start_ms"], span["end_ms"]) == (at_ms, detail["ended_at_ms"])


def test_each_restore_has_its_own_span() -> None:
    lab = Lab(environment(Shape(rows=240), interval_ms=None), seed=3)
    lab.run_until(record="AllTasksRunning")
    for number in (1, 2):
        lab.trigger_checkpoint()
        lab.run_until(checkpoint=number)
        lab.faults.kill(1)
        lab.run_until(record="AllTasksRunning")
    spans = lab.statistics.spans.query("name == 'JobInitialization'")
    assert list(spans["checkpoint_id"]) == [1, 2]
    running = [record.at_ms for record in lab.trace if record.kind == "AllTasksRunning"]
    assert list(spans["end_ms"]) == running[1:]


@pytest.mark.flink(
    "DefaultCheckpointStatsTrackerTest.testSpanCreation",
    "DefaultCheckpointStatsTrackerTest.testInitializationSpanCreation",
)
def test_spans_of_checkpoints_and_restores(ended: Lab) -> None:
    spans = ended.statistics.spans
    checkpoints = spans[spans["name"] == "Checkpoint"]
    assert list(checkpoints["checkpoint_id"]) == [1, 2, 3, 4]
    assert list(checkpoints["status"]) == ["COMPLETED", "COMPLETED", "COMPLETED", "FAILED"]
    (restore,) = spans[spans["name"] == "JobInitialization"].to_dict("records")
    assert restore["checkpoint_id"] == 2
    assert restore["full_bytes"] == ended.statistics.latest.loc["restore", "full_bytes"]
    running = [record.at_ms for record in ended.trace if record.kind == "AllTasksRunning"]
    assert (restore["start_ms"] < restore["end_ms"], restore["end_ms"]) == (True, running[1])


@pytest.mark.flink(
    "DefaultCheckpointStatsTrackerTest.testCheckpointStatsListenerOnCompletedCheckpoint",
    "DefaultCheckpointStatsTrackerTest.testCheckpointStatsListenerOnFailedCheckpoint",
)
def test_whoever_listens_hears_each_end_once(ended: Lab) -> None:
    heard = [
        (record.kind, record.checkpoint_id)
        for record in ended.trace
        if record.kind in ("CheckpointCompleted", "CheckpointAborted")
    ]
    assert heard == [
        ("CheckpointCompleted", 1),
        ("CheckpointCompleted", 2),
        ("CheckpointCompleted", 3),
        ("CheckpointAborted", 4),
    ]


def test_before_anything_has_happened() -> None:
    lab = Lab(environment(Shape()))
    statistics = lab.statistics
    assert statistics.counts.iloc[0].sum() == 0
    assert statistics.history.empty
    assert statistics.latest.empty
    assert statistics.spans.empty
    assert statistics.task_metrics.empty
    assert statistics.metrics["lastCheckpointDuration"] == -1
    assert statistics.metrics["lastCheckpointExternalPath"] == "n/a"
    assert statistics.summary["count"].sum() == 0


def test_it_stays_as_it_was_taken() -> None:
    lab = Lab(environment(Shape()))
    early = lab.statistics
    lab.run_until(record=AcknowledgeCheckpoint.__name__)
    assert early.history.empty
    under_way = lab.statistics
    assert list(under_way.history["status"]) == ["IN_PROGRESS"]
    assert "unfinished" in set(under_way.subtasks(1)["status"])
    lab.run_until(checkpoint=1)
    assert list(under_way.history["status"]) == ["IN_PROGRESS"]


@pytest.mark.flink(
    "PendingCheckpointStatsTest.testIsJavaSerializable", "CompletedCheckpointTest.testIsJavaSerializable"
)
def test_a_copy_has_every_figure_of_pending_and_completed_checkpoints_and_does_not_follow_the_original() -> None:
    """Statistics are copied where Flink serialises them: the fork of a lab has its own."""
    lab = Lab(environment(Shape(rows=240), interval_ms=None))
    lab.run_until(record="AllTasksRunning")
    lab.trigger_checkpoint(wait=True)
    lab.trigger_checkpoint()
    lab.run_until(lambda lab: lab.statistics.history["acknowledged"][0] == 2)
    assert list(lab.statistics.history["status"]) == ["IN_PROGRESS", "COMPLETED"]
    then = figures(lab)
    assert {len(then), len(then[0])} == {2, 17}
    copied = lab.fork()
    assert figures(copied) == then
    lab.run_until(checkpoint=2)
    assert figures(lab) != then
    assert figures(copied) == then
    copied.run_until(checkpoint=2)
    assert figures(copied) == figures(lab)


def figures(lab: Lab) -> list[dict[str, Any]]:
    """Return all fields of each checkpoint's statistics."""
    found = lab.look.master.checkpoints.statistics.history.newest_first()
    return [{each.name: str(getattr(one, each.name)) for each in fields(one) if each.repr} for one in found]
