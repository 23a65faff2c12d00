"""The temporary directories of this process, and the removal of those that dead processes have left.

    <temporary files>/kit-<process id>-<random>/    made when first needed, readable by this user only
        lock                                        locked as long as the process lives
        checkpoints-*, collected-*, sockets-*       of its jobs
        spark                                       of its Spark session

They are removed when the process ends. A process that is killed cannot clean up, so the next process that creates such
a directory removes those whose lock is free: a lock ends with its process, however the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

PREFIX = "kit-"
LOCK = "lock"
SPARK_FILES = "spark"


def temporary_directory(prefix: str) -> str:
    """Create a directory within that of this process."""
    return tempfile.mkdtemp(prefix=prefix, dir=process_directory())


def process_directory() -> str:
    """Return the directory of this process; create it on the first call."""
    return _process_directory(os.getpid())


def locked_directory(prefix: str) -> str:
    """Create a directory for this process, beside those of others, and lock it."""
    for left in _locked_of_the_dead():
        shutil.rmtree(left, ignore_errors=True)
    while True:
        directory = tempfile.mkdtemp(prefix=PREFIX + prefix)
        lock = Path(directory, LOCK)
        with contextlib.suppress(OSError):  # another process took it for a dead one's and removed it: try again
            _locks[directory] = lock_file(lock, os.O_CREAT)
            if lock.exists():
                return directory


def remove_directory(directory: str) -> None:
    """Remove a directory with everything in it."""
    shutil.rmtree(directory, ignore_errors=True)
    lock = _locks.pop(directory, None)
    if lock is not None:
        os.close(lock)


def remove_all_directories() -> None:
    """Remove all temporary directories of this process."""
    for directory in list(_locks):
        remove_directory(directory)


_locks: dict[str, int] = {}
"""The directories of this process, each with the open descriptor that holds its lock."""


@lru_cache
def _process_directory(pid: int) -> str:
    return locked_directory(f"{pid}-")


def _forget_all() -> None:
    for lock in _locks.values():
        os.close(lock)
    _locks.clear()


# A forked child has no directories, and leaves its parent's alone.
os.register_at_fork(after_in_child=_forget_all)
atexit.register(remove_all_directories)


def left_by_the_dead() -> list[Path]:
    """Return this user's directories that no living process holds; the next directory created removes them."""
    return list(_locked_of_the_dead())


def _locked_of_the_dead() -> Iterator[Path]:
    """Yield the same directories; each is locked until the next."""
    for directory in _of_this_user():
        with contextlib.suppress(OSError):  # a living process holds the lock, or it is missing
            lock = lock_file(directory / LOCK)
            yield directory
            os.close(lock)


def _of_this_user() -> Iterator[Path]:
    for entry in os.scandir(tempfile.gettempdir()):
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
            with contextlib.suppress(OSError):  # removed meanwhile
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    yield Path(entry.path)


def lock_file(path: Path, flags: int = 0) -> int:
    """Return an open descriptor that holds the file's lock until it is closed. Raises OSError if the lock is taken."""
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
