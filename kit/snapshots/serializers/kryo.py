"""Simple Java values that Kryo wrote: boxed numbers, strings, `java.time`, big numbers, collections of these.

A serializer's snapshot names the class, and not the version of Kryo. Flink 2 has Kryo 5, which is read here, and a
checkpoint of Flink 2 can be told by its metadata. Flink 1 has Kryo 2, which writes some numbers in another byte order:
its values stay bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.opaque import Decode
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.temporal import millis_text, moment_text, time_text
from kit.snapshots.serializers.types import Type

NULL, BY_NAME, FIRST_ID = 0, 1, 2
REGISTERED = ("Integer", "String", "Float", "Boolean", "Byte", "Character", "Short", "Long", "Double")
"""The classes that Kryo registers itself, by their ids."""
UUID_ID, DECLARED_ID = 82, 85
"""The ids under which Flink registers `java.util.UUID`, and the first of the classes that a snapshot lists: the class
of the values.
"""
WITHOUT_REFERENCE = frozenset(REGISTERED) - {"String"}
OFFSET_SECONDS = 127
MORE, WIDE, FLAG, LAST = 0x40, 0x80, 0x80, 0x80
LONGEST = 9
"""The most bytes of a number."""


class KryoValue(Type):
    """A value whose end is found by reading it: what is in it is simple, or else it is refused.

    Its column is text, unless its class is that of a number or of bytes. A collection is JSON.
    """

    def __init__(self, class_name: str, registered: Sequence[str], decoder: Decode | None = None) -> None:
        self.class_name, self.name, self.decoder = class_name, class_name, decoder
        self._registered = tuple(registered)
        self.arrow = pa.string() if decoder is not None else _COLUMNS.get(class_name, pa.string())

    def read(self, reader: Reader) -> Any:
        """Read a value. Raises CheckpointError for an object of another class inside."""
        inner = _Kryo(self._registered, reader.data, reader.at, reader.end)
        found = inner.value(self.class_name)
        held = reader.data[reader.at : inner.at]
        reader.at = inner.at
        return _plain(found, self.class_name) if self.decoder is None else self.decoder(held)

    def to_text(self, value: Any) -> Any:
        """Return what a decoder gave as text, as JSON if it is none."""
        return value if self.decoder is None or value is None or isinstance(value, str) else _json(value)


def is_simple(class_name: str) -> bool:
    """Return True if Kryo's values of a declared class are read here."""
    return class_name in KRYO_DECODERS


def _plain(value: Any, class_name: str) -> Any:
    """Return a value as its column has it."""
    if value is None or class_name in _COLUMNS or isinstance(value, str):
        return value
    return _json(value)


def _json(value: Any) -> str:
    def text_of(each: Any) -> str:
        return each.hex() if isinstance(each, bytes) else str(each)

    return json.dumps(value, default=text_of, ensure_ascii=False)


def decode_kryo(declared: str, held: bytes) -> Any:
    """Return the value in bytes that Kryo 5 wrote, as Flink's `KryoSerializer` for class `declared` does.

    Raises CheckpointError for another class inside, or for damaged bytes.
    """
    reader = _Kryo((declared,), held)
    found = reader.value(declared)
    if reader.left:
        raise reader.error(f"{reader.left} more bytes of a value", f"the end of a value of {declared}")
    return found


