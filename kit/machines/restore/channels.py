"""Redistribution of in-flight data: the buffers that a checkpoint captured in channels.

A new subtask recovers all buffers of the old subtasks that the exchange's mapper names, gate by gate. Where mappings
overlap, several subtasks get the same handle and filter its records. A *port* is a gate or a partition: one exchange,
seen from one of its ends. Follows `MappingBasedRepartitioner` and the channel part of `StateAssignmentOperation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from kit.core.state.handles import (
    InputChannelStateHandle,
    InputStateHandle,
    OutputStateHandle,
    ResultSubpartitionStateHandle,
)
from kit.core.state.rescale_mappings import RescaleMappings

T = TypeVar("T")
ChannelHandle = InputChannelStateHandle | ResultSubpartitionStateHandle
"""The buffers of one channel."""
ChannelsHandle = InputStateHandle | OutputStateHandle
"""The buffers of one channel or, merged, of several."""


def redistribute(old: Sequence[Sequence[T]], mapping: RescaleMappings, new_parallelism: int) -> list[tuple[T, ...]]:
    """Return the handles of each new subtask: those of the old subtasks it is mapped to, in order."""
    dealt: list[tuple[T, ...]] = []
    last_row: tuple[int, ...] | None = None
    for subtask in range(new_parallelism):
        row = mapping.mapped_indexes(subtask)
        if row is not last_row:  # a mapper from all to all repeats the same row
            last_row = row
            handles = tuple(old[row[0]]) if len(row) == 1 else tuple(handle for index in row for handle in old[index])
        dealt.append(handles)
    return dealt


def unmerged(handles: Iterable[ChannelsHandle]) -> Iterator[ChannelHandle]:
    """Yield the handles, with merged ones split by channel."""
    for handle in handles:
        yield from handle.unmerge()


def port_of(handle: ChannelHandle) -> int:
    """Return the gate or partition that the buffers belong to."""
    return handle.info.gate_idx if isinstance(handle, InputChannelStateHandle) else handle.info.partition_idx


def sort_by_port(old: Sequence[Iterable[ChannelsHandle]], ports: int) -> list[list[list[ChannelHandle]]]:
    """Return, for each port, the handles of each old subtask; handles of removed ports are left out."""
    sorted_out: list[list[list[ChannelHandle]]] = [[[] for _ in old] for _ in range(ports)]
    for subtask, handles in enumerate(old):
        for handle in unmerged(handles):
            if port_of(handle) < ports:
                sorted_out[port_of(handle)][subtask].append(handle)
    return sorted_out


def has_buffers(handles: Iterable[ChannelsHandle]) -> bool:
    """Return True if any buffer is stored."""
    return any(handle.offsets for handle in unmerged(handles))
