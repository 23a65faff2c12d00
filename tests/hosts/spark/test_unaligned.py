"""Unaligned checkpoints of a back-pressured job: exactly once whatever dies, and no file that no checkpoint needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kit.core.metadata import CheckpointMetadata, read_metadata
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang, await_checkpoint, check_output, staged, totals_job, until

MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {"unaligned": True},
    "unaligned_after_timeout": {"unaligned": True, "aligned_timeout_ms": 20},
}


def back_pressured(directory: Path, mode: str, parallelism: int = 2, pause_ms: int = 20) -> Any:
    """Return the job; all state is in files."""
    settings = MODES[mode] | {"memory_threshold_bytes": 0, "tolerable_failures": 1_000}
    return totals_job(directory, parallelism=parallelism, interval_ms=40, copy_pause_ms=pause_ms, **settings)


def await_in_flight(job: SparkJob, mode: str, after: int = 0) -> None:
    """Wait until a checkpoint with an id above `after` is complete, and holds in-flight data if it may."""
    await_checkpoint(job, after + 1, in_flight="unaligned" in MODES[mode])


def files_below(directory: Path) -> set[str]:
    """Every file in the checkpoint directory."""
    return {str(path) for path in directory.rglob("*") if path.is_file()}


def metadata_of(checkpoint: Path) -> CheckpointMetadata:
    """Return the content of a checkpoint's `_metadata`."""
    return read_metadata((checkpoint / "_metadata").read_bytes(), str(checkpoint))[0]


def needed_by(checkpoint: Path) -> set[str]:
    """A checkpoint's `_metadata` and all files that it refers to."""
    return {str(checkpoint / "_metadata"), *metadata_of(checkpoint).files()}


def in_flight_bytes(checkpoint: Path) -> int:
    """Return the number of in-flight bytes in a checkpoint."""
    return sum(
        handle.state_size
        for operator in metadata_of(checkpoint).operator_states
        for subtask in operator.subtask_states.values()
        for handle in (*subtask.input_channel_state, *subtask.result_subpartition_state)
    )


@pytest.mark.spark
@pytest.mark.usefixtures("no_thread_left")
def test_a_worker_killed_under_backpressure(spark: SparkSession, tmp_path: Path) -> None:
    with SparkJob(back_pressured(tmp_path, "unaligned"), spark) as job:
        job.start()
        await_in_flight(job, "unaligned")
        job.faults.kill(1)
        until(lambda: not job.look.restores().empty, job)
        await_in_flight(job, "unaligned", int(job.look.restores()["checkpoint_id"].max()))
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []
    assert files_below(tmp_path / "checkpoints") == set()


@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize(
    ("mode", "parallelism"),
    [
        pytest.param(mode, parallelism, marks=[pytest.mark.soak] if (number + parallelism // 2) % 2 else [])
        for number, mode in enumerate(MODES)
        for parallelism in (1, 3)
    ],
)
def test_cut_off_then_rescaled_from_a_retained_checkpoint(tmp_path: Path, mode: str, parallelism: int) -> None:
    checkpoints = tmp_path / "checkpoints"
    with SparkJob(back_pressured(tmp_path, mode), launch=ThreadGang) as job:
        job.start()
        await_in_flight(job, mode)
        ThreadGang.current.kill(1)
        until(lambda: not job.look.restores().empty, job)
        await_in_flight(job, mode, int(job.look.restores()["checkpoint_id"].max()))
        assert job.cancel() == "CANCELED"
    (retained,) = checkpoints.glob("*/chk-*")
    assert files_below(checkpoints) == needed_by(retained)
    assert (in_flight_bytes(retained) > 0) == ("unaligned" in MODES[mode])
    again = back_pressured(tmp_path, mode, parallelism, pause_ms=1)
    with SparkJob(again, restore_path=retained, launch=ThreadGang) as job:
        job.start()
        assert job.wait() == "FINISHED"
    check_output(tmp_path)
    assert staged(tmp_path) == []
    assert files_below(checkpoints) == needed_by(retained)
