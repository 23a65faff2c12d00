"""The layout of in-flight data in a file, and the encoding of one element.

    file    = version: int 0, then chunks
    chunk   = length: int, then this many bytes: zero or more elements
    element = one Arrow IPC stream of one record batch, then the checksum of its bytes: crc32, in 8 bytes

Integers are 4 bytes, big-endian; the file's frame is Flink's (`ChannelStateSerializerImpl`), byte for byte. An element
is self-describing: its stream begins with its schema, so data of any type, or of several types, is restored unchanged.
A watermark, a status or a fragment of a record is a batch of one row, which the schema's metadata distinguishes from
records. Nothing is pickled.

Chunks of one channel may be cut out and merged into one (`extract_and_merge`), because an element's bytes say where it
ends.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from kit.core.protocol.elements import Buffer, DataElement, RecordFragment, Watermark, WatermarkStatus
from kit.core.state.errors import StateRestoreError

SERIALIZATION_VERSION = 0
_INT = struct.Struct(">i")
HEADER_LENGTH = LENGTH_BYTES = _INT.size
_CHECKSUM = struct.Struct(">Q")
"""Eight bytes, so that what follows keeps Arrow's alignment."""
MAX_CHUNK_BYTES = 2**31 - 1

_KIND = b"kit.element"


class Sink(Protocol):
    """A target of bytes: a file, or `pyarrow.BufferOutputStream`."""

    def write(self, data: Any) -> Any:
        """Append bytes."""


class Source(Protocol):
    """A source of bytes: a file, or `pyarrow.BufferReader`."""

    def read(self, nbytes: int) -> Any:
        """Return the next bytes, fewer at the end."""

    def tell(self) -> int:
        """Return the position: the number of bytes read or skipped."""

    def seek(self, position: int) -> Any:
        """Continue at `position`."""


class ChannelStateSerializer:
    """The writer and reader of this format, without state. Source: `ChannelStateSerializerImpl`."""

    # --- writing --------------------------------------------------------------------------------------------------

    def write_header(self, sink: Sink) -> None:
        """Write the header of a file."""
        sink.write(_INT.pack(SERIALIZATION_VERSION))

    def write_data(self, sink: Sink, *elements: DataElement) -> int:
        """Write the elements as one chunk, and return its size in bytes, including its length prefix.

        Raises ValueError for more than 2 GiB.
        """
        batches = [_batch_of(element) for element in elements]
        size = sum(map(_element_size, batches))
        if size > MAX_CHUNK_BYTES:
            raise ValueError(f"{len(batches)} buffers of {size} B are too large for a checkpoint: send smaller batches")
        sink.write(_INT.pack(size))
        for batch in batches:
            stream = _stream_of(batch)
            sink.write(stream)
            sink.write(_CHECKSUM.pack(zlib.crc32(stream)))
        return LENGTH_BYTES + size

    def encode(self, elements: Sequence[DataElement]) -> tuple[pa.Buffer, tuple[int, ...]]:
        """Return a file with one chunk per element: its bytes, and the offset of each chunk followed by the end."""
        chunks = sum(LENGTH_BYTES + _element_size(_batch_of(element)) for element in elements)
        data = pa.allocate_buffer(HEADER_LENGTH + chunks)  # growing memory would be copied
        sink = pa.FixedSizeBufferWriter(data)
        self.write_header(sink)
        offsets = [HEADER_LENGTH]
        for element in elements:
            offsets.append(offsets[-1] + self.write_data(sink, element))
        return data, tuple(offsets)

    # --- reading --------------------------------------------------------------------------------------------------

    def read_header(self, source: Source) -> None:
        """Check the version. Raises StateRestoreError for any but 0."""
        version = self._read_int(source)
        if version != SERIALIZATION_VERSION:
            raise StateRestoreError(f"channel state of version {version} cannot be read, only {SERIALIZATION_VERSION}")

    def read_length(self, source: Source) -> int:
        """Return the length in bytes of the chunk that follows. Raises StateRestoreError if it is negative."""
        length = self._read_int(source)
        if length < 0:
            raise StateRestoreError(f"a chunk of channel state has the negative length {length}: the file is damaged")
        return length

    def read_data(self, source: Source, length: int) -> list[DataElement]:
        """Return the elements in the next `length` bytes. Raises StateRestoreError for invalid or changed bytes."""
        data = source.read(length)
        if len(data) < length:
            raise StateRestoreError(f"channel state ends {length - len(data)} bytes early: the file was cut off")
        return _decoded(data, checked=True)

    def extract_and_merge(self, data: bytes, offsets: Sequence[int]) -> bytes:
        """Return a file that contains the chunks at `offsets`, merged into one."""
        chunks = [
            data[offset + LENGTH_BYTES : offset + LENGTH_BYTES + _INT.unpack_from(data, offset)[0]]
            for offset in offsets
        ]
        merged = b"".join(chunks)
        return _INT.pack(SERIALIZATION_VERSION) + _INT.pack(len(merged)) + merged

    def _read_int(self, source: Source) -> int:
        data = source.read(LENGTH_BYTES)
        if len(data) < LENGTH_BYTES:
            raise StateRestoreError(f"channel state ends after {len(data)} of {LENGTH_BYTES} bytes of a number")
        return int(_INT.unpack(data)[0])

    def __repr__(self) -> str:
        return f"ChannelStateSerializer(version {SERIALIZATION_VERSION})"


