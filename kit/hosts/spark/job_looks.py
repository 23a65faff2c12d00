"""What a user sees of a job on Spark: copies, so that looking changes nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pandas as pd

from kit.core.protocol.trace import Trace
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.edge import SparkOutput, read_output
from kit.hosts.spark.progress import Progress
from kit.run.metrics import metrics_table, state_bytes_of
from kit.run.redistribution import restores_table
from kit.run.stage import Stage
from kit.run.statistics import CheckpointStatistics
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

    @property
    def stages(self) -> list[Stage]:
        """The shape of each epoch so far, as pictures need it."""
        with self._driver.lock:
            return [Stage.of(shape) for shape in self._driver.trace.stages]

    def checkpoints(self) -> pd.DataFrame:
        """One row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        with self._driver.lock:
            return self._driver.master.checkpoints.statistics.to_pandas()

    @property
    def statistics(self) -> CheckpointStatistics:
        """All that Flink's web UI shows of the checkpoints so far, and more: `.counts`, `.history`, `.subtasks(3)`."""
        with self._driver.lock:
            snapshot = self._driver.master.checkpoints.statistics.snapshot()
            late_rows = self._driver.slots.meters.late_rows
            return CheckpointStatistics(snapshot, self._driver.master.job, self._driver.trace[:], late_rows)

    def restores(self) -> pd.DataFrame:
        """What each restore gave to whom: one row per epoch, task, operator and kind of state."""
        return restores_table(self.trace)

    def output(self, sink: str = "") -> pd.DataFrame:
        """All rows committed so far by a sink: its path, the end of it, or its uid (of the only one nothing is needed).

        Raises ValueError with the sinks there are.
        """
        return read_output(self.job, self._output, sink)

    def meters(self) -> pd.DataFrame:
        """What each subtask does now, as its slot said at most a quarter of a second ago. One row per subtask: task,
        records_in and records_out (of this epoch; a source's are those it read), late_rows_dropped, watermark_ms (the
        last one that it handed on) and behind_ms (by how much that is behind the clock; both missing before the first
        watermark and after the end), state_entries (keys, or keys and windows, of all states), state_bytes (of its
        state in the latest complete checkpoint), records_in_per_s, records_out_per_s, busy_ms_per_s,
        backpressured_ms_per_s, idle_ms_per_s (together 1000),
        sample (a row that it sent, or where it sends none one that came). Rates are of the last second or so, missing
        before the second reading.

        Follows Flink's `TaskIOMetricGroup`.
        """
        with self._driver.lock:
            meters, sizes = self._driver.slots.meters, state_bytes_of(self._driver.master)
            return meters.to_pandas([vertex.name for vertex in self.job.vertices], self._driver.now(), sizes)

    def metrics(self) -> pd.DataFrame:
        """The metrics of each operator, as its slot said at most a quarter of a second ago. One row per metric:
        operator, subtask, metric, value, own (whether the user's function keeps it: `kit.stream.operators.metrics`).

        The kit's are input_watermark_ms (with several inputs also input_1_watermark_ms and so on), output_watermark_ms,
        state_entries, state_bytes, late_rows_dropped, and splits_left of a source, for all its subtasks together.
        """
        with self._driver.lock:
            master = self._driver.master
            read = self._driver.slots.meters.operators([vertex.name for vertex in self.job.vertices])
            return metrics_table(read, state_bytes_of(master), master)

    def workers(self) -> dict[int, int]:
        """The process id of the Python worker of each slot."""
        return self._driver.slots.workers()

    def kill_worker(self, slot: int) -> int:
        """Kill a slot's worker process, as a crash would (SIGKILL); returns its process id.

        Raises ValueError when no such slot runs, or not on this machine.
        """
        hosts, workers = self._driver.slots.hosts(), self.workers()
        if slot not in workers:
            raise ValueError(f"no slot {slot} runs now; there are {', '.join(map(str, workers)) or 'none'}")
        if hosts[slot] != socket.gethostname():
            raise ValueError(f"slot {slot} runs on {hosts[slot]}; kill process {workers[slot]} there")
        with contextlib.suppress(ProcessLookupError):  # it died in this very moment
            os.kill(workers[slot], signal.SIGKILL)
        return workers[slot]

    def summary(self) -> dict[str, Any]:
        """Name, status, epoch, slots, restarts and the last complete checkpoint."""
        return Progress.of(self._driver).summary()
