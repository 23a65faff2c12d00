"""Avro values, as Flink's `AvroSerializer` writes them: numbers big-endian and of fixed size, unlike Avro's own files.

The schema is in the serializer's snapshot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kit.core.state.errors import DamagedError
from kit.snapshots.serializers.basic import BOOLEAN, DOUBLE, FLOAT, INTEGER, LONG, NULL, Enumeration, Read, signed_bytes
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.reading import MAX_DEPTH, Reader
from kit.snapshots.serializers.table import MOST_DECIMAL_DIGITS, as_decimal, decimal_arrow, unscaled_value
from kit.snapshots.serializers.temporal import NANOS, SQL_DATE, SQL_TIME, Temporal, date_text, moment_text, time_text
from kit.snapshots.serializers.types import Mapping, Sequential, Struct, Type, bounded, opaque_inside, with_nulls
from kit.snapshots.serializers.writing import Writer


def avro_type(text: str) -> Type:
    """Return the type that an Avro schema describes. Raises CheckpointError if the text is not a schema."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"found an Avro schema that is not JSON: {error}") from None
    return _Schema().type(schema, 0)


def _text(reader: Reader) -> str:
    return reader.blob("bytes of a string").decode("utf-8", "backslashreplace")


def _write_text(out: Writer, value: str) -> None:
    out.blob(value.encode())


def _moment(name: str, unit: str, *, is_local: bool) -> Temporal:
    """Return the type of a moment in a unit of which `_PER_SECOND` says how many a second has."""
    per_second, zone, mark = _PER_SECOND[unit], None if is_local else "UTC", "" if is_local else "Z"

    def as_text(count: int) -> str:
        seconds, rest = divmod(count, per_second)
        return moment_text(seconds, rest * (NANOS // per_second)) + mark

    return Temporal(name, pa.timestamp(unit, zone), Reader.int64, as_text, Writer.int64)


_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": NANOS}


_STRING = Read("string", _text, pa.string(), write=_write_text)
_PRIMITIVES: MappingOf[str, Type] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": Read("bytes", Reader.blob, pa.binary(), write=Writer.blob),
    "string": _STRING,
}
_LOGICAL: MappingOf[tuple[str, str], Type] = {
    ("int", "date"): Temporal("date", SQL_DATE.arrow, Reader.int32, date_text, Writer.int32),
    ("int", "time-millis"): Temporal(
        "time-millis", SQL_TIME.arrow, Reader.int32, lambda it: time_text(it * 1_000_000), Writer.int32
    ),
    ("long", "time-micros"): Temporal(
        "time-micros", pa.time64("us"), Reader.int64, lambda it: time_text(it * 1000), Writer.int64
    ),
    **{
        ("long", f"{prefix}timestamp-{name}"): _moment(f"{prefix}timestamp-{name}", unit, is_local=bool(prefix))
        for prefix in ("", "local-")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
    },
}


class _Array(Sequential):
    """An Avro array: blocks of items, each after their number, up to a block of none."""

    def read(self, reader: Reader) -> Any:
        return [self.parts[0].read(reader) for _ in _places(reader)]

    def write(self, out: Writer, value: Any) -> None:
        for each in _in_a_block(out, value):
            self.parts[0].write(out, each)


class _Map(Mapping):
    """An Avro map: blocks of names and values, like those of an array."""

    def read(self, reader: Reader) -> Any:
        return [(_text(reader), self.parts[1].read(reader)) for _ in _places(reader)]

    def write(self, out: Writer, value: Any) -> None:
        for name, each in _in_a_block(out, value):
            _write_text(out, name)
            self.parts[1].write(out, each)


def _places(reader: Reader) -> Iterator[int]:
    """Yield once for each item, which is then read."""
    while many := reader.varint():
        yield from bounded(reader, many)


def _in_a_block(out: Writer, items: Sequence[Any]) -> Iterator[Any]:
    """Yield items, which are then written, all in one block."""
    if items:
        out.varint(len(items))
    yield from items
    out.append(0)


class _Union(Type):
    """One of several types: with null and one other that type, else a struct in which one field is set.

    A field has the type's place and name, `2_string`.
    """

    def __init__(self, parts: Sequence[Type], names: Sequence[str]) -> None:
        self.parts, self.is_opaque = tuple(parts), opaque_inside(parts)
        self._names = [f"{place}_{name}" for place, name in enumerate(names)]
        named = zip(self._names, parts, strict=True)
        self._real = [(name, part) for name, part in named if part is not NULL]
        self._single = self._real[0][1] if len(self._real) == 1 else None
        self.name = " | ".join(part.name for part in parts)
        self.arrow = self._made([(name, part.arrow) for name, part in self._real])

    def _made(self, fields: list[tuple[str, pa.DataType]]) -> pa.DataType:
        return fields[0][1] if self._single is not None else pa.struct(fields)

    def read(self, reader: Reader) -> Any:
        place = reader.int32()
        if not 0 <= place < len(self.parts):
            raise reader.error(f"branch {place} of a union", f"0 to {len(self.parts) - 1}")
        part = self.parts[place]
        found = part.read(reader)
        return found if part is NULL or self._single is not None else {self._names[place]: found}

    def write(self, out: Writer, value: Any) -> None:
        place, held = self._branch(value)
        out.int32(place)
        self.parts[place].write(out, held)

    def _branch(self, value: Any) -> tuple[int, Any]:
        """Return the place of a value's type, and the value alone. Raises ValueError unless it is of one type."""
        if self._single is not None and value is not None:
            return self.parts.index(self._single), value
        held = [] if value is None else [(name, each) for name, each in value.items() if each is not None]
        if len(held) > 1:
            raise ValueError(f"{' and '.join(name for name, _ in held)} are set, but a union has one value")
        if held:
            return self._names.index(held[0][0]), held[0][1]
        if NULL not in self.parts:
            raise ValueError("it is null, but the union has no null")
        return self.parts.index(NULL), None

    def from_arrow(self, array: pa.Array) -> list[Any]:
        if self._single is not None:
            return with_nulls(array, self._single.from_arrow(array))
        names = [name for name, _ in self._real]
        columns = [part.from_arrow(column) for (_, part), column in zip(self._real, array.flatten(), strict=True)]
        return with_nulls(array, [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)])

    def json(self, value: Any) -> Any:
        """Return the value as JSON has it: without the types that it does not have."""
        if self._single is not None:
            return _json(self._single, value)
        return {name: _json(part, value[name]) for name, part in self._real if name in value}

    def from_json(self, written: Any) -> Any:
        """Return the value that `json` wrote."""
        if self._single is not None:
            return _from_json(self._single, written)
        return {name: _from_json(part, written.get(name)) for name, part in self._real}

    @property
    def text_arrow(self) -> pa.DataType:
        return self._made([(name, part.text_arrow) for name, part in self._real])

    def to_text(self, value: Any) -> Any:
        if value is None:
            return None
        if self._single is not None:
            return self._single.to_text(value)
        return {name: part.to_text(value[name]) for name, part in self._real if name in value}


