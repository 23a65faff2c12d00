"""The mapping from new subtasks and channels to the old ones they take over, for recovered in-flight data.

`RescaleMappings` is a table source -> targets (new -> old, or inverted old -> new). An
`InflightDataRescalingDescriptor` describes each input gate or output partition of one subtask. It says whose in-flight
data the subtask recovers (`old_subtasks`), and how the channels at the other end moved (`channels`). It also lists the
old subtasks whose data others recover as well (`ambiguous`), so that their records must be filtered. Both ends use the
same two tables, in opposite directions. Follows Flink's classes of the same names (2.3; 1.11 cannot rescale in-flight
data).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class RescaleMappings:
    """A table from `sources` sources to `targets` targets: `mappings[source]` are the targets, in order.

    Trailing sources without targets are left out of `mappings`. The identity has an empty table, and sources beyond
    `targets` map to nothing. Two tables are equal if they map alike, whatever their sizes.
    """

    sources: int
    targets: int
    mappings: tuple[tuple[int, ...], ...]
    is_identity: bool = False

    @classmethod
    def of(cls, mapped: Iterable[Sequence[int]], targets: int) -> RescaleMappings:
        """Return the table of these targets, source by source."""
        table = tuple(row if type(row) is tuple else tuple(row) for row in mapped)
        if _is_identity(table, targets):
            return cls.identity(len(table), targets)
        used = len(table)
        while used and not table[used - 1]:
            used -= 1
        return cls(len(table), targets, table[:used])

    @classmethod
    def identity(cls, sources: int, targets: int) -> RescaleMappings:
        """Return the table that maps each source to the target of the same number."""
        return cls(sources, targets, (), is_identity=True)

    def mapped_indexes(self, source: int) -> tuple[int, ...]:
        """Return the targets of one source; none for an unknown source."""
        if self.is_identity:
            return (source,) if source < self.targets else ()
        return self.mappings[source] if source < len(self.mappings) else ()

    def invert(self) -> RescaleMappings:
        """Return the table from targets to sources."""
        if self.is_identity:
            return RescaleMappings.identity(self.targets, self.sources)
        sources: dict[int, list[int]] = {}
        for source, row in enumerate(self.mappings):  # a mapper may use one row for all sources: check it once
            sources.setdefault(id(row), []).append(source)
        found: list[list[tuple[int, ...]]] = [[] for _ in range(self.targets)]
        for same in map(tuple, sources.values()):
            for target in self.mappings[same[0]]:
                found[target].append(same)
        inverted = [parts[0] if len(parts) == 1 else tuple(sorted(chain.from_iterable(parts))) for parts in found]
        return RescaleMappings.of(inverted, self.sources)

    def ambiguous_targets(self) -> frozenset[int]:
        """Return the targets that are reached more than once."""
        rows = {id(row): row for row in self.mappings}
        times = Counter(id(row) for row in self.mappings)  # a mapper may use one row for all sources: count it once
        reached: set[int] = set()
        ambiguous: set[int] = set()
        for key, row in rows.items():
            for target in row:
                (ambiguous if target in reached or times[key] > 1 else reached).add(target)
        return frozenset(ambiguous)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RescaleMappings):
            return NotImplemented
        return self.is_identity == other.is_identity and self.mappings == other.mappings

    def __hash__(self) -> int:
        return hash((self.is_identity, self.mappings))

    def __repr__(self) -> str:
        if self.is_identity:
            return f"RescaleMappings.identity({self.sources}, {self.targets})"
        shown = [", ".join(f"{source}: {list(row)}" for source, row in enumerate(self.mappings[:8]))]
        return f"RescaleMappings({{{''.join(shown)}{', …' * (len(self.mappings) > 8)}}} of {self.targets})"

    @property
    def flink_repr(self) -> str:
        """Flink's text for the table; its messages quote it."""
        if self.is_identity:
            return f"IdentityRescaleMappings{{{self.sources}->[]}}"
        return f"RescaleMappings{{mappings=[{', '.join(str(list(row)) for row in self.mappings)}]}}"


def _is_identity(table: tuple[tuple[int, ...], ...], targets: int) -> bool:
    if len(table) < targets or any(table[source] != (source,) for source in range(targets)):
        return False
    return not any(table[targets:])


SYMMETRIC_IDENTITY = RescaleMappings.identity(UNLIMITED, UNLIMITED)
"""The identity of any size: no channel moved."""


class MappingType(Enum):
    """The relation of a gate or partition to its recovered buffers."""

    NO_STATE = "NO_STATE"
    IDENTITY = "IDENTITY"
    RESCALING = "RESCALING"


@dataclass(frozen=True, slots=True)
class GateOrPartitionRescalingDescriptor:
    """The way in which one input gate, or output partition, of one subtask recovers its in-flight data.

    `old_subtasks` are the old subtasks of this vertex whose buffers it recovers. `channels` is the new -> old table of
    the subtasks at the other end: upstream for a gate, downstream for a partition. `ambiguous` are the old subtasks
    that some other new subtask recovers too. Source: `InflightDataGateOrPartitionRescalingDescriptor`.
    """

    old_subtasks: tuple[int, ...]
    channels: RescaleMappings
    ambiguous: frozenset[int]
    mapping_type: MappingType

    @property
    def is_identity(self) -> bool:
        """True if buffers return to the channels they came from."""
        return self.mapping_type is not MappingType.RESCALING

    def __repr__(self) -> str:
        if self.mapping_type is MappingType.NO_STATE:
            return "NO_STATE"
        filtered = f", filtered: {sorted(self.ambiguous)}" if self.ambiguous else ""
        return f"{self.mapping_type.name}(old subtasks {list(self.old_subtasks)}{filtered}, {self.channels!r})"


NO_STATE = GateOrPartitionRescalingDescriptor((), SYMMETRIC_IDENTITY, frozenset(), MappingType.NO_STATE)
"""A gate or partition without in-flight data at either end."""


@dataclass(frozen=True, slots=True)
class InflightDataRescalingDescriptor:
    """The way in which one subtask recovers the in-flight data of one side: a descriptor per gate or partition."""

    gates: tuple[GateOrPartitionRescalingDescriptor, ...]

    @property
    def is_rescaling(self) -> bool:
        """True if any buffer may have to move to another channel."""
        return bool(self.gates)

    def old_subtasks(self, gate: int) -> tuple[int, ...]:
        """Return the old subtasks whose buffers the gate (or partition) recovers; none if nothing is rescaled."""
        return self.gates[gate].old_subtasks if self.gates else ()

    def channel_mapping(self, gate: int) -> RescaleMappings:
        """Return the new -> old table of the channels of the gate (or partition)."""
        return self.gates[gate].channels if self.gates else SYMMETRIC_IDENTITY

    def is_ambiguous(self, gate: int, old_subtask: int) -> bool:
        """Return True if another new subtask recovers this old subtask's data too, so that records must be filtered."""
        return bool(self.gates) and old_subtask in self.gates[gate].ambiguous

    def __repr__(self) -> str:
        return f"Rescaling({', '.join(map(repr, self.gates))})" if self.gates else "NO_RESCALE"


NO_RESCALE = InflightDataRescalingDescriptor(())
"""A descriptor without rescaling: every buffer returns to its channel."""
