"""Snappy's framing format, in which Flink compresses snapshots.

A stream is chunks, each after its kind and length. A chunk of kind 0xFF begins a stream. Each other chunk has the
CRC-32C of what it contains, which is compared. The format has kinds that a reader may skip; Flink writes none of them,
so here they are damage.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kit.core.state.errors import DamagedError
from kit.snapshots.formats.checksums import SUM_BYTES, check, masked_crc32c
from kit.snapshots.serializers.reading import Reader

UNCOMPRESSED = "the uncompressed state"
COMPRESSED, PLAIN, STREAM_START = 0x00, 0x01, 0xFF
STREAM_NAME = b"sNaPpY"
MOST_CHUNK_BYTES = 1 << 16
"""The format allows 65,536 bytes in a chunk before compression."""
_SNAPPY = pa.Codec("snappy")


def decompressed(data: bytes) -> bytes:
    """Return what chunks contain, with or without the start of a stream. Raises DamagedError."""
    return b"".join(chunk for chunk in _chunks(data) if chunk is not None)


def streams_of(data: bytes) -> Iterator[bytes]:
    """Yield what each of several streams contains that follow one another. Raises DamagedError."""
    parts: list[bytes] | None = None
    for chunk in _chunks(data):
        if chunk is None:
            if parts is not None:
                yield b"".join(parts)
            parts = []
        elif parts is None:
            raise DamagedError("found a chunk of compressed state, expected the start of a stream")
        else:
            parts.append(chunk)
    if parts is not None:
        yield b"".join(parts)


def _chunks(data: bytes) -> Iterator[bytes | None]:
    """Yield what each chunk contains, and None for the start of a stream."""
    reader = Reader(data)
    while reader.left:
        start, kind, size = reader.at, reader.uint8(), int.from_bytes(reader.take(3), "little")
        held = reader.take(size)
        if kind == STREAM_START:
            if held != STREAM_NAME:
                raise DamagedError(f"found the start of a stream with {held!r}, expected {STREAM_NAME!r}", start)
            yield None
        elif kind in (COMPRESSED, PLAIN):
            try:
                chunk = snappy(held[SUM_BYTES:], MOST_CHUNK_BYTES) if kind == COMPRESSED else held[SUM_BYTES:]
                check(masked_crc32c(chunk), held[:SUM_BYTES], "a chunk of compressed state")
            except DamagedError as error:
                raise error.moved(start) from error
            yield chunk
        else:
            raise DamagedError(
                f"found a chunk of kind {kind:#x}, expected one that Flink writes: 0x0, 0x1 or 0xff", start
            )


def snappy(data: bytes, most: int) -> bytes:
    """Return what Snappy compressed, `most` bytes at most. Raises DamagedError."""
    size = Reader(data).varint()
    if size > most:
        raise DamagedError(f"found compressed data that says it has {size:,} bytes, expected at most {most:,}")
    return inflated(_SNAPPY, data, size)


def inflated(codec: pa.Codec, data: bytes, size: int) -> bytes:
    """Return `size` bytes that a codec compressed. Raises DamagedError."""
    if size == 0:
        return b""
    try:
        return codec.decompress(data, size).to_pybytes()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(f"{len(data)} compressed bytes cannot be decompressed to {size:,} bytes: {error}") from None
