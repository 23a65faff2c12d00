"""RocksDB's SST files: sorted keys in blocks, found through an index. This is a reader of single files, in Python.

A file ends with a footer, which says where the *metaindex* and the index are. The index has for each data block where
it is; blocks are plain or compressed each. An entry's key is the user's key and eight bytes: a sequence number and what
the entry is (a value, an operand of a merge, a deletion). Keys share a prefix with the one before them.

The layout is that of RocksDB's `BlockBasedTable`, format versions 0 to 5. Each block that is read is compared with its
sum.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from kit.core.state.errors import DamagedError
from kit.snapshots.formats.checksums import BLOCK_SUMS, NO_SUM, check
from kit.snapshots.formats.compression import inflated, snappy
from kit.snapshots.serializers.reading import Reader

MAGIC, OLD_MAGIC = 0x88E241B785F4CFF7, 0xDB4775248B80FB57
FOOTER_BYTES, OLD_FOOTER_BYTES, TRAILER_BYTES, SEQUENCE_BYTES = 53, 48, 5, 8
OLD_FORMAT, OLD_SUMS, FORMATS = 0, 1, range(6)
VALUE, DELETION, MERGE, SINGLE_DELETION, RANGE_DELETION, DELETION_WITH_TIME = 0x1, 0x0, 0x2, 0x7, 0xF, 0x14
NONE, SNAPPY, ZLIB, BZIP2, LZ4, LZ4HC, XPRESS, ZSTD = range(8)
MOST_BLOCK_BYTES = 1 << 28
PROPERTIES, RANGE_DELETIONS = b"rocksdb.properties", b"rocksdb.range_del"
COLUMN_FAMILY, INDEX_TYPE = b"rocksdb.column.family.name", b"rocksdb.block.based.table.index.type"
KEY_IS_USER_KEY, VALUE_IS_DELTA = b"rocksdb.index.key.is.user.key", b"rocksdb.index.value.is.delta.encoded"
GLOBAL_SEQUENCE = b"rocksdb.external_sst_file.global_seqno"
ENTRIES = b"rocksdb.num.entries"
TWO_LEVEL_INDEX = 2
HASH_INDEX = 1 << 31

ReadAt = Callable[[int, int], bytes]
"""Read bytes of a file: from where, how many."""
DamageFrom = Callable[[int], AbstractContextManager[None]]
"""Name the file, and the place in it, in an error of bytes from an offset on."""
Handle = tuple[int, int]
"""Where a block is, and its bytes without the trailer."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: the user's key, its sequence number, what it is, and its value."""

    key: bytes
    sequence: int
    kind: int
    value: bytes


@dataclass(frozen=True, slots=True)
class RangeDeletion:
    """A deletion of the keys from `start` up to, not including, `end` that are older than `sequence`."""

    start: bytes
    end: bytes
    sequence: int


