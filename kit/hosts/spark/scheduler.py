"""Calls of Spark's scheduler for which PySpark has no function: the one module that calls Spark's Java and Scala API.

`PUBLIC` names the methods that are public in Spark. `INTERNAL` names those that are private to Spark: they report how
many tasks can run at once and which executor runs a task, and replace an executor. Another version of Spark may lack
them; then the kit waits for Spark's own checks and heartbeats. `docs/decisions/34-no-counters-in-sparks-ui.md` says
what was tried in their place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession

PUBLIC = frozenset({"cancelJob", "isStopped"})
INTERNAL = frozenset(
    {"killAndReplaceExecutor", "maxNumConcurrentTasks", "resourceProfileManager", "statusStore", "taskScheduler"}
)
"""The methods of `SparkContext` in Scala that this module calls."""


def is_stopped(spark: SparkSession) -> bool:
    """Return True if the session was stopped."""
    try:
        return bool(_context(spark).isStopped())
    except Exception:  # PySpark has released Java, or Java's process has ended
        return True


def cancel_job(spark: SparkSession, number: int) -> None:
    """Have Spark end one of its jobs."""
    _context(spark).cancelJob(number)


def concurrent_tasks(spark: SparkSession) -> int | None:
    """Return the number of tasks that Spark can run at once; None if Spark does not report it."""
    try:
        context = _context(spark)
        return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # the session was stopped, or this is not part of the Spark version's interface
        return None


def executors_of_tasks(spark: SparkSession, group: str, places: Collection[int]) -> dict[int, str]:
    """Return the executor of each task of the group's Spark jobs that has one of these places in its stage."""
    tracker, store = spark.sparkContext.statusTracker(), _context(spark).statusStore()
    found = {}
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            listed = store.taskList(int(stage), 0, 1_000_000)
            for each in map(listed.apply, range(listed.size())):
                if each.index() in places:
                    found[each.taskId()] = str(each.executorId())
    return found


def running_tasks(spark: SparkSession, tasks: dict[int, str]) -> dict[int, str]:
    """Return those tasks that still run, according to Spark."""
    executors = _context(spark).taskScheduler().taskIdToExecutorId()
    return {task: executor for task, executor in tasks.items() if executors.contains(task)}


def replace_executor(spark: SparkSession, executor: str) -> None:
    """Have Spark stop using an executor and ask the cluster manager for another. May wait for the cluster manager."""
    _context(spark).killAndReplaceExecutor(executor)


def _context(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc()
