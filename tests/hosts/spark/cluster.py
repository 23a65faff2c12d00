"""A standalone Spark cluster on this machine: a master and workers, each a process that a test may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.ports import free_port

HOST = "127.0.0.1"
CORES = 2
"""Of each worker."""
START_S = 60.0
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class StandaloneCluster:
    """`workers` machines of `cores` each, below `directory`; the master remembers them when it is started again."""

    def __init__(self, directory: Path, workers: int = 2, host: str = HOST, cores: int = CORES) -> None:
        self.directory, self.host, self.cores = directory, host, cores
        self.port = free_port(host)
        self.url = f"spark://{host}:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = self.start_master()
        self.workers = [self.start_worker(number) for number in range(workers)]

    def start_master(self) -> subprocess.Popen[bytes]:
        """Start it, for the first time or again; returns when it listens."""
        remembers = (
            "-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.maxExecutorRetries=-1 "
            f"-Dspark.deploy.recoveryDirectory={self.directory}/recovery {QUICK_JVM}"
        )
        arguments = ["--host", self.host, "--port", str(self.port), "--webui-port", "0"]
        self.master = self._start("master.Master", arguments, SPARK_DAEMON_JAVA_OPTS=remembers)
        end_s = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((self.host, self.port), 1).close()
            except OSError:
                if time.monotonic() > end_s or self.master.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return self.master

    def start_worker(self, number: int, host: str = "", within: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start a worker, which registers with the master; `within` is the command that puts it on another host."""
        host = host or self.host
        place = self.directory / f"worker-{number}"
        arguments = ["--host", host, "--cores", str(self.cores), "--memory", "2g", "--webui-port", "0"]
        arguments += ["--work-dir", str(place), self.url]
        return self._start("worker.Worker", arguments, within, SPARK_LOCAL_IP=host)

    def _start(
        self, name: str, arguments: list[str], within: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        settings = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": self.host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "PYSPARK_PYTHON": sys.executable,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [*within, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
                env=os.environ | settings | environment,
                stdout=log,
                stderr=log,
                cwd=self.directory,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """End all processes, also stopped ones."""
        below = [child for process in self.processes for child in descendants(process.pid)]
        for pid in below:
            send(pid, signal.SIGCONT)
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for pid in below:
            send(pid, signal.SIGKILL)

    def __enter__(self) -> StandaloneCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def session_settings(host: str = HOST) -> dict[str, str]:
    """Return a session's settings on the cluster: one executor per worker, which imports the kit before it forks."""
    import kit

    return {
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.executor.memory": "512m",
        "spark.executor.cores": str(CORES),
        "spark.executor.extraJavaOptions": QUICK_JVM,
        "spark.executorEnv.PYTHONPATH": str(Path(kit.__file__).parents[1]),
        "spark.python.daemon.module": "kit.hosts.spark.slot.daemon",
        "spark.ui.enabled": "false",
    }


def executor_of(worker: int) -> int:
    """The executor (a JVM) of a Python worker: the parent of the daemon that it was forked from."""
    return parent(parent(worker))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """All processes below one, the deepest last."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = parent(int(entry.name))
            except OSError:  # gone meanwhile
                continue
    found = [pid]
    for one in found:
        found += [child for child, of in parents.items() if of == one]
    return found[1:]


def send(pid: int, what: signal.Signals) -> None:
    """A signal, to a process that may be gone."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return
