"""Handles of operator state: the offset of every entry of each list state, and its redistribution on a rescale.

Source: `OperatorStateHandle` and its classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kit.core.state.stream_handles import DelegatingStateObject, StreamStateHandle


class OperatorStateMode(IntEnum):
    """The distribution of a list state on a restore: entries round robin, all entries to all, or one copy to all.

    The numbers are those of the metadata. Source: `OperatorStateHandle.Mode`.
    """

    SPLIT_DISTRIBUTE = 0
    UNION = 1
    BROADCAST = 2


@dataclass(frozen=True, slots=True)
class StateMetaInfo:
    """The offset of each entry of one list state, in bytes, and its mode.

    Source: `OperatorStateHandle.StateMetaInfo`.
    """

    offsets: tuple[int, ...]
    mode: OperatorStateMode


@dataclass(frozen=True, slots=True, repr=False)
class OperatorStreamStateHandle(DelegatingStateObject):
    """The list states of one operator subtask, all in one stream. Comparison ignores the order of the names.

    Source: `OperatorStreamStateHandle`.
    """

    state_name_to_partition_offsets: Mapping[str, StateMetaInfo] = field(hash=False)
    delegate: StreamStateHandle

    def _label(self) -> str:
        states = self.state_name_to_partition_offsets.items()
        return ", ".join(
            [*(f"{name} {info.mode.name} x{len(info.offsets)}" for name, info in states), f"{self.state_size} B"]
        )


@dataclass(frozen=True, slots=True, repr=False)
class FileMergingOperatorStreamStateHandle(OperatorStreamStateHandle):
    """List states in a segment of a merged file; it names the directories that must outlive it.

    Source: `FileMergingOperatorStreamStateHandle`, since 1.20.
    """

    task_owned_dir: str
    shared_dir: str


@dataclass(frozen=True, slots=True, repr=False)
class EmptyFileMergingOperatorStreamStateHandle(FileMergingOperatorStreamStateHandle):
    """A handle without operator state whose directories must be kept nevertheless.

    Source: `EmptyFileMergingOperatorStreamStateHandle`.
    """
