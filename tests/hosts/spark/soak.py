"""A long soak: jobs one after another on a standalone cluster while everything that can be killed is, at random.

    python -m tests.hosts.spark.soak MINUTES DIRECTORY [SEED]

A process of its own drives the jobs (`tests.hosts.spark.soaked`); this one kills and freezes: Python workers,
executors, Spark's worker daemons and master, fills disks, and kills the driver in the midst of a job, so that another
one takes the job over. Each job's output is compared with the batch result. In the last part of the time the driver and
the first machine are spared, and what goes wrong goes wrong around them: what they hold then must not grow.

Prints a line of JSON for each job and each driver that is killed, and one with the sum of all. Raises when an output
is wrong, a job was not gone on with from its newest checkpoint, a process grows, or too little went wrong to tell.
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
"""So many faults come before the job is over the last one."""
SPARED_FROM = 0.5
"""From this part of the time on the driver and the first machine are left alone."""
SETTLE_S = 0.3
"""What has ended with a job may take so long to be gone."""
MINUTES_A_TAKEOVER = 2.5
"""So often a job must at least have been taken over while drivers were killed; a session takes half a minute to start
where much else runs.
"""


class Soak:
    """Kills at random for so many minutes, and sees that the jobs go on."""

    def __init__(self, minutes: float, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.minutes = minutes
        self.began_s = self.end_s = 0.0
        self.done: Counter[str] = Counter()
        """How often each fault was brought about."""
        self.told: list[dict[str, Any]] = []
        """By the drivers, of each job."""
        self.taken_over: list[dict[str, Any]] = []
        """Of the jobs that a driver went on with, with what its predecessor had left."""
        self.left: dict[str, Any] | None = None
        """By the driver that was killed last, of its job."""
        self.held: list[list[Held]] = []
        """After each job."""
        self.temporary = directory / "tmp"
        self.temporary.mkdir()
        os.environ["TMPDIR"] = str(self.temporary)
        self.cluster = StandaloneCluster(directory / "cluster")
        self.ready: set[int] = set()
        """The drivers that have started Java."""
        self.driver = self.start_driver()
        self.standby: subprocess.Popen[str] | None = None

    def start_driver(self) -> subprocess.Popen[str]:
        """Start a process that is to drive the jobs once it is told to; its lines are collected."""
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
        """Until the time has come, and the last job is done."""
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
        """As a rule until the job is well again: what befalls a job that waits for Spark's processes shows little."""
        time.sleep(self.chance.uniform(*(PAUSE_WHEN_SPARED_S if self.spares else PAUSE_S)))
        if self.chance.random() > AT_ONCE:
            self._await_checkpoints(1)

    def possible(self) -> list[Callable[[Soak], bool]]:
        """The faults that there may be now. A driver is killed when another is ready: starting one takes long."""
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
        """Whether the driver and the first machine are left alone by now."""
        return time.time() > self.began_s + SPARED_FROM * (self.end_s - self.began_s)

    def check(self) -> None:
        """AssertionError when something grew, a job was gone on with from elsewhere, or too little happened."""
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
        """Those on machines that are not spared."""
        below = [pid for worker in self.cluster.workers[self.spares :] for pid in descendants(worker.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command(pid)]

    def python_workers(self) -> list[int]:
        """Those that a daemon has forked: Python below Python below an executor."""
        below = [pid for executor in self.executors() for pid in descendants(executor)]
        return [pid for pid in below if parent_or_0(pid) in below]

    def kill_worker(self) -> bool:
        """SIGKILL of a Python worker."""
        return self._signal(self.python_workers(), signal.SIGKILL)

    def freeze_worker(self) -> bool:
        """SIGSTOP of one, for ever."""
        return self._signal(self.python_workers(), signal.SIGSTOP)

    def fill_disk(self) -> bool:
        """No Python worker of a machine can write to a file for a while."""
        before = {pid: limits for pid in self.python_workers() if (limits := limit_files(pid, 0)) is not None}
        time.sleep(FULL_S)
        for pid, limit in before.items():
            limit_files(pid, limit)
        return bool(before)

    def kill_executor(self) -> bool:
        """SIGKILL of an executor."""
        return self._signal(self.executors(), signal.SIGKILL)

    def freeze_executor(self) -> bool:
        """With all that it has started, for a while."""
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
        """SIGKILL of the driver in the midst of a job, alone or with its JVM, as when its machine goes."""
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
        """Wait until this driver has stored so many checkpoints of its job; False when the job has ended first."""
        number = self._number()
        first = max(self._stored(number), default=0)
        end_s = time.time() + 30
        while self._number() == number and time.time() < end_s and self.driver.poll() is None:
            if max(self._stored(number), default=0) >= first + count:
                return True
            time.sleep(0.02)
        return False

    def _number(self) -> int:
        """Of the job that runs."""
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
        """End all of it."""
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
    """No file that a process writes may be longer; returns the limit there was, None when the process is gone."""
    try:
        before, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, most))
    except ProcessLookupError:
        return None
    return before


def parent_or_0(pid: int) -> int:
    """The process that started another; 0 when that is gone."""
    try:
        return parent(pid)
    except OSError:
        return 0


def tell(driver: subprocess.Popen[str], what: str) -> None:
    """Say something to a driver that waits for a word."""
    assert driver.stdin is not None
    with contextlib.suppress(OSError):  # killed meanwhile
        driver.stdin.write(what)
        driver.stdin.flush()


def end(driver: subprocess.Popen[str], *, with_all: bool = True) -> None:
    """SIGKILL of a driver, with all that it has started or alone."""
    below = descendants(driver.pid)
    driver.kill()
    driver.wait()
    for pid in below if with_all else ():
        send(pid, signal.SIGKILL)


def say(**what: Any) -> None:
    """A line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    """As the arguments say."""
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