class SstFile:
    """One SST file of `size` bytes, read through `read_at`. Raises DamagedError where it is damaged."""

    def __init__(self, read_at: ReadAt, size: int, damage_from: DamageFrom) -> None:
        self._read_at, self.size, self._damage_from = read_at, size, damage_from
        with damage_from(max(0, size - FOOTER_BYTES)):
            metaindex, self._index = self._footer()
        with damage_from(metaindex[0]):
            self._meta = {key: _handle(Reader(value)) for key, value in self._pairs(metaindex)}

    def _footer(self) -> tuple[Handle, Handle]:
        """Read where the metaindex and the index are, and the version of the format."""
        if self.size < FOOTER_BYTES:
            raise DamagedError(
                f"found an SST file of {self.size} bytes, expected a footer of {FOOTER_BYTES}",
                advice=DamagedError.CUT_OFF,
            )
        footer = self._read_at(self.size - FOOTER_BYTES, FOOTER_BYTES)
        version, magic = struct.unpack("<IQ", footer[-12:])
        sums, start = footer[0], 1
        if magic == OLD_MAGIC:
            version, magic, sums, start = OLD_FORMAT, MAGIC, OLD_SUMS, FOOTER_BYTES - OLD_FOOTER_BYTES
        if magic != MAGIC:
            raise DamagedError(
                f"this is not an SST file: found last bytes {footer[-8:].hex()}, expected those of RocksDB's "
                "block-based table"
            )
        if version not in FORMATS:
            raise DamagedError(f"found an SST file of format {version}, expected 0 to 5, which are read here")
        if sums != NO_SUM and sums not in BLOCK_SUMS:
            raise DamagedError(
                f"found an SST file with checksums of kind {sums}, expected {NO_SUM} to {max(BLOCK_SUMS)}"
            )
        self._version, self._sum = version, BLOCK_SUMS.get(sums)
        handles = Reader(footer, start)
        return _handle(handles), _handle(handles)

    @cached_property
    def properties(self) -> dict[bytes, bytes]:
        """The table's properties, by name."""
        handle = self._meta.get(PROPERTIES)
        return {} if handle is None else dict(self._pairs(handle))

    @property
    def column_family(self) -> str:
        """The name of the column family, which is the state's."""
        return self.properties.get(COLUMN_FAMILY, b"").decode("utf-8", "replace")

    @property
    def many_entries(self) -> int:
        """The number of entries, deletions and older values of a key included."""
        held = self.properties.get(ENTRIES)
        return 0 if held is None else Reader(held).varint()

    @cached_property
    def range_deletions(self) -> tuple[RangeDeletion, ...]:
        """The deletions of ranges of keys that the file has."""
        handle = self._meta.get(RANGE_DELETIONS)
        if handle is None:
            return ()
        found = [(*_split(key), end) for key, end in self._pairs(handle)]
        return tuple(RangeDeletion(start, end, self._global or sequence) for start, sequence, _, end in found)

    @cached_property
    def _global(self) -> int:
        """The sequence number of all entries of a file that was made elsewhere; 0 for others."""
        held = self.properties.get(GLOBAL_SEQUENCE, b"")
        return int.from_bytes(held, "little") if len(held) == 8 else 0

    def entries(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Entry]:
        """Yield the entries with keys from `start` up to, not including, `end`, in the order of the file."""
        lasts, handles = self._blocks
        for place in range(bisect.bisect_left(lasts, start), len(handles)):
            for internal, value in self._pairs(handles[place]):
                key, sequence, kind = _split(internal)
                if key < start:
                    continue
                if end is not None and key >= end:
                    return
                yield Entry(key, self._global or sequence, kind, value)

    def check_blocks(self) -> bool:
        """Read all blocks: data, indexes, filters, properties. Return True if these have checksums.

        Raises DamagedError.
        """
        for handle in self._meta.values():
            self._block(handle)
        for _ in self.entries():
            pass
        return self._sum is not None

    @cached_property
    def _blocks(self) -> tuple[list[bytes], list[Handle]]:
        """The data blocks: a key not below the last of each, and where each is."""
        found = list(self._indexed(self._index))
        if int.from_bytes(self.properties.get(INDEX_TYPE, b""), "little") == TWO_LEVEL_INDEX:
            found = [each for _, handle in found for each in self._indexed(handle)]
        return [key for key, _ in found], [handle for _, handle in found]

    def _indexed(self, handle: Handle) -> Iterator[tuple[bytes, Handle]]:
        """Yield the user's keys of an index block with the blocks they stand for."""
        is_user_key = _flag(self.properties.get(KEY_IS_USER_KEY, b""))
        cut = None if is_user_key else -SEQUENCE_BYTES
        if not _flag(self.properties.get(VALUE_IS_DELTA, b"")):
            for key, value in self._pairs(handle):
                yield key[:cut], _handle(Reader(value))
            return
        last: Handle = (0, 0)
        block = self._block(handle)
        with self._damage_from(handle[0]):
            for key, is_shared, reader in _delta_entries(block):
                if is_shared:  # only how the size differs from that of the block before
                    delta = reader.varint()
                    last = last[0] + last[1] + TRAILER_BYTES, last[1] + ((delta >> 1) ^ -(delta & 1))
                else:
                    last = _handle(reader)
                yield key[:cut], last

    def damaged(self, error: DamagedError, key: bytes) -> DamagedError:
        """Return an error of an entry with this key, with the file and the place of the entry's block."""
        lasts, handles = self._blocks
        try:
            with self._damage_from(handles[bisect.bisect_left(lasts, key)][0]):
                raise error.inside("an entry of the block")
        except DamagedError as placed:
            return placed

    def _pairs(self, handle: Handle) -> Iterator[tuple[bytes, bytes]]:
        block = self._block(handle)
        with self._damage_from(handle[0]):
            try:
                yield from _entries(block)
            except DamagedError as error:
                raise error.inside("the uncompressed block") from error

    def _block(self, handle: Handle) -> bytes:
        """Return a block's content."""
        offset, size = handle
        with self._damage_from(offset):
            if not 0 <= offset <= offset + size + TRAILER_BYTES <= self.size:
                raise DamagedError(f"found a block of {size:,} bytes from here on, expected one within {self.size:,}")
            held = self._read_at(offset, size + TRAILER_BYTES)
            if self._sum is not None:
                check(self._sum(held[: size + 1]), held[size + 1 :], "a block")
            return _inflate(held[:size], held[size], self._version)


