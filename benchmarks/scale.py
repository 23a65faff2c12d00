"""The cost of a checkpoint as a job grows: a lab of up to 1,000 subtasks, a driver of up to 10,000 simulated slots.

    python -m benchmarks scale
    python -m benchmarks.scale --lab 1000
    python -m benchmarks.scale --slots 10000

The lab's job has sources, a keyed exchange from each to each, and sums, with half of the subtasks in either vertex. It
takes three checkpoints (one if it is large), and the last is reported. The driver is the real one, with its sockets,
threads, files and trace. Its slots are those of `benchmarks._simulated_slots`, in another process on the same machine,
with two tasks each. It takes five checkpoints, one after another, and the median is reported. Each size has a separate
process, and so separate memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from benchmarks._options import options
from benchmarks._simulated_slots import SimulatedGang
from kit import (
    CheckpointConfig,
    CollectSink,
    GeneratorSource,
    Lab,
    NoRestart,
    SparkJob,
    StreamEnvironment,
    sum_,
)
from kit.hosts.spark.driver.driver_settings import DriverSettings

LAB = (10, 100, 300, 1_000)
SLOTS = (100, 1_000, 3_000, 10_000)
SMALLEST_LAB, SMALLEST_SLOTS = 2, 2
CHECKPOINTS = 5
LARGE = 1_000
"""A lab of so many subtasks makes one checkpoint, which takes minutes."""
LIMIT_S = 900
"""What is not done by then is told of as far as it came."""
START_S = 300.0


def keyed_sums(parallelism: int, directory: str, rows: int) -> StreamEnvironment:
    """Sources, an exchange from each to each, sums."""
    env = StreamEnvironment(
        "scale",
        parallelism=parallelism,
        max_parallelism=min(32_768, max(128, 1 << (2 * parallelism - 1).bit_length())),
        checkpoint=CheckpointConfig(interval_ms=None, directory=directory, timeout_ms=3_600_000),
        restart=NoRestart(),
    )
    stream = env.from_source(GeneratorSource(rows, key_count=1_000, batch_rows=8), uid="rows")
    stream.key_by("key").aggregate(total=sum_("value"), emit="final").uid("totals").sink_to(
        CollectSink("out"), uid="out"
    )
    return env


def peak_mb() -> float:
    """Return the peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def metadata_kb(path: str) -> float:
    """Return the size of a checkpoint's `_metadata` on the disk."""
    return (Path(path) / "_metadata").stat().st_size / 1e3


class Lines:
    """Prints partial results, a piece at a time, so that a run that does not end is reported too."""

    def __init__(self, **first: Any) -> None:
        self.began_s = time.perf_counter()
        self.tell(**first)

    def tell(self, **known: Any) -> None:
        """Print more cells of the row."""
        print(json.dumps(known), flush=True)

    def lap_s(self) -> float:
        """Since the last lap, on the clock."""
        now_s = time.perf_counter()
        taken_s, self.began_s = now_s - self.began_s, now_s
        return taken_s


