"""The primitives of `_metadata`: Java's `DataInput` and `DataOutput`, with a check on every read.

Numbers are big-endian. A string is an unsigned 16-bit count of bytes and then *modified UTF-8*: U+0000 takes two bytes,
and a character beyond U+FFFF is two surrogates of three bytes each.

A file may come from anywhere, so reading trusts nothing. No read passes the end, and nesting has a limit. A count is
compared with the bytes that are left before anything is allocated for it. Every problem raises the same
`MetadataError`.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from kit.core.metadata.versions import MetadataVersion
from kit.core.state.handles import KeyGroupRange

MAX_PARALLELISM = 1 << 15
"""The largest number of key groups of a job (`KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM`)."""

MAX_UTF_BYTES = 0xFFFF
MAX_DEPTH = 16
"""The maximum nesting of handles; Flink itself writes three levels."""

CORRUPT = "the file is damaged, or is not what it is taken for; restore from another checkpoint or fetch it again"

BYTE = struct.Struct(">b")
USHORT = struct.Struct(">H")
INT = struct.Struct(">i")
NONE = INT.pack(0)
"""A count of zero."""
LONG = struct.Struct(">q")
INT_PAIR = struct.Struct(">ii")


class MetadataError(ValueError):
    """Metadata that cannot be read or written: what was found where, what was expected, what to do.

    `offset` is the position of the invalid byte, or None if an object could not be written.
    """

    def __init__(self, found: str, expected: str, way_out: str = CORRUPT, offset: int | None = None) -> None:
        """Build the message from these parts, in this order."""
        self.offset = offset
        where = "" if offset is None else f"byte {offset}: "
        super().__init__(f"{where}{found}; expected {expected}; {way_out}")


@lru_cache(maxsize=4096)
def longs_struct(count: int) -> struct.Struct:
    """Return the layout of `count` consecutive longs."""
    return struct.Struct(f">{count}q")


class DataInput:
    """A cursor over the bytes of one file. Source: `java.io.DataInputStream`.

    `base` is the directory of relative paths, and `version` selects the layout. Every `what` names the field for the
    error message.
    """

    __slots__ = ("base", "data", "depth", "end", "pos", "version")

    def __init__(self, data: bytes, version: MetadataVersion, base: str, pos: int = 0) -> None:
        """Start at byte `pos` of `data`."""
        self.data = data
        self.version = version
        self.base = base
        self.pos = pos
        self.end = len(data)
        self.depth = 0

    def error(self, found: str, expected: str, way_out: str = CORRUPT, offset: int | None = None) -> MetadataError:
        """Return an error at `offset`, or at the current position."""
        return MetadataError(found, expected, way_out, self.pos if offset is None else offset)

    def _truncated(self, size: int, what: str) -> MetadataError:
        return self.error(f"the data ends after {self.end - self.pos} more bytes", f"{size} bytes of {what}")

    def int8(self, what: str) -> int:
        """Read a signed byte."""
        try:
            value: int = BYTE.unpack_from(self.data, self.pos)[0]
        except struct.error:
            raise self._truncated(1, what) from None
        self.pos += 1
        return value

    def int32(self, what: str) -> int:
        """Read a signed 32-bit number."""
        try:
            value: int = INT.unpack_from(self.data, self.pos)[0]
        except struct.error:
            raise self._truncated(4, what) from None
        self.pos += 4
        return value

    def int64(self, what: str) -> int:
        """Read a signed 64-bit number."""
        try:
            value: int = LONG.unpack_from(self.data, self.pos)[0]
        except struct.error:
            raise self._truncated(8, what) from None
        self.pos += 8
        return value

    def int_pair(self, what: str) -> tuple[int, int]:
        """Read two signed 32-bit numbers."""
        try:
            pair = INT_PAIR.unpack_from(self.data, self.pos)
        except struct.error:
            raise self._truncated(8, what) from None
        self.pos += 8
        return pair

    def longs(self, count: int, what: str) -> tuple[int, ...]:
        """Read `count` signed 64-bit numbers."""
        if 8 * count > self.end - self.pos:
            raise self._truncated(8 * count, what)
        values = longs_struct(count).unpack_from(self.data, self.pos)
        self.pos += 8 * count
        return values

    def next_is_negative(self) -> bool:
        """Return True if the next number is negative, without reading it."""
        return self.data[self.pos : self.pos + 1] >= b"\x80"

    def raw(self, size: int, what: str) -> bytes:
        """Read `size` bytes."""
        start = self.pos
        if size > self.end - start:
            raise self._truncated(size, what)
        self.pos = start + size
        return self.data[start : start + size]

    def blob(self, what: str) -> bytes:
        """Read bytes that follow their 32-bit count."""
        return self.raw(self.count(1, what), what)

    def utf(self, what: str) -> str:
        """Read a string in modified UTF-8."""
        start = self.pos
        try:
            (size,) = USHORT.unpack_from(self.data, start)
        except struct.error:
            raise self._truncated(2, f"the length of {what}") from None
        first = start + 2
        encoded = self.data[first : first + size]
        self.pos = first + len(encoded)
        if len(encoded) != size:
            raise self.error(f"the data ends after {len(encoded)} of {size} bytes", what, offset=first)
        if encoded.isascii():
            return encoded.decode("ascii")
        try:
            return decode_modified_utf8(encoded)
        except UnicodeError:
            raise self.error(f"{size} bytes that are no modified UTF-8", what, offset=start) from None

    def count(self, min_bytes_each: int, what: str) -> int:
        """Read a 32-bit count of items of at least `min_bytes_each`, checked against the bytes left."""
        start = self.pos
        count = self.int32(f"the number of {what}")
        if not 0 <= count * min_bytes_each <= self.end - self.pos:
            left = self.end - self.pos
            most = left // min_bytes_each
            raise self.error(f"{count} {what}", f"0 to {most}, as {left} bytes are left", offset=start)
        return count

    def key_group_range(self) -> KeyGroupRange:
        """Read a range of key groups, stored as its start and its length."""
        start, count = self.int_pair("a key group range")
        if start < 0 or count < 0 or start + count > MAX_PARALLELISM:
            raise self.error(
                f"{count} key groups from {start} on", f"a range within 0 to {MAX_PARALLELISM - 1}", offset=self.pos - 8
            )
        return KeyGroupRange(start, start + count - 1) if count else KeyGroupRange.EMPTY

    def enter(self) -> None:
        """Enter a nested handle. Raises `MetadataError` below `MAX_DEPTH`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"a handle {self.depth} levels deep in other handles", f"{MAX_DEPTH} levels at most")

    def leave(self) -> None:
        """Leave a nested handle."""
        self.depth -= 1


