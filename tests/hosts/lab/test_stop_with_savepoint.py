"""Stopping with a savepoint, seen from every task: one last snapshot for all, with or without an end of time."""

from __future__ import annotations

import pytest

from kit.core.event_time import MAX_WATERMARK_MS
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab
from tests.hosts.lab.jobs import Shape, committed_windows, environment, expected, wrong


def stopped(seed: int, *, drain: bool) -> tuple[Lab, int]:
    """Stop a job of windows in the middle of its input; returns the savepoint's id as well."""
    lab = Lab(environment(Shape("windows", rows=200), interval_ms=None), seed=seed)
    lab.run_until(record="AllTasksRunning")
    lab.run_until(lambda lab: lab.look.at_ms > 120)
    asked = lab.stop(drain=drain)
    lab.run()
    assert lab.look.master.status.name == "FINISHED"
    assert lab.look.answer(asked) is not None
    (completed,) = [record for record in lab.trace if record.kind == "CheckpointCompleted"]
    assert completed.checkpoint_id is not None
    return lab, completed.checkpoint_id


@pytest.mark.flink("StopWithSavepointITCase.test")
@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_task_ends_with_the_same_savepoint(seed: int, drain: bool) -> None:
    lab, savepoint = stopped(seed, drain=drain)
    tasks = [task.task for task in lab.look.master.graph.tasks]
    told = [r for r in lab.trace if r.kind == "NotifyCheckpointComplete" and r.role == "event"]
    assert sorted(record.machine for record in told) == sorted(tasks)
    assert {record.checkpoint_id for record in told} == {savepoint}
    finished = [
        record.machine
        for record in lab.trace
        if record.kind == "TaskStateChanged" and record.role == "command" and record.data["state"] == "FINISHED"
    ]
    assert sorted(finished) == sorted(tasks)
    watermarks = [
        record.machine
        for record in lab.trace
        if record.kind == "SendElement" and record.data["element"].get("timestamp_ms") == MAX_WATERMARK_MS
    ]
    assert bool(watermarks) is drain, "only a drain brings time to its end"


@pytest.mark.parametrize("drain", [False, True])
def test_windows_that_are_open_fire_with_a_drain_and_are_kept_without(drain: bool) -> None:
    shape = Shape("windows", rows=200)
    lab, _ = stopped(1, drain=drain)
    path = next(lab.look.answer(number) for number in range(lab.position) if lab._world.answers.get(number))
    frame = lab.output("windows")
    seen = 0 if frame.empty else int(frame["rows"].sum())
    read = len(lab.output("rows"))
    assert 0 < read < shape.rows
    assert (seen == read) is drain
    if not drain:
        after = Lab(environment(shape), restore_path=path, after=lab)
        after.run()
        assert wrong(after, shape) == {}
        assert sum(committed_windows(after).values()) == len(expected(shape))


@pytest.mark.parametrize("reached", [False, True])
def test_a_savepoint_that_fails_with_nobody_to_blame_fails_the_job_once_a_task_stands_at_it(reached: bool) -> None:
    """As in Flink 2.x: the task that has taken its snapshot is notified of the abort and cannot continue."""
    lab = Lab(environment(Shape(rows=300), interval_ms=None, timeout_ms=10_000), seed=3)
    lab.run_until(record="AllTasksRunning")
    asked = lab.stop()
    lab.run_until(record="WriteSnapshot" if reached else "InitializeLocation")
    lab.wait_until(lab.look.at_ms + 10_000)
    lab.step(next(action for action in lab.enabled() if "checkpoint-timeout" in action.key))
    with pytest.raises(LabError, match="expired"):
        lab.look.answer(asked)
    if reached:
        lab.run_until(lambda lab: lab.status == "RESTARTING")
        assert "stop" in lab.error.lower()
    lab.run()
    assert lab.status == "FINISHED"
    assert lab.look.master.epoch == (2 if reached else 1)
    assert wrong(lab, Shape(rows=300)) == {}
