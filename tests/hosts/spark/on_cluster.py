"""Jobs on a standalone cluster, in a process that has the session: one fault after another, the output compared.

    python -m tests.hosts.spark.on_cluster DIRECTORY [FAULT ...]

Prints a line of JSON for each fault: what went wrong, if anything, how long the job stood still, and how many epochs it
took. The process is one of its own since the tests' has a session on this machine.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from kit.hosts.spark import DriverSettings, SparkJob, WireSettings, create_session
from tests.hosts.spark.cluster import StandaloneCluster, descendants, executor_of, send, session_settings
from tests.hosts.spark.jobs import await_checkpoint, check_output, generator, totals_job, until

Fault = Callable[[StandaloneCluster, SparkSession, SparkJob], None]


def none(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """No fault: the job runs on the cluster's executors."""
    (worker, *_) = job.look.workers().values()
    assert executor_of(worker) in descendants(cluster.workers[0].pid) + descendants(cluster.workers[1].pid)


def worker_killed(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """SIGKILL of a Python worker."""
    job.faults.kill(0)


def executor_killed(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """SIGKILL of an executor, a JVM, whose Python workers go with it."""
    os.kill(executor_of(job.look.workers()[0]), signal.SIGKILL)


def all_executors_killed(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """SIGKILL of all executors at once: no slot is left until Spark has started others."""
    for executor in {executor_of(worker) for worker in job.look.workers().values()} | set(executors(cluster)):
        os.kill(executor, signal.SIGKILL)


def executors(cluster: StandaloneCluster) -> list[int]:
    """Return the process ids of all executors."""
    below = [pid for worker in cluster.workers for pid in descendants(worker.pid)]
    return [pid for pid in below if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def executor_frozen(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """SIGSTOP of an executor and all that it has started; it continues when the job is done."""
    executor = executor_of(job.look.workers()[0])
    for pid in (executor, *descendants(executor)):
        send(pid, signal.SIGSTOP)


def spark_worker_killed(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """SIGKILL of Spark's own worker daemon on a machine, and of the executor that it has started."""
    executor = executor_of(job.look.workers()[0])
    (daemon,) = [each for each in cluster.workers if executor in descendants(each.pid)]
    daemon.kill()
    daemon.wait()
    send(executor, signal.SIGKILL)
    cluster.workers[cluster.workers.index(daemon)] = cluster.start_worker(9)


def master_restarted(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """Spark's master is killed and started again, and a worker killed while it is away: executors need no master."""
    cluster.master.kill()
    cluster.master.wait()
    job.faults.kill(1)
    until(lambda: len(job.look.stages) == 2 and len(job.look.workers()) == 2, job)
    cluster.start_master()


def stage_cancelled(cluster: StandaloneCluster, spark: SparkSession, job: SparkJob) -> None:
    """The stage is cancelled, as from the page of Spark that shows it."""
    tracker = spark.sparkContext.statusTracker()
    (number,) = tracker.getJobIdsForGroup(job.spark_group)
    (stage,) = tracker.getJobInfo(number).stageIds
    spark.sparkContext._jsc.sc().cancelStage(stage)


FAULTS: dict[str, Fault] = {
    each.__name__: each
    for each in (
        none,
        worker_killed,
        stage_cancelled,
        executor_killed,
        all_executors_killed,
        executor_frozen,
        master_restarted,
        spark_worker_killed,
    )
}
HARMLESS = {"none"}
"""After which the job is still in its first epoch."""
WIRE = WireSettings(heartbeat_interval_ms=200, heartbeat_timeout_ms=3_000)


def suffer(directory: Path, fault: str, cluster: StandaloneCluster, spark: SparkSession) -> dict[str, object]:
    """Run a job, inject the fault, and compare the output."""
    env = totals_job(directory, generator(rows_per_second=30_000))
    settings = DriverSettings(wire=WIRE)
    with SparkJob(env, spark, settings=settings) as job:
        job.start()
        await_checkpoint(job, 2)
        began_s = time.monotonic()
        FAULTS[fault](cluster, spark, job)
        if fault not in HARMLESS:
            job.wait_until_running(restarts=1, timeout_s=120)
        back_s = time.monotonic() - began_s
        assert job.wait(120) == "FINISHED"
        errors = [record.data["error"] for record in job.trace if record.kind == "SlotLost"]
    check_output(directory)
    return {"back_s": round(back_s, 2), "epochs": len(job.look.stages), "lost": errors}


def main() -> int:
    """Start the cluster, run a job for each fault."""
    logging.basicConfig(level=logging.WARNING)
    directory, names = Path(sys.argv[1]), sys.argv[2:] or list(FAULTS)
    with StandaloneCluster(directory / "cluster") as cluster:
        began_s = time.monotonic()
        spark = create_session("cluster", master=cluster.url, config=session_settings())
        sys.stderr.write(f"session after {time.monotonic() - began_s:.1f} s\n")
        for name in names:
            told: dict[str, object] = {"fault": name, "error": ""}
            try:
                told |= suffer(directory / name, name, cluster, spark)
            except Exception:
                told["error"] = traceback.format_exc()
            finally:
                for worker in cluster.workers:
                    for pid in descendants(worker.pid):
                        send(pid, signal.SIGCONT)
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
