"""Every aggregate of every type that it accepts equals Python's result, for any batches and failures."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateOverflowError
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.operators.aggregate import KeyedAggregate
from kit.stream.operators.aggregates import avg, count, max_, min_, sum_
from kit.stream.operators.spec import SchemaError, keys_of
from kit.stream.operators.windows.window import WindowAggregate
from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows
from tests.properties import examples
from tests.stream.operators.harness import Harness, restored

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    """All decimals of this many digits, small and large ones alike."""
    most = 10**precision - 1
    numbers = st.integers(-most, most) | st.integers(-200, 200).filter(lambda n: abs(n) <= most)
    return numbers.map(lambda number: EXACT.scaleb(Decimal(number), -scale))


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


floats = st.floats(width=32) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])
NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), integers(8, True)),
    "int32": (pa.int32(), integers(32, True)),
    "int64": (pa.int64(), integers(60, True)),
    "uint16": (pa.uint16(), integers(16, False)),
    "uint64": (pa.uint64(), integers(59, False)),
    "float32": (pa.float32(), floats),
    "float64": (pa.float64(), floats),
    "float16": (pa.float16(), st.floats(width=16)),
    "money": (pa.decimal128(10, 2), decimals(10, 2)),
    "decimal128(38)": (pa.decimal128(38, 30), decimals(30, 30)),
    "decimal128 of tens": (pa.decimal128(5, -2), decimals(5, -2)),
    "decimal32": (pa.decimal32(7, 3), decimals(7, 3)),
    "decimal64": (pa.decimal64(18, 0), decimals(18, 0)),
    "decimal256": (pa.decimal256(45, 5), decimals(45, 5)),
    "decimal256(76)": (pa.decimal256(76, 5), decimals(60, 5)),
}
ORDERED: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    **{name: kind for name, kind in NUMBERS.items() if name != "float16"},
    "string": (pa.string(), st.text("aé𝄞b", max_size=3)),
    "large_string": (pa.large_string(), st.text(max_size=3)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "binary(2)": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.text("ab", max_size=2)),
    "bool": (pa.bool_(), st.booleans()),
    "date32": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "time64": (pa.time64("us"), st.times()),
    "duration": (pa.duration("ms"), st.integers(-(10**9), 10**9).map(lambda ms: dt.timedelta(milliseconds=ms))),
}


def least(values: list[Any]) -> Any:
    numbers = [value for value in values if not is_nan(value)]
    return min(numbers, key=in_order) if numbers else math.nan


def greatest(values: list[Any]) -> Any:
    return max(values, key=in_order) if not any(map(is_nan, values)) else math.nan


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def in_order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def total(values: list[Any]) -> Any:
    if isinstance(values[0], Decimal):
        result = Decimal(0)
        for value in values:
            result = EXACT.add(result, value)
        return result
    result = 0.0 if isinstance(values[0], float) else 0
    for value in values:
        result += value
    return result


def mean(values: list[Any], result: pa.DataType) -> Any:
    if isinstance(values[0], Decimal):
        unit = Decimal(1).scaleb(-result.scale)
        return EXACT.divide(total(values), Decimal(len(values))).quantize(unit, context=EXACT)
    return float(total(values)) / len(values)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return bool(found == expected)


def runs(spec: KeyedAggregate, batch: pa.RecordBatch, data: st.DataObject) -> list[dict[str, Any]]:
    """Return the last row emitted for each key, for batches of any size with failures and rescales between them."""
    subtasks = [Harness(spec)]
    latest: dict[Any, dict[str, Any]] = {}
    at = 0
    while at < batch.num_rows:
        rows = data.draw(st.integers(1, batch.num_rows - at))
        for subtask in subtasks:
            for row in subtask.process(of_subtask(batch.slice(at, rows), subtask, spec)):
                latest[row["k"]] = row
        if data.draw(st.booleans()):
            subtasks = restored(spec, [subtask.snapshot() for subtask in subtasks], data.draw(st.integers(1, 3)))
        at += rows
    return list(latest.values())


def of_subtask(batch: pa.RecordBatch, harness: Harness, spec: KeyedAggregate) -> pa.RecordBatch:
    groups = key_groups(keys_of(batch, spec.keys), harness.max_parallelism)
    mine = (groups >= harness.key_group_range.start) & (groups <= harness.key_group_range.end)
    return batch.filter(pa.array(mine, pa.bool_()))


def rows_of(arrow_type: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject) -> pa.RecordBatch:
    keys = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
    column = [data.draw(st.none() | values) for _ in keys]
    return pa.record_batch([pa.array(keys), pa.array(column, arrow_type)], names=["k", "v"])


def given_values(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """The values of each key that are not null, as Arrow holds them, smaller floats as doubles."""
    by_key: dict[str, list[Any]] = {}
    for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        by_key.setdefault(key, [])
        if value is not None:
            by_key[key].append(float(value) if isinstance(value, np.floating) else value)
    return by_key


@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_sums_and_means_are_exact_for_any_batches_failures_and_rescales(name: str, data: st.DataObject) -> None:
    arrow_type, values = NUMBERS[name]
    batch = rows_of(arrow_type, values, data)
    spec = KeyedAggregate(batch.schema, "k", (sum_("v"), avg("v"), count("v")))
    mean_type = spec.output_schema.field("avg_v").type
    for row in runs(spec, batch, data):
        known = given_values(batch)[row["k"]]
        assert row["count_v"] == len(known)
        if not known:
            assert row["sum_v"] is None
            assert row["avg_v"] is None
            continue
        assert same(row["sum_v"], total(known))
        assert same(row["avg_v"], mean(known, mean_type))


@pytest.mark.parametrize("name", ORDERED)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_least_and_the_greatest_are_so_for_any_batches_failures_and_rescales(
    name: str, data: st.DataObject
) -> None:
    arrow_type, values = ORDERED[name]
    batch = rows_of(arrow_type, values, data)
    for row in runs(KeyedAggregate(batch.schema, "k", (min_("v"), max_("v"))), batch, data):
        known = given_values(batch)[row["k"]]
        assert same(row["min_v"], least(known) if known else None)
        assert same(row["max_v"], greatest(known) if known else None)


@pytest.mark.parametrize("name", ["money", "string", "uint64", "float64", "bool", "decimal256(76)"])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_sessions_that_merge_come_to_the_same(name: str, data: st.DataObject) -> None:
    """The sessions of a key are joined by the last row."""
    arrow_type, values = ORDERED[name]
    column = data.draw(st.lists(st.none() | values, min_size=3, max_size=8))
    times = [10 * number for number in range(len(column))]
    aggregates: tuple[Any, ...] = (min_("v"), max_("v"))
    aggregates += (sum_("v"), avg("v")) if name in NUMBERS else ()
    schema = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", arrow_type)])
    spec = WindowAggregate(schema, "k", EventTimeSessionWindows(11), "t", aggregates)
    harness = Harness(spec)
    order = [*range(0, len(column), 2), *range(1, len(column), 2)]  # every second row joins two sessions
    for at in order:
        harness.process([{"k": "a", "t": times[at], "v": column[at]}])
    row = harness.watermark(1_000)[-1]
    known = given_values(
        pa.record_batch([pa.array(["a"] * len(column)), pa.array(column, arrow_type)], names=["k", "v"])
    )
    if known["a"]:
        assert same(row["min_v"], least(known["a"]))
        assert same(row["max_v"], greatest(known["a"]))
        if name in {"money", "uint64", "decimal256(76)"}:  # a sum of floats depends on its order
            assert same(row["sum_v"], total(known["a"]))


SUM_TYPES = [
    (pa.decimal128(10, 2), pa.decimal128(20, 2), pa.decimal128(14, 6)),
    (pa.decimal128(38, 2), pa.decimal128(38, 2), pa.decimal128(38, 6)),
    (pa.decimal128(38, 36), pa.decimal128(38, 36), pa.decimal128(38, 38)),
    (pa.decimal32(5, 1), pa.decimal128(15, 1), pa.decimal128(9, 5)),
    (pa.decimal256(70, 1), pa.decimal256(76, 1), pa.decimal256(74, 5)),
    (pa.uint64(), pa.uint64(), pa.float64()),
    (pa.int8(), pa.int64(), pa.float64()),
    (pa.float16(), pa.float64(), pa.float64()),
]


@pytest.mark.parametrize(("column", "of_sum", "of_mean"), SUM_TYPES, ids=[str(column) for column, *_ in SUM_TYPES])
def test_the_types_are_those_of_spark_sql(column: pa.DataType, of_sum: pa.DataType, of_mean: pa.DataType) -> None:
    schema = pa.schema([("k", pa.string()), ("v", column)])
    assert KeyedAggregate(schema, "k", (sum_("v"), avg("v"))).output_schema.types[1:] == [of_sum, of_mean]


OVERFLOWS: list[tuple[pa.DataType, Any]] = [
    (pa.decimal128(38, 0), Decimal("9" * 38)),
    (pa.decimal128(38, 2), Decimal("-" + "9" * 36)),
    (pa.decimal256(76, 0), Decimal("9" * 76)),
    (pa.uint64(), (1 << 64) - 1),
]


@pytest.mark.parametrize(("arrow_type", "value"), OVERFLOWS, ids=[str(each) for each, _ in OVERFLOWS])
@pytest.mark.parametrize("batches", [1, 2])
def test_a_sum_that_its_type_cannot_hold_is_an_error(arrow_type: pa.DataType, value: Any, batches: int) -> None:
    schema = pa.schema([("k", pa.string()), ("v", arrow_type)])
    harness = Harness(KeyedAggregate(schema, "k", sum_("v")))
    assert harness.process([{"k": "a", "v": value}])[0]["sum_v"] == value
    some = [{"k": "b", "v": value}, {"k": "a", "v": value}]
    message = "'sum_v': the sum for key 'a' is .*, which .* cannot hold: sum a column of fewer digits, or floats"
    if batches == 2:
        harness.process(some[:1])
        some = some[1:]
    with pytest.raises(StateOverflowError, match=message):
        harness.process(some)


def test_the_mean_of_the_largest_uint64_is_no_overflow() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.uint64())])
    harness = Harness(KeyedAggregate(schema, "k", avg("v")))
    assert harness.process([{"k": "a", "v": (1 << 64) - 1}] * 4)[0]["avg_v"] == float((1 << 64) - 1)


def test_a_mean_of_more_digits_than_there_are_is_an_error() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.decimal128(38, 2))])
    harness = Harness(KeyedAggregate(schema, "k", avg("v")))
    with pytest.raises(StateOverflowError, match=r"avg: the mean 9+\.000000 does not fit decimal128\(38, 6\)"):
        harness.process([{"k": "a", "v": Decimal("9" * 36)}])


def test_means_of_money_are_rounded_half_up() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.decimal128(4, 2))])
    harness = Harness(KeyedAggregate(schema, "k", avg("v")))
    rows = [{"k": "a", "v": Decimal("0.01")}] + [{"k": "a", "v": Decimal(0)}] * 31
    assert harness.process(rows)[0]["avg_v"] == Decimal("0.000313")  # 0.0003125
    negative = [{"k": "b", "v": -row["v"]} for row in rows]
    assert harness.process(negative)[0]["avg_v"] == Decimal("-0.000313")


REFUSED: list[tuple[Callable[[str], Any], pa.DataType, str]] = [
    (sum_, pa.string(), "sum\\(v\\) needs numbers, decimals or durations, but column 'v' is string"),
    (avg, pa.duration("s"), "avg\\(v\\) needs numbers or decimals, but column 'v' is duration\\[s\\]"),
    (min_, pa.list_(pa.int8()), "min\\(v\\) needs numbers, decimals, dates, times, strings, bytes or bools"),
]


@pytest.mark.parametrize(("aggregate", "arrow_type", "message"), REFUSED)
def test_what_has_no_sum_or_order_is_refused(aggregate: Any, arrow_type: pa.DataType, message: str) -> None:
    schema = pa.schema([("k", pa.string()), ("v", arrow_type)])
    with pytest.raises(SchemaError, match=message):
        KeyedAggregate(schema, "k", aggregate("v"))
