"""Rows of the matrix on Spark itself: processes, sockets, SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unaligned.matrix import MATRIX, Rescale
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

ROWS = [row for row in MATRIX if str(row) in ("PIPELINE-2-1", "MULTI_INPUT-1-2")]


@pytest.mark.spark
@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_rescale_on_spark(row: Rescale, spark: SparkSession, tmp_path: Path) -> None:
    rescale_on_spark(
        row,
        "unaligned",
        tmp_path,
        lambda plan, path: spark_job(plan, path, tmp_path, spark=spark),
        lambda job: job.kill_worker(0),
    )
