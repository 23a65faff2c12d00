"""Restored runs: what a backend is given of an incremental snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.state.handles import IncrementalRemoteKeyedStateHandle, KeyGroupsStateHandle
from kit.stream.backend.files.framing import Piece, Sliceable
from kit.stream.backend.runs.manifest import RunEntry


@dataclass(frozen=True, slots=True)
class RestoredRun:
    """A run of a restored snapshot: its place in the manifest, where its key groups are, and their bytes."""

    entry: RunEntry
    key_groups: KeyGroupsStateHandle
    data: Piece | Sliceable


def in_layers(parts: Iterable[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    """Return handles with their bytes in the order in which they are restored, those side by side that may be.

    Full files and first runs come first, since the key groups of different handles are different ones.
    """
    layers: list[list[tuple[Any, Any]]] = []
    for handle, data in parts:
        of_part: Sequence[tuple[Any, Any]] = [(handle, data)]
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            of_part = [(run.key_groups, run.data) for run in data]
        layers += ([] for _ in range(len(of_part) - len(layers)))
        for layer, run in zip(layers, of_part, strict=False):
            layer.append(run)
    return layers
