"""Pictures of a job on real slots: before it begins, while it runs, restored, ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.trace.trace import Trace
from kit.draw import SnapshotContents, at_risk, frames, snapshot_contents
from kit.hosts.spark.job import SparkJob
from kit.snapshots.state_tables import KEYED
from tests.draw.elsewhere import shown, shown_elsewhere
from tests.draw.test_doors import DOORS, as_data
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, generator, totals_job, until
from widgets import Stepper


def _is_whole(held: SnapshotContents) -> bool:
    """Return True if keyed state was read from the files that the job writes, and all subtasks have acknowledged."""
    return bool(held.values.of(KEYED)) and bool(held.progress().acked_ms.notna().all())


@pytest.mark.usefixtures("nothing_left")
def test_every_door_and_the_stepper_take_a_job_at_any_time(tmp_path: Path) -> None:
    slow = generator(rows_per_second=6_000)  # however slow the pictures are, it is killed before its end
    with SparkJob(totals_job(tmp_path, slow, memory_threshold_bytes=0), launch=ThreadGang) as job:
        stepper = Stepper(job)
        assert stepper.frame.words.what == "Nothing has happened yet"
        job.start()
        await_checkpoint(job, 1)
        seen = len(stepper.refresh().film["frames"])
        assert 1 in stepper.moment.checkpoints
        until(lambda: _is_whole(snapshot_contents(job)), job)  # the newest one may be under way
        assert "what was read since would be read again" in at_risk(job).title
        stepper.value = 3
        there = stepper.moment.n
        ThreadGang.current.kill(1)
        until(lambda: not job.look.restores().empty, job)
        for door in DOORS.values():
            door(job)
        job.wait()
    stepper.refresh()
    assert len(stepper.film["frames"]) > seen
    assert stepper.moment.n == there
    assert Stepper(job).moment.job == "FINISHED"
    path = job.trace.save(tmp_path / "run.jsonl")
    saved = Trace.load(path)
    assert shown_elsewhere(path) == shown(job)
    for door in DOORS.values():
        assert as_data(door(job)) == as_data(door(job.trace)) == as_data(door(saved))
    assert {frame.stage.epoch for frame in frames(saved)} == {1, 2}
