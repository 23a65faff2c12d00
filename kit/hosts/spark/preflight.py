"""Checks, before a job is submitted, that a Spark session can run it: a hopeless job is never retried."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from kit.hosts.spark.console import waiting
from kit.hosts.spark.driver.gang import missing_slots
from kit.hosts.spark.driver.slot_watch import SlotWatch
from kit.hosts.spark.driver.warm_slots import WarmSlots
from kit.hosts.spark.scheduler import concurrent_tasks, is_stopped
from kit.hosts.spark.session import is_local, is_open
from kit.hosts.spark.started_jobs import StartedJob, started
from kit.machines.job.errors import JobFailedError
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.slot_sharing import TaskSlots, as_a_whole, in_gangs
from kit.stream.operators.sources.source_spec import SourceSpec

ASK_EVERY_S = 0.2
logger = logging.getLogger("kit.hosts.spark")


def check_session(spark: SparkSession, job: str, slots: int, wait_s: float = 0.0, *, beside: int = 0) -> None:
    """Raise JobFailedError if the session is of the wrong kind, was stopped, or has fewer than `slots` slots.

    Warns, once for each session, if other users can read its data.

    `beside` cores must be left for Spark's own queries (`cores_beside`). A cluster's executors may still be starting,
    above all when a driver takes over: wait up to `wait_s` for them.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise JobFailedError(
            f"job {job} cannot run on a Spark Connect session, which cannot start barrier tasks: give SparkJob a "
            f"session with its own driver, as create_session(slots={slots}) makes, or none"
        )
    if is_stopped(spark):
        raise JobFailedError(
            f"job {job} cannot run: its Spark session was stopped; make another with create_session(slots={slots}), "
            "or give SparkJob none"
        )
    _warn_if_open(spark)
    if not is_local(spark.sparkContext.master):
        _wait_for_executors(spark, job, slots, wait_s)
    if missing := missing_slots(spark, slots, beside):
        raise JobFailedError(f"job {job} cannot run: {missing}")


def least_slots(job: JobGraph) -> int:
    """Return the least number of slots on which the job runs: all that it asks for, unless it accepts fewer."""
    wanted, rescaling = slots_wanted(job), job.settings.rescaling
    return min(wanted, rescaling.minimum_parallelism) if rescaling.reactive else wanted


def slots_wanted(job: JobGraph) -> int:
    """Return the number of slots that the job asks for at first."""
    return len(TaskSlots(job, job.parallelism))


def placed(job: JobGraph, spark: SparkSession) -> tuple[JobGraph, str]:
    """Return the job with slots for each region, and "", or with shared slots, and why.

    A local session cannot grow: if it has too few slots for that, the regions share them and restart together.
    """
    apart, shared = in_gangs(job), as_a_whole(job)
    there, wanted = concurrent_tasks(spark), slots_wanted(apart)
    has_room = there is None or there >= wanted + cores_beside(job)
    if has_room or slots_wanted(shared) == wanted or not is_local(spark.sparkContext.master):
        return apart, ""
    return shared, (
        f"job {job.name}: its parts that no exchange connects share slots, so a failure of one restarts all: it needs "
        f"{wanted} slots to keep them apart, and Spark has {there}"
    )


def cores_beside(job: JobGraph) -> int:
    """Return the number of cores that Spark needs beside the slots: 1 if the job reads a streaming DataFrame.

    Without that core, the query would wait for the slots to end, and the job for its rows.
    """
    from kit.hosts.spark.frames.streamed_source import StreamedSource

    specs = [operator.spec for operator in job.operators]
    return int(any(isinstance(spec, SourceSpec) and isinstance(spec.source, StreamedSource) for spec in specs))


def check_rescale(spark: SparkSession | None, job: JobGraph, wanted: Mapping[str, int]) -> None:
    """Raise ValueError if the session has too few slots and the job does not accept fewer."""
    if spark is None or job.settings.rescaling.reactive:
        return
    if missing := missing_slots(spark, len(TaskSlots(job, wanted)), cores_beside(job)):
        raise ValueError(f"job {job.name} cannot be rescaled: {missing}")


def watch_slots(watch: SlotWatch, spark: SparkSession, job: StartedJob) -> None:
    """Start counting slots for a job. A job that already runs on some slots does not wait until others are warm."""
    watch.count, reactive = partial(slots_for, spark, job), job.job.settings.rescaling.reactive
    on_cluster = not is_local(spark.sparkContext.master)
    if reactive or on_cluster:
        watch.count = WarmSlots(spark, watch.count, known=None if reactive else slots_wanted(job.job))
    watch.always = reactive or on_cluster


def slots_for(spark: SparkSession | None, job: StartedJob) -> int | None:
    """Return the number of slots that other running jobs leave for a job; None if Spark does not report it."""
    there = None if spark is None else concurrent_tasks(spark)
    held = sum(other.look.summary()["slots"] for other in started() if other.spark is spark and other is not job)
    return None if there is None else max(0, there - held)


_warned: set[str] = set()
"""The applications whose user has been warned."""


def _warn_if_open(spark: SparkSession) -> None:
    application = spark.sparkContext.applicationId
    if application in _warned or not is_open(spark):
        return
    _warned.add(application)
    local = is_local(spark.sparkContext.master)
    logger.warning(
        "this Spark session does not authenticate: whoever can connect to its ports can read the rows and functions of "
        "its jobs. %s",
        _CLOSE_LOCAL if local else _CLOSE_CLUSTER,
    )


_CLOSE_LOCAL = (
    "Use create_session(), or add these lines where the session is built:\n"
    '    .config("spark.authenticate", "true")\n'
    '    .config("spark.local.dir", "...")  # a directory of your own with mode 0700, for the rows that Spark writes'
)
_CLOSE_CLUSTER = (
    "Add these lines to the session, and to spark-defaults.conf of a standalone cluster's master and workers:\n"
    "    spark.authenticate true\n"
    "    spark.authenticate.secret ...  # standalone only: YARN and Kubernetes make one up for each application\n"
    "    spark.network.crypto.enabled true\n"
    "    spark.io.encryption.enabled true"
)


def why_stopped(spark: SparkSession) -> str:
    """Return the error of a job whose session was stopped while it ran; "" if the session can be used."""
    if not is_stopped(spark):
        return ""
    return (
        "its Spark session was stopped while the job ran, so no workers are left. Make another session with "
        "create_session() and start the job again, with restore_path=... from its latest checkpoint or savepoint. "
        "Stop or cancel jobs before spark.stop()"
    )


def _wait_for_executors(spark: SparkSession, job: str, slots: int, wait_s: float) -> None:
    end_s = time.monotonic() + wait_s
    with waiting(lambda: (f"job {job}: waiting for {slots} slots", f"{concurrent_tasks(spark)} there")):
        while missing_slots(spark, slots) and time.monotonic() < end_s:
            time.sleep(ASK_EVERY_S)


def waits_for(spark: SparkSession | None, slots: int, others: Sequence[StartedJob]) -> str:
    """Return what a job that needs `slots` slots waits for while the others run; "" if there are enough for all."""
    there = None if spark is None else concurrent_tasks(spark)
    holders = {job.job.name: job.look.summary()["slots"] for job in others if job.spark is spark}
    if there is None or sum(holders.values()) + slots <= there:
        return ""
    held = ", ".join(f"job {name} holds {count}" for name, count in holders.items())
    return f"it waits for {slots} of Spark's {there} slots, of which {held}"
