"""What a user asks of a job on Spark while it runs: a checkpoint, a savepoint, its end, another parallelism.

Each is a request to the JobMaster, made as soon as all tasks have run once. It is waited for, or gets a number with
which its answer is asked for later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal, Self, overload

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.events import RequestCheckpoint, RequestRescale, RequestSavepoint, RequestStop
from kit.core.protocol.words import Word
from kit.hosts.files.given import directory_given
from kit.hosts.files.job_failed import JobFailedError
from kit.hosts.spark.console import waiting
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.look import path_of
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Target = str | os.PathLike[str] | None
"""A directory for a savepoint; None for `savepoint_directory`, or `savepoints` in the directory for checkpoints."""
Widths = int | Mapping[str, int]
"""Numbers of subtasks: of all vertices that are as wide as the widest, or by name."""


class JobRequests:
    """The requests of a job."""

    job: JobGraph
    spark: SparkSession | None
    _driver: JobDriver
    _started: bool
    _uses_spark: bool
    _asked: dict[int, Future[CompleteRequest]]
    """The requests whose answers nobody has waited for, by number."""

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for the job's end; returns its status."""
        raise NotImplementedError

    def _waited_for(self) -> tuple[str, str]:
        """What is said meanwhile of a job that starts, and how far that is."""
        raise NotImplementedError

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[True] = True) -> str: ...

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[False]) -> int: ...

    def trigger_checkpoint(self, *, full: bool = False, wait: bool = True) -> str | int:
        """Take a checkpoint now; returns its path. Raises JobFailedError with the reason when there is none.

        With `wait=False` the request is only made, here and in the two below, and its number returned: see
        `job.look.answer`.
        """
        return self._ask(lambda number: RequestCheckpoint(request_id=number, full=full), wait=wait)

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[True] = True) -> str: ...

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[False]) -> int: ...

    def savepoint(self, target: Target = None, *, wait: bool = True) -> str | int:
        """Take a savepoint below `target`; returns its path. Raises JobFailedError with the reason when there is none.

        By default it goes to the `savepoint_directory` of the job's settings, or to `savepoints` in their `directory`.
        """
        path = directory_given("target", target)
        return self._ask(lambda number: RequestSavepoint(request_id=number, target=path), wait=wait)

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[True] = True) -> str: ...

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[False]) -> int: ...

    def stop(self, target: Target = None, *, drain: bool = False, wait: bool = True) -> str | int:
        """Stop the job with a savepoint below `target`; returns its path once the job has ended.

        `drain` first sends event time to its end, so that all windows fire. Raises JobFailedError: there is no
        savepoint and the job goes on, or it failed when the savepoint stood, which the error then names.
        """
        path = directory_given("target", target)
        try:
            answer = self._ask(lambda number: RequestStop(request_id=number, target=path, drain=drain), wait=wait)
        except JobFailedError:
            if self._driver.master.ending_as is not None:  # it failed with its savepoint standing, or was cancelled
                self._driver.wait()
            raise
        if wait:
            self.wait()
        return answer

    @overload
    def rescale(self, parallelism: Widths, *, at_once: bool = True, wait: Literal[True] = True) -> Self: ...

    @overload
    def rescale(self, parallelism: Widths, *, at_once: bool = True, wait: Literal[False]) -> int: ...

    def rescale(self, parallelism: Widths, *, at_once: bool = True, wait: bool = True) -> Self | int:
        """Go on at another parallelism, from a checkpoint that is taken for it now: of all vertices that are as wide as
        the widest, or of each by its name, or the uid or name of an operator in it. Returns the job, whose tasks all
        run again; with `wait=False` the number of the request.

        Unless `at_once` the job waits for its next checkpoint, and before that for the cooldown and the stabilization
        time (`RescaleConfig`). Raises ValueError for what cannot be, more slots than Spark has among it, and
        JobFailedError when the job was not rescaled; it runs on as it was then, or has ended.
        """
        wanted = parallelism_of(self.job, parallelism)
        if self._uses_spark:
            from kit.hosts.spark.preflight import check_rescale

            check_rescale(self.spark, self.job, wanted)
        request = self._ask(lambda n: RequestRescale(request_id=n, parallelism=wanted, at_once=at_once), wait=wait)
        return self if wait else int(request)

    def _ask(self, make: Callable[[int], Word], *, wait: bool) -> str | int:
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")
        with waiting(self._waited_for):
            self._driver.running.wait()
        answer = self._driver.ask(make)
        if wait:
            return path_of(answer)
        number = len(self._asked) + 1
        self._asked[number] = answer
        return number
