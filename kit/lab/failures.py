"""Why a job in the lab failed, and whether it fails for the same reason again and again.

A function that always raises makes the job restart from where it was, only to meet the same row. When the same operator
has failed in the same place `REPEATS` times, and no checkpoint was completed in between, `run` and `run_until` stop. A
worker that the user killed is no such failure. A strategy that counts its restarts (`FixedDelay`) and was chosen by the
user is left to count.

Flink restarts a job with periodic checkpoints forever, ever more slowly, unless told otherwise; in a lesson, where
time is virtual, that never ends. So here a job that says nothing restarts `LAB_ATTEMPTS` times, a second after each
failure, and then fails. An environment's own setting always holds.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from kit.graph.job_graph import JobGraph
from kit.graph.settings import FixedDelay, JobSettings, NoRestart
from kit.lab.errors import LabError, LabJobFailedError, said
from kit.lab.world import World
from kit.operators.spec import UserFunctionError
from kit.protocol.trace import TraceRecord
from kit.task.chain import SnapshotError

REPEATS = 3
LAB_ATTEMPTS = 10
"""So often a job that says nothing of restarts is restarted in the lab."""
LAB_DELAY_MS = 1_000
MOST_COUNTED = 100
"""A strategy with more attempts than this does not count, it goes on forever."""

_KIT = str(Path(__file__).resolve().parents[1]) + os.sep
_PLACES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_FRAME = re.compile(r'^  File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n"


def for_the_lab(job: JobGraph) -> JobGraph:
    """The job, with the lab's own restart strategy if it restarts but does not say how."""
    settings = job.settings
    if not settings.restart_is_default or isinstance(settings.restart, NoRestart):
        return job
    return replace(job, settings=replace(settings, restart=FixedDelay(LAB_ATTEMPTS, LAB_DELAY_MS)))


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended an epoch: the task that failed first, and why. `place` is the last line of the user's own code,
    `root` what was raised there.
    """

    epoch: int
    task: str
    error: str
    root: str
    place: str

    @classmethod
    def of(cls, record: TraceRecord) -> Failure:
        """The failure that the JobMaster heard of with this record."""
        told = str(record.data.get("traceback") or "").partition(_CAUSED)[0].rstrip()
        root = told.rpartition("\n")[2] or record.data["error"]
        return cls(record.data["attempt"], record.data["task"], record.data["error"], root, _place_in(told))

    @property
    def key(self) -> tuple[str, str]:
        """What two failures have in common when they are the same: the operators, and the place or else the error."""
        at_place = f"{self.root.partition(':')[0]} {self.place}"
        return self.task.rpartition("/")[0], at_place if self.place else self.root

    def __repr__(self) -> str:
        return f"Failure(epoch {self.epoch}, {self.task}: {self.error})"


def failures(world: World) -> Iterator[Failure]:
    """What ended the epochs since the last completed checkpoint, one each, the latest epoch first; not kills."""
    last: Failure | None = None
    for record in reversed(world.trace):
        if record.kind == "CheckpointCompleted":
            break
        if record.kind != "TaskStateChanged" or record.role != "event" or record.data["state"] != "FAILED":
            continue
        failure = Failure.of(record)
        if last is not None and failure.epoch != last.epoch:
            yield last
        last = failure  # within an epoch the earliest counts
    if last is not None:
        yield last


def repeated(world: World) -> Failure | None:
    """The failure that has come `REPEATS` times, and nothing else in between; None as long as there is none."""
    met: list[Failure] = []
    for failure in failures(world):
        met.append(failure)
        if failure.key != met[0].key:
            return None
        if len(met) == REPEATS:
            return met[0]
    return None


def is_left_to_count(settings: JobSettings) -> bool:
    """Whether the user has said how often the job is to be restarted."""
    strategy = settings.restart
    counts = isinstance(strategy, NoRestart) or (isinstance(strategy, FixedDelay) and strategy.attempts <= MOST_COUNTED)
    return counts and not settings.restart_is_default


def job_failed(world: World, position: int) -> LabError:
    """The error that says that the job has failed, and why."""
    failure = next(failures(world), None)
    job = world.job
    if failure is not None and failure.error not in world.master.error:
        failure = None
    way_out = "lab.output() has the rows committed before, lab.back() goes back" if world.master.epoch else ""
    text = said(
        f"job {job.name!r} FAILED at step {position}, {world.at_ms} ms: {world.master.error}",
        "" if failure is None else failure.place,
        why_not_restarted(world),
        way_out,
    )
    return _caused(LabJobFailedError(text), world, failure)


def job_repeats(world: World, failure: Failure) -> LabError:
    """The error that says that the job does not get past a failure."""
    text = said(
        f"job {world.job.name!r} fails in the same way forever: {failure.task} has failed {REPEATS} times, "
        "with no checkpoint completed in between",
        failure.error,
        failure.place,
        "mend that and make the lab anew; run() again goes on to the next failure, lab.back() goes back",
    )
    return _caused(LabError(text), world, failure)


def why_not_restarted(world: World) -> str:
    """Why the job's failure was its last, where that is not its strategy's own count; "" elsewhere."""
    settings = world.job.settings
    if isinstance(settings.restart, NoRestart) and world.master.epoch == 1:
        why = "the job takes no periodic checkpoints" if settings.restart_is_default else "restart=NoRestart()"
        return f"it was not restarted: {why}"
    if settings.restart_is_default and world.master.epoch > LAB_ATTEMPTS:
        return f"a lab restarts a job {LAB_ATTEMPTS} times; StreamEnvironment(restart=...) says otherwise"
    return ""


def _caused(error: LabError, world: World, failure: Failure | None) -> LabError:
    if failure is not None:
        error.__cause__ = _users(world.failures.get(f"{failure.task}@{failure.epoch}"))
    return error


def _users(failure: BaseException | None) -> BaseException | None:
    """The user's own exception, with the user's own part of its traceback."""
    while isinstance(failure, SnapshotError | UserFunctionError) and failure.__cause__ is not None:
        failure = failure.__cause__
    if failure is None:
        return None
    return failure.with_traceback(_users_part(failure.__traceback__))


def _users_part(traceback: TracebackType | None) -> TracebackType | None:
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_KIT):
        at = at.tb_next
    return at


def _place_in(told: str) -> str:
    """The last frame of a traceback that is in the user's own code, as one line; "" when none is."""
    places = [found for found in _FRAME.finditer(told) if _is_users(found["file"])]
    if not places:
        return ""
    found = places[-1]
    code = linecache.getline(found["file"], int(found["line"])).strip()
    return f'  File "{_short(found["file"])}", line {found["line"]}, in {found["function"]}' + (code and f": {code}")


def _is_users(file: str) -> bool:
    return not file.startswith((_KIT, *(f"{place}{os.sep}" for place in _PLACES), "<frozen"))


def _short(file: str) -> str:
    """A file of a notebook's cell, or below the working directory, by its short name."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file if sys.platform == "win32" or "ipykernel" not in file else "the notebook"
