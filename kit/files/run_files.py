"""The files of an incremental snapshot: its manifest, and the runs that this names.

A run is read as any file of keyed state is, once its index is known: the header, and the wanted key groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import (
    IncrementalRemoteKeyedStateHandle,
    KeyGroupRange,
    KeyGroupsStateHandle,
    StateObject,
    StreamStateHandle,
)
from kit.files.storage import StateFiles
from kit.stream.backend.files.partial_file import ReadRange, read_wanted
from kit.stream.backend.runs.manifest import RunEntry, is_manifest
from kit.stream.backend.runs.restored_runs import RestoredRun
from kit.stream.backend.runs.run_file import runs_in_order


def runs_of(
    handle: IncrementalRemoteKeyedStateHandle,
    storage: StateFiles,
    reader: Callable[[StreamStateHandle], ReadRange] | None = None,
) -> Iterator[tuple[RunEntry, KeyGroupsStateHandle, ReadRange]]:
    """Return the runs of an incremental snapshot in order, each with the places of its key groups, and what reads it.

    `reader` returns a function that reads a file, by default from the storage. Raises StateRestoreError for state of
    another backend, or damage; StorageError if a file cannot be read.
    """
    data = storage.read(handle.meta_state)
    if not is_manifest(data):
        raise not_ours(handle)
    return runs_in_order(handle, data, reader or (lambda file: partial(storage.read_range, file)))


def read_runs(
    handle: IncrementalRemoteKeyedStateHandle,
    storage: StateFiles,
    wanted: KeyGroupRange,
    reader: Callable[[StreamStateHandle], ReadRange] | None = None,
) -> tuple[RestoredRun, ...]:
    """Read what the runs hold of the wanted key groups. Parameters and errors are those of `runs_of`."""
    found = []
    for entry, whole, read_range in runs_of(handle, storage, reader):
        key_groups = whole.intersection(wanted)
        if key_groups is None:
            raise StateRestoreError(f"Run {entry.name!r} has {whole.key_group_range!r}, none of {wanted!r}")
        found.append(RestoredRun(entry, key_groups, read_wanted(key_groups, read_range)))
    return tuple(found)


def not_ours(handle: StateObject) -> StateRestoreError:
    """Return the error for keyed state that another backend wrote."""
    return StateRestoreError(f"{handle!r} was not written by the heap backend and cannot be read by it")
