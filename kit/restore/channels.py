"""Dealing out in-flight data: the buffers that a checkpoint found in channels.

A new subtask recovers all buffers of the old subtasks that the exchange's mapper names, gate by gate. Where mappings
overlap, several subtasks are given the same handle and filter its records. Follows `MappingBasedRepartitioner`,
`ResultSubpartitionDistributor` and the channel part of `StateAssignmentOperation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kit.restore.rescale_mappings import RescaleMappings
from kit.state.handles import (
    InputChannelInfo,
    InputChannelStateHandle,
    InputStateHandle,
    MergedInputChannelStateHandle,
    MergedResultSubpartitionStateHandle,
    OutputStateHandle,
    ResultSubpartitionStateHandle,
)

T = TypeVar("T")


def redistribute(old: Sequence[Sequence[T]], mapping: RescaleMappings, new_parallelism: int) -> list[tuple[T, ...]]:
    """The handles of each new subtask: those of the old subtasks it is mapped to, one after the other."""
    dealt: list[tuple[T, ...]] = []
    last_row: tuple[int, ...] | None = None
    for subtask in range(new_parallelism):
        row = mapping.mapped_indexes(subtask)
        if row is not last_row:  # a mapper that gives all to all names the same row again and again
            last_row = row
            handles = tuple(old[row[0]]) if len(row) == 1 else tuple(handle for index in row for handle in old[index])
        dealt.append(handles)
    return dealt


def single_inputs(handles: Iterable[InputStateHandle]) -> Iterator[InputChannelStateHandle]:
    """The handles, with those of several channels taken apart."""
    for handle in handles:
        if isinstance(handle, MergedInputChannelStateHandle):
            yield from handle.unmerge()
        else:
            yield handle


def single_outputs(handles: Iterable[OutputStateHandle]) -> Iterator[ResultSubpartitionStateHandle]:
    """The handles, with those of several subpartitions taken apart."""
    for handle in handles:
        if isinstance(handle, MergedResultSubpartitionStateHandle):
            yield from handle.unmerge()
        else:
            yield handle


def inputs_by_gate(old: Sequence[Iterable[InputStateHandle]], gates: int) -> list[list[list[InputChannelStateHandle]]]:
    """For each gate, the handles of each old subtask; handles of gates that are no more are left out."""
    sorted_out: list[list[list[InputChannelStateHandle]]] = [[[] for _ in old] for _ in range(gates)]
    for subtask, handles in enumerate(old):
        for handle in single_inputs(handles):
            if handle.info.gate_idx < gates:
                sorted_out[handle.info.gate_idx][subtask].append(handle)
    return sorted_out


def outputs_by_partition(
    old: Sequence[Iterable[OutputStateHandle]], partitions: int
) -> list[list[list[ResultSubpartitionStateHandle]]]:
    """For each partition, the handles of each old subtask; handles of partitions that are no more are left out."""
    sorted_out: list[list[list[ResultSubpartitionStateHandle]]] = [[[] for _ in old] for _ in range(partitions)]
    for subtask, handles in enumerate(old):
        for handle in single_outputs(handles):
            if handle.info.partition_idx < partitions:
                sorted_out[handle.info.partition_idx][subtask].append(handle)
    return sorted_out


def as_downstream_input(handle: ResultSubpartitionStateHandle, gate: int) -> InputChannelStateHandle:
    """Output buffers as the subtask that they were meant for would have stored them as its input."""
    return InputChannelStateHandle(
        subtask_index=handle.info.subpartition_idx,
        info=InputChannelInfo(gate, handle.subtask_index),
        offsets=handle.offsets,
        size=handle.size,
        delegate=handle.delegate,
    )


def has_buffers(handles: Iterable[InputStateHandle | OutputStateHandle]) -> bool:
    """Whether any buffer is stored at all."""
    return any(
        any(part.offsets for part in handle.contents)
        if isinstance(handle, MergedInputChannelStateHandle | MergedResultSubpartitionStateHandle)
        else handle.offsets
        for handle in handles
    )
