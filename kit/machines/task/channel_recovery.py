"""The recovery of in-flight data: that of the outputs is sent again, that of the inputs is processed first.

The inputs' in-flight data is state of the head of the chain, the outputs' of its tail. Follows Flink's
`StreamTask.restoreStateAndGates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.protocol.snapshots import RestoredPart
from kit.core.state.operator_state import TaskStateSnapshot
from kit.core.state.restored_state import NOTHING_RESTORED, RestoredSubtaskState
from kit.machines.channel.channel_state.channel_state_reader import SequentialChannelStateReader
from kit.machines.task.chain import OperatorChain
from kit.machines.task.task_input import TaskInput
from kit.machines.task.task_outputs import TaskOutputs


def recover_channels(
    parts: Sequence[RestoredPart],
    restored: TaskStateSnapshot | None,
    chain: OperatorChain,
    inputs: TaskInput,
    outputs: TaskOutputs,
) -> None:
    """Restore the channel state in `parts`; `restored` describes how the channels were rescaled."""
    head, tail = (_state_of(restored, operator_id) for operator_id in (chain.head_id, chain.tail_id))
    reader = SequentialChannelStateReader(parts, head.input_rescale_descriptor, tail.output_rescale_descriptor)
    reader.read_output_data(outputs.partitions, notify_and_block_on_completion=True)
    inputs.begin_recovery(reader, head.input_rescale_descriptor, head.gates_behind_rescaled)


def _state_of(restored: TaskStateSnapshot | None, operator_id: str) -> RestoredSubtaskState:
    state = restored.subtask_states.get(operator_id) if restored else None
    return state if isinstance(state, RestoredSubtaskState) else NOTHING_RESTORED
