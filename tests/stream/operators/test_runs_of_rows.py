"""Many rows are processed together, a few one by one: output and state are the same, byte for byte."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.states.descriptors import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.functions.process import KeyedProcess, KeyedProcessFunction
from tests.stream.backend.conftest import KEYS, PAIR
from tests.stream.operators.harness import Harness

MADE = pa.schema([("did", pa.string()), ("found", pa.string())])
LIST = pa.list_(pa.int64())


class Mean(AggregateFunction):
    """A mean from a sum and a count; `add` changes the accumulator in place, which must not affect any other key."""

    def create_accumulator(self):
        return {"sum": 0, "rows": 0}

    def add(self, value, accumulator):
        accumulator["sum"] += value
        accumulator["rows"] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator["sum"] / accumulator["rows"]

    def merge(self, one, other):
        return {name: one[name] + other[name] for name in one}


NUMBER = ValueStateDescriptor("number", pa.int64(), default=-1)
TEXT = ValueStateDescriptor("text", pa.string())
RECORD = ValueStateDescriptor("record", pa.struct([("n", pa.int64()), ("seen", LIST)]))
TOTAL = ReducingStateDescriptor("total", pa.int64(), "sum")
MEAN = AggregatingStateDescriptor("mean", pa.struct([("sum", pa.int64()), ("rows", pa.int64())]), Mean())
SEEN = ListStateDescriptor("seen", pa.int64())
BY_NAME = MapStateDescriptor("by name", pa.string(), pa.int64())


def keep_record(ctx: Any, n: int) -> Any:
    """A value that was read may be changed: it is a copy until it is written."""
    record = ctx.state(RECORD).value() or {"n": 0, "seen": []}
    record["seen"].append(n)
    if n % 2:
        ctx.state(RECORD).update(record | {"n": n})
    return ctx.state(RECORD).value()


DOES = {
    "read": lambda ctx, n: [ctx.state(each).value() for each in (NUMBER, TEXT, RECORD)],
    "update": lambda ctx, n: ctx.state(NUMBER).update(n),
    "text": lambda ctx, n: ctx.state(TEXT).update(f"{n}"),
    "remove": lambda ctx, n: ctx.state(NUMBER).update(None),
    "clear": lambda ctx, n: [ctx.state(each).clear() for each in (TEXT, TOTAL, SEEN, MEAN)],
    "record": keep_record,
    "add": lambda ctx, n: (ctx.state(TOTAL).add(n), ctx.state(TOTAL).get()),
    "mean": lambda ctx, n: (ctx.state(MEAN).add(n), ctx.state(MEAN).get()),
    "append": lambda ctx, n: (ctx.state(SEEN).add(n), ctx.state(SEEN).get()),
    "replace": lambda ctx, n: (ctx.state(SEEN).update([n] * (n % 3)), ctx.state(SEEN).get()),
    "put": lambda ctx, n: (ctx.state(BY_NAME).put(f"{n}", n), ctx.state(BY_NAME).items()),
    "drop": lambda ctx, n: (ctx.state(BY_NAME).remove(f"{n}"), ctx.state(BY_NAME).keys()),
    "register": lambda ctx, n: ctx.timer_service.register_event_time_timer(n),
    "delete": lambda ctx, n: ctx.timer_service.delete_event_time_timer(n),
    "at once": lambda ctx, n: ctx.timer_service.register_processing_time_timer(n),
}


class Does(KeyedProcessFunction):
    """A function that does what each row names, and emits what it found."""

    def process_element(self, row, ctx):
        found = DOES[row["does"]](ctx, row["n"])
        ctx.emit({"did": row["does"], "found": f"{ctx.current_key}: {found}"})

    def on_timer(self, timestamp_ms, ctx):
        ctx.state(SEEN).add(timestamp_ms)
        total = ctx.state(TOTAL).get()
        ctx.state(NUMBER).update(total or 0)
        if timestamp_ms < 3:
            ctx.timer_service.register_event_time_timer(timestamp_ms + 2)
        ctx.emit({"did": "timer", "found": f"{ctx.current_key} {timestamp_ms}: {total}"})


def done(key_type: pa.DataType, rows: list[dict[str, Any]], sizes: list[int]) -> tuple[Any, ...]:
    """Return what is emitted and kept, and which timers fire, when the rows arrive in batches of these sizes."""
    schema = pa.schema([("key", key_type), ("does", pa.string()), ("n", pa.int64())])
    harness = Harness(KeyedProcess((FunctionInput(schema, ("key",)),), Does, MADE))
    start = 0
    for size in sizes:
        if rows[start : start + size]:
            harness.process(rows[start : start + size])
        start += size
    kept = harness.snapshot()
    fired = harness.watermark(4)
    harness.operator.on_processing_time(9)
    return harness.rows(), kept.keyed, fired, harness.snapshot().keyed


def runs_of(row: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(row, min_size=FEW_ROWS + 1, max_size=4 * FEW_ROWS)


@pytest.mark.parametrize("keys", KEYS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_run_leaves_what_the_same_rows_one_by_one_leave(keys: str, data: st.DataObject) -> None:
    key_type, some_key = KEYS[keys]
    if key_type == PAIR:
        some_key = some_key.map(lambda pair: dict(zip("ab", pair, strict=True)))
    few = st.sampled_from(data.draw(st.lists(some_key, min_size=1, max_size=4)))
    row = st.fixed_dictionaries({"key": few, "does": st.sampled_from(list(DOES)), "n": st.integers(0, 5)})
    first, then = data.draw(runs_of(row)), data.draw(runs_of(row))
    sizes = data.draw(st.lists(st.integers(1, FEW_ROWS), min_size=4 * FEW_ROWS, max_size=4 * FEW_ROWS))
    rows = first + then
    assert done(key_type, rows, [len(first), len(then)]) == done(key_type, rows, sizes + [FEW_ROWS] * len(rows))
