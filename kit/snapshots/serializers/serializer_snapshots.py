"""Snapshots of serializers: parsed for names and types; no class named in them is loaded.

A snapshot is the name of its class, a version, and a body that only that class can read. Flink's own
snapshots are known here. Another class's body is skipped if it is made of nested snapshots, else assumed to be empty,
as that of most serializers that users write; where that is wrong the next item cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit.core.state.errors import CheckpointError, DamagedError
from kit.snapshots.serializers.avro import avro_type
from kit.snapshots.serializers.basic import BASIC, BYTES, INTEGER, LONG, Enumeration, read_string
from kit.snapshots.serializers.composite import Either, MaskedList, Optional, Row, Timer, Ttl, tuple_of
from kit.snapshots.serializers.java_objects import read_java_object
from kit.snapshots.serializers.kryo import KryoValue, is_simple
from kit.snapshots.serializers.opaque import Opaque
from kit.snapshots.serializers.operators import (
    DEWEY_NUMBER,
    EVENT_ID,
    StreamElement,
    TaggedUnion,
    buffer_node,
    buffered,
    edge,
    matches,
    node_id,
    struct,
    transactions,
)
from kit.snapshots.serializers.pojo import Pojo
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.table import (
    RAW_DATA,
    STRING_DATA,
    DecimalData,
    Framed,
    RowData,
    SqlType,
    array_bytes,
    array_type,
    array_values,
    logical_type,
    map_bytes,
    map_type,
    map_values,
)
from kit.snapshots.serializers.temporal import TEMPORAL, sql_timestamp
from kit.snapshots.serializers.types import Mapping, Sequential, Type, list_of, map_of, set_of

COMPOSITE, NESTED = 911108, 1333245
OPTIONAL_MAP = 0x4F2C69A3D70
SNAPSHOT_FORMAT = 2
NO_SERIALIZER = bytes(4)
"""The end of a registration with Kryo for which no serializer was given."""
FLINK = "org.apache.flink."
ReadBody = Callable[[Reader, int], Type]
"""Reads the body of a snapshot, whose version is given."""


def read_versioned(reader: Reader) -> Type:
    """Read a snapshot with the version of its format in front. Raises CheckpointError."""
    found = reader.int32()
    if found != SNAPSHOT_FORMAT:
        reader.at -= 4
        raise reader.error(
            f"format {found} of a serializer's snapshot", f"{SNAPSHOT_FORMAT}, which Flink 1.8 and newer write"
        )
    return read_serializer(reader)


def read_serializer(reader: Reader) -> Type:
    """Read a snapshot, and return the type of the values that its serializer writes. Raises CheckpointError."""
    reader.enter("a serializer's snapshot")
    class_name, version = reader.utf(), reader.int32()
    found = _known(reader, class_name, version)
    reader.leave()
    return found


def serializer_name(class_name: str) -> str:
    """Return the serializer's class without its package, from that of its snapshot."""
    return class_name.rpartition(".")[2].partition("$")[0].removesuffix("Snapshot")


def _known(reader: Reader, class_name: str, version: int) -> Type:
    name = serializer_name(class_name)
    if not class_name.startswith(FLINK):
        return _unknown(reader, class_name)
    read = _READ.get(name)
    if read is not None:
        return read(reader, version)
    found = BASIC.get(name) or TEMPORAL.get(name)
    if found is None:
        return _unknown(reader, class_name)
    if version == 2 and name not in ("TimeWindow", "CountWindow", "GlobalWindow"):
        reader.utf()  # Flink 1.7 repeated the serializer's class
    return found


def _unknown(reader: Reader, class_name: str) -> Opaque:
    """Skip the body of an unknown snapshot: nested ones behind the bytes of its own, or nothing."""
    head = reader.data[reader.at : min(reader.at + 4, reader.end)]
    if head == COMPOSITE.to_bytes(4, "big"):
        reader.skip(8)
        place = reader.data.find(_NESTED_MARK, reader.at, reader.end)
        if place >= 0:
            reader.at = place
            _nested(reader)
    return _opaque(reader, class_name)


