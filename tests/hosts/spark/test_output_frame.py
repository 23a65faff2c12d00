"""Rows of a sink as a DataFrame: no value changes on the way, in the lab and on Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kit import CheckpointConfig, CollectionSource, Lab, ParquetSink, SparkJob, StreamEnvironment
from kit.files.output_frame import output_frame

BIG = (1 << 53) + 1
"""The least integer that no floating-point number has."""
VALUES: dict[str, tuple[pa.Array, Any]] = {
    "int8": (pa.array([1, None], pa.int8()), "Int8"),
    "int64": (pa.array([BIG, None]), "Int64"),
    "uint64": (pa.array([(1 << 64) - 1, None], pa.uint64()), "UInt64"),
    "bool": (pa.array([True, None]), "boolean"),
    "float": (pa.array([1.5, None]), "Float64"),
    "half": (pa.array([1.5, None], pa.float16()), None),
    "time of day": (pa.array([1, None], pa.time64("ns")), None),
    "list": (pa.array([[BIG, None], None]), None),
    "struct": (pa.array([{"a": BIG}, {"a": None}]), None),
    "map": (pa.array([[("k", BIG), ("l", None)], None], pa.map_(pa.string(), pa.int64())), None),
    "list of structs": (pa.array([[{"a": BIG}], [{"a": None}]]), None),
    "list view": (pa.array([[BIG, None], None], pa.list_view(pa.int64())), None),
    "nanoseconds in a struct": (pa.array([{"a": 1}, None], pa.struct([("a", pa.timestamp("ns"))])), None),
    "nanoseconds": (pa.array([1, None], pa.timestamp("ns")), "datetime64[ns]"),
    "duration": (pa.array([1, None], pa.duration("us")), "timedelta64[us]"),
    "date": (pa.array([dt.date(1, 1, 1), None]), "object"),
    "text": (pa.array(["a", None]), "object"),
    "int64 without null": (pa.array([BIG, 1]), "int64"),
    "float without null": (pa.array([float("inf"), 0.1]), "float64"),
    "list without null": (pa.array([[1], [2]]), "object"),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_value_changes(name: str) -> None:
    array, dtype = VALUES[name]
    found = output_frame(pa.table({"a": array, "b": [1, 2]}))
    assert pa.array(found["a"], array.type, from_pandas=True).equals(array)
    assert found["a"].dtype == (dtype or pd.ArrowDtype(array.type))
    assert found["b"].dtype == "int64"
    assert list(found.columns) == ["a", "b"]


def test_parts_with_and_without_nulls_are_one_column() -> None:
    found = output_frame(pa.table({"a": pa.chunked_array([[1, 2], [None, BIG], []], pa.int64())}))
    assert found["a"].tolist() == [1, 2, pd.NA, BIG]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (pa.timestamp("us"), False),
        (pa.timestamp("ns"), True),
        (pa.struct([("a", pa.int64()), ("at", pa.timestamp("ns"))]), True),
        (pa.list_(pa.struct([("at", pa.timestamp("ns"))])), True),
        (pa.map_(pa.string(), pa.timestamp("ns")), True),
        (pa.struct([("at", pa.timestamp("us")), ("for", pa.duration("us"))]), False),
        (pa.struct([("for", pa.duration("ms"))]), True),
    ],
)
def test_nanoseconds_anywhere_in_a_column_are_left_to_arrow(kind: pa.DataType, wanted: bool) -> None:
    from kit.hosts.spark.frames.output_columns import only_arrow_reads

    other = pa.field("n", pa.int64())
    for columns in ([other, pa.field("x", kind)], [pa.field("x", kind), other]):
        assert only_arrow_reads(pa.schema(columns)) is wanted


def copy_job(rows: pa.Table, directory: Path, **sink: Any) -> StreamEnvironment:
    """A job that copies rows, in partitions of two."""
    env = StreamEnvironment("copy", checkpoint=CheckpointConfig(interval_ms=20, directory=str(directory / "chk")))
    stream = env.from_source(CollectionSource(rows, batch_rows=1), uid="rows")
    kept = stream.filter(pc.field("at") >= 0).uid("kept")
    kept.sink_to(ParquetSink(directory / "out", **sink), uid="out")
    return env


def outputs(env: StreamEnvironment, spark: Any) -> list[pd.DataFrame]:
    """Return the output in the lab, and on Spark."""
    lab = Lab(env)
    lab.run()
    with SparkJob(env, spark) as job:
        job.start().wait()
        return [lab.output("out"), job.output("out")]


@pytest.mark.spark
def test_a_null_changes_no_other_number_on_both_hosts(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"at": [1, 2, 3], "n": [BIG, None, BIG + 2], "inside": [{"n": BIG}, {"n": None}, {"n": 3}]})
    for found in outputs(copy_job(rows, tmp_path), spark):
        assert sorted(found["n"].dropna().tolist()) == [BIG, BIG + 2]
        assert found["n"].isna().sum() == 1
        assert sorted(str(each["n"]) for each in found["inside"]) == ["3", str(BIG), "None"]


@pytest.mark.spark
@pytest.mark.parametrize("sink", [{}, {"partition_by": "at"}], ids=["plain", "in partitions"])
def test_an_empty_output_keeps_its_columns_on_both_hosts(sink: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"at": [-1, -2], "n": [BIG, None], "word": ["a", "b"]})
    for found in outputs(copy_job(rows, tmp_path, **sink), spark):
        assert list(found.columns) == (["n", "word", "at"] if sink else ["at", "n", "word"])
        assert len(found) == 0
        assert found["n"].dtype == "int64"
