"""A cursor over bytes that Java's `DataOutput` wrote, with a check on every read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kit.core.metadata.primitives import decode_modified_utf8
from kit.core.state.errors import DamagedError

MAX_DEPTH = 64
"""The maximum nesting of serializer snapshots and of Java objects; Flink's own have a few levels."""

_BYTE, _UBYTE = struct.Struct(">b"), struct.Struct(">B")
_SHORT, _USHORT = struct.Struct(">h"), struct.Struct(">H")
_INT, _LONG = struct.Struct(">i"), struct.Struct(">q")
_FLOAT, _DOUBLE = struct.Struct(">f"), struct.Struct(">d")
MAX_VARINT_SHIFT = 63


@dataclass(frozen=True, slots=True)
class Decoders:
    """How values are read that only Java code can read.

    `given` are a user's decoders: by class name, the bytes of a value in, the value out. With `has_kryo_5`, Flink 2
    wrote the values.
    """

    given: Mapping[str, Callable[[bytes], Any]] = field(default_factory=dict)
    has_kryo_5: bool = False

    def get(self, class_name: str) -> Callable[[bytes], Any] | None:
        """Return the user's decoder for a class."""
        return self.given.get(class_name)


NO_DECODERS = Decoders()


class Reader:
    """Java's `DataInput` over bytes. Every read raises DamagedError if the bytes end too early.

    Serializer snapshots are read with its `decoders`.
    """

    __slots__ = ("at", "data", "decoders", "depth", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.depth = data, at, 0
        self.end = len(data) if end is None else end
        self.decoders = NO_DECODERS

    @property
    def left(self) -> int:
        """The number of bytes that have not been read."""
        return self.end - self.at

    def _unpack(self, form: struct.Struct) -> Any:
        at = self.at
        self.at = after = at + form.size
        if after > self.end:
            self.at = at
            raise self._ends(form.size)
        return form.unpack_from(self.data, at)[0]

    def _ends(self, size: int) -> DamagedError:
        found = f"found the end of the data after {self.left} bytes, expected {size}"
        return DamagedError(found, self.at, DamagedError.CUT_OFF)

    def error(self, found: object, expected: str) -> DamagedError:
        """Return an error at the current position."""
        return DamagedError(f"found {found}, expected {expected}", self.at)

    def int8(self) -> int:
        """Read a signed byte."""
        return self._unpack(_BYTE)

    def uint8(self) -> int:
        """Read an unsigned byte."""
        return self._unpack(_UBYTE)

    def int16(self) -> int:
        """Read a signed 16-bit number."""
        return self._unpack(_SHORT)

    def uint16(self) -> int:
        """Read an unsigned 16-bit number."""
        return self._unpack(_USHORT)

    def int32(self) -> int:
        """Read a signed 32-bit number."""
        return self._unpack(_INT)

    def int64(self) -> int:
        """Read a signed 64-bit number."""
        return self._unpack(_LONG)

    def float32(self) -> float:
        """Read a 32-bit floating-point number."""
        return self._unpack(_FLOAT)

    def float64(self) -> float:
        """Read a 64-bit floating-point number."""
        return self._unpack(_DOUBLE)

    def boolean(self) -> bool:
        """Read a truth value: any byte but 0 is true."""
        return self._unpack(_UBYTE) != 0

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        at = self.at
        if not 0 <= size <= self.end - at:
            raise self._ends(size) if size >= 0 else self.error(size, "a number of bytes")
        self.at = at + size
        return self.data[at : at + size]

    def rest(self) -> bytes:
        """Read all bytes that are left."""
        return self.take(self.left)

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""
        if not 0 <= size <= self.end - self.at:
            raise self._ends(size)
        self.at += size

    def utf(self) -> str:
        """Read a string that `writeUTF` wrote."""
        size = self.uint16()
        held = self.take(size)
        try:
            return held.decode("ascii") if held.isascii() else decode_modified_utf8(held)
        except UnicodeError:
            self.at -= size
            raise self.error(f"{size} bytes that are not modified UTF-8", "a string") from None

    def count(self, what: str, least: int = 1) -> int:
        """Read a 32-bit number of items of at least `least` bytes each, checked against the bytes left."""
        found = self.int32()
        if not 0 <= found * least <= self.left or found < 0:
            self.at -= 4
            raise self.error(
                f"{found:,} {what}", f"at most {self.left // max(least, 1):,}, for the bytes that are left"
            )
        return found

    def blob(self, what: str = "bytes") -> bytes:
        """Read bytes that follow their 32-bit number."""
        return self.take(self.count(what))

    def varint(self) -> int:
        """Read an unsigned number of seven bits a byte, the low ones first."""
        data, at, found, shift = self.data, self.at, 0, 0
        while at < self.end:
            held = data[at]
            at += 1
            found |= (held & 0x7F) << shift
            if held < 0x80:
                self.at = at
                return found
            shift += 7
            if shift > MAX_VARINT_SHIFT:
                raise self.error("a number of more than 64 bits", "a number of at most ten bytes")
        raise self._ends(at - self.at + 1)

    def expect(self, wanted: int, what: str) -> None:
        """Read a 32-bit number that must be `wanted`."""
        found = self.int32()
        if found != wanted:
            self.at -= 4
            raise self.error(found, f"{wanted}, the mark of {what}")

    def enter(self, what: str) -> None:
        """Enter a nested item. Raises CheckpointError below `MAX_DEPTH` levels."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"{what} nested {self.depth} levels deep", f"at most {MAX_DEPTH} levels")

    def leave(self) -> None:
        """Leave a nested item."""
        self.depth -= 1
