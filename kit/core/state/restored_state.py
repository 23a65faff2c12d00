"""The state that one subtask starts with after a restore: state handles, and how its in-flight data moved."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.state.handles import InputChannelStateHandle
from kit.core.state.operator_state import OperatorSubtaskState
from kit.core.state.rescale_mappings import NO_RESCALE, InflightDataRescalingDescriptor


@dataclass(frozen=True, slots=True, repr=False)
class RestoredSubtaskState(OperatorSubtaskState):
    """The state that one subtask of one operator is restored from, and how to recover its in-flight data.

    `upstream_output_buffer_state` holds output buffers of upstream subtasks that this one reads itself, if the job
    recovers output downstream (2.3). The descriptors are `NO_RESCALE` except at the start and the end of a chain.
    `gates_behind_rescaled` are the input gates with in-flight data whose senders were rescaled, or vertices that
    these receive from pointwise. Watermarks in flight there may be ahead of rows that the new senders still have to
    send. Operator state may be any sequence of handles: union state shares one list between all subtasks.
    """

    upstream_output_buffer_state: tuple[InputChannelStateHandle, ...] = ()
    input_rescale_descriptor: InflightDataRescalingDescriptor = NO_RESCALE
    output_rescale_descriptor: InflightDataRescalingDescriptor = NO_RESCALE
    gates_behind_rescaled: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Skip the check of the base class: subtasks that had finished are restored as whole tasks."""

    def has_state(self) -> bool:
        """Return True if there is any handle, including output buffers of upstream subtasks."""
        return bool(self.upstream_output_buffer_state) or OperatorSubtaskState.has_state(self)

    @property
    def is_rescaling(self) -> bool:
        """True if in-flight data of either side may have moved."""
        return self.input_rescale_descriptor.is_rescaling or self.output_rescale_descriptor.is_rescaling


NOTHING_RESTORED = RestoredSubtaskState()
