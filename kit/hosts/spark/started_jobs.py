"""The jobs that this process has started on Spark, by what the rest of this room needs to know of them.

They are forgotten when nobody holds them any more; a job that runs is held by its own thread.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kit.hosts.spark.look import SparkLook
    from kit.stream.graph.job_graph import JobGraph


class StartedJob(Protocol):
    """A `SparkJob`, as far as is asked here."""

    job: JobGraph
    spark: SparkSession | None
    started_s: float
    """When it was started, in s since 1970."""

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more."""

    @property
    def spark_group(self) -> str:
        """The group of its Spark jobs."""

    @property
    def look(self) -> SparkLook:
        """Its present."""

    def end_at_once(self) -> None:
        """End it, since the process ends."""


_started: weakref.WeakSet[StartedJob] = weakref.WeakSet()


def remember(job: StartedJob) -> None:
    """The job has been started."""
    _started.add(job)


def started() -> list[StartedJob]:
    """The jobs of this process that have been started and have not ended, oldest first."""
    return sorted((job for job in _started if not job.ended), key=lambda job: job.started_s)
