"""Every benchmark runs, at its smallest size; how long it takes is nobody's concern here.

Each in a process of its own, as a person runs it: some start Spark or a browser, which a test before may hold already.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import names
from tests.house.files import ROOT

ON_SPARK = ("backpressure", "cluster", "recovery", "throughput")


def run(name: str, *options: str) -> list[str]:
    """The lines that `python -m benchmarks` prints for the benchmark `name`."""
    command = [sys.executable, "-m", "benchmarks", name, "--smallest", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", [name for name in names() if name not in ON_SPARK])
def test_it_runs(name: str) -> None:
    told = run(name)
    assert told[0] == f"--- {name}"
    assert len(told) > 2


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_it_runs_on_spark(name: str, tmp_path: Path) -> None:
    places = {"backpressure": ["--to", str(tmp_path)], "throughput": ["--cache", str(tmp_path)]}
    assert len(run(name, *places.get(name, []))) > 2
    assert (tmp_path / "backpressure.svg").exists() == (name == "backpressure")
