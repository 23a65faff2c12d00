"""Decoding keyed state that Flink itself wrote, in the canonical layout of savepoints or that of heap snapshots.

The header of each file has snapshots of its serializers, which say how to read the values. The serializers for basic
types, tuples, lists and maps are supported. A file with any other serializer (POJO, Kryo, SQL rows, TTL) is rejected as
a whole, because only that serializer knows where its own snapshot ends. Flink: `KeyedBackendSerializationProxy`,
`FullSnapshotRestoreOperation`, `HeapRestoreOperation`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kit.core.state.errors import StateError

KEYED_VERSION, COMPOSITE, NESTED = 6, 911108, 1333245
END_OF_GROUP, LAST_OF_STATE, JOINER = 0xFFFF, 0x80, 0x2C
TIMERS, TIMER_FORM = 3, "TIMERS"
WIDE_KEY_GROUPS = 128
"""With more key groups than this, their numbers take two bytes."""


class UnknownSerializerError(StateError):
    """An unsupported serializer; `name` is its class name without the package."""

    def __init__(self, name: str) -> None:
        self.name = name.rpartition(".")[2].partition("$")[0].removesuffix("Snapshot")
        super().__init__(f"written with Flink's {self.name}, which is not decoded here")


class Reader:
    """Java's `DataInput` over bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises StateError if there are fewer."""
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise StateError(f"the file ends at byte {len(self.data)}, in the middle of something")
        self.at += size
        return found

    def number(self, form: str) -> Any:
        """Return a big-endian number in a format of `struct`."""
        return struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0]

    def text(self) -> str:
        """Return a string written by `writeUTF`."""
        return self.take(self.number("H")).decode()


Decode = Callable[[Reader], Any]


@dataclass(frozen=True, slots=True)
class Serializer:
    """A reader for values of one type; `parts` are the component types."""

    name: str
    read: Decode
    parts: tuple[Serializer, ...] = ()


def _string(reader: Reader) -> str | None:
    """Read a string: its length + 1 (0 for null), then UTF-16 units, seven bits per byte, the low ones first."""
    many = _varint(reader)
    if many == 0:
        return None
    units = [_varint(reader) for _ in range(many - 1)]
    return struct.pack(f"<{len(units)}H", *units).decode("utf-16-le", "surrogatepass")


def _varint(reader: Reader) -> int:
    found = shift = 0
    while True:
        byte = reader.number("B")
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found
        shift += 7


def _integer(reader: Reader) -> int | None:
    """Read a BigInteger: 0 is null; 1 to 3 stand for 0, 1 and 10; otherwise the length + 4, then the bytes."""
    head = reader.number("i")
    if head < 4:
        return (None, 0, 1, 10)[head]
    return int.from_bytes(reader.take(head - 4), "big", signed=True)


def _decimal(reader: Reader) -> str | None:
    """Read a BigDecimal: the unscaled number, then the scale unless the number is null."""
    unscaled = _integer(reader)
    if unscaled is None:
        return None
    digits = tuple(map(int, str(abs(unscaled))))
    return str(Decimal((int(unscaled < 0), digits, -reader.number("i"))))


def _of(form: str) -> Decode:
    return lambda reader: reader.number(form)


BASIC: Mapping[str, Decode] = {
    "LongSerializer": _of("q"),
    "IntSerializer": _of("i"),
    "ShortSerializer": _of("h"),
    "ByteSerializer": _of("b"),
    "DoubleSerializer": _of("d"),
    "FloatSerializer": _of("f"),
    "BooleanSerializer": _of("?"),
    "CharSerializer": lambda reader: chr(reader.number("H")),
    "StringSerializer": _string,
    "BytePrimitiveArraySerializer": lambda reader: reader.take(reader.number("i")),
    "BigIntSerializer": _integer,
    "BigDecSerializer": _decimal,
    "VoidNamespaceSerializer": lambda reader: reader.take(1)[1:] or None,
    "TimeWindow": lambda reader: f"[{reader.number('q')}, {reader.number('q')})",
}
"""The serializers by the name, without the package, of the class that contains the snapshot's class."""