def measure_lab(subtasks: int) -> None:
    """One lab, to its third checkpoint."""
    lines = Lines(subtasks=subtasks, channels=(subtasks // 2) ** 2)
    lab = Lab(keyed_sums(subtasks // 2, "/checkpoints", 1_000 * subtasks))
    lab.run_until(record="AllTasksRunning")
    lines.tell(**{"all running s": round(lines.lap_s(), 1), "MB then": round(peak_mb())})
    for _ in range(3 if subtasks < LARGE else 1):
        steps, records = lab.position, len(lab.trace)
        path = lab.trigger_checkpoint(wait=True)
        taken_s, steps = lines.lap_s(), lab.position - steps
        lines.tell(
            **{
                "checkpoint s": round(taken_s, 2),
                "steps": steps,
                "steps a second": round(steps / taken_s),
                "records": len(lab.trace) - records,
                "_metadata kB": round(len(lab.look.files.contents[f"{path}/_metadata"]) / 1e3, 1),
                "MB": round(peak_mb()),
            }
        )


def measure_driver(slots: int) -> None:
    """One driver, to its fifth checkpoint."""
    gangs: list[SimulatedGang] = []

    def launch(ticket: Any, ended: Any) -> SimulatedGang:
        gangs.append(SimulatedGang(ticket, ended))
        return gangs[-1]

    lines = Lines(slots=slots, tasks=2 * slots)
    with tempfile.TemporaryDirectory() as directory:
        job = SparkJob(
            keyed_sums(slots, directory, 1 << 40), launch=launch, settings=DriverSettings(start_timeout_s=START_S)
        )
        with job.start():
            job.wait_until_running(timeout_s=LIMIT_S)
            running_s, counts = lines.lap_s(), gangs[0].counts()
            lines.tell(
                **{
                    "all running s": round(running_s, 1),
                    "MB told to connect and deploy": round(counts.received_bytes / 1e6, 1),
                    "threads": threading.active_count(),
                    "MB": round(peak_mb()),
                }
            )
            taken_ms: list[float] = []
            cpu_ms: list[float] = []
            for _ in range(CHECKPOINTS):
                lines.lap_s()
                began_s = time.process_time()
                path = job.trigger_checkpoint()
                taken_ms.append(lines.lap_s() * 1000)
                cpu_ms.append((time.process_time() - began_s) * 1000)
                later = gangs[0].counts()
                control_bytes = later.sent_bytes - counts.sent_bytes + later.received_bytes - counts.received_bytes
                lines.tell(
                    **{
                        "checkpoint ms": round(median(taken_ms)),
                        "on the processor": round(median(cpu_ms)),
                        "_metadata kB": round(metadata_kb(path), 1),
                        "messages": later.sent - counts.sent + later.received - counts.received,
                        "kB": round(control_bytes / 1e3),
                        "MB": round(peak_mb()),
                    }
                )
                counts = later
            began_s = time.process_time()
            time.sleep(5)
            idle = (time.process_time() - began_s) / 5
            lines.tell(**{"processors when idle": round(idle, 2)})


def row_of(kind: str, size: int) -> dict[str, Any]:
    """Return the cells that a separate process reports; `ended` is empty if it succeeded."""
    command = [sys.executable, "-m", "benchmarks.scale", f"--measure-{kind}", str(size)]
    row: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            watch = threading.Timer(LIMIT_S, process.kill)
            watch.start()
            assert process.stdout is not None
            for line in process.stdout:
                row |= json.loads(line)
        watch.cancel()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    if process.returncode:
        late = process.returncode == -signal.SIGKILL
        row["ended"] = f"not done after {LIMIT_S} s" if late else (said or ["no word"])[-1][:160]
    return row


def table(kind: str, sizes: list[int]) -> int:
    """Print a row for each size; return the number of sizes that failed."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        print(f"{kind} {size} ...", file=sys.stderr, flush=True)
        rows.append(row_of(kind, size))
    print(pd.DataFrame(rows).fillna("").to_string(index=False))
    return sum("ended" in row for row in rows)


def main() -> int:
    """Return the number of sizes that failed."""
    parser = options(__doc__)
    parser.add_argument("--lab", type=int, nargs="*", help="subtasks")
    parser.add_argument("--slots", type=int, nargs="*", help="simulated slots")
    parser.add_argument("--measure-lab", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--measure-slots", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure_lab:
        measure_lab(given.measure_lab)
        return 0
    if given.measure_slots:
        measure_driver(given.measure_slots)
        return 0
    if given.smallest:
        given.lab, given.slots = [SMALLEST_LAB], [SMALLEST_SLOTS]
    both, failed = given.lab is None and given.slots is None, 0
    if both or given.lab is not None:
        failed += table("lab", given.lab or list(LAB))
    if both or given.slots is not None:
        failed += table("slots", given.slots or list(SLOTS))
    print(f"load average {', '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores")
    return failed


if __name__ == "__main__":
    sys.exit(main())