_NESTED_MARK = NESTED.to_bytes(4, "big") + (1).to_bytes(4, "big")


def _opaque(reader: Reader, class_name: str) -> Opaque:
    return Opaque(class_name, reader.decoders.get(class_name))


def _nested(reader: Reader, many: int | None = None) -> tuple[Type, ...]:
    reader.expect(NESTED, "nested serializers")
    reader.int32()
    found = tuple(read_serializer(reader) for _ in range(reader.count("nested serializers", 6)))
    if many is not None and len(found) != many:
        raise reader.error(f"{len(found)} nested serializers", str(many))
    return found


def _outer(reader: Reader, version: int) -> int:
    """Read the head of a snapshot with nested ones, and return the version of what follows it."""
    if version <= 2:
        return version
    reader.expect(COMPOSITE, "a serializer made of others")
    return reader.int32()


def _made_of(many: int, make: Callable[..., Type]) -> ReadBody:
    """Return the reader of a body of `many` nested snapshots alone, from whose types the type is made."""

    def read(reader: Reader, version: int) -> Type:
        _outer(reader, version)
        return make(*_nested(reader, many))

    return read


def _struct_of(name: str, *fields: str) -> ReadBody:
    """Return the reader of a body whose nested snapshots are those of the fields of a struct."""
    return _made_of(len(fields), lambda *parts: struct(name, **dict(zip(fields, parts, strict=True))))


def _without_body(found: Type) -> ReadBody:
    return lambda reader, version: found


def _tuple(reader: Reader, version: int) -> Type:
    _outer(reader, version)
    name = reader.utf()
    parts = _nested(reader)
    return tuple_of(parts, "" if name.startswith(FLINK) else name)


def _row(reader: Reader, version: int) -> Type:
    outer = _outer(reader, version)
    writes_kind = outer == 3 if outer <= 3 else reader.boolean()
    return Row(_nested(reader), writes_kind=writes_kind)


def _linked_list(reader: Reader, version: int) -> Type:
    outer = _outer(reader, version)
    has_mask = outer == 2 if outer <= 2 else reader.boolean()
    (element,) = _nested(reader, 1)
    name = f"LinkedList<{element.name}>"
    return MaskedList(name, element) if has_mask else Sequential(name, element)


def _sorted_map(reader: Reader, version: int) -> Type:
    read_java_object(reader)
    key, value = _nested(reader, 2)
    return Mapping(f"SortedMap<{key.name}, {value.name}>", key, value, null_values=False)


def _nullable(reader: Reader, version: int) -> Type:
    _outer(reader, version)
    padding = reader.int32()
    if padding < 0:
        raise reader.error(f"a padding of {padding} bytes", "0 or more")
    (inner,) = _nested(reader, 1)
    return Optional(inner.name, inner, null_flag=True, padding=padding)


def _array(reader: Reader, version: int) -> Type:
    _outer(reader, version)
    reader.utf()
    (element,) = _nested(reader, 1)
    return Sequential(f"{element.name}[]", element, flag=0)


def _ttl_aware(reader: Reader, version: int) -> Type:
    reader.boolean()
    return read_serializer(reader)


def _enum(reader: Reader, version: int) -> Type:
    name = reader.utf()
    many = reader.count("values of an enum", 2)
    return Enumeration(name.rpartition(".")[2].rpartition("$")[2], tuple(reader.utf() for _ in range(many)))


def _expect_names(reader: Reader) -> None:
    mark = reader.int64()
    if mark != OPTIONAL_MAP:
        raise reader.error(mark, f"{OPTIONAL_MAP}, the mark of a map of names")