def _flag(held: bytes) -> bool:
    """Return a property that is a number, or a number as text, as a truth value."""
    return held not in (b"", b"0", b"\0") and any(held)


def _handle(reader: Reader) -> Handle:
    return reader.varint(), reader.varint()


def _split(internal: bytes) -> tuple[bytes, int, int]:
    if len(internal) < SEQUENCE_BYTES:
        raise DamagedError(f"found a key of {len(internal)} bytes in an SST file, expected one with a sequence number")
    packed = int.from_bytes(internal[-SEQUENCE_BYTES:], "little")
    return internal[:-SEQUENCE_BYTES], packed >> 8, packed & 0xFF


def _inflate(data: bytes, kind: int, version: int) -> bytes:
    if kind == NONE:
        return data
    if kind == SNAPPY:
        return snappy(data, MOST_BLOCK_BYTES)
    if kind not in _CODECS and kind != ZLIB:
        raise DamagedError(f"found a block of an SST file that is compressed with method {kind}, expected 0 to 7")
    if version < 2:
        raise DamagedError(f"found a compressed block in an SST file of format {version}, expected format 2 or newer")
    reader = Reader(data)
    size = reader.varint()
    if size > MOST_BLOCK_BYTES:
        raise DamagedError(f"found a block of {size:,} bytes in an SST file, expected at most {MOST_BLOCK_BYTES:,}")
    if kind == ZLIB:
        try:
            return zlib.decompressobj(-15).decompress(reader.rest(), size)
        except zlib.error as error:
            raise DamagedError(f"a block of an SST file cannot be decompressed: {error}") from None
    return inflated(pa.Codec(_CODECS[kind]), reader.rest(), size)


_CODECS = {LZ4: "lz4_raw", LZ4HC: "lz4_raw", ZSTD: "zstd", BZIP2: "bz2"}


def _content(block: bytes) -> int:
    """Return where the entries of a block end: the places at which keys are whole follow."""
    if len(block) < 4:
        raise DamagedError(f"found a block of {len(block)} bytes in an SST file, expected at least 4")
    (packed,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4
    if packed & HASH_INDEX:
        packed &= ~HASH_INDEX
        if end < 2:
            raise DamagedError("found the end of a block in an SST file, expected a hash index")
        end -= 2 + struct.unpack_from("<H", block, end - 2)[0]
    end -= 4 * packed
    if end < 0:
        raise DamagedError(f"found {packed:,} restart points in a block of {len(block)} bytes, expected fewer")
    return end


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block."""
    at, end, key = 0, _content(block), b""
    while at < end:
        shared, unshared, size = (
            block[at],
            block[at + 1] if at + 1 < end else 0x80,
            block[at + 2] if at + 2 < end else 0x80,
        )
        if shared | unshared | size < 0x80:
            at += 3
        else:
            reader = Reader(block, at, end)
            shared, unshared, size = reader.varint(), reader.varint(), reader.varint()
            at = reader.at
        middle = at + unshared
        last = middle + size
        if shared > len(key) or last > end:
            raise DamagedError("found an entry of an SST file that does not fit its block, expected a shorter one", at)
        key = key[:shared] + block[at:middle]
        yield key, block[middle:last]
        at = last


def _delta_entries(block: bytes) -> Iterator[tuple[bytes, bool, Reader]]:
    """Yield the keys of an index block whose values have no length, and a reader that is at each value."""
    key, reader = b"", Reader(block, 0, _content(block))
    while reader.left:
        shared, unshared = reader.varint(), reader.varint()
        if shared > len(key):
            raise reader.error(f"{shared} bytes shared with a key of {len(key)}", "an entry of an index")
        key = key[:shared] + reader.take(unshared)
        yield key, shared > 0, reader
