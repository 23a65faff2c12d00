"""The result of state assignment: each subtask's restore, and the parallelism of each vertex."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.protocol.tasks import TaskRestore


@dataclass(frozen=True, slots=True)
class VertexParallelism:
    """A vertex's parallelism and its maximum: the configured one, one adopted from the state, or the default."""

    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True, repr=False)
class StateAssignment:
    """The result: `vertices[v]`, and `restores[v][subtask]`, which is None for a subtask that starts empty.

    A subtask may have a restore without any state, so that it knows about in-flight data that others recover.
    """

    vertices: tuple[VertexParallelism, ...]
    restores: tuple[Sequence[TaskRestore | None], ...]

    def __repr__(self) -> str:
        restored = sum(restore is not None for vertex in self.restores for restore in vertex)
        return f"StateAssignment({len(self.vertices)} vertices, {restored} of {sum(map(len, self.restores))} subtasks)"
