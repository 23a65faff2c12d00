"""Flink's basic types: numbers, strings, bytes, arrays of numbers, windows."""

from __future__ import annotations

import struct
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from typing import Any, Self

import numpy as np
import pyarrow as pa

from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Sequential, Struct, Type, bounded
from kit.snapshots.serializers.writing import Writer

Write = Callable[[Writer, Any], None]
_FORMS = {">i8": "q", ">i4": "i", ">i2": "h", ">i1": "b", ">f8": "d", ">f4": "f", "u1": "?"}
"""The forms of numpy and of `struct`."""


class Read(Type):
    """A type that one function reads, and another writes."""

    def __init__(
        self,
        name: str,
        read: Callable[[Reader], Any],
        arrow: pa.DataType,
        *,
        is_fixed: bool = False,
        write: Write,
    ) -> None:
        self.name, self.arrow, self.is_fixed = name, arrow, is_fixed
        self._read, self._write = read, write

    def read(self, reader: Reader) -> Any:
        return self._read(reader)

    def write(self, out: Writer, value: Any) -> None:
        self._write(out, value)

    def named(self, name: str) -> Self:
        """Return the type of another class whose values are stored alike, with a hash code of their own."""
        found = copy(self)
        found.name = name
        return found


class Number(Read):
    """A number of fixed size, or a truth value. `form` is its big-endian numpy layout."""

    def __init__(self, name: str, form: str, read: Callable[[Reader], Any], arrow: pa.DataType) -> None:
        packed = _FORMS[form]
        super().__init__(name, read, arrow, is_fixed=True, write=lambda out, value: out.packed(packed, value))
        self.dtype = np.dtype(form)

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        return pa.array(data != 0) if self.arrow == pa.bool_() else super().from_numpy(data)


def read_string(reader: Reader) -> str | None:
    """Read a string: its length + 1, 0 for null, then UTF-16 units, each as a number of seven bits a byte."""
    many = reader.varint()
    return None if many == 0 else _characters(reader, many - 1)


def _characters(reader: Reader, many: int) -> str:
    """Read UTF-16 units, each as a number of seven bits a byte."""
    if many > reader.left:
        raise reader.error(f"a string of {many:,} characters", f"at most {reader.left:,}, for the bytes that are left")
    head = reader.data[reader.at : reader.at + many]
    if head.isascii():
        reader.at += many
        return head.decode("ascii")
    units = [reader.varint() for _ in range(many)]
    if max(units) > 0xFFFF:
        raise reader.error("a character beyond 16 bits", "UTF-16 units")
    return struct.pack(f"<{many}H", *units).decode("utf-16-le", "surrogatepass")


def write_string(out: Writer, value: str | None) -> None:
    """Write a string as `read_string` reads it."""
    if value is None:
        out.varint(0)
        return
    _write_characters(out, value, 1)


