"""Each rule of chaining, alone, and the reason it gives."""

from __future__ import annotations

import pytest

from kit.stream.graph.chaining import RULES, chaining_reason, is_chainable
from kit.stream.graph.stream_graph import ChainingStrategy, StreamGraph
from tests.stream.graph.graphs import edge, node, stream_graph, unchained

NEVER, HEAD = ChainingStrategy.NEVER, ChainingStrategy.HEAD


def two(
    kind: str = "forward", receivers: int = 2, upstream: ChainingStrategy | None = None, **down: object
) -> StreamGraph:
    """Return `a` and `b` with one edge between them."""
    keys = ("carrier", "delay") if kind == "hash" else ()
    up = {} if upstream is None else {"chaining": upstream}
    return stream_graph([node(1, "a", **up), node(2, "b", receivers, **down)], [edge(1, 2, kind, *keys)])


def union() -> StreamGraph:
    """Return `b` with two inputs."""
    return stream_graph([node(1, "a"), node(2, "c"), node(3, "b")], [edge(1, 3), edge(2, 3)])


CASES = [
    (two(), None),
    (two(upstream=HEAD), None),
    (two(max_parallelism=256), None),  # chain-operators-with-different-max-parallelism is on by default
    (unchained(two()), "chaining is switched off for this job"),
    (union(), "'b' has 2 inputs, and only one could be a call"),
    (two(upstream=NEVER), "'a' forbids chaining (disable_chaining)"),
    (two(chaining=NEVER), "'b' forbids chaining (disable_chaining)"),
    (two(chaining=HEAD), "'b' starts a new chain (start_new_chain)"),
    (two("rebalance", receivers=3), "parallelism differs: 'a' has 2, 'b' has 3"),
    (two("rebalance"), "records change subtask: rebalance"),
    (two("hash"), "records change subtask: hash(carrier, delay)"),
    (two("broadcast"), "records change subtask: broadcast"),
    (two("global"), "records change subtask: global"),
    (two("rescale"), "records change subtask: rescale"),
]


@pytest.mark.parametrize(("graph", "reason"), CASES, ids=[str(reason) for _, reason in CASES])
def test_reason(graph: StreamGraph, reason: str | None) -> None:
    first = graph.edges[0]
    assert chaining_reason(first, graph) == reason
    assert is_chainable(first, graph) == (reason is None)


def test_every_rule_refuses_some_case() -> None:
    from kit.stream.graph.chaining import Link

    used = set()
    for graph, _ in CASES:
        a_to_b = graph.edges[0]
        target = graph.node(a_to_b.target)
        link = Link(a_to_b, graph.node(a_to_b.source), target, len(graph.inputs(target)), graph.chaining)
        used |= {rule.name for rule in RULES if rule.refuses(link)}
    assert used == {rule.name for rule in RULES}
