"""The streams of bytes at the bottom of a handle, however deep its parts are nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.core.state.handles import StreamStateHandle


def leaf_streams(handle: Any) -> Iterator[StreamStateHandle]:
    """Yield the streams that a handle is made of: files, segments of files, and bytes inside the handle."""
    if isinstance(handle, StreamStateHandle) and not hasattr(handle, "delegate"):
        yield handle
    for name in ("delegate", "meta_state", "handle"):
        if hasattr(handle, name):
            yield from leaf_streams(getattr(handle, name))
    for name in ("shared_state", "private_state", "materialized", "non_materialized"):
        for part in getattr(handle, name, ()):
            yield from leaf_streams(part)
    for part, _ in getattr(handle, "handles_and_offsets", ()):
        yield from leaf_streams(part)