class _Kryo(Reader):
    """Kryo's input: its numbers are little-endian, and an object that occurs again is a reference to the first."""

    __slots__ = ("_names", "_objects", "_registered")

    def __init__(self, registered: Sequence[str], data: bytes, at: int = 0, end: int | None = None) -> None:
        super().__init__(data, at, end)
        self._registered, self._names, self._objects = registered, list[str](), list[Any]()

    def value(self, declared: str) -> Any:
        """Read a value as a serializer for this class writes it."""
        try:
            return self.any()
        except CheckpointError:
            raise
        except (ValueError, OverflowError) as error:  # a month of 13, say
            raise self.error(str(error), f"a value of {declared}") from None

    def any(self) -> Any:
        """Read a class, then an object of it."""
        name = self._class()
        return None if name is None else self._object(name)

    def _class(self) -> str | None:
        number = self.varint()
        if number == NULL:
            return None
        if number == BY_NAME:
            place = self.varint()
            if place == len(self._names):
                self._names.append(self.text() or "")
            if place >= len(self._names):
                raise self.error(f"name {place} of a class", f"one of the {len(self._names)} before")
            return self._names[place]
        number -= FIRST_ID
        if number < len(REGISTERED):
            return f"java.lang.{REGISTERED[number]}"
        if number == UUID_ID:
            return "java.util.UUID"
        if DECLARED_ID <= number < DECLARED_ID + len(self._registered):
            return self._registered[number - DECLARED_ID]
        raise self.error(f"class {number} of Kryo's", "a simple class of Java")

    def _object(self, name: str) -> Any:
        read = _READ.get(name)
        if read is None:
            raise CheckpointError(
                f"values of {name}, which Kryo wrote, cannot be read: only the class knows its fields; give a decoder"
            )
        if name.rpartition(".")[2] in WITHOUT_REFERENCE:
            return read(self)
        number = self.varint()
        if number == NULL:
            return None
        if number > 1:
            if number - 2 >= len(self._objects):
                raise self.error(f"object {number - 2}", f"one of the {len(self._objects)} before")
            return self._objects[number - 2]
        place = len(self._objects)
        self._objects.append(None)
        self.enter("a value of Kryo")
        found = read(self)
        self.leave()
        self._objects[place] = found
        return found

    def nullable(self, name: str) -> Any:
        """Read an object of a known class that may be null."""
        if name.rpartition(".")[2] in WITHOUT_REFERENCE and self.varint() == NULL:
            return None
        return self._object(name)

    def varlong(self) -> int:
        """Read an unsigned number of up to nine bytes; the ninth has eight bits of it."""
        found = 0
        for place in range(LONGEST):
            held = self.uint8()
            if place == LONGEST - 1 or held < WIDE:
                return found | held << 7 * place
            found |= (held & 0x7F) << 7 * place
        return found

    def zigzag(self) -> int:
        """Read a signed number of any size."""
        found = self.varlong()
        return found >> 1 ^ -(found & 1)

    def signed(self, bits: int) -> int:
        """Read a number that is mostly positive: a negative one has all its bits."""
        found = self.varlong()
        return found - (1 << bits) if found >> (bits - 1) else found

    def little(self, size: int) -> int:
        """Read a signed number of `size` bytes."""
        return int.from_bytes(self.take(size), "little", signed=True)

    def counted(self) -> int | None:
        """Read a number of items, which is stored with one added; None for 0, which is null."""
        found = self.varint() - 1
        if found > self.left:
            raise self.error(f"{found:,} items", f"at most {self.left:,}, for the bytes that are left")
        return None if found < 0 else found

    def flagged(self) -> tuple[bool, int]:
        """Read a flag and a number of six bits or more."""
        first = self.uint8()
        found = first & (MORE - 1)
        if first & MORE:
            found |= self.varint() << 6
        return first >= FLAG, found

    def text(self) -> str | None:
        """Read a string: its last byte is marked, or its number of UTF-16 units stands before it."""
        if self.left and self.data[self.at] < FLAG:
            start = self.at
            while self.uint8() < LAST:
                pass
            return bytes([*self.data[start : self.at - 1], self.data[self.at - 1] - LAST]).decode("ascii")
        _, many = self.flagged()
        if many == 0:
            return None
        if many - 1 > self.left:
            raise self.error(
                f"a string of {many - 1:,} characters", f"at most {self.left:,}, for the bytes that are left"
            )
        units = [self._unit() for _ in range(many - 1)]
        return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "backslashreplace")

    def _unit(self) -> int:
        first = self.uint8()
        if first < WIDE:
            return first
        if first >> 5 == 6:
            return (first & 0x1F) << 6 | self.uint8() & 0x3F
        return (first & 0x0F) << 12 | (self.uint8() & 0x3F) << 6 | self.uint8() & 0x3F


# --- collections ------------------------------------------------------------------------------------------------------


def _list(reader: _Kryo, *, is_sorted: bool = False) -> list[Any]:
    is_alike, many = reader.flagged()
    many -= 1
    if many > reader.left and not is_alike:
        raise reader.error(f"{many:,} elements", f"at most {reader.left:,}, for the bytes that are left")
    if is_sorted:
        _natural_order(reader)
    if many <= 0:
        return []
    if not is_alike:
        return [reader.any() for _ in range(many)]
    name = reader._class()
    if name is None:
        return [None] * min(many, len(reader.data))
    has_null = reader.boolean()
    if many > reader.left:
        raise reader.error(f"{many:,} elements", f"at most {reader.left:,}, for the bytes that are left")
    return [reader.nullable(name) if has_null else reader._object(name) for _ in range(many)]


def _map(reader: _Kryo, *, is_sorted: bool = False) -> list[tuple[Any, Any]]:
    many = reader.counted() or 0
    if is_sorted:
        _natural_order(reader)
    return [(reader.any(), reader.any()) for _ in range(many)]


def _natural_order(reader: _Kryo) -> None:
    if reader.varint() != NULL:
        raise reader.error("a comparator", "none, the natural order")


def _numbers(reader: _Kryo, read: Callable[[_Kryo], int]) -> list[int]:
    return [read(reader) for _ in range(reader.counted() or 0)]


# --- values -----------------------------------------------------------------------------------------------------------


def _float(reader: _Kryo, size: int) -> float:
    inner = Reader(reader.take(size)[::-1])
    return inner.float32() if size == 4 else inner.float64()


def _bytes(reader: _Kryo) -> bytes:
    return reader.take(reader.counted() or 0)


