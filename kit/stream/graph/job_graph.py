"""The job as tasks: chains of operators, and the edges between chains.

A `JobVertex` is a chain: a head that receives records from outside, and operators that get theirs by a call. A chain
may branch (two consumers of one operator, both chained), so it is a tree. A `JobEdge` runs from one operator of a
vertex to the head of another; it is a *result partition* of the one and an *input gate* of the other, both numbered per
vertex. All of it is plain data, which is sent to the workers unchanged.

Follows Flink's `JobGraph`, `JobVertex`, `JobEdge` and `StreamingJobGraphGenerator`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kit.core.state.key_groups import default_max_parallelism
from kit.stream.graph.chaining import chaining_reason
from kit.stream.graph.hashing import operator_ids
from kit.stream.graph.partitioners import PartitionerKind, PartitionFunction, shipping
from kit.stream.graph.stream_graph import GraphError, StreamEdge, StreamGraph, StreamNode
from kit.stream.operators.sources.source import Source
from kit.stream.operators.sources.source_spec import SourceSpec
from kit.stream.settings.job_settings import JobSettings
from kit.stream.settings.parts import PartError, Parts

if TYPE_CHECKING:
    from kit.stream.operators.base import OperatorSpec


@dataclass(frozen=True, slots=True)
class ChainedOperator:
    """An operator in its chain; `input_operator` is the id of the operator that calls it, None for the head.

    `input_tag` names the side output of that operator which it takes; None is the main output.
    """

    operator_id: str
    uid: str | None
    name: str
    spec: OperatorSpec
    input_operator: str | None = None
    input_tag: str | None = None

    def __repr__(self) -> str:
        return f"ChainedOperator({self.name!r}, {self.operator_id[:8]})"


@dataclass(frozen=True, slots=True)
class JobEdge:
    """A stream between two tasks.

    `source` and `target` are names of vertices; `partition` numbers the edge among the source's outputs, `gate` among
    the target's inputs. Records come from `source_operator` (an operator id) and go to input `input_index` of the
    target's head. `reason` says why the two ends are not chained. `output_tag` names the side output that is carried;
    None is the main output.
    """

    source: str
    target: str
    partitioner: PartitionerKind
    key_columns: tuple[str, ...]
    partition: int
    gate: int
    source_operator: str
    target_operator: str
    input_index: int
    supports_unaligned: bool
    reason: str
    partition_function: PartitionFunction | None = None
    output_tag: str | None = None

    @property
    def is_pointwise(self) -> bool:
        """True if a subtask is connected to the subtasks opposite only (`DistributionPattern.POINTWISE`)."""
        return self.partitioner.is_pointwise

    @property
    def shipping(self) -> str:
        """The partitioning as text, such as `hash(carrier, day)`."""
        return shipping(self.partitioner, self.key_columns)

    def __repr__(self) -> str:
        return f"JobEdge({self.source} -> {self.target}, {self.shipping})"


@dataclass(frozen=True)
class JobVertex:
    """A chain of operators, run by `parallelism` subtasks, named `<name>/<subtask>`.

    `vertex_id` is the head's operator id. `operators` begin with the head, each after the operator that calls it.
    `max_parallelism` is what the user set on the head or for the job (then `max_parallelism_configured`), else Flink's
    default for the parallelism.
    """

    vertex_id: str
    name: str
    operators: tuple[ChainedOperator, ...]
    parallelism: int
    max_parallelism: int
    max_parallelism_configured: bool
    inputs: tuple[JobEdge, ...] = ()
    outputs: tuple[JobEdge, ...] = ()

    @property
    def head(self) -> ChainedOperator:
        """The operator that receives records from outside."""
        return self.operators[0]

    @property
    def is_source(self) -> bool:
        """True if the vertex has no inputs."""
        return not self.inputs

    @property
    def input_vertices(self) -> tuple[str, ...]:
        """The names of the vertices that send to this one, each once, in gate order."""
        return tuple(dict.fromkeys(edge.source for edge in self.inputs))

    @property
    def chain(self) -> str:
        """The chain as text, such as `flights -> (late, parse -> totals)` (Flink's name of the vertex)."""
        return self._chain_from(self.head)

    @cached_property
    def operator_ids(self) -> tuple[str, ...]:
        """The operator ids in Flink's order, each after those it calls: the head is last (`getOperatorIDs`)."""
        return tuple(operator.operator_id for operator in self._calls_first(self.head))

    def chained_after(self, operator_id: str) -> tuple[ChainedOperator, ...]:
        """Return the operators of the chain that this one calls."""
        return tuple(operator for operator in self.operators if operator.input_operator == operator_id)

    def outputs_of(self, operator_id: str) -> tuple[JobEdge, ...]:
        """Return the edges that carry this operator's records out of the task."""
        return tuple(edge for edge in self.outputs if edge.source_operator == operator_id)

    def _chain_from(self, operator: ChainedOperator) -> str:
        after = [self._chain_from(called) for called in self.chained_after(operator.operator_id)]
        if len(after) > 1:
            return f"{operator.name} -> ({', '.join(after)})"
        return " -> ".join([operator.name, *after])

    def _calls_first(self, operator: ChainedOperator) -> Iterator[ChainedOperator]:
        for called in self.chained_after(operator.operator_id):
            yield from self._calls_first(called)
        yield operator

    def __repr__(self) -> str:
        return f"JobVertex({self.name}: {self.chain}, parallelism {self.parallelism})"


@dataclass(frozen=True)
class JobGraph:
    """The vertices of a job, each after those that send to it, the job's settings, and user-defined parts."""

    job_id: str
    name: str
    vertices: tuple[JobVertex, ...]
    settings: JobSettings = field(default_factory=JobSettings)
    parts: Parts = field(default_factory=Parts)

    @cached_property
    def _by_name(self) -> dict[str, JobVertex]:
        return {vertex.name: vertex for vertex in self.vertices}

    @cached_property
    def _by_operator(self) -> dict[str, tuple[JobVertex, ChainedOperator]]:
        return {operator.operator_id: (vertex, operator) for vertex in self.vertices for operator in vertex.operators}

    @property
    def operators(self) -> tuple[ChainedOperator, ...]:
        """The operators of all vertices, in order."""
        return tuple(operator for vertex in self.vertices for operator in vertex.operators)

    @property
    def parallelism(self) -> dict[str, int]:
        """The parallelism that each vertex has at first, by name."""
        return {vertex.name: vertex.parallelism for vertex in self.vertices}

    def vertex(self, name: str) -> JobVertex:
        """Return the vertex with this name. Raises KeyError, which lists the known names, for another one."""
        if name not in self._by_name:
            raise KeyError(f"job {self.name!r} has no vertex {name!r}; it has {', '.join(self._by_name)}")
        return self._by_name[name]

    def vertex_of(self, operator_id: str) -> JobVertex:
        """Return the vertex in whose chain the operator is. Raises KeyError for an unknown id."""
        return self._by_operator[operator_id][0]

    def operator(self, operator_id: str) -> ChainedOperator:
        """Return the operator with this id. Raises KeyError for an unknown id."""
        return self._by_operator[operator_id][1]

    def with_parts(self, parts: Parts | None) -> JobGraph:
        """Return the job with user-defined parts; None leaves it unchanged. Raises PartError for another type."""
        if parts is None:
            return self
        if not isinstance(parts, Parts):
            raise PartError(f"parts is {parts!r}, but must be kit.Parts(...)")
        return replace(self, parts=parts)

    def with_sources(self, change: Callable[[str, Source], Source]) -> JobGraph:
        """Return the job with other sources: `change` takes an operator id and its source, and returns the new one."""

        def changed(operator: ChainedOperator) -> ChainedOperator:
            spec = operator.spec
            if not isinstance(spec, SourceSpec):
                return operator
            source = change(operator.operator_id, spec.source)
            return operator if source is spec.source else replace(operator, spec=replace(spec, source=source))

        vertices = (replace(each, operators=tuple(map(changed, each.operators))) for each in self.vertices)
        return replace(self, vertices=tuple(vertices))

    def checked_to_act(self) -> JobGraph:
        """Return the job. Raises GraphError for a job without a sink, which would have no effect."""
        if not any(operator.spec.acts for operator in self.operators):
            raise GraphError(
                f"job {self.name!r} would have no effect: no stream reaches a sink; end one with .sink_to(...)"
            )
        return self

    @property
    def sources(self) -> tuple[JobVertex, ...]:
        """The vertices without inputs: barriers start there."""
        return tuple(vertex for vertex in self.vertices if vertex.is_source)

    @property
    def edges(self) -> tuple[JobEdge, ...]:
        """All edges, in order of the vertices they lead to."""
        return tuple(edge for vertex in self.vertices for edge in vertex.inputs)

    def __repr__(self) -> str:
        return f"JobGraph({self.name!r}: {', '.join(v.name for v in self.vertices)})"


# ---- from the stream graph --------------------------------------------------------------------------------------


def create_job_graph(graph: StreamGraph) -> JobGraph:
    """Chain what may be chained (`StreamingJobGraphGenerator.createJobGraph`).

    Follows Flink's `StreamingJobGraphGenerator`.
    """
    return _JobGraphBuilder(graph).build()


class _JobGraphBuilder:
    """The builder, in passes: which operators are chained, the chains, their names, edges, vertices."""

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self.ids = operator_ids(graph)
        self.reasons = {id(edge): chaining_reason(edge, graph) for edge in graph.edges}
        self.chains: dict[int, list[StreamNode]] = {}
        self.unchained: dict[int, list[StreamEdge]] = {}
        for node in graph.nodes:
            if not any(self.is_chained(edge) for edge in graph.inputs(node)):
                self.chains[node.node_id], self.unchained[node.node_id] = self.walk(node)
        self.names = unique_names([_short_name(chain) for chain in self.chains.values()])
        self.name_of_head = dict(zip(self.chains, self.names, strict=True))

    def is_chained(self, edge: StreamEdge) -> bool:
        return self.reasons[id(edge)] is None

    def walk(self, node: StreamNode) -> tuple[list[StreamNode], list[StreamEdge]]:
        """Return the operators chained from `node` on, and the edges that leave them, from the end of the chain."""
        chain, leaving = [node], []
        outputs = self.graph.outputs(node)
        for edge in filter(self.is_chained, outputs):
            chain_below, leaving_below = self.walk(self.graph.node(edge.target))
            chain += chain_below
            leaving += leaving_below
        leaving += [edge for edge in outputs if not self.is_chained(edge)]
        return chain, leaving

    def build(self) -> JobGraph:
        edges = {
            id(stream_edge): self.job_edge(stream_edge, head, partition)
            for head, leaving in self.unchained.items()
            for partition, stream_edge in enumerate(leaving)
        }
        vertices = tuple(self.vertex(head, edges) for head in self.chains)
        return JobGraph(self.graph.job_id, self.graph.name, vertices, self.graph.settings)

    def job_edge(self, edge: StreamEdge, head: int, partition: int) -> JobEdge:
        """Return the edge between two tasks that this edge between two operators becomes."""
        target = self.graph.node(edge.target)
        gate = next(i for i, other in enumerate(self.graph.inputs(target)) if other is edge)
        return JobEdge(
            source=self.name_of_head[head],
            target=self.name_of_head[edge.target],
            partitioner=edge.partitioner,
            key_columns=edge.key_columns,
            partition=partition,
            gate=gate,
            source_operator=self.ids[edge.source],
            target_operator=self.ids[edge.target],
            input_index=edge.input_index,
            supports_unaligned=edge.supports_unaligned,
            reason=self.reasons[id(edge)] or "",
            partition_function=edge.partition_function,
            output_tag=edge.output_tag,
        )

    def vertex(self, head: int, edges: dict[int, JobEdge]) -> JobVertex:
        node = self.graph.node(head)
        return JobVertex(
            vertex_id=self.ids[head],
            name=self.name_of_head[head],
            operators=tuple(self.chained_operator(member) for member in self.chains[head]),
            parallelism=node.parallelism,
            max_parallelism=node.max_parallelism or default_max_parallelism(node.parallelism),
            max_parallelism_configured=node.max_parallelism is not None,
            inputs=tuple(edges[id(edge)] for edge in self.graph.inputs(node)),
            outputs=tuple(edges[id(edge)] for edge in self.unchained[head]),
        )

    def chained_operator(self, node: StreamNode) -> ChainedOperator:
        calls = [edge for edge in self.graph.inputs(node) if self.is_chained(edge)]
        return ChainedOperator(
            operator_id=self.ids[node.node_id],
            uid=node.uid,
            name=node.name,
            spec=node.spec,
            input_operator=self.ids[calls[0].source] if calls else None,
            input_tag=calls[0].output_tag if calls else None,
        )


# ---- names ------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 40


def _short_name(chain: list[StreamNode]) -> str:
    """Return the first uid or name that the user gave in the chain, else the head's name; it is a valid file name."""
    given = [node.uid or node.name for node in chain if node.uid or node.named]
    name = (given or [chain[0].name])[0]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:_LONGEST_NAME] or "vertex"


def unique_names(names: list[str]) -> list[str]:
    """Return the names, with -2, -3, ... added to repeated ones."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name}-{number}"
        taken.add(candidate)
        unique.append(candidate)
    return unique
