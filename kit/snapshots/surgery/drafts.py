"""The drafts of a new savepoint: for each operator its old state, and what is to change in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from kit.core.metadata import CheckpointMetadata, MetadataVersion
from kit.core.state.operator_state import OperatorState, without_in_flight_data
from kit.snapshots.checkpoints.keyed_parts import ArrowKeyedPart, KeyedPart, RawTimersPart, parts_of
from kit.snapshots.checkpoints.state_bytes import StateBytes
from kit.snapshots.formats.canonical import Pair
from kit.snapshots.formats.headers import KeyedState
from kit.snapshots.formats.headers import OperatorState as ListState
from kit.snapshots.serializers.reading import Decoders

ChangePairs = Callable[[KeyedState, int, Sequence[Pair]], Sequence[Pair]]
"""Change the pairs of one state in one key group, whose number is given."""
ChangeEntries = Callable[[ListState, Sequence[bytes]], Sequence[bytes]]
"""Change the entries of one list or broadcast state of a subtask."""


@dataclass(frozen=True)
class Origin:
    """The checkpoint that is edited: its metadata and the bytes behind it."""

    metadata: CheckpointMetadata
    layout: MetadataVersion
    source: StateBytes
    decoders: Decoders

    def keyed_parts(self, operator: OperatorState, subtask: int) -> list[KeyedPart | ArrowKeyedPart]:
        """Return the parts of a subtask's managed keyed state. Raises CheckpointError."""
        handles = operator.subtask_states[subtask].managed_keyed_state
        return list(parts_of(handles, (), self.source, operator.max_parallelism, self.decoders))

    def raw_timers(self, operator: OperatorState, subtask: int) -> list[RawTimersPart]:
        """Return the timers in a subtask's raw keyed state; other raw state is left out. Raises CheckpointError."""
        handles = operator.subtask_states[subtask].raw_keyed_state
        found = parts_of((), handles, self.source, operator.max_parallelism, self.decoders)
        return [each for each in found if isinstance(each, RawTimersPart)]


@dataclass(frozen=True)
class Draft:
    """One operator of the new savepoint.

    `old` is its state as it was, `new` the same with its new ids and numbers. Keyed state is rewritten in the canonical
    layout if `rewrites_keyed` is true, operator state if `rewrites_lists` is.
    """

    old: OperatorState
    new: OperatorState
    dropped: frozenset[str] = frozenset()
    """The names of states that are left out, keyed or not."""
    to_canonical: bool = False
    to_kit: bool = False
    """True if keyed state is written in the kit's own format, for a job of the kit."""
    change_pairs: tuple[ChangePairs, ...] = ()
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    """The rows that states get instead of their own, by the name of the state."""
    change_entries: Mapping[str, ChangeEntries] = field(default_factory=dict)

    @classmethod
    def of(cls, operator: OperatorState) -> Draft:
        """Return a draft without changes."""
        return cls(operator, operator)

    @property
    def is_rehashed(self) -> bool:
        """True if keys get other key groups."""
        return self.old.max_parallelism != self.new.max_parallelism

    @property
    def rewrites_keyed(self) -> bool:
        """True if the files of keyed state are written again."""
        return bool(
            self.to_canonical or self.to_kit or self.is_rehashed or self.dropped or self.change_pairs or self.rows
        )

    @property
    def rewrites_raw_keyed(self) -> bool:
        """True if timers in raw keyed state are written again."""
        return bool(self.is_rehashed or self.dropped or self.change_pairs)

    @property
    def rewrites_lists(self) -> bool:
        """True if the files of operator state are written again."""
        return bool(self.dropped or self.change_entries)

    @property
    def has_in_flight_data(self) -> bool:
        """True if a channel of the operator has data in flight."""
        states = self.new.subtask_states.values()
        return any(each.input_channel_state or each.result_subpartition_state for each in states)

    def without_in_flight_data(self) -> Draft:
        """Return the draft without data in flight."""
        return replace(self, new=without_in_flight_data(self.new))
