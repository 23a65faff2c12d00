"""The stage: the shape of one epoch's execution graph, small and JSON-like.

A trace says what happened and a stage among whom. Both can be stored as JSON, so a run recorded on a cluster can be
drawn anywhere. Rescaling changes the shape: a run has one stage for each epoch that began with another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kit.protocol.tasks import split_task_name

if TYPE_CHECKING:
    from kit.graph.execution_graph import ExecutionGraph

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
class Stage:
    """The shape of one epoch."""

    epoch: int
    vertices: tuple[StageVertex, ...]
    channels: tuple[StageChannel, ...]

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
        return cls(epoch, vertices, channels)

    def __repr__(self) -> str:
        shape = " -> ".join(f"{vertex.name} x{vertex.parallelism}" for vertex in self.vertices)
        return f"Stage(epoch {self.epoch}: {shape}, {len(self.channels)} channels)"

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


def stage_for(stages: Iterable[Stage], epoch: int) -> Stage:
    """The stage of an epoch: the last one that is not newer."""
    ordered = sorted(stages, key=lambda stage: stage.epoch)
    return next((stage for stage in reversed(ordered) if stage.epoch <= epoch), ordered[0])
