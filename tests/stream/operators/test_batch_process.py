"""A function per batch, with state and timers in columns: the same as the equivalent function per row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.state.errors import StateDescriptorError
from kit.stream.backend.states.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kit.stream.operators.functions.batch_process import KeyedBatchFunction, KeyedBatchProcess
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.functions.process import KeyedProcess, KeyedProcessFunction
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import UserFunctionError
from tests.properties import examples
from tests.stream.operators.harness import Fleet, Harness, Row

EVENTS = pa.schema([("plane", pa.string()), ("at", pa.int64()), ("n", pa.int64())])
FIRSTS = OutputTag("firsts", EVENTS)
LAST = ValueStateDescriptor("last", pa.int64())
FLIGHTS = ReducingStateDescriptor("flights", pa.int64(), "sum")
SEEN = ValueStateDescriptor("seen", pa.bool_(), default=False)
SILENCE_MS = 10


class SilenceByRow(KeyedProcessFunction):
    """Says so when a plane was not heard of for 10 ms, and forgets it; its first row is also set aside."""

    def process_element(self, row, ctx):
        last = ctx.state(LAST)
        if last.value() is None:
            ctx.output(FIRSTS, row)
        else:
            ctx.timer_service.delete_event_time_timer(last.value() + SILENCE_MS)
        last.update(ctx.timestamp_ms)
        ctx.state(FLIGHTS).add(row["n"])
        ctx.timer_service.register_event_time_timer(ctx.timestamp_ms + SILENCE_MS)

    def on_timer(self, timestamp_ms, ctx):
        ctx.emit({"plane": ctx.current_key, "at": timestamp_ms, "n": ctx.state(FLIGHTS).get()})
        ctx.state(LAST).clear()
        ctx.state(FLIGHTS).clear()


class SilenceInColumns(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        last = ctx.state(LAST)
        before = last.get()
        ctx.output(FIRSTS, batch.filter(pc.and_(before.is_null(), pa.array(ctx.rows_before == 0))))
        known = before.is_valid()
        ctx.timer_service.delete_event_time_timers(pc.add(before.filter(known), SILENCE_MS), known)
        last.update(ctx.timestamps_ms)
        ctx.state(FLIGHTS).add(batch["n"])
        newest = ctx.rows_after == 0
        ctx.timer_service.register_event_time_timers(ctx.timestamps_ms[newest] + SILENCE_MS, newest)

    def on_timers(self, ctx):
        ctx.emit({"plane": ctx.keys, "at": ctx.timestamps_ms, "n": ctx.state(FLIGHTS).get()})
        ctx.state(LAST).clear()
        ctx.state(FLIGHTS).clear()


def by_batch(function: type, returns: pa.Schema = EVENTS, keys: tuple[str, ...] = ("plane",)) -> KeyedBatchProcess:
    return KeyedBatchProcess((FunctionInput(EVENTS, keys, "at"),), function, returns)


def counted(rows: list[Row]) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in rows)


rows = st.lists(
    st.fixed_dictionaries(
        {"plane": st.sampled_from(["N1", "N2", "N3"]), "at": st.integers(-20, 60), "n": st.integers(0, 5)}
    ),
    max_size=12,
)
steps = st.lists(st.tuples(rows, st.integers(-30, 80), st.integers(0, 3)), max_size=8)
"""Rows, then perhaps a watermark, then perhaps a failure and as many subtasks."""


@given(given_steps=steps, parallelism=st.integers(1, 3))
@settings(max_examples=examples(60))
def test_the_same_as_row_by_row(given_steps, parallelism) -> None:
    row_spec = KeyedProcess((FunctionInput(EVENTS, ("plane",), "at"),), SilenceByRow, EVENTS)
    fleets = [Fleet(row_spec, parallelism), Fleet(by_batch(SilenceInColumns), parallelism)]
    for some, advanced_to, subtasks in given_steps:
        in_order = sorted(some, key=lambda row: row["at"])
        assert all(fleet.process(in_order, ["plane"]) == [] for fleet in fleets)
        aside = [[row for subtask in fleet.subtasks for row in subtask.aside("firsts")] for fleet in fleets]
        assert counted(aside[0]) == counted(aside[1])
        fired = [fleet.watermark(max(advanced_to, fleet.watermark_ms)) for fleet in fleets]
        assert counted(fired[0]) == counted(fired[1])
        if subtasks:
            for fleet in fleets:
                fleet.rescale(subtasks)
    assert fleets[0].is_empty is fleets[1].is_empty


class Duplicates(KeyedBatchFunction):
    def process_batch(self, batch, ctx):
        seen = ctx.state(SEEN)
        is_new = pc.and_not(pa.array(ctx.rows_before == 0), seen.get())
        seen.update(True)
        ctx.emit(batch.filter(is_new))


def flights(*planes: str) -> list[Row]:
    return [{"plane": plane, "at": 0, "n": number} for number, plane in enumerate(planes)]


@pytest.mark.parametrize("keys", [("plane",), ("plane", "at")])
def test_what_was_seen_is_passed_over_within_a_batch_and_between_batches(keys) -> None:
    harness = Harness(by_batch(Duplicates, keys=keys))
    assert [row["n"] for row in harness.process(flights("N1", "N2", "N1"))] == [0, 1]
    assert [row["n"] for row in harness.process(flights("N2", "N3", "N3", "N4"))] == [1, 3]


class Kinds(KeyedBatchFunction):
    log = ListStateDescriptor("log", pa.int64())
    total = ReducingStateDescriptor("total", pa.int64(), "sum")

    def open(self, ctx):
        assert len(ctx.keys) == 0

    def process_batch(self, batch, ctx):
        odd = pc.equal(pc.bit_wise_and(batch["n"], 1), 1)
        ctx.state(self.log).add(batch["n"].filter(odd), odd)
        ctx.state(self.total).add(1)
        ctx.state(self.total).clear(pc.equal(batch["n"], 5))
        logged = pc.list_value_length(ctx.state(self.log).get())
        ctx.emit({"plane": ctx.keys, "logged": logged, "total": ctx.state(self.total).get()})


def test_lists_and_folded_values_and_rows_that_are_not_meant() -> None:
    returns = pa.schema([("plane", pa.string()), ("logged", pa.int32()), ("total", pa.int64())])
    harness = Harness(by_batch(Kinds, returns))
    made = harness.process(flights("a", "b", "a", "b", "a", "c"))
    assert [(row["plane"], row["logged"], row["total"]) for row in made] == [
        ("a", None, 3),
        ("b", 2, 2),
        ("a", None, 3),
        ("b", 2, 2),
        ("a", None, 3),
        ("c", 1, None),
    ]
    assert repr(harness.operator.create_contexts()[0].state(Kinds.log)) == "BatchState('log', 0 rows)"


class Marks(KeyedBatchFunction):
    log = ListStateDescriptor("log", pa.string())

    def process_batch(self, batch, ctx):
        ctx.state(self.log).add("seen")
        ctx.emit({"plane": ctx.keys, "log": ctx.state(self.log).get()})


def test_one_value_is_appended_for_each_row() -> None:
    harness = Harness(by_batch(Marks, pa.schema([("plane", pa.string()), ("log", pa.list_(pa.string()))])))
    assert [row["log"] for row in harness.process(flights("a", "b", "a"))] == [
        ["seen", "seen"],
        ["seen"],
        ["seen", "seen"],
    ]


class Wakes(KeyedBatchFunction):
    """A timer that sets the next one, in both kinds of time; every second one is deleted."""

    def process_batch(self, batch, ctx):
        ctx.timer_service.register_event_time_timers(batch["n"])
        ctx.timer_service.register_processing_time_timers(batch["n"])
        second = pc.equal(pc.bit_wise_and(batch["n"], 1), 1)
        ctx.timer_service.delete_processing_time_timers(batch["n"].filter(second), second)

    def on_timers(self, ctx):
        ctx.emit({"plane": ctx.keys, "at": ctx.timestamps_ms, "n": [ctx.current_processing_time_ms] * len(ctx.keys)})
        if ctx.current_watermark_ms > 0:
            ctx.timer_service.register_event_time_timers(ctx.timestamps_ms + 3)


def test_a_timer_may_set_another_that_is_due_already() -> None:
    harness = Harness(by_batch(Wakes))
    harness.process(flights("a", "b", "c"))
    assert harness.operator.next_processing_time_ms() == 0
    harness.processing_time_ms = 7
    harness.operator.on_processing_time(7)
    assert [(row["plane"], row["at"], row["n"]) for row in harness.rows()] == [("a", 0, 7), ("c", 2, 7)]
    fired = harness.watermark(4)
    assert [(row["plane"], row["at"]) for row in fired] == [("a", 0), ("b", 1), ("c", 2), ("a", 3), ("b", 4)]


class Wrong(KeyedBatchFunction):
    emitted: Any = None

    def process_batch(self, batch, ctx):
        ctx.emit(self.emitted)


def wrong(emitted: Any) -> type:
    return type("Wrong", (Wrong,), {"emitted": emitted})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (KeyedBatchFunction, r"NotImplementedError: KeyedBatchFunction does not define process_batch\(batch, ctx\)"),
        (
            wrong({"plane": ["a"]}),
            "a batch of 1 rows, the first being {'plane': 'a', 'at': 0, 'n': 0}: TypeError: there is no",
        ),
        (
            wrong(pa.record_batch({"n": [1]})),
            r"a batch of n: int64 does not fit: declared are plane: string, at: int64",
        ),
    ],
)
def test_a_function_that_fails_is_named(function, message) -> None:
    with pytest.raises(UserFunctionError, match=message):
        Harness(by_batch(function)).process(flights("a"))


def test_a_map_state_has_no_columns() -> None:
    (context,) = Harness(by_batch(Duplicates)).operator.create_contexts()
    with pytest.raises(StateDescriptorError, match="of kind map, which cannot be read in columns: use a value, "):
        context.state(MapStateDescriptor("map", pa.string(), pa.int64()))


def test_the_class_is_given_and_not_an_object_of_it() -> None:
    with pytest.raises(TypeError, match="give the class Duplicates itself"):
        by_batch(Duplicates())
