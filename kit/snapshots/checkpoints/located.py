"""The metadata of a checkpoint, and the sizes in it, without what decodes state.

A query of Spark plans its partitions in a new process each time, which imports this module and not the decoders.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kit.core.metadata import CheckpointMetadata, MetadataError, MetadataVersion, read_metadata
from kit.core.state.errors import CheckpointError, SavepointNotFoundError, StorageError
from kit.core.state.handles import KeyedStateHandle, KeyGroupRange
from kit.core.state.operator_state import OperatorState, OperatorSubtaskState
from kit.files.storage import StateFiles


@dataclass(frozen=True)
class Located:
    """The metadata of a checkpoint, its layout, its bytes, and the directory that it is in."""

    metadata: CheckpointMetadata
    layout: MetadataVersion
    data: bytes
    directory: str


def located(path: str | os.PathLike[str], files: StateFiles) -> Located:
    """Read the metadata of a checkpoint. Raises SavepointNotFoundError, CheckpointError."""
    try:
        found = files.resolve(path)
    except SavepointNotFoundError:
        raise
    except StorageError as error:
        raise CheckpointError(f"{error}; fetch the checkpoint again, or open another one") from error
    try:
        metadata, layout = read_metadata(found.metadata, found.location.directory)
    except MetadataError as error:
        raise CheckpointError(f"{found.metadata_path!r}: {error}") from error
    return Located(metadata, layout, found.metadata, found.location.directory)


def keyed_bytes(operator: OperatorState) -> dict[KeyGroupRange, int]:
    """Return the bytes of keyed state of each subtask, by its range of key groups, in order."""
    found: dict[KeyGroupRange, int] = {}
    for state in operator.subtask_states.values():
        own = keyed_handles(state)
        if own:
            ranges = [each.key_group_range for each in own]
            span = KeyGroupRange(min(each.start for each in ranges), max(each.end for each in ranges))
            found[span] = found.get(span, 0) + sum(each.state_size for each in own)
    return dict(sorted(found.items(), key=lambda each: each[0].start))


def keyed_handles(state: OperatorSubtaskState) -> list[KeyedStateHandle]:
    """Return the handles of a subtask's keyed state that have key groups, raw state included."""
    handles = (*state.managed_keyed_state, *state.raw_keyed_state)
    return [handle for handle in handles if isinstance(handle, KeyedStateHandle) and handle.key_group_range]


def groups_of(state: OperatorSubtaskState) -> list[int]:
    """Return the key groups of a subtask's keyed state, in order."""
    return sorted({group for handle in keyed_handles(state) for group in handle.key_group_range})


def list_names(state: OperatorSubtaskState) -> set[str]:
    """Return the names of the lists and broadcast maps of a subtask, which have no key groups."""
    return {name for handle in state.managed_operator_state for name in handle.state_name_to_partition_offsets}
