"""Faults of a running job, injected from outside, with its output compared with pandas.

    python -m examples.faults                            injects all of them, in some five minutes.
    python -m examples.faults "a worker is killed" ...   injects some of them.

The script starts a standalone Spark cluster on this machine (a master and two workers, with `spark-class`). It runs a
job on it for each fault, and injects the fault once two checkpoints are complete: with signals, limits of the system,
Spark's own pages, sockets closed from outside, and functions that misbehave. It uses only what `docs/` describes of the
kit. It prints a line for each fault: what was done, the time until the job had recovered, and whether the output equals
that of pandas. A job has recovered when all tasks run in a new epoch or, where none is needed, when another checkpoint
is complete. The exit status is 1 if an output differs. Linux only. Two faults need more: `cc` for the slow disk, and
the right to trace processes for links.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

import kit
from kit import CheckpointConfig, FixedDelay, ParquetSink, ParquetSource, SparkJob, StreamEnvironment, count, sum_
from kit.hosts.spark import DriverSettings, WireSettings, create_session

ROWS, BATCH_ROWS, BATCH_S = 240_000, 1_000, 0.05
"""Two subtasks take six seconds over it."""
HOST = "127.0.0.1"
SLOW_DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int file, const void *data, size_t length) {
    static ssize_t (*plainly)(int, const void *, size_t);
    char name[64], path[4096];
    const char *slow = getenv("SLOW_DISK");  /* while this file is there, writes to what lies beside it are slow */
    if (!plainly) plainly = dlsym(RTLD_NEXT, "write");
    if (slow && file > 2 && access(slow, F_OK) == 0) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        ssize_t end = readlink(name, path, sizeof path - 1);
        if (end > 0 && !strncmp(path, slow, strrchr(slow, '/') + 1 - slow)) usleep(900000);
    }
    return plainly(file, data, length);
}
"""
"""A disk that is slow on command, put under the workers with LD_PRELOAD."""


# --- the job ----------------------------------------------------------------------------------------------------------


def write_input(path: Path) -> pd.DataFrame:
    """The rows, one row group for each batch; returns the totals that pandas finds in them."""
    numbers = np.random.default_rng(0)
    rows = pd.DataFrame({"key": numbers.integers(0, 500, ROWS), "value": numbers.integers(0, 1_000, ROWS)})
    pq.write_table(pa.Table.from_pandas(rows), path, row_group_size=BATCH_ROWS)
    return rows.groupby("key")["value"].agg(["sum", "size"])


def work(order: str, pause_s: float, batch: pa.RecordBatch) -> pa.RecordBatch:
    """A slow user function, which misbehaves once on request."""
    time.sleep(pause_s)
    try:
        os.rename(order, f"{order}.done")  # one of the subtasks is the first
    except FileNotFoundError:
        return batch
    misdeed = Path(f"{order}.done").read_text()
    if misdeed == "hang":
        time.sleep(3_600)
    elif misdeed == "leak":
        limits, size = resource.getrlimit(resource.RLIMIT_AS), int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (size * resource.getpagesize() + (1 << 29), limits[1]))
        leaked: list[bytes] = []
        try:
            while True:
                leaked.append(bytes(1 << 26))
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    elif misdeed == "exit":
        sys.exit(3)
    elif misdeed == "end":
        os._exit(3)
    return batch


def totals(
    place: Path, timeout_ms: int = 30_000, tolerable_failures: int = 0, pause_s: float = BATCH_S
) -> StreamEnvironment:
    """Totals by key of the rows, published when the job ends."""
    checkpoint = CheckpointConfig(
        interval_ms=200,
        timeout_ms=timeout_ms,
        tolerable_failures=tolerable_failures,
        directory=str(place / "checkpoints"),
        store="filesystem",
        memory_threshold_bytes=0,
    )
    restart = FixedDelay(attempts=20, delay_ms=100)
    env = StreamEnvironment("totals", parallelism=2, checkpoint=checkpoint, restart=restart)
    rows = env.from_source(ParquetSource(str(place.parent / "rows.parquet")), uid="rows")
    worked = rows.map_batches(partial(work, str(place / "order"), pause_s)).uid("work")
    sums = worked.key_by("key").aggregate(total=sum_("value"), n=count(), emit="final").uid("sums")
    sums.sink_to(ParquetSink(str(place / "out")), uid="out")
    return env


