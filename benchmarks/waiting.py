"""Idle jobs: the cost of waiting for rows, and the duration of checkpoints meanwhile.

    python -m benchmarks waiting
    python -m benchmarks.waiting --seconds 30 --checkpoints 50 --on threads

Twelve files are tailed, at parallelism 1 to 4, first by slots that are threads of this process, then by Spark's
workers. Once every line is read, nothing more is written. `idle` is the processor time from then on, in percent of
one core, with a checkpoint every 10 s: of the driver, of all slots, and of Spark's JVM. Threads count as the driver's.
`checkpoints` are their durations while the readers wait. `in a read` are the durations while each read of a source
sleeps for 200 ms.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks._options import options
from kit import CheckpointConfig, CollectSink, SparkJob, StreamEnvironment, TailSource, create_session
from kit.stream.operators.sources.source import ReadResult, Source, Split
from tests.hosts.spark.cluster import descendants
from tests.hosts.spark.jobs import ThreadGang

FILES, LINES = 12, 100
READ_S = 0.2
IDLE_INTERVAL_MS = 10_000
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Start = Callable[[StreamEnvironment], SparkJob]


@dataclass(frozen=True, eq=False)
class Sleepy(Source):
    """Splits without an end, of which each read sleeps and then has a row."""

    @property
    def schema(self) -> pa.Schema:
        """One column."""
        return pa.schema([("n", pa.int64())])

    @property
    def endless(self) -> bool:
        """No split ends."""
        return True

    def enumerate_splits(self) -> list[Split]:
        """Twelve splits."""
        return [{"id": str(number)} for number in range(FILES)]

    def has_rows(self, split: Split, position: int) -> bool:
        """There is always another row."""
        return True

    def read_split(self, split: Split, position: int, max_rows: int) -> ReadResult:
        """Return one row, after a while."""
        time.sleep(READ_S)
        return ReadResult(pa.record_batch({"n": [position]}, schema=self.schema), position + 1, finished=False)


def environment(source: Source, parallelism: int, directory: str, interval_ms: int | None) -> StreamEnvironment:
    """The job: a source and a sink."""
    checkpoint = CheckpointConfig(interval_ms=interval_ms, directory=directory)
    env = StreamEnvironment("waiting", parallelism=parallelism, max_parallelism=16, checkpoint=checkpoint)
    env.from_source(source, uid="rows").sink_to(CollectSink("rows"), uid="out")
    return env


def files(directory: str) -> TailSource:
    """Twelve files, each with some lines."""
    paths = [Path(directory, f"{number}.log") for number in range(FILES)]
    for path in paths:
        path.write_text("".join(f"{number}\n" for number in range(LINES)))
    return TailSource(paths)


def processor_s(process: int) -> float:
    """Seconds of processor time that a process has used, without its children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def used_by(job: SparkJob) -> dict[str, float]:
    """Seconds of processor time so far: of this process, of the slots that are processes, of the JVM."""
    slots = [] if job.spark is None else sorted(set(job.look.workers().values()))
    machines = [] if job.spark is None else [p for p in descendants(os.getpid()) if "java" in name_of(p)]
    return {
        "driver": time.process_time(),
        "slots": sum(map(processor_s, slots)),
        "JVM": sum(map(processor_s, machines)),
    }


def name_of(process: int) -> str:
    """The name of a process's program, "" when it has ended."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def idle(job: SparkJob, seconds: float) -> dict[str, float]:
    """Percent of a core that the job uses while nothing comes."""
    before, begin_s = used_by(job), time.monotonic()
    time.sleep(seconds)
    after, took_s = used_by(job), time.monotonic() - begin_s
    return {who: 100 * (after[who] - before[who]) / took_s for who in after}


def durations(job: SparkJob, count: int) -> list[int]:
    """Durations of checkpoints that are taken one after the other, in ms."""
    done = len(job.checkpoints())
    for _ in range(count):
        job.trigger_checkpoint(wait=True)
    return [int(each) for each in job.checkpoints()["duration_ms"][done:]]


def measure(start: Start, parallelism: int, seconds: float, count: int) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as directory:
        source = files(directory)
        with start(environment(source, parallelism, f"{directory}/1", IDLE_INTERVAL_MS)) as job:
            job.wait_until_running()
            while len(job.output()) < FILES * LINES:
                job.trigger_checkpoint(wait=True)
            time.sleep(min(3.0, seconds))  # files without news are looked at more rarely after a while
            cost = idle(job, seconds)
            waiting = durations(job, count)
            job.cancel()
        with start(environment(Sleepy(), parallelism, f"{directory}/2", None)) as job:
            job.wait_until_running()
            reading = durations(job, count)
            job.cancel()
    percent = "  ".join(f"{who} {share:4.2f}" for who, share in cost.items())
    return f"idle {sum(cost.values()):4.2f} % ({percent})  checkpoints {spread(waiting)}  in a read {spread(reading)}"


def spread(values: list[int]) -> str:
    """Median, nine of ten, and the longest."""
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return f"median {statistics.median(ordered):3.0f}  p90 {high:3}  max {ordered[-1]:3} ms"


@contextmanager
def threads() -> Iterator[Start]:
    """Slots that are threads of this process: no JVM, and no process but this."""
    yield lambda env: SparkJob(env, launch=ThreadGang).start()


@contextmanager
def spark() -> Iterator[Start]:
    """Slots that are Spark's workers on this machine."""
    session = create_session("waiting", slots=4)
    yield lambda env: SparkJob(env, session).start()
    session.stop()


HOSTS = {"threads": threads, "spark": spark}


def main() -> int:
    """Print a line for each host and parallelism."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long nothing comes")
    parser.add_argument("--checkpoints", type=int, default=30)
    parser.add_argument("--on", choices=HOSTS, help="one of the hosts")
    given = parser.parse_args()
    seconds, count = (0.2, 2) if given.smallest else (given.seconds, given.checkpoints)
    hosts = ["threads"] if given.smallest else [given.on] if given.on else [*HOSTS]
    print(f"{FILES} files, idle for {seconds:g} s, {count} checkpoints; percent of one core, and ms", flush=True)
    for name in hosts:
        with HOSTS[name]() as start:
            for parallelism in (1,) if given.smallest else (1, 2, 3, 4):
                print(f"{name:8} parallelism {parallelism}  {measure(start, parallelism, seconds, count)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
