"""Detailed information about a job on Spark, and the faults that can be injected into it.

All information is a copy, so reading never changes the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kit.core.protocol.commands import CompleteRequest
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.progress import Progress
from kit.machines.job.errors import JobFailedError
from kit.run.metrics import metrics_table, state_bytes_of
from kit.run.redistribution import restores_table
from kit.run.stage import Stage
from kit.run.statistics import CheckpointStatistics
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd


class SparkLook:
    """The current details of a job on Spark: its shape, checkpoints, restores, workers and metrics."""

    def __init__(self, job: JobGraph, driver: JobDriver, asked: Mapping[int, Future[CompleteRequest]]) -> None:
        self._job = job
        self._driver = driver
        self._asked = asked

    def answer(self, request: int) -> str | None:
        """Return the path of a request's snapshot, None while it is pending. Raises JobFailedError if it failed."""
        asked = self._asked.get(request)
        return None if asked is None or not asked.done() else path_of(asked)

    @property
    def stages(self) -> list[Stage]:
        """Return the shape of each epoch so far, as the diagrams need it."""
        with self._driver.lock:
            return [Stage.of(shape) for shape in self._driver.trace.stages]

    @property
    def statistics(self) -> CheckpointStatistics:
        """The checkpoint statistics that Flink's web UI shows, and more: `.counts`, `.history`, `.subtasks(3)`."""
        with self._driver.lock:
            snapshot = self._driver.master.checkpoints.statistics.snapshot()
            late_rows = self._driver.slots.meters.late_rows
            return CheckpointStatistics(snapshot, self._driver.master.job, self._driver.trace[:], late_rows)

    def restores(self) -> pd.DataFrame:
        """Return what each restore assigned: one row per epoch, task, operator and kind of state."""
        with self._driver.lock:
            return restores_table(self._driver.trace[:])

    def meters(self) -> pd.DataFrame:
        """Return the meters of each subtask, one row per subtask, as reported at most a quarter of a second ago.

        - task, records_in and records_out: of this epoch; a source's records are those it read
        - late_rows_dropped
        - watermark_ms: the last watermark sent; behind_ms: how far it is behind the clock. Both are missing before the
          first watermark and after the end
        - state_entries: keys, or keys and windows, of all states
        - state_bytes: of its state in the latest complete checkpoint
        - records_in_per_s, records_out_per_s
        - busy_ms_per_s, backpressured_ms_per_s, idle_ms_per_s: together 1000
        - sample: a row that it sent, or, if it sends none, a row that it received

        Rates cover about the last second and are missing before the second reading.

        Follows Flink's `TaskIOMetricGroup`.
        """
        with self._driver.lock:
            meters, sizes = self._driver.slots.meters, state_bytes_of(self._driver.master)
            return meters.to_pandas([vertex.name for vertex in self._job.vertices], self._driver.now(), sizes)

    def metrics(self) -> pd.DataFrame:
        """Return the metrics of each operator, one row per metric, as reported at most a quarter of a second ago.

        The columns are operator, subtask, metric, value and own: True if the user's function keeps the metric
        (`kit.stream.operators.metrics`). The kit's metrics are input_watermark_ms (with several inputs also
        input_1_watermark_ms and so on), output_watermark_ms, state_entries, state_bytes, late_rows_dropped, and
        splits_left of a source, for all its subtasks together.
        """
        with self._driver.lock:
            master = self._driver.master
            read = self._driver.slots.meters.operators([vertex.name for vertex in self._job.vertices])
            return metrics_table(read, state_bytes_of(master), master)

    def workers(self) -> dict[int, int]:
        """Return the process id of the Python worker of each slot."""
        return self._driver.slots.workers()

    def summary(self) -> dict[str, Any]:
        """Return the name, status, epoch, slots, restarts and the last complete checkpoint."""
        return Progress.of(self._driver).summary()


class SparkFaults:
    """Faults that can be injected into a job on Spark. `examples/faults.py` causes other faults from outside."""

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver

    def kill(self, slot: int) -> int:
        """Kill a slot's worker process, as a crash would (SIGKILL), and return its process id.

        Raises ValueError if no such slot runs, or if it runs on another machine.
        """
        hosts, workers = self._driver.slots.hosts(), self._driver.slots.workers()
        if not isinstance(slot, int) or slot not in workers:
            raise ValueError(f"no slot {slot} runs now; there are {', '.join(map(str, workers)) or 'none'}")
        if hosts[slot] != socket.gethostname():
            raise ValueError(f"slot {slot} runs on {hosts[slot]}; kill process {workers[slot]} there")
        with contextlib.suppress(ProcessLookupError):  # it has just died
            os.kill(workers[slot], signal.SIGKILL)
        return workers[slot]


def path_of(asked: Future[CompleteRequest]) -> str:
    """Return the path of the snapshot of a request. Raises JobFailedError if it failed."""
    answer = asked.result()
    if answer.error:
        raise JobFailedError(answer.error)
    return str(answer.path)
