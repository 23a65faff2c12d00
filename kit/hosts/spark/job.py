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
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from kit.core.protocol.events import (
    RequestCancel,
    StartJob,
)
from kit.core.protocol.properties import Durability, LaterOutput, RecoveryClaimMode
from kit.core.protocol.signposts import JOB, RESTORE_PATH, no_attribute, takes
from kit.hosts.files.given import directory_given, no_job, one_of, seconds_given
from kit.hosts.files.job_failed import JobFailedError
from kit.hosts.files.onlooker import in_notebook, progress_is_off
from kit.hosts.files.output import begin_new_output, check_new_output, output_at_risk
from kit.hosts.spark.console import PATIENCE_S, say, waiting
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.driver.epoch import Launch
from kit.hosts.spark.edge import (
    SparkOutput,
    check_writable,
    collected_directory,
    forget_collected,
    open_storage,
)
from kit.hosts.spark.job_looks import JobLooks
from kit.hosts.spark.job_requests import JobRequests
from kit.hosts.spark.progress import Progress, show_progress
from kit.hosts.spark.signals import end_in_order, keep_jobs_on_interrupt
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.started_jobs import StartedJob, remember, started
from kit.hosts.spark.temporary import remove_directory, temporary_directory
from kit.machines.coordinator.master_hooks import MasterHook
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.spec import shorten
from kit.stream.operators.windows.late_rows import late_rows_counted
from kit.stream.settings.parts import Parts
from kit.why import Asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kit.hosts.spark.driver.gang import SparkGang

CLOSE_S = 30.0
AT_ONCE_S = 1.0
"""Whoever has no time to wait for the workers to leave gives them so long."""
logger = logging.getLogger("kit.hosts.spark")
SUBMIT_EVERY_S = 0.05


