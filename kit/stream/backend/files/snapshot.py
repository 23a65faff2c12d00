"""Keyed snapshots: what a keyed backend writes at a checkpoint, and how it is read back.

A snapshot is taken in two steps. `backend.snapshot()` is the synchronous part: it records the columns, which keep what
is overwritten from then on. `KeyedSnapshot.encode()` is the asynchronous part: a pure function of the state at that
moment, for any thread, in steps that let other threads run.

The file is framed as `kit.stream.backend.files.framing` defines:

    header    magic "KEYSTATE"; an Arrow IPC schema message for each state
    section   u32 key group | u32 frames | u32 0; then frame, frame, ...
    frame     u32 state | u32 0 | an Arrow IPC record batch message

There is a section for each key group that has rows, in order, and in it a frame for each state that has rows there. A
schema message followed by the batches of its state is an Arrow IPC stream; its metadata holds the state's name, kind,
maximum parallelism and definition (`kit.stream.backend.states.state_definition`). A state's columns are `key`,
`namespace` if it has namespaces, `value`, and with TTL `last_access` (`kit.stream.backend.states.last_access`); timers
have `timestamp_ms`, `key` and `namespace`. One key group can be
read from the header and its section alone.

The bytes depend on the state's content only: states are ordered by name, rows by key and namespace (timers by timestamp
first), maps by key. So two hosts that hold the same state write the same file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Protocol

import numpy as np
import pyarrow as pa

from kit.core.state.handles import NO_OFFSET_SET, KeyGroupRange
from kit.stream.backend.files import row_order
from kit.stream.backend.files.framing import FramedFile, Piece, header, joined, section, size_of
from kit.stream.backend.files.sorting import order_of_rows
from kit.stream.backend.keys.key_codec import Decoder
from kit.stream.backend.keys.key_hashing import key_groups
from kit.stream.backend.keys.slot_index import FrozenIndex
from kit.stream.backend.picking import rows_at
from kit.stream.backend.states.state_definition import Aspects, to_metadata
from kit.stream.backend.types.value_columns import FrozenColumn

MAGIC = b"KEYSTATE"
EVENT_TIMERS, PROCESSING_TIMERS = "event-time timers", "processing-time timers"

_FRAME = struct.Struct("<II")


# ---- writing ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one state or timer queue in a file, and the decoders of those that are codes: the first ones.

    The others are values: none of timers, and of a state with TTL the values and their last accesses.
    """

    name: str
    kind: str
    fields: tuple[pa.Field, ...]
    decoders: tuple[Decoder, ...]
    key_column: int
    aspects: Aspects

    def schema(self, max_parallelism: int) -> pa.Schema:
        """Return the columns, with the state's name, kind, maximum parallelism and definition as metadata."""
        metadata = {"state": self.name, "kind": self.kind, "max_parallelism": str(max_parallelism)}
        return pa.schema(self.fields, metadata | to_metadata(self.aspects))

    def with_rows(self, index: FrozenIndex, values: tuple[FrozenColumn, ...]) -> FrozenState:
        """Return the state at one moment: its code columns and its values."""
        return FrozenState(self, index, values)


