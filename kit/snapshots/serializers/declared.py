"""Flink's serializers for Arrow's types: what a new state is declared with.

The snapshots are those that `Types.LONG`, `Types.STRING` and so on have; a job declares its state with these types.
"""

from __future__ import annotations

import pyarrow as pa

from kit.core.arrow_kinds import kind_of
from kit.core.metadata.primitives import DataOutput
from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.serializer_snapshots import COMPOSITE, NESTED, SNAPSHOT_FORMAT, read_versioned
from kit.snapshots.serializers.types import Type

BASE = "org.apache.flink.api.common.typeutils.base."
SIMPLE_VERSION = COMPOSITE_VERSION = 3
_SHORT = "int64, int32, int16, int8, double, float, bool, string, binary, date32[day], decimal, time, timestamp"
"""The types with a serializer (`ArrowKind.flink`), for messages."""
RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
ROW_VERSION, TUPLE_VERSION, TTL_VERSION, MOST_TUPLE_FIELDS = 4, 2, 2, 25
TTL_VALUE = "org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot"
VOID_NAMESPACE = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"


def snapshot_of(arrow: pa.DataType, *, is_key: bool = False) -> bytes:
    """Return the snapshot of the serializer for a type. Raises CheckpointError for one that has none here.

    A struct is a row, whose fields may be null; a key is a tuple instead, since rows as keys have no stable hash code.
    """
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if pa.types.is_struct(arrow) and 0 < arrow.num_fields <= (MOST_TUPLE_FIELDS if is_key else arrow.num_fields):
        nested = tuple(snapshot_of(field.type, is_key=is_key) for field in arrow)
        if not is_key:
            return _snapshot(f"{RUNTIME}RowSerializer$RowSerializerSnapshot", nested, ROW_VERSION, b"\1")
        outer = DataOutput()
        outer.utf(f"org.apache.flink.api.java.tuple.Tuple{len(nested)}")
        return _snapshot(f"{RUNTIME}TupleSerializerSnapshot", nested, TUPLE_VERSION, bytes(outer))
    if not is_key and kind_of(arrow).python is list:
        return list_of(snapshot_of(arrow.value_type))
    if not is_key and pa.types.is_map(arrow):
        return map_of(snapshot_of(arrow.key_type), snapshot_of(arrow.item_type))
    if found := kind_of(arrow).flink:
        if found == "LocalDateTime" and arrow.tz is not None:
            found = "Instant"
        return _snapshot(f"{BASE}{found}Serializer${found.rpartition('.')[2]}SerializerSnapshot")
    raise CheckpointError(
        f"no serializer is known for a new state of type {arrow}: cast it to one of {_SHORT}, or a "
        f"struct{'' if is_key else ', list or map'} of these"
    )


def list_of(element: bytes) -> bytes:
    """Return the snapshot of the serializer of lists of an element."""
    return _snapshot(f"{BASE}ListSerializerSnapshot", (element,))


def map_of(key: bytes, value: bytes) -> bytes:
    """Return the snapshot of the serializer of maps."""
    return _snapshot(f"{BASE}MapSerializerSnapshot", (key, value))


def ttl_of(value: bytes) -> bytes:
    """Return the snapshot of the serializer of values with the time of their last access (`TtlSerializer`)."""
    return _snapshot(TTL_VALUE, (snapshot_of(pa.int64()), value), TTL_VERSION)


def void_namespace() -> bytes:
    """Return the snapshot of the serializer of the namespace of state without one."""
    return _snapshot(VOID_NAMESPACE)


def versioned(snapshot: bytes) -> bytes:
    """Return a snapshot with the version of its format in front."""
    return SNAPSHOT_FORMAT.to_bytes(4, "big") + snapshot


def type_of(snapshot: bytes) -> Type:
    """Return the type that a snapshot describes."""
    return read_versioned(Reader(versioned(snapshot)))


def _snapshot(name: str, nested: tuple[bytes, ...] = (), version: int = 1, outer: bytes = b"") -> bytes:
    """Return a snapshot; one with nested snapshots has a version and data of its own before them."""
    out = DataOutput()
    out.utf(name)
    out.int32(COMPOSITE_VERSION if nested else SIMPLE_VERSION)
    if nested:
        out.int32(COMPOSITE)
        out.int32(version)
        out += outer
        for number in (NESTED, 1, len(nested)):
            out.int32(number)
    return bytes(out) + b"".join(nested)
