"""DataFrames of a job that begins from a snapshot: those are copied whose sources the snapshot does not know."""

from __future__ import annotations

from pathlib import Path

from kit.hosts.spark.edge import open_storage
from kit.hosts.spark.frames.staging import Staging
from kit.hosts.spark.job import SparkJob
from tests.hosts.spark.jobs import LASTING, ThreadGang, await_rows, totals_job


def test_only_a_source_that_the_snapshot_knows_is_restored(tmp_path: Path) -> None:
    """A source that is added at the restore has everything to read; other operators have no splits."""
    env = totals_job(tmp_path, LASTING)
    with SparkJob(env, launch=ThreadGang) as job:
        job.start()
        await_rows(job)
        savepoint = job.stop(tmp_path / "savepoints")
    graph = env.job_graph()
    storage = open_storage(graph, str(tmp_path / "checkpoints"))
    ids = {operator.name: operator.operator_id for operator in graph.operators}
    staging = Staging(graph, storage, recovers=False, restore_path=savepoint)
    source = ids["rows"]
    assert staging.is_restored(source)
    others = [each for each in ids.values() if each != source]
    assert others
    assert not any(map(staging.is_restored, others))
    assert not staging.is_restored("f" * 32), "a source that was added"
    assert not Staging(graph, storage, recovers=False, restore_path=None).is_restored(source)