def _optional_map(reader: Reader) -> list[tuple[str, bytes, Type | None]]:
    """Read names with two items each: bytes, and the snapshot of a serializer. Either may be missing."""
    _expect_names(reader)
    found = []
    for _ in range(reader.count("names", 4)):
        name = reader.utf()
        first = reader.blob() if reader.boolean() else b""
        second: Type | None = None
        if reader.boolean():
            size = reader.count("bytes of a snapshot")
            inner = Reader(reader.data, reader.at, reader.at + size)
            inner.depth, inner.decoders = reader.depth, reader.decoders
            try:
                second = read_serializer(inner)
            except CheckpointError as error:
                raise error.about(f"field {name}") from error
            reader.skip(size)
        found.append((name, first, second))
    return found


def _pojo(reader: Reader, version: int) -> Type:
    class_name = reader.utf()
    fields, tagged, known = (
        [(name, part if part is not None else Opaque(name)) for name, _, part in _optional_map(reader)]
        for _ in range(3)
    )
    return Pojo(class_name, fields, tagged, known)


def _kryo(reader: Reader, version: int) -> Type:
    """Read the classes that are registered with Kryo, and the serializers that users gave it for some or for all."""
    class_name = reader.utf()
    registered, *defaults = (_kryo_names(reader) for _ in range(3))
    is_own = any(defaults) or any(
        name == class_name and not held.endswith(NO_SERIALIZER) for name, held in registered if held
    )
    decoders = reader.decoders
    if is_own or not decoders.has_kryo_5 or not is_simple(class_name):
        return _opaque(reader, class_name)
    return KryoValue(class_name, [name for name, _ in registered], decoders.get(class_name))


def _kryo_names(reader: Reader) -> list[tuple[str, bytes]]:
    """Read names, of each the last of the two items that it may have."""
    _expect_names(reader)
    found = []
    for _ in range(reader.count("names", 4)):
        name = reader.utf()
        items = [reader.blob() if reader.boolean() else b"" for _ in range(2)]
        found.append((name, items[-1]))
    return found


def _generic(reader: Reader, version: int) -> Type:
    return _opaque(reader, reader.utf())


def _avro(reader: Reader, version: int) -> Type:
    if version > 2:
        read_string(reader)
    elif version == 2:
        reader.utf()
    return _described(reader, avro_type, reader.utf() if version <= 2 else read_string(reader) or "")


def _described(reader: Reader, type_of: Callable[[Any], Any], description: Any) -> Any:
    """Return the type that a description stands for, which ends where the reader is."""
    try:
        return type_of(description)
    except DamagedError as error:
        raise error.moved(reader.at) from error


# --- Table API and SQL ------------------------------------------------------------------------------------------------


def _logical(reader: Reader) -> SqlType:
    return _described(reader, logical_type, read_java_object(reader))


def _row_data(reader: Reader, version: int) -> Type:
    types = [_logical(reader) for _ in range(reader.count("fields", 4))]
    _nested(reader)
    return RowData(types)


def _binary_row(reader: Reader, version: int) -> Type:
    reader.int32()
    return BYTES


def _sql_timestamp(reader: Reader, version: int) -> Type:
    precision = reader.int32()
    return sql_timestamp(f"TIMESTAMP({precision})", precision, is_local=False)


def _sql_array(reader: Reader, version: int) -> Type:
    element = _logical(reader)
    read_java_object(reader)
    return Framed(array_type(element), partial(array_values, element=element), partial(array_bytes, element=element))


def _sql_map(reader: Reader, version: int) -> Type:
    key, value = (_logical(reader) for _ in range(2))
    for _ in range(2):
        read_java_object(reader)
    return Framed(
        map_type(key, value), partial(map_values, key=key, value=value), partial(map_bytes, key=key, value=value)
    )


def _external(reader: Reader, version: int) -> Type:
    _outer(reader, version)
    read_java_object(reader)
    reader.boolean()
    return _nested(reader, 1)[0]


# --- Flink's own operators --------------------------------------------------------------------------------------------


def _matches(reader: Reader, version: int) -> Type:
    outer = _outer(reader, version)
    has_previous = outer > 1 and reader.boolean()
    return matches(*_nested(reader, 3), has_previous=has_previous)


