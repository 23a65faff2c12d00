"""Locks on output directories: two jobs that do not know of each other must not write to one.

    <output>/.staging/lock-<owner>      {"job": "sums", "process": 4711, "appends": false}

The owner's process holds a lock on its file, which ends with the process, however that ends; so the next job removes
the files that nobody holds. Jobs whose sinks all append (`mode="append"`) may share a directory. All drivers of a job
with a durable store are one owner: the store decides which of them leads, and a frozen one keeps nobody out.

Only local directories are locked, as on a disk that several machines mount. An object store has no locks: there, two
jobs in one process are told apart (`kit.hosts.spark.job`), and the names of their files always are.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kit.files.output import sinks
from kit.files.output_files import cannot_be_written
from kit.files.storage import CheckpointStorage
from kit.filesystems.places import open_path
from kit.hosts.spark.temporary import lock_file
from kit.stream.connectors.part_names import STAGING
from kit.stream.connectors.sink import MEMORY
from kit.stream.graph.job_graph import JobGraph

PREFIX = "lock-"


class OutputInUseError(FileExistsError):
    """A job that is running writes to the directory of a sink."""


def owner_of(job: JobGraph, storage: CheckpointStorage) -> str:
    """Return the name under which a driver locks output: one for all drivers of a job with a durable store."""
    if job.settings.checkpoint.is_durable:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"{job.settings.checkpoint.store} {storage.job_directory}").hex
    return uuid.uuid4().hex


def output_modes(job: JobGraph) -> dict[str, bool]:
    """Return the directories that a job writes to, and for each whether it only appends."""
    found: dict[str, bool] = {}
    for sink in sinks(job):
        if not sink.path.startswith(MEMORY):
            found[sink.path] = found.get(sink.path, True) and sink.mode == "append"
    return found


def shared_output(job: JobGraph, other: JobGraph) -> str:
    """Return a directory to which two jobs write that may not share it; "" if there is none."""
    own, theirs = output_modes(job), output_modes(other)
    return next((path for path in own if path in theirs and not (own[path] and theirs[path])), "")


@dataclass(frozen=True, slots=True)
class _Held:
    directory: Path
    file: Path
    descriptor: int
    made: bool
    """True if the output directory did not exist before."""


class OutputLocks:
    """The locks of one driver on the directories of its job's sinks."""

    def __init__(self, job: JobGraph, owner: str) -> None:
        self._job = job
        self.owner = owner
        self._held: list[_Held] = []

    def acquire(self) -> None:
        """Lock all directories.

        Raises OutputInUseError if another owner's lock excludes that, CommitError if a directory cannot be written, and
        holds none then.
        """
        try:
            for path, appends in output_modes(self._job).items():
                system, inner = open_path(path)
                if system.is_local:
                    self._held.append(self._lock(inner, appends=appends))
        except BaseException:
            self.release()
            raise

    def _lock(self, path: str, *, appends: bool) -> _Held:
        try:
            return self._locked(path, appends=appends)
        except OutputInUseError:
            raise
        except OSError as error:
            raise cannot_be_written(path, error) from error

    def _locked(self, path: str, *, appends: bool) -> _Held:
        directory, made = Path(path, STAGING), not os.path.isdir(path)
        with _alone_in(directory):
            for file in directory.glob(f"{PREFIX}*"):
                if file.name != f"{PREFIX}{self.owner}":
                    self._check_free(file, path, appends=appends)
            file = directory / f"{PREFIX}{self.owner}"
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            said = {"job": self._job.name, "process": os.getpid(), "appends": appends}
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(said).encode(), 0)
            return _Held(directory, file, descriptor, made)

    def _check_free(self, file: Path, path: str, *, appends: bool) -> None:
        """Remove a lock that nobody holds. Raises OutputInUseError for one that excludes this job."""
        try:
            descriptor = lock_file(file)
        except FileNotFoundError:
            return
        except OSError:
            said = _content(file)
            if appends and said.get("appends"):
                return
            raise OutputInUseError(
                f"{path} is being written by job {said.get('job', 'of an unknown name')!r} in process "
                f"{said.get('process', 'unknown')}: rows of both jobs would be mixed. End that job first, or write to "
                'another directory; jobs may share a directory if all of them have mode="append"'
            ) from None
        file.unlink(missing_ok=True)
        os.close(descriptor)

    def release(self) -> None:
        """Release all locks, and remove what the locks alone have made."""
        while self._held:
            held = self._held.pop()
            with contextlib.suppress(OSError), _alone_in(held.directory):
                fcntl.flock(held.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if another driver holds it as well
                held.file.unlink(missing_ok=True)
            os.close(held.descriptor)
            for directory in (held.directory, held.directory.parent)[: 1 + held.made]:
                with contextlib.suppress(OSError):
                    directory.rmdir()


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Make a directory and lock it for a moment: those who look at locks do so one after the other."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if directory.exists() and directory.stat().st_ino == os.fstat(descriptor).st_ino:
                yield
                return
        finally:
            os.close(descriptor)


def _content(file: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(file.read_bytes())
        if isinstance(found, dict):
            return found
    return {}
