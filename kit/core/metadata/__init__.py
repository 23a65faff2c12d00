"""Flink's `_metadata`, versions 2 to 6, byte for byte: the description of a completed checkpoint.

`read_metadata(data, base)` returns the content and its layout, and `write_metadata(metadata, version)` returns the
bytes. The same codec carries subtask states between our own processes. Invalid bytes always raise a `MetadataError`.
"""

from kit.core.metadata.covered_output import LINEAGE, covered_output, hook_states, with_covered_output
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
    "LINEAGE",
    "NEWEST",
    "CheckpointMetadata",
    "MetadataError",
    "MetadataSection",
    "MetadataVersion",
    "covered_output",
    "decode_subtask_state",
    "decode_task_state_snapshot",
    "encode_subtask_state",
    "encode_task_state_snapshot",
    "hook_states",
    "metadata_sections",
    "read_metadata",
    "with_covered_output",
    "write_metadata",
]
