"""The read-only view of a job on Spark: copies, so that reading never changes the job."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import pandas as pd

from kit.core.protocol.commands import CompleteRequest
from kit.core.trace.trace import Trace
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.edge import SparkOutput, read_output
from kit.hosts.spark.look import SparkFaults, SparkLook
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kit.hosts.spark.driver.gang import SparkGang


class JobLooks:
    """The current state of a job and of its workers."""

    job: JobGraph
    spark: SparkSession | None
    _driver: JobDriver
    _output: SparkOutput
    _not_started: str
    _gang: SparkGang | None
    _asked: dict[int, Future[CompleteRequest]]

    @property
    def status(self) -> str:
        """The job's status: CREATED, RUNNING, RESTARTING, ... (see `kit.machines.job.status`)."""
        return self._driver.master.status.name

    @property
    def ended(self) -> bool:
        """True if the job has ended and nothing of it still runs."""
        return self._driver.ended.is_set()

    @property
    def error(self) -> str:
        """The reason why the job failed, could not be started, or last restarted; "" once it has completed a checkpoint
        since then, or has ended successfully.
        """
        return str(self._driver.error or self._not_started or self._driver.last_failure)

    @property
    def spark_group(self) -> str:
        """The group of its Spark job, as shown in Spark's UI."""
        return "" if self._gang is None else self._gang.group

    @property
    def trace(self) -> Trace:
        """The trace of everything that has happened so far, except single buffers."""
        with self._driver.lock:
            return self._driver.trace[:]

    def checkpoints(self) -> pd.DataFrame:
        """Return one row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        with self._driver.lock:
            return self._driver.master.checkpoints.statistics.to_pandas()

    def output(self, sink: str = "") -> pd.DataFrame:
        """Return all rows that a sink has committed so far.

        `sink` is its path, the end of its path, or its uid; it may be omitted if the job has only one sink. Raises
        ValueError, listing the sinks.
        """
        return read_output(self.job, self._output, sink)

    def to_spark(self, sink: str = "", *, stream: bool = False) -> DataFrame:
        """Return the rows that a sink has committed so far as a DataFrame of the job's Spark session.

        `sink` is as for `output`. The DataFrame keeps these rows while the job continues. With `stream`, return a
        streaming DataFrame of all rows, each once. Its batches end at checkpoints.

            job.to_spark("totals").createOrReplaceTempView("totals")
            job.to_spark("totals", stream=True).writeStream.option("checkpointLocation", path).toTable("totals")

        Raises ValueError, listing the sinks, SchemaError for a column of a type that Spark does not have, and
        RuntimeError if the job has no Spark session yet.
        """
        if self.spark is None:
            raise RuntimeError(f"job {self.job.name} has no Spark session yet: call start(), or give SparkJob one")
        from kit.hosts.spark.frames.output_frame import output_frame, output_stream

        return (output_stream if stream else output_frame)(self.spark, self.job, self._output, sink)

    @property
    def look(self) -> SparkLook:
        """Further information on the job: `job.look.meters()`, `.workers()`, `.statistics`, `.restores()`, ..."""
        return SparkLook(self.job, self._driver, self._asked)

    @property
    def faults(self) -> SparkFaults:
        """Faults that can be injected: `job.faults.kill(0)`."""
        return SparkFaults(self._driver)
