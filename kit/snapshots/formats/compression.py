"""Snappy's framing format, in which Flink compresses snapshots.

A stream is chunks, each after its kind and length. A chunk of kind 0xFF begins a stream; kinds from 0x80 up may be
skipped. The sums of chunks (CRC-32C) are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader

COMPRESSED, PLAIN, FIRST_SKIPPABLE, STREAM_START = 0x00, 0x01, 0x80, 0xFF
SUM_BYTES = 4
MOST_CHUNK_BYTES = 1 << 16
"""The format allows 65,536 bytes in a chunk before compression."""
_SNAPPY = pa.Codec("snappy")


def decompressed(data: bytes) -> bytes:
    """Return what chunks contain, with or without the start of a stream. Raises CheckpointError."""
    return b"".join(chunk for chunk in _chunks(data) if chunk is not None)


def streams_of(data: bytes) -> Iterator[bytes]:
    """Yield what each of several streams contains that follow one another. Raises CheckpointError."""
    parts: list[bytes] | None = None
    for chunk in _chunks(data):
        if chunk is None:
            if parts is not None:
                yield b"".join(parts)
            parts = []
        elif parts is None:
            raise CheckpointError("compressed state begins with a chunk, expected the start of a stream")
        else:
            parts.append(chunk)
    if parts is not None:
        yield b"".join(parts)


def _chunks(data: bytes) -> Iterator[bytes | None]:
    """Yield what each chunk contains, and None for the start of a stream."""
    reader = Reader(data)
    while reader.left:
        kind, size = reader.uint8(), int.from_bytes(reader.take(3), "little")
        held = reader.take(size)
        if kind == STREAM_START:
            yield None
        elif kind == COMPRESSED:
            yield snappy(held[SUM_BYTES:], MOST_CHUNK_BYTES)
        elif kind == PLAIN:
            yield held[SUM_BYTES:]
        elif kind < FIRST_SKIPPABLE:
            raise reader.error(f"a chunk of kind {kind:#x}", "one of Snappy's framing format")


def snappy(data: bytes, most: int) -> bytes:
    """Return what Snappy compressed, `most` bytes at most. Raises CheckpointError."""
    size = Reader(data).varint()
    if size > most:
        raise CheckpointError(f"compressed data says that it has {size:,} bytes, expected at most {most:,}")
    return inflated(_SNAPPY, data, size)


def inflated(codec: pa.Codec, data: bytes, size: int) -> bytes:
    """Return `size` bytes that a codec compressed. Raises CheckpointError."""
    if size == 0:
        return b""
    try:
        return codec.decompress(data, size).to_pybytes()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CheckpointError(f"compressed data of {len(data)} bytes is damaged: {error}") from None
