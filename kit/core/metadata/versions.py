"""The versions of `_metadata`: what each one adds, and which Flink writes it.

Readers accept all of them. The version number does not determine the layout: Flink 1.12 changed the layout of channel
state, and 1.15 that of changelog handles, without a new number, so version 3 has three layouts.

Source: `MetadataV2Serializer` to `MetadataV6Serializer`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ChannelLayout(Enum):
    """The layout of channel state."""

    NONE = "none"
    WITHOUT_SUBTASK = "one handle per channel, without the index of its subtask"
    WITH_SUBTASK = "one handle per channel"
    TYPED = "each handle with its type, and handles for many channels"


class ChangelogLayout(Enum):
    """The layout of changelog handles: each adds fields."""

    FLINK_1_14 = "without ids and sizes"
    FLINK_1_15 = "with ids and sizes"
    FLINK_1_16 = "with checkpoint id and storage identifier"


@dataclass(frozen=True, slots=True, repr=False)
class MetadataVersion:
    """One layout of the file: its `number`, and the Flink versions that write it (`written_by`).

    Each follows an implementation of Flink's `MetadataSerializer`.
    """

    number: int
    written_by: str
    coordinators: bool = True
    """Operator coordinators have state."""
    finished_markers: bool = True
    """Operators and subtasks can be marked as finished."""
    channels: ChannelLayout = ChannelLayout.WITH_SUBTASK
    handle_ids: bool = True
    """Keyed handles record their id and the size that the checkpoint wrote."""
    changelog: ChangelogLayout = ChangelogLayout.FLINK_1_16
    properties: bool = True
    """`CheckpointProperties` follow the operators."""
    names: bool = True
    """Operators have a name and a uid."""
    internal: bool = False
    """Not a file but our own socket: several handles of each kind, and relative handles keep their full path."""

    def __repr__(self) -> str:
        return f"MetadataVersion({self.number}, {self.written_by})"


V2 = MetadataVersion(
    2,
    "Flink 1.3 to 1.10",
    coordinators=False,
    finished_markers=False,
    channels=ChannelLayout.NONE,
    handle_ids=False,
    properties=False,
    names=False,
)
V3_FLINK_1_11 = MetadataVersion(
    3,
    "Flink 1.11",
    finished_markers=False,
    channels=ChannelLayout.WITHOUT_SUBTASK,
    handle_ids=False,
    changelog=ChangelogLayout.FLINK_1_14,
    properties=False,
    names=False,
)
V3_FLINK_1_14 = MetadataVersion(
    3, "Flink 1.14", handle_ids=False, changelog=ChangelogLayout.FLINK_1_14, properties=False, names=False
)
V3 = MetadataVersion(3, "Flink 1.12 to 1.15", changelog=ChangelogLayout.FLINK_1_15, properties=False, names=False)
V4 = MetadataVersion(4, "Flink 1.16 to 1.20", names=False)
V5 = MetadataVersion(5, "Flink 2.0")
V6 = MetadataVersion(6, "Flink 2.1 and later", channels=ChannelLayout.TYPED)

LAYOUTS: dict[int, tuple[MetadataVersion, ...]] = {
    2: (V2,),
    3: (V3, V3_FLINK_1_11, V3_FLINK_1_14),
    4: (V4,),
    5: (V5,),
    6: (V6,),
}
"""The layouts of each version number, the most likely first; the right one ends exactly at a file's last byte."""

NEWEST = V6

SOCKET = MetadataVersion(0, "this kit, between its own processes", channels=ChannelLayout.TYPED, internal=True)
