"""The stage: what a picture of one epoch shows, before anything has happened on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from kit.draw.shown import shown
from kit.protocol.shape import EpochShape, ShapeVertex

MOST_BOXES = 6
"""An operator with more subtasks than this is drawn as one box."""


class Stage(EpochShape):
    """The shape of one epoch as pictures and notebooks show it."""

    __slots__ = ()

    @classmethod
    def of(cls, shape: EpochShape) -> Stage:
        """The stage of an epoch with this shape."""
        return cls(*(getattr(shape, field.name) for field in fields(shape)))

    def _repr_svg_(self) -> str | None:
        return shown(self) if self.operators else None

    def vertex_of(self, task: str) -> ShapeVertex:
        """The vertex that a task is a subtask of."""
        name = task.rpartition("/")[0]
        return next(vertex for vertex in self.vertices if vertex.name == name)

    def ends(self) -> dict[int, tuple[str, str]]:
        """Sender and receiver of each channel."""
        return {channel.number: (channel.source, channel.target) for channel in self.channels}

    def tasks(self) -> list[str]:
        """All tasks, vertex by vertex."""
        return [f"{vertex.name}/{subtask}" for vertex in self.vertices for subtask in range(vertex.parallelism)]


def is_crowd(vertex: ShapeVertex) -> bool:
    """Whether its subtasks are too many to draw each."""
    return vertex.parallelism > MOST_BOXES


def stage_for(stages: Iterable[Stage], epoch: int) -> Stage:
    """The stage of an epoch: the last one that is not newer."""
    ordered = sorted(stages, key=lambda stage: stage.epoch)
    return next((stage for stage in reversed(ordered) if stage.epoch <= epoch), ordered[0])