# --- elements ---------------------------------------------------------------------------------------------------------


def decode_elements(data: bytes | pa.Buffer) -> list[DataElement]:
    """Decode all elements of consecutive streams, in order. Raises StateRestoreError for other bytes."""
    return _decoded(data, checked=False)


def _decoded(data: bytes | pa.Buffer, *, checked: bool) -> list[DataElement]:
    reader = pa.BufferReader(data)
    elements: list[DataElement] = []
    try:
        while reader.tell() < reader.size():
            start = reader.tell()
            with pa.ipc.open_stream(reader) as stream:
                (batch,) = stream
            if checked:
                found = zlib.crc32(memoryview(data)[start : reader.tell()])
                if reader.read(_CHECKSUM.size) != _CHECKSUM.pack(found):
                    raise ValueError("its checksum does not match: bytes were changed")
            batch.validate(full=True)  # the bytes may come from anywhere
            elements.append(_element_of(batch))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StateRestoreError(f"{len(data)} bytes of channel state hold no element: {error}") from error
    return elements


def write_batch(batch: pa.RecordBatch, sink: Any) -> None:
    """Write records as a self-describing Arrow IPC stream of one batch.

    They are copied first: for a column of strings that is a slice of a longer one, Arrow would write up to 63 more
    bytes of the memory behind it. With the copy, equal records produce equal bytes, wherever they were cut from.
    """
    batch = pa.concat_batches([batch])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    data = pa.allocate_buffer(_stream_size(batch))  # growing memory would be copied
    write_batch(batch, pa.FixedSizeBufferWriter(data))
    return data


def _element_size(batch: pa.RecordBatch) -> int:
    return _stream_size(batch) + _CHECKSUM.size


def _stream_size(batch: pa.RecordBatch) -> int:
    counter = pa.MockOutputStream()
    write_batch(batch, counter)
    return int(counter.size())


_FIELDS: dict[type[DataElement], pa.Schema] = {
    RecordFragment: pa.schema([("data", pa.binary()), ("last", pa.bool_())]),
    Watermark: pa.schema([("timestamp_ms", pa.int64())]),
    WatermarkStatus: pa.schema([("idle", pa.bool_())]),
}
"""The schemas of elements other than batches: each becomes a batch of one row."""
_KINDS = {kind.__name__.encode(): kind for kind in _FIELDS}


def _batch_of(element: DataElement) -> pa.RecordBatch:
    if isinstance(element, Buffer):
        return element.batch
    kind = type(element)
    schema = _FIELDS[kind].with_metadata({_KIND: kind.__name__})
    return pa.record_batch([pa.array([getattr(element, each.name)], each.type) for each in schema], schema=schema)


def _element_of(batch: pa.RecordBatch) -> DataElement:
    name = (batch.schema.metadata or {}).get(_KIND)
    if name is None:
        return Buffer(batch)
    kind = _KINDS.get(name)
    if kind is None or batch.schema != _FIELDS[kind] or batch.num_rows != 1 or any(each.null_count for each in batch):
        raise ValueError(f"{name!r} with {batch.num_rows} rows of {batch.schema.types} is not an element of a channel")
    return kind(**batch.to_pylist()[0])
