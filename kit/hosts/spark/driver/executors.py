"""The replacement of executors on which a slot has gone silent.

A frozen process, or one behind a cut cable, keeps its connections. Spark counts its cores and assigns tasks to the free
ones until Spark's own heartbeats time out, after two minutes by default. The job's heartbeats time out much sooner. So
the driver gives up an executor if a slot on it was silent and the slot's task does not end within `GRACE_S`, although
its Spark job is over. From then on Spark neither counts the executor nor assigns tasks to it. A cluster manager that
starts executors (YARN, Kubernetes, a standalone cluster once it has ended the old one) replaces it.

Flink: `TaskManager`s whose heartbeats are late are released with all their slots
(`ResourceManager.TaskManagerHeartbeatListener`, `JobMaster.disconnectTaskManager`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Collection

from pyspark.sql import SparkSession

from kit.hosts.spark.scheduler import executors_of_tasks, replace_executor, running_tasks

logger = logging.getLogger("kit.hosts.spark")

GRACE_S = 0.25
"""The time in which a healthy executor ends a task whose process is dead or whose job is over."""
ASK_EVERY_S = 0.01
_DRIVER = "driver"
"""The executor id of a `local` master, whose executor is the driver itself."""


def replace_silent(spark: SparkSession, group: str, places: Collection[int]) -> list[str]:
    """Replace the executors that still run these tasks of the stage, although the group's Spark job is over.

    Waits up to `GRACE_S`. Returns the executors' ids.
    """
    try:
        tasks = executors_of_tasks(spark, group, places)
        end_s = time.monotonic() + GRACE_S
        while running_tasks(spark, tasks) and time.monotonic() < end_s:
            time.sleep(ASK_EVERY_S)
        silent = sorted(set(running_tasks(spark, tasks).values()) - {_DRIVER})
    except Exception:  # the session was stopped, or another Spark version lacks these internals
        logger.debug("silent tasks %s of %s", places, group, exc_info=True)
        return []
    for executor in silent:
        logger.warning("executor %s does not answer: Spark is told to replace it", executor)
        _replace(spark, executor)
    return silent


def _replace(spark: SparkSession, executor: str) -> None:
    """Have Spark stop using an executor at once; Spark then asks the cluster manager, which may not respond."""
    done = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):
            replace_executor(spark, executor)
        done.set()

    threading.Thread(target=ask, name="spark-replace-executor", daemon=True).start()
    done.wait(GRACE_S)
