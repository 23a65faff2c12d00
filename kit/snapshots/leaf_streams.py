"""The streams of bytes at the bottom of a handle, however deep its parts are nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kit.core.metadata import CheckpointMetadata
from kit.core.state.handles import StreamStateHandle

_ONE = ("delegate", "meta_state", "handle")
_SEVERAL = ("shared_state", "private_state", "materialized", "non_materialized")


def leaf_streams(handle: Any) -> Iterator[StreamStateHandle]:
    """Yield the streams that a handle is made of: files, segments of files, and bytes inside the handle."""
    if isinstance(handle, StreamStateHandle) and not hasattr(handle, "delegate"):
        yield handle
    for name in _ONE:
        if hasattr(handle, name):
            yield from leaf_streams(getattr(handle, name))
    for name in _SEVERAL:
        for part in getattr(handle, name, ()):
            yield from leaf_streams(part)
    for part, _ in getattr(handle, "handles_and_offsets", ()):
        yield from leaf_streams(part)


def streams_of(metadata: CheckpointMetadata) -> Iterator[StreamStateHandle]:
    """Yield the streams of all handles of a checkpoint."""
    for operator in metadata.operator_states:
        for handle in operator.handles():
            yield from leaf_streams(handle)


def with_streams(handle: Any, change: Callable[[StreamStateHandle], StreamStateHandle]) -> Any:
    """Return the handle with each of its streams replaced by what `change` returns for it."""
    if isinstance(handle, StreamStateHandle) and not hasattr(handle, "delegate"):
        return change(handle)
    changed: dict[str, Any] = {
        name: with_streams(getattr(handle, name), change) for name in _ONE if hasattr(handle, name)
    }
    for name in _SEVERAL:
        if hasattr(handle, name):
            changed[name] = tuple(with_streams(part, change) for part in getattr(handle, name))
    if hasattr(handle, "handles_and_offsets"):
        changed["handles_and_offsets"] = tuple(
            (with_streams(one, change), at) for one, at in handle.handles_and_offsets
        )
    return replace(handle, **changed) if changed else handle
