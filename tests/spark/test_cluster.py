"""A standalone cluster with its master and its workers, and what befalls them while a job runs: the output is the same.

One process for all (`tests.spark.on_cluster`), since the session takes longer than the jobs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT
from tests.spark.on_cluster import FAULTS

pytestmark = pytest.mark.spark

ALWAYS = ("executor_killed", "executor_frozen", "master_restarted")
"""The others are in the soak: what they show is shown on this machine's session too, or by one of these."""
SAID = {
    "worker_killed": "its process died",
    "executor_killed": "its process died",
    "executor_frozen": "no heartbeat for",
    "master_restarted": "its process died",
    "spark_worker_killed": "its process died",
    "stage_cancelled": "cancelled",
}
"""What the job was told of the first slot that it lost."""


def suffered(directory: Path, faults: list[str]) -> dict[str, dict[str, object]]:
    """What came of each, by name."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.on_cluster", str(directory), *faults],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    told = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert [each["fault"] for each in told] == faults, ran.stderr
    return {each["fault"]: each for each in told}


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    return suffered(tmp_path_factory.mktemp("cluster"), list(ALWAYS))


def check(told: dict[str, object]) -> None:
    """No error: the output was the batch result's. What was lost is what the fault took."""
    assert told["error"] == ""
    lost = told["lost"]
    assert isinstance(lost, list)
    if told["fault"] in SAID:
        assert SAID[str(told["fault"])] in lost[0]
        assert told["epochs"] == len(lost) + 1
    else:
        assert (lost, told["epochs"]) == ([], 1)


@pytest.mark.parametrize("fault", ALWAYS)
def test_a_job_outlives(always: dict[str, dict[str, object]], fault: str) -> None:
    check(always[fault])


@pytest.mark.soak
def test_a_job_outlives_everything_in_turn(tmp_path: Path) -> None:
    for told in suffered(tmp_path, list(FAULTS)).values():
        check(told)
