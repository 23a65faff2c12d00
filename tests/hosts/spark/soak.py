"""A long soak: jobs one after another on a standalone cluster while everything that can be killed is, at random.

    python -m tests.hosts.spark.soak MINUTES DIRECTORY [SEED]

A process of its own drives the jobs (`tests.hosts.spark.soaked`); this one kills and freezes: Python workers,
executors, Spark's worker daemons and master, fills disks, and kills the driver in the middle of a job, so that another
one takes the job over. Each job's output is compared with the batch result. In the last part of the time the driver and
the first machine are spared, and faults happen only around them: their resources must not grow then.

Prints a line of JSON for each job and each driver that is killed, and one with the totals. Raises if an output is
wrong, a job did not resume from its newest checkpoint, a process grows, or too few faults happened for a verdict.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.files.storage import CheckpointStorage
from kit.files.stores.opening import open_store
from tests.hosts.spark.cluster import QUICK_JVM, StandaloneCluster, descendants, parent, send
from tests.hosts.spark.held import Held, all_held, check_flat, command
from tests.hosts.spark.jobs import staged
from tests.hosts.spark.soaked import GO_ON, STOP, STORE, soaked_job
from tests.house.files import ROOT

FREEZE_S = 6.0
"""Longer than the heartbeat timeout."""
FULL_S = 1.0
PAUSE_S, PAUSE_WHEN_SPARED_S = (0.2, 3.0), (3.0, 8.0)
AT_ONCE = 0.25
"""The number of faults before the job has recovered from the last one."""
SPARED_FROM = 0.5
"""The share of the time after which the driver and the first machine are spared."""
SETTLE_S = 0.3
"""The time that processes of a job may take to end after the job."""
MINUTES_A_TAKEOVER = 2.5
"""Minutes per takeover: while drivers are killed, jobs must be taken over at least this often. A session takes half a
minute to start on a busy machine.
"""


class Soak:
    """Kills at random for `minutes` minutes, and checks that the jobs survive."""

    def __init__(self, minutes: float, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.minutes = minutes
        self.began_s = self.end_s = 0.0
        self.done: Counter[str] = Counter()
        """The number of injected faults by kind."""
        self.told: list[dict[str, Any]] = []
        """The drivers' report on each job."""
        self.taken_over: list[dict[str, Any]] = []
        """Reports on the jobs that a driver took over, with what its predecessor had left."""
        self.left: dict[str, Any] | None = None
        """The files of its job that the last killed driver had left."""
        self.held: list[list[Held]] = []
        """The resources of all processes after each job."""
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        os.environ["TMPDIR"] = str(self.temporary)
        self.cluster = StandaloneCluster(directory / "cluster")
        self.ready: set[int] = set()
        """The drivers that have started Java."""
        self.driver = self.start_driver()
        self.standby: subprocess.Popen[str] | None = None

    def start_driver(self) -> subprocess.Popen[str]:
        """Start a process that drives jobs on request, and collect its lines."""
        arguments = [sys.executable, "-m", "tests.hosts.spark.soaked", self.cluster.url, str(self.directory)]
        with open(self.directory / "driver.log", "a") as log:
            driver = subprocess.Popen(
                arguments,
                cwd=ROOT,
                env=os.environ | {"SPARK_SUBMIT_OPTS": QUICK_JVM},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        threading.Thread(target=self._listen, args=(driver,), daemon=True).start()
        return driver

    def _listen(self, driver: subprocess.Popen[str]) -> None:
        assert driver.stdout is not None
        for line in driver.stdout:
            what = json.loads(line)
            if "ready" in what:
                self.ready.add(driver.pid)
                continue
            say(at_s=round(time.time() - self.began_s), **what)
            if "taken_over" in what:
                assert self.left is not None
                self.taken_over.append(what | self.left)
                continue
            self.told.append(what)
            time.sleep(SETTLE_S)
            self.held.append(all_held(driver.pid, [worker.pid for worker in self.cluster.workers]))
            tell(driver, GO_ON if time.time() < self.end_s else STOP)

    # --- its course -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the time is over and the last job has ended."""
        while self.driver.pid not in self.ready:
            assert self.driver.poll() is None, (self.directory / "driver.log").read_text()[-4_000:]
            time.sleep(0.1)
        self.began_s = time.time()
        self.end_s = self.began_s + 60 * self.minutes
        tell(self.driver, GO_ON)
        self._keep_standby()
        while self.driver.poll() is None:
            self._pause()
            self._keep_standby()
            if time.time() < self.end_s and self.driver.poll() is None:
                fault = self.chance.choice(self.possible())
                if fault(self):
                    self.done[fault.__name__] += 1
        assert self.driver.returncode == 0, (self.directory / "driver.log").read_text()[-4_000:]

    def _pause(self) -> None:
        """Wait, usually until the job has recovered: a fault shows little while a job waits for Spark's processes."""
        time.sleep(self.chance.uniform(*(PAUSE_WHEN_SPARED_S if self.spares else PAUSE_S)))
        if self.chance.random() > AT_ONCE:
            self._await_checkpoints(1)

    def possible(self) -> list[Callable[[Soak], bool]]:
        """Return the faults that are possible now. A driver is killed only if another is ready: it starts slowly."""
        ready = self.standby is not None and self.standby.pid in self.ready
        return [*FAULTS, *[Soak.kill_driver] * (3 * len(FAULTS) if ready else 0)]

    def _keep_standby(self) -> None:
        if self.standby is None and not self.spares and self.driver.pid in self.ready:
            self.standby = self.start_driver()
        if self.standby is not None and self.spares:
            end(self.standby)
            self.standby = None

    @property
    def spares(self) -> bool:
        """True once the driver and the first machine are spared."""
        return time.time() > self.began_s + SPARED_FROM * (self.end_s - self.began_s)

    def check(self) -> None:
        """Raise AssertionError if a process grew, a job resumed from another checkpoint, or too few faults happened."""
        judged = check_flat(self.held)
        say(
            jobs=len(self.told),
            epochs=sum(each["epochs"] for each in self.told),
            faults=self.done,
            checkpoints=sum((Counter(each["checkpoints"]) for each in self.told), Counter()),
            late=sum((Counter(each["late"]) for each in self.told), Counter()),
            taken_over=[each["checkpoint"] for each in self.taken_over],
            in_flight_bytes=[each["in_flight"] for each in self.taken_over],
            staged_files=[each["staged"] for each in self.taken_over],
        )
        for process, (first, last) in judged.items():
            say(process=process, first=first[2:], last=last[2:])
        for each in self.taken_over:  # from the newest checkpoint that the dead one had stored
            assert each["checkpoint"] == each["stored"] or (each["ended"] and not each["checkpoint"]), each
        wanted = SPARED_FROM * (self.end_s - self.began_s) / 60 / MINUTES_A_TAKEOVER
        assert sum(each["checkpoint"] > 0 for each in self.taken_over) >= wanted, "too few drivers died in time"
        assert any(each["in_flight"] for each in self.taken_over), "no job was taken over that had rows in flight"
        assert any(each["late"] for each in self.told), "no message came late"
        roles = {process.rpartition(" ")[0] for process in judged}
        assert roles >= {"driver", "driver's Java", "executor (Java)", "Python daemon and workers"}, roles

    # --- faults ---------------------------------------------------------------------------------------------------

    def executors(self) -> list[int]:
        """Return the executors on machines that are not spared."""
        below = [pid for worker in self.cluster.workers[self.spares :] for pid in descendants(worker.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command(pid)]

    def python_workers(self) -> list[int]:
        """Return the Python workers: forked by a Python daemon, which an executor has started."""
        below = [pid for executor in self.executors() for pid in descendants(executor)]
        return [pid for pid in below if parent_or_0(pid) in below]

    def kill_worker(self) -> bool:
        """SIGKILL of a Python worker."""
        return self._signal(self.python_workers(), signal.SIGKILL)

    def freeze_worker(self) -> bool:
        """Stop a Python worker (SIGSTOP) forever."""
        return self._signal(self.python_workers(), signal.SIGSTOP)

    def fill_disk(self) -> bool:
        """Let no Python worker of a machine write to a file for a while."""
        before = {pid: limits for pid in self.python_workers() if (limits := limit_files(pid, 0)) is not None}
        time.sleep(FULL_S)
        for pid, limit in before.items():
            limit_files(pid, limit)
        return bool(before)

    def kill_executor(self) -> bool:
        """SIGKILL of an executor."""
        return self._signal(self.executors(), signal.SIGKILL)

    def freeze_executor(self) -> bool:
        """Stop an executor and all processes that it has started (SIGSTOP) for a while."""
        found = self.executors()
        if not found:
            return False
        executor = self.chance.choice(found)
        pids = (executor, *descendants(executor))
        for pid in pids:
            send(pid, signal.SIGSTOP)
        time.sleep(FREEZE_S)
        for pid in pids:
            send(pid, signal.SIGCONT)
        return True

    def kill_spark_worker(self) -> bool:
        """SIGKILL of Spark's own daemon on a machine; another one is started."""
        number = self.chance.randrange(int(self.spares), len(self.cluster.workers))
        self.cluster.workers[number].kill()
        self.cluster.workers[number].wait()
        self.cluster.workers[number] = self.cluster.start_worker(number)
        return True

    def restart_master(self) -> bool:
        """SIGKILL of Spark's master; another one is started."""
        self.cluster.master.kill()
        self.cluster.master.wait()
        self.cluster.start_master()
        return True

    def kill_driver(self) -> bool:
        """Kill the driver (SIGKILL) in the middle of a job, alone or with its JVM, as when its machine dies."""
        number = self._number()
        if not self._await_checkpoints(self.chance.randint(1, 3)):
            return False
        time.sleep(self.chance.uniform(0, 0.5))
        if self._number() != number:
            return False
        assert self.standby is not None
        with_java = self.chance.random() < 0.5
        end(self.driver, with_all=with_java)
        place = self.directory / f"job-{number}"
        ended = any(place.glob("totals/part-*"))
        stored = max(self._stored(number), default=0)
        self.left = {"job": number, "stored": stored, "staged": len(staged(place)), "ended": ended}
        say(killed_driver=self.left | {"with_java": with_java})
        self.driver, self.standby = self.standby, None
        tell(self.driver, GO_ON)
        self._keep_standby()
        return True

    def _await_checkpoints(self, count: int) -> bool:
        """Wait until this driver has stored `count` more checkpoints of its job; return False if the job ends first."""
        number = self._number()
        first = max(self._stored(number), default=0)
        end_s = time.time() + 30
        while self._number() == number and time.time() < end_s and self.driver.poll() is None:
            if max(self._stored(number), default=0) >= first + count:
                return True
            time.sleep(0.02)
        return False

    def _number(self) -> int:
        """Return the number of the job that runs."""
        return len(list(self.directory.glob("job-*/done")))

    def _stored(self, number: int) -> list[int]:
        place = self.directory / f"job-{number}"
        job_id = soaked_job(place, number).job_graph().job_id
        store = open_store(STORE, CheckpointStorage(place / "checkpoints", job_id))
        try:
            return [entry.checkpoint_id for entry in store.checkpoints()]
        except (OSError, ValueError):  # nothing yet, or being replaced
            return []
        finally:
            store.close()

    def _signal(self, pids: list[int], what: signal.Signals) -> bool:
        if pids:
            send(self.chance.choice(pids), what)
        return bool(pids)

    def close(self) -> None:
        """End all processes."""
        for driver in (self.driver, self.standby):
            if driver is not None:
                end(driver)
        self.cluster.close()


FAULTS: list[Callable[[Soak], bool]] = [
    Soak.kill_worker,
    Soak.freeze_worker,
    Soak.fill_disk,
    Soak.kill_executor,
    Soak.freeze_executor,
    Soak.kill_spark_worker,
    Soak.restart_master,
]


def limit_files(pid: int, limit: int) -> int | None:
    """Limit the length of files that a process writes; return the previous limit, None if the process is gone."""
    try:
        before, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, most))
    except ProcessLookupError:
        return None
    return before


def parent_or_0(pid: int) -> int:
    """Return the parent of a process; 0 if the process is gone."""
    try:
        return parent(pid)
    except OSError:
        return 0


def tell(driver: subprocess.Popen[str], what: str) -> None:
    """Send a line to a driver that waits for one."""
    assert driver.stdin is not None
    with contextlib.suppress(OSError):  # killed meanwhile
        driver.stdin.write(what)
        driver.stdin.flush()


def end(driver: subprocess.Popen[str], *, with_all: bool = True) -> None:
    """Kill a driver (SIGKILL), alone or with all processes that it has started."""
    below = descendants(driver.pid)
    driver.kill()
    driver.wait()
    for pid in below if with_all else ():
        send(pid, signal.SIGKILL)


def say(**what: Any) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run a soak with the given arguments."""
    directory = Path(sys.argv[2]).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    soak = Soak(float(sys.argv[1]), directory, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    try:
        soak.run()
    finally:
        soak.close()
    soak.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
