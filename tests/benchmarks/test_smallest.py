"""Every benchmark runs, at its smallest size; its time does not matter here.

They do not run in the process of the tests, since some start Spark or a browser, which an earlier test may hold. One
process runs several of them: most take less time than the imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import names
from tests.house.files import ROOT

QUICK = ("assignment", "coordinator", "keys", "late_rows", "savepoint", "snapshot")
"""What `make test` runs: together six seconds of processor time. The others start Spark or a browser, or take long even
at their smallest size, and the longer run has them.
"""
ON_SPARK = ("backpressure", "recovery", "slow_function", "throughput")
ON_A_CLUSTER = ("cluster",)
ELSEWHERE = tuple(name for name in names() if name not in QUICK + ON_SPARK + ON_A_CLUSTER)


def told(directory: Path, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """The lines that `python -m benchmarks` prints for each of these; their files go below `directory`."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *wanted, "--smallest"],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "KIT_BENCH_CACHE": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sections = [each.splitlines() for each in f"\n{done.stdout}".split("\n--- ")[1:]]
    return {lines[0]: lines[1:] for lines in sections}


@pytest.mark.parametrize(
    "wanted", [pytest.param(QUICK, id="quick"), pytest.param(ELSEWHERE, id="others", marks=pytest.mark.soak)]
)
def test_they_run(wanted: tuple[str, ...], tmp_path: Path) -> None:
    lines = told(tmp_path, wanted)
    assert {name: len(lines[name]) > 1 for name in wanted} == dict.fromkeys(wanted, True)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("wanted", [pytest.param(ON_SPARK, id="local"), pytest.param(ON_A_CLUSTER, id="cluster")])
def test_they_run_on_spark(wanted: tuple[str, ...], tmp_path: Path) -> None:
    lines = told(tmp_path, wanted)
    assert {name: len(lines[name]) > 1 for name in wanted} == dict.fromkeys(wanted, True)
    assert (tmp_path / "build/backpressure.svg").exists() == ("backpressure" in wanted)
