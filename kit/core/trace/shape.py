"""The shape of one epoch: tasks and channels, and the operators and edges that they were made from.

A trace says what happened, and the shapes of its epochs say to which tasks. Both are plain values that can be written
as JSON, so a run recorded on a cluster can be inspected anywhere. Rescaling changes the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from kit.core.protocol.tasks import split_task_name


@dataclass(frozen=True, slots=True)
class ShapeVertex:
    """A job vertex: its name as used in task names, the operators chained in it, and its parallelism."""

    name: str
    operators: tuple[str, ...]
    parallelism: int
    max_parallelism: int = 128


@dataclass(frozen=True, slots=True)
class ShapeChannel:
    """A channel of the execution graph: its number, the tasks at its ends, and how records are distributed."""

    number: int
    source: str
    target: str
    partitioner: str = ""


@dataclass(frozen=True, slots=True)
class ShapeOperator:
    """An operator as the user wrote it, and the vertex that it is chained into."""

    name: str
    uid: str | None
    vertex: str


@dataclass(frozen=True, slots=True)
class ShapeEdge:
    """An edge between two operators, by their indices in `EpochShape.operators`; `shipping` names the partitioner.

    `reason` says why the two are not chained; it is empty if they are.
    """

    source: int
    target: int
    shipping: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EpochShape:
    """The tasks, channels and operators that were deployed in one epoch."""

    epoch: int
    vertices: tuple[ShapeVertex, ...]
    channels: Sequence[ShapeChannel]
    job: str = ""
    operators: tuple[ShapeOperator, ...] = ()
    edges: tuple[ShapeEdge, ...] = ()
    slots: tuple[tuple[str, ...], ...] = ()
    """The tasks in each slot; empty if subtask i of each vertex runs in slot i."""
    restarts_regions: bool = False
    """True if a failure may restart some tasks while others run."""
    failover: str = "full"
    """The job's setting: "region" or "full"."""

    def slot_of(self, task: str) -> int:
        """Return the slot in which a task runs."""
        found = (slot for slot, tasks in enumerate(self.slots) if task in tasks)
        return next(found) if self.slots else split_task_name(task)[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the shape as JSON-like data."""
        return asdict(replace(self, channels=tuple(self.channels)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the shape that `to_dict` described."""
        return cls(
            data["epoch"],
            tuple(ShapeVertex(**{**vertex, "operators": tuple(vertex["operators"])}) for vertex in data["vertices"]),
            tuple(ShapeChannel(**channel) for channel in data["channels"]),
            data["job"],
            tuple(ShapeOperator(**operator) for operator in data["operators"]),
            tuple(ShapeEdge(**edge) for edge in data["edges"]),
            tuple(tuple(tasks) for tasks in data.get("slots", ())),
            data.get("restarts_regions", False),
            data.get("failover", "region" if data.get("restarts_regions") else "full"),
        )

    def __hash__(self) -> int:
        """Return a hash that ignores the channels: caches use shapes as keys, and a large job has too many channels."""
        return hash((self.epoch, self.job, self.vertices))

    def __repr__(self) -> str:
        shape = " -> ".join(f"{vertex.name} x{vertex.parallelism}" for vertex in self.vertices)
        return f"{type(self).__name__}(epoch {self.epoch}: {shape}, {len(self.channels)} channels)"