def is_equal(place: Path, expected: pd.DataFrame) -> bool:
    """Return True if the published rows equal those of pandas."""
    parts = [pq.read_table(part).to_pandas() for part in (place / "out").glob("part-*.parquet")]
    found = pd.concat(parts).set_index("key").sort_index()[["total", "n"]]
    return found.to_numpy().tolist() == expected.to_numpy().tolist()


# --- the cluster ------------------------------------------------------------------------------------------------------


class Cluster:
    """A master and two workers of two cores each, every one a process."""

    def __init__(self, place: Path) -> None:
        self.place = place
        with socket.create_server((HOST, 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"spark://{HOST}:{self.port}"
        self.started: list[subprocess.Popen[bytes]] = []
        self.start_master()
        for number in range(2):
            options = ["--cores", "2", "--memory", "2g", "--work-dir", str(place / f"worker-{number}")]
            self.start("worker.Worker", "--host", HOST, "--webui-port", "0", *options, self.url)

    def start_master(self) -> None:
        """It remembers its workers and applications when it is started again."""
        self.master = self.start("master.Master", "--host", HOST, "--port", str(self.port), "--webui-port", "0")
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1):
                return
            time.sleep(0.1)

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """One of Spark's processes."""
        home = Path(pyspark.__file__).parent
        remembers = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self.place}/recovery"
        settings = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        settings |= {"SPARK_DAEMON_JAVA_OPTS": f"{remembers} -Dspark.deploy.maxExecutorRetries=-1"}
        with open(self.place / f"{name}.log", "ab") as log:
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            process = subprocess.Popen(command, env=os.environ | settings, stdout=log, stderr=log, cwd=self.place)
        self.started.append(process)
        return process

    def session(self, slow_disk: Path | None) -> SparkSession:
        """A session on it, as docs/site/guide/cluster.md says."""
        preload = (
            {} if slow_disk is None else {"LD_PRELOAD": str(slow_disk), "SLOW_DISK": str(slow_disk.parent / "slow")}
        )
        environment = {"PYTHONPATH": str(Path(kit.__file__).parents[1])} | preload
        config = {f"spark.executorEnv.{name}": value for name, value in environment.items()} | {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.port": "0",
            "spark.executor.memory": "512m",
            "spark.python.daemon.module": "kit.hosts.spark.slot.daemon",
        }
        return create_session("faults", master=self.url, config=config)

    def close(self) -> None:
        """End all of it, also what is frozen."""
        for process in self.started:
            for pid in (*descendants(process.pid), process.pid):
                send(pid, signal.SIGKILL)
            process.wait()


def parent(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parents[int(entry.name)] = parent(int(entry.name))
    found = [pid]
    for one in found:
        found += [child for child, of in parents.items() if of == one]
    return found[1:]


def send(pid: int, what: signal.Signals) -> None:
    """A signal, to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


# --- the faults -------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A job that runs, and what is around it."""

    cluster: Cluster
    spark: SparkSession
    job: SparkJob
    place: Path

    def executor(self) -> int:
        """The JVM of the first worker: what has started the daemon that forked it."""
        return parent(parent(self.job.look.workers()[0]))


def kill_worker(run: Run) -> None:
    """SIGKILL of a Python worker."""
    os.kill(run.job.look.workers()[0], signal.SIGKILL)


def freeze_worker(run: Run) -> None:
    """Send SIGSTOP to a Python worker, and never continue it."""
    os.kill(run.job.look.workers()[0], signal.SIGSTOP)


def kill_executor(run: Run) -> None:
    """SIGKILL of an executor, whose workers go with it."""
    os.kill(run.executor(), signal.SIGKILL)


def freeze_executor(run: Run) -> None:
    """SIGSTOP of an executor and all that it has started."""
    executor = run.executor()
    for pid in (executor, *descendants(executor)):
        send(pid, signal.SIGSTOP)


def restart_master(run: Run) -> None:
    """SIGKILL of the master; a worker dies while it is away, so that the job has to go on without it."""
    run.cluster.master.kill()
    run.cluster.master.wait()
    kill_worker(run)
    run.cluster.start_master()


def cancel_stage(run: Run) -> None:
    """The link beside the stage on Spark's own page, which is a form."""
    page = f"{run.spark.sparkContext.uiWebUrl}/stages/"
    form = None
    while form is None:  # the page is a little behind
        with urllib.request.urlopen(page) as answer:
            form = re.search(r'<form action="[^"]*/stage/kill/".*?</form>', answer.read().decode(), re.DOTALL)
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)"', form[0])
    urllib.request.urlopen(f"{page}stage/kill/", urllib.parse.urlencode(fields).encode()).close()


