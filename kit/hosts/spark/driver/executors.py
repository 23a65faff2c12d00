"""Executors on which a slot has gone silent, and which Spark is to use no more.

A frozen process, or one behind a cut cable, keeps its connections. Spark counts its cores, and gives new tasks to those
that are free, for as long as its own heartbeats may be late, two minutes by default. The job's are late much sooner. So
when a slot was silent, and its task does not end within `GRACE_S` although its Spark job is over, its executor is given
up: from that moment Spark neither counts it nor gives it any task, and where there is a cluster manager that starts
executors (YARN, Kubernetes, a standalone cluster once it has ended the old one) another takes its place.

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
"""A healthy executor ends a task in this time whose process is dead or whose job is over."""
ASK_EVERY_S = 0.01
_DRIVER = "driver"
"""The executor of a `local` master is the driver itself."""


def replace_silent(spark: SparkSession, group: str, slots: Collection[int]) -> list[str]:
    """Give up the executors that still run the tasks of these slots, of the Spark job of this group, which is over.

    Waits up to `GRACE_S`. Returns the executors' ids.
    """
    try:
        tasks = _tasks(spark, group, slots)
        end_s = time.monotonic() + GRACE_S
        while _running(spark, tasks) and time.monotonic() < end_s:
            time.sleep(ASK_EVERY_S)
        silent = sorted(set(_running(spark, tasks).values()) - {_DRIVER})
    except Exception:  # the session was stopped, or is of another Spark: these doors are not public
        logger.debug("silent slots %s of %s", slots, group, exc_info=True)
        return []
    for executor in silent:
        logger.warning("executor %s does not answer: Spark is told to replace it", executor)
        _replace(spark, executor)
    return silent


def _tasks(spark: SparkSession, group: str, slots: Collection[int]) -> dict[int, str]:
    """The executor of each task that is such a slot."""
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
    """Those that run, as far as Spark knows."""
    executors = _context(spark).taskScheduler().taskIdToExecutorId()
    return {task: executor for task, executor in tasks.items() if executors.contains(task)}


def _replace(spark: SparkSession, executor: str) -> None:
    """Spark gives it nothing more as soon as it is told, and then asks its cluster manager, which may be away."""
    done = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):
            _context(spark).killAndReplaceExecutor(executor)
        done.set()

    threading.Thread(target=ask, name="spark-replace-executor", daemon=True).start()
    done.wait(GRACE_S)


def _context(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()
