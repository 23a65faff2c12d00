"""The files that several checkpoints share, and when they are no longer needed.

An incremental checkpoint refers to files of older ones. For each shared file the registry remembers the checkpoint that
created it and the newest that uses it. Once every checkpoint below some id is gone (`unregister_unused`), files last
used below it are released too. Files created by a restored checkpoint that the job does not own (not claimed) are never
deleted.

Follows Flink 2.3's `SharedStateRegistryImpl`; 1.11 counts references instead, and discards the newer of two copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from kit.core.protocol.properties import RecoveryClaimMode, SharingFilesStrategy
from kit.core.state.handles import (
    ChangelogStateBackendHandle,
    HandleAndLocalPath,
    IncrementalRemoteKeyedStateHandle,
    PlaceholderStreamStateHandle,
    SegmentFileStateHandle,
    StateObject,
    StreamStateHandle,
)
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState, TaskStateSnapshot

HandleT = TypeVar("HandleT")


@dataclass(slots=True)
class SharedStateEntry(Generic[HandleT]):
    """One shared file: the checkpoint that created it and the newest that uses it."""

    handle: HandleT
    created_by_id: int
    last_used_id: int
    keeps_creator: bool = False
    """True if a later checkpoint uses more of the creating one than this file, so that one must be kept whole."""


class SharedStateRegistry(Generic[HandleT]):
    """Shared handles by key; a key identifies the file (`StreamStateHandle.physical_id`).

    Flink's coordinator calls it `sharedStateRegistry`, and makes it with a `SharedStateRegistryFactory`. Here the store
    of completed checkpoints makes its own.
    """

    def __init__(self) -> None:
        self.entries: dict[str, SharedStateEntry[HandleT]] = {}
        self.is_open = True
        self._restored: dict[int, SharingFilesStrategy | None] = {}
        self._highest_unclaimed_id = -1

    def register(
        self,
        key: str,
        handle: HandleT | PlaceholderStreamStateHandle,
        checkpoint_id: int,
        *,
        keep_creator: bool = False,
    ) -> HandleT:
        """Register that checkpoint `checkpoint_id` uses `handle`, and return the handle to use instead.

        `keep_creator` has no effect on a key's first registration. Raises ValueError for a placeholder whose file is
        unknown, for two different files under one key, and after `close`.
        """
        if not self.is_open:
            raise ValueError(f"chk-{checkpoint_id} registers shared state {key}, but the registry is closed")
        entry = self.entries.get(key)
        if entry is None:
            if isinstance(handle, PlaceholderStreamStateHandle):
                raise ValueError(
                    f"chk-{checkpoint_id} reuses shared state {key}, which no earlier checkpoint registered: the task "
                    "believes in a checkpoint that was discarded; it must upload the file again"
                )
            self.entries[key] = SharedStateEntry(handle, checkpoint_id, checkpoint_id)
            return handle
        if not isinstance(handle, PlaceholderStreamStateHandle) and entry.handle != handle:
            raise ValueError(f"shared state {key} is {entry.handle!r}, but chk-{checkpoint_id} calls it {handle!r}")
        entry.last_used_id = max(entry.last_used_id, checkpoint_id)
        entry.keeps_creator |= keep_creator
        return entry.handle

    def unregister_unused(self, lowest_id: int) -> tuple[list[HandleT], set[int]]:
        """Forget what only checkpoints below `lowest_id` used.

        Returns the handles whose files may be deleted, and the ids of restored checkpoints that must be kept whole
        because their files are still in use.
        """
        unused: list[HandleT] = []
        in_use: set[int] = set()
        for key, entry in list(self.entries.items()):
            if entry.last_used_id < lowest_id:
                del self.entries[key]
                if entry.created_by_id > self._highest_unclaimed_id:
                    unused.append(entry.handle)
            elif self._must_keep_creator(entry):
                in_use.add(entry.created_by_id)
        return unused, in_use

    def register_restored(
        self,
        checkpoint_id: int,
        handles: Mapping[str, HandleT],
        claim_mode: RecoveryClaimMode,
        sharing: SharingFilesStrategy | None,
    ) -> None:
        """Register what a restored checkpoint shares; `sharing` is None if its metadata does not say (before V4).

        Flink: `registerAllAfterRestored`, in 1.11 `registerSharedStatesAfterRestored`.
        """
        for key, handle in handles.items():
            self.register(key, handle, checkpoint_id)
        self._restored[checkpoint_id] = sharing
        if claim_mode is not RecoveryClaimMode.CLAIM:
            self._highest_unclaimed_id = max(self._highest_unclaimed_id, checkpoint_id)

    def close(self) -> None:
        """Reject further registrations; delete nothing."""
        self.is_open = False

    def _must_keep_creator(self, entry: SharedStateEntry[HandleT]) -> bool:
        if entry.created_by_id not in self._restored:
            return False
        return entry.keeps_creator or self._restored[entry.created_by_id] is SharingFilesStrategy.NO_SHARING

    def validate(self) -> None:
        """Check that nothing was used before it was created. Raises AssertionError."""
        for key, entry in self.entries.items():
            assert entry.created_by_id <= entry.last_used_id, f"{key}: {entry}"

    def __repr__(self) -> str:
        return f"SharedStateRegistry({len(self.entries)} shared files{'' if self.is_open else ', closed'})"


# --- which handles of a state are shared ------------------------------------------------------------------------------


class _WithHandles(Protocol):
    def handles(self) -> Iterator[StateObject]: ...


def shared_parts(state: _WithHandles) -> Iterator[HandleAndLocalPath]:
    """Yield the files in a state that other checkpoints may share: those of incremental keyed state."""
    for handle in state.handles():
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            yield from handle.shared_state


def private_files(state: _WithHandles) -> Iterator[str]:
    """Yield the path of every file in a state that belongs to its checkpoint alone.

    Changelogs and segments of merged files, which only Flink writes, are left alone, as in Flink: other checkpoints may
    be in the same files.
    """
    for handle in state.handles():
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            yield from handle.meta_state.files()
            for part in handle.private_state:
                yield from part.files()
        elif not isinstance(handle, ChangelogStateBackendHandle) and not _is_segment(handle):
            yield from handle.files()


def unregistered_files(registry: SharedStateRegistry[StreamStateHandle], snapshot: TaskStateSnapshot) -> Iterator[str]:
    """Yield the path of every file of an acknowledgement that nobody would delete once it is rejected: its private
    files, and shared ones that are not registered.
    """
    for state in snapshot.subtask_states.values():
        yield from private_files(state)
        for part in shared_parts(state):
            if part.handle.physical_id not in registry.entries:
                yield from part.files()


def _is_segment(handle: StateObject) -> bool:
    return isinstance(getattr(handle, "delegate", handle), SegmentFileStateHandle)


def register_shared_state(
    registry: SharedStateRegistry[StreamStateHandle], snapshot: TaskStateSnapshot, checkpoint_id: int
) -> TaskStateSnapshot:
    """Register what an acknowledgement shares; return the snapshot with the registry's handles instead of its own.

    Flink: `registerSharedStates`, as in 2.x when the task acknowledges. Flink 1.11 registers all states when the
    checkpoint completes (`SharedStateRegistry.registerAll`).
    """
    registered = {
        operator_id: _with_registered(registry, state, checkpoint_id)
        for operator_id, state in snapshot.subtask_states.items()
        if state.is_incremental
    }
    if not registered:
        return snapshot
    return replace(snapshot, subtask_states={**snapshot.subtask_states, **registered})


def _with_registered(
    registry: SharedStateRegistry[StreamStateHandle], state: OperatorSubtaskState, checkpoint_id: int
) -> OperatorSubtaskState:
    handles = []
    for handle in state.managed_keyed_state:
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            shared = tuple(
                replace(part, handle=registry.register(part.handle.physical_id, part.handle, checkpoint_id))
                for part in handle.shared_state
            )
            handle = replace(handle, shared_state=shared)
        handles.append(handle)
    return replace(state, managed_keyed_state=tuple(handles))


def shared_file_names(states: Iterable[OperatorState]) -> tuple[str, ...]:
    """Return the names of the files that a whole checkpoint shares, sorted."""
    paths = [part.handle.path for state in states for part in shared_parts(state)]
    return tuple(sorted({path.rpartition("/")[2] for path in paths if path is not None}))


def shared_handles(states: Iterable[OperatorState]) -> dict[str, StreamStateHandle]:
    """Return what a whole checkpoint shares, by key."""
    return {part.handle.physical_id: part.handle for state in states for part in shared_parts(state)}
