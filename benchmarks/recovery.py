"""The recovery time of a job on Spark after a killed worker, a frozen one, a lost executor, or a change of parallelism.

An endless job counts the rows of two splits by key, at parallelism 2, with a checkpoint a second. Again and again a
worker is killed or frozen, or the parallelism changes. The time from there until every source has read rows again is
measured by the driver's clock. The trace has the steps between:

    noticed     the driver knows (a closed connection, a missed heartbeat; for a rescale, the checkpoint is complete)
    left        the other workers have left
    joined      the new workers have joined, and know each other
    running     all tasks have their state again
    rows        all sources have read rows

There are three executors with one slot each, of a `local-cluster` or of a standalone cluster of a master and three
workers. An executor is killed or frozen with all processes that it has started. The job has two of the slots, and one
is spare. In `executor-left` the job is reactive, and continues with the two of three slots that are left. The next
executor is disturbed only after a warm one has replaced the last. `frozen-waits` has no spare slot, so it measures
mostly how long Spark takes to end the frozen executor (ten seconds) and to start another.

`kill-on-disk` has state on disk, 4 million keys of some 100 bytes with 64 MB of memory in each slot, checkpoints of
what changed, and local copies of them.

`python -m benchmarks.recovery -- kill freeze` runs only these cases; `KIT_RECOVERY_N` is the number of repetitions.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks._options import options
from kit import (
    CheckpointConfig,
    FixedDelay,
    GeneratorSource,
    RescaleConfig,
    SparkJob,
    StreamEnvironment,
    create_session,
    max_,
    sum_,
)
from kit.hosts.spark.driver.driver import JobDriver
from kit.hosts.spark.driver.warm_slots import WarmSlots
from kit.stream.connectors import CollectSink
from tests.hosts.spark.cluster import StandaloneCluster, descendants, executor_of, send, session_settings

PARALLELISM = 2
EXECUTORS = 3
KEYS = 100_000
KEYS_ON_DISK, MEMORY_MB = 4_000_000, 64
WAIT_S = 60.0
PHASES = ("noticed", "left", "joined", "running", "rows")
Row = dict[str, float]


def environment(
    directory: str, parallelism: int = PARALLELISM, reactive: bool = False, on_disk: bool = False
) -> StreamEnvironment:
    """A keyed sum without end."""
    wide: dict[str, Any] = {f"max_{number}": max_("value") for number in range(10)} if on_disk else {}
    env = StreamEnvironment(
        "recovery",
        parallelism=parallelism,
        max_parallelism=16,
        checkpoint=CheckpointConfig(
            interval_ms=1_000,
            directory=directory,
            tolerable_failures=1_000,
            incremental=on_disk,
            local_recovery=on_disk,
        ),
        state_backend="disk" if on_disk else "memory",
        state_memory_mb=MEMORY_MB,
        restart=FixedDelay(1_000_000, 0),
        rescaling=RescaleConfig(reactive=True, cooldown_ms=0) if reactive else None,
    )
    key_count, rows_per_second = (KEYS_ON_DISK, 300_000) if on_disk else (KEYS, 1_000_000)
    source = GeneratorSource(10**12, key_count=key_count, splits=8, rows_per_second=rows_per_second)
    keyed = env.from_source(source, uid="rows").key_by("key")
    sums = keyed.aggregate(total=sum_("value"), emit="final", **wide).uid("sums")
    sums.sink_to(CollectSink("sums"), uid="out")
    return env


def driver_of(job: SparkJob) -> JobDriver:
    """The driver, whose clock and trace all figures are of."""
    return job._driver


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait; AssertionError when it takes too long."""
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s, f"not within {WAIT_S} s: {what}"
        time.sleep(0.001)


def reads(job: SparkJob, epoch: int) -> bool:
    """Return True if every slot of this epoch has read rows."""
    driver = driver_of(job)
    rows = [count for (number, *_), count in list(driver.slots.rows_read.items()) if number == epoch]
    return driver.master.epoch == epoch and bool(rows) and len(rows) == len(job.look.workers()) and all(rows)


