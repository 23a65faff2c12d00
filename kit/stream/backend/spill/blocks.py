"""The layouts of blocks: Arrow messages for rows of any type, and records for rows of numbers.

A record has all columns of a row side by side, so a read that finds a row has all of it. Blocks that were read together
are one array of records, and need no decoding. Nulls are bits of one more number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.arrow_kinds import kind_of
from kit.stream.backend.files.framing import Piece
from kit.stream.backend.keys.key_columns import storage_dtype
from kit.stream.backend.picking import rows_at
from kit.stream.backend.spill.places import Places, Rows
from kit.stream.backend.spill.rows import key_columns, one, places, taken
from kit.stream.backend.types.value_columns import as_arrow, numbers_of

Parts = Sequence[tuple[Any, list[tuple[int, int]]]]
"""Bytes that were read together, and where the wanted blocks begin and end in them."""
_NULLS = "nulls"
_MOST_NULLABLE = 64


class FoundRows(Protocol):
    """Rows that were read, in the order of their places."""

    def places(self) -> Places:
        """Return their places."""

    def keys(self, at: Rows) -> list[pa.Array]:
        """Return the columns of the keys of some rows."""

    def take(self, at: Rows) -> pa.Table:
        """Return some rows."""

    def between(self, begin: int, end: int) -> pa.Table:
        """Return the rows from one to another."""


class Blocks(Protocol):
    """A layout of blocks, for rows with one schema."""

    block_bytes: int
    """About how long a block is."""

    def encode(self, rows: pa.Table, starts: Rows) -> tuple[list[Piece], npt.NDArray[np.int64]]:
        """Return blocks of rows, which begin at `starts`, as bytes, and the size of each block."""

    def decode(self, parts: Parts) -> FoundRows:
        """Return the rows of blocks. Rows between them may be there too."""


def blocks_for(schema: pa.Schema) -> Blocks:
    """Return the layout for rows with this schema."""
    leaves = list(_leaves(schema))
    if len(leaves) <= _MOST_NULLABLE and all(kind_of(each).is_number_in_memory for _, each in leaves):
        return Records(schema)
    return Messages(schema)


class Messages:
    """Blocks that are Arrow IPC messages.

    A read of the device takes as long for 16 KB as for 4, and the header of a message is 4 % of that.
    """

    block_bytes = 1 << 14

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, rows: pa.Table, starts: Rows) -> tuple[list[Piece], npt.NDArray[np.int64]]:
        """Return a message for each block."""
        (batch,) = rows.to_batches()
        ends = [*starts[1:].tolist(), rows.num_rows]
        messages = [batch.slice(a, b - a).serialize() for a, b in zip(starts.tolist(), ends, strict=True)]
        return messages, np.array([message.size for message in messages], np.int64)

    def decode(self, parts: Parts) -> FoundRows:
        """Parse the wanted messages."""
        return _Table(pa.Table.from_batches(self._batches(parts), self._schema))

    def _batches(self, parts: Parts) -> Iterator[pa.RecordBatch]:
        for data, blocks in parts:
            buffer = pa.py_buffer(data)
            for begin, end in blocks:
                yield pa.ipc.read_record_batch(buffer.slice(begin, end - begin), self._schema)


class _Table:
    """Rows in an Arrow table."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def places(self) -> Places:
        return places(self._rows)

    def keys(self, at: Rows) -> list[pa.Array]:
        return [rows_at(column, at) for column in key_columns(self._rows)]

    def take(self, at: Rows) -> pa.Table:
        return taken(self._rows, at)

    def between(self, begin: int, end: int) -> pa.Table:
        return self._rows.slice(begin, end - begin).combine_chunks()


class Records:
    """Blocks that are arrays of records: numbers, bools and times, and structs of these."""

    block_bytes = 1 << 12

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        leaves = [(name, storage_dtype(each)) for name, each in _leaves(schema)]
        self._names = [name for name, _ in leaves]
        self.dtype = np.dtype([*leaves, (_NULLS, np.uint64)])

    def encode(self, rows: pa.Table, starts: Rows) -> tuple[list[Piece], npt.NDArray[np.int64]]:
        """Return all blocks as one array."""
        records = np.zeros(rows.num_rows, self.dtype)
        nulls = np.zeros(rows.num_rows, np.uint64)
        bit = 0
        for field in self.schema:
            column = one(rows.column(field.name))
            parts = column.flatten() if pa.types.is_struct(field.type) else [column]
            for part in parts:
                numbers, valid = numbers_of(part)
                records[self._names[bit]] = numbers
                if valid is not None:
                    nulls |= (~valid).astype(np.uint64) << np.uint64(bit)
                bit += 1
        records[_NULLS] = nulls
        sizes = np.diff(np.append(starts, rows.num_rows)) * self.dtype.itemsize
        return [pa.py_buffer(records.view(np.uint8))], sizes

    def decode(self, parts: Parts) -> FoundRows:
        """Take all that was read as records."""
        data = parts[0][0] if len(parts) == 1 else b"".join(each for each, _ in parts)
        return _Records(self, np.frombuffer(data, self.dtype))

    def columns(self, records: npt.NDArray[Any], names: Sequence[str]) -> list[pa.Array]:
        """Return some columns of the schema."""
        nulls = records[_NULLS] if records[_NULLS].any() else None
        found = []
        bit = 0
        for field in self.schema:
            inner = list(field.type) if pa.types.is_struct(field.type) else [field]
            if field.name in names:
                parts = [self._column(records, each.type, bit + number, nulls) for number, each in enumerate(inner)]
                is_struct = pa.types.is_struct(field.type)
                found.append(pa.StructArray.from_arrays(parts, fields=inner) if is_struct else parts[0])
            bit += len(inner)
        return found

    def _column(
        self, records: npt.NDArray[Any], arrow_type: pa.DataType, bit: int, nulls: npt.NDArray[np.uint64] | None
    ) -> pa.Array:
        values = np.ascontiguousarray(records[self._names[bit]])
        mask = None if nulls is None else (nulls >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)
        return as_arrow(arrow_type, values, mask if mask is not None and mask.any() else None)


class _Records:
    """Rows in an array of records."""

    def __init__(self, layout: Records, records: npt.NDArray[Any]) -> None:
        self._layout = layout
        self._records = records

    def places(self) -> Places:
        return np.ascontiguousarray(self._records["place"])

    def keys(self, at: Rows) -> list[pa.Array]:
        return self._layout.columns(self._records.take(at), ("key", "namespace"))

    def take(self, at: Rows) -> pa.Table:
        schema = self._layout.schema
        return pa.Table.from_arrays(self._layout.columns(self._records.take(at), schema.names), schema=schema)

    def between(self, begin: int, end: int) -> pa.Table:
        return self.take(np.arange(begin, end))


def _leaves(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the name and type of each column, and of each field of a struct."""
    for field in schema:
        if pa.types.is_struct(field.type) and field.type.num_fields:
            yield from ((f"{field.name}.{each.name}", each.type) for each in field.type)
        else:
            yield field.name, field.type
