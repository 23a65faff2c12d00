"""`CheckpointProperties` at the end of `_metadata`: one Java-serialized object, since version 4.

Nothing is deserialized in Java's sense: the stream must consist of the known class descriptions
(`properties_templates`), and the values between them are read. Source: `MetadataV4Serializer`.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from kit.core.metadata import properties_templates as java
from kit.core.metadata.primitives import DataInput, DataOutput, MetadataError
from kit.core.protocol.properties import (
    CheckpointProperties,
    CheckpointType,
    PostCheckpointAction,
    SavepointFormatType,
    SavepointType,
    SharingFilesStrategy,
    SnapshotType,
)

EnumT = TypeVar("EnumT", bound=Enum)

_UNKNOWN = "write it with Flink 1.16 to 2.3, or tell this kit about the class"


def read_properties(source: DataInput) -> CheckpointProperties | None:
    """Read the properties at the end of the file; None if Flink wrote none."""
    _expect(source, java.STREAM_HEAD, "a Java object stream")
    if _next_is(source, java.NULL):
        return None
    _expect(source, java.PROPERTIES_HEAD, "a CheckpointProperties with serialVersionUID 2")
    flags = {name: _read_boolean(source, name) for name in java.BOOLEANS}
    return CheckpointProperties(_read_snapshot_type(source), **flags)


def write_properties(out: DataOutput, properties: CheckpointProperties | None) -> None:
    """Write the same bytes that Flink writes for these properties."""
    out += java.STREAM_HEAD
    if properties is None:
        out += java.NULL
        return
    out += java.PROPERTIES_HEAD
    for name in java.BOOLEANS:
        out.int8(getattr(properties, name))
    _write_snapshot_type(out, properties.snapshot_type)


def _read_snapshot_type(source: DataInput) -> SnapshotType:
    if _next_is(source, java.CHECKPOINT_TYPE_HEAD):
        name = _read_string(source, "the name of a checkpoint type")
        return CheckpointType(name, _read_enum(source, java.SHARING_HEAD, SharingFilesStrategy))
    if _next_is(source, java.SAVEPOINT_TYPE_HEAD):
        form = _read_enum(source, java.FORMAT_HEAD, SavepointFormatType)
        name = _read_string(source, "the name of a savepoint type")
        return SavepointType(name, _read_enum(source, java.ACTION_HEAD, PostCheckpointAction), form)
    raise source.error("another class", "a CheckpointType or a SavepointType", _UNKNOWN)


def _write_snapshot_type(out: DataOutput, snapshot_type: SnapshotType) -> None:
    if isinstance(snapshot_type, CheckpointType):
        out += java.CHECKPOINT_TYPE_HEAD
        _write_string(out, snapshot_type.name)
        out += java.SHARING_HEAD
        _write_string(out, snapshot_type.sharing.name)
    elif isinstance(snapshot_type, SavepointType):
        out += java.SAVEPOINT_TYPE_HEAD + java.FORMAT_HEAD
        _write_string(out, snapshot_type.format.name)
        _write_string(out, snapshot_type.name)
        out += java.ACTION_HEAD
        _write_string(out, snapshot_type.action.name)
    else:
        found = f"a snapshot type of class {type(snapshot_type).__name__}"
        raise MetadataError(found, "a CheckpointType or a SavepointType", "pass one of these")


def _read_boolean(source: DataInput, name: str) -> bool:
    value = source.int8(name)
    if value not in (0, 1):
        raise source.error(f"{value} for {name}", "0 or 1", offset=source.pos - 1)
    return value == 1


def _read_string(source: DataInput, what: str) -> str:
    _expect(source, java.STRING, f"a string, {what}")
    return source.utf(what)


def _write_string(out: DataOutput, text: str) -> None:
    out += java.STRING
    out.utf(text)


def _read_enum(source: DataInput, head: bytes, enum: type[EnumT]) -> EnumT:
    _expect(source, head, f"a {enum.__name__}")
    start = source.pos
    name = _read_string(source, f"a {enum.__name__}")
    try:
        return enum[name]
    except KeyError:
        raise source.error(f"{name!r}", f"one of {', '.join(enum.__members__)}", _UNKNOWN, start) from None


def _next_is(source: DataInput, expected: bytes) -> bool:
    """Return True if these bytes come next, and skip them."""
    found = source.data.startswith(expected, source.pos)
    if found:
        source.pos += len(expected)
    return found


def _expect(source: DataInput, expected: bytes, what: str) -> None:
    if not _next_is(source, expected):
        found = source.data[source.pos : source.pos + len(expected)]
        raise source.error(f"{found[:32].hex(' ') or 'the end'}", what, _UNKNOWN)
