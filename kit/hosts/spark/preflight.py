"""Whether a Spark session can run a job, asked before the job is submitted: what cannot work is never retried."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from kit.hosts.files.job_failed import JobFailedError
from kit.hosts.spark.console import waiting
from kit.hosts.spark.driver.gang import concurrent_tasks, missing_slots
from kit.hosts.spark.driver.slot_watch import SlotWatch
from kit.hosts.spark.driver.warm_slots import WarmSlots
from kit.hosts.spark.session import is_local
from kit.hosts.spark.started_jobs import StartedJob, started
from kit.stream.graph.job_graph import JobGraph

ASK_EVERY_S = 0.2


def check_session(spark: SparkSession, job: str, slots: int, wait_s: float = 0.0) -> None:
    """Raise JobFailedError when the session is of the wrong kind, was stopped, or has fewer than `slots` slots.

    A cluster's executors may still be on their way, above all when a driver takes over: they are waited for `wait_s`.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise JobFailedError(
            f"job {job} cannot run on a Spark Connect session, which cannot start barrier tasks: give SparkJob a "
            f"session with its own driver, as create_session(slots={slots}) makes, or none"
        )
    if _is_stopped(spark):
        raise JobFailedError(
            f"job {job} cannot run: its Spark session was stopped; make another with create_session(slots={slots}), "
            "or give SparkJob none"
        )
    if not is_local(spark.sparkContext.master):
        _wait_for_executors(spark, job, slots, wait_s)
    if missing := missing_slots(spark, slots):
        raise JobFailedError(f"job {job} cannot run: {missing}")


def least_slots(job: JobGraph) -> int:
    """On so many slots a job runs: all that it wants, unless it is content with fewer."""
    widest, rescaling = max(vertex.parallelism for vertex in job.vertices), job.settings.rescaling
    return min(widest, rescaling.minimum_parallelism) if rescaling.reactive else widest


def check_rescale(spark: SparkSession | None, job: JobGraph, wanted: Mapping[str, int]) -> None:
    """Raise ValueError when the session has fewer slots than a job wants that does not make do with fewer."""
    missing = "" if spark is None or job.settings.rescaling.reactive else missing_slots(spark, max(wanted.values()))
    if missing:
        raise ValueError(f"job {job.name} cannot be rescaled: {missing}")


def watch_slots(watch: SlotWatch, spark: SparkSession, job: StartedJob) -> None:
    """Have slots counted for a job. One that is at work on some does not stand still until others are warm."""
    watch.count, reactive = partial(slots_for, spark, job), job.job.settings.rescaling.reactive
    on_cluster = not is_local(spark.sparkContext.master)
    if reactive or on_cluster:
        widest = max(vertex.parallelism for vertex in job.job.vertices)
        watch.count = WarmSlots(spark, watch.count, known=None if reactive else widest)
    watch.always = reactive or on_cluster


def slots_for(spark: SparkSession | None, job: StartedJob) -> int | None:
    """How many slots there are for a job beside the others that run; None when Spark does not say."""
    there = None if spark is None else concurrent_tasks(spark)
    held = sum(other.look.summary()["slots"] for other in started() if other.spark is spark and other is not job)
    return None if there is None else max(0, there - held)


def _is_stopped(spark: SparkSession) -> bool:
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except Exception:  # PySpark has let go of Java, or its process is gone
        return True


def _wait_for_executors(spark: SparkSession, job: str, slots: int, wait_s: float) -> None:
    end_s = time.monotonic() + wait_s
    with waiting(lambda: (f"job {job}: waiting for {slots} slots", f"{concurrent_tasks(spark)} there")):
        while missing_slots(spark, slots) and time.monotonic() < end_s:
            time.sleep(ASK_EVERY_S)


def waits_for(spark: SparkSession | None, slots: int, others: Sequence[StartedJob]) -> str:
    """What a job that needs `slots` slots waits for as long as these others run; "" when there is enough for all."""
    there = None if spark is None else concurrent_tasks(spark)
    holders = {job.job.name: job.look.summary()["slots"] for job in others if job.spark is spark}
    if there is None or sum(holders.values()) + slots <= there:
        return ""
    held = ", ".join(f"job {name} holds {count}" for name, count in holders.items())
    return f"it waits for {slots} of Spark's {there} slots, of which {held}"
