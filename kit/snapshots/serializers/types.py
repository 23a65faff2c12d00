"""The types of values that serializers write: the base of all, and the three that contain others.

A `Type` reads one value at a time into what `pyarrow.array` accepts. A type whose values all have the same size also
has a numpy layout (`dtype`), with which many are read at once.

A column with a time that Arrow cannot hold (the year 999,999,999) is ISO 8601 text as a whole: `column` decides so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kit.core.arrow_kinds import kind_of
from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.writing import Writer, not_written


class Type:
    """The type of a value.

    `name` is for people (`Tuple2<Long, String>`), `arrow` the type of a column of such values. `parts` are the types
    it is made of. `is_fixed` is True if Flink's serializer declares a length; then keys need no length behind them.
    """

    name: str
    arrow: pa.DataType
    parts: tuple[Type, ...] = ()
    is_fixed = False
    dtype: np.dtype[Any] | None = None
    """The layout of one value in big-endian bytes, if every value has the same."""
    is_opaque = False
    """True if only Java code can read the values: they are returned as bytes."""

    def read(self, reader: Reader) -> Any:
        """Read one value. Raises CheckpointError."""
        raise NotImplementedError

    def write(self, out: Writer, value: Any) -> None:
        """Write one value, in the form in which `read` returns it.

        Raises CheckpointError if values of this type are not encoded here, and TypeError, ValueError or struct.error
        for a value that is not of this type.
        """
        raise not_written(self.name)

    def from_arrow(self, array: pa.Array) -> list[Any]:
        """Return the values of a column in the form in which `read` returns them."""
        return array.to_pylist()

    def as_column(self, array: pa.Array) -> pa.Array:
        """Return a column of other types in the form in which `from_arrow` reads it; its times may stay text.

        Raises pyarrow.ArrowException or ValueError for values of another type.
        """
        return array if array.type in (self.arrow, self.text_arrow) else array.cast(self.arrow)

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        """Return many values as a column; `data` has this type's `dtype`."""
        return pa.array(np.ascontiguousarray(data).astype(data.dtype.newbyteorder("=")))

    @property
    def text_arrow(self) -> pa.DataType:
        """The type of a column in which times are text."""
        return self.arrow

    def to_text(self, value: Any) -> Any:
        """Return the value with its times as ISO 8601 text."""
        return value

    def __repr__(self) -> str:
        return f"<{self.name}>"


