"""Operator state that Flink wrote: lists of entries, and maps that are broadcast.

Flink: `DefaultOperatorStateBackendSnapshotStrategy`, `OperatorStateRestoreOperation`.
"""

from __future__ import annotations

from typing import Any

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.formats.compression import UNCOMPRESSED, decompressed
from kit.snapshots.formats.headers import OperatorHeader, OperatorState
from kit.snapshots.serializers.opaque import cannot_be_read
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import bounded


def read_entry(header: OperatorHeader, state: OperatorState, data: bytes) -> Any:
    """Return one entry of a list, or the pairs of a broadcast map, from its bytes.

    `data` may be longer than the entry, unless only Java code can read the value. Raises CheckpointError.
    """
    try:
        reader = Reader(decompressed(data) if header.is_compressed else data)
    except CheckpointError as error:
        raise error.about(f"operator state {state.name!r}") from error
    try:
        if state.key is None:
            return _element(state, reader)
        if state.key.is_opaque or state.value.is_opaque:
            raise cannot_be_read(state.name, state.key if state.key.is_opaque else state.value)
        many = reader.count("entries", 0)
        return [(state.key.read(reader), state.value.read(reader)) for _ in bounded(reader, many)]
    except CheckpointError as error:
        found = error.inside(UNCOMPRESSED) if header.is_compressed else error
        raise found.about(f"operator state {state.name!r}") from error


def _element(state: OperatorState, reader: Reader) -> Any:
    """Read an element of a list. One with a part that only Java code can read may be unreadable, not damaged."""
    try:
        return state.value.read(reader)
    except DamagedError as error:
        if not state.value.is_opaque:
            raise
        raise cannot_be_read(state.name, state.value) from error
