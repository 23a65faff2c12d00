"""A change of a state's type between a checkpoint and a newer job, and what it means for the values.

The rules for Flink's serializers are in `kit.snapshots.serializers.compatibility`, those for the kit's own state in
`kit.stream.backend.types.evolution`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Compatibility(IntEnum):
    """The relation of a newer type to the bytes of an older one, the worst last."""

    AS_IS = 0
    MIGRATES = 1
    """Each value is read with the old type and kept with the new one."""
    INCOMPATIBLE = 2


@dataclass(frozen=True, slots=True)
class TypeChange:
    """One difference between two types: where it is ('' for the whole value), what it is, and what it means.

    `loses` is True if values that the checkpoint holds are dropped.
    """

    place: str
    what: str
    compatibility: Compatibility
    loses: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.what}" if self.place else self.what


def place_within(place: str, name: str) -> str:
    """Return the place of a part, named from the whole value: `route.stops`."""
    return f"{place}.{name}" if place and name else place or name
