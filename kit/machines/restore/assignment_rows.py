"""The state that a restore assigns to each task, in words and numbers: one row per task, operator and kind of state.

The trace contains these rows. A user sees them after a restore, and `kit.restore_check` before one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.protocol.tasks import TaskRestore
from kit.core.state.handles import (
    KeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    OperatorStreamStateHandle,
    StateObject,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.core.state.restored_state import RestoredSubtaskState
from kit.core.state.subtask_state_kind import KEYED_KINDS, OPERATOR_KINDS
from kit.machines.restore.channels import ChannelsHandle, unmerged
from kit.machines.restore.shared_handles import SharedHandles


def describe_assignments(
    names: Mapping[str, str], restores: Mapping[str, TaskRestore | None], before: Mapping[str, OperatorState]
) -> list[dict[str, Any]]:
    """Return one row per task, operator and kind of state, with the old subtasks that it came from.

    `names` has the name of each operator by its id, `restores` the restore of each task by its name, and `before` the
    state of each operator by its id.
    """
    rows: list[dict[str, Any]] = []
    origins = {operator_id: _Origins(state) for operator_id, state in before.items()}
    nothing = _Origins(None)
    for task, restore in restores.items():
        if restore is None:
            continue
        for operator_id, state in restore.state.subtask_states.items():
            described = _describe(state, origins.get(operator_id, nothing))
            rows += [{"operator": names[operator_id], "task": task, **row} for row in described]
    return rows


@dataclass(frozen=True, slots=True)
class _Total:
    """The total of some handles of operator state: the old subtasks, in order, the number of entries, and bytes."""

    subtasks: list[int]
    entries: int
    size_bytes: int


class _Origins:
    """The origin of one operator's state: the old subtask behind each stored stream.

    Union state reaches every subtask as one shared list; it is added up once, and the subtasks share the result.
    """

    def __init__(self, state: OperatorState | None) -> None:
        self._subtasks = {
            stream_of(handle): subtask
            for subtask, part in (state.subtask_states if state is not None else {}).items()
            for kind in (*OPERATOR_KINDS, *KEYED_KINDS)
            for handle in part.of_kind(kind)
        }
        self._shared: dict[int, tuple[_Total, frozenset[int]]] = {}

    def subtasks(self, handles: Iterable[StateObject]) -> list[int]:
        """Return the old subtasks of the handles, each once, in order."""
        return sorted({self._subtasks[stream_of(handle)] for handle in handles})

    def total(self, handles: Sequence[OperatorStreamStateHandle]) -> _Total:
        """Return the total of one subtask's handles."""
        if not isinstance(handles, SharedHandles):
            return self._add_up(handles)
        if id(handles.shared) not in self._shared:
            shared = self._add_up(handles.shared.values())
            self._shared[id(handles.shared)] = shared, frozenset(shared.subtasks)
        shared, shared_subtasks = self._shared[id(handles.shared)]
        own = self._add_up(handles.own)
        hidden = self._add_up([handles.shared[stream] for stream in handles.hidden])
        nobody_else = shared_subtasks.issuperset(own.subtasks)
        return _Total(
            shared.subtasks if nobody_else else sorted(shared_subtasks.union(own.subtasks)),
            shared.entries + own.entries - hidden.entries,
            shared.size_bytes + own.size_bytes - hidden.size_bytes,
        )

    def _add_up(self, handles: Iterable[OperatorStreamStateHandle]) -> _Total:
        handles = tuple(handles)
        infos = [info for handle in handles for info in handle.state_name_to_partition_offsets.values()]
        size_bytes = sum(handle.state_size for handle in handles)
        return _Total(self.subtasks(handles), sum(len(info.offsets) for info in infos), size_bytes)


def stream_of(handle: Any) -> object:
    """Return the identity of the stream behind a state handle: its file, or the name of its bytes."""
    delegate = getattr(handle, "delegate", handle)
    return getattr(delegate, "path", None) or getattr(delegate, "handle_name", None) or delegate


def _describe(state: OperatorSubtaskState, origins: _Origins) -> list[dict[str, Any]]:
    return [
        *(_describe_keyed(kind.words, state.of_kind(kind), origins) for kind in KEYED_KINDS if state.of_kind(kind)),
        *(
            _describe_operator(kind.words, state.of_kind(kind), origins)
            for kind in OPERATOR_KINDS
            if state.of_kind(kind)
        ),
        *_describe_in_flight(state),
    ]


def _describe_keyed(kind: str, handles: Sequence[KeyedStateHandle], origins: _Origins) -> dict[str, Any]:
    ranges = [handle.key_group_range for handle in handles]
    return {
        "kind": kind,
        "from": origins.subtasks(handles),
        "key_groups": [min(r.start for r in ranges), max(r.end for r in ranges)],
        "entries": sum(_groups_with_data(handle) for handle in handles),
        "bytes": sum(handle.state_size for handle in handles),
    }


def _describe_operator(kind: str, handles: Sequence[OperatorStreamStateHandle], origins: _Origins) -> dict[str, Any]:
    total = origins.total(handles)
    return {
        "kind": kind,
        "from": total.subtasks,
        "key_groups": None,
        "entries": total.entries,
        "bytes": total.size_bytes,
    }


def _describe_in_flight(state: OperatorSubtaskState) -> Iterator[dict[str, Any]]:
    """Describe in-flight buffers, with their number as entries."""
    upstream = state.upstream_output_buffer_state if isinstance(state, RestoredSubtaskState) else ()
    kinds: list[tuple[str, Sequence[ChannelsHandle]]] = [
        ("in flight, input", (*state.input_channel_state, *upstream)),
        ("in flight, output", state.result_subpartition_state),
    ]
    for kind, handles in kinds:
        parts = list(unmerged(handles))
        if parts:
            yield {
                "kind": kind,
                "from": sorted({part.subtask_index for part in parts}),
                "key_groups": None,
                "entries": sum(len(part.offsets) for part in parts),
                "bytes": sum(part.state_size for part in parts),
            }


def _groups_with_data(handle: Any) -> int:
    if isinstance(handle, KeyGroupsStateHandle):
        return sum(offset >= 0 for offset in handle.offsets)
    groups: KeyGroupRange = handle.key_group_range
    return len(groups)
