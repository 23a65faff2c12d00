"""Values of the Table API and SQL: `RowData` and what is in it, in Flink's binary layout.

A binary row has, little-endian: a byte for its kind, bits for its nulls, eight bytes for each field, and behind these
the values that need more, to which the eight bytes point. Arrays are alike, with elements of their own size.

Flink: `BinaryRowData`, `BinaryArrayData`, `BinaryMapData`, and the writers of these.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.serializers.basic import digits_of, signed_bytes
from kit.snapshots.serializers.composite import ROW_KINDS, KindedRow
from kit.snapshots.serializers.java_objects import JavaObject
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.temporal import (
    COMPACT_TIMESTAMP,
    SQL_DATE,
    SQL_TIME,
    millis_and_nanos,
    sql_moment,
    sql_timestamp,
)
from kit.snapshots.serializers.types import Like, Mapping, Plain, Sequential, Type
from kit.snapshots.serializers.writing import Writer

COMPACT_DECIMAL = 18
DECIMAL_BYTES = 16
"""The bytes that a decimal of more than 18 digits takes in a binary row, whatever its value."""
MOST_DECIMAL_DIGITS = 76
_LONG = struct.Struct("<q")
_INT = struct.Struct("<i")

Get = Callable[[bytes, int, int], Any]
"""Read one field of a binary row or array: its bytes, where the row begins in them, and where the field is."""
Put = Callable[[bytearray, int, Any], None]
"""Write one field of a binary row or array: its bytes so far, where the field is in them, and the value."""


class SqlType(Like):
    """A logical type: how it is read from a binary row and written to one, and its size in a binary array.

    Its column is that of a type `like` it, or a plain one of an Arrow type.
    """

    def __init__(self, name: str, like: Type | pa.DataType, get: Get, put: Put, size: int = 8) -> None:
        super().__init__(name, like if isinstance(like, Type) else Plain(name, like))
        self.get, self.put, self.size, self.parts = get, put, size, self.like.parts


def _unpack(form: struct.Struct, data: bytes, at: int) -> Any:
    try:
        return form.unpack_from(data, at)[0]
    except struct.error:
        problem = f"found the end of a binary row after {len(data)} bytes, expected {form.size} from here on"
        raise DamagedError(problem, at) from None


def _part(data: bytes, base: int, place: int) -> bytes:
    """Return the bytes of a field: in it if they are seven at most, else where it points to."""
    held = _unpack(_LONG, data, place)
    if held < 0:
        size = held >> 56 & 0x7F
        if size > 7:
            raise DamagedError(f"found a field of a binary row with {size} bytes in itself, expected at most 7", place)
        return data[place : place + size]
    return _far(data, base, held)


def _far(data: bytes, base: int, held: int) -> bytes:
    start, size = base + (held >> 32), held & 0xFFFFFFFF
    if not 0 <= start <= start + size <= len(data):
        place = f"bytes {start} to {start + size}"
        raise DamagedError(
            f"found a field at {place} of a binary row of {len(data)} bytes, expected one inside the row"
        )
    return data[start : start + size]


def _put_part(out: bytearray, place: int, held: bytes) -> None:
    """Write the bytes of a field into it if they are seven at most, else behind the row."""
    if len(held) > 7:
        _put_far(out, place, held)
    else:
        out[place : place + 8] = held.ljust(7, b"\0") + bytes([0x80 | len(held)])


def _put_far(out: bytearray, place: int, held: bytes, room: int = 0) -> None:
    """Write the bytes of a field behind the row, in words of eight bytes, at least `room` of them."""
    _LONG.pack_into(out, place, len(out) << 32 | len(held))
    out += held.ljust(max(room, _whole_words(len(held))), b"\0")


def _whole_words(size: int) -> int:
    """Return the bytes of the words of eight bytes that this many bytes take."""
    return (size + 7) // 8 * 8


def number(name: str, form: str, like: Type | pa.DataType) -> SqlType:
    """Return a type of numbers of fixed size."""
    layout = struct.Struct(form)
    return SqlType(name, like, lambda data, base, place: _unpack(layout, data, place), layout.pack_into, layout.size)


def decimal_type(precision: int, scale: int) -> SqlType:
    """Return DECIMAL."""
    if not 0 <= scale <= precision <= MOST_DECIMAL_DIGITS or precision < 1:
        raise DamagedError(f"found DECIMAL({precision}, {scale}), expected a precision of 1 to {MOST_DECIMAL_DIGITS}")
    compact = precision <= COMPACT_DECIMAL

    def get(data: bytes, base: int, place: int) -> Decimal:
        held = _unpack(_LONG, data, place)
        return as_decimal(held if compact else int.from_bytes(_far(data, base, held), "big", signed=True), scale)

    def put(out: bytearray, place: int, value: Decimal) -> None:
        unscaled = unscaled_value(value, precision, scale)
        if compact:
            _LONG.pack_into(out, place, unscaled)
        else:
            _put_far(out, place, signed_bytes(unscaled), DECIMAL_BYTES)

    return SqlType(f"DECIMAL({precision}, {scale})", decimal_arrow(precision, scale), get, put)


def decimal_arrow(precision: int, scale: int) -> pa.DataType:
    """Return Arrow's type of decimals."""
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def as_decimal(unscaled: int, scale: int) -> Decimal:
    """Return a decimal from its unscaled value."""
    return Decimal((int(unscaled < 0), digits_of(unscaled), -scale))


