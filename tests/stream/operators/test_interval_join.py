"""Interval join: the pairs of a loop over all rows, whatever the batches, watermarks, failures and subtasks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.event_time import MAX_WATERMARK_MS, MIN_WATERMARK_MS
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.windows.interval_join import IntervalJoin
from tests.properties import examples
from tests.stream.operators.harness import Fleet, Harness, Row

ORDERS = pa.schema([("id", pa.string()), ("at", pa.int64()), ("n", pa.int64()), ("note", pa.string())])
PAYMENTS = pa.schema([("order", pa.string()), ("paid_at", pa.int64()), ("m", pa.int64())])
LEFT = FunctionInput(ORDERS, ("id",), "at")
RIGHT = FunctionInput(PAYMENTS, ("order",), "paid_at")

given_rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-20, 40)), max_size=8)
steps = st.lists(
    st.tuples(given_rows, st.sampled_from([0, 1]), st.integers(-30, 50), st.sampled_from([0, 0, 1, 2, 3])), max_size=9
)


def rows_of(some: list[tuple[str, int]], side: int, first: int) -> list[Row]:
    if side:
        return [{"order": key, "paid_at": at, "m": n} for n, (key, at) in enumerate(some, first)]
    note = [None, "x"]
    return [{"id": key, "at": at, "n": n, "note": note[n % 2]} for n, (key, at) in enumerate(some, first)]


class Loop:
    """Flink's `IntervalJoinOperator`, row by row."""

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper
        self.kept: tuple[list[Row], list[Row]] = ([], [])
        self.watermark_ms = MIN_WATERMARK_MS
        self.late = 0

    def process(self, rows: list[Row], side: int) -> list[Row]:
        pairs = []
        for row in rows:
            if row[("at", "paid_at")[side]] < self.watermark_ms:
                self.late += 1
                continue
            self.kept[side].append(row)
            for other in self.kept[1 - side]:
                order, payment = (other, row) if side else (row, other)
                if order["id"] == payment["order"] and (self.lower <= payment["paid_at"] - order["at"] <= self.upper):
                    pairs.append(order | payment)
        return pairs

    def watermark(self, timestamp_ms: int) -> None:
        self.watermark_ms = timestamp_ms
        orders, payments = self.kept
        self.kept = (
            [row for row in orders if row["at"] + max(self.upper, 0) > timestamp_ms],
            [row for row in payments if row["paid_at"] + max(-self.lower, 0) > timestamp_ms],
        )


def counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.items()) for row in rows)


@settings(max_examples=examples(100))
@given(st.tuples(st.integers(-15, 15), st.integers(-15, 15)).map(sorted), steps, st.integers(1, 3))
def test_the_pairs_are_those_of_a_loop_over_all_rows(bounds, given_steps, parallelism) -> None:
    fleet, loop, number = Fleet(IntervalJoin(LEFT, RIGHT, *bounds), parallelism), Loop(*bounds), 0
    dropped = 0
    for some, side, advanced_to, subtasks in given_steps:
        rows = rows_of(some, side, number)
        number += len(rows)
        assert counted(fleet.process(rows, [("id", "order")[side]], side)) == counted(loop.process(rows, side))
        dropped += sum(subtask.late_rows["LateRowsDropped"] for subtask in fleet.subtasks)
        for subtask in fleet.subtasks:
            subtask.late_rows["LateRowsDropped"] = 0
        if subtasks:
            fleet.rescale(subtasks)
            loop.watermark(loop.watermark_ms)  # the repeated watermark drops the rows at the watermark
        if advanced_to > loop.watermark_ms:
            loop.watermark(advanced_to)
            assert fleet.watermark(advanced_to) == []
        kept = [sum(len(subtask.operator._buffers[i]) for subtask in fleet.subtasks) for i in (0, 1)]
        assert kept == [len(loop.kept[0]), len(loop.kept[1])]
    assert dropped == loop.late
    fleet.watermark(MAX_WATERMARK_MS)
    assert fleet.is_empty


@pytest.mark.parametrize("side", [0, 1])
def test_pairs_come_in_the_order_of_the_rows_that_make_them_and_partners_by_time(side) -> None:
    def made(harness: Harness) -> list[tuple[int, int]]:
        pairs = harness.process(rows_of([("a", 6), ("a", 0)], side, 20), side)
        return [(pair["n"], pair["m"])[:: 1 if side == 0 else -1] for pair in pairs]

    harness = Harness(IntervalJoin(LEFT, RIGHT, -10, 10))
    harness.process(rows_of([("a", 5), ("a", 3)], 1 - side, 0), 1 - side)
    harness.process(rows_of([("a", 5), ("b", 5), ("a", 4)], 1 - side, 10), 1 - side)
    assert made(harness) == [(20, 1), (20, 12), (20, 0), (20, 10), (21, 1), (21, 12), (21, 0), (21, 10)]


def test_late_rows_are_set_aside_each_side_by_its_tag() -> None:
    tags = (OutputTag("orders", ORDERS), OutputTag("payments", PAYMENTS))
    harness = Harness(IntervalJoin(LEFT, RIGHT, 0, 5, *tags))
    harness.watermark(10)
    for side in (0, 1):
        harness.process(rows_of([("a", 9), ("a", 10)], side, 0), side)
    assert [row["at"] for row in harness.aside("orders")] == [9]
    assert [row["paid_at"] for row in harness.aside("payments")] == [9]


def test_keys_of_several_columns_may_have_other_names() -> None:
    right = FunctionInput(PAYMENTS, ("order", "m"), "paid_at")
    harness = Harness(IntervalJoin(FunctionInput(ORDERS, ("id", "n"), "at"), right, 0, 5))
    harness.process(rows_of([("a", 1)], 0, 7), 0)
    assert [pair["paid_at"] for pair in harness.process(rows_of([("a", 2), ("a", 3)], 1, 6), 1)] == [3]


def test_what_cannot_be_joined_is_refused() -> None:
    with pytest.raises(ValueError, match="lower_ms 1 is above upper_ms 0"):
        IntervalJoin(LEFT, RIGHT, 1, 0)
    with pytest.raises(SchemaError, match=r"the keys have types string and int64: cast one before"):
        IntervalJoin(LEFT, FunctionInput(PAYMENTS, ("m",), "paid_at"), 0, 1)
    with pytest.raises(SchemaError, match=r"both streams have a column 'at'; .*rename\(at='other_at'\)"):
        IntervalJoin(LEFT, FunctionInput(ORDERS, ("id",), "at"), 0, 1)
    with pytest.raises(SchemaError, match="its columns must be the stream's"):
        IntervalJoin(LEFT, RIGHT, 0, 1, OutputTag("late", PAYMENTS))