def _row_key(reader: Reader, version: int) -> Type:
    for _ in range(2):
        reader.blob("bytes of generated code")
    return read_versioned(reader)


_VIEW = _made_of(1, lambda inner: inner)
_EITHER = _made_of(2, Either)
_OPTION = _made_of(1, lambda inner: Optional(f"Option<{inner.name}>", inner, null_flag=False))
_LOCKABLE = _made_of(1, lambda inner: struct(f"Lockable<{inner.name}>", references=INTEGER, element=inner))
_READ: dict[str, ReadBody] = {
    "TupleSerializer": _tuple,
    "ScalaCaseClassSerializer": _tuple,
    "Tuple2CaseClassSerializer": _tuple,
    "RowSerializer": _row,
    "ListSerializer": _made_of(1, list_of),
    "ArrayListSerializer": _made_of(1, list_of),
    "SetSerializer": _made_of(1, set_of),
    "LinkedListSerializer": _linked_list,
    "MapSerializer": _made_of(2, map_of),
    "NullAwareMapSerializer": _made_of(2, partial(map_of, null_keys=True)),
    "SortedMapSerializer": _sorted_map,
    "ListViewSerializer": _VIEW,
    "MapViewSerializer": _VIEW,
    "JavaEitherSerializer": _EITHER,
    "EitherSerializer": _EITHER,
    "ScalaEitherSerializer": _EITHER,
    "ScalaOptionSerializer": _OPTION,
    "OptionSerializer": _OPTION,
    "NullableSerializer": _nullable,
    "GenericArraySerializer": _array,
    "TtlStateFactory": _made_of(2, lambda _, inner: Ttl(inner)),
    "TtlAwareSerializer": _ttl_aware,
    "TimerSerializer": _made_of(2, Timer),
    "EnumSerializer": _enum,
    "PojoSerializer": _pojo,
    "KryoSerializer": _kryo,
    "ValueSerializer": _generic,
    "WritableSerializer": _generic,
    "CopyableValueSerializer": _generic,
    "AvroSerializer": _avro,
    "JavaSerializer": lambda reader, _: _opaque(reader, "java.io.Serializable"),
    "RowDataSerializer": _row_data,
    "BinaryRowDataSerializer": _binary_row,
    "DecimalDataSerializer": lambda reader, _: DecimalData(reader.int32(), reader.int32()),
    "TimestampDataSerializer": _sql_timestamp,
    "ArrayDataSerializer": _sql_array,
    "MapDataSerializer": _sql_map,
    "RawValueDataSerializer": _made_of(1, lambda _: RAW_DATA),
    "ExternalSerializer": _external,
    "WindowKeySerializer": _made_of(1, lambda row: struct(f"WindowKey<{row.name}>", window=LONG, key=row)),
    "StringDataSerializer": _without_body(STRING_DATA),
    "Lockable": _LOCKABLE,
    "LockableTypeSerializer": _LOCKABLE,
    "StreamElementSerializer": _made_of(1, StreamElement),
    "IntervalJoinOperator": _made_of(1, buffered),
    "CoGroupedStreams": _made_of(2, TaggedUnion),
    "TwoPhaseCommitSinkFunction": _made_of(2, transactions),
    "EventId": _without_body(EVENT_ID),
    "DeweyNumber": _without_body(DEWEY_NUMBER),
    "NodeId": _made_of(1, node_id),
    "SharedBufferEdge": _made_of(2, edge),
    "SharedBufferNodeSerializerSnapshotV2": _made_of(1, buffer_node),
    "NFAStateSerializer": _matches,
    "RowDataKeySerializer": _row_key,
    "NodeSerializer": _struct_of("Node", "row", "sequence", "previous", "next", "next_of_row", "time_ms"),
    "MetaSqnInfoSerializer": _struct_of("MetaSqnInfo", "last", "size"),
    "RowSqnInfoSerializer": _struct_of("RowSqnInfo", "first", "last"),
}
"""By the class of the serializer, or of the class that holds it, without its package."""
