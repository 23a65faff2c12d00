"""The duration of checkpoints under back pressure: aligned, aligned with a timeout, and unaligned.

    python -m benchmarks backpressure
    python -m benchmarks.backpressure --host lab --to build

A fast source sends through two exchanges to a slow sink, so that every channel on the way is full. How much that is
depends on the credits of a channel: a buffer for each waits at the receiver, and a few more at the sender. An aligned
barrier waits until the sink has worked off all that is before it; an unaligned one overtakes it, and the checkpoint
takes it along. In the lab the sink is busy for some virtual time with each buffer, on Spark it really sleeps.

Prints a table with what a checkpoint took (medians) and what it persisted of the data in flight, and
draws both hosts side by side into `backpressure.png` and `backpressure.svg`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa

from benchmarks._options import options
from kit import CheckpointConfig, CollectSink, GeneratorSource, NoRestart, SparkJob, StreamEnvironment, create_session
from kit.core.protocol.commands import GrantCredit
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.world.actions import Action, LetTimePass, TakeTurn
from kit.machines.channel.result_partition import MAX_QUEUED_BUFFERS

PARALLELISM = 2
EXCHANGES = 2
ROW_BYTES = 16
ENDLESS = 10**12

LAB_BATCH_ROWS = 256
LAB_BUSY_MS = 100
LAB_TIMEOUT_MS = 2_000

SPARK_BATCH_ROWS = 2_048
SPARK_BUSY_MS = 20
SPARK_TIMEOUT_MS = 400
FILL_S = 1.0


@dataclass(frozen=True)
class Sizes:
    """The sizes to measure: the credits of a channel, and the checkpoints with each."""

    lab_credits: tuple[int, ...] = (1, 4, 16, 64)
    spark_credits: tuple[int, ...] = (1, 4, 16, 32)
    checkpoints: int = 5


SMALLEST = Sizes((1, 2), (1,), 1)


@dataclass(frozen=True)
class Mode:
    """A way to take checkpoints, and how it is drawn."""

    name: str
    color: str
    settings: dict[str, Any]


def modes(timeout_ms: int) -> tuple[Mode, ...]:
    """The three ways."""
    return (
        Mode("aligned", "#b3261e", {}),
        Mode(f"aligned, timeout {timeout_ms} ms", "#8a5a00", {"unaligned": True, "aligned_timeout_ms": timeout_ms}),
        Mode("unaligned", "#1a5fb4", {"unaligned": True}),
    )


def job(
    mode: Mode, credits: int, batch_rows: int, work: Callable[[pa.RecordBatch], pa.RecordBatch], directory: str | None
) -> StreamEnvironment:
    """An endless source, an operator, and the sink, which does `work` on each buffer."""
    env = StreamEnvironment(
        "backpressure",
        parallelism=PARALLELISM,
        checkpoint=CheckpointConfig(directory=directory, memory_threshold_bytes=0, **mode.settings),
        restart=NoRestart(),
        channel_credits=credits,
    )
    rows = env.from_source(GeneratorSource(ENDLESS, 1_000, splits=PARALLELISM, batch_rows=batch_rows), uid="source")
    handed_on = rows.rebalance().map_batches(_same).uid("middle")
    handed_on.rebalance().map_batches(work).uid("slow").sink_to(CollectSink("rows"), uid="sink")
    return env


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def queued_bytes(credits: int, batch_rows: int) -> int:
    """Return the bytes in all channels when they are full: every batch is divided among the receivers."""
    channels = EXCHANGES * PARALLELISM**2
    return channels * (credits + MAX_QUEUED_BUFFERS) * batch_rows // PARALLELISM * ROW_BYTES


# ---- in the lab ------------------------------------------------------------------------------------------------------


class SlowSink:
    """A lab in which a sink's task is busy with each buffer for `LAB_BUSY_MS` of virtual time."""

    def __init__(self, env: StreamEnvironment) -> None:
        self.lab = Lab(env)
        self._random = Random(1)
        self._busy_until_ms: dict[str, int] = {}

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run until a condition holds."""
        while not condition():
            self._step()

    def only_the_sink_is_left(self) -> bool:
        """Return True if all channels are full."""
        return self.lab.look.master.tasks.all_running and not self._possible()

    def _possible(self) -> list[Action]:
        return [
            action
            for action in self.lab.enabled()
            if not isinstance(action, LetTimePass)
            and not (isinstance(action, TakeTurn) and self._busy_until_ms.get(action.subject, 0) > self.lab.look.at_ms)
        ]

    def _step(self) -> None:
        possible = self._possible()
        if not possible:
            timers = (action.until_ms for action in self.lab.enabled() if isinstance(action, LetTimePass))
            self.lab.wait_until(
                min(at_ms for at_ms in (*self._busy_until_ms.values(), *timers) if at_ms > self.lab.look.at_ms)
            )
            return
        action = self._random.choice(possible)
        step = self.lab.step(action)
        if action.subject.startswith("slow") and any(record.is_a(GrantCredit) for record in step.records):
            self._busy_until_ms[action.subject] = self.lab.look.at_ms + LAB_BUSY_MS


@dataclass(frozen=True)
class Measured:
    """One setting of one mode: what a checkpoint took, in ms (virtual ones in the lab), and what it persisted."""

    host: str
    mode: str
    queued_bytes: int
    duration_ms: float
    persisted_bytes: int
    steps: float | None = None


def in_lab(mode: Mode, credits: int, checkpoints: int) -> Measured:
    """Fill all channels, then take a checkpoint."""
    slow = SlowSink(job(mode, credits, LAB_BATCH_ROWS, _same, None))
    slow.run_until(slow.only_the_sink_is_left)
    lab, steps = slow.lab, []
    for _ in range(checkpoints):
        begin = lab.position
        request = lab.trigger_checkpoint()
        slow.run_until(lambda request=request: lab.look.answer(request) is not None)
        steps.append(lab.position - begin)
    return measured("lab", mode, queued_bytes(credits, LAB_BATCH_ROWS), lab.checkpoints(), statistics.median(steps))


def measured(host: str, mode: Mode, queued: int, taken: pd.DataFrame, steps: float | None = None) -> Measured:
    """The medians of the checkpoints. AssertionError when one failed."""
    assert (taken["status"] == "COMPLETED").all(), taken["failure"].tolist()
    duration_ms, persisted = taken[["duration_ms", "persisted_data"]].median()
    return Measured(host, mode.name, queued, duration_ms, int(persisted), steps)


# ---- on Spark --------------------------------------------------------------------------------------------------------


def _sleep(batch: pa.RecordBatch) -> pa.RecordBatch:
    time.sleep(SPARK_BUSY_MS / 1_000)
    return batch.slice(0, 1)


def on_spark(spark: object, mode: Mode, credits: int, checkpoints: int) -> Measured:
    """Fill all channels, then take checkpoints one after the other; the first is not counted."""
    with tempfile.TemporaryDirectory() as directory:
        with SparkJob(job(mode, credits, SPARK_BATCH_ROWS, _sleep, directory), spark) as running:
            running.start()
            time.sleep(FILL_S)
            for _ in range(1 + checkpoints):
                running.trigger_checkpoint()
            running.cancel()
        taken = running.checkpoints().query("id > 1")
    return measured("Spark", mode, queued_bytes(credits, SPARK_BATCH_ROWS), taken)


# ---- what came of it -------------------------------------------------------------------------------------------------


def measure(hosts: list[str], sizes: Sizes) -> Iterator[Measured]:
    """Every mode with every number of credits."""
    if "lab" in hosts:
        for mode, credits in product(modes(LAB_TIMEOUT_MS), sizes.lab_credits):
            yield in_lab(mode, credits, sizes.checkpoints)
    if "spark" in hosts:
        spark = create_session("backpressure", slots=PARALLELISM)
        for mode, credits in product(modes(SPARK_TIMEOUT_MS), sizes.spark_credits):
            yield on_spark(spark, mode, credits, sizes.checkpoints)
        spark.stop()


def ratios(results: list[Measured]) -> pd.DataFrame:
    """Return the duration with the most bytes queued as a multiple of that with the fewest."""
    frame = pd.DataFrame(results)
    ends = frame.sort_values("queued_bytes").groupby(["host", "mode"], sort=False)
    first, last = ends.first(), ends.last()
    return pd.DataFrame(
        {
            "queued bytes, most / fewest": last["queued_bytes"] / first["queued_bytes"],
            "duration, most / fewest": last["duration_ms"] / first["duration_ms"],
        }
    ).round(2)


def draw(results: list[Measured], path: Path) -> None:
    """Both hosts side by side."""
    from matplotlib.figure import Figure

    hosts = list(dict.fromkeys(result.host for result in results))
    figure = Figure(figsize=(5.6 * len(hosts), 4.4), layout="constrained")
    figure.suptitle("How long a checkpoint takes under backpressure", x=0.01, ha="left", fontsize=13)
    for axes, host in zip(figure.subplots(1, len(hosts), squeeze=False)[0], hosts):
        for mode in modes(LAB_TIMEOUT_MS if host == "lab" else SPARK_TIMEOUT_MS):
            here = [result for result in results if (result.host, result.mode) == (host, mode.name)]
            axes.plot(
                [result.queued_bytes / 1024 for result in here],
                [result.duration_ms for result in here],
                marker="o",
                color=mode.color,
                label=mode.name,
            )
            axes.annotate(
                f"{here[-1].duration_ms:,.0f} ms",
                (here[-1].queued_bytes / 1024, here[-1].duration_ms),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=mode.color,
            )
        axes.set_title(TITLES[host], loc="left", fontsize=10)
        axes.set_xlabel("data queued in the job's channels (KiB)")
        axes.set_ylabel(f"trigger to completion, median ({'virtual ms' if host == 'lab' else 'ms'})")
        axes.set_xlim(0, 1.15 * max(result.queued_bytes for result in results if result.host == host) / 1024)
        most_ms = max(result.duration_ms for result in results if result.host == host)
        axes.set_ylim(-0.03 * most_ms, 1.1 * most_ms)
        axes.grid(alpha=0.25)
        axes.legend(title="barriers", alignment="left", frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    path.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(path / f"backpressure.{suffix}", dpi=130)


TITLES = {
    "lab": f"In the lab: the sink is busy for {LAB_BUSY_MS} virtual ms with each buffer",
    "Spark": f"On Spark: the sink sleeps {SPARK_BUSY_MS} ms over each buffer",
}


def main() -> int:
    """Prints a line for each setting, and the ratios; draws the figure."""
    arguments = options(__doc__)
    arguments.add_argument("--host", choices=("lab", "spark"), help="only this one")
    arguments.add_argument("--to", type=Path, default=Path("build"), help="where the figure goes")
    given = arguments.parse_args()
    results = []
    for result in measure([given.host] if given.host else ["lab", "spark"], SMALLEST if given.smallest else Sizes()):
        results.append(result)
        steps = "" if result.steps is None else f", {result.steps:.0f} steps"
        print(
            f"{result.host:5} {result.mode:24} {result.queued_bytes / 1024:7.1f} KiB queued: "
            f"{result.duration_ms:6.0f} ms{steps}, {result.persisted_bytes / 1024:.1f} KiB persisted",
            flush=True,
        )
    print(ratios(results).to_string())
    draw(results, given.to)
    print(f"drawn: {given.to / 'backpressure.png'}, {given.to / 'backpressure.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
