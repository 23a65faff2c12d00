"""The content of a picture of one epoch, before anything has happened in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache

from kit.core.display import display
from kit.core.trace.shape import EpochShape, ShapeVertex

MOST_BOXES = 6
"""The most subtasks of a vertex that is drawn open at first; a larger one is drawn as one box."""
MOST_OPEN = 48
"""The most subtasks that are drawn one by one at first."""
MOST_LANES = 150
"""The most channels between two vertices that are both open."""


class Stage(EpochShape):
    """The shape of one epoch as pictures and notebooks show it."""

    __slots__ = ()

    @classmethod
    def of(cls, shape: EpochShape) -> Stage:
        """Return the stage of an epoch with this shape."""
        return cls(*(getattr(shape, field.name) for field in fields(shape)))

    def _repr_svg_(self) -> str | None:
        return display("chains_svg", self) if self.operators else None

    def _repr_html_(self) -> str | None:
        return display("chains_svg", self)._repr_html_() if self.operators else None

    def vertex_of(self, task: str) -> ShapeVertex:
        """Return the vertex that a task is a subtask of."""
        name = task.rpartition("/")[0]
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def ends(self) -> Mapping[int, tuple[str, str]]:
        """Return the sender and the receiver of each channel."""
        return _ends(self)

    def closed_at_first(self) -> frozenset[str]:
        """Return the vertices that are drawn as one box until the reader opens them.

        They are the vertices with many subtasks and, in a large job, those with several.
        """
        most = MOST_BOXES
        while most > 1 and sum(v.parallelism for v in self.vertices if v.parallelism <= most) > MOST_OPEN:
            most -= 1
        return frozenset(vertex.name for vertex in self.vertices if vertex.parallelism > most)

    def turned(self, closed: frozenset[str], name: str) -> frozenset[str]:
        """Return the closed vertices after one was opened or closed.

        An opened vertex closes a neighbour if there would be too many channels between them.
        """
        if name not in closed:
            return closed | {name}
        sizes = {vertex.name: vertex.parallelism for vertex in self.vertices}
        pairs = {(c.source.rpartition("/")[0], c.target.rpartition("/")[0]) for c in self.channels}
        beside = {a if b == name else b for a, b in pairs if name in (a, b)}
        return (closed - {name}) | {other for other in beside if sizes[other] * sizes[name] > MOST_LANES}

    def tasks(self) -> list[str]:
        """Return all tasks, vertex by vertex."""
        return [f"{vertex.name}/{subtask}" for vertex in self.vertices for subtask in range(vertex.parallelism)]


@lru_cache(maxsize=64)
def _ends(stage: Stage) -> Mapping[int, tuple[str, str]]:
    return {channel.number: (channel.source, channel.target) for channel in stage.channels}


def stage_for(stages: Iterable[Stage], epoch: int) -> Stage:
    """Return the stage of an epoch: the last one that is not newer."""
    ordered = sorted(stages, key=lambda stage: stage.epoch)
    return next((stage for stage in reversed(ordered) if stage.epoch <= epoch), ordered[0])
