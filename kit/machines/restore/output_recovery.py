"""Recovery of output buffers by their receivers, instead of sending them again.

Each buffer becomes input of the downstream subtasks that replace the old receiver; upstream subtasks then have nothing
to recover. It is a setting of the job (2.3, `recover-output-on-downstream-task`). Follows
`TaskStateAssignment.distributeOutputBuffersToDownstream` and `ResultSubpartitionDistributor`.
"""

from __future__ import annotations

from kit.core.state.handles import InputChannelInfo, InputChannelStateHandle, ResultSubpartitionStateHandle
from kit.core.state.rescale_mappings import NO_RESCALE, RescaleMappings
from kit.machines.restore.channels import unmerged
from kit.machines.restore.errors import ChannelRescaleError
from kit.machines.restore.exchange_end import ExchangeEnd
from kit.machines.restore.java_hashmap_order import capacity_for, operator_instance_hash, put_order

Recovered = dict[ExchangeEnd, dict[int, list[InputChannelStateHandle]]]
"""The buffers that each new subtask reads as if they had arrived, by gates of a vertex and subtask."""


def recover_downstream(outputs: ExchangeEnd, recovered: Recovered) -> None:
    """Add the in-flight data of these outputs to what their downstream subtasks recover.

    Raises ChannelRescaleError for a buffer whose receiver has no replacement.
    """
    if outputs.channels is None:
        return
    descriptors = outputs.descriptors
    old_to_new: dict[int, RescaleMappings] = {}
    for subtask in _in_javas_order(outputs):
        descriptor = descriptors[subtask] if descriptors else NO_RESCALE
        for handle in unmerged(outputs.channels[subtask]):
            assert isinstance(handle, ResultSubpartitionStateHandle)
            partition = handle.info.partition_idx
            if partition >= len(outputs.edges):
                raise _no_partition(outputs, partition)
            channels = descriptor.channel_mapping(partition)
            inverted = old_to_new.get(id(channels))
            if inverted is None:
                inverted = old_to_new[id(channels)] = channels.invert()
            targets = inverted.mapped_indexes(handle.info.subpartition_idx)
            if not targets:
                raise _no_subtask(outputs, handle, channels)
            as_input = _as_input(handle, outputs.edges[partition].input_index)
            by_subtask = recovered.setdefault(outputs.opposite[partition], {})
            for target in targets:
                by_subtask.setdefault(target, []).append(as_input)


def _as_input(handle: ResultSubpartitionStateHandle, gate: int) -> InputChannelStateHandle:
    """Return output buffers in the form in which the receiver would have stored them as its input."""
    return InputChannelStateHandle(
        subtask_index=handle.info.subpartition_idx,
        info=InputChannelInfo(gate, handle.subtask_index),
        offsets=handle.offsets,
        size=handle.size,
        delegate=handle.delegate,
    )


def _in_javas_order(outputs: ExchangeEnd) -> list[int]:
    """Return the subtasks in the iteration order of Flink's map of output state.

    The order decides which of several invalid buffers is named.
    """
    vertex = outputs.vertex
    hash_code = operator_instance_hash(outputs.operator.generated_id)
    return put_order(range(vertex.parallelism), hash_code, capacity_for(vertex.parallelism * len(vertex.operators)))


def _no_subtask(
    outputs: ExchangeEnd, handle: ResultSubpartitionStateHandle, channels: RescaleMappings
) -> ChannelRescaleError:
    partition, subpartition = handle.info.partition_idx, handle.info.subpartition_idx
    consumer = outputs.opposite[partition].vertex.name
    return ChannelRescaleError(
        f"Recovered a buffer from old ResultSubpartitionInfo{{partitionIdx={partition}, "
        f"subPartitionIdx={subpartition}}} that has no mapping in {channels.flink_repr}",
        f"Found in-flight data from '{outputs.vertex.name}' for old subtask {subpartition} of '{consumer}', which no "
        "new subtask takes over; restore it at the old parallelism.",
    )


def _no_partition(outputs: ExchangeEnd, partition: int) -> ChannelRescaleError:
    return ChannelRescaleError(
        None,
        f"Found in-flight data in output {partition} of '{outputs.vertex.name}', which has {len(outputs.edges)} "
        "outputs now; restore with the job graph as it was, or from an aligned checkpoint or a savepoint.",
        "java.lang.ArrayIndexOutOfBoundsException",
    )
