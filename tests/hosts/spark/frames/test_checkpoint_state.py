"""`spark.read.format("checkpoint")`: the state in a checkpoint as a table of Spark, and SQL over it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.types import LongType, StructField, StructType

import kit
from kit import SparkJob
from kit.hosts.spark.frames.checkpoint_state import CheckpointState
from kit.hosts.spark.frames.output_columns import arrow_columns
from kit.stream.backend.keys.key_hashing import assign_to_key_group
from tests.flink_data import value_cases, values
from tests.hosts.spark.frames.test_spark_ui import stages
from tests.hosts.spark.jobs import LASTING, ThreadGang, await_checkpoint, read, totals_job
from tests.snapshots.written import longs

pytestmark = pytest.mark.spark

OF_5, OF_6 = (assign_to_key_group(key, 128) for key in (5, 6))
"""The key groups of two keys."""


def state(spark: SparkSession, path: object, operator: str, name: str) -> DataFrame:
    """A state as a table."""
    return spark.read.format("checkpoint").option("operator", operator).option("state", name).load(str(path))


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A savepoint of totals by key, beside the output that it covers."""
    directory = tmp_path_factory.mktemp("job")
    with SparkJob(totals_job(directory, LASTING), launch=ThreadGang) as job:
        job.start()
        await_checkpoint(job, 2)
        return Path(job.stop(directory / "savepoints"))


def test_sql_over_state_is_what_the_output_so_far_amounts_to(spark: SparkSession, savepoint: Path) -> None:
    totals = state(spark, savepoint, "totals", "totals")
    totals.createOrReplaceTempView("totals")
    found = spark.sql("SELECT key, value.total, value.n FROM totals ORDER BY key").collect()
    expected = read(savepoint.parents[1] / "copy").groupby("key")["value"].agg(["sum", "size"])
    assert [(row.key, row.total, row.n) for row in found] == list(expected.itertuples(name=None))
    assert totals.rdd.getNumPartitions() == 2, "one for each subtask's range of key groups"


def test_a_filter_for_a_key_reads_no_other_key_group(spark: SparkSession, savepoint: Path) -> None:
    spark.sparkContext.setJobDescription("the key 5")
    (row,) = state(spark, savepoint, "totals", "totals").where("key = 5 AND value.n > 0").collect()
    spark.sparkContext.setJobDescription(None)
    (reading,) = stages(spark, lambda job: job.get("description") == "the key 5")
    group = kit.open_checkpoint(savepoint).state("totals", "totals", key_groups=[row.key_group])
    assert row.value.asDict() in group["value"].to_pylist()
    assert reading["inputRecords"] == group.num_rows < 500


@pytest.mark.parametrize(
    ("filters", "groups", "left"),
    [
        ([], [range(64), range(64, 128)], 0),
        ([EqualTo(("key_group",), 3)], [[3]], 0),
        ([In(("key_group",), (3, 70))], [[3], [70]], 0),
        ([GreaterThanOrEqual(("key_group",), 126)], [[126, 127]], 0),
        ([LessThan(("key_group",), 2), GreaterThan(("key_group",), 0)], [[1]], 0),
        ([LessThanOrEqual(("key_group",), 0)], [[0]], 0),
        ([EqualTo(("key_group",), 300)], [[]], 0),
        ([EqualTo(("key",), 5)], [[OF_5]], 1),
        (
            [In(("key",), (5, 6)), EqualTo(("key_group",), assign_to_key_group(6, 128))],
            [[assign_to_key_group(6, 128)]],
            1,
        ),
        ([Not(EqualTo(("key_group",), 3))], [range(64), range(64, 128)], 1),
        ([EqualTo(("value", "n"), 3), EqualTo(("key",), "5")], [range(64), range(64, 128)], 2),
    ],
)
def test_filters_on_key_groups_and_keys_choose_key_groups(
    savepoint: Path, filters: list[Filter], groups: list[Sequence[int]], left: int
) -> None:
    source = CheckpointState({"path": str(savepoint), "operator": "totals", "state": "totals"})
    reader = source.reader(source.schema())
    assert len(list(reader.pushFilters(filters))) == left, "filters that Spark applies to the rows"
    assert [each.groups for each in reader.partitions()] == [list(each) for each in groups]