def cut(one: int, other: int) -> None:
    """Close the TCP connection between two processes from outside."""
    (file,) = {mine: at for mine, at in connections(one) if (mine[1], mine[0]) in dict(connections(other))}.values()
    taken = ctypes.CDLL(None, use_errno=True).syscall(438, os.pidfd_open(one), file, 0)  # pidfd_getfd
    if taken < 0:
        raise OSError(ctypes.get_errno(), "this process may not take a socket of another")
    with socket.socket(fileno=taken) as sock:
        sock.shutdown(socket.SHUT_RDWR)


def connections(pid: int) -> Iterator[tuple[tuple[str, str], int]]:
    """Both ends of each TCP connection of a process, and its number there."""
    ends = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        ends[f"socket:[{words[9]}]"] = words[1], words[2]
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if (name := os.readlink(entry)) in ends:
                yield ends[name], int(entry.name)


def cut_between_slots(run: Run) -> None:
    """Close the connection between the two workers."""
    cut(*run.job.look.workers().values())


def cut_to_driver(run: Run) -> None:
    """Close the connection of a worker to this process."""
    cut(run.job.look.workers()[0], os.getpid())


def fill_disk(run: Run) -> None:
    """The workers may not write a byte to a file until two checkpoints have failed."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in run.job.look.workers().values()}
    for pid, (_, most) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    await_failures(run.job, 2)
    for pid, limits in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def slow_disk(run: Run) -> None:
    """Each write of a worker takes 0.9 s until two checkpoints have failed."""
    slow = run.place.parent / "slow"
    slow.touch()
    await_failures(run.job, 2)
    slow.unlink()


def order(misdeed: str, run: Run) -> None:
    """Have the function of the job misbehave, once."""
    (run.place / "ordered").write_text(misdeed)
    os.rename(run.place / "ordered", run.place / "order")


def await_failures(job: SparkJob, number: int) -> None:
    """Wait until this number of checkpoints has failed."""
    while (job.checkpoints()["status"] == "FAILED").sum() < number:
        assert not job.ended, "the job ended before so many checkpoints failed"
        time.sleep(0.05)


class Fault(NamedTuple):
    """A fault: its injection, and whether recovery needs a new epoch."""

    name: str
    done: str
    do: Callable[[Run], None]
    restarts: bool = True
    timeout_ms: int = 30_000
    """Of a checkpoint: it notices who hangs, and on a slow disk it is what fails."""
    start_timeout_s: float = 60.0
    """Spark may give the next epoch the slots of an executor that is frozen: so long it may be in vain."""


FAULTS = (
    Fault("a worker is killed", "SIGKILL", kill_worker),
    Fault("a worker is frozen", "SIGSTOP", freeze_worker),
    Fault("an executor is killed", "SIGKILL of its JVM", kill_executor),
    Fault("the link between two slots is lost", "the socket shut by another process", cut_between_slots),
    Fault("the link to the driver is lost", "the socket shut by another process", cut_to_driver),
    Fault("the disk is full", "RLIMIT_FSIZE 0 till two checkpoints failed", fill_disk, False),
    Fault("the disk is slow", "0.9 s a write till two checkpoints failed", slow_disk, False, 1_000),
    Fault("the stage is cancelled", "on Spark's page", cancel_stage),
    Fault("Spark's master is restarted", "SIGKILL, and a worker's while it is away", restart_master),
    Fault("a function hangs", "sleeps for an hour", partial(order, "hang"), timeout_ms=2_000),
    Fault("a function leaks", "takes 512 MB more than it may", partial(order, "leak")),
    Fault("a function asks to exit", "sys.exit(3)", partial(order, "exit")),
    Fault("a function ends the process", "os._exit(3)", partial(order, "end")),
    Fault("an executor is frozen", "SIGSTOP of all its processes", freeze_executor, start_timeout_s=8),
)
DRIVER = "the driver dies"


def suffer(fault: Fault, cluster: Cluster, spark: SparkSession, place: Path) -> float:
    """Run a job and inject the fault; return the seconds until it had recovered."""
    wire = WireSettings(unix_sockets=False)  # so that links are TCP connections
    settings = DriverSettings(start_timeout_s=fault.start_timeout_s, kill_ms=500, wire=wire)
    env = totals(place, fault.timeout_ms) if fault.restarts else totals(place, fault.timeout_ms, 1_000, 3 * BATCH_S)
    with SparkJob(env, spark, settings=settings) as job:
        job.start()
        await_checkpoint(job, 2)
        began_s, restarts = time.monotonic(), job.look.summary()["restarts"]
        fault.do(Run(cluster, spark, job, place))
        if fault.restarts:
            job.wait_until_running(restarts=restarts + 1, timeout_s=120)
        else:
            began_s = time.monotonic()
            await_checkpoint(job, int(job.checkpoints()["id"].max()) + 1)
        went_on_s = time.monotonic() - began_s
        assert job.wait(180) == "FINISHED"
        return went_on_s


def await_checkpoint(job: SparkJob, least: int) -> None:
    """Wait until this checkpoint, or a later one, is complete."""
    while not ((found := job.checkpoints())["status"].eq("COMPLETED") & (found["id"] >= least)).any():
        assert not job.ended, f"the job ended before checkpoint {least} was complete"
        time.sleep(0.02)


def kill_a_driver(cluster: Cluster, place: Path) -> float:
    """Kill the process of a driver, and resume its job in another. Return the seconds, including the start."""
    command = [sys.executable, "-m", "examples.faults", "--drive", cluster.url, str(place)]
    first = subprocess.Popen(command, start_new_session=True)
    while len(list(place.glob("checkpoints/*/chk-*/_metadata"))) == 0:
        assert first.poll() is None, "the driver ended before it had a checkpoint"
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)  # its JVM is in the same group
    first.wait()
    began_s = time.monotonic()
    second = subprocess.Popen([*command, "--recover"], stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    line = second.stdout.readline()
    went_on_s = time.monotonic() - began_s
    assert second.wait(300) == 0
    assert line.startswith("restored from checkpoint"), line
    return went_on_s


def drive(url: str, place: Path, *, recover: bool) -> None:
    """Run the job as its driver, in a process for the last fault."""
    config = {"spark.driver.host": HOST, "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
    config |= {"spark.executorEnv.PYTHONPATH": str(Path(kit.__file__).parents[1])}
    with SparkJob(totals(place), create_session("driver", master=url, config=config), recover=recover) as job:
        job.start().wait_until_running(timeout_s=120)
        if recover:
            print(f"restored from checkpoint {job.look.restores()['checkpoint_id'].max()}", flush=True)
        job.wait(180)


def compile_slow_disk(place: Path) -> Path | None:
    """Compile the library that makes a disk slow; return None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (place / "slow.c").write_text(SLOW_DISK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"], cwd=place, check=True)
    return place / "slow.so"


def main(names: list[str]) -> int:
    """Inject the named faults, or all, each into its own job; return 1 if an output differs."""
    unknown = sorted(set(names) - {fault.name for fault in FAULTS} - {DRIVER})
    if unknown:
        raise SystemExit(f"no fault is called {unknown[0]!r}; there are {', '.join(each.name for each in FAULTS)}")
    differ = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster ends too
    with tempfile.TemporaryDirectory(prefix="faults-") as directory, contextlib.ExitStack() as stack:
        root = Path(directory)
        expected = write_input(root / "rows.parquet")
        (root / "cluster").mkdir()
        cluster = Cluster(root / "cluster")
        stack.callback(cluster.close)
        library = compile_slow_disk(root)

        def tell(name: str, done: str, run: Callable[[Path], float]) -> None:
            nonlocal differ
            if names and name not in names:
                return
            place = root / name.replace(" ", "-").replace("'", "")
            place.mkdir()
            try:
                said = f"on after {run(place):5.1f} s   output {'equal' if is_equal(place, expected) else 'DIFFERS'}"
            except Exception as error:
                said = f"FAILED: {type(error).__name__}: {error}"
            differ += "output equal" not in said
            print(f"{name:<36} {done:<44} {said}", flush=True)

        if names != [DRIVER]:
            spark = cluster.session(library)
            for fault in FAULTS:
                if fault.do is slow_disk and library is None:
                    print(f"{fault.name:<36} left out: there is no C compiler `cc`")
                    continue
                tell(fault.name, fault.done, lambda place, fault=fault: suffer(fault, cluster, spark, place))  # type: ignore[misc]
                for process in cluster.started:
                    for pid in descendants(process.pid):
                        send(pid, signal.SIGCONT)
            spark.stop()
        tell(DRIVER, "SIGKILL with its JVM; another process goes on", lambda place: kill_a_driver(cluster, place))
    return int(differ > 0)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--drive"]:
        drive(words[1], Path(words[2]), recover="--recover" in words)
    else:
        sys.exit(main(words))