class SparkJob(JobRequests, JobLooks, Asking):
    """A job, run by Spark. `job` is a StreamEnvironment or a JobGraph; `spark` is made when none is given.

    `restore_path` begins from a savepoint or retained checkpoint; `allow_non_restored_state` lets state be left behind
    that no operator wants; `claim_mode` says whose the snapshot is from now on: NO_CLAIM (the user's; the first
    checkpoint is a full one), CLAIM (the job's, which deletes it when newer ones are complete) or LEGACY.
    `later_output` says what becomes of output that was published after the snapshot, whose rows come again: "error"
    rejects the restore, "discard" deletes that output first, "keep" has those rows twice.

    With `recover` the job goes on where a driver that died left it, at the parallelism that was last asked for there:
    its settings must name a durable store (`CheckpointConfig(store=...)`). If that driver is alive after all, the job
    is taken from it: it stops with status SUSPENDED, and publishes nothing more. Without `recover` a job that another
    driver runs is rejected.
    Without a checkpoint directory in its settings the job keeps its checkpoints in a temporary one, which goes with it.
    Raises OSError when the checkpoint directory cannot be written, and TypeError for a `spark` that is no session.

    A job ends by itself, or with `stop`, `cancel` or `close`; whichever way, no process, thread or socket is left. Used
    as a context manager it is closed at the end; so it is when the process ends, also by SIGTERM. As long as it runs
    it goes on, whatever becomes of the variable that held it: `kit.running()` lists the jobs that run.

    With `record` a lab can do the run again, step by step: `job.trace.save_recording(path)` once it has ended, and then
    `Lab.follow(env, path)`. The path of a directory instead of True keeps there what the workers write down meanwhile:
    where they are on several machines, one that all of them reach.

    `parts` are parts of the protocol of your own, as for a `Lab`; one that breaks its contract ends the job.

    Ctrl-C while a script waits for the job cancels it, and leaves at once when it comes again. A notebook's cell that
    is interrupted only stops waiting: the job goes on, and a line says so; a `with` block ends it there too.
    """

    @takes(
        **dict.fromkeys(("master", "spark_master"), "write spark=create_session(master='local[2]')"),
        **dict.fromkeys(("path", "savepoint", "checkpoint"), RESTORE_PATH),
    )
    def __init__(
        self,
        job: StreamEnvironment | JobGraph,
        spark: SparkSession | None = None,
        restore_path: str | os.PathLike[str] | None = None,
        allow_non_restored_state: bool = False,
        hooks: Sequence[MasterHook] = (),
        *,
        claim_mode: RecoveryClaimMode | str = RecoveryClaimMode.NO_CLAIM,
        later_output: LaterOutput | str = LaterOutput.ERROR,
        recover: bool = False,
        settings: DriverSettings | None = None,
        launch: Launch | None = None,
        record: bool | str | os.PathLike[str] = False,
        parts: Parts | None = None,
    ) -> None:
        self.job = _job_graph(job).with_parts(parts)
        self.spark = _session(spark)
        self._start = StartJob(
            restore_path=directory_given("restore_path", restore_path),
            allow_non_restored_state=allow_non_restored_state,
            claim_mode=one_of(RecoveryClaimMode, "claim_mode", claim_mode),
            later_output=one_of(LaterOutput, "later_output", later_output),
            recover=recover,
        )
        directory = self.job.settings.checkpoint.directory
        self._temporary = temporary_directory("checkpoints-") if directory is None else None
        collected = collected_directory(self.job, open_storage(self.job, directory or str(self._temporary)))
        self._output = SparkOutput(collected, self.job.settings.checkpoint.durability is Durability.FSYNC)
        if collected and not self.job.settings.checkpoint.is_durable:
            weakref.finalize(self, forget_collected, collected).atexit = False
        self._sockets = ""
        self._recording = temporary_directory("recording-") if record is True else ""
        """What goes with the job; a recording in a directory of the user's stays."""
        if directory is not None and self.job.settings.checkpoint.interval_ms is not None:
            check_writable(directory)
        self._driver = JobDriver(
            self.job,
            self._launch if launch is None else lambda ticket, ended: launch(self._placed(ticket), ended),
            checkpoints=directory or str(self._temporary),
            output=self._output,
            hooks=hooks,
            settings=settings,
            recording=self._recording or _kept_recording(record),
        )
        self._asked = {}
        self._uses_spark = launch is None
        self._started = self._entered = False
        self._not_started = ""
        self._submitted = threading.Event()
        self._gang: SparkGang | None = None
        self._at_exit: Callable[[], None] | None = None
        self.started_s = 0.0
        """The wall clock at `start`, in seconds since 1970."""

    def _launch(self, ticket: SlotTicket, ended: Callable[[str], None]) -> SparkGang:
        from kit.hosts.spark.driver.gang import SparkGang

        assert self.spark is not None
        self._gang = SparkGang(self.spark, self._placed(ticket), ended)
        return self._gang

    def _placed(self, ticket: SlotTicket) -> SlotTicket:
        self._submitted.set()
        return replace(ticket, sockets=self._sockets)

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self) -> SparkJob:
        """Submit the job; returns when Spark has it, and does not wait for the workers. A job can be started once.

        What can be known beforehand is found here: raises JobFailedError when something in the job cannot be sent to
        Spark's workers, when the session cannot run it or has too few slots (then it may be started again), and when
        it cannot begin: a `restore_path` that is not there or does not fit, splits that cannot be listed. Raises
        FileExistsError, before anything is run or deleted, when a sink's directory holds rows of another run.
        """
        if self._started:
            raise RuntimeError(f"job {self.job.name} was started before: make a new SparkJob to run it again")
        others = started()
        try:
            self._check()
        except JobFailedError as error:
            self._not_started = str(error)
            raise
        self._begin_output()
        if risk := output_at_risk(self.job):
            logger.warning("%s", risk)
        self._not_started = ""
        self._started = True
        self.started_s = time.time()
        self._sockets = temporary_directory("sockets-")
        self._driver.start()
        remember(self)
        self._at_exit = _close_at_exit(weakref.ref(self))
        self._driver.tell(self._start)
        if others:
            say(f"job {self.job.name} is started; {self._waits_for(others)}{_also(others)}")
        self._until_submitted()
        return self

    def _begin_output(self) -> None:
        """With a durable store what is to be overwritten goes later: it may be of a run that can go on."""
        if self._begins_anew and not self.job.settings.checkpoint.is_durable:
            begin_new_output(self.job, self._output)

    @property
    def _begins_anew(self) -> bool:
        return self._start.restore_path is None and not self._start.recover

    def _check(self) -> None:
        """Raise JobFailedError when the job could not run, FileExistsError when its output would not be its own."""
        from kit.hosts.spark.portable import not_portable

        if not self._start.recover:
            self._driver.check_not_led()
        if self._begins_anew:
            check_new_output(self.job, self._output)
        if problem := not_portable(self.job):
            raise JobFailedError(problem)
        end_in_order()
        if self._uses_spark:
            from kit.hosts.spark.preflight import check_session, least_slots, watch_slots

            if self.spark is None:
                from kit.hosts.spark.session import create_session

                self.spark = create_session(slots=self._widest)
            wait_s = self._driver.settings.start_timeout_s
            check_session(self.spark, self.job.name, least_slots(self.job), wait_s)
            watch_slots(self._driver.slot_watch, self.spark, self)
            keep_jobs_on_interrupt(self.spark)

    def _waits_for(self, others: Sequence[StartedJob]) -> str:
        if not self._uses_spark:
            return ""
        from kit.hosts.spark.preflight import waits_for

        wait = waits_for(self.spark, self._widest, others)
        return wait and f"{wait}; "

    @property
    def _widest(self) -> int:
        return max(vertex.parallelism for vertex in self.job.vertices)

    def _until_submitted(self) -> None:
        with self._minding_interrupts(), waiting(lambda: (f"job {self.job.name}: preparing its first epoch", "")):
            while not self._submitted.wait(SUBMIT_EVERY_S) and not self.ended:
                pass
        if self.ended and not self._submitted.is_set() and self._driver.error is not None:
            self._driver.wait()
            self._forget()
            raise self._driver.error

    def wait(self, timeout_s: float | None = None, *, progress: bool = False) -> str:
        """Wait for the job's end; returns its status: FINISHED or CANCELED, or, after `timeout_s`, what it is by then.

        `progress` shows a line about it meanwhile. When the time is up a line tells how far the job is: status,
        checkpoints, restarts, and the last failure if no checkpoint has completed since. Raises JobFailedError.
        """
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")
        seconds_given("timeout_s", timeout_s)
        with self._minding_interrupts():
            if progress:
                ended = show_progress(self._driver, timeout_s)
            else:
                with waiting(self._waited_for):
                    ended = self._driver.wait(timeout_s)
                if not ended and timeout_s is not None and timeout_s >= PATIENCE_S and not progress_is_off():
                    say(f"after {timeout_s:g} s {Progress.of(self._driver).line()}")
        if ended:
            self._forget()
        if self.ended and self._driver.error is not None:
            raise self._driver.error
        return self.status

    def wait_until_running(self, epoch: int = 1, timeout_s: float | None = None) -> SparkJob:
        """Wait until all tasks run, in this epoch or a later one: after a failure all are deployed again, in the next
        epoch. Returns the job.

        Raises JobFailedError when the job fails before, RuntimeError when it ends otherwise, and TimeoutError after
        `timeout_s` seconds.
        """
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")
        seconds_given("timeout_s", timeout_s)
        driver = self._driver
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._minding_interrupts(), waiting(self._waited_for):
            while driver.ran_epoch < epoch or not (driver.ran_epoch == driver.master.epoch or self.ended):
                if until_s is not None and time.monotonic() >= until_s:
                    raise TimeoutError(f"after {timeout_s} s not all tasks of epoch {epoch} run: {self!r}")
                if driver.ended.wait(SUBMIT_EVERY_S) and driver.ran_epoch < epoch:
                    self.wait()
                    raise RuntimeError(f"job {self.job.name} ended {self.status} before epoch {epoch} ran")
        return self

    def _waited_for(self) -> tuple[str, str]:
        progress = Progress.of(self._driver)
        if not progress.starts:
            return "", ""
        held = [job for job in started() if job is not self and job.spark is self.spark]
        others = f" ({_also(held)})" if held else ""
        return f"job {self.job.name}: {progress.starts}{others}", f"{progress.joined} of {progress.slots} slots there"

    @contextlib.contextmanager
    def _minding_interrupts(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            if not in_notebook():
                self._cancel_interrupted()
            elif not self._entered and not self.ended:
                say(
                    f"job {self.job.name} goes on: wait() waits for it again, cancel() ends it, "
                    "stop() ends it with a savepoint; kit.running() lists what runs"
                )
            raise

    def _cancel_interrupted(self) -> None:
        """The first interrupt of a script cancels the job, another one leaves at once."""
        if not self._started or self.ended:
            return
        say(f"interrupted: cancelling job {self.job.name} (Ctrl-C again leaves at once)")
        try:
            self.close()
        except KeyboardInterrupt:
            self.end_at_once()
            raise
        say(f"job {self.job.name} is {self.status}")

    def cancel(self) -> str:
        """End the job without a savepoint; returns its status."""
        self._driver.tell(RequestCancel())
        return self.wait()

    def close(self) -> None:
        """End the job if it still runs, and leave nothing of it."""
        if self._started and not self.ended:
            self._driver.tell(RequestCancel())
            self._driver.wait(CLOSE_S)
        self._forget()

    def end_at_once(self) -> None:
        """End the job, and kill the workers that have not left within a second."""
        if self._started and not self.ended:
            self._driver.tell(RequestCancel())
            if not self._driver.ended.wait(AT_ONCE_S):
                for slot, process in self.look.workers().items():
                    with contextlib.suppress(ValueError):
                        if process != os.getpid():
                            self.faults.kill(slot)
        self._forget()

    def _forget(self) -> None:
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
            self._at_exit = None
        for directory in (self._temporary, self._sockets, self._recording):
            if directory:
                remove_directory(directory)

    def __enter__(self) -> SparkJob:
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._entered = False
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._cancel_interrupted()
        self.close()

    if not TYPE_CHECKING:  # mypy would take every attribute for one that exists

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, JOB)

    def __repr__(self) -> str:
        said = f"{self.job.name}, {self.status}, epoch {self._driver.master.epoch}"
        if self._not_started:
            said += ", not started"
        if late_rows := Progress.of(self._driver).late_rows:
            said += f", {late_rows_counted(late_rows)}"
        if self.error:
            said += f": {shorten(self.error.splitlines()[0])}"
        return f"SparkJob({said})"

    def _repr_html_(self) -> str:
        others = [] if self.ended or not self._started else [job for job in started() if job is not self]
        note = f"<p>{escape(_also(others))}</p>" if others else ""
        return replace(Progress.of(self._driver), error=self.error).html() + note


