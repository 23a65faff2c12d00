"""The matrix on Spark itself, in every mode: processes, sockets, SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.unaligned.jobs import MODES
from tests.unaligned.matrix import MATRIX, Rescale
from tests.unaligned.spark_runner import rescale_on_spark, spark_job

PLAYED = {
    "unaligned": [
        "PIPELINE-3-2",
        "UNION-1-1",
        "UNION-2-1",
        "MULTI_INPUT-1-2",
        "CUSTOM_PARTITIONER-3-2",
        "BROADCAST-2-5",
        "KEYED_BROADCAST-3-5-slow",
        "KEYED_DIFFERENT_PARALLELISM-3-5-slow",
    ],
    "unaligned_after_timeout": ["PIPELINE-2-1"],
    "at_least_once": ["PIPELINE-1-2"],
    "exactly_once": ["PIPELINE-2-1"],
}
"""What `make test` plays: each topology unaligned, with more subtasks, fewer and as many, and a row in each other mode.

How a rescale deals out what was in flight is the machines' own affair, and in the lab they go through many more rows
(`test_matrix`). All 196 plays take half an hour, and only the `soak` has them.
"""


PLAYS = [
    pytest.param(row, mode, id=f"{row}-{mode}", marks=[] if str(row) in PLAYED[mode] else [pytest.mark.soak])
    for mode in MODES
    for row in MATRIX
]


def test_all_modes_and_topologies_are_played() -> None:
    assert set(PLAYED) == set(MODES)
    assert all(PLAYED.values())
    rows = {str(row): row for row in MATRIX}
    unaligned = [rows[name] for name in PLAYED["unaligned"]]
    assert {row.topology for row in unaligned} == {row.topology for row in MATRIX}
    assert {(row.new > row.old) - (row.new < row.old) for row in unaligned} == {-1, 0, 1}
    assert {name for names in PLAYED.values() for name in names} <= set(rows)


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
        lambda job: job.faults.kill(0),
    )
