"""Requests to a running job on Spark: a checkpoint, a savepoint, a stop, another parallelism.

Each is a request to the JobMaster, sent as soon as all tasks have run once. A call waits for the answer, or returns a
number with which the answer can be looked up later.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal, Self, overload

from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.events import RequestCheckpoint, RequestRescale, RequestSavepoint, RequestStop
from kit.core.protocol.words import Word
from kit.files.given import directory_given, flag_given, path_given
from kit.files.job_failed import JobFailedError
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
"""Numbers of subtasks: one for all vertices that are as wide as the widest, or one per vertex, by name."""


class JobRequests:
    """The requests of a job."""

    job: JobGraph
    spark: SparkSession | None
    _driver: JobDriver
    _started: bool
    _uses_spark: bool
    _asked: dict[int, Future[CompleteRequest]]
    """The requests that were sent without waiting for the answer, by number."""

    def wait(self, timeout_s: float | None = None) -> str:
        """Wait for the job's end and return its status."""
        raise NotImplementedError

    def _waited_for(self) -> tuple[str, str]:
        """Return what is shown while a job starts, and how far the start is."""
        raise NotImplementedError

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[True] = True) -> str: ...

    @overload
    def trigger_checkpoint(self, *, full: bool = False, wait: Literal[False]) -> int: ...

    def trigger_checkpoint(self, *, full: bool = False, wait: bool = True) -> str | int:
        """Take a checkpoint now and return its path. Raises JobFailedError with the reason if it fails.

        With `wait=False`, only send the request and return its number for `job.look.answer`. This also applies to
        `savepoint`, `stop` and `rescale`.
        """
        flag_given("full", full)
        return self._ask(lambda number: RequestCheckpoint(request_id=number, full=full), wait=wait)

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[True] = True) -> str: ...

    @overload
    def savepoint(self, target: Target = None, *, wait: Literal[False]) -> int: ...

    def savepoint(self, target: Target = None, *, wait: bool = True) -> str | int:
        """Take a savepoint below `target` and return its path. Raises JobFailedError with the reason if it fails.

        The default target is the `savepoint_directory` of the job's settings, or `savepoints` in their `directory`.
        """
        path = directory_given("target", target)
        return self._ask(lambda number: RequestSavepoint(request_id=number, target=path), wait=wait)

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[True] = True) -> str: ...

    @overload
    def stop(self, target: Target = None, *, drain: bool = False, wait: Literal[False]) -> int: ...

    def stop(self, target: Target = None, *, drain: bool = False, wait: bool = True) -> str | int:
        """Stop the job with a savepoint below `target`; return its path once the job has ended.

        `drain` first advances event time to its end, so that all windows fire. Raises JobFailedError if there is no
        savepoint, in which case the job keeps running, or if the job failed after the savepoint was complete. The
        error then names the savepoint.
        """
        path = directory_given("target", target)
        flag_given("drain", drain)
        try:
            answer = self._ask(lambda number: RequestStop(request_id=number, target=path, drain=drain), wait=wait)
        except JobFailedError:
            if self._driver.master.ending_as is not None:  # it failed after its savepoint, or was cancelled
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
        """Continue at another parallelism, from a checkpoint that is taken for it now.

        `parallelism` is one number for all vertices that are as wide as the widest, or one per vertex, by its name or
        by the uid or name of an operator in it. Returns the job once all its tasks run again; with `wait=False`,
        returns the number of the request.

        Unless `at_once`, the job waits for the cooldown and the stabilization time (`RescaleConfig`) and then for its
        next checkpoint. Raises ValueError for an invalid request, for example one for more slots than Spark has.
        Raises JobFailedError if the job was not rescaled: it then keeps running unchanged, or has ended.
        """
        wanted = parallelism_of(self.job, parallelism)
        flag_given("at_once", at_once)
        if self._uses_spark:
            from kit.hosts.spark.preflight import check_rescale

            check_rescale(self.spark, self.job, wanted)
        request = self._ask(lambda n: RequestRescale(request_id=n, parallelism=wanted, at_once=at_once), wait=wait)
        return self if wait else int(request)

    def dispose_savepoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a savepoint: its `_metadata` and its files. `kit.dispose_savepoint` needs no job for it.

        Raises CheckpointInUseError for a checkpoint that this job may restore, and else what the function raises.
        """
        self._driver.dispose_savepoint(path_given("path", path))

    def _ask(self, make: Callable[[int], Word], *, wait: bool) -> str | int:
        flag_given("wait", wait)
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