def unscaled_value(value: Decimal, precision: int, scale: int) -> int:
    """Return the unscaled value of a decimal. Raises ValueError if it has more digits than the type."""
    sign, digits, exponent = value.as_tuple()
    more = int(exponent) + scale if isinstance(exponent, int) else -1
    unscaled = int("".join(map(str, digits))) * 10 ** max(more, 0)
    if more < 0 or unscaled >= 10**precision:
        raise ValueError(f"it has other digits than a decimal of precision {precision} and scale {scale}")
    return -unscaled if sign else unscaled


def timestamp_type(name: str, precision: int, *, is_local: bool) -> SqlType:
    """Return TIMESTAMP or TIMESTAMP_LTZ."""

    def get(data: bytes, base: int, place: int) -> int:
        held = _unpack(_LONG, data, place)
        if precision <= COMPACT_TIMESTAMP:
            return sql_moment(held, 0)
        return sql_moment(_unpack(_LONG, data, base + (held >> 32)), held & 0xFFFFFFFF)

    def put(out: bytearray, place: int, value: int) -> None:
        millis, nanos = millis_and_nanos(value, precision)
        if precision <= COMPACT_TIMESTAMP:
            _LONG.pack_into(out, place, millis)
            return
        _LONG.pack_into(out, place, len(out) << 32 | nanos)
        out += _LONG.pack(millis)

    return SqlType(name, sql_timestamp(name, precision, is_local=is_local), get, put)


# --- rows, arrays, maps -----------------------------------------------------------------------------------------------


