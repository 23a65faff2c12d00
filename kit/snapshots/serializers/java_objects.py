"""Objects that Java's `ObjectOutputStream` wrote, as their classes' names and fields. No class is loaded or made.

Flink's SQL types are stored so inside serializer snapshots, without a length: reading an object is the only way to find
where it ends. The grammar is that of the "Java Object Serialization Specification", section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kit.core.metadata.primitives import decode_modified_utf8
from kit.snapshots.serializers.reading import Reader

STREAM_MAGIC = 0xACED0005
FIRST_HANDLE = 0x7E0000
WRITE_METHOD, SERIALIZABLE, EXTERNALIZABLE, BLOCK_DATA = 1, 2, 4, 8


@dataclass(slots=True, eq=False)
class JavaObject:
    """An object: its class's full name, the fields of all its classes, and what its `writeObject` added."""

    class_name: str
    fields: dict[str, Any] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)

    @property
    def short_name(self) -> str:
        """The class's name without its package."""
        return self.class_name.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class JavaClass:
    """A class as a value, or the description of one: its name, fields, and the class it extends."""

    class_name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: JavaClass | None = None


@dataclass(frozen=True, slots=True)
class JavaEnum:
    """A value of an enum."""

    class_name: str
    name: str


_PRIMITIVES: dict[str, Callable[[Reader], Any]] = {
    "B": Reader.int8,
    "C": Reader.uint16,
    "D": Reader.float64,
    "F": Reader.float32,
    "I": Reader.int32,
    "J": Reader.int64,
    "S": Reader.int16,
    "Z": Reader.boolean,
}
_END = object()


def read_java_object(reader: Reader) -> Any:
    """Read one object with the header of its stream. Raises CheckpointError."""
    reader.expect(STREAM_MAGIC - (1 << 32), "a serialized Java object")
    return _Stream(reader).content()


class _Stream:
    """One stream: the objects in it may refer to earlier ones by their handles."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.known: list[Any] = []

    def _note(self, item: Any) -> Any:
        self.known.append(item)
        return item

    def content(self) -> Any:
        """Read one item."""
        reader = self.reader
        reader.enter("a Java object")
        tag = reader.uint8()
        read = _CONTENTS.get(tag)
        if read is None:
            reader.at -= 1
            raise reader.error(f"tag {tag:#x}", "an item of a serialized Java object")
        found = read(self)
        reader.leave()
        return found

    def reference(self) -> Any:
        place = self.reader.int32() - FIRST_HANDLE
        if not 0 <= place < len(self.known):
            raise self.reader.error(f"a reference to item {place}", f"one of {len(self.known)}")
        return self.known[place]

    def description(self) -> JavaClass:
        """Read the description of a class: its name, flags and fields, and the class that it extends."""
        reader = self.reader
        found = JavaClass(reader.utf())
        reader.skip(8)
        self._note(found)
        found.flags = reader.uint8()
        for _ in range(reader.uint16()):
            code = chr(reader.uint8())
            name = reader.utf()
            if code in "[L":
                self.content()
            elif code not in _PRIMITIVES:
                raise reader.error(f"type {code!r} of field {name}", "a type of Java")
            found.fields.append((name, code))
        self._added()
        found.parent = self._description()
        return found

    def _description(self) -> JavaClass | None:
        found = self.content()
        if found is not None and not isinstance(found, JavaClass):
            raise self.reader.error(f"a {type(found).__name__}", "the description of a class")
        return found

    def proxy(self) -> JavaClass:
        found = self._note(JavaClass("proxy"))
        for _ in range(self.reader.count("interfaces", 2)):
            self.reader.utf()
        self._added()
        found.parent = self._description()
        return found

    def _added(self) -> list[Any]:
        """Read what a class wrote itself, up to the mark of its end."""
        found: list[Any] = []
        while (each := self.content()) is not _END:
            found.append(each)
        return found

    def _class(self) -> JavaClass:
        found = self._description()
        if found is None:
            raise self.reader.error("an object without a class", "the description of a class")
        return found

    def new_object(self) -> JavaObject:
        """Read an object: the fields of its classes, from the one furthest up."""
        described = self._class()
        found = self._note(JavaObject(described.class_name))
        lineage: list[JavaClass] = []
        each: JavaClass | None = described
        while each is not None and len(lineage) < 256:
            lineage.append(each)
            each = each.parent
        for own in reversed(lineage):
            if own.flags & SERIALIZABLE:
                for name, code in own.fields:
                    found.fields[name] = self._value(code)
                if own.flags & WRITE_METHOD:
                    found.added += self._added()
            elif own.flags & EXTERNALIZABLE:
                if not own.flags & BLOCK_DATA:
                    raise self.reader.error(f"an object of {own.class_name} without its length", "one with block data")
                found.added += self._added()
        return found

    def _value(self, code: str) -> Any:
        read = _PRIMITIVES.get(code)
        return self.content() if read is None else read(self.reader)

    def string(self) -> str:
        return self._note(self.reader.utf())

    def long_string(self) -> str:
        held = self.reader.take(self.reader.int64())
        try:
            return self._note(decode_modified_utf8(held))
        except UnicodeError:
            raise self.reader.error("bytes that are not modified UTF-8", "a string") from None

    def array(self) -> list[Any]:
        described = self._class()
        found: list[Any] = self._note([])
        code = described.class_name[1:2] or "L"
        for _ in range(self.reader.count("elements", 1)):
            found.append(self._value(code))  # noqa: PERF401 (an element may refer to the array)
        return found

    def class_object(self) -> JavaClass:
        return self._note(JavaClass(self._class().class_name))

    def enum(self) -> JavaEnum:
        described = self._class()
        place = len(self.known)
        self.known.append(None)
        found = JavaEnum(described.class_name, str(self.content()))
        self.known[place] = found
        return found


_CONTENTS: dict[int, Callable[[_Stream], Any]] = {
    0x70: lambda _: None,
    0x71: _Stream.reference,
    0x72: _Stream.description,
    0x73: _Stream.new_object,
    0x74: _Stream.string,
    0x75: _Stream.array,
    0x76: _Stream.class_object,
    0x77: lambda stream: stream.reader.take(stream.reader.uint8()),  # what `writeObject` added
    0x78: lambda _: _END,
    0x7A: lambda stream: stream.reader.blob("bytes of a block"),
    0x7C: _Stream.long_string,
    0x7D: _Stream.proxy,
    0x7E: _Stream.enum,
}
