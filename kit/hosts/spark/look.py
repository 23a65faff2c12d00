"""The state of a job on Spark beyond its everyday names, and the faults that can be injected into it.

All of it is a copy: looking changes nothing.
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
from kit.hosts.files.job_failed import JobFailedError
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.progress import Progress
from kit.run.metrics import metrics_table, state_bytes_of
from kit.run.redistribution import restores_table
from kit.run.stage import Stage
from kit.run.statistics import CheckpointStatistics
from kit.stream.graph.job_graph import JobGraph

if TYPE_CHECKING:
    import pandas as pd


class SparkLook:
    """The present of a job on Spark: its shape, checkpoints, restores, workers and what they do."""

    def __init__(self, job: JobGraph, driver: JobDriver, asked: Mapping[int, Future[CompleteRequest]]) -> None:
        self._job = job
        self._driver = driver
        self._asked = asked

    def answer(self, request: int) -> str | None:
        """Return where the snapshot of a request is, None as long as it is not done; JobFailedError when it failed."""
        asked = self._asked.get(request)
        return None if asked is None or not asked.done() else path_of(asked)

    @property
    def stages(self) -> list[Stage]:
        """The shape of each epoch so far, as pictures need it."""
        with self._driver.lock:
            return [Stage.of(shape) for shape in self._driver.trace.stages]

    @property
    def statistics(self) -> CheckpointStatistics:
        """All that Flink's web UI shows of the checkpoints so far, and more: `.counts`, `.history`, `.subtasks(3)`."""
        with self._driver.lock:
            snapshot = self._driver.master.checkpoints.statistics.snapshot()
            late_rows = self._driver.slots.meters.late_rows
            return CheckpointStatistics(snapshot, self._driver.master.job, self._driver.trace[:], late_rows)

    def restores(self) -> pd.DataFrame:
        """What each restore gave to whom: one row per epoch, task, operator and kind of state."""
        with self._driver.lock:
            return restores_table(self._driver.trace[:])

    def meters(self) -> pd.DataFrame:
        """What each subtask does now, as its slot said at most a quarter of a second ago. One row per subtask: task,
        records_in and records_out (of this epoch; a source's are those it read), late_rows_dropped, watermark_ms (the
        last one that it sent) and behind_ms (by how much that is behind the clock; both missing before the first
        watermark and after the end), state_entries (keys, or keys and windows, of all states), state_bytes (of its
        state in the latest complete checkpoint), records_in_per_s, records_out_per_s, busy_ms_per_s,
        backpressured_ms_per_s, idle_ms_per_s (together 1000), sample (a row that it sent, or where it sends none one
        that came). Rates are of the last second or so, missing before the second reading.

        Follows Flink's `TaskIOMetricGroup`.
        """
        with self._driver.lock:
            meters, sizes = self._driver.slots.meters, state_bytes_of(self._driver.master)
            return meters.to_pandas([vertex.name for vertex in self._job.vertices], self._driver.now(), sizes)

    def metrics(self) -> pd.DataFrame:
        """The metrics of each operator, as its slot said at most a quarter of a second ago. One row per metric:
        operator, subtask, metric, value, own (whether the user's function keeps it: `kit.stream.operators.metrics`).

        The kit's are input_watermark_ms (with several inputs also input_1_watermark_ms and so on), output_watermark_ms,
        state_entries, state_bytes, late_rows_dropped, and splits_left of a source, for all its subtasks together.
        """
        with self._driver.lock:
            master = self._driver.master
            read = self._driver.slots.meters.operators([vertex.name for vertex in self._job.vertices])
            return metrics_table(read, state_bytes_of(master), master)

    def workers(self) -> dict[int, int]:
        """The process id of the Python worker of each slot."""
        return self._driver.slots.workers()

    def summary(self) -> dict[str, Any]:
        """Name, status, epoch, slots, restarts and the last complete checkpoint."""
        return Progress.of(self._driver).summary()


class SparkFaults:
    """The faults of a job on Spark. `examples/faults.py` injects the rest from outside."""

    def __init__(self, driver: JobDriver) -> None:
        self._driver = driver

    def kill(self, slot: int) -> int:
        """Kill a slot's worker process, as a crash would (SIGKILL); returns its process id.

        Raises ValueError when no such slot runs, or not on this machine.
        """
        hosts, workers = self._driver.slots.hosts(), self._driver.slots.workers()
        if slot not in workers:
            raise ValueError(f"no slot {slot} runs now; there are {', '.join(map(str, workers)) or 'none'}")
        if hosts[slot] != socket.gethostname():
            raise ValueError(f"slot {slot} runs on {hosts[slot]}; kill process {workers[slot]} there")
        with contextlib.suppress(ProcessLookupError):  # it died in this very moment
            os.kill(workers[slot], signal.SIGKILL)
        return workers[slot]


def path_of(asked: Future[CompleteRequest]) -> str:
    """Return where the snapshot of a request is. Raises JobFailedError when it failed."""
    answer = asked.result()
    if answer.error:
        raise JobFailedError(answer.error)
    return str(answer.path)
