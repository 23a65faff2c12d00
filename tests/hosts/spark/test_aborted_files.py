"""Files that a slot writes late for a checkpoint that was aborted or subsumed: they go when the epoch is over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kit.files.storage import CheckpointLocation, CheckpointStorage
from kit.hosts.spark.job import SparkJob
from tests.hosts.spark.jobs import LASTING, ThreadGang, await_checkpoint, check_output, totals_job, until

PATIENCE_S = 30.0


@pytest.mark.usefixtures("nothing_left")
def test_what_a_slot_writes_for_a_checkpoint_that_is_gone_goes_with_its_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two checkpoints are aborted and two subsumed. A slot that writes late makes their directories again."""
    real, failed = CheckpointStorage.to_handle, set[str]()

    def fail_twice(storage: CheckpointStorage, data: bytes, location: CheckpointLocation, name: str) -> object:
        if location.directory in failed or len(failed) < 2:
            failed.add(location.directory)
            raise OSError("the state cannot be written")
        return real(storage, data, location, name)

    monkeypatch.setattr(CheckpointStorage, "to_handle", fail_twice)
    with SparkJob(totals_job(tmp_path, LASTING, tolerable_failures=10), launch=ThreadGang) as job:
        job.start()
        until(lambda: len(failed) == 2, job)
        await_checkpoint(job, 5)
        gone = [Path(min(failed)).with_name(f"chk-{number}") for number in range(1, 5)]
        assert failed == {str(directory) for directory in gone[:2]}
        until(lambda: not any(directory.exists() for directory in gone), job)
        late = [directory / "state-late" for directory in gone]
        for path in late:
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
        ThreadGang.current.kill(1)
        job.wait_until_running(restarts=1, timeout_s=PATIENCE_S)
        end_s = time.monotonic() + PATIENCE_S
        while any(path.exists() for path in late) and time.monotonic() < end_s:
            time.sleep(0.01)
        assert job.status == "RUNNING", "its end would delete them anyway"
        assert [path for path in late if path.exists()] == []
        savepoint = job.stop(tmp_path / "savepoints")
    with SparkJob(totals_job(tmp_path), launch=ThreadGang, restore_path=savepoint) as rest:
        assert rest.start().wait() == "FINISHED"
    check_output(tmp_path)
