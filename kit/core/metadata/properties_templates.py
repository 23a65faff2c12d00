"""The constant bytes around a serialized `CheckpointProperties`, as Flink 1.16 to 2.3 write them.

Java serialization describes each class where it first appears: its name, its serialVersionUID, its fields. The values
stand between these descriptions. Everything else is constant, because the references between the parts (`71 00 7e 00
09` is the tenth description) depend on the classes only.
"""

from __future__ import annotations


def _utf(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode("ascii")


def _class(name: str, suid: str, flags: int, *fields: bytes) -> bytes:
    """Return the description of a class: TC_CLASSDESC, name, serialVersionUID, flags, number of fields, fields."""
    return b"r" + _utf(name) + bytes.fromhex(suid) + bytes([flags]) + len(fields).to_bytes(2, "big") + b"".join(fields)


def _boolean(name: str) -> bytes:
    return b"Z" + _utf(name)


def _object(name: str, class_name: str) -> bytes:
    return b"L" + _utf(name) + b"t" + _utf(f"L{class_name.replace('.', '/')};")


_CHECKPOINT = "org.apache.flink.runtime.checkpoint."
_SERIALIZABLE = 0x02
_ENUM = 0x12
_NO_SUID = "00" * 8

STREAM_HEAD = bytes.fromhex("aced0005")
NULL = b"p"
OBJECT = b"s"
ENUM = b"~"
STRING = b"t"
END_OF_CLASS = b"x"
NO_SUPER_CLASS = b"p"

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

PROPERTIES_HEAD = (
    OBJECT
    + _class(
        f"{_CHECKPOINT}CheckpointProperties",
        "0000000000000002",
        _SERIALIZABLE,
        _boolean("discardCancelled"),
        _boolean("discardFailed"),
        _boolean("discardFinished"),
        _boolean("discardSubsumed"),
        _boolean("discardSuspended"),
        _boolean("forced"),
        _boolean("unclaimed"),
        _object("checkpointType", f"{_CHECKPOINT}SnapshotType"),
    )
    + END_OF_CLASS
    + NO_SUPER_CLASS
)

CHECKPOINT_TYPE_HEAD = (
    OBJECT
    + _class(
        f"{_CHECKPOINT}CheckpointType",
        "d6de4f0305ae1d3a",
        _SERIALIZABLE,
        _object("name", "java.lang.String"),
        _object("sharingFilesStrategy", f"{_CHECKPOINT}SnapshotType$SharingFilesStrategy"),
    )
    + END_OF_CLASS
    + NO_SUPER_CLASS
)

SAVEPOINT_TYPE_HEAD = (
    OBJECT
    + _class(
        f"{_CHECKPOINT}SavepointType",
        "a087d308a45814b8",
        _SERIALIZABLE,
        _object("formatType", "org.apache.flink.core.execution.SavepointFormatType"),
        _object("name", "java.lang.String"),
        _object("postCheckpointAction", f"{_CHECKPOINT}SavepointType$PostCheckpointAction"),
    )
    + END_OF_CLASS
    + NO_SUPER_CLASS
)

_ENUM_BASE = _class("java.lang.Enum", _NO_SUID, _ENUM) + END_OF_CLASS + NO_SUPER_CLASS
_ENUM_BASE_AGAIN = bytes.fromhex("71007e0009")

SHARING_HEAD = (
    ENUM + _class(f"{_CHECKPOINT}SnapshotType$SharingFilesStrategy", _NO_SUID, _ENUM) + END_OF_CLASS + _ENUM_BASE
)
FORMAT_HEAD = (
    ENUM + _class("org.apache.flink.core.execution.SavepointFormatType", _NO_SUID, _ENUM) + END_OF_CLASS + _ENUM_BASE
)
ACTION_HEAD = (
    ENUM + _class(f"{_CHECKPOINT}SavepointType$PostCheckpointAction", _NO_SUID, _ENUM) + END_OF_CLASS + _ENUM_BASE_AGAIN
)
