"""The lab: how many steps per second, at ever larger parallelism, and what a long run costs.

    python -m benchmarks lab
    python -m benchmarks.lab --parallelism 2 8 --profile

Each row of the first table is a new lab that runs to its end. The columns are the steps and seconds to the first
completed checkpoint and to the end, the steps per second, the same by processor time (which a busy machine changes
less), and the time to show the last moment in a notebook. The job is the README's, a row at a time. The first row is
the tour's job, ten flights at a time in two streams, one of them in windows. A step must not cost more as the job
grows: the last column is the cost of a step as a multiple of that in the first row.

Then one long run of the README's job, in which only its history may grow: the time of `back` and `moment` after a
number of steps, and the memory of 10,000 steps.
"""

from __future__ import annotations

import cProfile
import gc
import os
import pstats
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._options import options
from examples.flights.job import flights_job, write_flights
from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, sum_

PARALLELISM = (2, 8, 16, 32, 128)
ROWS = 40
BACK = (1, 10, 100, 300)
STEPS_PER_ROW = 4


@dataclass(frozen=True)
class Sizes:
    """The sizes to measure: a row for each parallelism, and the rows of the sources."""

    parallelism: Sequence[int]
    rows: int
    long_rows: int = 2_000
    """At parallelism 2 only: a job of few tasks is over too soon to be measured."""
    flights: int = 4_000
    long_run: tuple[int, ...] = (1_000, 10_000, 100_000)
    """Steps after which a look and a way back are measured."""


SMALLEST = Sizes((1, 2), rows=6, long_rows=6, flights=250, long_run=(310, 320))


def job(parallelism: int, rows: int) -> StreamEnvironment:
    """The README's example."""
    env = StreamEnvironment("letters", parallelism=parallelism, checkpoint=CheckpointConfig(interval_ms=50))
    source = CollectionSource([{"letter": "abc"[n % 3], "n": n} for n in range(rows)], batch_rows=1)
    stream = env.from_source(source, uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    return env


def tour(flights: Path) -> StreamEnvironment:
    """The job of `notebooks/00-tour.ipynb`, with more flights."""
    return flights_job(flights, None, parallelism=2, checkpoint=CheckpointConfig(interval_ms=60), batch_rows=10)


@dataclass(frozen=True)
class Measured:
    """One run: seconds, seconds on the processor, and steps, to the first checkpoint and to the end."""

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


def measure(env: StreamEnvironment) -> Measured:
    """Run the job to its end, once."""
    gc.collect()
    began, began_cpu = time.perf_counter(), time.process_time()
    lab = Lab(env)
    lab.run_until(checkpoint=1)
    first_steps, first_s = lab.position, time.perf_counter() - began
    lab.run()
    end_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    began = time.perf_counter()
    _ = lab._repr_svg_(), lab._repr_html_(), repr(lab)
    picture_s = time.perf_counter() - began
    return Measured(first_steps, first_s, lab.position, end_s, cpu_s, picture_s)


def profile(parallelism: int, rows: int) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    Lab(job(parallelism, rows)).run()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


def tell(name: str, run: Measured, first: Measured | None = None) -> None:
    """One row of the first table."""
    step = "" if first is None else f"{run.step_us / first.step_us:6.2f}"
    print(
        f"{name:11} {run.first_steps:8,} steps {run.first_s:6.2f} s {run.steps:8,} steps {run.end_s:6.2f} s "
        f"{run.steps / run.end_s:9,.0f} {run.steps / run.cpu_s:18,.0f} {run.picture_s:7.2f} s {step}",
        flush=True,
    )


def long_run(looks: Sequence[int]) -> None:
    """Measure a long run after each of these numbers of steps: time and memory."""
    lab = Lab(job(2, looks[-1] // STEPS_PER_ROW))
    lab.moment()
    print("step          back 1 to 300 steps   moment     memory per 10,000 steps")
    begun = memory_bytes()
    for steps in looks:
        before = lab.position
        lab.run_until(lambda lab, steps=steps: lab.position >= steps)  # type: ignore[misc]
        grown = (memory_bytes() - begun) / (lab.position - before) * 10_000
        look_ms = took_ms(lab.moment)
        back_ms = []
        for each in BACK:
            back_ms.append(took_ms(lambda each=each: lab.back(each)))  # type: ignore[misc]
            lab.goto(steps)
        begun = memory_bytes()
        back = f"{min(back_ms):9.1f} to {max(back_ms):5.1f} ms"
        print(f"{lab.position:11,} {back} {look_ms:7.1f} ms {grown / 1e6:12.1f} MB", flush=True)


def took_ms(deed: Callable[[], object]) -> float:
    """Return the milliseconds of processor time that a call takes."""
    began = time.process_time()
    deed()
    return (time.process_time() - began) * 1e3


def memory_bytes() -> int:
    """Return the present memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--parallelism", type=int, nargs="+", default=PARALLELISM, help="one row for each")
    parser.add_argument("--rows", type=int, default=ROWS, help="that the source has")
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    given = parser.parse_args()
    sizes = SMALLEST if given.smallest else Sizes(given.parallelism, given.rows)
    Lab(job(1, ROWS)).run()  # what is imported and compiled once is not measured
    if given.profile:
        for parallelism in sizes.parallelism:
            profile(parallelism, sizes.rows)
        return
    print("job           checkpoint 1          the end               steps/s   on the processor   picture   step")
    with tempfile.TemporaryDirectory() as folder:
        tell("tour", measure(tour(write_flights(Path(folder) / "flights.parquet", sizes.flights, rows_per_split=125))))
    first: Measured | None = None
    for parallelism in sizes.parallelism:
        run = measure(job(parallelism, sizes.long_rows if parallelism <= 2 else sizes.rows))
        first = first or run
        tell(f"letters {parallelism}", run, first)
    long_run(sizes.long_run)
    print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
