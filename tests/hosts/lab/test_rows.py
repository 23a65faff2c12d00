"""Rows that a user's function makes have the columns that the stream has, or one error says which they have not."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kit import (
    CollectionSource,
    CollectSink,
    CoProcessFunction,
    GeneratorSource,
    KeyedBatchFunction,
    KeyedProcessFunction,
    Lab,
    OutputTag,
    ProcessFunction,
    StreamEnvironment,
    TumblingEventTimeWindows,
)
from kit.stream.api import DataStream, OperatorStream
from tests.hosts.lab.jobs import failure, output_of_failed

ROWS = [{"carrier": "AA", "delay": 5, "at": 1_000}, {"carrier": "UA", "delay": 7, "at": 2_000}]
LATE = OutputTag("late", {"carrier": pa.string()})
Build = Callable[[OperatorStream], Any]


def made_lab(build: Build, rows: Any = ROWS) -> Lab:
    env = StreamEnvironment("rows")
    stream = env.from_source(rows if isinstance(rows, GeneratorSource) else CollectionSource(rows), uid="rows")
    made: DataStream = build(stream)
    made.sink_to(CollectSink("out"), uid="out")
    return Lab(env)


def run(build: Build, rows: Any = ROWS) -> Lab:
    lab = made_lab(build, rows)
    lab.run()
    return lab


def error_of(build: Build, rows: Any = ROWS) -> str:
    lab = made_lab(build, rows)
    error = failure(lab)
    assert output_of_failed(lab, "out").empty
    return error


def short(row: dict[str, Any]) -> dict[str, Any]:
    return {"carrier": row["carrier"], "at": row["at"]}


def wide(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"hours": row["delay"] / 60}


def vague(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"delay": "late"}


class Emits(ProcessFunction):
    make = staticmethod(short)

    def process_element(self, row, ctx):
        ctx.emit(self.make(row))


class KeyedEmits(KeyedProcessFunction):
    make = staticmethod(short)

    def process_element(self, row, ctx):
        ctx.emit(self.make(row))


class CoEmits(CoProcessFunction):
    def process_element1(self, row, ctx):
        ctx.emit(row)

    def process_element2(self, row, ctx):
        ctx.emit(short(row))


class SetsAside(ProcessFunction):
    def process_element(self, row, ctx):
        ctx.output(LATE, row)


class Batches(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        ctx.emit({name: batch[name] for name in ("carrier", "at")})


class WideBatches(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        ctx.emit(dict(zip(batch.schema.names, batch.columns, strict=True)) | {"hours": batch["delay"]})


def windowed(stream: OperatorStream) -> Any:
    return stream.assign_timestamps("at").key_by("carrier").window(TumblingEventTimeWindows(10_000))


TWICE = [*ROWS, *ROWS]

MISSING: dict[str, Build] = {
    "map": lambda s: s.map(short),
    "flat_map": lambda s: s.flat_map(lambda row: [row, short(row)]),
    "process": lambda s: s.process(Emits),
    "keyed process": lambda s: s.key_by("carrier").process(KeyedEmits),
    "co-process": lambda s: s.connect(s.rebalance()).process(CoEmits),
    "reduce": lambda s: s.key_by("carrier").reduce(lambda a, b: short(b)),
    "window reduce": lambda s: windowed(s).reduce(lambda a, b: short(b)),
    "window process": lambda s: windowed(s).process(lambda key, window, rows: map(short, rows)),
    "process_batches": lambda s: s.key_by("carrier").process_batches(Batches),
    "map with returns": lambda s: s.map(short, s.schema),
}


@pytest.mark.parametrize("build", MISSING.values(), ids=MISSING)
def test_a_column_that_is_missing_is_one_clear_error(build: Build) -> None:
    error = error_of(build, TWICE)
    assert "there is no column 'delay'" in error
    assert "'carrier', 'at'" in error
    assert len(error.splitlines()) <= 6


WIDER: dict[str, Build] = {
    "map": lambda s: s.map(wide),
    "flat_map": lambda s: s.flat_map(lambda row: [wide(row)]),
    "process": lambda s: s.process(type("Wide", (Emits,), {"make": staticmethod(wide)})),
    "keyed process": lambda s: s.key_by("at").process(type("Wide", (KeyedEmits,), {"make": staticmethod(wide)})),
    "reduce": lambda s: s.key_by("carrier").reduce(lambda a, b: wide(b)),
    "window reduce": lambda s: windowed(s).reduce(lambda a, b: wide(b)),
    "window process": lambda s: windowed(s).process(lambda key, window, rows: map(wide, rows)),
    "process_batches": lambda s: s.key_by("carrier").process_batches(WideBatches),
    "map with returns": lambda s: s.map(wide, s.schema),
}


@pytest.mark.parametrize("build", WIDER.values(), ids=WIDER)
def test_a_column_that_is_new_is_one_clear_error(build: Build) -> None:
    error = error_of(build, TWICE)
    assert "column 'hours' is not among those declared" in error
    assert len(error.splitlines()) <= 6


def test_the_error_says_who_made_the_row_of_what_and_how_to_say_its_columns() -> None:
    error = error_of(lambda s: s.map(wide).name("to hours"))
    row = "{'carrier': 'AA', 'delay': 5, 'at': 1000}"
    assert f"to hours: function tests.hosts.lab.test_rows.wide failed on row {row}" in error
    assert "of which it made {'carrier': 'AA', 'delay': 5, 'at': 1000, 'hours': 0.083" in error
    assert "it has 'carrier', 'delay', 'at', 'hours'; declared are carrier: string, delay: int64, at: int64" in error
    assert 'returns={"carrier": pa.string(), "delay": pa.int64(), "at": pa.int64(), "hours": pa.float64()}' in error


def test_what_is_proposed_as_returns_is_what_mends_it() -> None:
    columns = {"carrier": pa.string(), "delay": pa.int64(), "at": pa.int64(), "hours": pa.float64()}
    lab = run(lambda s: s.map(wide, returns=columns))
    assert lab.output("out")["hours"].tolist() == [5 / 60, 7 / 60]


@pytest.mark.parametrize("build", [lambda s: s.map(vague), lambda s: s.flat_map(lambda row: [row, vague(row)])])
def test_a_value_that_does_not_fit_is_named_with_its_column(build: Build) -> None:
    error = error_of(build)
    assert "column 'delay' is int64, and 'late' (str) does not fit" in error
    assert "returns=" in error
    assert len(error.splitlines()) <= 6


def test_a_side_output_has_the_columns_of_its_tag() -> None:
    error = error_of(lambda s: s.process(SetsAside).side_output(LATE))
    assert "column 'delay' is not among those declared" in error
    assert "OutputTag('late', ...)" in error


def test_a_row_may_be_any_mapping_in_any_order_and_none_is_a_value() -> None:
    lab = run(lambda s: s.map(lambda row: MappingProxyType({"at": None, "delay": None, "carrier": row["carrier"]})))
    assert lab.output("out")["carrier"].tolist() == ["AA", "UA"]
    assert lab.output("out")[["at", "delay"]].isna().all(axis=None)


PLACE = {"at": {"lat": 1.0, "lon": 2.0}, "stops": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"at": {"lat": 1.0}}, "column 'at' is struct<lat: double, lon: double>, and a dict in it has the keys 'lat'"),
        ({"at": {"lat": 1.0, "lon": 2.0, "alt": 3.0}}, "a dict in it has the keys 'lat', 'lon', 'alt'"),
        (
            {"stops": [{"name": "b"}, {"nam": "c"}]},
            "column 'stops' is list<item: struct<name: string>>, and a dict in ",
        ),
    ],
)
def test_dicts_within_a_row_are_held_to_their_columns_too(made: dict[str, Any], said: str) -> None:
    assert said in error_of(lambda s: s.map(lambda row: row | made), [PLACE])
    rows = [PLACE, {"at": None, "stops": []}, {"at": {"lat": None, "lon": None}, "stops": [None]}]
    assert len(run(lambda s: s.map(dict), rows).output("out")) == 3


def test_none_in_a_column_that_never_has_one_is_an_error_of_the_function() -> None:
    error = error_of(lambda s: s.map(lambda row: row | {"value": None}), GeneratorSource(10, key_count=2))
    assert "column 'value' is int64 not null, and None does not fit" in error


@pytest.mark.parametrize("made", [None, 7, ["carrier"], "AA"])
def test_what_is_no_row_is_said(made: Any) -> None:
    error = error_of(lambda s: s.map(lambda row: made))
    assert f"made {made!r}" in error
    assert "a dict" in error


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"a": 1, "b": 2}, {"a": 3}], r"row 1 has the columns 'a', but row 0 has 'a', 'b'"),
        ([{"a": 1}, {"a": 3}, {"a": 4, "b": 2}], r"row 2 has the columns 'a', 'b', but row 0 has 'a'"),
    ],
)
def test_rows_given_by_hand_all_have_the_same_columns(rows: list[dict[str, int]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CollectionSource(rows)


def test_tables_are_rows_given_by_hand_too() -> None:
    frame = pd.DataFrame({"carrier": ["AA", "UA", "B6"], "delay": [5, 7, 9]})
    for rows in (frame, frame[frame["delay"] > 5], pa.table(frame), pa.Table.from_pandas(frame[:0])):
        assert CollectionSource(rows).schema.names == ["carrier", "delay"]
    assert run(lambda s: s, frame).output("out").to_dict("list") == frame.to_dict("list")
    columns = pa.schema([("delay", pa.int32())])
    assert CollectionSource(frame, columns).schema == columns
    with pytest.raises(ValueError, match="row 0 has no columns"):
        CollectionSource([{}])


def test_rows_given_by_hand_have_the_columns_said() -> None:
    with pytest.raises(ValueError, match=r"row 0 has the columns 'a', 'c', but `columns` are 'a', 'b'"):
        CollectionSource([{"a": 1, "c": 2}], pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    with pytest.raises(ValueError, match=r"CollectionSource: row 1, column 'a': 'x' \(str\) does not fit int64"):
        CollectionSource([{"a": 1}, {"a": "x"}])
