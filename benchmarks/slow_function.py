"""Checkpoints of a job with a slow Python function, with and without the limit on the time of a task's turn.

    python -m benchmarks slow_function
    python -m benchmarks.slow_function --us 100 --checkpoints 20 --rounds 3

A function takes `--us` microseconds a row. It runs in the task of the source (*chained*), or in a task of its own
behind an exchange (*keyed*). Both jobs run on two slots with default settings, once with `turn_ms` at its default and
once so high that it limits nothing, by turns. Printed are the median and the longest time from the trigger to the last
acknowledgement of a source, and to the end of the checkpoint, and the ratios of the medians. Rows is the number of rows
that sources read in the same time. On a busy machine, only the ratios mean something.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks._options import options
from kit import CheckpointConfig, CollectSink, GeneratorSource, SparkJob, StreamEnvironment, create_session
from kit.stream.settings.job_settings import JobSettings

PARALLELISM = 2
KEYS = 1_000
WITHOUT_LIMIT_MS = 1_000_000
WARM_UP_S = 2.0
PAUSE_S = 0.1
TURNS_MS = {"limited": JobSettings().turn_ms, "unlimited": WITHOUT_LIMIT_MS}
Row = dict[str, Any]


def busy(us: float, row: Row) -> Row:
    """Return the row after it has used the processor for a while."""
    end = time.perf_counter() + us / 1e6
    while time.perf_counter() < end:
        pass
    return row


def job(shape: str, us: float, turn_ms: int, directory: str) -> StreamEnvironment:
    """The job: a source that never ends, the function, and a sink."""
    checkpoint = CheckpointConfig(interval_ms=None, directory=directory)
    env = StreamEnvironment(shape, parallelism=PARALLELISM, max_parallelism=16, checkpoint=checkpoint, turn_ms=turn_ms)
    rows = env.from_source(GeneratorSource(None, KEYS, splits=PARALLELISM), uid="rows")
    if shape == "keyed":
        rows = rows.key_by("key")
    slow = rows.map(partial(busy, us), returns=dict.fromkeys(("key", "value"), "int64")).uid("slow")
    slow.filter(lambda row: row["key"] < 0).sink_to(CollectSink("out"), uid="out")
    return env


@dataclass(frozen=True)
class Measured:
    """The times of a run's checkpoints, in ms, and the rows a second that its sources read."""

    acknowledged_ms: list[int]
    completed_ms: list[int]
    rows_per_s: float


def measure(start: Callable[[StreamEnvironment], SparkJob], env: StreamEnvironment, count: int) -> Measured:
    """Take checkpoints one after the other."""
    with start(env) as running:
        running.wait_until_running()
        time.sleep(WARM_UP_S)
        before, began_s = rows_read(running), time.monotonic()
        for _ in range(count):
            running.trigger_checkpoint(wait=True)
            time.sleep(PAUSE_S)
        rows_per_s = (rows_read(running) - before) / (time.monotonic() - began_s)
        taken = running.checkpoints()
        acknowledged = [of_sources(running, each) for each in taken["id"]]
        running.cancel()
    assert (taken["status"] == "COMPLETED").all(), taken["failure"].tolist()
    return Measured(acknowledged, [int(each) for each in taken["duration_ms"]], rows_per_s)


def of_sources(running: SparkJob, checkpoint_id: int) -> int:
    """Return the time from the trigger until all sources had acknowledged, in ms."""
    subtasks = running.statistics.subtasks(checkpoint_id)
    return int(subtasks[subtasks["vertex"].str.startswith("rows")]["end_to_end_ms"].max())


def rows_read(running: SparkJob) -> int:
    """Return the number of rows that the sources have read so far."""
    meters = running.meters()
    return int(meters[meters["task"].str.startswith("rows")]["records_in"].sum())


def main() -> int:
    """Print a line for each run, and the ratios."""
    parser = options(__doc__)
    parser.add_argument("--us", type=float, default=100.0, help="microseconds that the function takes a row")
    parser.add_argument("--checkpoints", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=("chained", "keyed"), help="one of the jobs")
    given = parser.parse_args()
    us, count, rounds = (10.0, 1, 1) if given.smallest else (given.us, given.checkpoints, given.rounds)
    session = create_session("slow function", slots=PARALLELISM)
    for shape in ("chained", "keyed") if given.shape is None else (given.shape,):
        found: dict[str, list[Measured]] = {name: [] for name in TURNS_MS}
        for _ in range(rounds):
            for name, turn_ms in TURNS_MS.items():
                with tempfile.TemporaryDirectory() as directory:
                    env = job(shape, us, turn_ms, directory)
                    found[name].append(measure(lambda env: SparkJob(env, session).start(), env, count))
        report(shape, found)
    session.stop()
    return 0


def report(shape: str, found: dict[str, list[Measured]]) -> None:
    """Print the figures of one job."""
    medians: dict[str, tuple[float, float, float]] = {}
    for name, runs in found.items():
        acknowledged = [ms for each in runs for ms in each.acknowledged_ms]
        completed = [ms for each in runs for ms in each.completed_ms]
        rows = statistics.median(each.rows_per_s for each in runs)
        medians[name] = statistics.median(acknowledged), statistics.median(completed), rows
        print(
            f"{shape:8} {name:10} sources acknowledge after {medians[name][0]:6.0f} ms (longest {max(acknowledged)}), "
            f"complete after {medians[name][1]:6.0f} ms (longest {max(completed)}), {rows:9,.0f} rows/s",
            flush=True,
        )
    ratios = [round(one / max(other, 1), 3) for one, other in zip(medians["limited"], medians["unlimited"])]
    said = ", ".join(f"{name} {ratio}" for name, ratio in zip(("acknowledged", "complete", "rows"), ratios))
    print(f"{shape:8} limited / unlimited: {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
