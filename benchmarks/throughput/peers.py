"""The peers: how each is set up and started, the workloads that it can run, and its expected rows a second."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.throughput import workloads
from benchmarks.throughput.environments import (
    BYTEWAX,
    FLINK,
    ROOT,
    default_cache,
    flink_classes,
    flink_jars,
    python_with,
)
from benchmarks.throughput.measured import TWO_PHASE, Measured, PeerError, check, read

Start = tuple[list[str], dict[str, str]]
"""A command, and what it finds in its environment."""

RUN_LIMIT_S, LIMIT_ON_DISK_S = 100, 900


@dataclass(frozen=True)
class Peer:
    """`reckoned`: thousand rows a second by workload, of which the rows of a run follow; `start` sets it up."""

    name: str
    start: Callable[[Path], Start]
    reckoned: Mapping[str, float]

    def rows(self, workload: str, seconds: float) -> int:
        """Return the rows for a run of about this number of seconds: whole files of words, or a multiple of 1,000.

        A workload on disk always has the same rows.
        """
        if workload in workloads.ON_DISK:
            return workloads.ROWS_ON_DISK
        unit = workloads.WORDS_PER_FILE if workload == "W2" else 1_000
        return max(int(self.reckoned[workload] * 1_000 * seconds) // unit, 1) * unit

    def run(self, workload: str, rows: int, cache: Path, interval_ms: int = 1_000) -> Measured:
        """Run once, and check the result. Raises PeerError if the run fails or the result is wrong."""
        command, variables = self.start(cache)
        with tempfile.TemporaryDirectory(prefix="kit-bench-") as directory:
            workloads.text(cache / "text", 1)
            (Path(directory) / "text").mkdir()
            _link(cache / "text" / "text-0000.txt", Path(directory) / "text" / "text-0000.txt")
            if workload == "W2":  # a peer in Java makes none itself
                workloads.text(Path(directory) / "text", rows // workloads.WORDS_PER_FILE)
            limit_s = LIMIT_ON_DISK_S if workload in workloads.ON_DISK else RUN_LIMIT_S
            called = [*command, workload, str(rows), directory, str(interval_ms)]
            try:
                done = subprocess.run(
                    called,
                    cwd=ROOT,
                    env=os.environ | variables,
                    capture_output=True,
                    text=True,
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise PeerError(f"{workload} took more than {limit_s} s") from None
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "Error" in line or "Exception" in line]
            raise PeerError(f"{workload} failed: {(said or ['exit ' + str(done.returncode)])[-1][:200]}")
        measured = read(done.stdout)
        check(measured, workload)
        return measured


def _link(source: Path, target: Path) -> None:
    """A second name for a file, or a copy where the two lie on different disks."""
    try:
        target.hardlink_to(source)
    except OSError:
        target.write_bytes(source.read_bytes())


def _python(python: str | Path, module: str, **variables: str) -> Start:
    return [str(python), "-m", f"benchmarks.throughput.{module}"], {"PYTHONPATH": str(ROOT)} | variables


def _kit(cache: Path) -> Start:
    return _python(sys.executable, "kit_jobs")


def _kit_in_two_phases(cache: Path) -> Start:
    return _python(sys.executable, "kit_jobs", **{TWO_PHASE: "1"})


def _numpy(cache: Path) -> Start:
    return _python(sys.executable, "numpy_alone")


def _spark(cache: Path) -> Start:
    packages = (f"pyspark=={version('pyspark')}", "pandas<3", "pyarrow", "numpy", "protobuf", "grpcio")
    python = python_with(cache / f"spark-{version('pyspark')}", *packages)
    return _python(python, "spark_sql", PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")


def _bytewax(cache: Path) -> Start:
    python = python_with(cache / f"bytewax-{BYTEWAX}", f"bytewax=={BYTEWAX}", "numpy")
    return _python(python, "bytewax_flows")


def _flink_java(cache: Path) -> Start:
    path = os.pathsep.join([str(flink_classes(cache)), flink_jars(cache)])
    return ["java", "-Xmx4g", "-cp", path, "Peer"], {}


def _pyflink(cache: Path) -> Start:
    python = python_with(cache / f"pyflink-{FLINK}", f"apache-flink=={FLINK}")
    return _python(python, "pyflink_jobs", KIT_BENCH_JAR=str(flink_classes(cache)))


KIT, TWO_PHASES, NUMPY = "kit", "kit-two-phase", "numpy"
PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            KIT,
            _kit,
            {
                "W1": 25_000,
                "W1r": 5_000,
                "W2": 16_000,
                "W3": 3_000,
                "W4": 1_500,
                "W5": 600,
                "W6": 4_000,
                "W7": 300,
                "W7z": 800,
            },
        ),
        Peer(TWO_PHASES, _kit_in_two_phases, {"W1": 60_000, "W2": 30_000}),
        Peer(
            "flink-java",
            _flink_java,
            {"W1": 2_000, "W1r": 500, "W2": 4_000, "W3": 1_000, "W4": 400, "W7": 200, "W7z": 200},
        ),
        Peer(
            "spark",
            _spark,
            {"W1": 3_000, "W1r": 500, "W2": 8_000, "W3": 1_000, "W4": 100, "W5": 4, "W6": 800, "W7": 150, "W7z": 150},
        ),
        Peer("bytewax", _bytewax, {"W1": 100, "W1r": 60, "W2": 500, "W5": 80, "W6": 1_000}),
        Peer("pyflink", _pyflink, {"W5": 20, "W6": 200}),
        Peer(NUMPY, _numpy, {"W1": 60_000, "W2": 40_000}),
    )
}
"""The kit first, in one phase, and then with `aggregate(two_phase=True)`, which is no peer. Flink's Java has no Python
functions, and PyFlink's SQL is Flink's Java. Numpy alone is no peer but a measure: it neither exchanges nor keeps
anything.
"""

__all__ = ["KIT", "NUMPY", "PEERS", "TWO_PHASES", "Peer", "default_cache"]
