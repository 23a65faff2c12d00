"""The shape of an execution graph as a trace keeps it.

An exchange between a thousand senders and a thousand receivers has a million channels, which a driver must not create
one by one before it starts the job. So they are created on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

from kit.core.protocol.tasks import vertex_of
from kit.core.trace.shape import EpochShape, ShapeChannel, ShapeEdge, ShapeOperator, ShapeVertex
from kit.stream.graph.execution_graph import ExecutionGraph
from kit.stream.graph.job_graph import JobGraph
from kit.stream.settings.setting_rules import SlotSharing


def epoch_shape(graph: ExecutionGraph, epoch: int = 1) -> EpochShape:
    """Return the shape of the epoch in which this graph was deployed."""
    vertices = tuple(
        ShapeVertex(
            vertex.name,
            tuple(operator.name for operator in vertex.operators),
            graph.parallelism[vertex.name],
            graph.max_parallelism[vertex.name],
        )
        for vertex in graph.job_graph.vertices
    )
    job = graph.job_graph
    operators = tuple(
        ShapeOperator(operator.name, operator.uid, vertex.name)
        for vertex in job.vertices
        for operator in vertex.operators
    )
    by_region = job.settings.slot_sharing is SlotSharing.REGION
    slots = tuple(map(graph.slots.tasks_in, range(len(graph.slots)))) if by_region else ()
    edges = tuple(_edges(job))
    in_regions, failover = graph.restarts_regions, job.settings.failover.value
    return EpochShape(epoch, vertices, _Channels(graph), job.name, operators, edges, slots, in_regions, failover)


class _Channels(Sequence[ShapeChannel]):
    """The channels of a graph, created on first use."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph

    @cached_property
    def _all(self) -> tuple[ShapeChannel, ...]:
        kinds = {(edge.source, edge.target): edge.partitioner.value for edge in self._graph.job_graph.edges}
        return tuple(
            ShapeChannel(
                channel.number,
                channel.source_task,
                channel.target_task,
                kinds[vertex_of(channel.source_task), vertex_of(channel.target_task)],
            )
            for channel in self._graph.channels
        )

    @overload
    def __getitem__(self, index: int) -> ShapeChannel: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ShapeChannel]: ...

    def __getitem__(self, index: int | slice) -> ShapeChannel | Sequence[ShapeChannel]:
        return self._all[index]

    def __len__(self) -> int:
        return self._graph.channel_count

    def __iter__(self) -> Iterator[ShapeChannel]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        """Return True for any sequence of the same channels: a shape that was saved has them in a tuple."""
        return isinstance(other, Sequence) and len(self) == len(other) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._graph.channel_count)

    def __reduce__(self) -> tuple[type, tuple[tuple[ShapeChannel, ...]]]:
        """Copy and pickle as a plain tuple."""
        return tuple, (self._all,)

    def __repr__(self) -> str:
        return f"{len(self):,} channels"


def _edges(job: JobGraph) -> Iterator[ShapeEdge]:
    """Yield the edges vertex by vertex: first those into it, then those inside."""
    index = {operator.operator_id: number for number, operator in enumerate(job.operators)}
    for vertex in job.vertices:
        for edge in vertex.inputs:
            yield ShapeEdge(index[edge.source_operator], index[edge.target_operator], edge.shipping, edge.reason)
        for operator in vertex.operators:
            if operator.input_operator is not None:
                yield ShapeEdge(index[operator.input_operator], index[operator.operator_id], "forward")
