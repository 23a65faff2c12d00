"""A source works through a backlog before it reads what comes in: until then checkpoints are rare, or absent."""

from __future__ import annotations

from collections import Counter

import pytest

from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.sources.source_coordinator import SourceCoordinator
from kit.stream.settings.job_settings import CheckpointConfig, FixedDelay

ROWS = 200
"""Half of them are the backlog."""


def source(first: int, rows: int, **facts: int) -> CollectionSource:
    return CollectionSource([{"n": first + n} for n in range(rows)], batch_rows=1, **facts)


def lab_of(during_backlog_ms: int | None, *, seed: int = 0, failover: str = "region") -> Lab:
    """One source, the first three of its six splits a backlog."""
    config = CheckpointConfig(interval_ms=20, interval_during_backlog_ms=during_backlog_ms, tolerable_failures=100)
    env = StreamEnvironment("backlog", parallelism=2, checkpoint=config, restart=FixedDelay(10, 5), failover=failover)
    numbers = env.from_source(source(0, ROWS, splits=6, backlog_splits=3), uid="numbers")
    numbers.sink_to(CollectSink("out"), uid="out")
    return Lab(env, seed=seed)


def has_backlog(lab: Lab) -> bool:
    held = lab.look.master.coordinators
    coordinators = [holder.coordinator for holder in map(held.__getitem__, held)]
    return any(isinstance(each, SourceCoordinator) and each.enumerator.is_processing_backlog for each in coordinators)


def triggered(lab: Lab) -> int:
    """Return the number of checkpoints so far."""
    return len(lab.checkpoints())


def run(lab: Lab) -> tuple[int, int]:
    """Run to the end; returns the checkpoints during the backlog, and those after it while rows were read."""
    lab.run_until(lambda lab: lab.look.master.epoch == 1)
    assert has_backlog(lab)
    lab.run_until(lambda lab: not has_backlog(lab))
    during = triggered(lab)
    lab.run()
    assert lab.look.master.status.name == "FINISHED"
    assert Counter(lab.output("out")["n"]) == Counter(range(ROWS))
    return during, triggered(lab) - during


@pytest.mark.flink("CheckpointIntervalDuringBacklogITCase.testDefaultCheckpointIntervalDuringBacklog")
def test_without_an_interval_of_its_own_a_backlog_changes_nothing() -> None:
    during, after = run(lab_of(None))
    assert during > 2
    assert after > 2


@pytest.mark.flink("CheckpointIntervalDuringBacklogITCase.testCheckpoint")
def test_checkpoints_are_rarer_during_the_backlog() -> None:
    usual, _ = run(lab_of(None))
    during, after = run(lab_of(60))
    assert 0 < during < usual
    assert after > 2


@pytest.mark.flink("CheckpointIntervalDuringBacklogITCase.testNoCheckpointDuringBacklog")
def test_no_checkpoint_during_the_backlog() -> None:
    during, after = run(lab_of(0))
    assert during == 0
    assert after > 2


@pytest.mark.flink("CheckpointIntervalDuringBacklogITCase.testExcludeFinishedOperatorBacklogStatus")
def test_a_source_that_has_finished_holds_nobody_up() -> None:
    config = CheckpointConfig(interval_ms=20, interval_during_backlog_ms=0, tolerable_failures=100)
    env = StreamEnvironment("backlog", checkpoint=config)
    short = env.from_source(source(0, 2, backlog_splits=1), uid="short")
    long = env.from_source(source(2, ROWS - 2, splits=3), uid="long")
    short.union(long).sink_to(CollectSink("out"), uid="out")
    lab = Lab(env)
    lab.run()
    assert Counter(lab.output("out")["n"]) == Counter(range(ROWS))
    assert triggered(lab) > 2


@pytest.mark.parametrize("failover", ["region", "full"])
@pytest.mark.parametrize("seed", range(3))
def test_after_a_failure_a_half_read_backlog_is_still_one(seed: int, failover: str) -> None:
    lab = lab_of(0, seed=seed, failover=failover)
    lab.run_until(lambda lab: lab.look.master.epoch == 1 and lab.look.master.tasks.all_running)
    for _ in range(40):
        lab.step()
    request = lab.trigger_checkpoint()
    lab.run_until(lambda lab: lab.look.answer(request) is not None)
    assert has_backlog(lab)
    asked = triggered(lab)
    lab.faults.kill(0)
    lab.run_until(lambda lab: lab.look.master.restarts == 1 and lab.look.master.all_running and has_backlog(lab))
    lab.run_until(lambda lab: not has_backlog(lab))
    assert triggered(lab) == asked
    lab.run()
    assert Counter(lab.output("out")["n"]) == Counter(range(ROWS))


def test_a_negative_number_of_splits_is_refused() -> None:
    with pytest.raises(ValueError, match="backlog_splits = -1"):
        source(0, 1, backlog_splits=-1)
