"""The user's handle on a job that runs on Spark.

    spark = create_session(slots=2)
    with SparkJob(env, spark) as job:
        job.start()
        job.wait(progress=True)
        job.checkpoints()

Everything that a user reads while the job runs is a copy, so reading never changes the job.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from html import escape
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload
from uuid import uuid4

import pandas as pd

from kit.core.arguments.allowed import expect
from kit.core.arguments.checks import (
    count_given,
    directory_given,
    flag_given,
    no_job,
    one_of,
    path_given,
    seconds_given,
)
from kit.core.arguments.signposts import JOB, RESTORE_PATH, no_attribute, takes
from kit.core.protocol.commands import CompleteRequest
from kit.core.protocol.events import (
    RequestCancel,
    RequestCheckpoint,
    RequestRescale,
    RequestSavepoint,
    RequestStop,
    StartJob,
)
from kit.core.protocol.properties import Durability, LaterOutput, RecoveryClaimMode
from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import Trace
from kit.files.master_hooks import MasterHook
from kit.files.missing_uids import warn_of_missing_uids
from kit.files.output_checks import begin_new_output, check_new_output, free_run_name, output_at_risk
from kit.hosts.notebook_output import in_notebook, progress_is_off
from kit.hosts.spark.console import PATIENCE_S, say, waiting
from kit.hosts.spark.driver.deployment import Launch
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.driver.driver_settings import DriverSettings
from kit.hosts.spark.edge import (
    SparkOutput,
    check_writable,
    collected_directory,
    forget_collected,
    open_storage,
    read_output,
)
from kit.hosts.spark.frames import staged
from kit.hosts.spark.look import SparkFaults, SparkLook, path_of
from kit.hosts.spark.output_locks import OutputInUseError, OutputLocks, owner_of, shared_output
from kit.hosts.spark.progress import Progress, show_progress
from kit.hosts.spark.signals import end_in_order, keep_jobs_on_interrupt
from kit.hosts.spark.slot.slot import SlotTicket
from kit.hosts.spark.started_jobs import StartedJob, remember, started
from kit.hosts.spark.temporary import remove_directory, temporary_directory
from kit.machines.job.errors import JobFailedError
from kit.run.metrics import metrics_table, state_bytes_of
from kit.run.statistics import CheckpointStatistics
from kit.stream.api.environment import StreamEnvironment
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.parallelism import parallelism_of
from kit.stream.graph.slot_sharing import in_gangs
from kit.stream.operators.spec import shorten
from kit.stream.operators.windows.late_rows import late_rows_counted
from kit.stream.settings.parts import Parts
from kit.why import Asking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kit.hosts.spark.driver.gang import SparkGang

CLOSE_S = 30.0
AT_ONCE_S = 1.0
"""The time that workers get to leave when the process is ending and cannot wait longer."""
logger = logging.getLogger("kit.hosts.spark")
SUBMIT_EVERY_S = 0.05
Target = str | os.PathLike[str] | None
"""A directory for a savepoint; None for `savepoint_directory`, or `savepoints` in the directory for checkpoints."""
Widths = int | Mapping[str, int]
"""Numbers of subtasks: one for all vertices that are as wide as the widest, or one per vertex, by name."""


class SparkJob(Asking):
    """A job that runs on Spark. `job` is a StreamEnvironment or a JobGraph; a session is created if `spark` is None.

    `restore_path` starts from a savepoint or retained checkpoint. `allow_non_restored_state` permits state that belongs
    to no operator of the job. `claim_mode` says who owns the snapshot afterwards: NO_CLAIM (the user; the first
    checkpoint is a full one), CLAIM (the job, which deletes it once newer ones are complete) or LEGACY.
    `later_output` applies to output that was published after the snapshot and whose rows will be emitted again: "error"
    rejects the restore, "discard" deletes that output first, "keep" keeps it, so those rows appear twice.

    With `recover`, the job resumes where a driver that died left it, at the parallelism last requested there. Its
    settings must name a durable store (`CheckpointConfig(store=...)`). If that driver turns out to be alive, it loses
    the leadership, stops with status SUSPENDED and publishes nothing more. Without `recover`, a job that another driver
    runs is rejected.
    Without a checkpoint directory in its settings, the job keeps its checkpoints in a temporary one that is deleted
    with the job. Raises OSError if the checkpoint directory is not writable, TypeError if `spark` is not a session.

    A job ends by itself, or with `stop`, `cancel` or `close`; in each case no process, thread or socket is left. A
    `with` block closes the job at its end, and so does the end of the process, also by SIGTERM. A running job keeps
    running even if the variable that held it is gone: `kit.running()` lists the running jobs.

    With `record`, a lab can repeat the run step by step: call `job.trace.save_recording(path)` once it has ended, then
    `Lab.follow(env, path)`. A directory instead of True keeps the workers' files there while the job runs. If the
    workers are on several machines, all of them must reach that directory.

    `parts` are your own parts of the protocol, as for a `Lab`; a part that breaks its contract ends the job.

    Ctrl-C while a script waits for the job cancels it; a second Ctrl-C leaves at once. Interrupting a notebook's cell
    only stops the waiting: the job keeps running, and a line says so. A `with` block ends the job there too.
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
        graph = _job_graph(job).with_parts(parts)
        self.spark = _session(spark)
        expect(isinstance(settings, DriverSettings | None), "settings", settings, "DriverSettings(...) or None")
        expect(launch is None or callable(launch), "launch", launch, "a function that starts slots, or None for Spark")
        self._start = StartJob(
            restore_path=directory_given("restore_path", restore_path),
            allow_non_restored_state=flag_given("allow_non_restored_state", allow_non_restored_state),
            claim_mode=one_of(RecoveryClaimMode, "claim_mode", claim_mode),
            later_output=one_of(LaterOutput, "later_output", later_output),
            recover=flag_given("recover", recover),
        )
        directory = graph.settings.checkpoint.directory
        self._temporary = temporary_directory("checkpoints-") if directory is None else None
        storage = open_storage(graph, directory or str(self._temporary))
        self.job, self._staging = staged(graph, storage, self._start)
        self.spark = self.spark or (None if self._staging is None else self._staging.session)
        self.job, self._shares_slots = self._in_slots(launch is None)
        self._output = self._open_output()
        self._locks = OutputLocks(self.job, owner_of(self.job, storage))
        self._sockets = ""
        self._recording = temporary_directory("recording-") if record is True else ""
        """The directory that is deleted with the job; a recording in a user's directory stays."""
        takes_checkpoints = directory is not None and self.job.settings.checkpoint.interval_ms is not None
        check_writable(self.job, storage.base if takes_checkpoints else None)
        self._driver = JobDriver(
            self.job,
            self._launch if launch is None else lambda ticket, ended: launch(self._placed(ticket), ended),
            checkpoints=directory or str(self._temporary),
            output=self._output,
            hooks=hooks,
            settings=settings,
            recording=self._recording or _kept_recording(record),
            staging=self._staging,
            locks=self._locks,
        )
        self._asked: dict[int, Future[CompleteRequest]] = {}  # those sent without waiting for the answer, by number
        self._uses_spark = launch is None
        self._started = self._entered = False
        self._not_started = ""
        self._submitted = threading.Event()
        self._gang: SparkGang | None = None
        self._at_exit: Callable[[], None] | None = None
        self.started_s = 0.0
        """The wall-clock time of `start`, in seconds since 1970."""

    def _in_slots(self, uses_spark: bool) -> tuple[JobGraph, str]:
        """Return the job with its tasks in slots, and a remark about it."""
        if not uses_spark or self.spark is None:  # a session that the job creates has slots for each region
            return in_gangs(self.job), ""
        from kit.hosts.spark.preflight import placed

        return placed(self.job, self.spark)

    def _open_output(self) -> SparkOutput:
        settings, collected = self.job.settings.checkpoint, collected_directory(self.job)
        if collected and not settings.is_durable:  # else a later driver may come for the rows
            weakref.finalize(self, forget_collected, collected).atexit = False
        return SparkOutput(collected, settings.durability is Durability.FSYNC)

    def _launch(self, ticket: SlotTicket, ended: Callable[[str], None]) -> SparkGang:
        from kit.hosts.spark.driver.gang import SparkGang

        assert self.spark is not None
        self._gang = SparkGang(self.spark, self._placed(ticket), ended)
        return self._gang

    def _placed(self, ticket: SlotTicket) -> SlotTicket:
        self._submitted.set()
        return replace(ticket, sockets=self._sockets)

    # --- its life -------------------------------------------------------------------------------------------------

    def start(self, *, replace: bool = False) -> SparkJob:
        """Submit the job to Spark and return without waiting for the workers. A job can be started only once.

        Raises JobFailedError in these cases: something in the job cannot be sent to Spark's workers; the session cannot
        run it, or has too few slots (then it may be started again); `restore_path` is missing or does not fit; splits
        cannot be listed. Raises FileExistsError, before anything is run or deleted, if a sink's directory holds rows of
        another run, or if a running job writes to it (OutputInUseError). With `replace`, running jobs of this process
        that do so are cancelled first.
        """
        flag_given("replace", replace)
        if self._started:
            raise RuntimeError(f"job {self.job.name} was started before: make a new SparkJob to run it again")
        try:
            self._check()
        except JobFailedError as error:
            self._not_started = str(error)
            raise
        try:
            self._take_output(replace=replace)
            self._begin_output()
        except BaseException:
            self._locks.release()
            raise
        others = started()
        if self._shares_slots:
            say(self._shares_slots)
        if risk := output_at_risk(self.job):
            logger.warning("%s", risk)
        self._not_started = ""
        self._started = True
        self.started_s = time.time()
        self._sockets = temporary_directory("sockets-")
        self._driver.start(self._start.run)
        remember(self)
        self._at_exit = _close_at_exit(weakref.ref(self))
        self._driver.tell(self._start)
        if others:
            say(f"job {self.job.name} is started; {self._waits_for(others)}{_also(others)}")
        self._until_submitted()
        return self

    @property
    def output_owner(self) -> str:
        """The name under which it locks its output: that of other drivers of the same job, with a durable store."""
        return self._locks.owner

    def _take_output(self, *, replace: bool) -> None:
        """Lock the directories of the sinks, which hold nothing that this run may not be mixed with.

        Raises OutputInUseError if a running job writes to one of them and FileExistsError for rows of another run,
        before any job is ended.
        """
        # Of drivers with one owner, the store tells which one leads.
        in_the_way = [job for job in started() if job.output_owner != self.output_owner]
        in_the_way = [job for job in in_the_way if shared_output(self.job, job.job)]
        if in_the_way and not replace:
            first = in_the_way[0]
            raise OutputInUseError(
                f"{shared_output(self.job, first.job)} is being written by job {first.job.name!r}, which runs in this "
                f"process: rows of both jobs would be mixed. End it first: kit.running()[{started().index(first)}]"
                ".cancel(), or have this start cancel it: start(replace=True)"
            )
        if not in_the_way:
            self._locks.acquire()
        if self._begins_anew:
            check_new_output(self.job, self._output)
        for job in in_the_way:
            job.close()
        if in_the_way:
            self._locks.acquire()

    def _begin_output(self) -> None:
        """Name the run, and prepare what it writes to and reads from."""
        is_durable = self.job.settings.checkpoint.is_durable
        is_named_after_job = self._start.restore_path is None and not is_durable
        run = free_run_name(self.job, self._output) if is_named_after_job else uuid4().hex
        self._start = replace(self._start, run=run)
        if self._begins_anew and not is_durable:
            begin_new_output(self.job, self._output)  # with a durable store later: it may be of a run that can resume
        if self._staging is not None:
            self._staging.begin()

    @property
    def _begins_anew(self) -> bool:
        return self._start.restore_path is None and not self._start.recover

    def _check(self) -> None:
        """Raise JobFailedError if the job could not run."""
        from kit.hosts.spark.portable import not_portable

        if not self._start.recover:
            self._driver.check_not_led()
        if problem := not_portable(self.job):
            raise JobFailedError(problem)
        end_in_order()
        if self._uses_spark:
            from kit.hosts.spark.preflight import check_session, cores_beside, least_slots, watch_slots, why_stopped

            if self.spark is None:
                from kit.hosts.spark.session import create_session

                self.spark = create_session(slots=self._slots_wanted)
            wait_s, beside = self._driver.settings.start_timeout_s, cores_beside(self.job)
            check_session(self.spark, self.job.name, least_slots(self.job), wait_s, beside=beside)
            watch_slots(self._driver.slot_watch, self.spark, self)
            self._driver.why_stopped = partial(why_stopped, self.spark)
            keep_jobs_on_interrupt(self.spark)

    def _waits_for(self, others: Sequence[StartedJob]) -> str:
        if not self._uses_spark:
            return ""
        from kit.hosts.spark.preflight import waits_for

        wait = waits_for(self.spark, self._slots_wanted, others)
        return wait and f"{wait}; "

    @property
    def _slots_wanted(self) -> int:
        return self._driver.slots.wanted

    def _until_submitted(self) -> None:
        with self._minding_interrupts(), waiting(lambda: (f"job {self.job.name}: preparing its first epoch", "")):
            while not self._submitted.wait(SUBMIT_EVERY_S) and not self.ended:
                pass
        if self.ended and not self._submitted.is_set() and self._driver.error is not None:
            self._driver.wait()
            self._forget()
            raise self._driver.error

    def wait(self, timeout_s: float | None = None, *, progress: bool = False) -> str:
        """Wait for the job's end and return its status: FINISHED or CANCELED, or the current one after `timeout_s`.

        `progress` shows a line about the job meanwhile. After a timeout, a line reports the job's progress: status,
        checkpoints, restarts, and the last failure if no checkpoint has completed since. Raises JobFailedError.
        """
        seconds_given("timeout_s", timeout_s)
        flag_given("progress", progress)
        self._check_started()
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

    @takes(epoch="write restarts=1 to wait for epoch 2: a region restarts without a new epoch")
    def wait_until_running(self, *, restarts: int = 0, timeout_s: float | None = None) -> SparkJob:
        """Wait until all tasks run after at least this number of restarts, and return the job.

        A restart of the job or of a region of it counts as one, and so does a rescale, as in `kit.running()`. After
        `job.faults.kill(0)`, `restarts=1` waits until the killed worker is replaced; without it the call may return
        before the driver has noticed the death. Raises JobFailedError if the job fails first, RuntimeError if it ends
        otherwise, and TimeoutError after `timeout_s` seconds.
        """
        seconds_given("timeout_s", timeout_s)
        count_given("restarts", restarts)
        self._check_started()
        driver = self._driver
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        after = f" after {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
        with self._minding_interrupts(), waiting(self._waited_for):
            while not (driver.has_run(restarts) and (driver.runs() or self.ended)):
                if until_s is not None and time.monotonic() >= until_s:
                    raise TimeoutError(f"after {timeout_s} s not all tasks run{after}: {self!r}")
                if driver.ended.wait(SUBMIT_EVERY_S) and not driver.has_run(restarts):
                    self.wait()
                    raise RuntimeError(f"job {self.job.name} ended {self.status} before all tasks ran{after}")
        return self

    def _check_started(self) -> None:
        if not self._started:
            raise RuntimeError(f"job {self.job.name} has not been started: call start()")

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
                    f"job {self.job.name} continues: wait() waits for it again, cancel() ends it, "
                    "stop() ends it with a savepoint; kit.running() lists what runs"
                )
            raise

    def _cancel_interrupted(self) -> None:
        """Cancel the job on a script's first interrupt; leave at once on the second."""
        if not self._started or self.ended:
            return
        say(f"interrupted: cancelling job {self.job.name} (Ctrl-C again leaves at once)")
        try:
            self.close()
        except KeyboardInterrupt:
            self.end_at_once()
            raise
        say(f"job {self.job.name} is {self.status}")

    # --- requests -------------------------------------------------------------------------------------------------

    # Each is a request to the JobMaster, sent as soon as all tasks have run once. A call waits for the answer, or
    # returns a number with which the answer can be looked up later.

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
        warn_of_missing_uids(self.job, logger)
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
        warn_of_missing_uids(self.job, logger)
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

            check_rescale(self.spark, self.job, self._driver.master.rescaling.wanted | wanted)
        request = self._ask(lambda n: RequestRescale(request_id=n, parallelism=wanted, at_once=at_once), wait=wait)
        return self if wait else int(request)

    def dispose_savepoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a savepoint: its `_metadata` and its files. `kit.dispose_savepoint` needs no job for it.

        Raises CheckpointInUseError for a checkpoint that this job may restore, and else what the function raises.
        """
        self._driver.dispose_savepoint(path_given("path", path))

    def _ask(self, make: Callable[[int], ProtocolMessage], *, wait: bool) -> str | int:
        flag_given("wait", wait)
        self._check_started()
        with waiting(self._waited_for):
            self._driver.running.wait()
        answer = self._driver.ask(make)
        if wait:
            return path_of(answer)
        number = len(self._asked) + 1
        self._asked[number] = answer
        return number

    def cancel(self) -> str:
        """End the job without a savepoint and return its status, which may be FAILED if it had failed before."""
        self._driver.tell(RequestCancel())
        with contextlib.suppress(JobFailedError):  # it has ended, as requested; `error` has the reason
            self.wait()
        return self.status

    def close(self) -> None:
        """End the job if it still runs, and release everything it holds."""
        if self._started:
            if not self.ended:
                self._driver.tell(RequestCancel())
            self._driver.wait(CLOSE_S)  # also for an ended job, whose driver may still release what it holds
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

    # --- its current state: copies, so that reading never changes the job -------------------------------------------

    @property
    def status(self) -> str:
        """The job's status: CREATED, RUNNING, RESTARTING, ... (see `kit.machines.job.status`)."""
        return self._driver.status.name

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

    @property
    def _keeper(self) -> SparkJob:
        """The object that keeps the reading of the run: each look at the trace is a copy of it."""
        return self

    def checkpoints(self) -> pd.DataFrame:
        """Return one row per checkpoint: id, kind, status, trigger time, duration, size, acknowledgements."""
        with self._driver.lock:
            return self._driver.master.checkpoints.statistics.to_pandas()

    @property
    def statistics(self) -> CheckpointStatistics:
        """The checkpoint statistics that Flink's web UI shows, and more: `.counts`, `.history`, `.subtasks(3)`."""
        with self._driver.lock:
            snapshot = self._driver.master.checkpoints.statistics.snapshot()
            late_rows = self._driver.slots.meters.late_rows
            return CheckpointStatistics(snapshot, self._driver.master.job, self._driver.trace[:], late_rows)

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
            return meters.to_pandas([vertex.name for vertex in self.job.vertices], self._driver.now(), sizes)

    def metrics(self) -> pd.DataFrame:
        """Return the metrics of each operator, one row per metric, as reported at most a quarter of a second ago.

        The columns are operator, subtask, metric, value and own: True if the user's function keeps the metric
        (`kit.stream.operators.metrics`). The kit's metrics are input_watermark_ms (with several inputs also
        input_1_watermark_ms and so on), output_watermark_ms, state_entries, state_bytes, late_rows_dropped, and
        splits_left of a source, for all its subtasks together. A job with its state on disk also has
        state_entries_on_disk and state_bytes_on_disk.
        """
        with self._driver.lock:
            master = self._driver.master
            read = self._driver.slots.meters.operators([vertex.name for vertex in self.job.vertices])
            return metrics_table(read, state_bytes_of(master), master)

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
        """Less common information: `job.look.workers()`, `.restores()`, `.summary()`, `.answer(request)`, ..."""
        return SparkLook(self._driver, self._asked)

    @property
    def faults(self) -> SparkFaults:
        """Faults that can be injected: `job.faults.kill(0)`."""
        return SparkFaults(self._driver)

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
    """Return the given session. Raises TypeError for a master's address or anything else that is not a session."""
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
    """Create a directory for the recording below the user's and return its path; "" if the user named none.

    Raises TypeError for anything but a path, and OSError, naming the user's directory, if that cannot be done.
    """
    if isinstance(record, bool):
        return ""
    directory = directory_given("record", record)
    if directory is None or not os.path.isdir(directory):
        raise FileNotFoundError(f"record is {record!r}, but there is no such directory: make it first")
    try:
        return mkdtemp(prefix="recording-", dir=directory)
    except OSError as error:
        raise OSError(
            f"record is {directory!r}, which cannot be written: {error}; make it writable, or name another directory"
        ) from error


def _also(jobs: Sequence[StartedJob]) -> str:
    """Return a note on other running jobs: they hold slots, and the user may have forgotten them."""
    return f"also running: {', '.join(map(repr, jobs))}; kit.running() lists them, kit.running().cancel() ends them"


def _job_graph(job: StreamEnvironment | JobGraph) -> JobGraph:
    """Return the graph to run. Without a user-defined job id it gets a unique one, as in Flink, unless a later driver
    must be able to find the job.
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
