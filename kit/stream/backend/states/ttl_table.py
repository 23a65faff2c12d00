"""State tables with TTL: each entry has the time of its last access, and entries expire.

What all kinds have in common is here: when an entry has expired, and how a table checks other entries at each access.
A key run or a batch accesses the state once per row, and the checks of all these accesses are made before the first.
Follows `AbstractTtlDecorator` and `TtlIncrementalCleanup`.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import ClassVar, cast

import numpy as np
import pyarrow as pa

from kit.core.state.errors import StateDescriptorError
from kit.stream.backend.keys.key_codec import Column
from kit.stream.backend.keys.slot_index import FrozenIndex
from kit.stream.backend.spill.rows import Unexpired
from kit.stream.backend.states.descriptors import StateDescriptor
from kit.stream.backend.states.last_access import COLUMN, access_type
from kit.stream.backend.states.state_ttl_config import StateTtlConfig
from kit.stream.backend.states.tables import Slots, StateTable, Values, one_array
from kit.stream.backend.types.value_columns import FrozenColumn

_EARLIEST_MS = -(1 << 63)


class TtlTable(StateTable):
    """The entries of a state with TTL, of any kind. Without a descriptor (restored, not used yet), nothing expires."""

    expires: ClassVar[bool] = True

    ttl: StateTtlConfig | None = None
    returns_expired = False
    renews_on_read = False
    _ttl_ms = 0
    _cleanup_size = 0
    _cleaned = 0  # the slot with which the next check of other entries begins

    @property
    def access_type(self) -> pa.DataType:
        """The type of the last accesses of an entry."""
        return access_type(self.kind, self.stored_type)

    def adopt(self, descriptor: StateDescriptor) -> None:
        """Take over the TTL of a descriptor."""
        super().adopt(descriptor)
        if descriptor.ttl is None or self.ttl is not None:
            return
        self.ttl = descriptor.ttl
        self._ttl_ms = cast(int, self.ttl.time_to_live_ms)
        self.returns_expired, self.renews_on_read = self.ttl.returns_expired, self.ttl.renews_on_read
        self._cleanup_size = self.ttl.cleanup_size
        if self.ttl.cleanup_for_every_record and self._cleanup_size:
            self.context.on_selection(self.check_others)

    @property
    def value_fields(self) -> list[pa.Field]:
        """The columns of entries behind their keys: values and last accesses."""
        return [*super().value_fields, pa.field(COLUMN, self.access_type)]

    def now_ms(self) -> int:
        """Return the processing time. Raises StateError if the backend has no clock."""
        return self.context.now_ms()

    def limit_ms(self) -> int:
        """Return the time of the last access of entries that expire now; older ones have expired before."""
        return max(self.context.now_ms() - self._ttl_ms, _EARLIEST_MS)

    # ---- overridden by kinds of state --------------------------------------------------------------------------------

    @abstractmethod
    def get_accesses(self, slots: Slots) -> pa.Array:
        """Return the last accesses of entries, which all exist."""

    @abstractmethod
    def put_accesses(self, slots: Slots, accesses: pa.Array) -> None:
        """Set the last accesses of entries, which all exist."""

    @abstractmethod
    def look_at(self, slots: Slots) -> pa.Array:
        """Return what a read returns for each slot, null if nothing; remove what has expired, and renew the rest."""

    @abstractmethod
    def remove_expired(self, begin: int, end: int) -> None:
        """Remove what has expired of the entries in a range of slots."""

    @abstractmethod
    def expired_entries(self) -> Slots:
        """Return the slots of entries of which everything has expired."""

    @abstractmethod
    def without_expired(self, rows: pa.Table, limit_ms: int) -> pa.Table:
        """Return rows with values and last accesses, without what was accessed until `limit_ms`. Any thread may call
        it.
        """

    @abstractmethod
    def freeze_columns(self, size: int, *, without_expired: bool) -> tuple[FrozenColumn, ...]:
        """Return the entries of slots below `size` and their last accesses, safe from later changes."""

    def merge(self, into: Slots, slots: Slots) -> None:
        """Raise StateDescriptorError: only windows merge entries, and their state has no TTL."""
        raise StateDescriptorError(f"State {self.name!r} has a TTL: entries with a TTL do not merge")

    def _put_back(self, slots: Slots, rows: pa.Table) -> None:
        super()._put_back(slots, rows)
        self.put_accesses(slots, one_array(rows[COLUMN]))

    # ---- cleanup ------------------------------------------------------------------------------------------------

    def accessed(self) -> None:
        """Check other entries, because the state of the current key is accessed."""
        run = self.context.run
        if run is None:
            self.check_others(1)
        elif self.run.of is not run and not self.in_runs:  # otherwise it is done when the entries of the run are read
            self.check_others(len(run.keys))

    def check_others(self, accesses: int) -> None:
        """Remove what has expired among the next entries in turn: `cleanup_size` for each access, each at most once."""
        if not self._cleanup_size:
            return
        size = self.index.size
        begin = self._cleaned if self._cleaned < size else 0
        end = begin + min(accesses * self._cleanup_size, size)
        if end <= size:
            self._cleaned = end
            self.remove_expired(begin, end)
        else:
            self._cleaned = end - size
            self.remove_expired(begin, size)
            self.remove_expired(0, end - size)

    # ---- snapshot and restore -----------------------------------------------------------------------------------

    def freeze(self) -> tuple[FrozenIndex, tuple[FrozenColumn, ...]]:
        """Return the entries at this moment, without expired ones if the TTL says so."""
        without_expired = self.ttl is not None and self.ttl.cleanup_full_snapshot
        left_out = self.unset_slots
        if without_expired:
            left_out = np.concatenate((left_out, self.expired_entries()))
        return self.index.freeze(left_out), self.freeze_columns(self.index.size, without_expired=without_expired)

    def freeze_values(self) -> tuple[FrozenColumn, ...]:
        """Return the values and their last accesses at this moment, expired ones too."""
        return self.freeze_columns(self.index.size, without_expired=False)

    def unexpired(self) -> Unexpired | None:
        """Return what leaves out rows that have expired by now, if full snapshots are to."""
        return self._unexpired() if self.ttl is not None and self.ttl.cleanup_full_snapshot else None

    def unexpired_in_merges(self) -> Unexpired | None:
        """Return what leaves out rows that have expired by now, if entries that nobody reads are to be removed.

        Flink: the compaction filter of RocksDB, which `disableCleanupInBackground` turns off.
        """
        return self._unexpired() if self._cleanup_size else None

    def _unexpired(self) -> Unexpired:
        return partial(self.without_expired, limit_ms=self.limit_ms())

    def values_at(self, slots: Slots) -> tuple[pa.Array, ...]:
        """Return the values of entries, and their last accesses."""
        return self.get(slots), self.get_accesses(slots)

    def restore(
        self, keys: Column, namespaces: Column | None, values: Values, accesses: pa.ChunkedArray | None = None
    ) -> None:
        """Set entries with their last accesses; where there is none, entries that had no TTL, it is now."""
        self._set_all(keys, namespaces, values)
        if accesses is None:
            return
        slots = self.slots(keys, namespaces, create=False)
        column = accesses.combine_chunks()
        known = column.is_valid().to_numpy(zero_copy_only=False) & (slots >= 0)
        self.put_accesses(slots[known], column.filter(pa.array(known)))
