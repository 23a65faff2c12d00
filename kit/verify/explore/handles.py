"""State handles without the parts that depend on the bytes behind them.

The JobMaster never reads state; it passes handles on, and counts. With the sizes and offsets in them its states would
be as many as those of all tasks together. So a task's acknowledgement is *veiled*: offsets are positions in the list,
and sizes are 0. When state is read again, the original handle is restored by its path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kit.core.state.handles import KeyGroupsStateHandle, OperatorStreamStateHandle, RelativeFileStateHandle
from kit.core.state.operator_state import OperatorSubtaskState, TaskStateSnapshot
from kit.core.state.subtask_state_kind import KEYED_KINDS, OPERATOR_KINDS

Handles = dict[str, Any]
"""The original handle of each file, by its path."""
KINDS = (*OPERATOR_KINDS, *KEYED_KINDS)


def handles_by_path(state: TaskStateSnapshot) -> Handles:
    """Return the handles of a snapshot that are files of their own."""
    found = [handle for each in state.subtask_states.values() for kind in KINDS for handle in each.of_kind(kind)]
    return {handle.delegate.path: handle for handle in found if _is_file(handle)}


def veiled(state: TaskStateSnapshot) -> TaskStateSnapshot:
    """Return the snapshot with positions instead of offsets."""
    return _with_handles(state, lambda handle: _veiled(handle) if _is_file(handle) else handle)


def unveiled(state: TaskStateSnapshot, handles: Handles) -> TaskStateSnapshot:
    """Return the snapshot with its original offsets."""

    def put_back(handle: Any) -> Any:
        made = handles.get(handle.delegate.path) if _is_file(handle) else None  # None: deleted from all disks
        return handle if made is None else _unveiled(handle, made)

    return _with_handles(state, put_back)


def _with_handles(state: TaskStateSnapshot, change: Callable[[Any], Any]) -> TaskStateSnapshot:
    changed: dict[str, OperatorSubtaskState] = {}
    for operator, each in state.subtask_states.items():
        kinds = {kind.field: tuple(change(handle) for handle in each.of_kind(kind)) for kind in KINDS}
        changed[operator] = replace(each, **kinds)  # type: ignore[arg-type]
    return replace(state, subtask_states=changed)


def _is_file(handle: Any) -> bool:
    return isinstance(handle, KeyGroupsStateHandle | OperatorStreamStateHandle) and isinstance(
        handle.delegate, RelativeFileStateHandle
    )


def _veiled(handle: Any) -> Any:
    delegate = replace(handle.delegate, size=0)
    if isinstance(handle, KeyGroupsStateHandle):
        return replace(handle, offsets=tuple(range(len(handle.offsets))), delegate=delegate)
    states = sorted(handle.state_name_to_partition_offsets.items())
    places = {name: replace(info, offsets=tuple(range(len(info.offsets)))) for name, info in states}
    return replace(handle, state_name_to_partition_offsets=places, delegate=delegate)


def _unveiled(handle: Any, made: Any) -> Any:
    if isinstance(handle, KeyGroupsStateHandle):
        found = made.intersection(handle.key_group_range)
        assert found is not None
        return found
    offsets = {
        name: replace(
            info, offsets=tuple(made.state_name_to_partition_offsets[name].offsets[at] for at in info.offsets)
        )
        for name, info in handle.state_name_to_partition_offsets.items()
    }
    return replace(handle, state_name_to_partition_offsets=offsets, delegate=made.delegate)