def _session(spark: Any) -> SparkSession | None:
    """Return what was given as a session. Raises TypeError for a master's address and anything else that is none."""
    if spark is None or any(kind.__name__ == "SparkSession" for kind in type(spark).__mro__):
        return cast("SparkSession | None", spark)
    if isinstance(spark, str):
        raise TypeError(
            f"spark is the text {spark!r}, but must be a Spark session: give create_session(master={spark!r}), or "
            "nothing for a session on this machine"
        )
    raise TypeError(
        f"spark is {shorten(repr(spark))}, but must be a Spark session: give what create_session() returns, or nothing "
        "for a session on this machine"
    )


def _kept_recording(record: bool | str | os.PathLike[str]) -> str:
    """A new directory in the user's; "" where he has not named any."""
    return "" if isinstance(record, bool) else mkdtemp(prefix="recording-", dir=directory_given("record", record))


def _also(jobs: Sequence[StartedJob]) -> str:
    """What a person is told of jobs that run beside: they hold slots, and may have been forgotten."""
    return f"also running: {', '.join(map(repr, jobs))}; kit.running() lists them, kit.running().cancel() ends them"


def _job_graph(job: StreamEnvironment | JobGraph) -> JobGraph:
    """The graph to run; without a job id of the user's it gets one that no other run has, as Flink does, unless a
    driver that comes later must find it again.
    """
    if isinstance(job, JobGraph):
        return job.checked_to_act()
    if not isinstance(job, StreamEnvironment):
        raise TypeError(no_job(job))
    graph = job.job_graph().checked_to_act()
    known = job.has_job_id or graph.settings.checkpoint.is_durable
    return graph if known else replace(graph, job_id=uuid4().hex)


def _close_at_exit(reference: weakref.ref[SparkJob]) -> Callable[[], None]:
    def close() -> None:
        job = reference()
        if job is not None:
            job.close()

    atexit.register(close)
    return close
