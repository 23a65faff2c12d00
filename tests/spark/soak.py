"""A long soak: jobs one after another on a standalone cluster while everything that can be killed is, at random.

    python -m tests.spark.soak MINUTES DIRECTORY [SEED]

A process of its own drives the jobs (`drive`); this one kills and freezes: Python workers, executors, Spark's worker
daemons and master, and in the first third of the time the driver, after which another process goes on with its job.
Each job's output is compared with the batch result. Prints a line of JSON for each job, with what the driver's process
and its JVM hold by then, and raises when the output is wrong or what they hold has grown.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kit import FixedDelay
from kit.spark import SparkJob, create_session
from tests.house.files import ROOT
from tests.spark.cluster import StandaloneCluster, descendants, parent, send, session_settings
from tests.spark.jobs import check_output, generator, totals_job

ROWS, ROWS_PER_SECOND = 100_000, 8_000
FREEZE_S = 6.0
"""Longer than the heartbeat timeout."""
PAUSE_S = (1.0, 6.0)
MORE = {"threads": 8, "files": 24, "memory_mb": 96}
"""So much more than in the first half may be held in the second."""
MORE_THREADS_OF_JAVA = 40
"""Its pools fill up as they are used, each to its limit."""
GROWS = [("python", "threads"), ("python", "files"), ("python", "memory_mb"), ("java", "threads"), ("java", "files")]
"""What is looked at: a JVM takes what memory it may have."""
WARM_UP_JOBS, FEWEST_JOBS = 2, 6
"""The first ones of a process fill caches and pools; of fewer than that nothing can be said."""


# --- the driver's process ---------------------------------------------------------------------------------------------


def drive(master: str, directory: Path, end_s: float) -> None:
    """Run job after job until the time has come; a job that another driver began is gone on with."""
    spark = create_session("soak", master=master, config=session_settings())
    number = len(list(directory.glob("job-*/done")))
    while time.time() < end_s:
        place = directory / f"job-{number}"
        began = place / "began"
        recover = began.exists()
        place.mkdir(exist_ok=True)
        began.touch()
        env = totals_job(
            place,
            generator(ROWS, ROWS_PER_SECOND),
            interval_ms=300,
            store="filesystem",
            tolerable_failures=1_000,
            restart=FixedDelay(attempts=1_000_000, delay_ms=100),
        )
        with SparkJob(env, spark, recover=recover) as job:
            job.start()
            status = job.wait()
        assert status == "FINISHED"
        check_output(place, ROWS)
        (place / "done").touch()
        told = {"job": number, "epochs": len(job.stages), "recovered": recover, **held()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        number += 1
    spark.stop()


def held() -> dict[str, Any]:
    """What this process and its JVM hold."""
    (jvm,) = [pid for pid in descendants(os.getpid()) if "SparkSubmit" in command(pid)]
    mine, javas = _held(os.getpid()), _held(jvm)
    return {"python": mine, "java": javas, "pid": os.getpid()}


def _held(pid: int) -> dict[str, int]:
    status = Path(f"/proc/{pid}/status").read_text()
    values = {line.split(":")[0]: line.split(":")[1].split() for line in status.splitlines()}
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return {"threads": int(values["Threads"][0]), "memory_mb": int(values["VmRSS"][0]) >> 10, "files": files}


# --- who kills --------------------------------------------------------------------------------------------------------


class Soak:
    """Kills at random for so many minutes, and sees that the jobs go on."""

    def __init__(self, minutes: float, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory
        self.began_s = time.time()
        self.end_s = self.began_s + 60 * minutes
        self.done: dict[str, int] = {}
        """How often each fault was brought about."""
        self.told: list[dict[str, Any]] = []
        self.cluster = StandaloneCluster(directory / "cluster")
        self.driver = self.start_driver()

    def start_driver(self) -> subprocess.Popen[str]:
        """Start the process that drives the jobs; its lines are collected."""
        arguments = [sys.executable, "-m", "tests.spark.soak", "drive", self.cluster.url, str(self.directory)]
        with open(self.directory / "driver.log", "a") as log:
            driver = subprocess.Popen(
                [*arguments, str(self.end_s)], cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
            )
        threading.Thread(target=self._listen, args=(driver,), daemon=True).start()
        return driver

    def _listen(self, driver: subprocess.Popen[str]) -> None:
        assert driver.stdout is not None
        for line in driver.stdout:
            self.told.append(json.loads(line))
            sys.stdout.write(line)
            sys.stdout.flush()

    def run(self) -> None:
        """Until the time has come, and the last job is done."""
        while self.driver.poll() is None:
            time.sleep(self.chance.uniform(*PAUSE_S))
            if time.time() < self.end_s and self.driver.poll() is None:
                fault = self.chance.choice(self.possible())
                if fault(self):
                    self.done[fault.__name__] = self.done.get(fault.__name__, 0) + 1
        assert self.driver.returncode == 0, (self.directory / "driver.log").read_text()[-4_000:]
        assert self.told, "no job was done in time"
        sys.stdout.write(json.dumps({"faults": self.done}) + "\n")
        check_flat(self.told)

    def possible(self) -> list[Any]:
        """The faults that there may be now."""
        early = time.time() < self.began_s + (self.end_s - self.began_s) / 3
        return [*FAULTS, *([Soak.kill_driver] if early else [])]

    def executors(self) -> list[int]:
        below = [pid for worker in self.cluster.workers for pid in descendants(worker.pid)]
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command(pid)]

    def python_workers(self) -> list[int]:
        """Those that a daemon has forked: Python below Python below an executor."""
        below = [pid for executor in self.executors() for pid in descendants(executor)]
        return [pid for pid in below if parent_or_0(pid) in below]

    def kill_worker(self) -> bool:
        return self._signal(self.python_workers(), signal.SIGKILL)

    def freeze_worker(self) -> bool:
        return self._signal(self.python_workers(), signal.SIGSTOP)

    def kill_executor(self) -> bool:
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
        number = self.chance.randrange(len(self.cluster.workers))
        self.cluster.workers[number].kill()
        self.cluster.workers[number].wait()
        self.cluster.workers[number] = self.cluster.start_worker(number)
        return True

    def restart_master(self) -> bool:
        self.cluster.master.kill()
        self.cluster.master.wait()
        self.cluster.start_master()
        return True

    def kill_driver(self) -> bool:
        """And its JVM, as when its machine goes; another one goes on."""
        below = descendants(self.driver.pid)
        self.driver.kill()
        self.driver.wait()
        for pid in below:
            send(pid, signal.SIGKILL)
        self.driver = self.start_driver()
        return True

    def _signal(self, pids: list[int], what: signal.Signals) -> bool:
        if pids:
            send(self.chance.choice(pids), what)
        return bool(pids)

    def close(self) -> None:
        for pid in descendants(self.driver.pid):
            send(pid, signal.SIGKILL)
        self.driver.kill()
        self.driver.wait()
        self.cluster.close()


FAULTS = [
    Soak.kill_worker,
    Soak.freeze_worker,
    Soak.kill_executor,
    Soak.freeze_executor,
    Soak.kill_spark_worker,
    Soak.restart_master,
]


def check_flat(told: list[dict[str, Any]]) -> None:
    """AssertionError when the last driver held more in the second half of its life than in the first."""
    last = [each for each in told if each["pid"] == told[-1]["pid"]]
    if len(last) < FEWEST_JOBS:
        sys.stdout.write(f"only {len(last)} jobs of the last driver: whether it grows cannot be told\n")
        return
    last = last[WARM_UP_JOBS:]
    middle = (len(last) + 1) // 2
    for process, name in GROWS:
        values = [each[process][name] for each in last]
        first, second = max(values[:middle]), max(values[middle:])
        more = MORE_THREADS_OF_JAVA if (process, name) == ("java", "threads") else MORE[name]
        assert second <= first + more, f"{process}: {name} grew from {first} to {second}: {last}"


def command(pid: int) -> str:
    """What it was started with; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def parent_or_0(pid: int) -> int:
    try:
        return parent(pid)
    except OSError:
        return 0


def main() -> int:
    if sys.argv[1] == "drive":
        drive(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4]))
        return 0
    directory = Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    soak = Soak(float(sys.argv[1]), directory, int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    try:
        soak.run()
    finally:
        soak.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