class StateRows(Protocol):
    """The rows of one state or timer queue that a snapshot has: all of them, or those that changed."""

    @property
    def layout(self) -> Layout:
        """Their columns."""

    @property
    def rows(self) -> int:
        """Their number; some of them may have expired."""

    @property
    def is_large(self) -> bool:
        """True if they should be written piece by piece."""

    def settle(self) -> None:
        """Copy what would otherwise have to be kept while the state changes."""

    def messages(self, schema: pa.Schema, max_parallelism: int) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield a record batch message for each key group that has rows, in order.

        Rows are sorted by key and namespace, timers by timestamp first.
        """


@dataclass(frozen=True, slots=True)
class FrozenState:
    """One state or timer queue at one moment."""

    layout: Layout
    index: FrozenIndex
    values: tuple[FrozenColumn, ...]

    @property
    def rows(self) -> int:
        """The number of entries or timers."""
        return len(self.index)

    def settle(self) -> None:
        """Copy the values that may still change."""
        for column in self.values:
            column.settle()

    def messages(self, schema: pa.Schema, max_parallelism: int) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield a message for each key group."""
        if not self.is_large:
            self.index.last_result.order = None
            return self._messages_at_once(schema, max_parallelism)
        return self._messages_span_by_span(schema, max_parallelism)

    @property
    def is_large(self) -> bool:
        """True if its rows are sorted and encoded span by span."""
        return len(self.index) > row_order.SPAN_ROWS

    def _messages_at_once(self, schema: pa.Schema, max_parallelism: int) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield the messages of few rows: all are decoded once and sorted together."""
        slots = self.index.slots
        codes = [column.take(slots) for column in self.index.columns]
        columns = [decoder.decode(column) for decoder, column in zip(self.layout.decoders, codes, strict=True)]
        groups = key_groups(columns[self.layout.key_column], max_parallelism)
        ranks = [each.ranks(*of) for each, *of in zip(self.layout.decoders, codes, columns, strict=True)]
        order = order_of_rows([groups.astype(np.int64), *ranks])
        columns = [rows_at(column, order) for column in columns]
        columns += [each.get(slots.take(order)) for each in self.values]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        groups = groups.take(order)
        begins = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(groups)]
        for begin, end in pairwise(begins):
            yield groups.item(begin), batch.slice(begin, end - begin).serialize()

    def _messages_span_by_span(self, schema: pa.Schema, max_parallelism: int) -> Iterator[tuple[int, pa.Buffer]]:
        last_result = self.index.last_result
        order = row_order.row_order(
            self.index, self.layout.decoders, self.layout.key_column, max_parallelism, last_result.order
        )
        last_result.order = order
        for first, behind, begin, end in order.spans():
            columns = [
                d.decode(column[begin:end]) for d, column in zip(self.layout.decoders, order.columns, strict=True)
            ]
            columns += [each.get(order.slots[begin:end]) for each in self.values]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            counts = order.counts[first:behind]
            ends = counts.cumsum()
            for number in np.flatnonzero(counts).tolist():
                rows = int(counts[number])
                yield first + number, batch.slice(int(ends[number]) - rows, rows).serialize()


@dataclass(frozen=True, slots=True)
class KeyedSnapshot:
    """The keyed state of one subtask at one moment: at least one row."""

    key_group_range: KeyGroupRange
    max_parallelism: int
    states: tuple[StateRows, ...]

    def __repr__(self) -> str:
        rows = ", ".join(f"{state.layout.name} {state.rows} rows" for state in self.states)
        return f"KeyedSnapshot(key groups {self.key_group_range.start}-{self.key_group_range.end}: {rows})"

    @property
    def is_large(self) -> bool:
        """True if it should be written piece by piece."""
        return any(state.is_large for state in self.states)

    def encode(self) -> tuple[pa.Buffer, tuple[int, ...]]:
        """Return the file, and the offset of each key group of the range (`NO_OFFSET_SET` without rows).

        A pure function of the snapshot, which may run in any thread while the backend continues.
        """
        return at_once(self.write)

    def write(self, out: Callable[[Piece], object]) -> tuple[int, ...]:
        """Write the file to `out` in pieces, and return the offsets as `encode` does.

        A piece has one key group at a time, so it is still in the processor's cache, and the file is never entirely in
        memory.
        """
        for state in self.states:
            state.settle()
        schemas = [state.layout.schema(self.max_parallelism) for state in self.states]
        position = _written(header(MAGIC, schemas), out)
        offsets = [NO_OFFSET_SET] * len(self.key_group_range)
        for key_group, frames in groupby(self._frames(schemas), itemgetter(0)):
            body: list[Piece] = []
            for _, number, message in frames:
                body += (_FRAME.pack(number, 0), message)
            offsets[key_group - self.key_group_range.start] = position
            position += _written(section((key_group, len(body) // 2, 0), body), out)
        return tuple(offsets)

    def _frames(self, schemas: list[pa.Schema]) -> Iterator[tuple[int, int, pa.Buffer]]:
        """Yield key group, number of the state and message, by key group and state."""

        def of_state(number: int, state: StateRows) -> Iterator[tuple[int, int, pa.Buffer]]:
            for key_group, message in state.messages(schemas[number], self.max_parallelism):
                yield key_group, number, message

        return merge(*(of_state(*each) for each in enumerate(self.states)), key=itemgetter(0, 1))


def at_once(write: Callable[[Callable[[Piece], object]], tuple[int, ...]]) -> tuple[pa.Buffer, tuple[int, ...]]:
    """Return the whole file that `write` writes in pieces, and what it returns."""
    pieces: list[Piece] = []
    offsets = write(pieces.append)
    return joined(pieces), offsets


def _written(pieces: list[Piece], out: Callable[[Piece], object]) -> int:
    """Write pieces, and return their size in bytes."""
    for piece in pieces:
        out(piece)
    return size_of(pieces)


class KeyedStateFile(FramedFile):
    """A file of keyed state, read a key group at a time."""

    magic = MAGIC
    what = "keyed state"

    def key_group(self, key_group: int, offset: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the number of each state with rows in the key group whose section is at `offset`, and these rows."""
        where = f"key group {key_group} at offset {offset}"
        (found, frames, _), body = self.section(where, offset)
        if found != key_group:
            raise self._damaged(where, f"another key group was found: {found}")
        reader = pa.BufferReader(body)
        for _ in range(frames):
            number, _ = _FRAME.unpack(reader.read(_FRAME.size))
            yield number, self.batch(where, number, reader)
