"""A function per row with state and timers of its key."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kit.stream.backend.states.descriptors import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.functions.process import KeyedProcess, KeyedProcessFunction
from kit.stream.operators.spec import SchemaError, UserFunctionError
from tests.stream.operators.harness import Harness, restored

EVENTS = pa.schema([("plane", pa.string()), ("at", pa.int64())])
GAPS = pa.schema([("plane", pa.string()), ("at", pa.int64()), ("flights", pa.int64())])


class Silence(KeyedProcessFunction):
    """Says so when a plane was not heard of for 10 ms, and how often it was before."""

    last = ValueStateDescriptor("last", pa.int64())
    flights = ReducingStateDescriptor("flights", pa.int64(), "sum")

    def process_element(self, row, ctx):
        previous = ctx.state(self.last).value()
        if previous is not None:
            ctx.timer_service.delete_event_time_timer(previous + 10)
        ctx.state(self.last).update(ctx.timestamp_ms)
        ctx.state(self.flights).add(1)
        ctx.timer_service.register_event_time_timer(ctx.timestamp_ms + 10)

    def on_timer(self, timestamp_ms, ctx):
        ctx.emit({"plane": ctx.current_key, "at": timestamp_ms, "flights": ctx.state(self.flights).get()})


def silence(**settings) -> KeyedProcess:
    return KeyedProcess((FunctionInput(EVENTS, ("plane",), "at"),), Silence, GAPS, **settings)


def heard(*events: tuple[str, int]) -> list[dict[str, object]]:
    return [{"plane": plane, "at": at} for plane, at in events]


@pytest.mark.parametrize("fails", [False, True])
def test_timers_and_state_belong_to_the_key_also_after_a_failure(fails) -> None:
    harness = Harness(silence())
    assert harness.process(heard(("N1", 1), ("N2", 2), ("N1", 5))) == []
    if fails:
        (harness,) = restored(silence(), [harness.snapshot()])
    assert harness.watermark(12) == [{"plane": "N2", "at": 12, "flights": 1}]
    assert harness.watermark(15) == [{"plane": "N1", "at": 15, "flights": 2}]
    assert harness.watermarks == [12, 15]


def test_state_and_timers_move_with_their_keys_on_a_rescale() -> None:
    planes = [f"N{number}" for number in range(30)]
    harness = Harness(silence())
    harness.process(heard(*((plane, 1) for plane in planes)))
    parts = [part.watermark(11) for part in restored(silence(), [harness.snapshot()], 3)]
    assert all(parts)
    assert sorted(row["plane"] for part in parts for row in part) == sorted(planes)


class Chain(KeyedProcessFunction):
    """A timer that sets the next one."""

    def process_element(self, row, ctx):
        ctx.timer_service.register_event_time_timer(row["at"])

    def on_timer(self, timestamp_ms, ctx):
        ctx.emit({"plane": ctx.current_key, "at": timestamp_ms})
        ctx.timer_service.register_event_time_timer(timestamp_ms + 1)


def test_a_timer_may_set_another_that_is_due_already() -> None:
    harness = Harness(KeyedProcess((FunctionInput(EVENTS, ("plane",)),), Chain, EVENTS))
    harness.process(heard(("N1", 5)))
    assert [row["at"] for row in harness.watermark(8)] == [5, 6, 7, 8]
    assert harness.watermark(8) == []


class Clock(KeyedProcessFunction):
    """A processing-time timer; the key has two columns."""

    seen = ListStateDescriptor("seen", pa.int64())

    def open(self, ctx):
        self.opened = True

    def process_element(self, row, ctx):
        assert self.opened
        assert ctx.timestamp_ms is None
        ctx.state(self.seen).add(row["at"])
        ctx.timer_service.register_processing_time_timer(ctx.timer_service.current_processing_time_ms + 100)

    def on_timer(self, timestamp_ms, ctx):
        (at,) = ctx.state(self.seen).get()
        ctx.emit({"plane": ctx.current_key["plane"], "at": at})


def test_processing_time_timers_fire_when_the_host_says_so() -> None:
    harness = Harness(KeyedProcess((FunctionInput(EVENTS, ("plane", "at")),), Clock, EVENTS))
    assert harness.operator.next_processing_time_ms() is None
    harness.processing_time_ms = 1_000
    harness.process(heard(("N1", 7)))
    assert harness.operator.next_processing_time_ms() == 1_100
    harness.operator.on_processing_time(1_099)
    assert harness.rows() == []
    harness.operator.on_processing_time(1_100)
    assert harness.rows() == heard(("N1", 7))
    assert harness.operator.next_processing_time_ms() is None


class Fails(KeyedProcessFunction):
    """Fails at negative times, emits nonsense at 0, sets a timer that fails at others."""

    def process_element(self, row, ctx):
        if row["at"] < 0:
            raise ValueError("before 1970")
        if row["at"] == 0:
            ctx.emit({"plane": 7.5, "at": "noon"})
        ctx.timer_service.register_event_time_timer(row["at"])

    def on_timer(self, timestamp_ms, ctx):
        raise KeyError("gone")


def test_errors_name_operator_function_and_row_or_timer() -> None:
    harness = Harness(KeyedProcess((FunctionInput(EVENTS, ("plane",)),), Fails, EVENTS, name="watch"))
    with pytest.raises(
        UserFunctionError, match=r"watch: function .*process_element failed on row \{'plane': 'N1'.*1970"
    ):
        harness.process(heard(("N1", -1)))
    with pytest.raises(UserFunctionError, match=r"of which it made \{'plane': 7.5, 'at': 'noon'\}"):
        harness.process(heard(("N1", 0)))
    harness.process(heard(("N1", 3)))
    with pytest.raises(UserFunctionError, match=r"on_timer failed on the timer at 0 of key 'N1': KeyError"):
        harness.watermark(3)


def test_a_spec_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'tail'"):
        KeyedProcess((FunctionInput(EVENTS, ("tail",)),), Silence, GAPS)
    with pytest.raises(SchemaError, match="column 'plane' is string, but event time"):
        KeyedProcess((FunctionInput(EVENTS, ("plane",), "plane"),), Silence, GAPS)
    with pytest.raises(TypeError, match="give the class Silence itself, not an object of it"):
        KeyedProcess((FunctionInput(EVENTS, ("plane",)),), Silence(), GAPS)
