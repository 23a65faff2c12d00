"""The constant bytes around a serialized `CheckpointProperties`, as Flink 1.16 to 2.3 write them.

Java serialization describes each class where it first appears: its name, its serialVersionUID, its fields. The values
stand between these descriptions. Everything else is constant, because the references between the parts (`71 00 7e 00
09` is the tenth description) depend on the classes only.
"""

from __future__ import annotations

_CHECKPOINT = "org.apache.flink.runtime.checkpoint."
_SERIALIZABLE = 0x02
_ENUM = 0x12
_NO_SUID = "00" * 8

STREAM_HEAD = bytes.fromhex("aced0005")
NULL = b"p"
STRING = b"t"
END_OF_CLASS = b"x"
NO_SUPER_CLASS = b"p"


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode("ascii")


def _class(name: str, suid: str, flags: int, *fields: bytes) -> bytes:
    """Return the description of a class: TC_CLASSDESC, name, serialVersionUID, flags, number of fields, fields."""
    count = len(fields).to_bytes(2, "big")
    return b"r" + _utf(name) + bytes.fromhex(suid) + bytes([flags]) + count + b"".join(fields) + END_OF_CLASS


def _boolean(name: str) -> bytes:
    return b"Z" + _utf(name)


def _field(name: str, class_name: str) -> bytes:
    return b"L" + _utf(name) + b"t" + _utf(f"L{class_name.replace('.', '/')};")


def _object(name: str, suid: str, *fields: bytes) -> bytes:
    """Return what precedes the values of an object."""
    return b"s" + _class(f"{_CHECKPOINT}{name}", suid, _SERIALIZABLE, *fields) + NO_SUPER_CLASS


def _enum(name: str, base: bytes) -> bytes:
    """Return what precedes the name of an enum's constant; `base` describes `java.lang.Enum`, or refers to that."""
    return b"~" + _class(name, _NO_SUID, _ENUM) + base


BOOLEANS = (
    "discard_cancelled",
    "discard_failed",
    "discard_finished",
    "discard_subsumed",
    "discard_suspended",
    "forced",
    "unclaimed",
)
"""The fields of `CheckpointProperties` that are one byte each, in the order of the stream."""

PROPERTIES_HEAD = _object(
    "CheckpointProperties",
    "0000000000000002",
    _boolean("discardCancelled"),
    _boolean("discardFailed"),
    _boolean("discardFinished"),
    _boolean("discardSubsumed"),
    _boolean("discardSuspended"),
    _boolean("forced"),
    _boolean("unclaimed"),
    _field("checkpointType", f"{_CHECKPOINT}SnapshotType"),
)
CHECKPOINT_TYPE_HEAD = _object(
    "CheckpointType",
    "d6de4f0305ae1d3a",
    _field("name", "java.lang.String"),
    _field("sharingFilesStrategy", f"{_CHECKPOINT}SnapshotType$SharingFilesStrategy"),
)
SAVEPOINT_TYPE_HEAD = _object(
    "SavepointType",
    "a087d308a45814b8",
    _field("formatType", "org.apache.flink.core.execution.SavepointFormatType"),
    _field("name", "java.lang.String"),
    _field("postCheckpointAction", f"{_CHECKPOINT}SavepointType$PostCheckpointAction"),
)

_ENUM_BASE = _class("java.lang.Enum", _NO_SUID, _ENUM) + NO_SUPER_CLASS
_ENUM_BASE_AGAIN = bytes.fromhex("71007e0009")

SHARING_HEAD = _enum(f"{_CHECKPOINT}SnapshotType$SharingFilesStrategy", _ENUM_BASE)
FORMAT_HEAD = _enum("org.apache.flink.core.execution.SavepointFormatType", _ENUM_BASE)
ACTION_HEAD = _enum(f"{_CHECKPOINT}SavepointType$PostCheckpointAction", _ENUM_BASE_AGAIN)
