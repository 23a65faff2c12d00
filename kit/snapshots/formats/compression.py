"""Snappy's framing format, in which Flink compresses snapshots.

A stream is chunks, each after its kind and length. A chunk of kind 0xFF begins a stream; kinds from 0x80 up may be
skipped. Each chunk has the CRC-32C of what it contains, which is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kit.core.state.errors import DamagedError
from kit.snapshots.formats.checksums import SUM_BYTES, check, masked_crc32c
from kit.snapshots.serializers.reading import Reader

UNCOMPRESSED = "the uncompressed state"
COMPRESSED, PLAIN, FIRST_SKIPPABLE, STREAM_START = 0x00, 0x01, 0x80, 0xFF
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
            yield None
        elif kind in (COMPRESSED, PLAIN):
            try:
                chunk = snappy(held[SUM_BYTES:], MOST_CHUNK_BYTES) if kind == COMPRESSED else held[SUM_BYTES:]
                check(masked_crc32c(chunk), held[:SUM_BYTES], "a chunk of compressed state")
            except DamagedError as error:
                raise error.moved(start) from error
            yield chunk
        elif kind < FIRST_SKIPPABLE:
            raise reader.error(f"a chunk of kind {kind:#x}", "one of Snappy's framing format")


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
