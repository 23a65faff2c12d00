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

ON_SPARK = ("backpressure", "recovery", "throughput")
ON_A_CLUSTER = ("cluster",)
"""It takes seven JVMs to start. What it measures, jobs on a standalone cluster,
`tests/hosts/spark/test_cluster.py` runs in `make test`, so only the soak runs it."""
ELSEWHERE = tuple(name for name in names() if name not in ON_SPARK + ON_A_CLUSTER)


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


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return told(tmp_path_factory.mktemp("elsewhere"), ELSEWHERE)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_it_runs(name: str, elsewhere: dict[str, list[str]]) -> None:
    assert len(elsewhere[name]) > 1


@pytest.mark.spark
@pytest.mark.parametrize(
    "wanted", [pytest.param(ON_SPARK, id="local"), pytest.param(ON_A_CLUSTER, id="cluster", marks=pytest.mark.soak)]
)
def test_they_run_on_spark(wanted: tuple[str, ...], tmp_path: Path) -> None:
    lines = told(tmp_path, wanted)
    assert {name: len(lines[name]) > 1 for name in wanted} == dict.fromkeys(wanted, True)
    assert (tmp_path / "build/backpressure.svg").exists() == ("backpressure" in wanted)
