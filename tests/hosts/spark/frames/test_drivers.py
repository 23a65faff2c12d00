"""Tables that Spark makes of jobs, with an executor and then the driver killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.spark.cluster import StandaloneCluster
from tests.hosts.spark.connectors import HAS_DELTA
from tests.hosts.spark.frames.on_cluster import ROWS
from tests.hosts.spark.frames.queries import LAST_BATCH
from tests.house.files import ROOT
from tests.postgresql import PostgreSql

pytestmark = [pytest.mark.spark, pytest.mark.soak]

FORMATS = ["parquet", "delta"] if HAS_DELTA else ["parquet"]


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The name of the source for the driver; a database has the rows already."""
    numbers = f"WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id + 1 < {ROWS})"
    columns = "CREATE TABLE orders (id BIGINT NOT NULL, customer BIGINT NOT NULL)"
    statements = [columns, f"INSERT INTO orders {numbers} SELECT id, id % 97 FROM n"]
    if request.param == "postgresql":
        with PostgreSql() as server:
            server.execute(*statements)
            yield server.jdbc_url
    elif request.param == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "orders.db")) as database, database:
            for statement in statements:
                database.execute(statement)
        yield f"jdbc:sqlite:{tmp_path}/orders.db"
    else:
        yield request.param


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("source", ["parquet", "sqlite", "postgresql"], indirect=True)
def test_the_table_is_what_spark_sql_makes_of_the_same_input(tmp_path: Path, source: str, table_format: str) -> None:
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        killed = driver(tmp_path, cluster.url, source, table_format)
        assert killed["epochs"] == 2
        told = driver(tmp_path, cluster.url, source, table_format, "recover")
    assert (tmp_path / "warehouse" / "totals" / "_delta_log").exists() == (table_format == "delta")
    assert told["table"] == told["expected"]
    assert len(told["expected"]) == 97
    assert told["copies"] == killed["copies"]
    assert len(told["copies"]) == 1, "Spark wrote the input once"
    assert told["restored"] > 2


def test_queries_of_two_drivers_get_each_row_once_under_the_same_batch_ids(tmp_path: Path) -> None:
    assert run_driver("queries", tmp_path).returncode == -signal.SIGKILL
    told = driver(tmp_path, "recover", module="queries")
    assert told["table"] == told["output"]
    batches: dict[int, list[list[int]]] = {}
    for file in (tmp_path / "batches").iterdir():
        batches.setdefault(int(file.name.partition("-")[0]), []).append(json.loads(file.read_text()))
    assert sorted(batches) == list(range(len(batches)))
    assert len(batches) > LAST_BATCH + 2
    assert len(batches[LAST_BATCH]) == 2, "the batch in which the first driver died came again"
    assert all(rows == attempts[0] for attempts in batches.values() for rows in attempts)
    assert sorted(row for attempts in batches.values() for row in attempts[0]) == told["output"]


def driver(directory: Path, *arguments: str, module: str = "on_cluster") -> dict[str, Any]:
    """Return what a driver prints, whether it ends or is killed."""
    ran = run_driver(module, directory, *arguments)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    assert lines, ran.stderr
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def run_driver(module: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a driver until it ends or is killed."""
    return subprocess.run(
        [sys.executable, "-m", f"tests.hosts.spark.frames.{module}", str(directory), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
