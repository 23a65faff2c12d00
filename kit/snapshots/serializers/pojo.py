"""POJOs: classes whose fields Flink finds itself. A snapshot names the fields, in the order they are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.types import Type, opaque_inside, with_nulls
from kit.snapshots.serializers.writing import Writer

IS_NULL, NO_SUBCLASS, IS_SUBCLASS, IS_TAGGED_SUBCLASS = 1, 2, 4, 8
CLASS_FIELD = "$class"

Fields = Sequence[tuple[str, Type]]


class Pojo(Type):
    """An object of a class, or of a subclass that the snapshot lists: a flag, then each field after a byte for null.

    With subclasses, its column has the fields of all of them, and `$class`, the name of the object's own.
    """

    def __init__(self, class_name: str, fields: Fields, tagged: Sequence[tuple[str, Type]], known: Fields) -> None:
        self.class_name = class_name
        self.fields = tuple(fields)
        self._tagged, self._known = tuple(tagged), dict(known)
        self.name = f"{class_name}{{{', '.join(f'{name}: {part.name}' for name, part in fields)}}}"
        self._classes = [part for _, part in (*tagged, *known) if isinstance(part, Pojo)]
        self.parts = (*(part for _, part in fields), *self._classes)
        self.is_opaque = opaque_inside(self.parts)
        self._all = dict(self.fields)
        for each in self._classes:
            self._all.update(each._all)
        self.arrow = self._struct([(name, part.arrow) for name, part in self._all.items()])

    def _struct(self, columns: list[tuple[str, pa.DataType]]) -> pa.DataType:
        return pa.struct([(CLASS_FIELD, pa.string()), *columns] if self._classes else columns)

    def read(self, reader: Reader) -> Any:
        """Read an object: its fields by name, or None. Raises CheckpointError."""
        flags = reader.uint8()
        if flags & IS_NULL:
            return None
        if flags & IS_SUBCLASS:
            name = reader.utf()
            found = self._known.get(name)
            if not isinstance(found, Pojo):
                raise reader.error(f"an object of {name}", "a class that the serializer's snapshot lists")
            return {CLASS_FIELD: name, **self._of(reader, found)}
        if flags & IS_TAGGED_SUBCLASS:
            tag = reader.uint8()
            if tag >= len(self._tagged) or not isinstance(self._tagged[tag][1], Pojo):
                raise reader.error(f"subclass {tag}", f"one of the {len(self._tagged)} of the serializer's snapshot")
            name, subclass = self._tagged[tag]
            return {CLASS_FIELD: name, **self._of(reader, subclass)}
        if not flags & NO_SUBCLASS:
            raise reader.error(f"the flags {flags:#x} of an object", "one of 1, 2, 4, 8")
        own = {name: None if reader.boolean() else part.read(reader) for name, part in self.fields}
        return {CLASS_FIELD: self.class_name, **own} if self._classes else own

    def _of(self, reader: Reader, subclass: Type) -> dict[str, Any]:
        found: dict[str, Any] = subclass.read(reader) or {}
        return found

    def write(self, out: Writer, value: Any) -> None:
        """Write an object, or None. Raises CheckpointError for a class that the snapshot does not list."""
        if value is None:
            out.append(IS_NULL)
            return
        name = value.get(CLASS_FIELD, self.class_name)
        tags = [each for each, _ in self._tagged]
        if name == self.class_name:
            out.append(NO_SUBCLASS)
            for label, part in self.fields:
                each = value[label]
                out.boolean(each is None)
                if each is not None:
                    part.write(out, each)
        elif name in tags:
            out += bytes([IS_TAGGED_SUBCLASS, tags.index(name)])
            self._tagged[tags.index(name)][1].write(out, _own(value))
        elif name in self._known:
            out.append(IS_SUBCLASS)
            out.utf(name)
            self._known[name].write(out, _own(value))
        else:
            raise CheckpointError(
                f"an object of {name}, expected {self.class_name}, or a subclass that its snapshot lists"
            )

    def from_arrow(self, array: pa.Array) -> list[Any]:
        columns = {}
        for field, column in zip(array.type, array.flatten(), strict=True):
            part = self._all.get(field.name)
            columns[field.name] = column.to_pylist() if part is None else part.from_arrow(column)
        return with_nulls(array, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)])

    @property
    def text_arrow(self) -> pa.DataType:
        return self._struct([(name, part.text_arrow) for name, part in self._all.items()])

    def to_text(self, value: Any) -> Any:
        if value is None:
            return None
        return {name: self._all[name].to_text(each) if name in self._all else each for name, each in value.items()}


def _own(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the name of its class."""
    return {name: each for name, each in value.items() if name != CLASS_FIELD}
