"""Keyed state in RocksDB's files: several SST files a state, of which the newest entry of a key counts.

An incremental checkpoint refers to the SST files of all levels. Each says which column family, that is which state, it
belongs to, so the MANIFEST is not needed. Lists are written as operands of a merge, which are joined with a comma.

Flink: `RocksDBIncrementalRestoreOperation`, `RocksDBOperationUtils`, `StringAppendTESTOperator`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.formats.rows import PairDecoder, Rows
from kit.snapshots.formats.sst import (
    DELETION,
    DELETION_WITH_TIME,
    MERGE,
    SINGLE_DELETION,
    VALUE,
    Entry,
    RangeDeletion,
    SstFile,
)

JOINER = b","
_DELETIONS = (DELETION, SINGLE_DELETION, DELETION_WITH_TIME)


class SstGroups:
    """Decodes key groups of one state from all SST files of its column family."""

    def __init__(self, files: Sequence[SstFile], prefix: int) -> None:
        self._files, self._prefix = files, prefix
        self._deletions = [each for file in files for each in file.range_deletions]

    def decode(self, state: KeyedState, group: int, rows: Rows) -> None:
        """Add the rows of one key group. Raises CheckpointError."""
        decoder = PairDecoder(state, self._prefix)
        for key, value in self._merged(group):
            try:
                decoder.add(rows, group, key, value)
            except DamagedError as error:
                raise self._located(error, key).about(f"state {state.name!r}, key group {group}") from error
            except CheckpointError as error:
                raise error.about(f"state {state.name!r}, key group {group}") from error

    def pairs(self, group: int) -> list[Pair]:
        """Return the pairs of one key group, as they are. Raises CheckpointError."""
        return [(key[self._prefix :], value) for key, value in self._merged(group)]

    def _located(self, error: DamagedError, key: bytes) -> DamagedError:
        """Return the error of an entry with the place of its newest version."""
        found = [(entry.sequence, file) for file in self._files for entry in file.entries(key, key + b"\0")]
        newest = max(found, key=lambda each: each[0])[1]
        return newest.damaged(error, key)

    def _merged(self, group: int) -> Iterator[Pair]:
        """Yield the keys of one key group, with its number, and their values."""
        start = group.to_bytes(self._prefix, "big")
        end = (
            (group + 1).to_bytes(self._prefix + 1, "big")[-self._prefix :]
            if group + 1 < 1 << 8 * self._prefix
            else None
        )
        yield from merged([file.entries(start, end) for file in self._files], self._deletions)


def merged(
    sources: Sequence[Iterator[Entry]], deletions: Iterable[RangeDeletion] = ()
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key that exists, in order, with its value, from sorted entries of several files."""
    deletions = list(deletions)
    ordered = heapq.merge(*sources, key=lambda each: (each.key, -each.sequence))
    for key, versions in groupby(ordered, attrgetter("key")):
        oldest = max((each.sequence for each in deletions if each.start <= key < each.end), default=-1)
        value = _value(versions, oldest)
        if value is not None:
            yield key, value


def _value(versions: Iterator[Entry], deleted_below: int) -> bytes | None:
    """Return the value of a key whose versions are given, the newest first; None if it is deleted."""
    operands: list[bytes] = []
    for each in versions:
        if each.sequence < deleted_below or each.kind in _DELETIONS:
            break
        if each.kind == MERGE:
            operands.append(each.value)
        elif each.kind == VALUE:
            operands.append(each.value)
            break
        else:
            raise CheckpointError(f"an entry of an SST file is of kind {each.kind:#x}, which is not read here")
    return JOINER.join(reversed(operands)) if operands else None
