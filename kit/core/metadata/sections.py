"""The sections of a `_metadata` file: its head, each master hook's state, each operator, the properties.

The codec reads the file again and records its position between two parts.
"""

from __future__ import annotations

from typing import NamedTuple

from kit.core.metadata.operator_states import read_operator_state
from kit.core.metadata.primitives import INT, LONG, DataInput
from kit.core.metadata.serializer import read_master_state, read_metadata
from kit.core.metadata.versions import MetadataVersion

HEAD, MASTER, OPERATOR, PROPERTIES = "head", "master hook", "operator", "properties"


class MetadataSection(NamedTuple):
    """Bytes `start` up to `end`: the state of `name`; for an operator, `operator_id` is its id."""

    what: str
    name: str
    start: int
    end: int
    operator_id: str = ""


def metadata_sections(data: bytes, base: str = "", version: MetadataVersion | None = None) -> list[MetadataSection]:
    """Return the sections of a `_metadata` file, in order and without gaps.

    `version` is the layout that `read_metadata` found, if it is known. Raises `MetadataError` as `read_metadata` does.
    """
    if version is None:
        _, version = read_metadata(data, base)
    source = DataInput(data, version, base)
    source.pos = INT.size * 2 + LONG.size
    masters = source.int32("master states")
    sections = [MetadataSection(HEAD, "magic number, version, checkpoint id", 0, source.pos)]
    for _ in range(masters):
        start = source.pos
        sections.append(MetadataSection(MASTER, read_master_state(source).name, start, source.pos))
    start = source.pos
    for _ in range(source.int32("operators")):
        state = read_operator_state(source)
        sections.append(MetadataSection(OPERATOR, state.label, start, source.pos, state.operator_id))
        start = source.pos
    if source.pos < source.end:
        sections.append(MetadataSection(PROPERTIES, "properties", source.pos, source.end))
    return sections
