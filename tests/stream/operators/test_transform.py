"""Map, filter, flat map and columns: their output, and their errors."""

from __future__ import annotations

import copy

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kit.stream.operators.spec import SchemaError, UserFunctionError
from kit.stream.operators.transform import Filter, FlatMap, Map, MapBatches, Rename, Select, WithColumn
from tests.stream.operators.harness import Harness

FLIGHTS = pa.schema([("carrier", pa.string()), ("delay", pa.int64())])
SOME = [{"carrier": "UA", "delay": 5}, {"carrier": "AA", "delay": -3}, {"carrier": "B6", "delay": None}]
HOURS = pa.schema([("hours", pa.float64())])


def test_map_makes_one_row_of_each() -> None:
    harness = Harness(Map(FLIGHTS, lambda row: {"hours": row["delay"] and row["delay"] / 60}, HOURS))
    assert harness.process(SOME) == [{"hours": 5 / 60}, {"hours": -0.05}, {"hours": None}]


def test_flat_map_makes_any_number_of_rows() -> None:
    harness = Harness(FlatMap(FLIGHTS, lambda row: [row] * (row["delay"] or 0), FLIGHTS))
    assert harness.process(SOME) == [SOME[0]] * 5


def test_map_batches_works_on_whole_batches() -> None:
    double = MapBatches(FLIGHTS, lambda batch: batch.set_column(1, "delay", pc.multiply(batch["delay"], 2)))
    assert [row["delay"] for row in Harness(double).process(SOME)] == [10, -6, None]


@pytest.mark.parametrize(
    "spec",
    [
        Filter(FLIGHTS, pc.field("delay") > 0),
        Filter(FLIGHTS, lambda row: (row["delay"] or 0) > 0),
        Filter(FLIGHTS, lambda batch: pc.greater(batch["delay"], 0), batched=True),
    ],
)
def test_filter_keeps_what_is_true(spec) -> None:
    harness = Harness(spec)
    assert harness.process(SOME) == SOME[:1]
    assert harness.process(SOME[1:]) == []
    assert len(harness.output.elements) == 1


def test_columns_are_picked_renamed_and_added() -> None:
    assert Harness(Select(FLIGHTS, ("delay",))).process(SOME[:1]) == [{"delay": 5}]
    assert Harness(Rename(FLIGHTS, {"delay": "late"})).process(SOME[:1]) == [{"carrier": "UA", "late": 5}]
    added = WithColumn(FLIGHTS, "twice", pc.field("delay") * 2)
    assert added.output_schema == pa.schema([*FLIGHTS, ("twice", pa.int64())])
    assert Harness(added).process(SOME[:1]) == [{"carrier": "UA", "delay": 5, "twice": 10}]
    replaced = WithColumn(FLIGHTS, "delay", lambda batch: pc.fill_null(batch["delay"], 0), pa.int32())
    assert replaced.output_schema == pa.schema([("carrier", pa.string()), ("delay", pa.int32())])
    assert [row["delay"] for row in Harness(replaced).process(SOME)] == [5, -3, 0]


