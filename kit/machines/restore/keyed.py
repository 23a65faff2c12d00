"""Redistribution of keyed state: each handle goes to the new subtasks whose key groups it overlaps.

Ranges of key groups are contiguous at both parallelisms, so a handle's first and last key group determine the new
subtasks it goes to. The number of pieces is about old plus new parallelism. State that can be cut is cut to the range.
Incremental handles go whole to every subtask they overlap, which skips the other key groups. At unchanged parallelism a
subtask gets its own handles back unchanged. Follows `StateAssignmentOperation.reAssignSubKeyedStates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from kit.core.state.handles import KeyedStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.core.state.key_groups import key_group_bounds
from kit.machines.restore.per_subtask import PerSubtask

KeyedHandles = Sequence[KeyedStateHandle]


def redistribute_keyed(
    old: Sequence[KeyedHandles], max_parallelism: int, parallelism: int
) -> PerSubtask[tuple[KeyedStateHandle, ...]]:
    """Return the handles of each of `parallelism` new subtasks, in the order of the old subtasks."""
    handles = list(chain.from_iterable(old))
    begins, taken = _overlaps([handle.key_group_range for handle in handles], max_parallelism, parallelism)
    bounds = key_group_bounds(max_parallelism, parallelism)

    def pieces(subtask: int) -> tuple[KeyedStateHandle, ...]:
        first, last = bounds[subtask], bounds[subtask + 1] - 1
        cut = [_cut(handles[index], first, last) for index in taken[begins[subtask] : begins[subtask + 1]]]
        return tuple([piece for piece in cut if piece is not None])

    return PerSubtask(parallelism, pieces)


def _overlaps(ranges: Sequence[KeyGroupRange], max_parallelism: int, parallelism: int) -> tuple[list[int], list[int]]:
    """Return the indexes of the ranges that overlap each new subtask's, concatenated, and each one's start."""
    first = np.array([covered.start for covered in ranges], np.int64) * parallelism // max_parallelism
    last = np.array([covered.end for covered in ranges], np.int64) * parallelism // max_parallelism
    counts = np.maximum(np.minimum(last, parallelism - 1) - first + 1, 0)
    indexes = np.repeat(np.arange(len(ranges)), counts)
    subtasks = np.arange(len(indexes)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    order = np.argsort(subtasks, kind="stable")
    begins = np.searchsorted(subtasks[order], np.arange(parallelism + 1))
    return begins.tolist(), indexes[order].tolist()


def _cut(handle: KeyedStateHandle, first: int, last: int) -> KeyedStateHandle | None:
    """Return `handle.intersection` for the key groups `first` to `last`, with a shortcut for common handles."""
    if type(handle) is not KeyGroupsStateHandle:
        return handle.intersection(KeyGroupRange(first, last))
    start, end = handle.key_group_range.start, handle.key_group_range.end
    if start >= first and end <= last:
        return handle
    common = KeyGroupRange(max(start, first), min(end, last))
    offsets = handle.offsets[common.start - start : common.end - start + 1]
    return KeyGroupsStateHandle(common, offsets, handle.delegate, handle.state_handle_id)
