"""The README's job in the lab, at ever larger parallelism: how many steps per second, and how long until something
shows.

    python -m benchmarks lab
    python -m benchmarks.lab --parallelism 2 8 --profile

Each row is a lab made anew and run to its end: steps and seconds to the first completed checkpoint and to the end,
steps per second, the same on the processor (which a busy machine changes less), and how long what a notebook shows of
the end takes. A step must not cost more as the job grows: the last column is what one costs at this parallelism, as a
multiple of one in the first row.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import os
import pstats
import time
from dataclasses import dataclass

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, sum_

PARALLELISM = (2, 8, 16, 32, 128)
ROWS = 40
LONG_ROWS = 2_000
"""For the first row only: a job of few tasks is over too soon to be measured."""


def job(parallelism: int, rows: int) -> StreamEnvironment:
    """The README's example."""
    env = StreamEnvironment("letters", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=50))
    source = CollectionSource([{"letter": "abc"[n % 3], "n": n} for n in range(rows)], batch_rows=1)
    stream = env.from_source(source, uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


@dataclass(frozen=True)
class Measured:
    """One run: seconds, seconds on the processor, and steps, to the first checkpoint and to the end."""

    parallelism: int
    first_steps: int
    first_s: float
    steps: int
    end_s: float
    cpu_s: float
    picture_s: float

    @property
    def step_us(self) -> float:
        """Microseconds on the processor for a step."""
        return self.cpu_s / self.steps * 1e6


def measure(parallelism: int, rows: int) -> Measured:
    """Run the job to its end, once."""
    gc.collect()
    began, began_cpu = time.perf_counter(), time.process_time()
    lab = Lab(job(parallelism, rows))
    lab.run_until(checkpoint=1)
    first_steps, first_s = lab.position, time.perf_counter() - began
    lab.run()
    end_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    began = time.perf_counter()
    _ = lab._repr_svg_(), lab._repr_html_(), repr(lab)
    picture_s = time.perf_counter() - began
    return Measured(parallelism, first_steps, first_s, lab.position, end_s, cpu_s, picture_s)


def profile(parallelism: int, rows: int) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    Lab(job(parallelism, rows)).run()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parallelism", type=int, nargs="+", default=PARALLELISM, help="one row for each")
    parser.add_argument("--rows", type=int, default=ROWS, help="that the source has")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    options = parser.parse_args()
    Lab(job(1, ROWS)).run()  # what is imported and compiled once is not measured
    if options.profile:
        for parallelism in options.parallelism:
            profile(parallelism, options.rows)
        return
    print("parallelism   checkpoint 1          the end               steps/s   on the processor   picture   step")
    first: Measured | None = None
    for parallelism in options.parallelism:
        rows = LONG_ROWS if parallelism <= 2 else options.rows
        run = measure(parallelism, rows)
        first = first or run
        print(
            f"{run.parallelism:11} {run.first_steps:8,} steps {run.first_s:6.2f} s {run.steps:8,} steps "
            f"{run.end_s:6.2f} s {run.steps / run.end_s:9,.0f} {run.steps / run.cpu_s:18,.0f} {run.picture_s:7.2f} s "
            f"{run.step_us / first.step_us:6.2f}",
            flush=True,
        )
    print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
