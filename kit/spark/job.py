"""A job on Spark, as its user holds it.

    spark = create_session(slots=2)
    with SparkJob(env, spark) as job:
        job.start()
        job.wait(progress=True)
        job.checkpoints()

Everything a user sees while the job runs is a copy: looking changes nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pandas as pd

from kit.coordinator.master_hooks import MasterHook
from kit.draw.stage import Stage
from kit.draw.statistics import CheckpointStatistics
from kit.graph.environment import StreamEnvironment
from kit.graph.job_graph import JobGraph
from kit.host.output import begin_new_output, check_new_output
from kit.protocol.commands import CompleteRequest
from kit.protocol.events import RequestCancel, RequestCheckpoint, RequestSavepoint, RequestStop, StartJob
from kit.protocol.properties import RecoveryClaimMode
from kit.protocol.trace import Trace
from kit.protocol.words import Word
from kit.spark.driver import DriverSettings, JobDriver, JobFailedError
from kit.spark.edge import (
    SparkOutput,
    check_writable,
    collected_directory,
    collects,
    read_output,
    temporary_directory,
)
from kit.spark.epoch import Launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSE_S = 30.0
PROGRESS_EVERY_S = 0.2


class SparkJob:
    """A job, run by Spark. `job` is a StreamEnvironment or a JobGraph; `spark` is made when none is given.

    `restore_path` begins from a savepoint or retained checkpoint; `allow_non_restored_state` lets state be left behind
    that no operator wants; `claim_mode` says whose the snapshot is from now on: NO_CLAIM (the user's; the first
    checkpoint is a full one), CLAIM (the job's, which deletes it when newer ones stand) or LEGACY.

    With `recover` the job goes on where a driver that died left it: its settings must name a durable store
    (`CheckpointConfig(store=...)`), and nobody else may run it at the same time. Without a checkpoint directory in its
    settings the job keeps its checkpoints in a temporary one, which goes with it. Raises OSError when the checkpoint
    directory cannot be written.

    A job ends by itself, or with `stop`, `cancel` or `close`; whichever way, no process, thread or socket is left. Used
    as a context manager it is closed at the end; so it is when the process ends.
    """

    def __init__(
        self,
        job: StreamEnvironment | JobGraph,
        spark: SparkSession | None = None,
        restore_path: str | os.PathLike[str] | None = None,
        allow_non_restored_state: bool = False,
        hooks: Sequence[MasterHook] = (),
        *,
        claim_mode: RecoveryClaimMode | str = RecoveryClaimMode.NO_CLAIM,
        recover: bool = False,
        settings: DriverSettings | None = None,
        launch: Launch | None = None,
    ) -> None:
        self.job = _job_graph(job)
        self.spark = spark
        self._start = StartJob(
            restore_path=None if restore_path is None else os.fspath(restore_path),
            allow_non_restored_state=allow_non_restored_state,
            claim_mode=RecoveryClaimMode(claim_mode),
            recover=recover,
        )
        self._output = SparkOutput(collected_directory() if collects(self.job) else "")
        directory = self.job.settings.checkpoint.directory
        self._temporary = temporary_directory("checkpoints-") if directory is None else None
        if directory is not None and self.job.settings.checkpoint.interval_ms is not None:
            check_writable(directory)
        self._driver = JobDriver(
            self.job,
            launch or self._launch,
            checkpoints=directory or str(self._temporary),
            output=self._output,
            hooks=hooks,
            settings=settings,
        )
        self._started = False
        self._at_exit: Callable[[], None] | None = None

    def _launch(self, *arguments: Any) -> Any:
        from kit.spark.gang import SparkGang

        assert self.spark is not None
        return SparkGang(self.spark, *arguments)

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> SparkJob:
        """Submit the job; returns at once. A job can be started once.

        Raises FileExistsError, before anything is run or deleted, when a sink's directory holds rows of another run.
        """
        if self._started:
            raise RuntimeError(f"job {self.job.name} was started before: make a new SparkJob to run it again")
        self._begin_output()
        if self.spark is None and self._driver_needs_spark():
            from kit.spark.session import create_session

            self.spark = create_session(slots=max(vertex.parallelism for vertex in self.job.vertices))
        self._started = True
        self._driver.start()
        self._at_exit = _close_at_exit(weakref.ref(self))
        self._driver.tell(self._start)
        return self

    def _begin_output(self) -> None:
        """With a durable store what is to be overwritten goes later: it may be of a run that can go on."""
        if self._start.restore_path is None and not self._start.recover:
            durable = self.job.settings.checkpoint.is_durable
            (check_new_output if durable else begin_new_output)(self.job, self._output)

    def _driver_needs_spark(self) -> bool:
        return self._driver.launch == self._launch

    def wait(self, timeout_s: float | None = None, *, progress: bool = False) -> str:
        """Wait for the job's end; returns its status: FINISHED or CANCELED, or, after `timeout_s`, what it is by then.

        `progress` shows a line about it meanwhile. Raises JobFailedError.
        """
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")
        if progress:
            self._show_progress(timeout_s)
        elif self._driver.wait(timeout_s):
            self._forget()
        if self._driver.ended.is_set() and self._driver.error is not None:
            raise self._driver.error
        return self.status

    def _show_progress(self, timeout_s: float | None) -> None:
        from tqdm.auto import tqdm

        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        with tqdm(bar_format="{desc} [{elapsed}]", desc=str(self)) as bar:
            while not self._driver.wait(PROGRESS_EVERY_S):
                bar.set_description_str(self._line())
                if end_s is not None and time.monotonic() >= end_s:
                    return
            bar.set_description_str(self._line())
        self._forget()

    def _line(self) -> str:
        with self._driver.lock:
            master = self._driver.master
            latest, epoch = master.checkpoints.store.latest, master.epoch
        checkpoint = "no checkpoint yet" if latest is None else f"checkpoint {latest.checkpoint_id} complete"
        return f"{self.job.name}: {self.status}, epoch {epoch}, {checkpoint}"

    def cancel(self) -> str:
        """End the job without a savepoint; returns its status."""
        self._driver.tell(RequestCancel())
        return self.wait()

    def close(self) -> None:
        """End the job if it still runs, and leave nothing of it."""
        if self._started and not self._driver.ended.is_set():
            self._driver.tell(RequestCancel())
            self._driver.wait(CLOSE_S)
        self._forget()

    def _forget(self) -> None:
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
            self._at_exit = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> SparkJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- requests -------------------------------------------------------------------------------------------------

    def trigger_checkpoint(self, *, full: bool = False) -> str:
        """Take a checkpoint now; returns its path. Raises JobFailedError with the reason when there is none."""
        return self._ask(lambda number: RequestCheckpoint(request_id=number, full=full))

    def savepoint(self, target: str | os.PathLike[str] | None = None) -> str:
        """Take a savepoint below `target` (or the configured directory); returns its path."""
        path = None if target is None else os.fspath(target)
        return self._ask(lambda number: RequestSavepoint(request_id=number, target=path))

    def stop(self, target: str | os.PathLike[str] | None = None, *, drain: bool = False) -> str:
        """Stop the job with a savepoint below `target`; returns its path once the job has ended.

        `drain` first sends event time to its end, so that all windows fire.
        """
        path = None if target is None else os.fspath(target)
        answer = self._ask(lambda number: RequestStop(request_id=number, target=path, drain=drain))
        self.wait()
        return answer

    def _ask(self, make: Callable[[int], Word]) -> str:
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")
        self._driver.running.wait()
        answer: CompleteRequest = self._driver.ask(make).result()
        if answer.error:
            raise JobFailedError(answer.error)
        return str(answer.path)

    # --- looking --------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """CREATED, RUNNING, RESTARTING, ... (see `kit.job.status`)."""
        return self._driver.master.status.name

    @property
    def trace(self) -> Trace:
        """Everything that has happened so far, without single buffers."""
        with self._driver.lock:
            return self._driver.trace[:]

    @property
    def stages(self) -> list[Stage]:
        """The shape of each epoch so far, as pictures need it."""
        with self._driver.lock:
            return list(self._driver.trace.stages)

    def checkpoints(self) -> pd.DataFrame:
        """One row a checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        with self._driver.lock:
            return self._driver.master.checkpoints.statistics.to_pandas()

    @property
    def statistics(self) -> CheckpointStatistics:
        """All that Flink's web UI shows of the checkpoints so far, and more: `.counts`, `.history`, `.subtasks(3)`."""
        with self._driver.lock:
            snapshot = self._driver.master.checkpoints.statistics.snapshot()
            return CheckpointStatistics(snapshot, self._driver.master.job, self._driver.trace[:])

    def restores(self) -> pd.DataFrame:
        """What each restore gave to whom: one row an epoch, task, operator and kind of state."""
        rows = [
            {"epoch": record.data["epoch"], "checkpoint_id": record.checkpoint_id, **row}
            for record in self.trace
            if record.kind == "StateAssigned"
            for row in record.data["assignments"]
        ]
        columns = ["epoch", "checkpoint_id", "operator", "task", "kind", "from", "key_groups", "entries", "bytes"]
        return pd.DataFrame(rows, columns=columns)

    def output(self, sink: str = "") -> pd.DataFrame:
        """All rows committed so far by the sink whose path ends in `sink` (not needed when there is only one)."""
        return read_output(self.job, self._output, sink)

    def workers(self) -> dict[int, int]:
        """The process id of the Python worker of each slot."""
        return self._driver.workers()

    def kill_worker(self, slot: int) -> int:
        """Kill a slot's worker process, as a crash would (SIGKILL); returns its process id.

        Raises ValueError when no such slot runs, or not on this machine.
        """
        hosts, workers = self._driver.hosts(), self.workers()
        if slot not in workers:
            raise ValueError(f"no slot {slot} runs now; there are {', '.join(map(str, workers)) or 'none'}")
        if hosts[slot] != socket.gethostname():
            raise ValueError(f"slot {slot} runs on {hosts[slot]}; kill process {workers[slot]} there")
        with contextlib.suppress(ProcessLookupError):  # it died in this very moment
            os.kill(workers[slot], signal.SIGKILL)
        return workers[slot]

    def __repr__(self) -> str:
        return f"SparkJob({self.job.name}, {self.status}, epoch {self._driver.master.epoch})"


def _job_graph(job: StreamEnvironment | JobGraph) -> JobGraph:
    """The graph to run; without a job id of the user's it gets one that no other run has, as Flink does, unless a
    driver that comes later must find it again.
    """
    if isinstance(job, JobGraph):
        return job
    graph = job.job_graph()
    known = job.has_job_id or graph.settings.checkpoint.is_durable
    return graph if known else replace(graph, job_id=uuid4().hex)


def _close_at_exit(reference: weakref.ref[SparkJob]) -> Callable[[], None]:
    def close() -> None:
        job = reference()
        if job is not None:
            job.close()

    atexit.register(close)
    return close
