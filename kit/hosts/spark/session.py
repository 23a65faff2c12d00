"""A Spark session with the settings that a streaming job wants, on this machine unless told otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kit.hosts.spark.console import waiting
from kit.hosts.spark.signals import keep_jobs_on_interrupt

# Large batches come and go: without these glibc gives their memory back to the system each time, and takes it anew.
WORKER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "OMP_NUM_THREADS": "1",
}
SPARE_CORES = 2
"""A running job holds its slots: this many cores are left for other queries."""

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "kit.hosts.spark.slot.daemon",
}
# A job says by itself, in one line, what went wrong; Spark fills pages with every worker that dies.
LOGGING = Path(__file__).with_name("log4j2.properties")
# A new Java compiles thousands of methods well that run a few times: what is to be compiled well must run ten times as
# often as by default. That takes a third off the start; long queries of the user's are compiled as well as ever.
LESS_COMPILING = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
QUIET = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {LESS_COMPILING}",
}
FAILING_FAST = {
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "500ms",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "3",
}
# An executor of which Spark has heard nothing for so long is replaced, as one that a job has found silent is at once.
# Spark's own two minutes are long for a job that may be given slots there meanwhile.
HEARTBEATS = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
    "spark.network.timeoutInterval": "2s",
}


def create_session(
    app_name: str = "checkpoint-kit",
    slots: int = 4,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session that can run a job of parallelism `slots`, or the one that runs already.

    Without `master` it runs on this machine. `config` has settings of Spark's, which come before those that a streaming
    job wants. `spark.stop()` ends it. The first one of a process starts Java, which
    takes seconds: a line says so.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = QUIET | FAILING_FAST | ({} if is_local(master) else HEARTBEATS)
    settings |= {f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()}
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= LOCAL | {"spark.executorEnv.PYTHONPATH": os.pathsep.join(_import_path())}
    builder = SparkSession.builder.appName(app_name).master(master or f"local[{slots + SPARE_CORES}]")
    for name, value in (settings | dict(config or {})).items():
        builder = builder.config(name, value)
    with waiting(_what_starts):
        session = builder.getOrCreate()
    keep_jobs_on_interrupt(session)
    return session


def is_local(master: str | None) -> bool:
    """Whether a master's executor is the driver's own process."""
    return master is None or master == "local" or master.startswith("local[")


def _what_starts() -> tuple[str, str]:
    return ("starting Java" if SparkContext._gateway is None else "starting Spark"), ""


def _import_path() -> list[str]:
    """Where this process imports from: workers shall find the same."""
    kit = str(Path(__file__).parents[3])
    return list(dict.fromkeys([kit, *(os.path.abspath(entry) for entry in sys.path)]))
