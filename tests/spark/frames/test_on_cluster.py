"""From a DataFrame to a table of Spark on a cluster, with an executor and then the driver killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.files import ROOT
from tests.spark.cluster import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.soak]


def test_the_table_is_what_spark_sql_makes_of_the_same_input(tmp_path: Path) -> None:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        killed = driver(tmp_path, cluster.url)
        assert killed["epochs"] == 2
        told = driver(tmp_path, cluster.url, "recover")
    assert told["table"] == told["expected"]
    assert len(told["expected"]) == 97
    assert told["copies"] == killed["copies"]
    assert len(told["copies"]) == 1, "Spark wrote the input once"
    assert told["restored"] > 2


def driver(directory: Path, *arguments: str) -> dict[str, Any]:
    """What a driver prints, whether it ends or is killed."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.frames.on_cluster", str(directory), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    assert lines, ran.stderr
    told: dict[str, Any] = json.loads(lines[-1])
    return told
