"""The manifest of an incremental snapshot: the names of its runs, oldest first, and how many rows each has.

It is JSON, in the metadata state of an `IncrementalRemoteKeyedStateHandle`, where Flink's RocksDB backend keeps the
names and serializers of its states:

    {"keyed state runs": [["<name>", rows], ...]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from kit.core.state.errors import StateRestoreError
from kit.core.state.handles import HandleAndLocalPath, IncrementalRemoteKeyedStateHandle

_FIELD = "keyed state runs"
_BEGIN = f'{{"{_FIELD}": '.encode()


class RunEntry(NamedTuple):
    """A run in a manifest: its name among the handle's files, and the entries that it sets or removes."""

    name: str
    rows: int


def encode_manifest(runs: Iterable[RunEntry]) -> bytes:
    """Return the bytes of a manifest."""
    return json.dumps({_FIELD: [list(run) for run in runs]}).encode()


def is_manifest(data: bytes | pa.Buffer) -> bool:
    """Return True if the metadata of incremental state is such a manifest, and not Flink's."""
    return bytes(data[: len(_BEGIN)]) == _BEGIN


def decode_manifest(data: bytes | pa.Buffer, where: str) -> list[RunEntry]:
    """Read a manifest. Raises StateRestoreError, naming `where` it is, if it is none, or is damaged."""
    try:
        runs = json.loads(bytes(data).decode())[_FIELD]
        return [RunEntry(str(name), int(rows)) for name, rows in runs]
    except (ValueError, KeyError, TypeError) as error:
        raise StateRestoreError(f"The manifest {where} is damaged: {error}") from None


def files_in_order(handle: IncrementalRemoteKeyedStateHandle, entries: Sequence[RunEntry]) -> list[HandleAndLocalPath]:
    """Return the file of each run. Raises StateRestoreError if one is missing."""
    files = {part.local_path: part for part in handle.shared_state}
    missing = [entry.name for entry in entries if entry.name not in files]
    if missing or not entries:
        what = f"run {missing[0]!r} is not among its files" if missing else "its manifest names no runs"
        raise StateRestoreError(f"{handle!r} cannot be restored: {what}")
    return [files[entry.name] for entry in entries]
