"""A type that cannot be restored is rejected where it is declared: one message names it and an alternative."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ParquetSink,
    StreamEnvironment,
    ValueStateDescriptor,
)
from kit.core.state.errors import StateDescriptorError
from kit.stream.api.datastream import DataStream
from kit.stream.operators.spec import SchemaError

UNION = pa.dense_union([pa.field("i", pa.int64()), pa.field("s", pa.string())])
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("either", UNION),
        ("half", pa.float16()),
        ("at", pa.time64("ns")),
        ("every", pa.month_day_nano_interval()),
        ("id", pa.uuid()),
        ("text", pa.string_view()),
        ("runs", pa.run_end_encoded(pa.int32(), pa.string())),
    ]
)
NS = pa.time64("ns")

DESCRIPTORS: list[tuple[Callable[[], Any], str]] = [
    (lambda: ValueStateDescriptor("s", UNION), "State 's': type dense_union<i: int64=0, s: string=1> cannot be kept"),
    (lambda: ValueStateDescriptor("s", pa.null()), "it has no values; use the type of what is to be kept"),
    (
        lambda: ListStateDescriptor("s", pa.list_(NS)),
        "element_type list<item: time64[ns]> cannot be kept: Python's time",
    ),
    (lambda: ValueStateDescriptor("s", pa.uuid()), "use fixed_size_binary[16] for extension<arrow.uuid>"),
    (lambda: MapStateDescriptor("s", pa.list_(pa.int8()), pa.int8()), "the keys of a map cannot be list<item: int8>"),
    (
        lambda: ValueStateDescriptor("s", pa.struct([("a", pa.int8()), ("a", pa.int8())])),
        "two fields of the struct are named 'a'; give one of them another name",
    ),
]
STREAMS: list[tuple[Callable[[DataStream, Path], Any], str]] = [
    (
        lambda s, _: s.key_by("half"),
        "key_by: column 'half': Arrow type halffloat cannot be a key: use integers",
    ),
    (lambda s, _: s.key_by("n", "every"), "key_by: column 'every': Arrow type month_day_nano_interval cannot be a key"),
    (lambda s, _: s.key_by("at").process(KeyedProcessFunction, {"n": pa.int64()}), "cast it to time64('us') before"),
    (lambda s, _: s.map(dict), "map: no function of rows can make column 'either' of dense_union"),
    (
        lambda s, _: s.map(dict, {"at": NS}),
        "map: no function of rows can make column 'at' of time64[ns]: Python's time",
    ),
    (lambda s, _: s.select("n", "at").key_by("n").reduce(max), "reduce: column 'at' is time64[ns], and reduce keeps"),
    (lambda s, _: s.key_by("n").reduce(max), "reduce: column 'either' is dense_union"),
    (
        lambda s, _: s.map(dict, {"t": pa.string_view()}),
        "map: column 't' cannot be string_view: Arrow cannot pick rows",
    ),
    (lambda s, _: OutputTag("late", {"t": pa.binary_view()}), "OutputTag('late'): column 't' cannot be binary_view"),
    (
        lambda s, path: s.sink_to(ParquetSink(str(path / "out"))),
        "ParquetSink: column 'either' is dense_union<i: int64=0, s: string=1>, which a Parquet file cannot hold",
    ),
]


def stream() -> DataStream:
    rows = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in SCHEMA], schema=SCHEMA)
    return StreamEnvironment().from_source(CollectionSource(rows))


@pytest.mark.parametrize(("declare", "said"), DESCRIPTORS, ids=[said for _, said in DESCRIPTORS])
def test_a_state_that_a_checkpoint_could_not_give_back(declare: Callable[[], Any], said: str) -> None:
    with pytest.raises(StateDescriptorError) as refused:
        declare()
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 6


@pytest.mark.parametrize(("declare", "said"), STREAMS, ids=[said for _, said in STREAMS])
def test_a_column_that_would_not_arrive(declare: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as refused:
        declare(stream(), tmp_path)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 6


def test_views_and_runs_become_plain_columns_where_they_are_read() -> None:
    found = stream()
    assert found.schema.field("text").type == pa.string()
    assert found.schema.field("runs").type == pa.string()
    found.select("text", "runs").sink_to(CollectSink())