def _write_characters(out: Writer, value: str, more: int) -> None:
    """Write the length, to which `more` is added, and the UTF-16 units."""
    if value.isascii():
        out.varint(len(value) + more)
        out += value.encode("ascii")
        return
    units = value.encode("utf-16-le", "surrogatepass")
    out.varint(len(units) // 2 + more)
    for (unit,) in struct.iter_unpack("<H", units):
        out.varint(unit)


def read_big_integer(reader: Reader) -> int | None:
    """Read a BigInteger: 0 is null, 1 to 3 stand for 0, 1 and 10, else the length + 4 and the bytes."""
    head = reader.int32()
    if 0 <= head < 4:
        return _SHORT_BIG[head]
    return int.from_bytes(reader.take(head - 4), "big", signed=True)


def write_big_integer(out: Writer, value: int | None) -> None:
    """Write a BigInteger as `read_big_integer` reads it."""
    if value in _SHORT_BIG:
        out.int32(_SHORT_BIG.index(value))
        return
    assert value is not None
    held = signed_bytes(value)
    out.int32(len(held) + 4)
    out += held


def signed_bytes(value: int) -> bytes:
    """Return an integer in two's complement, in as few bytes as hold it, as `BigInteger.toByteArray` does."""
    size = (value.bit_length() if value >= 0 else (value + 1).bit_length()) // 8 + 1
    return value.to_bytes(size, "big", signed=True)


_SHORT_BIG = (None, 0, 1, 10)


def _write_big_text(out: Writer, value: str | None) -> None:
    write_big_integer(out, None if value is None else int(Decimal(value)) if "x" not in value else int(value, 16))


def _write_big_decimal(out: Writer, value: str | None) -> None:
    if value is None:
        write_big_integer(out, None)
        return
    sign, digits, exponent = Decimal(value).as_tuple()
    unscaled = int(Decimal((sign, digits, 0)))
    write_big_integer(out, unscaled)
    out.int32(-int(exponent))


def _big_integer(reader: Reader) -> str | None:
    found = read_big_integer(reader)
    return None if found is None else big_text(found)


def _big_decimal(reader: Reader) -> str | None:
    unscaled = read_big_integer(reader)
    if unscaled is None:
        return None
    return str(Decimal((int(unscaled < 0), digits_of(unscaled), -reader.int32())))


def big_text(number: int) -> str:
    """Return an integer of any length as text; Python's own `str` refuses more than 4,300 digits."""
    return str(Decimal(number)) if abs(number) < 1 << 12_000 else hex(number)


def digits_of(number: int) -> tuple[int, ...]:
    """Return the decimal digits of an integer's absolute value."""
    return Decimal(abs(number)).as_tuple().digits


class Numbers(Type):
    """An array of numbers of fixed size."""

    def __init__(self, element: Number) -> None:
        self.name, self.parts = f"{element.name.lower().removesuffix('eger')}[]", (element,)
        self._form = element.dtype
        self.arrow = pa.list_(element.arrow)
        self._is_bool = element.arrow == pa.bool_()

    def read(self, reader: Reader) -> list[Any]:
        assert self._form is not None
        many = reader.count("elements", self._form.itemsize)
        held = np.frombuffer(reader.take(many * self._form.itemsize), self._form)
        return (held != 0 if self._is_bool else held).tolist()

    def write(self, out: Writer, value: list[Any]) -> None:
        out.int32(len(value))
        out += np.array(value, self._form).tobytes()


class Characters(Type):
    """An array of 16-bit characters."""

    name, arrow = "char[]", pa.string()

    def read(self, reader: Reader) -> str:
        return reader.take(2 * reader.count("characters", 2)).decode("utf-16-be", "surrogatepass")

    def write(self, out: Writer, value: str) -> None:
        units = value.encode("utf-16-be", "surrogatepass")
        out.int32(len(units) // 2)
        out += units


class VoidNamespace(Type):
    """The namespace of state without one: a byte, of which Flink says that it has no length."""

    name, arrow, is_fixed = "VoidNamespace", pa.null(), True
    dtype = np.dtype("u1")

    def read(self, reader: Reader) -> None:
        found = reader.uint8()
        if found:
            raise reader.error(f"byte {found}", "0, the namespace of state without one")

    def write(self, out: Writer, value: None) -> None:
        out.append(0)

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        return pa.nulls(len(data))


class Enumeration(Type):
    """A value of an enum: its place in the list of names that the snapshot has."""

    is_fixed, arrow = True, pa.string()

    def __init__(self, name: str, values: tuple[str, ...]) -> None:
        self.name, self.values = name, values
        self.dtype = np.dtype(">i4")

    def read(self, reader: Reader) -> str:
        place = reader.int32()
        if not 0 <= place < len(self.values):
            raise reader.error(f"value {place} of enum {self.name}", f"0 to {len(self.values) - 1}")
        return self.values[place]

    def write(self, out: Writer, value: str) -> None:
        out.int32(self.values.index(value))

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        return pa.array(self.values, pa.string()).take(super().from_numpy(data))


class BitSet(Type):
    """A set of bits as longs, as Flink's Java serializers write them."""

    name, arrow = "BitSet", pa.list_(pa.int64())

    def read(self, reader: Reader) -> list[int]:
        return [reader.int64() for _ in bounded(reader, reader.count("words", 8))]

    def write(self, out: Writer, value: list[int]) -> None:
        out.int32(len(value))
        for word in value:
            out.int64(word)


def _variant(reader: Reader) -> tuple[bytes, bytes]:
    value, metadata = (reader.count("bytes of a variant") for _ in range(2))
    return reader.take(value), reader.take(metadata)


def _write_variant(out: Writer, value: tuple[bytes, bytes]) -> None:
    for each in value:
        out.int32(len(each))
    out += value[0] + value[1]


LONG = Number("Long", ">i8", Reader.int64, pa.int64())
INTEGER = Number("Integer", ">i4", Reader.int32, pa.int32())
SHORT = Number("Short", ">i2", Reader.int16, pa.int16())
BYTE = Number("Byte", ">i1", Reader.int8, pa.int8())
DOUBLE = Number("Double", ">f8", Reader.float64, pa.float64())
FLOAT = Number("Float", ">f4", Reader.float32, pa.float32())
BOOLEAN = Number("Boolean", "u1", Reader.boolean, pa.bool_())
STRING = Read("String", read_string, pa.string(), write=write_string)
CHARACTER = Read(
    "Character",
    lambda reader: chr(reader.uint16()),
    pa.string(),
    is_fixed=True,
    write=lambda out, value: out.packed("H", ord(value)),
)
STRING_VALUE = Read(  # it is never null, so nothing is added to its length
    "StringValue",
    lambda reader: _characters(reader, reader.varint()),
    pa.string(),
    write=lambda out, value: _write_characters(out, value, 0),
)
VOID = Read("Void", lambda reader: reader.skip(1), pa.null(), is_fixed=True, write=lambda out, _: out.append(0))
NULL = Read("Null", lambda _: None, pa.null(), is_fixed=True, write=lambda out, _: None)
BYTES = Read("byte[]", Reader.blob, pa.binary(), write=Writer.blob)
TIME_WINDOW = Struct("TimeWindow", (("start", LONG), ("end", LONG)))
"""A window from `start` up to `end`, in ms."""
COUNT_WINDOW = Struct("CountWindow", (("id", LONG),))
VOID_NAMESPACE = VoidNamespace()
SORTED_LONG = Read(  # with the sign bit flipped, so that bytes sort as numbers do
    "Long",
    lambda reader: reader.int64() ^ -(1 << 63),
    pa.int64(),
    is_fixed=True,
    write=lambda out, value: out.int64(value ^ -(1 << 63)),
)

VARIANT = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
"""A variant in its binary encoding, which Spark and Parquet share."""
BASIC: dict[str, Type] = {
    "LongSerializer": LONG,
    "LongValueSerializer": LONG.named("LongValue"),
    "IntSerializer": INTEGER,
    "IntValueSerializer": INTEGER.named("IntValue"),
    "ShortSerializer": SHORT,
    "ShortValueSerializer": SHORT.named("ShortValue"),
    "ByteSerializer": BYTE,
    "ByteValueSerializer": BYTE.named("ByteValue"),
    "DoubleSerializer": DOUBLE,
    "DoubleValueSerializer": DOUBLE.named("DoubleValue"),
    "FloatSerializer": FLOAT,
    "FloatValueSerializer": FLOAT.named("FloatValue"),
    "BooleanSerializer": BOOLEAN,
    "BooleanValueSerializer": BOOLEAN.named("BooleanValue"),
    "CharSerializer": CHARACTER,
    "CharValueSerializer": CHARACTER.named("CharValue"),
    "StringSerializer": STRING,
    "StringValueSerializer": STRING_VALUE,
    "BigIntSerializer": Read("BigInteger", _big_integer, pa.string(), write=_write_big_text),
    "BigDecSerializer": Read("BigDecimal", _big_decimal, pa.string(), write=_write_big_decimal),
    "VoidSerializer": VOID,
    "Tuple0Serializer": VOID,
    "NullValueSerializer": NULL,
    "BytePrimitiveArraySerializer": BYTES,
    "LongPrimitiveArraySerializer": Numbers(LONG),
    "IntPrimitiveArraySerializer": Numbers(INTEGER),
    "ShortPrimitiveArraySerializer": Numbers(SHORT),
    "DoublePrimitiveArraySerializer": Numbers(DOUBLE),
    "FloatPrimitiveArraySerializer": Numbers(FLOAT),
    "BooleanPrimitiveArraySerializer": Numbers(BOOLEAN),
    "CharPrimitiveArraySerializer": Characters(),
    "StringArraySerializer": Sequential("String[]", STRING),
    "VoidNamespaceSerializer": VOID_NAMESPACE,
    "TimeWindow": TIME_WINDOW,
    "CountWindow": COUNT_WINDOW,
    "GlobalWindow": VOID.named("GlobalWindow"),
    "NullSerializer": Read("Null", VOID.read, pa.null(), write=VOID.write),
    "SortedLongSerializer": SORTED_LONG,
    "VariantSerializer": Read("Variant", _variant, VARIANT, write=_write_variant),
    "BitmapSerializer": BYTES,
}
"""By the class of the serializer, without its package: it holds the class of its snapshot."""
