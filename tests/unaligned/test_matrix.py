"""Flink's matrix of rescales with in-flight records: no record is lost or repeated, and channels keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.spark.jobs import ThreadGang
from tests.unaligned.in_flight import INPUT, OUTPUT
from tests.unaligned.matrix import MATRIX, Rescale, in_flight, rescale_in_lab
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

MODES = ["exactly_once", "unaligned"]
LIGHT = {"unaligned": 75, "unaligned_after_timeout": 16, "exactly_once": 12}
"""The weight up to which `make test` plays a row; the wide ones take minutes, and only the `soak` has them."""
BOTH_ENDS = ("PIPELINE-3-2", "PIPELINE-3-3", "MULTI_INPUT-3-2")
"""In these rows some records have not even left their senders."""


def is_light(row: Rescale, mode: str) -> bool:
    return row.weight <= LIGHT[mode] or (mode == "unaligned" and str(row) == "KEYED_DIFFERENT_PARALLELISM-3-5-slow")


PLAYS = [
    pytest.param(row, mode, id=f"{row}-{mode}", marks=[] if is_light(row, mode) else [pytest.mark.soak])
    for mode in LIGHT
    for row in MATRIX
]


def test_the_matrix_has_all_rows_of_flinks_and_all_topologies_are_played() -> None:
    assert len(MATRIX) == len(set(MATRIX)) == 49
    assert {row.topology for row in MATRIX if is_light(row, "unaligned")} == {row.topology for row in MATRIX}


@pytest.mark.flink("UnalignedCheckpointRescaleITCase.shouldRescaleUnalignedCheckpoint")
@pytest.mark.parametrize(("row", "mode"), PLAYS)
def test_rescale_in_the_lab(row: Rescale, mode: str) -> None:
    before, _, path = rescale_in_lab(row, mode)
    found = in_flight(before, path)
    if not before.plan.unaligned:
        assert not found
        return
    assert {kind for _, kind in found} == row.queues
    assert all(found[INPUT, kind] for kind in row.queues)
    if str(row) in BOTH_ENDS:
        assert all(found[OUTPUT, kind] for kind in row.queues)


THREADS = [
    pytest.param(row, id=str(row))
    for row in MATRIX
    if str(row) in ("UNION-1-2", "UNION-2-3", "KEYED_BROADCAST-3-5-slow", "CUSTOM_PARTITIONER-3-2")
]
"""With slots that are threads; `make test` plays these topologies on Spark's own workers (`test_on_spark`)."""


@pytest.mark.soak
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", THREADS)
def test_rescale_on_the_spark_host(row: Rescale, mode: str, tmp_path: Path) -> None:
    rescale_on_spark(
        row,
        mode,
        tmp_path,
        lambda plan, path: spark_job(plan, path, tmp_path, launch=ThreadGang),
        lambda job: ThreadGang.current.kill(1),
    )
