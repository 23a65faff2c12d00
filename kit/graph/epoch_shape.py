"""The shape of an execution graph as a trace keeps it."""

from __future__ import annotations

from collections.abc import Iterator

from kit.graph.execution_graph import ExecutionGraph
from kit.graph.job_graph import JobGraph
from kit.protocol.shape import EpochShape, ShapeChannel, ShapeEdge, ShapeOperator, ShapeVertex
from kit.protocol.tasks import split_task_name


def epoch_shape(graph: ExecutionGraph, epoch: int = 1) -> EpochShape:
    """The shape of the epoch in which this graph was deployed."""
    vertices = tuple(
        ShapeVertex(
            vertex.name,
            tuple(operator.name for operator in vertex.operators),
            graph.parallelism[vertex.name],
            graph.max_parallelism[vertex.name],
        )
        for vertex in graph.job_graph.vertices
    )
    kinds = {(edge.source, edge.target): edge.partitioner.value for edge in graph.job_graph.edges}
    channels = tuple(
        ShapeChannel(
            channel.number,
            channel.source_task,
            channel.target_task,
            kinds[split_task_name(channel.source_task)[0], split_task_name(channel.target_task)[0]],
        )
        for channel in graph.channels
    )
    job = graph.job_graph
    operators = tuple(
        ShapeOperator(operator.name, operator.uid, vertex.name)
        for vertex in job.vertices
        for operator in vertex.operators
    )
    return EpochShape(epoch, vertices, channels, job.name, operators, tuple(_edges(job)))


def _edges(job: JobGraph) -> Iterator[ShapeEdge]:
    """Vertex by vertex the edges into it, then those inside."""
    chained = [operator for vertex in job.vertices for operator in vertex.operators]
    index = {operator.operator_id: number for number, operator in enumerate(chained)}
    for vertex in job.vertices:
        for edge in vertex.inputs:
            yield ShapeEdge(index[edge.source_operator], index[edge.target_operator], edge.shipping, edge.reason)
        for operator in vertex.operators:
            if operator.input_operator is not None:
                yield ShapeEdge(index[operator.input_operator], index[operator.operator_id], "forward")
