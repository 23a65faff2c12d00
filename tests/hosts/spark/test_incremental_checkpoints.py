"""Incremental checkpoints on slots, whose files are real: runs are shared, restored, claimed, and deleted at last."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, StreamEnvironment, count, open_checkpoint, sum_
from kit.core.metadata import read_metadata
from kit.core.state.handles import IncrementalRemoteKeyedStateHandle
from kit.hosts.spark import SparkJob
from tests.hosts.spark.jobs import ThreadGang

COLD, HOT = 400, 12
ROWS = [{"k": n if n < COLD else n % HOT, "v": n} for n in range(2_000)]


def counters(directory: Path, *, parallelism: int = 2, rows_per_second: float | None = 800, **config: Any) -> Any:
    """Return a job whose first rows have a key each, and whose later ones have one of a few."""
    settings = CheckpointConfig(
        interval_ms=50,
        directory=str(directory),
        incremental=True,
        memory_threshold_bytes=0,
        **{"max_retained": 2, "retention": "RETAIN_ON_CANCELLATION", **config},
    )
    env = StreamEnvironment("counters", parallelism=parallelism, max_parallelism=8, checkpoint=settings)
    source = CollectionSource(ROWS, batch_rows=5, splits=1, rows_per_second=rows_per_second)
    read = env.from_source(source, uid="numbers").set_parallelism(1)
    counted = read.key_by("k").aggregate(rows=count(), total=sum_("v")).uid("counters").name("counters")
    counted.sink_to(CollectSink("out"), uid="out")
    return env


def checkpoints(directory: Path) -> list[Path]:
    """Return the complete checkpoints of the only job there, oldest first."""
    found = [path.parent for path in directory.glob("*/chk-*/_metadata")]
    return sorted(found, key=lambda path: int(path.name.removeprefix("chk-")))


def runs_of(checkpoint: Path) -> list[list[str]]:
    """Return the names of the runs of each subtask."""
    metadata, _ = read_metadata((checkpoint / "_metadata").read_bytes(), str(checkpoint))
    handles = [
        handle
        for state in metadata.operator_states
        for subtask in state.subtask_states.values()
        for handle in subtask.managed_keyed_state
    ]
    assert all(isinstance(handle, IncrementalRemoteKeyedStateHandle) for handle in handles)
    return [[part.local_path for part in handle.shared_state] for handle in handles]


def latest(output: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """Return the last totals of each key."""
    newest = output.sort_values("rows").drop_duplicates("k", keep="last")
    return dict(zip(newest["k"], zip(newest["rows"], newest["total"], strict=True), strict=True))


def expected() -> dict[int, tuple[int, int]]:
    rows = Counter(row["k"] for row in ROWS)
    totals = {key: sum(row["v"] for row in ROWS if row["k"] == key) for key in rows}
    return {key: (rows[key], totals[key]) for key in rows}


def run_until_hot(env: StreamEnvironment, directory: Path, **start: Any) -> SparkJob:
    """Return a running job with two checkpoints after all cold keys, of which the later builds on the earlier.

    A full checkpoint has all cold keys in one run. The hot rows never add up to as many, so the run is not merged.
    """
    job = SparkJob(env, launch=ThreadGang, **start)
    job.start().wait_until_running(timeout_s=60)
    if "restore_path" not in start:
        while job.output("out")["k"].nunique() < COLD:
            job.trigger_checkpoint()
        job.trigger_checkpoint(full=True)
    while not checkpoints(directory) or max(map(len, runs_of(checkpoints(directory)[-1])), default=0) < 2:
        job.trigger_checkpoint()
    return job


@pytest.mark.parametrize("claim_mode", ["CLAIM", "NO_CLAIM"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_goes_on_from_the_runs_of_another(tmp_path: Path, claim_mode: str, parallelism: int) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with run_until_hot(counters(first), first) as job:
        job.cancel()
    start = checkpoints(first)[-1]
    before = {path for path in first.rglob("*") if path.is_file()}
    held = open_checkpoint(start).state("counters", "totals").to_pandas()
    assert held["key"].is_unique
    env = counters(second, parallelism=parallelism)
    with run_until_hot(env, second, restore_path=str(start), claim_mode=claim_mode) as job:
        own = {name for runs in runs_of(checkpoints(second)[-1]) for name in runs}
        job.wait(timeout_s=60)
        assert latest(job.output("out")) == expected()
    files = {path for path in first.rglob("*") if path.is_file()}
    reused = own & {path.name for path in before}
    assert bool(reused) == (claim_mode == "CLAIM" and parallelism == 2)
    if claim_mode == "NO_CLAIM":
        assert files == before
        assert open_checkpoint(start).state("counters", "totals").to_pandas().equals(held)
    else:
        assert not any(path.name in own or path.parent == start for path in files)


def test_a_lost_slot_goes_on_from_runs_and_nothing_is_left(tmp_path: Path) -> None:
    with run_until_hot(counters(tmp_path), tmp_path) as job:
        newest = open_checkpoint(checkpoints(tmp_path)[-1])
        assert newest.states["error"].eq("").all()
        ThreadGang.current.kill(0)
        job.wait_until_running(restarts=1, timeout_s=60)
        job.wait(timeout_s=60)
        assert latest(job.output("out")) == expected()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_slot_that_stays_reads_the_runs_of_its_own_disk(tmp_path: Path) -> None:
    with run_until_hot(counters(tmp_path, local_recovery=True), tmp_path) as job:
        ThreadGang.current.kill(1)
        job.wait_until_running(restarts=1, timeout_s=60)
        job.wait(timeout_s=60)
        assert latest(job.output("out")) == expected()
        read = {record.machine: record.data["from_local"] for record in job.trace if record.kind == "StateRead"}
        assert read["counters/0"] >= 2  # a run at least, and the sink's state; the scenario has several runs
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_savepoint_of_an_incremental_job_is_whole(tmp_path: Path) -> None:
    with run_until_hot(counters(tmp_path / "checkpoints"), tmp_path / "checkpoints") as job:
        savepoint = job.stop(tmp_path / "savepoints")
    handles = open_checkpoint(savepoint).handles
    assert "IncrementalRemoteKeyedStateHandle" not in set(handles["type"])
    with SparkJob(counters(tmp_path / "other", rows_per_second=None), launch=ThreadGang, restore_path=savepoint) as job:
        job.start().wait(timeout_s=60)
        assert latest(job.output("out")) == expected()
