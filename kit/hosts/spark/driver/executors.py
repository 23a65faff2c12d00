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
from typing import Any

from pyspark.sql import SparkSession

logger = logging.getLogger("kit.hosts.spark")

GRACE_S = 0.25
"""The time in which a healthy executor ends a task whose process is dead or whose job is over."""
ASK_EVERY_S = 0.01
_DRIVER = "driver"
"""The executor id of a `local` master, whose executor is the driver itself."""


def replace_silent(spark: SparkSession, group: str, slots: Collection[int]) -> list[str]:
    """Replace the executors that still run tasks of these slots, although the group's Spark job is over.

    Waits up to `GRACE_S`. Returns the executors' ids.
    """
    try:
        tasks = _tasks(spark, group, slots)
        end_s = time.monotonic() + GRACE_S
        while _running(spark, tasks) and time.monotonic() < end_s:
            time.sleep(ASK_EVERY_S)
        silent = sorted(set(_running(spark, tasks).values()) - {_DRIVER})
    except Exception:  # the session was stopped, or another Spark version lacks these internals
        logger.debug("silent slots %s of %s", slots, group, exc_info=True)
        return []
    for executor in silent:
        logger.warning("executor %s does not answer: Spark is told to replace it", executor)
        _replace(spark, executor)
    return silent


def _tasks(spark: SparkSession, group: str, slots: Collection[int]) -> dict[int, str]:
    """Return the executor of each task that runs one of these slots."""
    tracker, store = spark.sparkContext.statusTracker(), _context(spark).statusStore()
    found = {}
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            listed = store.taskList(int(stage), 0, 1_000_000)
            for each in map(listed.apply, range(listed.size())):
                if each.index() in slots:
                    found[each.taskId()] = str(each.executorId())
    return found


def _running(spark: SparkSession, tasks: dict[int, str]) -> dict[int, str]:
    """Return those tasks that still run, according to Spark."""
    executors = _context(spark).taskScheduler().taskIdToExecutorId()
    return {task: executor for task, executor in tasks.items() if executors.contains(task)}


def _replace(spark: SparkSession, executor: str) -> None:
    """Have Spark stop using an executor at once; Spark then asks the cluster manager, which may not respond."""
    done = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):
            _context(spark).killAndReplaceExecutor(executor)
        done.set()

    threading.Thread(target=ask, name="spark-replace-executor", daemon=True).start()
    done.wait(GRACE_S)


def _context(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()