def _big_decimal(reader: _Kryo) -> str:
    unscaled = int.from_bytes(_bytes(reader), "big", signed=True)
    return str(Decimal(unscaled).scaleb(-reader.zigzag()))


def _duration(reader: _Kryo) -> str:
    seconds, nanos = reader.little(8), reader.varint()
    return f"PT{Decimal(seconds) + Decimal(nanos).scaleb(-9) if nanos else seconds}S"


def _date(reader: _Kryo) -> str:
    year, month, day = reader.signed(32), reader.uint8(), reader.uint8()
    return date(year, month, day).isoformat() if 0 < year <= 9999 else f"{year:+05}-{month:02}-{day:02}"


def _time(reader: _Kryo) -> str:
    """Read hour, minute, second and nanosecond; the last that is not zero is negated if more could follow."""
    found = []
    for _ in range(3):
        part = reader.int8()
        if part < 0:
            found.append(~part)
            break
        found.append(part)
    else:
        found.append(reader.varint())
    hour, minute, second, nanos = (*found, 0, 0, 0, 0)[:4]
    return time_text(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)


def _date_time(reader: _Kryo) -> str:
    return f"{_date(reader)}T{_time(reader)}"


def _offset(reader: _Kryo) -> str:
    quarters = reader.int8()
    seconds = reader.little(4) if quarters == OFFSET_SECONDS else quarters * 900
    hours, rest = divmod(abs(seconds), 3600)
    text = f"{'-' if seconds < 0 else '+'}{hours:02}:{rest // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")
    return text if seconds else "Z"


_READ: Mapping[str, Callable[[_Kryo], Any]] = {
    "java.lang.Integer": _Kryo.zigzag,
    "java.lang.Long": _Kryo.zigzag,
    "java.lang.Short": partial(_Kryo.little, size=2),
    "java.lang.Byte": _Kryo.int8,
    "java.lang.Boolean": _Kryo.boolean,
    "java.lang.Float": partial(_float, size=4),
    "java.lang.Double": partial(_float, size=8),
    "java.lang.Character": lambda reader: chr(reader.little(2) & 0xFFFF),
    "java.lang.String": _Kryo.text,
    "java.math.BigInteger": lambda reader: str(int.from_bytes(_bytes(reader), "big", signed=True)),
    "java.math.BigDecimal": _big_decimal,
    "java.util.UUID": lambda reader: str(UUID(int=(reader.little(8) % (1 << 64)) << 64 | reader.little(8) % (1 << 64))),
    "java.util.Date": lambda reader: millis_text(reader.signed(64)) + "Z",
    "java.util.Optional": _Kryo.any,
    "java.util.ArrayList": _list,
    "java.util.LinkedList": _list,
    "java.util.HashSet": _list,
    "java.util.LinkedHashSet": _list,
    "java.util.TreeSet": partial(_list, is_sorted=True),
    "java.util.HashMap": _map,
    "java.util.LinkedHashMap": _map,
    "java.util.TreeMap": partial(_map, is_sorted=True),
    "java.time.Duration": _duration,
    "java.time.Instant": lambda reader: moment_text(reader.signed(64), reader.varint()) + "Z",
    "java.time.LocalDate": _date,
    "java.time.LocalTime": _time,
    "java.time.LocalDateTime": _date_time,
    "java.time.OffsetDateTime": lambda reader: f"{_date_time(reader)}{_offset(reader)}",
    "java.time.ZonedDateTime": lambda reader: f"{_date_time(reader)}[{reader.text()}]",
    "java.time.ZoneOffset": _offset,
    "java.time.Year": lambda reader: reader.signed(32),
    "java.time.YearMonth": lambda reader: f"{reader.signed(32):04}-{reader.uint8():02}",
    "java.time.MonthDay": lambda reader: f"--{reader.uint8():02}-{reader.uint8():02}",
    "java.time.Period": lambda reader: f"P{reader.signed(32)}Y{reader.signed(32)}M{reader.signed(32)}D",
    "[B": _bytes,
    "[I": partial(_numbers, read=_Kryo.zigzag),
    "[J": partial(_numbers, read=_Kryo.zigzag),
}


_COLUMNS: Mapping[str, pa.DataType] = {
    "java.lang.Integer": pa.int32(),
    "java.lang.Long": pa.int64(),
    "java.lang.Short": pa.int16(),
    "java.lang.Byte": pa.int8(),
    "java.lang.Boolean": pa.bool_(),
    "java.lang.Float": pa.float32(),
    "java.lang.Double": pa.float64(),
    "java.time.Year": pa.int32(),
    "[B": pa.binary(),
}
"""The columns of classes whose values are no text."""

KRYO_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    name: partial(decode_kryo, name)
    for name in (*_READ, "java.lang.Object", "java.lang.Number", "java.util.List", "java.util.Map")
}
"""Decoders of simple classes, for `kit.open_checkpoint`, with collections as columns of their own types."""
