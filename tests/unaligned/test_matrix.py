"""Flink's matrix of rescales with records under way: no record is lost, none comes twice, channels keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.jobs import ThreadGang
from tests.unaligned.matrix import MATRIX, Rescale, rescale_in_lab
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

MODES = ["exactly_once", "unaligned", "unaligned_after_timeout"]
PLAYS = [(row, mode) for mode in MODES for row in MATRIX if row.old + row.new < 14 or mode == "unaligned"]
"""What is played in the lab: with aligned barriers nothing is under way, and the small rows are enough."""


def test_the_matrix_has_all_rows_of_flinks() -> None:
    assert len(MATRIX) == len(set(MATRIX)) == 49


@pytest.mark.parametrize(("row", "mode"), PLAYS, ids=str)
def test_rescale_in_the_lab(row: Rescale, mode: str) -> None:
    rescale_in_lab(row, mode)


THREADS = [row for row in MATRIX if str(row) in ("UNION-2-3", "KEYED_BROADCAST-3-5-slow", "CUSTOM_PARTITIONER-3-2")]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", THREADS, ids=str)
def test_rescale_on_the_spark_host(row: Rescale, mode: str, tmp_path: Path) -> None:
    rescale_on_spark(
        row,
        mode,
        tmp_path,
        lambda plan, path: spark_job(plan, path, tmp_path, launch=ThreadGang),
        lambda job: ThreadGang.current.kill(1),
    )
