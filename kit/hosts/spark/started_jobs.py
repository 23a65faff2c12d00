"""The jobs that this process has started on Spark, as far as the rest of this package needs to know them.

A job is dropped when nothing refers to it any more; a running job is kept alive by its own thread.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kit.hosts.spark.look import SparkLook
    from kit.stream.graph.job_graph import JobGraph


class StartedJob(Protocol):
    """The part of `SparkJob` that is used here."""

    job: JobGraph
    spark: SparkSession | None
    started_s: float
    """The time at which it was started, in s since 1970."""

    @property
    def ended(self) -> bool:
        """True if it holds no resources any more."""

    @property
    def output_owner(self) -> str:
        """The name under which it locks its output."""

    def close(self) -> None:
        """End the job."""

    @property
    def spark_group(self) -> str:
        """The group of its Spark jobs."""

    @property
    def look(self) -> SparkLook:
        """Detailed information on the job."""

    def end_at_once(self) -> None:
        """End the job because the process ends."""


_started: weakref.WeakSet[StartedJob] = weakref.WeakSet()


def remember(job: StartedJob) -> None:
    """Add a job that has been started."""
    _started.add(job)


def started() -> list[StartedJob]:
    """Return the jobs of this process that have been started and have not ended, oldest first."""
    return sorted((job for job in _started if not job.ended), key=lambda job: job.started_s)
