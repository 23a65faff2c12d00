"""Small stream graphs for the tests: operators without code, wired by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from kit.stream.graph.partitioners import PartitionerKind
from kit.stream.graph.stream_graph import ChainingStrategy, StreamEdge, StreamGraph, StreamNode
from kit.stream.operators.base import OperatorSpec

SCHEMA = pa.schema([("carrier", pa.string()), ("delay", pa.int64())])
SPEC = OperatorSpec("operator", (SCHEMA,), SCHEMA)


def node(number: int, name: str, parallelism: int = 2, **settings: Any) -> StreamNode:
    """Return an operator; `uid` is its name unless given."""
    settings = {"uid": name, "max_parallelism": None, "chaining": ChainingStrategy.ALWAYS, **settings}
    return StreamNode(number, SPEC, name, parallelism=parallelism, **settings)


def edge(source: int, target: int, kind: str = "forward", *key_columns: str) -> StreamEdge:
    """Return an edge with a partitioner by name."""
    return StreamEdge(source, target, PartitionerKind(kind), key_columns)


def stream_graph(nodes: list[StreamNode], edges: list[StreamEdge], **settings: Any) -> StreamGraph:
    """Return a graph of these."""
    return StreamGraph("job", "0" * 32, tuple(nodes), tuple(edges), **settings)


def pipeline(kind: str = "hash", senders: int = 2, receivers: int = 3, **receiver: Any) -> StreamGraph:
    """Return two operators, `source` and `sums`, with one edge between them."""
    keys = ("carrier",) if kind == "hash" else ()
    return stream_graph([node(1, "source", senders), node(2, "sums", receivers, **receiver)], [edge(1, 2, kind, *keys)])


def unchained(graph: StreamGraph) -> StreamGraph:
    """Return the same graph with chaining switched off."""
    return replace(graph, chaining=False)
