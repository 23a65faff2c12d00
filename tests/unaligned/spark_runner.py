"""The Spark host's runs of rows of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kit.hosts.spark.job import SparkJob
from kit.stream.connectors import ParquetSink
from tests.hosts.spark.jobs import await_checkpoint, read, until
from tests.hosts.spark.test_unaligned import metadata_of
from tests.unaligned.in_flight import records_in_flight
from tests.unaligned.jobs import MODES, Plan, problems
from tests.unaligned.matrix import Rescale
from tests.unaligned.topologies import TOPOLOGIES, environment

TOO_SLOW_MS = 60
"""What a batch takes in the last task when it cannot keep up with one reader."""


def rescale_on_spark(
    row: Rescale,
    mode: str,
    directory: Path,
    launch: Callable[[Plan, str | None], SparkJob],
    kill: Callable[[SparkJob], None],
    rows: int = 300,
) -> str:
    """Run a row: a worker dies, the job is cancelled and resumes at the other parallelism. Gives the checkpoint
    between the two, which holds records under way where barriers overtake them and the last task is slow; everything
    has been checked.
    """
    unaligned = MODES[mode].get("unaligned", False)
    in_flight = mode == "unaligned" and not row.slow_source and bool(row.queues)
    plan = Plan(
        topology=row.topology,
        parallelism=row.old,
        splits=row.old,
        rows=rows,
        batch_rows=4,
        mode=mode,
        rows_per_second=100.0,
        sink_pause_ms=0 if row.slow_source else max(3, TOO_SLOW_MS // row.old if unaligned else 0),
        sink=ParquetSink(str(directory / "rows")),
    )
    with launch(plan, None) as job:
        job.start()
        await_checkpoint(job, 2)
        kill(job)
        until(lambda: len(job.look.restores()) > 0, job)
        await_checkpoint(job, int(job.look.restores()["checkpoint_id"].max()) + 1, in_flight=in_flight)
        assert job.cancel() == "CANCELED"
    path = newest(directory / "checkpoints")
    if in_flight:
        assert records_in_flight(metadata_of(Path(path)), environment(plan).job_graph()).total() > 0
    after = replace(plan.rescaled(row.new), rows_per_second=None, sink_pause_ms=0)
    with launch(after, path) as job:
        job.start()
        assert job.wait() == "FINISHED"
    topology = TOPOLOGIES[row.topology]
    assert problems(after, read(directory / "rows"), topology.sources, topology.counted) == []
    return path


def newest(directory: Path) -> str:
    """The newest checkpoint that was retained."""
    return str(max(directory.glob("*/chk-*"), key=lambda path: int(path.name.removeprefix("chk-"))))


def spark_job(plan: Plan, path: str | None, directory: Path, **options: Any) -> SparkJob:
    """The job with its checkpoints below `directory`."""
    env = environment(plan, interval_ms=40, directory=str(directory / "checkpoints"))
    return SparkJob(env, restore_path=path, **options)
