"""Dealing out keyed state: each handle to the new subtasks whose key groups it overlaps.

Ranges of key groups are contiguous in both parallelisms, so a handle's first and last key group name the new subtasks
it goes to, and all pieces together are about old plus new. State that can be cut is cut to the range; incremental
handles go whole to every subtask they overlap, which then skips what is not its own. At unchanged parallelism a subtask
gets its own handles back as they are. Follows `StateAssignmentOperation.reAssignSubKeyedStates`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.state.handles import KeyedStateHandle, KeyGroupRange, KeyGroupsStateHandle
from kit.state.key_groups import operator_index_for_key_group

KeyedHandles = Sequence[KeyedStateHandle]


def redistribute_keyed(
    old: Sequence[KeyedHandles], max_parallelism: int, ranges: Sequence[KeyGroupRange]
) -> list[tuple[KeyedStateHandle, ...]]:
    """The handles of each new subtask, in the order of the old subtasks.

    `old` has the handles of each old subtask, `ranges` the key groups of each new one.
    """
    parallelism = len(ranges)
    dealt: list[list[KeyedStateHandle]] = [[] for _ in ranges]
    for handles in old:
        for handle in handles:
            covered = handle.key_group_range
            first = operator_index_for_key_group(max_parallelism, parallelism, covered.start)
            last = operator_index_for_key_group(max_parallelism, parallelism, covered.end)
            for subtask in range(first, min(last, parallelism - 1) + 1):
                piece = _cut(handle, covered, ranges[subtask])
                if piece is not None:
                    dealt[subtask].append(piece)
    return [tuple(handles) for handles in dealt]


def _cut(handle: KeyedStateHandle, covered: KeyGroupRange, wanted: KeyGroupRange) -> KeyedStateHandle | None:
    """`handle.intersection(wanted)`, with a shortcut for the most common handles."""
    if type(handle) is not KeyGroupsStateHandle:
        return handle.intersection(wanted)
    start, end = covered.start, covered.end
    if start >= wanted.start and end <= wanted.end:
        return handle
    if start <= wanted.start and end >= wanted.end:
        common = wanted
    else:
        common = KeyGroupRange(max(start, wanted.start), min(end, wanted.end))
    offsets = handle.offsets[common.start - start : common.end - start + 1]
    return KeyGroupsStateHandle(common, offsets, handle.delegate, handle.state_handle_id)
