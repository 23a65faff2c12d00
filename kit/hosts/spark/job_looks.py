"""What a user sees of a job on Spark: copies, so that looking changes nothing."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import pandas as pd

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.trace import Trace
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.edge import SparkOutput, read_output
from kit.hosts.spark.look import SparkFaults, SparkLook
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    from kit.hosts.spark.driver.gang import SparkGang


class JobLooks:
    """The job as it stands, and its workers."""

    job: JobGraph
    _driver: JobDriver
    _output: SparkOutput
    _not_started: str
    _gang: SparkGang | None
    _asked: dict[int, Future[CompleteRequest]]

    @property
    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, ... (see `kit.machines.job.status`)."""
        return self._driver.master.status.name

    @property
    def ended(self) -> bool:
        """Whether the job has ended, and nothing of it runs any more."""
        return self._driver.ended.is_set()

    @property
    def error(self) -> str:
        """Why the job failed, could not be started, or was restarted last; "" once it has completed a checkpoint since
        then, and when it has ended well.
        """
        return str(self._driver.error or self._not_started or self._driver.last_failure)

    @property
    def spark_group(self) -> str:
        """The group of its Spark job, as Spark's own pages name it."""
        return "" if self._gang is None else self._gang.group

    @property
    def trace(self) -> Trace:
        """Everything that has happened so far, without single buffers."""
        with self._driver.lock:
            return self._driver.trace[:]

    def checkpoints(self) -> pd.DataFrame:
        """One row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        with self._driver.lock:
            return self._driver.master.checkpoints.statistics.to_pandas()

    def output(self, sink: str = "") -> pd.DataFrame:
        """All rows committed so far by a sink: its path, the end of it, or its uid (of the only one nothing is needed).

        Raises ValueError with the sinks there are.
        """
        return read_output(self.job, self._output, sink)

    @property
    def look(self) -> SparkLook:
        """All else that is known of the job: `job.look.meters()`, `.workers()`, `.statistics`, `.restores()`, ..."""
        return SparkLook(self.job, self._driver, self._asked)

    @property
    def faults(self) -> SparkFaults:
        """The faults: `job.faults.kill(0)` kills the worker of slot 0."""
        return SparkFaults(self._driver)
