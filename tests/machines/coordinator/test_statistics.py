"""Statistics of checkpoints: counts, history, and the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, fields

import pandas as pd
import pytest

from kit.core.protocol import commands, events
from kit.core.protocol.messages import CheckpointMetrics, InitializationMetrics
from kit.core.protocol.properties import CheckpointProperties, RetentionPolicy
from kit.core.protocol.reasons import CheckpointFailureReason
from kit.core.protocol.tasks import ExecutionState
from kit.machines.coordinator.statistics import (
    CheckpointStats,
    CheckpointStatsCounts,
    CheckpointStatsTracker,
    CheckpointStatus,
    NoOpCheckpointStatsTracker,
    RestoredCheckpointStats,
    SubtaskStats,
)
from tests.machines.coordinator.harness import Harness

CHECKPOINT = CheckpointProperties.for_checkpoint(RetentionPolicy.NEVER_RETAIN_AFTER_TERMINATION)
SAVEPOINT = CheckpointProperties.for_savepoint(forced=True)


def begin(
    tracker: CheckpointStatsTracker, checkpoint_id: int, kind: CheckpointProperties = CHECKPOINT
) -> CheckpointStats:
    """Begin a checkpoint of two vertices, of 2 and 1 subtasks, at 100 ms."""
    return tracker.begin(checkpoint_id, 100, kind, {"source": 2, "sums": 1})


def known(tracker: CheckpointStatsTracker) -> list[tuple[int, str]]:
    """Return id and status of the remembered checkpoints."""
    return [(stats.checkpoint_id, stats.status.name) for stats in tracker.snapshot().checkpoints]


@pytest.mark.flink("CheckpointStatsCountsTest.testCounts")
def test_counts() -> None:
    counts = CheckpointStatsCounts()
    seen = [astuple(counts)]
    for step in (
        counts.restore,
        counts.begin,
        counts.complete,
        counts.begin,
        counts.fail,
        counts.fail_before_start,
    ):
        step()
        seen.append(astuple(counts))
    assert [field.name for field in fields(counts)] == ["restored", "total", "in_progress", "completed", "failed"]
    assert seen == [
        (0, 0, 0, 0, 0),
        (1, 0, 0, 0, 0),
        (1, 1, 1, 0, 0),
        (1, 1, 0, 1, 0),
        (1, 2, 1, 1, 0),
        (1, 2, 0, 1, 1),
        (1, 3, 0, 1, 2),
    ]


@pytest.mark.flink("CheckpointStatsCountsTest.testCompleteOrFailWithoutInProgressCheckpoint")
def test_ends_without_a_beginning_do_no_harm() -> None:
    counts = CheckpointStatsCounts()
    counts.complete()
    counts.fail()
    assert (counts.in_progress, counts.completed, counts.failed) == (0, 1, 1)


@pytest.mark.flink(
    "CheckpointStatsCountsTest.testCreateSnapshot",
    "CheckpointStatsHistoryTest.testModifySnapshot",
    "DefaultCheckpointStatsTrackerTest.testCreateSnapshot",
)
def test_a_snapshot_stays_as_it_is_and_is_new_only_when_something_changed() -> None:
    tracker = CheckpointStatsTracker()
    stats = begin(tracker, 1)
    first = tracker.snapshot()
    assert tracker.snapshot() is first
    stats.report("source", 0, 150, CheckpointMetrics())
    second = tracker.snapshot()
    assert second is not first
    tracker.completed(stats, 200, "chk-1", 9)
    assert first.counts.in_progress == 1
    assert [(each.checkpoints[0].acked, each.checkpoints[0].status.name) for each in (first, second)] == [
        (0, "IN_PROGRESS"),
        (1, "IN_PROGRESS"),
    ]
    with pytest.raises(AttributeError):
        first.counts = second.counts  # type: ignore[misc]


@pytest.mark.flink(
    "CheckpointStatsHistoryTest.testZeroMaxSizeHistory", "DefaultCheckpointStatsTrackerTest.testTrackerWithoutHistory"
)
def test_without_history_the_latest_of_each_end_are_known_all_the_same() -> None:
    tracker = CheckpointStatsTracker(0)
    tracker.completed(begin(tracker, 1), 200, "chk-1", 9)
    tracker.failed(begin(tracker, 2), 200, "why")
    begin(tracker, 3)
    assert known(tracker) == [(2, "FAILED"), (1, "COMPLETED")]
    assert tracker.counts.total == 3


@pytest.mark.flink("CheckpointStatsHistoryTest.testSizeOneHistory")
def test_a_history_of_one() -> None:
    tracker = CheckpointStatsTracker(1)
    first, second = begin(tracker, 1), begin(tracker, 2)
    assert known(tracker) == [(2, "IN_PROGRESS")]
    tracker.completed(first, 200, "chk-1", 9)
    tracker.completed(second, 200, "chk-2", 9)
    assert known(tracker) == [(2, "COMPLETED")]


@pytest.mark.flink(
    "CheckpointStatsHistoryTest.testCheckpointHistory", "DefaultCheckpointStatsTrackerTest.testCheckpointTracking"
)
def test_the_history_is_bounded_newest_first_and_keeps_the_latest_of_each_kind() -> None:
    tracker = CheckpointStatsTracker(2)
    tracker.completed(begin(tracker, 1, SAVEPOINT), 200, "savepoint", 9)
    tracker.failed(begin(tracker, 2), 200, "why")
    tracker.completed(begin(tracker, 3), 200, "chk-3", 9)
    for checkpoint_id in (4, 5):
        begin(tracker, checkpoint_id)
    assert known(tracker) == [
        (5, "IN_PROGRESS"),
        (4, "IN_PROGRESS"),
        (3, "COMPLETED"),
        (2, "FAILED"),
        (1, "COMPLETED"),
    ]
    assert tracker.history.find(1) is tracker.history.latest_savepoint


REPORT = CheckpointMetrics(
    bytes_persisted=1,
    total_bytes_persisted=10,
    bytes_processed_during_alignment=100,
    bytes_persisted_during_alignment=1000,
    unaligned=True,
)


def figures(stats: CheckpointStats) -> tuple[object, ...]:
    """Return what the reports add up to, and the reports."""
    sizes = (stats.checkpointed_size, stats.state_size, stats.processed_data, stats.persisted_data)
    reports = {vertex: list(subtasks) for vertex, subtasks in stats.subtasks.items()}
    return (stats.acked, stats.total, stats.last_ack_at_ms, *sizes, stats.unaligned, reports)


def reported(tracker: CheckpointStatsTracker) -> CheckpointStats:
    """Return a checkpoint of which two subtasks have reported, at 150 and 170 ms."""
    stats = begin(tracker, 1)
    assert stats.report("source", 0, 150, REPORT)
    assert stats.report("sums", 0, 170, CheckpointMetrics())
    assert stats.unaligned, "one subtask suffices"
    return stats


@pytest.mark.flink("PendingCheckpointStatsTest.testReportSubtaskStats")
def test_reports_add_up_and_count_once() -> None:
    stats = begin(CheckpointStatsTracker(), 1)
    assert (stats.checkpoint_id, stats.triggered_at_ms, stats.properties) == (1, 100, CHECKPOINT)
    assert (stats.status, stats.duration_ms) == (CheckpointStatus.IN_PROGRESS, -1)
    assert figures(stats) == (0, 3, -1, 0, 0, 0, 0, False, {"source": [None, None], "sums": [None]})
    assert stats.report("sums", 0, 150, CheckpointMetrics())
    assert (stats.acked, stats.last_ack_at_ms, stats.duration_ms, stats.unaligned) == (1, 150, 50, False)
    assert stats.report("source", 0, 170, REPORT)
    reports = {"source": [SubtaskStats(170, REPORT), None], "sums": [SubtaskStats(150, CheckpointMetrics())]}
    expected = (2, 3, 170, 1, 10, 100, 1000, True, reports)
    assert (figures(stats), stats.duration_ms) == (expected, 70)
    for vertex, subtask in (("source", 0), ("nobody", 0), ("sums", 1), ("source", -1)):
        assert not stats.report(vertex, subtask, 180, REPORT)
    assert (figures(stats), stats.duration_ms) == (expected, 70)


@pytest.mark.flink("PendingCheckpointStatsTest.testReportCompletedCheckpoint")
def test_completing() -> None:
    tracker = CheckpointStatsTracker()
    stats = reported(tracker)
    before = figures(stats)
    tracker.completed(stats, 200, "chk-1", 9)
    assert (stats.status, stats.path, stats.metadata_size) == (CheckpointStatus.COMPLETED, "chk-1", 9)
    assert (figures(stats), stats.duration_ms, stats.discarded) == (before, 70, False)
    assert tracker.history.latest_completed is stats
    tracker.discarded(1)
    assert stats.discarded


@pytest.mark.flink("PendingCheckpointStatsTest.testReportFailedCheckpoint")
def test_failing() -> None:
    tracker = CheckpointStatsTracker()
    stats = reported(tracker)
    before = figures(stats)
    tracker.failed(stats, 210, "why")
    assert (stats.status, stats.failure, stats.ended_at_ms) == (CheckpointStatus.FAILED, "why", 210)
    assert (figures(stats), stats.duration_ms) == (before, 110)
    assert tracker.history.latest_failed is stats


@pytest.mark.flink("CheckpointCoordinatorTest.testCheckpointStatsTrackerPendingCheckpointCallback")
def test_a_pending_checkpoint_is_reported_once() -> None:
    job = Harness()
    job.trigger()
    assert known(job.coordinator.statistics) == [(1, "IN_PROGRESS")]
    assert job.coordinator.statistics.counts.total == 1


@pytest.mark.flink("CheckpointCoordinatorTriggeringTest.testWithNoOpCheckpointStatsTracker")
def test_a_coordinator_works_as_well_when_nobody_takes_statistics() -> None:
    job = Harness(statistics=NoOpCheckpointStatsTracker(), tolerable_failures=9, timeout_ms=100)
    job.states["source/0"] = ExecutionState.FINISHED
    first = job.trigger()
    assert job.pending() == [first]
    job.complete(first)
    job.decline(job.trigger(), "sums/0")
    job.trigger()
    job.wait(100)
    job.request()
    job.take(commands.AllocateCheckpointId)
    job.give(events.CheckpointIdFailed(error="the counter is gone"))
    job.complete(job.trigger())
    assert job.retained_ids() == [4]
    assert job.restore() is job.retained()[0]
    statistics = job.coordinator.statistics
    assert (astuple(statistics.counts), len(statistics.to_pandas())) == ((0, 0, 0, 0, 0), 0)
    assert statistics.snapshot().restored is None


@pytest.mark.flink("CompletedCheckpointTest.testCompletedCheckpointStatsCallbacks")
def test_discarding_is_seen() -> None:
    job = Harness()
    job.complete(job.trigger())
    assert not job.coordinator.statistics.to_pandas().discarded.any()
    job.complete(job.trigger())
    table = job.coordinator.statistics.to_pandas().set_index("id")
    assert table.discarded.to_dict() == {2: False, 1: True}


@pytest.mark.flink("DefaultCheckpointStatsTrackerTest.testMetricsAreUpdated")
def test_flinks_metrics_follow_what_happens() -> None:
    tracker = CheckpointStatsTracker()

    def changed(act: Callable[[], object]) -> dict[str, int | str]:
        before = tracker.snapshot().metrics()
        act()
        after = tracker.snapshot().metrics()
        return {name: value for name, value in after.items() if before[name] != value}

    nothing = {"lastCheckpointExternalPath": "n/a"}
    assert {name: value for name, value in tracker.snapshot().metrics().items() if value not in (0, -1)} == nothing
    pending: list[CheckpointStats] = []
    begun = {"totalNumberOfCheckpoints": 1, "numberOfInProgressCheckpoints": 1}
    assert changed(lambda: pending.append(begin(tracker, 1))) == begun
    metrics = CheckpointMetrics(
        bytes_persisted=12,
        total_bytes_persisted=34,
        bytes_processed_during_alignment=56,
        bytes_persisted_during_alignment=78,
    )
    assert changed(lambda: pending[0].report("sums", 0, 160, metrics)) == {}, "not before it is complete"
    assert changed(lambda: tracker.completed(pending[0], 200, "chk-1", 9)) == {
        "numberOfInProgressCheckpoints": 0,
        "numberOfCompletedCheckpoints": 1,
        "lastCheckpointSize": 12,
        "lastCheckpointFullSize": 34,
        "lastCheckpointDuration": 60,
        "lastCheckpointProcessedData": 56,
        "lastCheckpointPersistedData": 78,
        "lastCheckpointExternalPath": "chk-1",
        "lastCompletedCheckpointId": 1,
        "lastCheckpointCompletedTimestamp": 160,
    }
    failing = begin(tracker, 2)
    assert changed(lambda: tracker.failed(failing, 300, "why")) == {
        "numberOfInProgressCheckpoints": 0,
        "numberOfFailedCheckpoints": 1,
    }
    restored = RestoredCheckpointStats(1, 400, CHECKPOINT, "chk-1", 34)
    assert changed(lambda: tracker.report_restored(restored)) == {"lastCheckpointRestoreTimestamp": 400}
    late = begin(tracker, 3)
    assert changed(lambda: tracker.completed(late, 500, "chk-3", 9))["lastCheckpointDuration"] == -1, "nobody acked"


def test_the_table_of_checkpoints() -> None:
    job = Harness(tolerable_failures=9)
    job.trigger()
    job.at += 30
    job.ack(1, "sums/0", bytes_persisted=5, total_bytes_persisted=50, sync_ms=2, async_ms=3)
    job.at += 20
    job.complete(1)
    job.decline(job.trigger_savepoint(), "sums/1")
    job.trigger()
    columns = ["id", "kind", "status", "duration_ms", "acked", "total", "checkpointed_size", "state_size", "path"]
    assert job.coordinator.statistics.to_pandas()[columns].to_numpy().tolist() == [
        [3, "Checkpoint", "IN_PROGRESS", pd.NA, 0, 4, 0, 0, ""],
        [2, "Savepoint", "FAILED", 0, 0, 4, 0, 0, ""],
        [1, "Checkpoint", "COMPLETED", 50, 4, 4, 5, 50, "chk-1"],
    ]
    assert CheckpointFailureReason.CHECKPOINT_DECLINED.message in job.coordinator.statistics.to_pandas().failure[1]


def test_the_table_of_subtasks_has_those_that_have_not_acked_too() -> None:
    job = Harness()
    job.trigger()
    job.at += 30
    job.ack(1, "sums/0", sync_ms=2, async_ms=3, alignment_ms=4)
    table = job.coordinator.statistics.subtasks(1).set_index("task")
    assert table.status.to_dict() == {
        "source/0": "waiting",
        "source/1": "waiting",
        "sums/0": "acked",
        "sums/1": "waiting",
    }
    assert table.loc["sums/0", ["end_to_end_ms", "sync_ms", "async_ms", "alignment_ms"]].tolist() == [30, 2, 3, 4]
    assert table.loc["sums/1", "end_to_end_ms"] == -1
    with pytest.raises(KeyError, match=r"no statistics of checkpoint 9; there are \[1\]"):
        job.coordinator.statistics.subtasks(9)


def test_what_the_tasks_measured_of_their_beginning_is_known_of_the_newest_epoch() -> None:
    tracker = CheckpointStatsTracker()
    slow = InitializationMetrics(deployed_at_ms=0, duration_ms=50)
    for task, attempt in (("a/0", 1), ("a/1", 1), ("a/1", 2)):
        tracker.report_initialization(task, attempt, slow, epoch=attempt)
    before = tracker.snapshot()
    tracker.report_initialization("a/0", 3, slow, epoch=2)
    assert [(each.task, each.attempt) for each in before.initialization] == [("a/1", 2)]
    assert [(each.task, each.attempt) for each in tracker.snapshot().initialization] == [("a/1", 2), ("a/0", 3)]