def test_a_large_subtask_is_read_in_several_partitions(tmp_path: Path) -> None:
    keys = np.arange(3_000_000, dtype=np.int64)
    source = CheckpointState({"path": str(longs(tmp_path / "large", keys)), "operator": "sums", "state": "total"})
    partitions = source.reader(source.schema()).partitions()
    assert len(partitions) == 2
    assert [group for each in partitions for group in each.groups] == list(range(128))


def test_columns_without_the_key_group_are_read_in_as_many_partitions(tmp_path: Path) -> None:
    keys = np.arange(3_000_000, dtype=np.int64)
    source = CheckpointState({"path": str(longs(tmp_path / "large", keys)), "operator": "sums", "state": "total"})
    reader = source.reader(StructType([StructField("value", LongType())]))
    partitions = reader.partitions()
    assert len(partitions) == 2
    batches = [batch for each in partitions for batch in reader.read(each)]
    assert {tuple(batch.schema.names) for batch in batches} == {("value",)}
    assert sum(batch.num_rows for batch in batches) == len(keys)


PLANNED = """
import pickle, sys
from pyspark.sql.types import LongType, StructField, StructType
from kit.hosts.spark.frames.checkpoint_state import CheckpointState

source = pickle.loads(pickle.dumps(CheckpointState({"path": sys.argv[1], "operator": "sums", "state": "total"})))
reader = source.reader(StructType([StructField("key_group", LongType())]))
assert len(reader.partitions()) == 1
print(*sys.modules)
"""
"""What Spark does in a new process for each query."""


def test_planning_a_query_imports_nothing_that_decodes_state(tmp_path: Path) -> None:
    folder = longs(tmp_path / "small", np.arange(10, dtype=np.int64))
    ran = subprocess.run([sys.executable, "-c", PLANNED, str(folder)], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert "kit.snapshots.checkpoints.located" in imported
    assert imported & {"kit.snapshots.checkpoints.checkpoint", "kit.stream.api", "kit.advice"} == set()


def test_every_state_that_flink_wrote_is_a_table() -> None:
    version, case = value_cases()[-1]
    (path,) = {meta.parent for meta in (values(version) / case).rglob("_metadata")}
    checkpoint = kit.open_checkpoint(path)
    known = checkpoint.states[checkpoint.states["error"] == ""]
    for operator, name in known[["operator", "name"]].itertuples(index=False):
        source = CheckpointState({"path": str(path), "operator": operator, "state": name})
        reader = source.reader(source.schema())
        rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
        expected = checkpoint.state(operator, name)
        expected = expected.cast(arrow_columns(expected.schema), safe=False)
        assert sorted(map(str, rows)) == sorted(map(str, expected.to_pylist())), (operator, name)


def test_what_is_missing_is_named(savepoint: Path) -> None:
    with pytest.raises(ValueError, match=r"needs 'operator' and 'state'.*\.option\('operator', uid\)"):
        CheckpointState({"path": str(savepoint)}).schema()
    with pytest.raises(KeyError, match=r"there is no operator 'sums'; there are"):
        CheckpointState({"path": str(savepoint), "operator": "sums", "state": "totals"}).schema()
    with pytest.raises(KeyError, match=r"operator 'totals' has no state 'sums'; it has totals"):
        CheckpointState({"path": str(savepoint), "operator": "totals", "state": "sums"}).schema()


def test_keys_and_key_groups_are_declared_without_nulls(tmp_path: Path) -> None:
    folder = longs(tmp_path / "few", np.arange(3, dtype=np.int64))
    columns = CheckpointState({"path": str(folder), "operator": "sums", "state": "total"}).schema()
    assert {each.name: each.nullable for each in columns} == {"key_group": False, "key": False, "value": True}


def test_nulls_in_a_column_that_was_declared_without_are_an_error(tmp_path: Path) -> None:
    folder = longs(tmp_path / "few", np.arange(3, dtype=np.int64))
    source = CheckpointState({"path": str(folder), "operator": "sums", "state": "total"})
    note = StructField("note", LongType(), nullable=False)
    reader = source.reader(StructType([StructField("key", LongType()), note]))
    (part,) = reader.partitions()
    with pytest.raises(ValueError, match="column 'note' was declared NOT NULL and has 1 nulls in 1 rows"):
        list(reader.read(part))
