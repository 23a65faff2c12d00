"""The reason why a job in the lab failed: the line of user code, and the exception itself.

By default, Flink restarts a job with periodic checkpoints forever, with growing delays. In the lab, where time is
virtual, that would never end. So a job without a restart setting is restarted `LAB_ATTEMPTS` times here, a second after
each failure, and then fails. A setting of the environment always takes precedence. A failure that repeats ends the job
sooner, as on every host (`kit.machines.job.failures`).
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.protocol.commands import StartEpoch, StartTasks
from kit.core.protocol.messages import TaskStateChanged
from kit.core.protocol.notes import CheckpointCompleted
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.errors import LabError, LabJobFailedError, said
from kit.hosts.lab.world.world import World
from kit.machines.job.failures import KIT, Frame, Raised
from kit.machines.job.status import JobStatus
from kit.machines.task.chain import SnapshotError
from kit.stream.graph.job_graph import JobGraph
from kit.stream.operators.spec import UserFunctionError
from kit.stream.settings.job_settings import FixedDelay, NoRestart

LAB_ATTEMPTS = 10
"""The number of restarts, in the lab, of a job without a restart setting."""
LAB_DELAY_MS = 1_000


def for_the_lab(job: JobGraph) -> JobGraph:
    """Return the job, with the lab's restart strategy if it restarts without a setting."""
    settings = job.settings
    if not settings.restart_is_default or isinstance(settings.restart, NoRestart):
        return job
    return replace(job, settings=replace(settings, restart=FixedDelay(LAB_ATTEMPTS, LAB_DELAY_MS)))


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure that ended an attempt of a task, and why. `place` is the last line of user code."""

    attempt: int
    task: str
    error: str
    place: str

    @classmethod
    def of(cls, record: TraceRecord) -> Failure:
        """Return the failure of which the JobMaster was notified with this record."""
        place = Raised.of(str(record.data.get("traceback") or "")).place
        return cls(record.data["attempt"], record.data["task"], record.data["error"], _shown(place) if place else "")

    def __repr__(self) -> str:
        return f"Failure({self.task}@{self.attempt}: {self.error})"


def last_failure(world: World) -> Failure | None:
    """Return the failure of a task that led to the last restart or the end of the job, since the last completed
    checkpoint.
    """
    earliest: TraceRecord | None = None
    for record in reversed(world.trace):
        if record.is_a(CheckpointCompleted):
            break
        if record.is_a(StartEpoch, StartTasks) and earliest is not None:
            break
        if not record.is_a(TaskStateChanged) or record.role != "event" or record.data["state"] != "FAILED":
            continue
        earliest = record
    return None if earliest is None else Failure.of(earliest)


def job_failed(world: World, position: int) -> LabError:
    """Return the error that says that the job has failed, and why, or that another driver runs it now."""
    failure = last_failure(world)
    job, status = world.job, world.master.status
    if failure is not None and failure.error not in world.master.error:
        failure = None
    way_out = "lab.output() has the rows committed before, lab.back() goes back" if world.master.epoch else ""
    if status is JobStatus.SUSPENDED:
        way_out = "Lab(job, after=lab, recover=True) is the next driver, lab.back() goes back"
    text = said(
        f"job {job.name!r} {status.name} at step {position}, {world.at_ms} ms: {world.master.error}",
        "" if failure is None else failure.place,
        "" if status is JobStatus.SUSPENDED else why_not_restarted(world),
        way_out,
    )
    error = LabJobFailedError(text)
    if failure is not None:
        error.__cause__ = _users(world.failures.get(f"{failure.task}@{failure.attempt}"))
    return error


def why_not_restarted(world: World) -> str:
    """Say why the job was not restarted, unless the restart strategy's own limit was reached; then ""."""
    settings = world.job.settings
    if isinstance(settings.restart, NoRestart) and world.master.epoch == 1:
        why = "the job takes no periodic checkpoints" if settings.restart_is_default else "restart=NoRestart()"
        return f"it was not restarted: {why}"
    if settings.restart_is_default and world.master.restarts >= LAB_ATTEMPTS:
        return f"a lab restarts a job {LAB_ATTEMPTS} times; StreamEnvironment(restart=...) says otherwise"
    return ""


def _users(failure: BaseException | None) -> BaseException | None:
    """Return the user code's exception, with the part of its traceback that is in user code."""
    while isinstance(failure, SnapshotError | UserFunctionError) and failure.__cause__ is not None:
        failure = failure.__cause__
    if failure is None:
        return None
    at = failure.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(KIT):
        at = at.tb_next
    return failure.with_traceback(at)


def _shown(place: Frame) -> str:
    """Return a line of a traceback, with its code."""
    code = linecache.getline(place.file, place.line).strip()
    return f'  File "{_short(place.file)}", line {place.line}, in {place.function}' + (code and f": {code}")


def _short(file: str) -> str:
    """Return the short name of a notebook's cell, or of a file below the working directory."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file if sys.platform == "win32" or "ipykernel" not in file else "the notebook"
