"""The resources of processes (threads, open files, memory), and the check that they do not grow: a part of the soak.

Kills make processes live for different times, so each is judged on its own. A process that has seen enough jobs grows
if the median of all slopes between two of its jobs (Theil and Sen) reaches a limit. The limit is half a thread or file
per job: a leak adds one or more, and fluctuations add none. The first jobs of a process fill caches and pools and do
not count. The resources of a JVM have fixed limits as well.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.hosts.spark.cluster import descendants

WARM_UP_JOBS, FEWEST_JOBS = 3, 6
"""The first ones of a process fill caches and pools; of fewer than that after them nothing can be said."""
STEEPEST = {"threads": 0.5, "files": 0.5, "memory_mb": 1.5}
"""The limits of growth per job."""
STEEPEST_OF_JAVA = {"files": 0.5}
"""Its pools of threads fill up and shrink, and it takes what memory it may have: those have limits instead."""
MOST_OF_JAVA = {"threads": 400, "memory_mb": 1_500}


class Held(NamedTuple):
    """The resources of one process after a job."""

    role: str
    pid: int
    threads: int
    files: int
    memory_mb: int

    @property
    def is_java(self) -> bool:
        """True for a JVM."""
        return "Java" in self.role


def held(role: str, pid: int) -> Held | None:
    """Return the present resources of a process; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return None
    values = {line.split(":")[0]: line.split(":")[1].split() for line in status.splitlines()}
    if "VmRSS" not in values:
        return None
    return Held(role, pid, int(values["Threads"][0]), files, int(values["VmRSS"][0]) >> 10)


def all_held(driver: int, workers: Iterable[int]) -> list[Held]:
    """Return the resources of all processes of a cluster and of a job's driver, from Spark's `workers` downwards."""
    roles = [("driver", driver), *((f"driver's {_kind(pid)}", pid) for pid in descendants(driver))]
    for worker in workers:
        roles.append(("Spark's worker (Java)", worker))
        below = descendants(worker)
        roles += [(_kind(pid), pid) for pid in below]
    found = (held(role, pid) for role, pid in roles)
    return [each for each in found if each is not None]


def _kind(pid: int) -> str:
    words = command(pid)
    if "CoarseGrainedExecutorBackend" in words:
        return "executor (Java)"
    if "java" in words.partition(" ")[0]:
        return "Java"
    return "Python daemon and workers" if "kit.hosts.spark.slot.daemon" in words else "other"


def check_flat(jobs: Sequence[Sequence[Held]]) -> dict[str, tuple[Held, Held]]:
    """AssertionError when a process grows; what `jobs` has is held after each job.

    Returns the first and the last of those that could be judged, by role and process.
    """
    lives: dict[tuple[str, int], list[Held]] = {}
    for each in itertools.chain.from_iterable(jobs):
        lives.setdefault((each.role, each.pid), []).append(each)
    judged = {}
    for (role, pid), life in lives.items():
        for name, most in MOST_OF_JAVA.items():
            if life[0].is_java:
                assert getattr(life[-1], name) <= most, f"{role} {pid} holds {getattr(life[-1], name)} {name}"
        if len(life) < WARM_UP_JOBS + FEWEST_JOBS:
            continue
        for name, steepest in (STEEPEST_OF_JAVA if life[0].is_java else STEEPEST).items():
            values = [getattr(each, name) for each in life[WARM_UP_JOBS:]]
            grows = slope(values)
            assert grows < steepest, f"{role} {pid}: {name} grow by {grows:.2f} a job: {values}"
        judged[f"{role} {pid}"] = life[WARM_UP_JOBS], life[-1]
    return judged


def slope(values: Sequence[float]) -> float:
    """Return the median of the slopes between any two of the values."""
    pairs = itertools.combinations(enumerate(values), 2)
    return statistics.median((second - first) / (j - i) for (i, first), (j, second) in pairs)


def command(pid: int) -> str:
    """Return the command line of a process; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
