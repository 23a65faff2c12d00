"""Flink's serializers for Arrow's types: what a new state is declared with.

The snapshots are those that `Types.LONG`, `Types.STRING` and so on have; a job declares its state with these types.
"""

from __future__ import annotations

import pyarrow as pa

from kit.core.metadata.primitives import DataOutput
from kit.core.state.errors import CheckpointError
from kit.snapshots.serializers.reading import Reader
from kit.snapshots.serializers.serializer_snapshots import COMPOSITE, NESTED, SNAPSHOT_FORMAT, read_versioned
from kit.snapshots.serializers.types import Type

BASE = "org.apache.flink.api.common.typeutils.base."
SIMPLE_VERSION = COMPOSITE_VERSION = 3
_SIMPLE = {
    pa.int64(): "LongSerializer$LongSerializerSnapshot",
    pa.int32(): "IntSerializer$IntSerializerSnapshot",
    pa.int16(): "ShortSerializer$ShortSerializerSnapshot",
    pa.int8(): "ByteSerializer$ByteSerializerSnapshot",
    pa.float64(): "DoubleSerializer$DoubleSerializerSnapshot",
    pa.float32(): "FloatSerializer$FloatSerializerSnapshot",
    pa.bool_(): "BooleanSerializer$BooleanSerializerSnapshot",
    pa.string(): "StringSerializer$StringSerializerSnapshot",
    pa.binary(): "array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot",
    pa.date32(): "LocalDateSerializer$LocalDateSerializerSnapshot",
    pa.timestamp("ns", "UTC"): "InstantSerializer$InstantSerializerSnapshot",
}
VOID_NAMESPACE = "org.apache.flink.runtime.state.VoidNamespaceSerializer$VoidNamespaceSerializerSnapshot"


def snapshot_of(arrow: pa.DataType) -> bytes:
    """Return the snapshot of the serializer for a type. Raises CheckpointError for one that has none here."""
    arrow = pa.string() if pa.types.is_large_string(arrow) else arrow
    if arrow in _SIMPLE:
        return _snapshot(BASE + _SIMPLE[arrow])
    known = ", ".join(map(str, _SIMPLE))
    raise CheckpointError(f"no serializer is known for a new state of type {arrow}: cast it to one of {known}")


def list_of(element: bytes) -> bytes:
    """Return the snapshot of the serializer of lists of an element."""
    return _snapshot(f"{BASE}ListSerializerSnapshot", (element,))


def map_of(key: bytes, value: bytes) -> bytes:
    """Return the snapshot of the serializer of maps."""
    return _snapshot(f"{BASE}MapSerializerSnapshot", (key, value))


def void_namespace() -> bytes:
    """Return the snapshot of the serializer of the namespace of state without one."""
    return _snapshot(VOID_NAMESPACE)


def versioned(snapshot: bytes) -> bytes:
    """Return a snapshot with the version of its format in front."""
    return SNAPSHOT_FORMAT.to_bytes(4, "big") + snapshot


def type_of(snapshot: bytes) -> Type:
    """Return the type that a snapshot describes."""
    return read_versioned(Reader(versioned(snapshot)))


def _snapshot(name: str, nested: tuple[bytes, ...] = ()) -> bytes:
    out = DataOutput()
    out.utf(name)
    out.int32(COMPOSITE_VERSION if nested else SIMPLE_VERSION)
    if nested:
        for number in (COMPOSITE, 1, NESTED, 1, len(nested)):
            out.int32(number)
    return bytes(out) + b"".join(nested)