def fail(_):
    raise KeyError("tail")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Map(FLIGHTS, fail, FLIGHTS, name="enrich"), r"enrich: function .*fail failed on row \{'carrier': 'UA'"),
        (FlatMap(FLIGHTS, fail, FLIGHTS), r"FlatMap: .*fail failed on row \{'carrier': 'UA', 'delay': 5\}: KeyError"),
        (Filter(FLIGHTS, fail), r"Filter: .*fail failed on row \{'carrier': 'UA'"),
        (Filter(FLIGHTS, fail, batched=True), r"Filter: .*fail failed on a batch of 3 rows, the first being"),
        (MapBatches(FLIGHTS, fail), r"MapBatches: .* a batch of 3 rows, the first being \{'carrier': 'UA'"),
        (WithColumn(FLIGHTS, "x", fail, pa.int8()), r"WithColumn: function .*fail failed on a batch of 3 rows"),
        (WithColumn(FLIGHTS, "x", lambda batch: [1], pa.int8()), "expected as many values of type int8"),
        (WithColumn(FLIGHTS, "x", lambda batch: ["a"] * 3, pa.int8()), "expected as many values of type int8"),
        (
            Map(FLIGHTS, lambda row: {"hours": row["carrier"]}, HOURS),
            r"row \{'carrier': 'UA', 'delay': 5\}, of which it made \{'hours': 'UA'\}",
        ),
        (Map(FLIGHTS, lambda row: None, HOURS), "of which it made None"),
        (FlatMap(FLIGHTS, lambda row: 7, HOURS), "TypeError"),
        (Filter(FLIGHTS, lambda batch: [True], batched=True), "expected as many booleans"),
        (MapBatches(FLIGHTS, lambda batch: batch.select([0])), "it returned carrier: string, expected a record batch"),
        (MapBatches(FLIGHTS, lambda batch: None), "it returned NoneType"),
    ],
)
def test_a_function_that_fails_is_named_with_its_row(spec, said) -> None:
    with pytest.raises(UserFunctionError, match=said):
        Harness(spec).process(SOME)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Select(FLIGHTS, ("tail",)), "Select: there is no column 'tail'; the columns are 'carrier', 'delay'"),
        (lambda: Select(FLIGHTS, ("delay", "delay")), "two output columns are named 'delay'"),
        (lambda: Rename(FLIGHTS, {"tail": "x"}), "no column 'tail'"),
        (lambda: Rename(FLIGHTS, {"delay": "carrier"}), "two output columns are named 'carrier'"),
        (lambda: Filter(FLIGHTS, pc.field("tail") > 0), r"Filter: \(tail > 0\) does not fit"),
        (lambda: Filter(FLIGHTS, pc.field("delay") + 1), "evaluates to int64"),
        (lambda: WithColumn(FLIGHTS, "x", pc.field("tail")), "tail does not fit"),
        (lambda: WithColumn(FLIGHTS, "x", fail), "the type of column 'x' is not known; give it as `type`"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(make, said) -> None:
    with pytest.raises(SchemaError, match=said):
        make()


def test_specs_have_short_reprs_and_are_not_copied() -> None:
    spec = Select(FLIGHTS, ("delay",), name="only delays")
    assert repr(spec) == "Select('only delays')"
    assert repr(Select(FLIGHTS, ("delay",))) == "Select"
    assert copy.deepcopy(spec) is spec


PAIRS = pa.schema([("a", pa.int64()), ("b", pa.string())])


def test_a_function_of_arguments_gives_tuples() -> None:
    spec = Map(PAIRS, lambda b, a: (a + 1, b * a), PAIRS, ("b", "a"))
    assert Harness(spec).process([{"a": 2, "b": "x"}, {"a": 0, "b": "y"}]) == [{"a": 3, "b": "xx"}, {"a": 1, "b": ""}]
    one = Map(PAIRS, len, pa.schema([("length", pa.int64())]), ("b",))
    assert Harness(one).process([{"a": 2, "b": "xyz"}, {"a": 0, "b": ""}]) == [{"length": 3}, {"length": 0}]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda a: 1 // a, r"failed on row \{'a': 0, 'b': 'y'\}: ZeroDivisionError"),
        (lambda a: (a, next(iter("x" * a))), r"failed on row \{'a': 0, 'b': 'y'\}: StopIteration"),
        (lambda a: [a, "z"], r"made \[2, 'z'\]\n  expected a tuple .* in this order: a: int64, b: string"),
        (lambda a: (a,) * (2 - a), r"row \{'a': 2, 'b': 'x'\}, of which it made \(\)\n  expected a tuple"),
        (lambda a: (a, a), r"column 'b' is string, and 2 \(int\) does not fit"),
    ],
)
def test_what_does_not_fit_names_function_and_row(made, said) -> None:
    with pytest.raises(UserFunctionError, match=said):
        Harness(Map(PAIRS, made, PAIRS, ("a",))).process([{"a": 2, "b": "x"}, {"a": 0, "b": "y"}])


def test_arguments_are_columns_that_are_there() -> None:
    with pytest.raises(SchemaError, match="there is no column 'c'"):
        Map(PAIRS, len, PAIRS, ("c",))


def test_rows_without_columns_are_rows() -> None:
    one = Map(pa.schema([]), lambda row: {"one": len(row) + 1}, pa.schema([("one", pa.int64())]))
    batch = pa.RecordBatch.from_pylist([{"a": 2, "b": "x"}, {"a": 0, "b": "y"}], schema=PAIRS).select([])
    assert batch.num_rows == 2
    assert Harness(one).process(batch) == [{"one": 1}, {"one": 1}]
