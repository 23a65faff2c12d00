"""The checksums that Flink's state files carry: those of Snappy's chunks and of RocksDB's blocks.

A changed byte often still decodes, to another value. So every chunk and every block that is read is compared with its
sum. Two libraries compute them, because in Python alone a sum would take longer than all other reading.
"""

from __future__ import annotations

from collections.abc import Callable

import google_crc32c
import xxhash

from kit.core.state.errors import DamagedError

SUM_BYTES = 4
_UINT32 = 0xFFFFFFFF
_LAST_BYTE_FACTOR = 0x6B9083D9
NO_SUM = 0


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C of bytes as Snappy's framing format and RocksDB store it: rotated, plus a constant."""
    crc: int = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _UINT32


def _xxh3(data: bytes) -> int:
    """Return RocksDB's sum of this kind: the last byte is mixed in afterwards."""
    found: int = xxhash.xxh3_64_intdigest(data[:-1])
    return (found & _UINT32) ^ (data[-1] * _LAST_BYTE_FACTOR & _UINT32)


def _xxh32(data: bytes) -> int:
    return int(xxhash.xxh32_intdigest(data))


def _xxh64(data: bytes) -> int:
    return int(xxhash.xxh64_intdigest(data)) & _UINT32


BLOCK_SUMS: dict[int, Callable[[bytes], int]] = {1: masked_crc32c, 2: _xxh32, 3: _xxh64, 4: _xxh3}
"""RocksDB's kinds of sums, by the number in the footer of a file (`ChecksumType`); 0 stands for none."""


def check(found: int, stored: bytes, what: str) -> None:
    """Compare a sum with the stored one, which is little-endian. Raises DamagedError."""
    if found != int.from_bytes(stored, "little"):
        raise DamagedError(f"the checksum of {what} does not match: bytes were changed")
