"""The files that the new savepoint takes over: copied into it, or referred to where they are or will be."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kit.core.state.handles import (
    ByteStreamStateHandle,
    EmptyFileMergingOperatorStreamStateHandle,
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    FileStateHandle,
    OperatorStreamStateHandle,
    SegmentFileStateHandle,
    StreamStateHandle,
)
from kit.core.state.operator_state import OperatorSubtaskState
from kit.snapshots.checkpoints.state_bytes import StateBytes
from kit.snapshots.leaf_streams import with_streams
from kit.snapshots.surgery.target import Target, Write

BLOCK_BYTES = 1 << 24


class CopiedFiles:
    """Replaces the streams of handles, each file once.

    `moved` are prefixes of paths with what replaces them: such files are neither read nor copied. Other files are
    copied, unless `copies` is False.
    """

    def __init__(self, source: StateBytes, target: Target, moved: Mapping[str, str], *, copies: bool) -> None:
        self._source, self._target, self._moved, self._copies = source, target, moved, copies
        self._done: dict[tuple[str, int, int], StreamStateHandle] = {}

    def subtask(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        """Return the state of a subtask with its files taken over. Raises CheckpointError, StorageError."""
        if state.finished:
            return state
        return replace(
            state,
            managed_operator_state=tuple(map(self.lists, _not_empty(state.managed_operator_state))),
            raw_operator_state=tuple(map(self.lists, _not_empty(state.raw_operator_state))),
            managed_keyed_state=tuple(with_streams(each, self.stream) for each in state.managed_keyed_state),
            raw_keyed_state=tuple(with_streams(each, self.stream) for each in state.raw_keyed_state),
            input_channel_state=tuple(with_streams(each, self.stream) for each in state.input_channel_state),
            result_subpartition_state=tuple(
                with_streams(each, self.stream) for each in state.result_subpartition_state
            ),
        )

    def lists(self, handle: OperatorStreamStateHandle) -> OperatorStreamStateHandle:
        """Return a handle of operator state with its file taken over; it no longer names directories."""
        if isinstance(handle, FileMergingOperatorStreamStateHandle):
            handle = OperatorStreamStateHandle(handle.state_name_to_partition_offsets, handle.delegate)
        found: OperatorStreamStateHandle = with_streams(handle, self.stream)
        return found

    def stream(self, handle: StreamStateHandle) -> StreamStateHandle:
        """Return the stream at its new place."""
        if isinstance(handle, ByteStreamStateHandle | EmptySegmentFileStateHandle) or handle.path is None:
            return handle
        start = handle.start_pos if isinstance(handle, SegmentFileStateHandle) else 0
        key = handle.path, start, handle.state_size
        if key not in self._done:
            self._done[key] = self._moved_to(handle, handle.path) or self._taken(handle, handle.path)
        return self._done[key]

    def _moved_to(self, handle: StreamStateHandle, path: str) -> StreamStateHandle | None:
        """Return the handle of a file that is elsewhere already; None if no prefix matches."""
        for prefix in sorted(self._moved, key=len, reverse=True):
            if is_below(path, prefix):
                there = self._moved[prefix].rstrip("/") + path[len(prefix.rstrip("/")) :]
                return self._at(handle, there)
        return None

    @staticmethod
    def _at(handle: StreamStateHandle, path: str) -> StreamStateHandle:
        if isinstance(handle, SegmentFileStateHandle):
            return replace(handle, path=path)
        return FileStateHandle(path, handle.state_size)

    def _taken(self, handle: StreamStateHandle, path: str) -> StreamStateHandle:
        if not self._copies:
            return self._at(handle, self._source.path(path))
        stream = self._source.stream(handle)

        def copy(write: Write) -> None:
            for start in range(0, stream.size, BLOCK_BYTES):
                write(stream.read(start, min(BLOCK_BYTES, stream.size - start)))

        return self._target.write(posixpath.basename(path), copy)


def is_below(path: str, prefix: str) -> bool:
    """Return True if a path is this prefix, or in the directory of this name."""
    return path == prefix or path.startswith(prefix.rstrip("/") + "/")


def _not_empty(handles: tuple[OperatorStreamStateHandle, ...]) -> Iterator[OperatorStreamStateHandle]:
    return (each for each in handles if not isinstance(each, EmptyFileMergingOperatorStreamStateHandle))
