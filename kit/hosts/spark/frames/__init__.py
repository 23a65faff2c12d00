"""DataFrames of Spark at the two ends of a job: those it reads, and those that show its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kit.core.protocol.events import StartJob
    from kit.files.storage import CheckpointStorage
    from kit.hosts.spark.frames.staging import Staging
    from kit.stream.graph.job_graph import JobGraph


def staged(job: JobGraph, storage: CheckpointStorage, start: StartJob) -> tuple[JobGraph, Staging | None]:
    """Return the job with copies as sources instead of DataFrames, and these copies.

    A job that reads no DataFrame is returned unchanged, with None: it needs no Spark.
    """
    from kit.stream.connectors.data_frames import DataFrameSource, DataFrameStreamSource
    from kit.stream.operators.sources.source_spec import SourceSpec

    specs = [each.spec for each in job.operators if isinstance(each.spec, SourceSpec)]
    if not any(isinstance(spec.source, DataFrameSource | DataFrameStreamSource) for spec in specs):
        return job, None
    from kit.hosts.spark.frames.staging import Staging

    staging = Staging(job, storage, recovers=start.recover, restore_path=start.restore_path)
    return staging.job, staging
