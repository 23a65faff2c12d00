"""Flink's `_metadata`, versions 2 to 6, byte for byte: the description of a completed checkpoint.

`read_metadata(data, base)` returns the content and its layout, and `write_metadata(metadata, version)` returns the
bytes. The same codec carries subtask states between our own processes. Invalid bytes always raise a `MetadataError`.
"""

from kit.core.metadata.primitives import MetadataError
from kit.core.metadata.sections import MetadataSection, metadata_sections
from kit.core.metadata.serializer import (
    CheckpointMetadata,
    decode_subtask_state,
    decode_task_state_snapshot,
    encode_subtask_state,
    encode_task_state_snapshot,
    read_metadata,
    write_metadata,
)
from kit.core.metadata.versions import LAYOUTS, NEWEST, MetadataVersion

__all__ = [
    "LAYOUTS",
    "NEWEST",
    "CheckpointMetadata",
    "MetadataError",
    "MetadataSection",
    "MetadataVersion",
    "decode_subtask_state",
    "decode_task_state_snapshot",
    "encode_subtask_state",
    "encode_task_state_snapshot",
    "metadata_sections",
    "read_metadata",
    "write_metadata",
]
