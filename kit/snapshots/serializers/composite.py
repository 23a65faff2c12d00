"""Flink's types that are made of others: tuples, rows, Either, what may be null, what expires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from kit.snapshots.serializers.basic import LONG
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.temporal import LAST_ACCESS
from kit.snapshots.serializers.types import (
    Like,
    Sequential,
    Struct,
    Type,
    bounded,
    fields_of,
    opaque_inside,
    with_nulls,
)
from kit.snapshots.serializers.writing import Writer

ROW_KINDS, KIND = ("+I", "-U", "+U", "-D"), "kind"


def tuple_of(parts: Sequence[Type], name: str = "") -> Struct:
    """Return a tuple with fields f0, f1, ..."""
    listed = ", ".join(part.name for part in parts)
    fields = [(f"f{place}", part) for place, part in enumerate(parts)]
    return Struct(f"{name or f'Tuple{len(parts)}'}<{listed}>", fields)


class KindedRow(Struct):
    """A row of a stream of changes: with `has_kind`, its first field is its kind, one of `ROW_KINDS`."""

    def __init__(self, name: str, fields: Sequence[tuple[str, Type]], *, has_kind: bool) -> None:
        super().__init__(name, fields, is_fixed=False)
        self.has_kind, self.dtype = has_kind, None
        self.arrow = self._with_kind(self.arrow)

    def as_column(self, array: pa.Array) -> pa.Array:
        """Return structs with the fields of this row. Without a field for the kind, the rows are inserts."""
        if array.type in (self.arrow, self.text_arrow):
            return array
        names = [label for label, _ in self.fields]
        is_longer = pa.types.is_struct(array.type) and array.type.num_fields == len(names) + 1
        has_kind = self.has_kind and is_longer and array.type.get_field_index(KIND) >= 0
        columns = fields_of(array, [KIND, *names] if has_kind else names, self.name)
        made = {label: part.as_column(columns[label]) for label, part in self.fields}
        kinds = {KIND: columns[KIND] if has_kind else pa.array([ROW_KINDS[0]] * len(array))} if self.has_kind else {}
        return self._of_columns(array, kinds | made)

    def _with_kind(self, fields: pa.DataType) -> pa.DataType:
        return pa.struct([pa.field(KIND, pa.string()), *fields]) if self.has_kind else fields

    def from_arrow(self, array: pa.Array) -> list[Any]:
        if not self.has_kind:
            return super().from_arrow(array)
        kinds, *columns = array.flatten()
        found = [part.from_arrow(column) for part, column in zip(self.parts, columns, strict=True)]
        return with_nulls(array, list(zip(kinds.to_pylist(), *found, strict=True)))

    @property
    def text_arrow(self) -> pa.DataType:
        return self._with_kind(super().text_arrow)

    def to_text(self, value: Any) -> Any:
        if value is None or not self.has_kind:
            return super().to_text(value)
        return (value[0], *super().to_text(value[1:]))


class Row(KindedRow):
    """A row: bits for its kind and its nulls, most significant first, then the fields that are not null.

    Its fields are `kind` and f0, f1, ...: a snapshot has no names. With `writes_kind` the kind is stored.
    """

    def __init__(self, parts: Sequence[Type], *, writes_kind: bool) -> None:
        listed = ", ".join(part.name for part in parts)
        super().__init__(f"Row<{listed}>", [(f"f{place}", part) for place, part in enumerate(parts)], has_kind=True)
        self.writes_kind = writes_kind

    def read(self, reader: Reader) -> Any:
        head = 2 if self.writes_kind else 0
        many = head + len(self.parts)
        size = (many + 7) // 8
        mask = int.from_bytes(reader.take(size), "big") >> (8 * size - many)
        bits = [mask >> place & 1 for place in range(many - 1, -1, -1)]
        kind = ROW_KINDS[bits[0] + 2 * bits[1]] if head else ROW_KINDS[0]
        fields = [None if null else part.read(reader) for part, null in zip(self.parts, bits[head:], strict=True)]
        return (kind, *fields)

    def write(self, out: Writer, value: Any) -> None:
        kind, *fields = value
        number = ROW_KINDS.index(kind)
        if number and not self.writes_kind:
            raise ValueError(f"a row of kind {kind}, but the serializer writes rows without a kind")
        bits = [number & 1, number >> 1] * self.writes_kind + [each is None for each in fields]
        size = (len(bits) + 7) // 8
        mask = int("".join(str(int(bit)) for bit in bits), 2) << (8 * size - len(bits))
        out += mask.to_bytes(size, "big")
        for part, each in zip(self.parts, fields, strict=True):
            if each is not None:
                part.write(out, each)


class OneOfTwo(Type):
    """One of two types. A row of it says which, and has a column for each; its value may be null."""

    tag: ClassVar[tuple[str, pa.DataType]]
    columns: ClassVar[tuple[str, str]]

    def __init__(self, name: str, first: Type, second: Type) -> None:
        self.name, self.parts = f"{name}<{first.name}, {second.name}>", (first, second)
        self.is_opaque = opaque_inside(self.parts)
        self.arrow = self._struct(first.arrow, second.arrow)

    def _struct(self, *parts: pa.DataType) -> pa.DataType:
        return pa.struct([self.tag, *zip(self.columns, parts, strict=True)])

    def from_arrow(self, array: pa.Array) -> list[Any]:
        tags, *columns = array.flatten()
        found = [part.from_arrow(column) for part, column in zip(self.parts, columns, strict=True)]
        return with_nulls(array, list(zip(tags.to_pylist(), *found, strict=True)))

    @property
    def text_arrow(self) -> pa.DataType:
        return self._struct(*(part.text_arrow for part in self.parts))

    def to_text(self, value: Any) -> Any:
        if value is None:
            return None
        first, second = self.parts
        return (value[0], first.to_text(value[1]), second.to_text(value[2]))


class Either(OneOfTwo):
    """A left or a right value, after a byte."""

    tag = ("side", pa.string())
    columns = ("left", "right")

    def __init__(self, left: Type, right: Type) -> None:
        super().__init__("Either", left, right)

    def read(self, reader: Reader) -> Any:
        left, right = self.parts
        if reader.boolean():
            return ("left", left.read(reader), None)
        return ("right", None, right.read(reader))

    def write(self, out: Writer, value: Any) -> None:
        is_left = value[0] == "left"
        out.boolean(is_left)
        self.parts[not is_left].write(out, value[1 if is_left else 2])


class Optional(Like):
    """A value after a byte: null if it is `null_flag`. A null value is followed by `padding` bytes."""

    def __init__(self, name: str, inner: Type, *, null_flag: bool, padding: int = 0) -> None:
        super().__init__(name, inner)
        self.parts, self.is_opaque = (inner,), inner.is_opaque
        self._null_flag, self._padding = null_flag, padding
        self.is_fixed = padding > 0 and inner.is_fixed

    def read(self, reader: Reader) -> Any:
        if reader.boolean() == self._null_flag:
            reader.skip(self._padding)
            return None
        return self.parts[0].read(reader)

    def write(self, out: Writer, value: Any) -> None:
        out.boolean((value is None) == self._null_flag)
        if value is None:
            out += bytes(self._padding)
        else:
            self.parts[0].write(out, value)

    def from_arrow(self, array: pa.Array) -> list[Any]:
        return with_nulls(array, super().from_arrow(array))


class Ttl(Struct):
    """A value that expires: the ms of its last access, then the value itself."""

    def __init__(self, inner: Type) -> None:
        super().__init__(f"Ttl<{inner.name}>", (("last_access", LAST_ACCESS), ("value", inner)))
        self.is_fixed = inner.is_fixed
        if inner.dtype is not None:
            self.dtype = np.dtype([("last_access", ">i8"), ("value", inner.dtype)])

    @property
    def inner(self) -> Type:
        """The type of the value itself."""
        return self.parts[1]

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        access = LONG.from_numpy(data["last_access"]).cast(LAST_ACCESS.arrow)
        return pa.StructArray.from_arrays([access, self.inner.from_numpy(data["value"])], fields=list(self.arrow))


class Timer(Type):
    """A timer: its time with the sign bit flipped, so that bytes sort as numbers do, then key and namespace."""

    arrow = pa.null()

    def __init__(self, key: Type, namespace: Type) -> None:
        self.name, self.parts = f"Timer<{key.name}, {namespace.name}>", (key, namespace)
        self.is_opaque = opaque_inside(self.parts)

    def read(self, reader: Reader) -> Any:
        time_ms = reader.int64() ^ -(1 << 63)
        key, namespace = self.parts
        return time_ms, key.read(reader), namespace.read(reader)

    def write(self, out: Writer, value: Any) -> None:
        time_ms, key, namespace = value
        out.int64(time_ms ^ -(1 << 63))
        self.parts[0].write(out, key)
        self.parts[1].write(out, namespace)


class MaskedList(Like):
    """A list with bits for its nulls before its elements."""

    def __init__(self, name: str, element: Type) -> None:
        super().__init__(name, Sequential(name, element))
        self.parts, self.is_opaque = (element,), element.is_opaque

    def read(self, reader: Reader) -> Any:
        (element,) = self.parts
        many = reader.count("elements", 0)
        mask = reader.take((many + 7) // 8)
        nulls = [mask[place // 8] >> (7 - place % 8) & 1 for place in bounded(reader, many)]
        return [None if null else element.read(reader) for null in nulls]

    def write(self, out: Writer, value: Any) -> None:
        out.int32(len(value))
        mask = bytearray((len(value) + 7) // 8)
        for place, each in enumerate(value):
            mask[place // 8] |= (each is None) << (7 - place % 8)
        out += mask
        for each in value:
            if each is not None:
                self.parts[0].write(out, each)