class _Nested(Type):
    """A record inside itself, as JSON text: a column cannot have a type that contains itself."""

    arrow = pa.string()

    def __init__(self, name: str) -> None:
        self.name = name
        self.record: Type | None = None

    def read(self, reader: Reader) -> str:
        reader.enter("a record of Avro")
        assert self.record is not None
        held = self.record.read(reader)
        reader.leave()
        return json.dumps(_json(self.record, held), ensure_ascii=False)

    def write(self, out: Writer, value: str) -> None:
        assert self.record is not None
        self.record.write(out, _from_json(self.record, json.loads(value)))


def _json(type_: Type, value: Any) -> Any:
    """Return a value as JSON has it: bytes in hexadecimal, times and decimals as text."""
    if value is None:
        return None
    if isinstance(type_, _Nested):
        return json.loads(value)
    if isinstance(type_, Struct):
        return {name: _json(part, each) for (name, part), each in zip(type_.fields, value, strict=True)}
    if isinstance(type_, _Map):
        return {key: _json(type_.parts[1], each) for key, each in value}
    if isinstance(type_, _Array):
        return [_json(type_.parts[0], each) for each in value]
    if isinstance(type_, _Union):
        return type_.json(value)
    if isinstance(value, bytes):
        return value.hex()
    plain = type_.to_text(value)
    is_number = isinstance(plain, bool | int) or (isinstance(plain, float) and math.isfinite(plain))
    return plain if is_number else str(plain)


def _from_json(type_: Type, written: Any) -> Any:
    """Return the value that `_json` wrote."""
    if written is None:
        return None
    if isinstance(type_, _Nested):
        return json.dumps(written, ensure_ascii=False)
    if isinstance(type_, Struct):
        return tuple(_from_json(part, written[name]) for name, part in type_.fields)
    if isinstance(type_, _Map):
        return [(key, _from_json(type_.parts[1], each)) for key, each in written.items()]
    if isinstance(type_, _Array):
        return [_from_json(type_.parts[0], each) for each in written]
    if isinstance(type_, _Union):
        return type_.from_json(written)
    if isinstance(type_, Temporal):
        return type_.from_text(written)
    if pa.types.is_binary(type_.arrow):
        return bytes.fromhex(written)
    if pa.types.is_floating(type_.arrow):
        return float(written)
    return Decimal(written) if pa.types.is_decimal(type_.arrow) else written


