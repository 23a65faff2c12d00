"""Streams joined, connected, set aside and timed: the resulting graph, and the errors."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kit.stream.api import StreamEnvironment
from kit.stream.backend.states.descriptors import MapStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.graph.stream_graph import GraphError
from kit.stream.operators.aggregates import count
from kit.stream.operators.functions.broadcast import KeyedBroadcastProcessFunction
from kit.stream.operators.functions.process import KeyedCoProcessFunction, ProcessFunction
from kit.stream.operators.side_output import OutputTag
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows

ORDERS = CollectionSource([{"id": "a", "at": 1}])
PAYMENTS = CollectionSource([{"order": "a", "paid_at": 1}])
RULES = MapStateDescriptor("rules", pa.string(), pa.int64())


def streams(timed: bool = True):
    env = StreamEnvironment("shop", parallelism=2)
    orders, payments = env.from_source(ORDERS, uid="orders"), env.from_source(PAYMENTS, uid="payments")
    if timed:
        orders, payments = orders.assign_timestamps("at"), payments.assign_timestamps("paid_at")
    return env, orders, payments


def test_a_join_has_two_inputs_each_by_its_own_key() -> None:
    env, orders, payments = streams()
    pairs = orders.key_by("id").interval_join(payments.key_by("order")).between(0, 5, lower_exclusive=True).join()
    pairs.uid("pairs").sink_to(CollectSink(), uid="out")
    spec = pairs._transformation.spec
    assert (spec.lower_ms, spec.upper_ms, spec.left.time_column, spec.right.time_column) == (1, 5, "at", "paid_at")
    inputs = env.job_graph().vertex("pairs").inputs
    assert [(edge.source, edge.shipping, edge.input_index) for edge in inputs] == [
        ("orders", "hash(id)", 0),
        ("payments", "hash(order)", 1),
    ]
    assert pairs.schema.names == ["id", "at", "order", "paid_at"]


def test_columns_of_one_name_are_renamed_before_and_event_time_goes_along() -> None:
    _, orders, _ = streams()
    other = orders.rename(at="then")
    joined = orders.join(other).where("id").equal_to("id").window(TumblingEventTimeWindows(10)).join()
    assert joined.schema.names == ["id", "at", "then"]
    with pytest.raises(SchemaError, match="both streams have a column 'at'"):
        orders.join(orders).where("id").equal_to("id").window(TumblingEventTimeWindows(10)).join()


def test_a_join_without_event_time_or_window_is_refused() -> None:
    _, orders, payments = streams(timed=False)
    with pytest.raises(GraphError, match=r"interval_join needs event time: call assign_timestamps"):
        orders.key_by("id").interval_join(payments.key_by("order"))
    with pytest.raises(GraphError, match=r"say in which windows"):
        orders.join(payments).where("id").equal_to("order").join()


def test_only_streams_that_fit_are_connected() -> None:
    _, orders, payments = streams()
    keyed = orders.key_by("id")
    assert keyed.connect(payments.key_by("order")).process(KeyedCoProcessFunction).schema.names == ["id", "at"]
    steered = keyed.connect(payments.broadcast(RULES)).process(KeyedBroadcastProcessFunction)
    assert steered._transformation.spec.states == (RULES,)
    with pytest.raises(GraphError, match=r"has a key and .* has none"):
        keyed.connect(payments)
    with pytest.raises(GraphError, match="the broadcast stream comes second"):
        payments.broadcast(RULES).connect(keyed)
    with pytest.raises(GraphError, match="two environments"):
        orders.connect(streams()[1])


def test_a_side_output_is_a_stream_of_its_own() -> None:
    env, orders, payments = streams()
    payments.sink_to(CollectSink("payments"))
    tag = OutputTag("late", {"id": pa.string()})
    split = orders.process(ProcessFunction).uid("split")
    aside = split.side_output(tag)
    assert aside.schema.equals(tag.schema)
    aside.sink_to(CollectSink("late"), uid="late")
    split.rebalance().sink_to(CollectSink(), uid="out")
    vertex = env.job_graph().vertex("orders")
    assert [(operator.name, operator.input_tag) for operator in vertex.operators] == [
        ("orders", None),
        ("timestamps", None),
        ("split", None),
        ("late", "late"),
    ]
    assert [edge.output_tag for edge in vertex.outputs] == [None]
    aside.rebalance().sink_to(CollectSink("again"), uid="again")
    assert [edge.output_tag for edge in env.job_graph().vertex("orders").outputs] == [None, "late"]
    with pytest.raises(SchemaError, match="give the second tag another name"):
        split.side_output(OutputTag("late", {"id": pa.int64()}))
    with pytest.raises(ValueError, match="OutputTag: name = '': expected a name"):
        OutputTag("", {})


def test_settings_of_windows_and_idleness_reach_the_operator() -> None:
    _, orders, _ = streams(timed=False)
    timed = orders.assign_timestamps("at", 3).with_idleness(100)
    assert timed._transformation.spec.idle_ms == 100
    late = OutputTag("late", timed.schema)
    windows = timed.key_by("id").window(TumblingEventTimeWindows(10))
    spec = windows.allowed_lateness(5).side_output_late_data(late).aggregate(count())._transformation.spec
    assert (spec.allowed_lateness_ms, spec.late_tag, spec.time_column) == (5, late, "at")