def column(type_: Type, values: Sequence[Any], *, text: bool = False) -> pa.Array:
    """Return values of one type as a column; its times are text if one of them is beyond what Arrow can hold.

    With `text` they are text anyway. Raises CheckpointError if the values do not fit a column at all.
    """
    if getattr(type_, "decoder", None) is not None:
        return _of_decoder(values)
    try:
        if not text:
            return pa.array(values, type_.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        pass
    try:
        return pa.array([printable(type_.to_text(each)) for each in values], type_.text_arrow)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise CheckpointError(f"values of type {type_.name} do not fit a column of {type_.arrow}: {error}") from None


def as_column(values: pa.Array | pa.ChunkedArray, type_: Type) -> pa.Array:
    """Return the values of a table's column in the form in which the type's `from_arrow` reads them.

    Raises pyarrow.ArrowException or ValueError for values of another type.
    """
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if values.type in (type_.arrow, type_.text_arrow):
        return values
    if pa.types.is_nested(values.type):  # a copy, since a slice of lists or maps has the values of all of them
        values = values.take(pa.array(range(len(values)), pa.int64()))
    return type_.as_column(values)


def _of_decoder(values: Sequence[Any]) -> pa.Array:
    """Return what a user's decoder gave, as JSON text if these values have no common type."""
    try:
        return pa.array(values)
    except pa.ArrowException:
        return pa.array(
            [None if each is None else json.dumps(each, default=str, ensure_ascii=False) for each in values]
        )


def printable(value: Any) -> Any:
    """Return the value with the lone surrogates in its strings escaped, which UTF-8 cannot hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return type(value)(printable(each) for each in value)
    if isinstance(value, dict):
        return {printable(key): printable(each) for key, each in value.items()}
    return value


def opaque_inside(parts: Iterable[Type]) -> bool:
    """Return True if one of the types can only be read by Java code."""
    return any(part.is_opaque for part in parts)


class Struct(Type):
    """A value of named fields, read one after another without anything between them."""

    def __init__(self, name: str, fields: Sequence[tuple[str, Type]], *, is_fixed: bool | None = None) -> None:
        self.name = name
        self.fields = tuple(fields)
        self.parts = tuple(part for _, part in fields)
        self.is_fixed = all(part.is_fixed for part in self.parts) if is_fixed is None else is_fixed
        self.is_opaque = opaque_inside(self.parts)
        self.arrow = pa.struct([pa.field(label, part.arrow) for label, part in self.fields])
        layouts = {label: part.dtype for label, part in self.fields}
        if layouts and len(layouts) == len(self.fields) and all(each is not None for each in layouts.values()):
            self.dtype = np.dtype(list(layouts.items()))

    def read(self, reader: Reader) -> Any:
        return tuple([part.read(reader) for part in self.parts])

    def write(self, out: Writer, value: Any) -> None:
        for part, each in zip(self.parts, value, strict=True):
            part.write(out, each)

    def from_arrow(self, array: pa.Array) -> list[Any]:
        columns = [part.from_arrow(column) for part, column in zip(self.parts, array.flatten(), strict=True)]
        return with_nulls(array, list(zip(*columns, strict=True)))

    def as_column(self, array: pa.Array) -> pa.Array:
        """Return structs with the fields of this type: by their names if they are the same, else by their places."""
        if array.type in (self.arrow, self.text_arrow):
            return array
        columns = fields_of(array, [label for label, _ in self.fields], self.name)
        return self._of_columns(array, {label: part.as_column(columns[label]) for label, part in self.fields})

    def _of_columns(self, array: pa.Array, columns: dict[str, pa.Array]) -> pa.Array:
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=array.is_null())

    def from_numpy(self, data: np.ndarray[Any, Any]) -> pa.Array:
        columns = [part.from_numpy(data[label]) for label, part in self.fields]
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow))

    @property
    def text_arrow(self) -> pa.DataType:
        return pa.struct([pa.field(label, part.text_arrow) for label, part in self.fields])

    def to_text(self, value: Any) -> Any:
        if value is None:
            return None
        return tuple([part.to_text(each) for part, each in zip(self.parts, value, strict=True)])


class Plain(Type):
    """A value that its column holds unchanged."""

    def __init__(self, name: str, arrow: pa.DataType) -> None:
        self.name, self.arrow = name, arrow


class Like(Type):
    """A value whose column is that of another type, whatever bytes are stored."""

    def __init__(self, name: str, like: Type) -> None:
        self.name, self.arrow, self.like = name, like.arrow, like

    def from_arrow(self, array: pa.Array) -> list[Any]:
        return self.like.from_arrow(array)

    @property
    def text_arrow(self) -> pa.DataType:
        return self.like.text_arrow

    def to_text(self, value: Any) -> Any:
        return self.like.to_text(value)


class Sequential(Type):
    """A list: the number of elements, then each of them, after a byte for null if `flag` says so.

    `flag` is the byte that says that an element is null, or None if an element is never null.
    """

    def __init__(self, name: str, element: Type, *, flag: int | None = None) -> None:
        self.name, self.parts, self._flag = name, (element,), flag
        self.is_opaque = element.is_opaque
        self.arrow = pa.list_(element.arrow)

    def read(self, reader: Reader) -> Any:
        (element,) = self.parts
        many = reader.count("elements", 0)
        if self._flag is None:
            return [element.read(reader) for _ in bounded(reader, many)]
        return [None if reader.boolean() == bool(self._flag) else element.read(reader) for _ in bounded(reader, many)]

    def write(self, out: Writer, value: Any) -> None:
        out.int32(len(value))
        for each in value:
            if self._flag is not None:
                out.boolean((each is None) == bool(self._flag))
            if each is not None or self._flag is None:
                self.parts[0].write(out, each)

    def from_arrow(self, array: pa.Array) -> list[Any]:
        return with_nulls(array, cut(array, self.parts[0].from_arrow(array.values)))

    def as_column(self, array: pa.Array) -> pa.Array:
        """Return lists of elements of this type."""
        if kind_of(array.type).python is not list:
            return super().as_column(array)
        return pa.ListArray.from_arrays(offsets_of(array), self.parts[0].as_column(array.values))

    @property
    def text_arrow(self) -> pa.DataType:
        return pa.list_(self.parts[0].text_arrow)

    def to_text(self, value: Any) -> Any:
        return None if value is None else [self.parts[0].to_text(each) for each in value]


class Mapping(Type):
    """A map: the number of entries, then for each its key, a byte that is 1 for a null value, and the value."""

    def __init__(self, name: str, key: Type, value: Type, *, null_keys: bool = False, null_values: bool = True) -> None:
        self.name, self.parts = name, (key, value)
        self._null_keys, self._null_values = null_keys, null_values
        self.is_opaque = opaque_inside(self.parts)
        self.arrow = pa.map_(key.arrow, value.arrow)

    def read(self, reader: Reader) -> Any:
        many = reader.count("entries", 0)
        return [(self.read_key(reader), self.read_value(reader)) for _ in bounded(reader, many)]

    def write(self, out: Writer, value: Any) -> None:
        out.int32(len(value))
        for key, each in value:
            if self._null_keys:
                out.boolean(key is None)
            if key is not None or not self._null_keys:
                self.parts[0].write(out, key)
            if self._null_values:
                out.boolean(each is None)
            if each is not None or not self._null_values:
                self.parts[1].write(out, each)

    def as_column(self, array: pa.Array) -> pa.Array:
        """Return maps with keys and values of this type."""
        if not pa.types.is_map(array.type):
            return super().as_column(array)
        key, value = self.parts
        return pa.MapArray.from_arrays(offsets_of(array), key.as_column(array.keys), value.as_column(array.items))

    def from_arrow(self, array: pa.Array) -> list[Any]:
        keys, values = self.parts[0].from_arrow(array.keys), self.parts[1].from_arrow(array.items)
        return with_nulls(array, cut(array, list(zip(keys, values, strict=True))))

    def read_key(self, reader: Reader) -> Any:
        """Read the key of an entry."""
        return None if self._null_keys and reader.boolean() else self.parts[0].read(reader)

    def read_value(self, reader: Reader) -> Any:
        """Read the value of an entry, with its byte for null."""
        return None if self._null_values and reader.boolean() else self.parts[1].read(reader)

    @property
    def text_arrow(self) -> pa.DataType:
        return pa.map_(self.parts[0].text_arrow, self.parts[1].text_arrow)

    def to_text(self, value: Any) -> Any:
        if value is None:
            return None
        of_key, of_value = self.parts
        return [(of_key.to_text(one), of_value.to_text(other)) for one, other in value]


def list_of(element: Type) -> Sequential:
    """Return the type of a list."""
    return Sequential(f"List<{element.name}>", element)


def set_of(element: Type) -> Sequential:
    """Return the type of a set, an element of which may be null."""
    return Sequential(f"Set<{element.name}>", element, flag=1)


def map_of(key: Type, value: Type, *, null_keys: bool = False) -> Mapping:
    """Return the type of a map."""
    return Mapping(f"Map<{key.name}, {value.name}>", key, value, null_keys=null_keys)


def bounded(reader: Reader, many: int) -> Iterable[int]:
    """Yield `many` numbers. Raises CheckpointError once the items take no bytes: their number is then not credible."""
    start = reader.at
    for place in range(many):
        if place == MOST_EMPTY and reader.at == start:
            raise reader.error(f"{many:,} items without any bytes", "bytes for each")
        yield place


MOST_EMPTY = 1_000
"""Items of a list that may take no bytes at all."""


def offsets_of(array: pa.Array) -> pa.Array:
    """Return where the values of each list or map begin, with null for those that are null."""
    starts = array.offsets.cast(pa.int32())
    if not array.null_count:
        return starts
    return pc.if_else(pa.array([*array.is_valid().to_pylist(), True]), starts, pa.scalar(None, pa.int32()))


def fields_of(array: pa.Array, names: Sequence[str], what: str) -> dict[str, pa.Array]:
    """Return the fields of structs, by these names: those of the structs if they are the same, else in their order.

    Raises ValueError for structs with another number of fields.
    """
    if not pa.types.is_struct(array.type):
        raise ValueError(f"found {array.type}, expected a struct for {what}")
    own = [field.name for field in array.type]
    if len(own) != len(names):
        raise ValueError(f"found a struct of {len(own)} fields, expected {len(names)} for {what}")
    columns = dict(zip(own if {*own} == {*names} else names, array.flatten(), strict=True))
    return {name: columns[name] for name in names}


def cut(array: pa.Array, values: list[Any]) -> list[list[Any]]:
    """Return the values inside lists or maps as the list of each."""
    return [values[start:end] for start, end in pairwise(array.offsets.to_pylist())]


def with_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    """Return values with None where the column is null."""
    if not array.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]
