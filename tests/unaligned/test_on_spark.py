"""The matrix on Spark itself, in every mode: processes, sockets, SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unaligned.jobs import MODES
from tests.unaligned.matrix import MATRIX, Rescale
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

LIGHT = {"unaligned": 12, "unaligned_after_timeout": 9, "at_least_once": 9, "exactly_once": 9}
"""The weight up to which `make test` plays a row; all 196 plays take half an hour, and only the `soak` has them."""
BESIDES = [
    "PIPELINE-3-2",
    "UNION-2-1",
    "MULTI_INPUT-1-2",
    "CUSTOM_PARTITIONER-3-2",
    "BROADCAST-2-5",
    "KEYED_BROADCAST-3-5-slow",
    "KEYED_DIFFERENT_PARALLELISM-3-5-slow",
]
"""Heavier rows that `make test` plays unaligned: with them each topology is rescaled."""


def is_light(row: Rescale, mode: str) -> bool:
    return row.weight <= LIGHT[mode] or (mode == "unaligned" and str(row) in BESIDES)


PLAYS = [
    pytest.param(row, mode, id=f"{row}-{mode}", marks=[] if is_light(row, mode) else [pytest.mark.soak])
    for mode in LIGHT
    for row in MATRIX
]


def test_all_modes_and_topologies_are_played() -> None:
    light = [(row.topology, mode) for row in MATRIX for mode in MODES if is_light(row, mode)]
    assert {mode for _, mode in light} == set(MODES) == set(LIGHT)
    assert {topology for topology, mode in light if mode == "unaligned"} == {row.topology for row in MATRIX}


@pytest.mark.spark
@pytest.mark.flink("UnalignedCheckpointRescaleITCase.shouldRescaleUnalignedCheckpoint")
@pytest.mark.usefixtures("no_thread_left")
@pytest.mark.parametrize(("row", "mode"), PLAYS)
def test_rescale_on_spark(row: Rescale, mode: str, spark: SparkSession, tmp_path: Path) -> None:
    rescale_on_spark(
        row,
        mode,
        tmp_path,
        lambda plan, path: spark_job(plan, path, tmp_path, spark=spark),
        lambda job: job.kill_worker(0),
    )