class AvroRecord(Struct):
    """A record; `defaults` are the fields that have a default, which a reader uses where older data lack them."""

    def __init__(self, name: str, fields: Sequence[tuple[str, Type]], defaults: frozenset[str]) -> None:
        super().__init__(name, fields, is_fixed=False)
        self.dtype, self.defaults = None, defaults


class _Schema:
    """One schema, with the types that it names."""

    def __init__(self) -> None:
        self._named: dict[str, Type] = {}

    def type(self, schema: Any, depth: int) -> Type:
        """Return the type that a part of the schema describes. Raises CheckpointError."""
        if depth > MAX_DEPTH:
            raise DamagedError(f"found an Avro schema nested more deeply, expected at most {MAX_DEPTH} levels")
        if isinstance(schema, str):
            found = _PRIMITIVES.get(schema) or self._named.get(schema) or self._named.get(schema.rpartition(".")[2])
            return found or Opaque(f"the unknown Avro type {schema}")
        if isinstance(schema, list):
            return _Union([self.type(each, depth + 1) for each in schema], [_name_of(each) for each in schema])
        if not isinstance(schema, dict):
            raise DamagedError(f"found {schema!r} in an Avro schema, expected a type")
        kind = schema.get("type")
        logical = _LOGICAL.get((str(kind), str(schema.get("logicalType"))))
        if logical is not None:
            return logical
        made = self._made(schema, kind, depth)
        return self.type(kind, depth + 1) if made is None else made

    def _made(self, schema: dict[str, Any], kind: Any, depth: int) -> Type | None:
        try:
            if kind in ("record", "error"):
                return self._record(schema, depth)
            if kind == "enum":
                return self._named_as(schema, Enumeration(schema["name"], tuple(schema["symbols"])))
            is_decimal = schema.get("logicalType") == "decimal"
            if kind == "bytes":
                return _decimal(schema, None, _PRIMITIVES[kind]) if is_decimal else _PRIMITIVES[kind]
            if kind == "fixed":
                size = int(schema["size"])
                plain = _fixed(schema["name"], size)
                return self._named_as(schema, _decimal(schema, size, plain) if is_decimal else plain)
            if kind == "array":
                item = self.type(schema["items"], depth + 1)
                return _Array(f"array<{item.name}>", item)
            if kind == "map":
                item = self.type(schema["values"], depth + 1)
                return _Map(f"map<{item.name}>", _STRING, item)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"found an Avro schema of type {kind!r} that is not complete: {error!r}") from None
        return None

    def _record(self, schema: dict[str, Any], depth: int) -> Type:
        inner = _Nested(schema["name"])
        self._named_as(schema, inner)
        fields = [(each["name"], self.type(each["type"], depth + 1)) for each in schema["fields"]]
        defaults = frozenset(each["name"] for each in schema["fields"] if "default" in each)
        inner.record = AvroRecord(schema["name"], fields, defaults)
        self._named_as(schema, inner.record)
        return inner.record

    def _named_as(self, schema: dict[str, Any], type_: Any) -> Any:
        self._named[schema["name"]] = type_
        if schema.get("namespace"):
            self._named[f"{schema['namespace']}.{schema['name']}"] = type_
        return type_


def _name_of(schema: Any) -> str:
    """Return what Avro calls a type in a union: the name of a named type, else its kind."""
    if isinstance(schema, dict):
        return _name_of(schema.get("name") or schema.get("type"))
    return schema.rpartition(".")[2] if isinstance(schema, str) else "union"


def _fixed(name: str, size: int) -> Type:
    """Return the type of a fixed number of bytes."""

    def write(out: Writer, value: bytes) -> None:
        if len(value) != size:
            raise ValueError(f"{len(value)} bytes, but {name} has {size}")
        out += value

    return Read(name, lambda reader: reader.take(size), pa.binary(), write=write)


def _decimal(schema: MappingOf[str, Any], size: int | None, plain: Type) -> Type:
    """Return DECIMAL, whose unscaled value is bytes: `size` of them, or as many as their number says.

    As in Avro, a decimal whose precision cannot be is `plain`, its bytes.
    """
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision):
        return plain
    if not 1 <= precision <= MOST_DECIMAL_DIGITS:
        return plain

    def read(reader: Reader) -> Decimal:
        held = reader.blob() if size is None else reader.take(size)
        return as_decimal(int.from_bytes(held, "big", signed=True), scale)

    def write(out: Writer, value: Decimal) -> None:
        unscaled = unscaled_value(value, precision, scale)
        if size is None:
            out.blob(signed_bytes(unscaled))
        else:
            out += unscaled.to_bytes(size, "big", signed=True)

    return Read(f"decimal({precision}, {scale})", read, decimal_arrow(precision, scale), write=write)