class BinaryRow(KindedRow):
    """The layout of a binary row, without its length."""

    def __init__(self, name: str, fields: Sequence[tuple[str, SqlType]], *, has_kind: bool) -> None:
        super().__init__(name, fields, has_kind=has_kind)
        self.sql_parts = tuple(part for _, part in fields)
        self._fixed = (len(fields) + 63 + 8) // 64 * 8

    def decode(self, data: bytes) -> Any:
        """Return the fields of a row that is these bytes."""
        if len(data) < self._fixed + 8 * len(self.parts):
            raise DamagedError(f"found a binary row of {len(data)} bytes, expected enough for {len(self.parts)} fields")
        fields: list[Any] = []
        for place, part in enumerate(self.sql_parts):
            bit = place + 8
            is_null = data[bit // 8] >> (bit % 8) & 1
            fields.append(None if is_null else part.get(data, 0, self._fixed + 8 * place))
        if not self.has_kind:
            return tuple(fields)
        if data[0] >= len(ROW_KINDS):
            raise DamagedError(f"found a binary row of kind {data[0]}, expected 0 to 3")
        return (ROW_KINDS[data[0]], *fields)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a row of these fields."""
        kind, *fields = value if self.has_kind else (ROW_KINDS[0], *value)
        out = bytearray(self._fixed + 8 * len(self.parts))
        out[0] = ROW_KINDS.index(kind)
        for place, (part, each) in enumerate(zip(self.sql_parts, fields, strict=True)):
            if each is None:
                out[(place + 8) // 8] |= 1 << place % 8
            else:
                part.put(out, self._fixed + 8 * place, each)
        return bytes(out)


class RowData(BinaryRow):
    """A row of SQL, as `RowDataSerializer` writes it: its length, then the binary row. Its fields are f0, f1, ..."""

    def __init__(self, types: Sequence[SqlType]) -> None:
        name = f"RowData<{', '.join(part.name for part in types)}>"
        super().__init__(name, [(f"f{place}", part) for place, part in enumerate(types)], has_kind=True)

    def read(self, reader: Reader) -> Any:
        held = reader.blob("bytes of a row")
        try:
            return self.decode(held)
        except DamagedError as error:
            raise error.moved(reader.at - len(held)) from error

    def write(self, out: Writer, value: Any) -> None:
        out.blob(self.encode(value))


def array_values(data: bytes, element: SqlType) -> list[Any]:
    """Return the elements of a binary array that is these bytes."""
    many = _unpack(_INT, data, 0)
    first = 4 + (many + 31) // 32 * 4
    if not 0 <= many <= 8 * len(data) or first + many * element.size > len(data):
        raise DamagedError(f"found {many:,} elements in a binary array of {len(data)} bytes, expected fewer")
    nulls = int.from_bytes(data[4:first], "little")
    return [None if nulls >> place & 1 else element.get(data, 0, first + place * element.size) for place in range(many)]


def array_bytes(values: Sequence[Any], element: SqlType) -> bytes:
    """Return the bytes of a binary array of these elements."""
    first = 4 + (len(values) + 31) // 32 * 4
    out = bytearray(_whole_words(first + len(values) * element.size))
    _INT.pack_into(out, 0, len(values))
    for place, each in enumerate(values):
        if each is None:
            out[4 + place // 8] |= 1 << place % 8
        else:
            element.put(out, first + place * element.size, each)
    return bytes(out)


def map_values(data: bytes, key: SqlType, value: SqlType) -> list[tuple[Any, Any]]:
    """Return the entries of a binary map that is these bytes."""
    size = _unpack(_INT, data, 0)
    if not 0 <= size <= len(data) - 4:
        raise DamagedError(f"found a binary map of {len(data)} bytes whose keys take {size:,}, expected fewer")
    keys, values = array_values(data[4 : 4 + size], key), array_values(data[4 + size :], value)
    if len(keys) != len(values):
        raise DamagedError(f"found a binary map with {len(keys)} keys and {len(values)} values, expected as many")
    return list(zip(keys, values, strict=True))


def map_bytes(entries: Sequence[tuple[Any, Any]], key: SqlType, value: SqlType) -> bytes:
    """Return the bytes of a binary map of these entries."""
    keys = array_bytes([each for each, _ in entries], key)
    return _INT.pack(len(keys)) + keys + array_bytes([each for _, each in entries], value)


def array_type(element: SqlType) -> SqlType:
    """Return ARRAY."""
    name = f"ARRAY<{element.name}>"
    return SqlType(
        name,
        Sequential(name, element),
        lambda data, base, place: array_values(_part(data, base, place), element),
        lambda out, place, values: _put_far(out, place, array_bytes(values, element)),
    )


def map_type(key: SqlType, value: SqlType, name: str = "MAP") -> SqlType:
    """Return MAP."""
    name = f"{name}<{key.name}, {value.name}>"
    return SqlType(
        name,
        Mapping(name, key, value),
        lambda data, base, place: map_values(_part(data, base, place), key, value),
        lambda out, place, entries: _put_far(out, place, map_bytes(entries, key, value)),
    )


def row_type(fields: Sequence[tuple[str, SqlType]]) -> SqlType:
    """Return ROW, whose fields have names."""
    name = f"ROW<{', '.join(f'{name} {part.name}' for name, part in fields)}>"
    inner = BinaryRow(name, fields, has_kind=False)
    return SqlType(
        name,
        inner,
        lambda data, base, place: inner.decode(_part(data, base, place)),
        lambda out, place, value: _put_far(out, place, inner.encode(value)),
    )


# --- logical types, as Java wrote them --------------------------------------------------------------------------------


BINARY = SqlType("BYTES", pa.binary(), _part, _put_part)
VARCHAR = SqlType(
    "STRING",
    pa.string(),
    lambda data, base, place: _utf8(_part(data, base, place)),
    lambda out, place, text: _put_part(out, place, text.encode()),
)


def _in_java(name: str) -> SqlType:
    """Return a type whose values only Java code reads: bytes, which are always behind the row."""
    return SqlType(name, pa.binary(), _part, _put_far)


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _put_nothing(out: bytearray, place: int, value: None) -> None:
    raise ValueError(f"{value!r}, but NULL has no values")


NUMBERS = {
    "BooleanType": number("BOOLEAN", "<?", pa.bool_()),
    "TinyIntType": number("TINYINT", "<b", pa.int8()),
    "SmallIntType": number("SMALLINT", "<h", pa.int16()),
    "IntType": number("INT", "<i", pa.int32()),
    "BigIntType": number("BIGINT", "<q", pa.int64()),
    "FloatType": number("FLOAT", "<f", pa.float32()),
    "DoubleType": number("DOUBLE", "<d", pa.float64()),
    "YearMonthIntervalType": number("INTERVAL YEAR TO MONTH", "<i", pa.int32()),
    "DayTimeIntervalType": number("INTERVAL DAY TO SECOND", "<q", pa.int64()),
    "DateType": number("DATE", "<i", SQL_DATE),
    "TimeType": number("TIME", "<i", SQL_TIME),
    "CharType": VARCHAR,
    "VarCharType": VARCHAR,
    "BinaryType": BINARY,
    "VarBinaryType": BINARY,
    "RawType": _in_java("RAW"),
    "TypeInformationRawType": _in_java("RAW"),
    "LegacyTypeInformationType": _in_java("RAW"),
    "VariantType": _in_java("VARIANT"),
    "BitmapType": _in_java("BITMAP"),
    "NullType": SqlType("NULL", pa.null(), lambda data, base, place: None, _put_nothing),
}


def logical_type(serialized: Any) -> SqlType:
    """Return the type that a serialized `LogicalType` describes. Raises CheckpointError."""
    if not isinstance(serialized, JavaObject):
        raise DamagedError(f"found {serialized!r}, expected a logical type of SQL")
    name, fields = serialized.short_name, serialized.fields
    if name in NUMBERS:
        return NUMBERS[name]
    if name == "DecimalType":
        return decimal_type(fields["precision"], fields["scale"])
    if name in ("TimestampType", "LocalZonedTimestampType"):
        is_local = name != "TimestampType"
        label = "TIMESTAMP_LTZ" if is_local else "TIMESTAMP"
        return timestamp_type(f"{label}({fields['precision']})", fields["precision"], is_local=is_local)
    if name == "ArrayType":
        return array_type(logical_type(fields["elementType"]))
    if name == "MapType":
        return map_type(logical_type(fields["keyType"]), logical_type(fields["valueType"]))
    if name == "MultisetType":
        return map_type(logical_type(fields["elementType"]), NUMBERS["IntType"], "MULTISET")
    if name == "DistinctType":
        return logical_type(fields["sourceType"])
    if name in ("RowType", "StructuredType"):
        listed = java_list(fields["fields" if name == "RowType" else "attributes"])
        return row_type([(each.fields["name"], logical_type(each.fields["type"])) for each in listed])
    raise CheckpointError(f"the SQL type {name} is not decoded here")


def java_list(serialized: Any) -> list[JavaObject]:
    """Return the elements of a serialized `java.util.List`."""
    for _ in range(4):
        if isinstance(serialized, list):
            return serialized
        if not isinstance(serialized, JavaObject):
            break
        for name in ("list", "c", "a"):
            if name in serialized.fields:
                serialized = serialized.fields[name]
                break
        else:
            return [each for each in serialized.added if not isinstance(each, bytes)]
    raise DamagedError(f"found {serialized!r}, expected a list")


# --- the serializers of single values ---------------------------------------------------------------------------------


class Framed(Like):
    """A value after its length, decoded from its bytes alone, and encoded into them."""

    def __init__(self, like: Type, decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]) -> None:
        super().__init__(like.name, like)
        self._decode, self._encode, self.parts = decode, encode, like.parts

    def read(self, reader: Reader) -> Any:
        return self._decode(reader.blob("bytes of a value"))

    def write(self, out: Writer, value: Any) -> None:
        out.blob(self._encode(value))


class DecimalData(Type):
    """A decimal: its unscaled value in 64 bits, or with more than 18 digits as bytes after their number."""

    def __init__(self, precision: int, scale: int) -> None:
        like = decimal_type(precision, scale)
        self.name, self.arrow = like.name, like.arrow
        self._precision, self._scale, self.is_fixed = precision, scale, precision <= COMPACT_DECIMAL

    def read(self, reader: Reader) -> Decimal:
        unscaled = reader.int64() if self.is_fixed else int.from_bytes(reader.blob(), "big", signed=True)
        return as_decimal(unscaled, self._scale)

    def write(self, out: Writer, value: Decimal) -> None:
        unscaled = unscaled_value(value, self._precision, self._scale)
        if self.is_fixed:
            out.int64(unscaled)
        else:
            out.blob(signed_bytes(unscaled))


STRING_DATA = Framed(VARCHAR, _utf8, str.encode)
RAW_DATA = Framed(BINARY, bytes, bytes)
