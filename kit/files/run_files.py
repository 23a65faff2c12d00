"""The files of an incremental snapshot: its manifest, and the runs that this names.

A run is read as any file of keyed state is, once its index is known: the header, and the wanted key groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import IncrementalRemoteKeyedStateHandle, KeyGroupRange, KeyGroupsStateHandle, StateObject
from kit.files.storage import StateFiles
from kit.stream.backend.files.partial_file import read_wanted
from kit.stream.backend.runs.manifest import RunEntry, is_manifest
from kit.stream.backend.runs.restored_runs import RestoredRun
from kit.stream.backend.runs.run_file import runs_in_order


def runs_of(
    handle: IncrementalRemoteKeyedStateHandle, storage: StateFiles
) -> Iterator[tuple[RunEntry, KeyGroupsStateHandle]]:
    """Return the runs of an incremental snapshot in order, each with the places of its key groups.

    Raises StateRestoreError for state of another backend, or damage; StorageError if a file cannot be read.
    """
    data = storage.read(handle.meta_state)
    if not is_manifest(data):
        raise not_ours(handle)
    return runs_in_order(handle, data, lambda file: partial(storage.read_range, file))


def read_runs(
    handle: IncrementalRemoteKeyedStateHandle, storage: StateFiles, wanted: KeyGroupRange
) -> tuple[RestoredRun, ...]:
    """Read what the runs hold of the wanted key groups. Raises as `runs_of` does."""
    found = []
    for entry, whole in runs_of(handle, storage):
        key_groups = whole.intersection(wanted)
        if key_groups is None:
            raise StateRestoreError(f"Run {entry.name!r} has {whole.key_group_range!r}, none of {wanted!r}")
        data = read_wanted(key_groups, partial(storage.read_range, key_groups.delegate))
        found.append(RestoredRun(entry, key_groups, data))
    return tuple(found)


def not_ours(handle: StateObject) -> StateRestoreError:
    """Return the error for keyed state that another backend wrote."""
    return StateRestoreError(f"{handle!r} was not written by the heap backend and cannot be read by it")
