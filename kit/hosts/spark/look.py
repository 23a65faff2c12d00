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
from kit.run.redistribution import restores_table
from kit.run.stage import Stage

if TYPE_CHECKING:
    import pandas as pd


class SparkLook:
    """Less common information about a job on Spark: its shape, restores, workers, the answer of a request."""

    def __init__(self, driver: JobDriver, asked: Mapping[int, Future[CompleteRequest]]) -> None:
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

    def restores(self) -> pd.DataFrame:
        """Return what each restore assigned: one row per epoch, task, operator and kind of state."""
        with self._driver.lock:
            return restores_table(self._driver.trace[:])

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
