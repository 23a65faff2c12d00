"""Staged output of sinks is published or dropped, in any order of checkpoints, and even if its task has left."""

from __future__ import annotations

from collections import Counter

import pytest

from kit.core.protocol.tasks import ExecutionState
from kit.hosts.lab.lab import Lab
from kit.stream.api.environment import StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.settings.job_settings import CheckpointConfig


def numbers(first: int, rows: int) -> CollectionSource:
    return CollectionSource([{"n": first + n} for n in range(rows)], batch_rows=1)


def overlapping() -> StreamEnvironment:
    """Two pipelines, one of which ends long before the other; up to three checkpoints are under way at once."""
    config = CheckpointConfig(interval_ms=10, max_concurrent=3, tolerable_failures=1_000)
    env = StreamEnvironment("overlapping", checkpoint=config)
    env.from_source(numbers(0, 6), uid="short").sink_to(CollectSink("short"), uid="short-out")
    env.from_source(numbers(0, 60), uid="long").sink_to(CollectSink("long"), uid="long-out")
    return env


def staged(lab: Lab, sink: str) -> list[str]:
    return [path for path in lab._world.edge.output.staged if f"{sink}/.staging" in path]


@pytest.mark.parametrize("seed", range(12))
def test_a_task_that_leaves_takes_along_what_later_checkpoints_staged_for_it(seed: int) -> None:
    lab = Lab(overlapping(), seed=seed)
    [short] = [vertex.name for vertex in lab.job.vertices if "short" in vertex.name]
    lab.run_until(lambda lab: lab.look.master.tasks.state_of(f"{short}/0") is ExecutionState.FINISHED)
    lab.run_until(lambda lab: not any("DropEffects" in action.text for action in lab.enabled()))
    assert staged(lab, "short") == []
    lab.run()
    assert lab.look.master.status.name == "FINISHED"
    assert Counter(lab.output("short")["n"]) == Counter(range(6))
    assert Counter(lab.output("long")["n"]) == Counter(range(60))
    assert lab._world.edge.output.staged == {}
