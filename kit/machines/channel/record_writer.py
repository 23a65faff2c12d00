"""The conversion of records into elements of a channel, none larger than a buffer may be.

The size of a buffer bounds how long a barrier waits, and sets the granularity of credits and the minimum that an
unaligned checkpoint writes. A larger batch is cut by rows, as few times as possible and without copying. A single
larger record is encoded and cut into fragments, which `kit.machines.channel.record_assembler` puts together again. A
part of a dictionary column contains only the values that it uses, because the whole dictionary may be larger than a
buffer.

Follows Flink's `RecordWriter` and `BufferBuilder`, where records are bytes and any of them may span two buffers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_size import size_of
from kit.core.protocol.elements import Buffer, CreditedElement, RecordFragment
from kit.machines.channel.channel_state.channel_state_serializer import write_batch


class RecordWriter:
    """A splitter of batches into elements of at most `buffer_bytes`."""

    __slots__ = ("_buffer_bytes",)

    def __init__(self, buffer_bytes: int) -> None:
        self._buffer_bytes = buffer_bytes

    def elements(self, batch: pa.RecordBatch, max_rows: int | None = None) -> Sequence[CreditedElement]:
        """Return the elements for these records, to be sent one right after the other; each has `max_rows` at most."""
        if max_rows is not None and batch.num_rows > max_rows:
            parts = (batch.slice(start, max_rows) for start in range(0, batch.num_rows, max_rows))
            return tuple(element for part in parts for element in self.elements(part))
        # The memory behind a batch is at least its size and cheaper to get: for the size, Arrow lets other threads run.
        if batch.get_total_buffer_size() <= self._buffer_bytes or size_of(batch) <= self._buffer_bytes:
            return (Buffer(batch),)
        if any(_can_be_made_anew(field.type) for field in batch.schema):
            return tuple(self._halved(batch))
        return tuple(self._cut(batch))

    def _halved(self, batch: pa.RecordBatch) -> Iterator[CreditedElement]:
        """Yield halves until each fits: the size of a part is known only once its dictionaries are made."""
        small = _with_own_dictionaries(batch)
        if size_of(small) <= self._buffer_bytes:
            yield Buffer(small)
        elif small.num_rows == 1:
            yield from self._fragments(small)
        else:
            middle = small.num_rows // 2
            yield from self._halved(small.slice(0, middle))
            yield from self._halved(small.slice(middle))

    def _cut(self, batch: pa.RecordBatch) -> Iterator[CreditedElement]:
        start = 0
        while start < batch.num_rows:
            rows = self._rows_that_fit(batch.slice(start))
            if rows:
                yield Buffer(batch.slice(start, rows))
            else:
                rows = 1
                yield from self._fragments(batch.slice(start, rows))
            start += rows

    def _rows_that_fit(self, batch: pa.RecordBatch) -> int:
        """Return how many of the first rows fit into a buffer.

        Start with the guess for rows of equal size, and search from there.
        """

        def size(rows: int) -> int:
            return size_of(batch.slice(0, rows))

        limit, most = self._buffer_bytes, batch.num_rows
        size_bytes = size_of(batch)
        if size_bytes <= limit:
            return most
        least, guess = 0, most * limit // size_bytes
        if size(guess) > limit:
            most = guess
        elif size(guess + 1) > limit:
            return guess
        else:
            least = guess + 1
        return least + bisect_right(range(least + 1, most), limit, key=size)

    def _fragments(self, record: pa.RecordBatch) -> Iterator[RecordFragment]:
        sink = pa.BufferOutputStream()
        write_batch(record, sink)
        data = sink.getvalue().to_pybytes()
        for start in range(0, len(data), self._buffer_bytes):
            end = start + self._buffer_bytes
            yield RecordFragment(data[start:end], last=end >= len(data))

    def __repr__(self) -> str:
        return f"RecordWriter({self._buffer_bytes} bytes per buffer)"


def _can_be_made_anew(arrow_type: pa.DataType) -> bool:
    """Return True if a part may have a dictionary of its own: Arrow cannot combine dictionaries of nested values."""
    if not pa.types.is_dictionary(arrow_type):
        return False
    of = arrow_type.value_type
    return not (pa.types.is_nested(of) or pa.types.is_null(of) or isinstance(of, pa.BaseExtensionType))


def _with_own_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows with dictionaries that hold only the values in use, in their order, and no null."""
    columns = [_with_own_dictionary(column) if _can_be_made_anew(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_own_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    indices = column.indices
    if column.dictionary.null_count:
        indices = pc.if_else(column.dictionary.is_valid().take(indices), indices, None)
    named = indices.dictionary_encode()
    values = _without_bitmap(column.dictionary.take(named.dictionary))
    return pa.DictionaryArray.from_arrays(
        named.indices.cast(column.type.index_type), values, ordered=column.type.ordered
    )


def _without_bitmap(values: pa.Array) -> pa.Array:
    """Return the same values, none of them null, without the validity bitmap that `take` allocates all the same.

    Reading a fragment leaves out the bitmap, so with it a record that exactly fits would look too large.
    """
    return pa.Array.from_buffers(values.type, len(values), [None, *values.buffers()[1:]], offset=values.offset)
