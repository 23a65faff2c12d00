"""The bytes that Java's `DataOutput` writes: the inverse of `reading.Reader`."""

from __future__ import annotations

import struct

from kit.core.metadata.primitives import DataOutput
from kit.core.state.errors import CheckpointError


class Writer(DataOutput):
    """A growing byte array. A number that does not fit its field raises `struct.error`."""

    __slots__ = ()

    def packed(self, form: str, value: float) -> None:
        """Write a number in a big-endian form of `struct`."""
        self += struct.pack(f">{form}", value)

    def boolean(self, value: bool) -> None:
        """Write a truth value."""
        self.append(bool(value))

    def varint(self, value: int) -> None:
        """Write an unsigned number of seven bits a byte, the low ones first."""
        while value >= 0x80:
            self.append(value & 0x7F | 0x80)
            value >>= 7
        self.append(value)


def not_written(name: str) -> CheckpointError:
    """Return the error for a type whose values cannot be encoded here."""
    return CheckpointError(f"values of type {name} are decoded here but not encoded: leave them as they are")
