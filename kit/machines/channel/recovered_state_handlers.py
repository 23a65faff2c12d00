"""The destinations of recovered buffers: the channels that took over from each old one.

A buffer of an old channel goes to every new channel that the rescaling maps onto it. The receiver decides which of its
records to keep, from the `SubtaskConnectionDescriptor` that precedes it. At the end every channel gets an
`EndOfChannelState`, even if it had no buffers.

Follows `RecoveredChannelStateHandler` and its two classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kit.core.protocol.elements import DataElement, Element, SubtaskConnectionDescriptor
from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import InputChannelInfo, ResultSubpartitionInfo
from kit.core.state.rescale_mappings import InflightDataRescalingDescriptor, RescaleMappings


class RecoveringChannel(Protocol):
    """An input channel during recovery; see `kit.machines.channel.recovered_channel`."""

    def on_recovered_state_buffer(self, element: Element) -> None:
        """Add a restored element at the end."""

    def finish_read_recovered_state(self) -> None:
        """Mark the end of the restored elements."""


class RecoveringPartition(Protocol):
    """A result partition that gets its unsent elements back (`CheckpointedResultPartition`)."""

    def add_recovered(self, subpartition: int, element: Element) -> None:
        """Add a restored element at the end of a subpartition."""

    def finish_read_recovered_state(self, notify_and_block_on_completion: bool) -> None:
        """Mark the end of the restored elements.

        With the flag, `EndOfChannelState` follows and blocks each subpartition.
        """


def connection_is_unknown(info: InputChannelInfo, found: str) -> StateRestoreError:
    """Return the error of a task with in-flight data that does not know how its senders were rescaled.

    This happens behind `global_()`, where only subtask 0 gets that information (`SubtaskStateMapper.FIRST`). Flink
    fails there with an ArrayIndexOutOfBoundsException or an IllegalStateException, which fail the task as well.
    """
    return StateRestoreError(
        f"there is in-flight data of channel {info.input_channel_idx} of input gate {info.gate_idx}, but {found}: when "
        "the number of senders changes and that of the receivers does not, only subtask 0 behind global_() can recover "
        "what was in flight; restore at the old parallelism, or from an aligned checkpoint or a savepoint, or give the "
        "operator behind global_() parallelism 1"
    )


class InputChannelRecoveredStateHandler:
    """The handler that returns unprocessed elements to the input channels; `gates` lists these in order."""

    def __init__(
        self, gates: Sequence[Sequence[RecoveringChannel]], rescaling: InflightDataRescalingDescriptor
    ) -> None:
        self._gates = gates
        self._targets = _Targets(rescaling, "input gate")

    def recover(self, info: InputChannelInfo, old_subtask: int, elements: Sequence[DataElement]) -> None:
        """Add elements of an old subtask's channel. Raises StateRestoreError if no channel took over."""
        if not elements:
            return
        descriptor = SubtaskConnectionDescriptor(old_subtask, info.input_channel_idx)
        gate = self._gates[info.gate_idx]
        for target in self._targets.of(info.gate_idx, info.input_channel_idx):
            if target >= len(gate):
                raise connection_is_unknown(info, f"the gate has {len(gate)} channels now")
            channel = gate[target]
            for element in elements:
                channel.on_recovered_state_buffer(descriptor)
                channel.on_recovered_state_buffer(element)

    def close(self) -> None:
        """Signal the end to every channel, with state or without."""
        for gate in self._gates:
            for channel in gate:
                channel.finish_read_recovered_state()

    def __repr__(self) -> str:
        return f"InputChannelRecoveredStateHandler({len(self._gates)} gates)"


class ResultSubpartitionRecoveredStateHandler:
    """The handler that returns unsent elements to the result partitions."""

    def __init__(
        self,
        partitions: Sequence[RecoveringPartition],
        rescaling: InflightDataRescalingDescriptor,
        *,
        notify_and_block_on_completion: bool,
    ) -> None:
        self._partitions = partitions
        self._targets = _Targets(rescaling, "result partition")
        self._notify_and_block = notify_and_block_on_completion

    def recover(self, info: ResultSubpartitionInfo, old_subtask: int, elements: Sequence[DataElement]) -> None:
        """Add elements of an old subtask's subpartition. Raises StateRestoreError if no subpartition took over."""
        if not elements:
            return
        # In the receiver's view, the subpartition number is the receiver's, and the old subtask is its channel.
        descriptor = SubtaskConnectionDescriptor(info.subpartition_idx, old_subtask)
        partition = self._partitions[info.partition_idx]
        for target in self._targets.of(info.partition_idx, info.subpartition_idx):
            for element in elements:
                partition.add_recovered(target, descriptor)
                partition.add_recovered(target, element)

    def close(self) -> None:
        """Signal the end to every partition."""
        for partition in self._partitions:
            partition.finish_read_recovered_state(self._notify_and_block)

    def __repr__(self) -> str:
        return f"ResultSubpartitionRecoveredStateHandler({len(self._partitions)} partitions)"


class _Targets:
    """The new channels of each old one, gate by gate: the inverted tables of the rescaling."""

    def __init__(self, rescaling: InflightDataRescalingDescriptor, what: str) -> None:
        self._rescaling = rescaling
        self._what = what
        self._old_to_new: dict[int, RescaleMappings] = {}

    def of(self, gate: int, old_channel: int) -> Iterable[int]:
        if gate not in self._old_to_new:
            self._old_to_new[gate] = self._rescaling.channel_mapping(gate).invert()
        targets = self._old_to_new[gate].mapped_indexes(old_channel)
        if not targets:
            raise StateRestoreError(
                f"recovered a buffer of old channel {old_channel} of {self._what} {gate}, onto which nothing is mapped "
                f"in {self._rescaling.channel_mapping(gate)!r}"
            )
        return targets
