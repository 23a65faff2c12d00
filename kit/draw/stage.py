"""The stage: the shape of one epoch's execution graph, small and JSON-like.

A trace says what happened and a stage among whom. Both can be stored as JSON, so a run recorded on a cluster can be
drawn anywhere. Rescaling changes the shape: a run has one stage for each epoch that began with another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kit.protocol.tasks import split_task_name

if TYPE_CHECKING:
    from kit.graph.execution_graph import ExecutionGraph
    from kit.graph.job_graph import JobGraph

MOST_BOXES = 6
"""An operator with more subtasks than this is drawn as one box."""


@dataclass(frozen=True, slots=True)
class StageVertex:
    """A job vertex: its name as in task names, the operators chained in it, how many subtasks."""

    name: str
    operators: tuple[str, ...]
    parallelism: int
    max_parallelism: int = 128

    @property
    def aggregated(self) -> bool:
        """Whether its subtasks are too many to draw each."""
        return self.parallelism > MOST_BOXES


@dataclass(frozen=True, slots=True)
class StageChannel:
    """A channel of the execution graph: its number, the tasks at its ends, how records find their way."""

    number: int
    source: str
    target: str
    partitioner: str = ""


@dataclass(frozen=True, slots=True)
class StageOperator:
    """An operator as the user wrote it, and the vertex that it is chained into."""

    name: str
    uid: str | None
    vertex: str


@dataclass(frozen=True, slots=True)
class StageEdge:
    """What flows from one operator to another, by their places in `Stage.operators`; `shipping` says how.

    `reason` says why the two are not chained; empty when they are.
    """

    source: int
    target: int
    shipping: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """The shape of one epoch: tasks and channels, and the operators and edges that they were made from."""

    epoch: int
    vertices: tuple[StageVertex, ...]
    channels: tuple[StageChannel, ...]
    job: str = ""
    operators: tuple[StageOperator, ...] = ()
    edges: tuple[StageEdge, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The stage as JSON-like data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stage:
        """The stage that `to_dict` described."""
        return cls(
            data["epoch"],
            tuple(StageVertex(**{**vertex, "operators": tuple(vertex["operators"])}) for vertex in data["vertices"]),
            tuple(StageChannel(**channel) for channel in data["channels"]),
            data["job"],
            tuple(StageOperator(**operator) for operator in data["operators"]),
            tuple(StageEdge(**edge) for edge in data["edges"]),
        )

    @classmethod
    def of(cls, graph: ExecutionGraph, epoch: int = 1) -> Stage:
        """The stage of an execution graph in the epoch in which it was deployed."""
        vertices = tuple(
            StageVertex(
                vertex.name,
                tuple(operator.name for operator in vertex.operators),
                graph.parallelism[vertex.name],
                graph.max_parallelism[vertex.name],
            )
            for vertex in graph.job_graph.vertices
        )
        kinds = {(edge.source, edge.target): edge.partitioner.value for edge in graph.job_graph.edges}
        channels = tuple(
            StageChannel(
                channel.number,
                channel.source_task,
                channel.target_task,
                kinds[split_task_name(channel.source_task)[0], split_task_name(channel.target_task)[0]],
            )
            for channel in graph.channels
        )
        job = graph.job_graph
        operators = tuple(
            StageOperator(operator.name, operator.uid, vertex.name)
            for vertex in job.vertices
            for operator in vertex.operators
        )
        return cls(epoch, vertices, channels, job.name, operators, tuple(_edges(job)))

    def __hash__(self) -> int:
        """Layouts are kept by stage and asked for at every frame: the channels of a large job are too many to hash."""
        return hash((self.epoch, self.job, self.vertices))

    def __repr__(self) -> str:
        shape = " -> ".join(f"{vertex.name} x{vertex.parallelism}" for vertex in self.vertices)
        return f"Stage(epoch {self.epoch}: {shape}, {len(self.channels)} channels)"

    def _repr_svg_(self) -> str | None:
        from kit.draw.chains import chains_svg

        return chains_svg(self) if self.operators else None

    def vertex_of(self, task: str) -> StageVertex:
        """The vertex that a task is a subtask of."""
        name = task.rpartition("/")[0]
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def ends(self) -> dict[int, tuple[str, str]]:
        """Sender and receiver of each channel."""
        return {channel.number: (channel.source, channel.target) for channel in self.channels}

    def tasks(self) -> list[str]:
        """All tasks, vertex by vertex."""
        return [f"{vertex.name}/{subtask}" for vertex in self.vertices for subtask in range(vertex.parallelism)]


def _edges(job: JobGraph) -> Iterator[StageEdge]:
    """Vertex by vertex the edges into it, then those inside."""
    chained = [operator for vertex in job.vertices for operator in vertex.operators]
    place = {operator.operator_id: number for number, operator in enumerate(chained)}
    for vertex in job.vertices:
        for edge in vertex.inputs:
            yield StageEdge(place[edge.source_operator], place[edge.target_operator], edge.shipping, edge.reason)
        for operator in vertex.operators:
            if operator.input_operator is not None:
                yield StageEdge(place[operator.input_operator], place[operator.operator_id], "forward")


def stage_for(stages: Iterable[Stage], epoch: int) -> Stage:
    """The stage of an epoch: the last one that is not newer."""
    ordered = sorted(stages, key=lambda stage: stage.epoch)
    return next((stage for stage in reversed(ordered) if stage.epoch <= epoch), ordered[0])