def serializer_of(reader: Reader) -> Serializer:
    """Return the serializer that its snapshot describes. Raises UnknownSerializerError."""
    name = reader.text()
    reader.number("i")
    short = name.rpartition(".")[2].partition("$")[0].removesuffix("Snapshot")
    if short in BASIC:
        return Serializer(short, BASIC[short])
    if short == "TupleSerializer":
        parts = _parts(reader, has_class=True)
        return Serializer(short, lambda data: tuple(part.read(data) for part in parts), parts)
    if short == "ListSerializer":
        (part,) = parts = _parts(reader)
        return Serializer(short, lambda data: [part.read(data) for _ in range(data.number("i"))], parts)
    if short == "MapSerializer":
        key, value = parts = _parts(reader)
        return Serializer(short, lambda data: _map(data, key, value), parts)
    if short == "TimerSerializer":
        return Serializer(short, lambda data: None, _parts(reader))
    raise UnknownSerializerError(name)


def _parts(reader: Reader, *, has_class: bool = False) -> tuple[Serializer, ...]:
    """Return the component serializers of a composite."""
    _expect(reader, COMPOSITE)
    reader.number("i")
    if has_class:
        reader.text()
    _expect(reader, NESTED)
    reader.number("i")
    return tuple(serializer_of(reader) for _ in range(reader.number("i")))


def _expect(reader: Reader, wanted: int) -> None:
    found = reader.number("i")
    if found != wanted:
        raise StateError(f"byte {reader.at - 4}: found {found}, expected {wanted}, the mark of nested serializers")


def _map(reader: Reader, key: Serializer, value: Serializer) -> dict[Any, Any]:
    """Read a map in the heap's layout: the size, then for each entry the key, a null flag and the value."""
    return {key.read(reader): _nullable(reader, value) for _ in range(reader.number("i"))}


def _nullable(reader: Reader, value: Serializer) -> Any:
    return None if reader.number("?") else value.read(reader)


