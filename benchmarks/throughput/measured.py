"""The result of a run, and the command line that all peers have: they print the result as JSON in their last line.

    PEER WORKLOAD ROWS DIRECTORY [INTERVAL_MS]

A peer first runs a tenth of the rows, to compile and to fill caches. Then it runs all of them, which is measured.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.throughput import workloads

TWO_PHASE = "KIT_BENCH_TWO_PHASE"
"""The variable that, if it is set, lets the kit aggregate in two phases."""
DURABILITY = "KIT_BENCH_DURABILITY"
"""The variable that says what the kit's checkpoints survive: fsync or page_cache."""


@dataclass(frozen=True)
class Measured:
    """`checkpoints` that were completed; the checksum of what came out."""

    rows: int
    seconds: float
    checkpoints: int
    checksum: int

    @property
    def rows_per_second(self) -> float:
        """Rows processed a second."""
        return self.rows / self.seconds


Measure = Callable[[str, int, Path, list[Path], int], Measured]


class PeerError(Exception):
    """A peer did not run, or its result is not right."""


def read(output: str) -> Measured:
    """Parse the last line of a peer. Raises PeerError if it is not a result."""
    for line in reversed(output.strip().splitlines()):
        if line.startswith('{"rows"'):
            return Measured(**json.loads(line))
    raise PeerError("it said no result")


def check(measured: Measured, workload: str) -> None:
    """Raise PeerError if the checksum is not the expected one."""
    right = workloads.expected(workload, measured.rows)
    if measured.checksum & (1 << 64) - 1 != right:
        raise PeerError(
            f"the checksum of {workload} over {measured.rows:,} rows is {measured.checksum:#x}, not {right:#x}"
        )


def warm_up_rows(workload: str, rows: int) -> int:
    """A tenth; of words at least a file."""
    if workload == "W2":
        return max(rows // 10 // workloads.WORDS_PER_FILE, 1) * workloads.WORDS_PER_FILE
    return max(rows // 10, 2)


def main_of_peer(measure: Measure) -> None:
    """The command line of a peer written in Python."""
    workload, rows, directory = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    interval_ms = int(sys.argv[4]) if len(sys.argv) > 4 else 1_000
    for many in (warm_up_rows(workload, rows), rows):
        here = directory / f"run-{many}"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir(parents=True)
        measured = measure(workload, many, here, texts(directory, workload, many), interval_ms)
    print(json.dumps(asdict(measured)), flush=True)


def texts(directory: Path, workload: str, rows: int) -> list[Path]:
    """The files of W2."""
    return workloads.text(directory / "text", rows // workloads.WORDS_PER_FILE) if workload == "W2" else []