def measure(job: SparkJob, disturb: Callable[[], None], begins: str) -> Row:
    """Inject the fault; return the ms until the next epoch reads rows, from the record `begins` or from the fault."""
    driver = driver_of(job)
    epoch = driver.master.epoch
    checkpoints = len(job.checkpoints().query("status == 'COMPLETED'"))
    until(lambda: len(job.checkpoints().query("status == 'COMPLETED'")) > checkpoints, "a checkpoint")
    seen = len(driver.trace)
    done_ms = driver.now()
    disturb()
    until(lambda: driver.master.epoch > epoch and reads(job, driver.master.epoch), f"epoch {epoch + 1} reads")
    rows_ms = driver.now()
    with driver.lock:
        records = driver.trace.since(seen)
    at = {kind: next((r.at_ms for r in records if r.kind == kind), rows_ms) for kind in KINDS}
    begin_ms = at[begins] if begins else done_ms
    ends = (at["StopEpoch"], at["EpochEnded"], at["DeployTask"], at["AllTasksRunning"], rows_ms)
    joined_ms = joined_at(job, ends[1])
    marks = [begin_ms, ends[0], ends[1], joined_ms, ends[3], rows_ms]
    steps: Row = {name: max(0, after - before) for name, before, after in zip(PHASES, marks, marks[1:], strict=False)}
    return steps | {"total": rows_ms - begin_ms}


KINDS = ("StopEpoch", "EpochEnded", "DeployTask", "AllTasksRunning", "JobRescaled")


def joined_at(job: SparkJob, default: int) -> int:
    """Return the time at which the slots of the present epoch were connected."""
    return max(default, driver_of(job).slots.connected_ms)


def kill(job: SparkJob) -> Callable[[], None]:
    """SIGKILL of a worker."""
    return lambda: os.kill(job.look.workers()[1], signal.SIGKILL)


def freeze(job: SparkJob) -> Callable[[], None]:
    """SIGSTOP of a worker."""
    return lambda: os.kill(job.look.workers()[1], signal.SIGSTOP)


def rescale(job: SparkJob) -> Callable[[], None]:
    """Three subtasks instead of two, or two instead of three."""
    wide = len(job.look.workers()) == PARALLELISM
    return lambda: void(job.rescale(PARALLELISM + 1 if wide else PARALLELISM, wait=False))


def executor(job: SparkJob) -> Callable[[], None]:
    """SIGKILL of the executor of a slot, once all are there and warm."""
    await_executors(job)
    found = executor_of(job.look.workers()[1])
    return lambda: os.kill(found, signal.SIGKILL)


def executor_frozen(job: SparkJob) -> Callable[[], None]:
    """SIGSTOP of the executor of a slot and of all that it has started."""
    end_frozen()
    await_executors(job)
    found = executor_of(job.look.workers()[1])
    FROZEN.extend((found, *descendants(found)))
    return lambda: signal_all(FROZEN, signal.SIGSTOP)


def executor_frozen_alone(job: SparkJob) -> Callable[[], None]:
    """Freeze an executor, and let Spark end it."""
    FROZEN.clear()
    return executor_frozen(job)


FROZEN: list[int] = []
"""Processes that were frozen and have been replaced."""


def end_frozen() -> None:
    """End the frozen processes, so that another executor takes their place."""
    signal_all(FROZEN, signal.SIGKILL)
    FROZEN.clear()


def signal_all(processes: Sequence[int], what: signal.Signals) -> None:
    """A signal to each."""
    for process in processes:
        send(process, what)


def await_executors(job: SparkJob) -> None:
    """Wait until all executors are there and warm, and the job runs as wide as it wants."""
    driver = driver_of(job)
    slots, wide = driver.slot_watch.count, max(vertex.parallelism for vertex in driver.job.vertices)
    assert isinstance(slots, WarmSlots)
    assert job.spark is not None
    wanted = int(str(job.spark.conf.get("spark.cores.max", str(EXECUTORS))))
    until(lambda: slots() == slots.warm == wanted, f"{wanted} executors are there")
    until(lambda: len(job.look.workers()) == wide and reads(job, driver.master.epoch), "the job runs")


def entries_on_disk(job: SparkJob) -> int:
    """Return the number of entries that are on disk."""
    metrics = job.metrics()
    return int(metrics[metrics["metric"] == "state_entries_on_disk"]["value"].sum())


def void(_: object) -> None:
    """Do nothing."""


Disturb = Callable[[SparkJob], Callable[[], None]]