@dataclass(frozen=True, slots=True)
class State:
    """One state as in the file's header. `form` is VALUE, LIST, MAP and so on, or TIMERS."""

    name: str
    form: str
    namespace: Serializer
    value: Serializer


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, with `key` and `namespace` as read; only maps have a `map_key`, only timers a `time_ms`."""

    state: State
    key: Any
    namespace: Any
    value: Any = None
    map_key: Any = None
    time_ms: int | None = None


class FlinkKeyedFile:
    """The keyed state of one subtask, in the layout of savepoints if `canonical`, otherwise in the heap's own.

    Raises StateError for any other file, and UnknownSerializerError for an unsupported serializer.
    """

    def __init__(self, data: bytes, *, canonical: bool, key_groups: int) -> None:
        self._data, self._canonical, self._wide = data, canonical, key_groups > WIDE_KEY_GROUPS
        reader = Reader(data)
        if reader.number("i") != KEYED_VERSION:
            raise StateError("this is not keyed state of Flink 1.15 or newer")
        if reader.number("?"):
            raise StateError("keyed state that Flink compressed is not decoded here")
        reader.number("i")
        self.key = serializer_of(reader)
        self.states = tuple(self._state(reader) for _ in range(reader.number("h")))

    def _state(self, reader: Reader) -> State:
        name, kind = reader.text(), reader.number("i")
        options = {reader.text(): reader.text() for _ in range(reader.number("i"))}
        found = {}
        for _ in range(reader.number("i")):
            role = reader.text()
            reader.number("i")
            found[role] = serializer_of(reader)
        if kind == TIMERS:
            (timer,) = found.values()
            return State(name, TIMER_FORM, timer.parts[1], timer)
        return State(name, options["KEYED_STATE_TYPE"], found["NAMESPACE_SERIALIZER"], found["VALUE_SERIALIZER"])

    def key_group(self, group: int, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries of one key group, in the bytes from `start` to `end`."""
        reader = Reader(self._data[:end], start)
        return self._canonical_group(reader) if self._canonical else self._heap_group(reader, group)

    def _canonical_group(self, reader: Reader) -> Iterator[Entry]:
        """Read a state's number, then pairs of bytes for keys and values; the last pair is marked, and a number
        follows.
        """
        number = reader.number("H")
        while number != END_OF_GROUP:
            state, last = self.states[number], False
            while not last:
                key = bytearray(reader.take(reader.number("i")))
                last = bool(key[0] & LAST_OF_STATE)
                value = reader.take(reader.number("i"))
                yield self._entry(state, Reader(bytes(key), 2 if self._wide else 1), Reader(value))
            number = reader.number("H")

    def _entry(self, state: State, key: Reader, value: Reader) -> Entry:
        if state.form == TIMER_FORM:
            time_ms = _signed(key.number("Q") ^ (1 << 63))
            return Entry(state, self.key.read(key), state.namespace.read(key), time_ms=time_ms)
        entry = self.key.read(key), state.namespace.read(key)
        if state.form == "MAP":
            of_key, of_value = state.value.parts
            return Entry(state, *entry, map_key=of_key.read(key), value=_nullable(value, of_value))
        if state.form == "LIST":
            return Entry(state, *entry, value=list(_joined(value, state.value.parts[0])))
        return Entry(state, *entry, value=state.value.read(value))

    def _heap_group(self, reader: Reader, group: int) -> Iterator[Entry]:
        """Read the key group's number, then for each state its number, the number of its entries, and the entries."""
        if reader.number("i") != group:
            raise StateError(f"the bytes of key group {group} begin with another number")
        for _ in self.states:
            state = self.states[reader.number("h")]
            for _ in range(reader.number("i")):
                yield from self._heap_entry(state, reader)

    def _heap_entry(self, state: State, reader: Reader) -> Iterator[Entry]:
        if state.form == TIMER_FORM:
            time_ms = _signed(reader.number("Q") ^ (1 << 63))
            yield Entry(state, self.key.read(reader), state.namespace.read(reader), time_ms=time_ms)
            return
        namespace, key = state.namespace.read(reader), self.key.read(reader)
        value = state.value.read(reader)
        if state.form == "MAP":
            for map_key, held in value.items():
                yield Entry(state, key, namespace, held, map_key)
        else:
            yield Entry(state, key, namespace, value)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def _joined(reader: Reader, part: Serializer) -> Iterator[Any]:
    """Yield the elements of a list, which are separated by the byte of a comma."""
    while reader.at < len(reader.data):
        yield part.read(reader)
        if reader.at < len(reader.data) and reader.number("B") != JOINER:
            raise StateError("the elements of a list are not joined as Flink joins them")


# --- as columns -------------------------------------------------------------------------------------------------------

_ARROW = {
    **dict.fromkeys(("LongSerializer", "IntSerializer", "ShortSerializer", "ByteSerializer"), pa.int64()),
    **dict.fromkeys(("DoubleSerializer", "FloatSerializer"), pa.float64()),
    "BooleanSerializer": pa.bool_(),
    "BytePrimitiveArraySerializer": pa.binary(),
}


def table_of(state: State, key: Serializer, group: int, entries: Sequence[Entry]) -> pa.Table:
    """Return the entries of one state in one key group.

    Columns: key_group, key, and those of namespace, map_key, time_ms and value that the state has. Values other than
    numbers, bools and bytes are text.
    """
    columns = {"key_group": pa.array([group] * len(entries), pa.int32())}
    columns["key"] = _column(key, [each.key for each in entries])
    if state.namespace.name != "VoidNamespaceSerializer":
        columns["namespace"] = _column(state.namespace, [each.namespace for each in entries])
    if state.form == TIMER_FORM:
        return pa.table({"time_ms": pa.array([each.time_ms for each in entries], pa.int64()), **columns})
    value = state.value
    if state.form == "MAP":
        of_key, value = state.value.parts
        columns["map_key"] = _column(of_key, [each.map_key for each in entries])
    columns["value"] = _column(value, [each.value for each in entries])
    return pa.table(columns)


def _column(of: Serializer, values: Sequence[Any]) -> pa.Array:
    if of.name == "ListSerializer" and of.parts[0].name in _ARROW:
        return pa.array(values, pa.list_(_ARROW[of.parts[0].name]))
    kind = _ARROW.get(of.name)
    if kind is not None:
        return pa.array(values, kind)
    return pa.array([each if each is None or isinstance(each, str) else str(each) for each in values], pa.string())
