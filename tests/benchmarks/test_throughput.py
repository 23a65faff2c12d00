"""The throughput benchmark holds everybody to the right result, this kit included."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.throughput import kit_jobs, numpy_alone, workloads
from benchmarks.throughput.measured import Measured, PeerError, check, read
from benchmarks.throughput.peers import PEERS
from benchmarks.throughput.table import Standing, table
from kit import Lab

ROWS = 10_000
"""More than a function gets to see in one go."""


@pytest.mark.parametrize("workload", [name for name in workloads.NAMES if name != "W2"])
def test_the_kits_job_of_each_workload_gives_its_checksum(workload: str, tmp_path: Path) -> None:
    lab = Lab(kit_jobs.environment(workload, ROWS, str(tmp_path)))
    lab.run()
    made = Measured(ROWS, 1.0, 1, kit_jobs.result_checksum(workload, lab.output("result")))
    check(made, workload)
    with pytest.raises(PeerError, match=f"the checksum of {workload} over 10,000 rows is 0x"):
        check(Measured(ROWS, 1.0, 1, made.checksum + 1), workload)


def test_the_kit_counts_words(tmp_path: Path) -> None:
    lines = tmp_path / "text.txt"
    lines.write_text("to be or not\nto be\n")
    lab = Lab(kit_jobs.environment("W2", 0, str(tmp_path / "checkpoints"), [lines]))
    lab.run()
    expected = workloads.word_checksum(Counter(["to", "be", "or", "not", "to", "be"]))
    assert kit_jobs.result_checksum("W2", lab.output("result")) == expected


def test_what_is_expected_of_sums_windows_and_pairs_is_what_plain_loops_give() -> None:
    rows = 600
    numbers = np.arange(rows)
    keyed = workloads.columns("W3", numbers)
    windows: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for key, value, at in zip(*(column.tolist() for column in keyed.values()), strict=True):
        entry = windows[key, at // 1_000 * 1_000]
        entry[0] += value
        entry[1] += 1
    told = [(key, start, *entry) for (key, start), entry in windows.items()]
    assert workloads.expected("W3", rows) == workloads.checksum(*np.array(told).T)
    left, right = (
        list(zip(*(c.tolist() for c in workloads.columns(side, np.arange(ROWS)).values()), strict=True))
        for side in ("W4-left", "W4-right")
    )
    by_key = defaultdict(list)
    for key, value, at in right:
        by_key[key].append((value, at))
    pairs = [(k, v, w) for k, v, a in left for w, b in by_key[k] if abs(a - b) <= workloads.JOIN_WITHIN_MS]
    assert pairs
    assert workloads.expected("W4", 2 * ROWS) == workloads.checksum(*np.array(pairs).T)


def test_a_peer_that_says_no_result_is_refused_and_noise_before_it_passed_over() -> None:
    said = '{"rows": 1000, "seconds": 2.0, "checkpoints": 2, "checksum": 7}'
    assert read(f"WARNING: something\n{said}\n").rows_per_second == 500
    with pytest.raises(PeerError, match="no result"):
        read("Traceback (most recent call last):")


def test_the_table_says_how_often_the_best_peer_fits_into_the_kit() -> None:
    runs = {"kit": 30e6, "flink-java": 2e6, "spark": 4e6}
    measured = {name: [Measured(int(speed), 1.0, 1, 0)] for name, speed in runs.items()}
    standing = Standing("W1", measured, {"bytewax": "cannot be set up"})
    line = table([standing], [PEERS[name] for name in ("kit", "flink-java", "spark", "bytewax")]).splitlines()[-1]
    assert re.split(r"\s*\|\s*", line)[1:-1] == ["W1", "30", "2.0", "4.0", "-", "7.5 times spark", "10 times, missed"]


def test_numpy_alone_is_a_measure_and_no_peer() -> None:
    runs = {"kit": 30e6, "spark": 4e6, "numpy": 75e6}
    standing = Standing("W1", {name: [Measured(int(speed), 1.0, 1, 0)] for name, speed in runs.items()})
    line = table([standing], [PEERS[name] for name in runs]).splitlines()[-1]
    assert line.endswith("| 7.5 times spark; 40% of numpy alone | 10 times, missed; 50% of numpy alone, missed |")
    standing.runs["kit-two-phase"] = [Measured(45_000_000, 1.0, 1, 0)]
    line = table([standing], [PEERS[name] for name in standing.runs]).splitlines()[-1]
    assert line.endswith("| 7.5 times spark; 60% of numpy alone | 10 times, missed; 50% of numpy alone, met |")


def test_numpy_alone_counts_the_words(tmp_path: Path) -> None:
    rows = 3 * workloads.WORDS_PER_FILE
    measured = numpy_alone.measure("W2", rows, tmp_path, workloads.text(tmp_path / "text", 3))
    check(measured, "W2")


def test_numpy_alone_gives_the_checksum() -> None:
    rows = 300_000
    sums, counts = sum(numpy_alone.totals(first, rows) for first in range(numpy_alone.PROCESSES))
    seen = np.flatnonzero(counts)
    check(Measured(rows, 1.0, 0, workloads.checksum(seen, sums[seen], counts[seen])), "W1")
