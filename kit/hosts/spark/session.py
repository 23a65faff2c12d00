"""A Spark session with the settings that a streaming job needs, on this machine by default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from pyspark import SparkContext
from pyspark.sql import SparkSession

from kit.core.arguments.allowed import NAME, Allowed, check_allowed, count, or_none
from kit.hosts.spark.console import waiting
from kit.hosts.spark.signals import keep_jobs_on_interrupt
from kit.hosts.spark.temporary import SPARK_FILES, process_directory

# Large batches come and go: without these, glibc returns their memory to the system each time and requests it again.
WORKER_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "OMP_NUM_THREADS": "1",
}
SPARE_CORES = 2
"""The number of cores left for other queries, because a running job keeps its slots."""

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "kit.hosts.spark.slot.daemon",
}
# A job reports by itself, in one line, what went wrong; Spark logs pages for every worker that dies.
LOGGING = Path(__file__).with_name("log4j2.properties")
# A new JVM optimizes thousands of methods that run only a few times. Here a method must run ten times as often as by
# default before it is optimized. That makes the start a third shorter; the user's long queries are optimized as before.
LESS_COMPILING = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# Spark asks whether a value is null before it takes it out of a batch of Python's; by default Arrow asks once more.
ASKING_ONCE = "-Darrow.enable_null_check_for_get=false"
AUTHENTICATED = {"spark.authenticate": "true"}
"""The setting with which Spark's block manager serves blocks only to its own application.

A block holds the job's functions, or rows. On a local master Spark makes up the secret for it. On a cluster the secret
must be known to the cluster too, so `create_session` does not set it there. A secret is never among the settings here:
PySpark passes them on Java's command line, which every user can read.
"""
QUIET = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {LESS_COMPILING} {ASKING_ONCE}",
}
PUSHING_FILTERS = {"spark.sql.python.filterPushdown.enabled": "true"}
"""The setting without which Spark's format "checkpoint" cannot be read (`kit.hosts.spark.frames.checkpoint_state`)."""
FAILING_FAST = {
    "spark.python.worker.reuse": "true",
    "spark.python.task.killTimeout": "500ms",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "3",
}
# Spark replaces an executor that is silent for this long. One that a job has found silent is replaced at once.
# Spark's default of two minutes is long for a job that may be given slots there meanwhile.
HEARTBEATS = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
    "spark.network.timeoutInterval": "2s",
}


_ALLOWED = {
    "app_name": Allowed("a name, such as 'lesson' (write slots=4 for the number of slots)", NAME.test),
    "slots": count(1),
    "master": or_none(
        Allowed("the address of a master, such as 'local[4]' or 'spark://host:7077'", NAME.test), "this machine"
    ),
    "config": or_none(
        Allowed("Spark settings, as {'spark.ui.enabled': 'true'}", lambda found: isinstance(found, Mapping)),
        "none",
    ),
}


def create_session(
    app_name: str = "checkpoint-kit",
    slots: int = 4,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session that can run a job of parallelism `slots`, or the one that already runs.

    Without `master`, it runs on this machine. `config` has Spark settings, which override those that a streaming job
    needs. `spark.stop()` ends it. On this machine, other users can neither ask Spark for the session's data nor read
    its files: `spark.authenticate` is set, and `spark.local.dir` is a private directory. The first session of a process
    starts Java, which takes seconds: a line says so. `spark.read.format("checkpoint")` reads state. Raises
    SettingError.
    """
    given = SimpleNamespace(app_name=app_name, slots=slots, master=master, config=config)
    check_allowed(given, _ALLOWED, "create_session")
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    for name, value in session_environment(master).items():
        os.environ.setdefault(name, value)
    builder = SparkSession.builder
    for name, value in session_settings(app_name, slots, master, config).items():
        builder = builder.config(name, value)
    with waiting(lambda: ("starting Java" if SparkContext._gateway is None else "starting Spark", "")):
        session = builder.getOrCreate()
    keep_jobs_on_interrupt(session)
    return session


def session_environment(master: str | None) -> dict[str, str]:
    """Return the environment variables that a session needs in this process unless they are set."""
    here = {"SPARK_LOCAL_IP": "127.0.0.1"} if _is_here(master) else {}
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **here}


def session_settings(
    app_name: str, slots: int, master: str | None, config: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the Spark settings of a session; those in `config` override the others."""
    settings = {"spark.app.name": app_name, "spark.master": master or f"local[{slots + SPARE_CORES}]"}
    settings |= QUIET | PUSHING_FILTERS | FAILING_FAST | ({} if is_local(master) else HEARTBEATS)
    settings |= {f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()}
    if _is_here(master):
        settings |= LOCAL | AUTHENTICATED | {"spark.executorEnv.PYTHONPATH": os.pathsep.join(_import_path())}
        settings["spark.local.dir"] = _private_directory()
    return settings | dict(config or {})


def _is_here(master: str | None) -> bool:
    """Return True if all processes of the session are on this machine."""
    return master is None or master.startswith("local")


def is_local(master: str | None) -> bool:
    """Return True if the master runs its executor in the driver's own process."""
    return master is None or master == "local" or master.startswith("local[")


def _private_directory() -> str:
    """Return a directory for Spark's files (rows that it exchanges or caches) that only this user can read."""
    directory = os.path.join(process_directory(), SPARK_FILES)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return directory


def is_open(session: SparkSession) -> bool:
    """Return True if any process that can connect to Spark's ports may read the session's blocks.

    The settings of its context count, which it was started with; those of the session may have been changed later.
    """
    return session.sparkContext.getConf().get("spark.authenticate", "false") != "true"


def _import_path() -> list[str]:
    """Return the import path of this process, so that workers import the same modules."""
    kit = str(Path(__file__).parents[3])
    return list(dict.fromkeys([kit, *(os.path.abspath(entry) for entry in sys.path)]))
