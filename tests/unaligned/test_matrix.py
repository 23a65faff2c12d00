"""Flink's matrix of rescales with records under way: no record is lost, none comes twice, channels keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.jobs import ThreadGang
from tests.unaligned.matrix import MATRIX, Rescale, in_flight_bytes, rescale_in_lab
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

MODES = ["exactly_once", "unaligned"]
PLAYS = [
    pytest.param(row, mode, id=f"{row}-{mode}", marks=[pytest.mark.soak] if row.weight > most else [])
    for mode, most in (("unaligned", 200), ("unaligned_after_timeout", 50), ("exactly_once", 50))
    for row in MATRIX
]
"""All rows in all modes; the wide ones take minutes, and only the `soak` has these."""


def test_the_matrix_has_all_rows_of_flinks() -> None:
    assert len(MATRIX) == len(set(MATRIX)) == 49


@pytest.mark.flink("UnalignedCheckpointRescaleITCase.shouldRescaleUnalignedCheckpoint")
@pytest.mark.parametrize(("row", "mode"), PLAYS)
def test_rescale_in_the_lab(row: Rescale, mode: str) -> None:
    before, _, path = rescale_in_lab(row, mode)
    if before.plan.unaligned and row.queues:
        assert in_flight_bytes(before, path) > 0


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
