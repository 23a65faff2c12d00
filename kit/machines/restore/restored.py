"""What comes out of state assignment: each subtask's restore, and the parallelism that was settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core.protocol.tasks import TaskRestore


@dataclass(frozen=True, slots=True)
class VertexParallelism:
    """A vertex's parallelism, and its maximum: the configured one, the recorded one it adopted, or the default."""

    parallelism: int
    max_parallelism: int


@dataclass(frozen=True, slots=True, repr=False)
class StateAssignment:
    """The outcome: `vertices[v]`, and `restores[v][subtask]`, which is None where a subtask begins from nothing.

    A subtask may have a restore without any state, to know that others recover in-flight data it must look at.
    """

    vertices: tuple[VertexParallelism, ...]
    restores: tuple[Sequence[TaskRestore | None], ...]

    def __repr__(self) -> str:
        restored = sum(restore is not None for vertex in self.restores for restore in vertex)
        return f"StateAssignment({len(self.vertices)} vertices, {restored} of {sum(map(len, self.restores))} subtasks)"