class DataOutput(bytearray):
    """A growing byte array.

    Source: `java.io.DataOutputStream`. Raises `MetadataError` if a value does not fit its field.
    """

    __slots__ = ("version",)

    version: MetadataVersion

    @classmethod
    def of(cls, version: MetadataVersion) -> DataOutput:
        """Return an empty output in the layouts of `version`."""
        out = cls()
        out.version = version
        return out

    def int8(self, value: int) -> None:
        """Write a signed byte."""
        self += BYTE.pack(value)

    def int32(self, value: int) -> None:
        """Write a signed 32-bit number."""
        self += INT.pack(value)

    def int64(self, value: int) -> None:
        """Write a signed 64-bit number."""
        self += LONG.pack(value)

    def longs(self, values: tuple[int, ...]) -> None:
        """Write signed 64-bit numbers, without their count."""
        self += longs_struct(len(values)).pack(*values)

    def blob(self, data: bytes | bytearray) -> None:
        """Write bytes after their 32-bit count."""
        self += INT.pack(len(data))
        self += data

    def utf(self, text: str) -> None:
        """Write a string in modified UTF-8."""
        encoded = text.encode("ascii") if text.isascii() and "\0" not in text else encode_modified_utf8(text)
        size = len(encoded)
        if size > MAX_UTF_BYTES:
            raise MetadataError(
                f"a string of {size} bytes ({text[:40]!r}...)", f"{MAX_UTF_BYTES} bytes at most", "shorten it"
            )
        self += USHORT.pack(size)
        self += encoded

    def key_group_range(self, key_groups: KeyGroupRange) -> None:
        """Write the start and the length of a range."""
        self += INT_PAIR.pack(key_groups.start, len(key_groups))


_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def encode_modified_utf8(text: str) -> bytes:
    """Return the bytes that `DataOutput.writeUTF` writes after the length."""
    halves = _BEYOND_BMP.sub(lambda found: _split(ord(found[0])), text)
    return halves.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode_modified_utf8(encoded: bytes) -> str:
    """Return the string of such bytes. Raises `UnicodeError` for invalid ones."""
    if max(encoded, default=0) >= 0xF0:
        raise UnicodeError("modified UTF-8 has no character of four bytes")
    halves = encoded.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return _SURROGATE_PAIR.sub(lambda found: _join(*map(ord, found[0])), halves)


def _split(code_point: int) -> str:
    above = code_point - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))


def _join(high: int, low: int) -> str:
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
