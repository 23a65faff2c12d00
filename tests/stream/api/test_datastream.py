"""The fluent API: the code that newcomers write, the resulting graph, and errors at the line that is wrong."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

from kit.stream.api import OperatorStream, StreamEnvironment
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.graph.hashing import operator_id_of_uid
from kit.stream.graph.job_graph import JobGraph
from kit.stream.graph.stream_graph import DuplicateUidError, GraphError
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.base import OperatorSpec
from kit.stream.operators.functions.batch_process import KeyedBatchFunction
from kit.stream.operators.functions.process import KeyedProcessFunction
from kit.stream.operators.spec import SchemaError
from kit.stream.operators.windows.window_assigners import TumblingEventTimeWindows
from kit.stream.settings.job_settings import CheckpointConfig, ExponentialDelay, NoRestart, SettingError

ROWS = [
    {"carrier": "AA", "tail": "N1", "delay": 5, "at": 1_000},
    {"carrier": "UA", "tail": "N2", "delay": -3, "at": 2_000},
]
FLIGHTS = CollectionSource(ROWS)


def environment(**settings: object) -> StreamEnvironment:
    return StreamEnvironment("flights", **{"parallelism": 2, **settings})


def flights(env: StreamEnvironment | None = None) -> OperatorStream:
    return (env or environment()).from_source(FLIGHTS, uid="flights")


def test_a_job_from_source_to_sink() -> None:
    env = environment()
    (
        env.from_source(FLIGHTS, uid="flights")
        .filter(pc.field("delay") > 0)
        .key_by("carrier")
        .aggregate(flights=count(), delay=sum_("delay"))
        .uid("totals")
        .sink_to(CollectSink(), uid="out")
    )
    job = env.job_graph()
    assert [(v.name, v.chain, v.parallelism) for v in job.vertices] == [
        ("flights", "flights -> filter", 2),
        ("totals", "totals -> out", 2),
    ]
    assert [(e.shipping, e.reason) for e in job.edges] == [("hash(carrier)", "records change subtask: hash(carrier)")]
    assert job.vertex("totals").vertex_id == operator_id_of_uid("totals")
    assert env.execution_graph({"totals": 3}).channel_count == 6


def test_the_job_graph_travels_with_the_users_functions() -> None:
    env = environment()
    least = 4
    env.from_source(FLIGHTS, uid="flights").map(lambda row: row | {"delay": row["delay"] + least}).sink_to(
        CollectSink()
    )
    job = pickle.loads(cloudpickle.dumps(env.job_graph()))
    assert [operator.name for operator in job.vertices[0].operators] == ["flights", "map", "CollectSink"]
    assert job.vertices[0].operators[1].spec.function({"delay": 1}) == {"delay": 5}


NEXT = [
    (lambda s: s.map(lambda row: row), ["carrier", "tail", "delay", "at"]),
    (lambda s: s.map(lambda row: {"n": 1}, {"n": pa.int64()}), ["n"]),
    (lambda s: s.flat_map(lambda row: [], pa.schema([("word", pa.string())])), ["word"]),
    (lambda s: s.map_batches(lambda batch: batch), ["carrier", "tail", "delay", "at"]),
    (lambda s: s.filter(lambda row: True), ["carrier", "tail", "delay", "at"]),
    (lambda s: s.select("delay", "carrier"), ["delay", "carrier"]),
    (lambda s: s.rename(tail="plane"), ["carrier", "plane", "delay", "at"]),
    (lambda s: s.with_column("late", pc.field("delay") > 0), ["carrier", "tail", "delay", "at", "late"]),
    (lambda s: s.assign_timestamps("at", 500), ["carrier", "tail", "delay", "at"]),
    (lambda s: s.key_by("carrier", "tail").aggregate(count()), ["carrier", "tail", "count"]),
    (
        lambda s: s.assign_timestamps("at").key_by("carrier").window(TumblingEventTimeWindows(10)).aggregate(n=count()),
        ["carrier", "window_start", "window_end", "n"],
    ),
    (lambda s: s.key_by("carrier").process(KeyedProcessFunction, {"alert": pa.string()}), ["alert"]),
    (lambda s: s.key_by("carrier").process(KeyedProcessFunction), ["carrier", "tail", "delay", "at"]),
    (lambda s: s.key_by("carrier").process_batches(KeyedBatchFunction, {"alert": pa.string()}), ["alert"]),
]


@pytest.mark.parametrize(("operation", "columns"), NEXT)
def test_a_stream_knows_its_columns(operation: object, columns: list[str]) -> None:
    assert operation(flights()).schema.names == columns


REFUSED = [
    (lambda s: s.key_by("carier"), SchemaError, "key_by: there is no column 'carier'; the columns are 'carrier'"),
    (lambda s: s.key_by(), SchemaError, "key_by"),
    (lambda s: s.select("x"), SchemaError, "select: there is no column 'x'"),
    (lambda s: s.key_by("carrier").aggregate(sum_("dela")), SchemaError, "aggregate: there is no column 'dela'"),
    (lambda s: s.assign_timestamps("carrier"), SchemaError, "column 'carrier' is string"),
    (
        lambda s: s.key_by("carrier").window(TumblingEventTimeWindows(10)).aggregate(count()),
        GraphError,
        "needs event time: call assign_timestamps",
    ),
    (lambda s: s.union(s.select("delay")), SchemaError, "are not the same columns"),
    (lambda s: s.union(flights()), GraphError, "two environments"),
    (lambda s: s.set_parallelism(0), GraphError, "'flights' cannot have parallelism 0: expected 1 to 32768"),
    (lambda s: s.set_max_parallelism(40_000), GraphError, "'flights' cannot have max parallelism 40000"),
    (
        lambda s: s.set_max_parallelism(8).set_parallelism(9),
        GraphError,
        "'flights' cannot have parallelism 9 with max parallelism 8",
    ),
    (lambda s: s.set_max_parallelism(1), GraphError, "'flights' cannot have parallelism 2 with max parallelism 1"),
    (lambda s: s.uid(""), GraphError, "the uid of 'flights' is empty"),
    (
        lambda s: s.map_batches(lambda b: b, {"l": pa.list_(pa.int64())}).key_by("l"),
        SchemaError,
        "cannot be a key",
    ),
    (lambda s: s.apply(OperatorSpec("odd", (), s.schema)), SchemaError, "odd: expects no input; the stream has"),
]


@pytest.mark.parametrize(("operation", "error", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_is_wrong_is_refused_where_it_is_written(operation: object, error: type, message: str) -> None:
    with pytest.raises(error) as refused:
        operation(flights())
    assert message in str(refused.value)


def test_a_uid_is_taken_once_and_both_owners_are_named() -> None:
    stream = flights()
    with pytest.raises(
        DuplicateUidError, match=r"uid 'flights' is given to 'CollectionSource' \(#1\) and 'map' \(#2\)"
    ):
        stream.map(lambda row: row).uid("flights")


def test_names_parallelism_and_chains_are_told_to_the_operator_before() -> None:
    env = environment()
    source = env.from_source(FLIGHTS, uid="flights").set_parallelism(3).set_max_parallelism(12)
    source.map(lambda row: row).name("to miles").disable_chaining().filter(lambda row: True).start_new_chain()
    first, second, third = env.stream_graph().nodes
    assert (first.parallelism, first.max_parallelism, first.uid) == (3, 12, "flights")
    assert (second.name, second.uid, second.chaining.value) == ("to miles", None, "NEVER")
    assert second.spec.name == "to miles"
    assert third.chaining.value == "HEAD"
    assert [vertex.name for vertex in env.job_graph().vertices] == ["flights", "to-miles", "filter"]


def test_sources_and_sinks_are_named_when_they_are_made() -> None:
    env = environment()
    env.from_source(FLIGHTS, name="all flights").map(lambda row: row).uid("parsed").sink_to(CollectSink(), name="end")
    (vertex,) = env.job_graph().vertices
    assert (vertex.name, vertex.chain) == ("all-flights", "all flights -> parsed -> end")


def test_edges_are_forward_where_they_can_be_else_rebalance() -> None:
    env = environment()
    source = env.from_source(FLIGHTS)
    source.map(lambda row: row)
    source.map(lambda row: row).set_parallelism(3)
    assert [edge.shipping for edge in env.stream_graph().edges] == ["forward", "rebalance"]


SHIPPED = [
    (lambda s: s.rebalance(), "rebalance"),
    (lambda s: s.rescale(), "rescale"),
    (lambda s: s.broadcast(), "broadcast"),
    (lambda s: s.global_(), "global"),
    (lambda s: s.forward(), "forward"),
    (lambda s: s.key_by("carrier", "tail"), "hash(carrier, tail)"),
    (lambda s: s.rebalance().key_by("carrier"), "hash(carrier)"),  # the last word holds
    (lambda s: s.key_by("carrier").rebalance(), "rebalance"),
]


@pytest.mark.parametrize(("ship", "shipping"), SHIPPED)
def test_partitionings(ship: object, shipping: str) -> None:
    env = environment()
    ship(flights(env)).map(lambda row: row)
    assert [edge.shipping for edge in env.stream_graph().edges] == [shipping]


def test_a_union_is_several_edges_into_one_operator() -> None:
    env = environment()
    first, second = env.from_source(FLIGHTS, uid="a"), env.from_source(FLIGHTS, uid="b")
    first.union(second.rebalance(), first).map(lambda row: row).uid("both")
    assert [(e.source, e.target, e.shipping) for e in env.stream_graph().edges] == [
        (1, 3, "forward"),
        (2, 3, "rebalance"),
        (1, 3, "forward"),
    ]
    gates = env.execution_graph().task("both/0").gates
    assert [len(gate.channels) for gate in gates] == [1, 2, 1]


def test_an_edge_beside_one_that_must_be_aligned_is_aligned_too() -> None:
    env = environment()
    first, second = env.from_source(FLIGHTS, uid="a"), env.from_source(FLIGHTS, uid="b")
    first.key_by("carrier").union(second.broadcast()).map(lambda row: row)
    first.key_by("carrier").map(lambda row: row)
    assert [edge.supports_unaligned for edge in env.stream_graph().edges] == [False, False, True]


def test_windows_over_a_union_need_one_time_column() -> None:
    env = environment()
    first = env.from_source(FLIGHTS).assign_timestamps("at")
    second = env.from_source(FLIGHTS).assign_timestamps("delay")
    windows = first.union(second).key_by("carrier").window(TumblingEventTimeWindows(10))
    with pytest.raises(GraphError, match="with the same column"):
        windows.aggregate(count())


def test_process_knows_event_time_only_while_its_column_is_there() -> None:
    stream = flights().assign_timestamps("at")
    kept = stream.key_by("carrier").process(KeyedProcessFunction)
    lost = stream.select("carrier").key_by("carrier").process(KeyedProcessFunction)
    assert kept._transformation.spec.inputs[0].time_column == "at"
    assert lost._transformation.spec.inputs[0].time_column is None


# ---- the environment


def test_forward_to_another_parallelism_is_refused() -> None:
    env = environment()
    env.from_source(FLIGHTS, uid="flights").forward().map(lambda row: row).set_parallelism(3)
    with pytest.raises(GraphError, match=r"forward from 'flights' to 'map' needs equal parallelism, found 2 and 3"):
        env.stream_graph()


def test_an_empty_job_is_refused() -> None:
    with pytest.raises(GraphError, match="job 'flights' has no operators"):
        environment().job_graph()


@pytest.mark.parametrize("job_id", ["", "xyz", "A" * 32, "0" * 31])
def test_a_job_id_is_32_hex_digits(job_id: str) -> None:
    with pytest.raises(GraphError, match="expected 32 hex digits"):
        environment(job_id=job_id)


def test_the_job_id_comes_from_the_name() -> None:
    assert environment().job_id == environment(parallelism=5).job_id
    assert environment().job_id != StreamEnvironment("other").job_id
    assert environment(job_id="a" * 32).job_id == "a" * 32


def test_the_jobs_parallelism_must_fit_its_maximum() -> None:
    with pytest.raises(GraphError, match="'flights' cannot have parallelism 2 with max parallelism 1"):
        environment(max_parallelism=1)


def test_the_jobs_parallelism_can_be_set_for_what_follows() -> None:
    env = environment()
    with pytest.raises(GraphError, match="'flights' cannot have max parallelism 1000000"):
        env.max_parallelism = 1_000_000
    env.max_parallelism = 24
    with pytest.raises(GraphError, match="'flights' cannot have parallelism 25 with max parallelism 24"):
        env.parallelism = 25
    env.parallelism = 3
    flights(env)
    vertex = env.job_graph().vertex("flights")
    assert (vertex.parallelism, vertex.max_parallelism) == (3, 24)


def test_the_jobs_parallelism_is_that_of_operators_that_exist_already() -> None:
    env = environment(max_parallelism=24)
    stream = env.from_source(FLIGHTS, uid="first")
    stream.filter(lambda row: True).uid("own").set_parallelism(5).sink_to(CollectSink("out"), uid="out")
    env.parallelism = 3
    graph = env.job_graph()
    assert [(each.name, each.parallelism) for each in graph.vertices] == [("first", 3), ("own", 5), ("out", 3)]
    with pytest.raises(GraphError, match="'own' cannot have parallelism 5 with max parallelism 4"):
        env.max_parallelism = 4
    assert (env.parallelism, env.max_parallelism) == (3, 24), "nothing has changed"
    env.max_parallelism = 8
    assert [each.max_parallelism for each in env.job_graph().vertices] == [8, 8, 8]


def test_the_jobs_max_parallelism_is_that_of_its_operators() -> None:
    env = environment(max_parallelism=12)
    flights(env)
    vertex = env.job_graph().vertex("flights")
    assert (vertex.max_parallelism, vertex.max_parallelism_configured) == (12, True)


def test_jobs_that_checkpoint_restart_by_default() -> None:
    assert environment().settings.restart == NoRestart()
    periodic = environment(checkpoint=CheckpointConfig(interval_ms=100))
    assert periodic.settings.restart == ExponentialDelay(first_at_once=True)
    assert (
        environment(checkpoint=CheckpointConfig(interval_ms=100), restart=NoRestart()).settings.restart == NoRestart()
    )


def test_settings_travel_with_the_job() -> None:
    env = environment(buffer_bytes=7, channel_credits=3)
    env.from_source(FLIGHTS)
    settings = env.job_graph().settings
    assert (settings.buffer_bytes, settings.channel_credits) == (7, 3)
    with pytest.raises(SettingError, match="channel_credits = 0"):
        environment(channel_credits=0)


def test_reprs_are_short() -> None:
    env = environment()
    stream = flights(env)
    assert repr(stream) == "OperatorStream(flights: (carrier: string, tail: string, delay: int64, at: int64))"
    assert repr(env) == "StreamEnvironment('flights', 1 operators)"
    assert repr(stream.sink_to(CollectSink(), uid="out")) == "StreamSink(out)"


def test_a_partitioning_of_ones_own_reaches_the_subtask_with_its_function() -> None:
    env = environment()
    rows = flights(env)
    rows.partition_custom(lambda delay, n: delay % n, "delay").filter(lambda row: True).uid("next")
    job = env.job_graph()
    assert [edge.shipping for edge in job.edges] == ["custom(delay)"]
    assert not job.edges[0].supports_unaligned
    partitioner = env.execution_graph({"next": 3}).task("flights/0").partitions[0].create_partitioner()
    parts = partitioner.split(pa.RecordBatch.from_pylist(ROWS))
    assert [(subtask, part["delay"].to_pylist()) for subtask, part in parts] == [(0, [-3]), (2, [5])]
    with pytest.raises(SchemaError, match="partition_custom: there is no column 'arrival'"):
        rows.partition_custom(lambda value, n: 0, "arrival")


def test_a_partitioning_of_ones_own_goes_with_unaligned_checkpoints_only_by_force() -> None:
    def job(**settings: bool) -> JobGraph:
        env = environment(checkpoint=CheckpointConfig(unaligned=True, **settings))
        rows = flights(env).partition_custom(lambda delay, n: delay % n, "delay").filter(lambda row: True).uid("next")
        rows.rebalance().filter(lambda row: True).uid("last")
        return env.job_graph()

    with pytest.raises(GraphError, match=r"partition_custom from .flights. to .next. .* force_unaligned=True"):
        job()
    forced = job(force_unaligned=True)
    assert {edge.shipping: edge.supports_unaligned for edge in forced.edges} == {
        "custom(delay)": False,
        "rebalance": True,
    }


@pytest.mark.parametrize("wrong", [60_000, TumblingEventTimeWindows])
def test_what_is_no_kind_of_window_is_refused(wrong: object) -> None:
    env = StreamEnvironment()
    left, right = (env.from_source(CollectionSource([{"k": 1, "at": 2}])).assign_timestamps("at") for _ in range(2))
    with pytest.raises(TypeError, match="such as TumblingEventTimeWindows"):
        left.key_by("k").window(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="such as TumblingEventTimeWindows"):
        left.join(right).where("k").equal_to("k").window(wrong)  # type: ignore[arg-type]
