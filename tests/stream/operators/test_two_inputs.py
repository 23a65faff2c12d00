"""Functions on two streams: shared state and timers, broadcast state, side outputs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kit.stream.backend.states.descriptors import MapStateDescriptor, ValueStateDescriptor
from kit.stream.operators.functions.broadcast import (
    BroadcastProcess,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.functions.process import (
    CoProcess,
    CoProcessFunction,
    KeyedCoProcessFunction,
    Process,
    ProcessFunction,
)
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import SchemaError, UserFunctionError
from tests.stream.operators.harness import Fleet, Harness, Row, restored

FLIGHTS = pa.schema([("tail", pa.string()), ("delay", pa.int64()), ("at", pa.int64())])
REPAIRS = pa.schema([("plane", pa.string()), ("until", pa.int64())])
RULES = MapStateDescriptor("rules", pa.string(), pa.int64())
WORST = ValueStateDescriptor("worst", pa.int64())
SMALL = OutputTag("small", {"tail": pa.string()})


def flight(tail: str, delay: int, at: int = 0) -> Row:
    return {"tail": tail, "delay": delay, "at": at}


class Grounded(KeyedCoProcessFunction):
    """Flights of planes under repair; the repair ends by a timer."""

    def process_element1(self, row: Row, ctx) -> None:
        if ctx.state(WORST).value() is not None:
            ctx.emit(row)

    def process_element2(self, row: Row, ctx) -> None:
        ctx.state(WORST).update(row["until"])
        ctx.timer_service.register_event_time_timer(row["until"])

    def on_timer(self, timestamp_ms: int, ctx) -> None:
        ctx.state(WORST).clear()
        ctx.emit(flight(ctx.current_key, -1, timestamp_ms))


def test_two_keyed_streams_share_state_and_timers_through_failures() -> None:
    inputs = (FunctionInput(FLIGHTS, ("tail",), "at"), FunctionInput(REPAIRS, ("plane",)))
    fleet = Fleet(CoProcess(inputs, Grounded, FLIGHTS))
    tails = [f"N{number}" for number in range(20)]
    assert fleet.process([flight(tail, 1) for tail in tails], ["tail"]) == []
    fleet.process([{"plane": tail, "until": 10} for tail in tails[:10]], ["plane"], 1)
    fleet.rescale(3)
    caught = fleet.process([flight(tail, 2) for tail in tails], ["tail"])
    assert sorted(row["tail"] for row in caught) == sorted(tails[:10])
    fleet.rescale(2)
    assert sorted(row["tail"] for row in fleet.watermark(10)) == sorted(tails[:10])
    assert fleet.process([flight(tail, 3) for tail in tails], ["tail"]) == []
    assert fleet.is_empty


class Apply(KeyedBroadcastProcessFunction):
    def process_element(self, row: Row, ctx) -> None:
        ctx.state(WORST).update(max(row["delay"], ctx.state(WORST).value() or 0))
        rules = ctx.broadcast_state(RULES)
        assert not hasattr(rules, "put")
        if row["delay"] > (rules.get("most") or 0):
            ctx.emit(row)
        else:
            ctx.output(SMALL, {"tail": row["tail"]})

    def process_broadcast_element(self, row: Row, ctx) -> None:
        ctx.broadcast_state(RULES).put(row["plane"], row["until"])
        if row["plane"] == "reset":
            ctx.apply_to_keyed_state(WORST, lambda key, state: ctx.emit(flight(key, state.value())))


def keyed_rules() -> BroadcastProcess:
    inputs = (FunctionInput(FLIGHTS, ("tail",)), FunctionInput(REPAIRS))
    return BroadcastProcess(inputs, Apply, FLIGHTS, (RULES,))


def test_every_subtask_keeps_what_is_broadcast_and_is_restored_with_it() -> None:
    subtasks = [Harness(keyed_rules(), subtask=i, parallelism=2) for i in range(2)]
    for subtask in subtasks:
        subtask.process([{"plane": "most", "until": 5}], 1)
    for parallelism in (3, 1):
        subtasks = restored(keyed_rules(), [subtask.snapshot() for subtask in subtasks], parallelism)
        for subtask in subtasks:
            state = subtask.operator._contexts[0].broadcast_state(RULES)
            assert state.items() == [("most", 5)]
            assert state.contains("most")
            assert repr(state) == "ReadOnlyBroadcastState('rules', 1 entries)"
    (subtask,) = subtasks
    emitted = subtask.process([flight("N1", 6), flight("N2", 5), flight("N1", 4)])
    assert [row["delay"] for row in emitted] == [6]
    assert subtask.aside("small") == [{"tail": "N2"}, {"tail": "N1"}]
    assert subtask.process([{"plane": "reset", "until": 0}], 1) == [flight("N1", 6), flight("N2", 5)]


def test_a_stream_without_a_key_reads_what_is_broadcast() -> None:
    class Most(BroadcastProcessFunction):
        def process_element(self, row: Row, ctx) -> None:
            if row["delay"] > (ctx.broadcast_state(RULES).get("most") or 0):
                ctx.emit(row)

        def process_broadcast_element(self, row: Row, ctx) -> None:
            ctx.broadcast_state(RULES).put(row["plane"], row["until"])

    inputs = (FunctionInput(FLIGHTS), FunctionInput(REPAIRS))
    harness = Harness(BroadcastProcess(inputs, Most, FLIGHTS, (RULES,)))
    assert len(harness.process([flight("N1", 6), flight("N1", 4)])) == 2
    harness.process([{"plane": "most", "until": 5}], 1)
    assert len(harness.process([flight("N1", 6), flight("N1", 4)])) == 1


def test_broadcast_state_that_was_not_named_is_refused() -> None:
    harness = Harness(BroadcastProcess((FunctionInput(FLIGHTS, ("tail",)), FunctionInput(REPAIRS)), Apply, FLIGHTS))
    with pytest.raises(UserFunctionError, match="'rules' is not one of the states passed to broadcast"):
        harness.process([flight("N1", 1)])


def test_functions_without_a_key_know_event_time_and_set_rows_aside() -> None:
    class Split(ProcessFunction):
        def process_element(self, row: Row, ctx) -> None:
            assert (ctx.current_watermark_ms, ctx.current_processing_time_ms) == (7, 0)
            if ctx.timestamp_ms % 2:
                ctx.output(SMALL, {"tail": row["tail"]})
            else:
                ctx.emit(row)

    harness = Harness(Process((FunctionInput(FLIGHTS, (), "at"),), Split, FLIGHTS))
    harness.watermark(7)
    assert harness.process([flight("N1", 0, 8), flight("N2", 0, 9)]) == [flight("N1", 0, 8)]
    assert harness.aside("small") == [{"tail": "N2"}]

    class Both(CoProcessFunction):
        def process_element1(self, row: Row, ctx) -> None:
            ctx.emit(row)

        def process_element2(self, row: Row, ctx) -> None:
            ctx.emit(flight(row["plane"], 0))

    harness = Harness(CoProcess((FunctionInput(FLIGHTS), FunctionInput(REPAIRS)), Both, FLIGHTS))
    assert harness.process([flight("N1", 0)]) == [flight("N1", 0)]
    assert harness.process([{"plane": "N2", "until": 1}], 1) == [flight("N2", 0)]


def test_keys_of_two_types_do_not_meet() -> None:
    inputs = (FunctionInput(FLIGHTS, ("tail",)), FunctionInput(REPAIRS, ("until",)))
    with pytest.raises(SchemaError, match="the keys have types string and int64"):
        CoProcess(inputs, Grounded, FLIGHTS)


def test_what_does_not_fit_a_side_output_is_named() -> None:
    class Wrong(ProcessFunction):
        def process_element(self, row: Row, ctx) -> None:
            ctx.output(SMALL, {"tail": 17})

    harness = Harness(Process((FunctionInput(FLIGHTS),), Wrong, FLIGHTS, name="split"))
    with pytest.raises(UserFunctionError, match=r"split: function .*process_element"):
        harness.process([flight("N1", 0)])
