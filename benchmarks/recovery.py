"""How long a job on Spark stands still: a killed worker, a frozen one, a lost executor, another parallelism.

A source of two splits counts by key without end, a checkpoint a second, at parallelism 2. Again and again a worker is
killed, or frozen, or the parallelism changes; what is measured is from there until every source has read rows again, by
the driver's clock. In between lie, from the trace,

    noticed     the driver knows (a closed connection, a missed heartbeat; for a rescale, the checkpoint is complete)
    left        the other workers have left
    joined      the new workers have joined, and know each other
    running     all tasks have their state again
    rows        all sources have read rows

`executor` kills an executor of a `local-cluster` of three with one slot each: the job, which is reactive, goes on with
the slots that are left, and is wide again before the next one is killed.

`python -m benchmarks.recovery kill freeze rescale executor` does only these; `KIT_RECOVERY_N` says how often.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from kit import (
    CheckpointConfig,
    FixedDelay,
    GeneratorSource,
    RescaleConfig,
    SparkJob,
    StreamEnvironment,
    create_session,
    sum_,
)
from kit.connectors import CollectSink
from kit.spark.driver import JobDriver

PARALLELISM = 2
EXECUTORS = 3
KEYS = 100_000
WAIT_S = 60.0
PHASES = ("noticed", "left", "joined", "running", "rows")
Row = dict[str, float]


def environment(directory: str, parallelism: int = PARALLELISM) -> StreamEnvironment:
    """A keyed sum without end."""
    env = StreamEnvironment(
        "recovery",
        parallelism=parallelism,
        max_parallelism=16,
        checkpoint=CheckpointConfig(interval_ms=1_000, directory=directory, tolerable_failures=1_000),
        restart=FixedDelay(1_000_000, 0),
        rescaling=RescaleConfig(reactive=True, cooldown_ms=0) if parallelism == EXECUTORS else None,
    )
    source = GeneratorSource(10**12, key_count=KEYS, splits=8, rows_per_second=1_000_000)
    sums = env.from_source(source, uid="rows").key_by("key").aggregate(total=sum_("value"), emit="final").uid("sums")
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
    """Whether every slot of this epoch has read rows."""
    driver = driver_of(job)
    rows = [count for (number, _), count in list(driver.rows_read.items()) if number == epoch]
    return driver.master.epoch == epoch and bool(rows) and len(rows) == len(job.workers()) and all(rows)


def measure(job: SparkJob, disturb: Callable[[], None], begins: str) -> Row:
    """Do it, and see how long it takes until the next epoch reads; ms from the record `begins` or the deed."""
    driver = driver_of(job)
    epoch = driver.master.epoch
    checkpoints = len(job.checkpoints().query("status == 'COMPLETED'"))
    until(lambda: len(job.checkpoints().query("status == 'COMPLETED'")) > checkpoints, "a checkpoint")
    seen = len(driver.trace)
    done_ms = driver._now()
    disturb()
    until(lambda: driver.master.epoch > epoch and reads(job, driver.master.epoch), f"epoch {epoch + 1} reads")
    rows_ms = driver._now()
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
    """When the slots of the present epoch knew each other."""
    epoch = driver_of(job)._epoch
    return default if epoch is None else max(default, epoch.connected_ms)


def kill(job: SparkJob) -> Callable[[], None]:
    """SIGKILL of a worker."""
    return lambda: os.kill(job.workers()[1], signal.SIGKILL)


def freeze(job: SparkJob) -> Callable[[], None]:
    """SIGSTOP of a worker."""
    return lambda: os.kill(job.workers()[1], signal.SIGSTOP)


def rescale(job: SparkJob) -> Callable[[], None]:
    """Three subtasks instead of two, or two instead of three."""
    wide = len(job.workers()) == PARALLELISM
    return lambda: void(job.rescale(PARALLELISM + 1 if wide else PARALLELISM, wait=False))


def executor(job: SparkJob) -> Callable[[], None]:
    """SIGKILL of an executor, once all are there."""
    until(lambda: len(job.workers()) == EXECUTORS and reads(job, driver_of(job).master.epoch), "all executors work")
    return lambda: os.kill(own_executors()[-1], signal.SIGKILL)


def own_executors() -> list[int]:
    """The processes of this process's executors."""
    told = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in told.splitlines()[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def is_own(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and is_own(parents[pid]))

    return [int(pid) for pid, _, what in rows if "CoarseGrainedExecutorBackend" in what and is_own(int(pid))]


def void(_: object) -> None:
    """Nothing more."""


CASES: dict[str, tuple[Callable[[SparkJob], Callable[[], None]], str, int]] = {
    "kill": (kill, "", 20),
    "freeze": (freeze, "", 5),
    "rescale": (rescale, "JobRescaled", 20),
    "executor": (executor, "", 3),
}
"""By name: what is done, the record from which is counted ("" for the deed itself), how often by default."""


def report(name: str, rows: Sequence[Row]) -> None:
    """One line a case: medians of the steps, and how the whole is distributed."""
    totals = sorted(row["total"] for row in rows)
    medians = "  ".join(f"{each} {statistics.median(row[each] for row in rows):5.0f}" for each in PHASES)
    high = totals[min(len(totals) - 1, int(len(totals) * 0.9))]
    median = statistics.median(totals)
    spread = f"min {totals[0]:.0f}  median {median:.0f}  p90 {high:.0f}  max {totals[-1]:.0f}"
    print(f"{name:8} n={len(rows):3}  {spread}   | medians: {medians}", flush=True)


def main() -> int:
    """Print the table, in ms."""
    wanted = [each for each in sys.argv[1:] if each in CASES] or [*CASES]
    run([each for each in wanted if each != "executor"], PARALLELISM, None)
    run([each for each in wanted if each == "executor"], EXECUTORS, f"local-cluster[{EXECUTORS},1,1024]")
    return 0


def run(names: Sequence[str], parallelism: int, master: str | None) -> None:
    """Measure these cases in a session of their own."""
    if not names:
        return
    spark = create_session("recovery", slots=PARALLELISM + 1, master=master)
    print(f"{spark.sparkContext.master}, parallelism {parallelism}, {KEYS:,} keys; ms", flush=True)
    for name in names:
        disturb, begins, count = CASES[name]
        count = int(os.environ.get("KIT_RECOVERY_N", count))
        with tempfile.TemporaryDirectory() as directory, SparkJob(environment(directory, parallelism), spark) as job:
            job.start()
            job.wait_until_running()
            until(lambda job=job: reads(job, 1), "the first epoch reads")  # type: ignore[misc]
            measure(job, disturb(job), begins)  # the first one warms up
            report(name, [measure(job, disturb(job), begins) for _ in range(count)])
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
