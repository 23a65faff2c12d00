"""State on disk on slots: more state than memory, with faults, other parallelisms and other backends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kit import CheckpointConfig, CollectionSource, CollectSink, JobFailedError, StreamEnvironment, count, sum_
from kit.hosts.spark import SparkJob
from kit.hosts.spark.slot.spill_directory import SpillDirectory
from tests.hosts.spark.jobs import ThreadGang

KEYS = 400
ROWS = [{"k": n * 7 % KEYS, "v": n} for n in range(4_000)]
LITTLE_MB = 0.004
"""Memory for some 60 of the 130 to 400 keys of a subtask."""


def totals(
    tmp_path: Path, *, parallelism: int = 2, rows_per_second: float | None = 2_000, backend: str = "disk", **config: Any
) -> StreamEnvironment:
    """Return a job that counts by key, with a checkpoint every 50 ms."""
    env = StreamEnvironment(
        "totals",
        parallelism=parallelism,
        max_parallelism=8,
        checkpoint=CheckpointConfig(
            interval_ms=50, directory=str(tmp_path / "checkpoints"), **{"incremental": True, **config}
        ),
        state_backend=backend,
        state_memory_mb=LITTLE_MB,
        state_directory=tmp_path / "state",
    )
    source = CollectionSource(ROWS, batch_rows=20, splits=1, rows_per_second=rows_per_second)
    read = env.from_source(source, uid="numbers").set_parallelism(1)
    read.key_by("k").aggregate(rows=count(), total=sum_("v")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def expected() -> dict[int, tuple[int, int]]:
    rows = Counter(row["k"] for row in ROWS)
    sums: Counter[int] = Counter()
    for row in ROWS:
        sums[row["k"]] += row["v"]
    return {key: (rows[key], sums[key]) for key in rows}


def emitted(job: SparkJob) -> dict[int, tuple[int, int]]:
    """Return the last totals of each key; each of its rows was emitted once."""
    output = job.output("out")
    assert len(output) == len(ROWS)
    newest = output.sort_values("rows").drop_duplicates("k", keep="last")
    return dict(zip(newest["k"], zip(newest["rows"], newest["total"], strict=True), strict=True))


def entries_on_disk(job: SparkJob) -> pd.Series:
    """Return the number of each subtask."""
    return job.metrics().query("operator == 'totals' and metric == 'state_entries_on_disk'")["value"]


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[SpillDirectory]:
    """The directory of each file to which rows were moved."""
    found: list[SpillDirectory] = []
    create = SpillDirectory.create

    def noted(self: SpillDirectory) -> Any:
        found.append(self)
        return create(self)

    monkeypatch.setattr(SpillDirectory, "create", noted)
    return found


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("local_recovery", [True, False])
def test_slots_that_are_lost_lose_nothing(
    tmp_path: Path, spilled: list[SpillDirectory], incremental: bool, local_recovery: bool
) -> None:
    with SparkJob(totals(tmp_path, incremental=incremental, local_recovery=local_recovery), launch=ThreadGang) as job:
        job.start().wait_until_running(timeout_s=60)
        for restarts in (1, 2):
            job.trigger_checkpoint()
            ThreadGang.current.kill(restarts - 1)
            job.wait_until_running(restarts=restarts, timeout_s=60)
        job.wait(timeout_s=120)
        assert emitted(job) == expected()
    assert len(spilled) > 10
    assert list((tmp_path / "state").iterdir()) == [], "nothing has a name there"
    assert [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("before", "after"), [("disk", "memory"), ("memory", "disk"), ("disk", "disk")])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_savepoint_changes_the_backend_and_the_parallelism(
    tmp_path: Path, spilled: list[SpillDirectory], before: str, after: str, parallelism: int
) -> None:
    with SparkJob(totals(tmp_path / "first", backend=before, rows_per_second=1_000), launch=ThreadGang) as job:
        job.start().wait_until_running(timeout_s=60)
        while len(job.output("out")) < 2 * KEYS or (before == "disk" and entries_on_disk(job).min() < 20):
            job.trigger_checkpoint()
        assert len(entries_on_disk(job)) == (2 if before == "disk" else 0)
        savepoint = job.stop(tmp_path / "savepoints")
        assert len(job.output("out")) < len(ROWS)
    env = totals(tmp_path / "second", backend=after, parallelism=parallelism, rows_per_second=None)
    with SparkJob(env, launch=ThreadGang, restore_path=savepoint) as job:
        job.start().wait(timeout_s=120)
        assert emitted(job) == expected()
    assert spilled


def test_a_directory_that_takes_nothing_fails_the_job_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, not a directory")
    why = r"(?s)keyed state cannot be written to .*state_directory=.*state_memory_mb"
    env = totals(tmp_path, rows_per_second=None)
    with SparkJob(env, launch=ThreadGang) as job, pytest.raises(JobFailedError, match=why):
        job.start().wait(timeout_s=60)
