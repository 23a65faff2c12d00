"""Signal handling of a process with jobs on Spark.

**SIGINT.** PySpark's own handler cancels every Spark job before it raises KeyboardInterrupt. A job of ours would lose
its gang and restart. `keep_jobs_on_interrupt` replaces that handler with one that cancels the user's queries and leaves
our jobs to `SparkJob.wait`.

**SIGTERM and SIGHUP** end Python without any clean-up. If there are jobs to end or files to remove, the handler does
that first; then the process ends by the same signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from kit.hosts.spark.scheduler import cancel_job
from kit.hosts.spark.started_jobs import started
from kit.hosts.spark.temporary import remove_all_directories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANCEL_S = 2.0
"""The time for which an interrupt waits for Spark."""


def keep_jobs_on_interrupt(spark: SparkSession) -> None:
    """Make an interrupt of the main thread spare our jobs. A user-defined handler stays installed."""
    if threading.current_thread() is not threading.main_thread():
        return
    handler = signal.getsignal(signal.SIGINT)
    if getattr(handler, "__qualname__", "") == "SparkContext._do_init.<locals>.signal_handler":
        signal.signal(signal.SIGINT, _Interrupt(spark))


class _Interrupt:
    """A handler that cancels the user's own Spark queries and raises KeyboardInterrupt."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, number: int, frame: Any) -> NoReturn:
        canceller = threading.Thread(target=self._cancel_queries, name="kit-interrupt", daemon=True)
        canceller.start()  # the main thread may be in the middle of a call to Java
        canceller.join(CANCEL_S)
        raise KeyboardInterrupt

    def _cancel_queries(self) -> None:
        with contextlib.suppress(Exception):  # the session may be gone
            status = self._spark.sparkContext.statusTracker()
            ours = {number for job in started() for number in status.getJobIdsForGroup(job.spark_group)}
            for number in set(status.getActiveJobsIds()) - ours:
                cancel_job(self._spark, number)


def end_in_order() -> None:
    """Make SIGTERM and SIGHUP end the jobs and remove their files first, unless another handler is installed."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: Any) -> None:
    for job in started():
        job.end_at_once()
    remove_all_directories()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
