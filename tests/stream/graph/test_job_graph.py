"""Chains, their names, the edges between them, and the description of a vertex."""

from __future__ import annotations

import pickle

import pytest

from kit.stream.graph.hashing import operator_id_of_uid
from kit.stream.graph.job_graph import create_job_graph, unique_names
from kit.stream.graph.stream_graph import DuplicateUidError, GraphError
from tests.stream.graph.graphs import edge, node, pipeline, stream_graph


def flights() -> object:
    """Return a job with a branched chain: source -> parse -> (late, to-log), then sums by key, which go to a sink."""
    return create_job_graph(
        stream_graph(
            [
                node(1, "flights"),
                node(2, "parse", uid=None),
                node(3, "late"),
                node(4, "log"),
                node(5, "sums", 3),
                node(6, "sink", 3, uid=None),
            ],
            [edge(1, 2), edge(2, 3), edge(2, 4), edge(2, 5, "hash", "carrier"), edge(3, 5, "rebalance"), edge(5, 6)],
        )
    )


def names(operators: object) -> list[str]:
    return [operator.name for operator in operators]


def test_a_chain_is_a_tree_head_first() -> None:
    vertex = flights().vertex("flights")
    assert names(vertex.operators) == ["flights", "parse", "late", "log"]
    assert [names(vertex.chained_after(operator.operator_id)) for operator in vertex.operators] == [
        ["parse"],
        ["late", "log"],
        [],
        [],
    ]
    assert vertex.chain == "flights -> parse -> (late, log)"
    assert vertex.head.name == "flights"


def test_operator_ids_come_in_flinks_order_the_head_last() -> None:
    vertex = flights().vertex("flights")
    by_id = {operator.operator_id: operator.name for operator in vertex.operators}
    assert [by_id[operator_id] for operator_id in vertex.operator_ids] == ["late", "log", "parse", "flights"]


def test_edges_leave_from_operators_of_the_chain() -> None:
    job = flights()
    vertex = job.vertex("flights")
    # those of operators further down the chain come first
    assert [job.operator(out.source_operator).name for out in vertex.outputs] == ["late", "parse"]
    assert [out.partition for out in vertex.outputs] == [0, 1]
    assert vertex.outputs_of(vertex.operators[1].operator_id) == vertex.outputs[1:]


def test_gates_follow_the_order_of_the_inputs() -> None:
    job = flights()
    sums = job.vertex("sums")
    assert [(into.gate, into.shipping) for into in sums.inputs] == [(0, "hash(carrier)"), (1, "rebalance")]
    assert all(into.target_operator == sums.head.operator_id for into in sums.inputs)
    assert sums.input_vertices == ("flights",)


def test_edges_keep_why_they_are_no_calls() -> None:
    reasons = {into.reason for into in flights().vertex("sums").inputs}
    assert reasons == {"'sums' has 2 inputs, and only one could be a call"}


def test_a_vertex_has_the_id_of_its_head() -> None:
    job = flights()
    assert [vertex.vertex_id for vertex in job.vertices] == [operator_id_of_uid(uid) for uid in ("flights", "sums")]
    assert job.vertex_of(operator_id_of_uid("late")).name == "flights"
    assert job.operator(operator_id_of_uid("late")).name == "late"


def test_vertices_come_after_those_that_send_to_them() -> None:
    job = flights()
    seen: set[str] = set()
    for vertex in job.vertices:
        assert set(vertex.input_vertices) <= seen
        seen.add(vertex.name)
    assert [vertex.name for vertex in job.sources] == ["flights"]


def test_no_vertex_of_that_name() -> None:
    with pytest.raises(KeyError, match=r"no vertex 'totals'; it has flights, sums"):
        flights().vertex("totals")


NAMES = [
    ([node(1, "Source", uid="flights")], "flights"),
    ([node(1, "Source", uid=None), node(2, "map", uid="parsed")], "parsed"),
    ([node(1, "Source", uid=None), node(2, "map", uid=None, named=True)], "map"),
    ([node(1, "Source", uid=None), node(2, "map", uid=None)], "Source"),
    ([node(1, "late flights / 2024", uid=None)], "late-flights-2024"),
    ([node(1, "x" * 100)], "x" * 40),
    ([node(1, "日本", uid=None)], "vertex"),
]


@pytest.mark.parametrize(("nodes", "name"), NAMES, ids=[name for _, name in NAMES])
def test_names_of_vertices(nodes: list, name: str) -> None:
    job = create_job_graph(stream_graph(nodes, [edge(1, 2)] if len(nodes) > 1 else []))
    assert [vertex.name for vertex in job.vertices] == [name]


def test_names_of_vertices_differ() -> None:
    assert unique_names(["a", "a", "a-2", "a"]) == ["a", "a-2", "a-2-2", "a-3"]


def test_max_parallelism_is_flinks_default_unless_set() -> None:
    computed = create_job_graph(pipeline(senders=100)).vertex("source")
    assert (computed.max_parallelism, computed.max_parallelism_configured) == (256, False)
    configured = create_job_graph(pipeline(max_parallelism=7)).vertex("sums")
    assert (configured.max_parallelism, configured.max_parallelism_configured) == (7, True)


def test_the_graph_travels() -> None:
    job = flights()
    job.vertex("sums")  # also once it has been used
    assert pickle.loads(pickle.dumps(job)) == job


def test_two_operators_with_one_uid_are_named() -> None:
    with pytest.raises(DuplicateUidError, match=r"uid 'x' is given to 'first' \(#1\) and 'second' \(#2\)"):
        stream_graph([node(1, "first", uid="x"), node(2, "second", uid="x")], [edge(1, 2)])


def test_forward_needs_equal_parallelism() -> None:
    with pytest.raises(GraphError, match=r"forward from 'source' to 'sums' needs equal parallelism, found 2 and 3"):
        pipeline("forward", 2, 3)
