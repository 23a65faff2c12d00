"""What comes out of state assignment: the state that each subtask begins with."""

from __future__ import annotations

from dataclasses import dataclass

from kit.protocol.tasks import TaskRestore
from kit.restore.rescale_mappings import NO_RESCALE, InflightDataRescalingDescriptor
from kit.state.handles import InputChannelStateHandle
from kit.state.operator_state import OperatorSubtaskState


@dataclass(frozen=True, slots=True, repr=False)
class RestoredSubtaskState(OperatorSubtaskState):
    """The state one subtask of one operator is restored from, and how to recover its in-flight data.

    `upstream_output_buffer_state` holds output buffers of upstream subtasks that this one reads itself, where the job
    recovers output downstream (2.3). The descriptors are `NO_RESCALE` except at the start and the end of a chain.
    Union state shares one list between all subtasks (`SharedHandles`).
    """

    upstream_output_buffer_state: tuple[InputChannelStateHandle, ...] = ()
    input_rescale_descriptor: InflightDataRescalingDescriptor = NO_RESCALE
    output_rescale_descriptor: InflightDataRescalingDescriptor = NO_RESCALE

    def __post_init__(self) -> None:
        """Nothing to check: subtasks that had finished are restored as whole tasks."""

    def has_state(self) -> bool:
        """Whether there is any handle at all, output buffers of upstream subtasks included."""
        return bool(self.upstream_output_buffer_state) or OperatorSubtaskState.has_state(self)

    @property
    def is_rescaling(self) -> bool:
        """Whether in-flight data of either side may have moved."""
        return self.input_rescale_descriptor.is_rescaling or self.output_rescale_descriptor.is_rescaling


NOTHING_RESTORED = RestoredSubtaskState()


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
    restores: tuple[tuple[TaskRestore | None, ...], ...]

    def __repr__(self) -> str:
        restored = sum(restore is not None for vertex in self.restores for restore in vertex)
        return f"StateAssignment({len(self.vertices)} vertices, {restored} of {sum(map(len, self.restores))} subtasks)"