@dataclass(frozen=True)
class Case:
    """A fault, its cluster, and the default number of repetitions.

    Times count from the record `begins`, or from the fault itself if it is "".
    """

    disturb: Disturb
    count: int
    cluster: str = "local"
    executors: int = EXECUTORS
    reactive: bool = False
    begins: str = ""
    on_disk: bool = False

    @property
    def parallelism(self) -> int:
        """Return the job's parallelism."""
        return EXECUTORS if self.reactive else PARALLELISM


CASES: dict[str, Case] = {
    "kill": Case(kill, 20),
    "kill-on-disk": Case(kill, 10, on_disk=True),
    "freeze": Case(freeze, 10),
    "rescale": Case(rescale, 20, begins="JobRescaled"),
    "executor-left": Case(executor, 20, "local-cluster", reactive=True),
    "executor-spare": Case(executor, 20, "local-cluster"),
    "executor-standalone": Case(executor, 20, "standalone"),
    "frozen-local-cluster": Case(executor_frozen, 5, "local-cluster"),
    "frozen-standalone": Case(executor_frozen, 5, "standalone"),
    "frozen-waits": Case(executor_frozen_alone, 3, "standalone", executors=PARALLELISM),
}

SMALLEST = ["kill", "rescale"]
"""The cases of the smallest run: on one session; `tests/hosts/spark/on_cluster.py` kills and freezes executors."""


def report(name: str, rows: Sequence[Row]) -> None:
    """One line a case: medians of the steps, and how the whole is distributed."""
    totals = sorted(row["total"] for row in rows)
    medians = "  ".join(f"{each} {statistics.median(row[each] for row in rows):5.0f}" for each in PHASES)
    high = totals[min(len(totals) - 1, int(len(totals) * 0.9))]
    median = statistics.median(totals)
    spread = f"min {totals[0]:.0f}  median {median:.0f}  p90 {high:.0f}  max {totals[-1]:.0f}"
    print(f"{name:20} n={len(rows):3}  {spread}   | medians: {medians}", flush=True)


def main() -> int:
    """Print the table, in ms."""
    parser = options(__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    given = parser.parse_args()
    wanted = given.cases or (SMALLEST if given.smallest else [*CASES])
    if unknown := [each for each in wanted if each not in CASES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(CASES)}")
    for cluster, executors in dict.fromkeys((CASES[name].cluster, CASES[name].executors) for name in wanted):
        with session(cluster, executors) as spark:
            for name in wanted:
                if (CASES[name].cluster, CASES[name].executors) == (cluster, executors):
                    run(name, spark, 1 if given.smallest else int(os.environ.get("KIT_RECOVERY_N", CASES[name].count)))
    return 0


@contextmanager
def session(cluster: str, executors: int) -> Iterator[SparkSession]:
    """Create a session on this machine, or on a cluster with this number of executors of one slot."""
    settings = session_settings() | {"spark.executor.cores": "1", "spark.cores.max": str(executors)}
    with tempfile.TemporaryDirectory() as directory:
        if cluster == "standalone":
            with StandaloneCluster(Path(directory), executors, cores=1) as started:
                spark = create_session("recovery", master=started.url, config=settings)
                yield spark
                spark.stop()
        else:
            master = f"local-cluster[{executors},1,1024]" if cluster == "local-cluster" else None
            spark = create_session("recovery", slots=EXECUTORS, master=master)
            yield spark
            spark.stop()
    end_frozen()


def run(name: str, spark: SparkSession, count: int) -> None:
    """Measure a case `count` times."""
    case = CASES[name]
    keys = KEYS_ON_DISK if case.on_disk else KEYS
    print(f"{name}: {spark.sparkContext.master}, parallelism {case.parallelism}, {keys:,} keys; ms", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory, case.parallelism, case.reactive, case.on_disk)
        with SparkJob(env, spark) as job:
            job.start()
            job.wait_until_running()
            until(lambda: reads(job, driver_of(job).master.epoch), "the first epoch reads")
            if case.on_disk:
                until(lambda: entries_on_disk(job) > 0.7 * KEYS_ON_DISK, "most keys are on disk")
            rows = []
            for number in range(count + 1):
                row = measure(job, case.disturb(job), case.begins)
                rows += [row] if number else []  # the first one warms up
                print(f" {row['total']:.0f}", end="" if number < count else "\n", flush=True)
            report(name, rows)


if __name__ == "__main__":
    sys.exit(main())
