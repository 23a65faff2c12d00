"""Tables of lists and maps with TTL, whose parts expire one by one: what both have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from kit.stream.backend.states.last_access import COLUMN, times_within
from kit.stream.backend.states.tables import KeyedState, Slots, one_array
from kit.stream.backend.states.ttl_table import TtlTable
from kit.stream.backend.types.value_columns import ContainerColumn, FrozenColumn, ObjectColumn, SomeSlots

Timed = tuple[Any, int]
"""A value and the time of its last access, in ms (`TtlValue`)."""


class TtlContainerState(KeyedState):
    """The list or map of the current key."""

    __slots__ = ()
    _table: TtlContainerTable

    def _seen(self) -> Any:
        """Return what a read of the whole entry returns; remove what has expired, and renew the rest."""
        table = self._table
        table.accessed()
        slot = self._slot()
        held = table.read(slot)
        if held is None:
            return ()
        found, left = table.seen(held)
        if left is None:
            self.clear()
        elif left is not held:
            table.write(slot, left)
        return found


class TtlContainerTable(TtlTable):
    """Lists or dicts of values with their times."""

    column: ContainerColumn

    @abstractmethod
    def seen(self, held: Any) -> tuple[Any, Any]:
        """Return what a read of an entry returns, and the entry that it leaves, None if nothing is left."""

    @staticmethod
    @abstractmethod
    def unexpired_of(held: Any, limit_ms: int) -> Any:
        """Return the parts of an entry accessed after `limit_ms`: itself if it is all, None if nothing is left.

        An empty entry has not expired.
        """

    @staticmethod
    @abstractmethod
    def values_of(held: Any) -> list[Any]:
        """Return the values of an entry as they are stored."""

    @staticmethod
    @abstractmethod
    def times_of(held: Any) -> list[Any]:
        """Return the times of an entry as they are stored."""

    @abstractmethod
    def timed(self, values: Any, times: list[int] | None = None) -> Any:
        """Return an entry of stored values with their times, in the same order; without times it is accessed now."""

    def new_column(self) -> ContainerColumn:
        """Return a column of entries that are changed in place."""
        return ContainerColumn(self.stored_type, self.timed, self.values_of)

    def get_accesses(self, slots: Slots) -> pa.Array:
        """Return the times of each entry."""
        return pa.array([self.times_of(self.column.get_one(slot)) for slot in slots.tolist()], self.access_type)

    def put_accesses(self, slots: Slots, accesses: pa.Array) -> None:
        """Set the times of each entry."""
        for slot, times in zip(slots.tolist(), times_within(accesses), strict=True):
            self.column.put_one(slot, self.timed(self.values_of(self.column.get_one(slot)), times))

    def look_at(self, slots: Slots) -> pa.Array:
        """Return what has not expired of each entry, or what is returned nevertheless."""
        found, gone = {}, []
        for slot in dict.fromkeys(slots.tolist()):
            held = self.read(slot)
            if held is None:
                continue
            found[slot], left = self.seen(held)
            if left is None:
                gone.append(slot)
            elif left is not held:
                self.write(slot, left)
        entries = pa.array([found.get(slot) or None for slot in slots.tolist()], self.stored_type)
        self.clear(np.array(gone, np.int64))
        return entries

    def remove_expired(self, begin: int, end: int) -> None:
        """Remove what has expired of the entries in a range of slots."""
        limit_ms = self.limit_ms()
        gone = []
        for slot in range(begin, end):
            held = self.read(slot)
            left = None if held is None else self.unexpired_of(held, limit_ms)
            if left is not held:
                if left is None:
                    gone.append(slot)
                else:
                    self.write(slot, left)
        self.clear(np.array(gone, np.int64))

    def expired_entries(self) -> Slots:
        """Return the slots of entries of which everything has expired."""
        limit_ms = self.limit_ms()
        slots = self.entries().tolist()
        return np.array([slot for slot in slots if self.unexpired_of(self.read(slot), limit_ms) is None], np.int64)

    def without_expired(self, rows: pa.Table, limit_ms: int) -> pa.Table:
        """Return the rows with the parts that were accessed after `limit_ms`, if there are any."""
        values, times = one_array(rows["value"]).to_pylist(), times_within(one_array(rows[COLUMN]))
        left = [self.unexpired_of(self.timed(each, when), limit_ms) for each, when in zip(values, times, strict=True)]
        kept = [number for number, held in enumerate(left) if held is not None]
        rows = rows.take(pa.array(kept, pa.int64()))
        for name, part_of in (("value", self.values_of), (COLUMN, self.times_of)):
            place = rows.schema.get_field_index(name)
            column = pa.array([part_of(left[number]) for number in kept], rows.schema.field(place).type)
            rows = rows.set_column(place, rows.schema.field(place), column)
        return rows

    def freeze_columns(self, size: int, *, without_expired: bool) -> tuple[FrozenColumn, ...]:
        """Return the values and their times."""
        frozen = self.column.freeze(size)
        limit_ms = self.limit_ms() if without_expired else None
        return (
            _FrozenTimed(self.stored_type, frozen, self.values_of, self.unexpired_of, limit_ms),
            _FrozenTimed(self.access_type, frozen, self.times_of, self.unexpired_of, limit_ms),
        )


class _FrozenTimed:
    """The values or the times of entries at one moment, without the parts accessed until `limit_ms`."""

    def __init__(
        self,
        arrow_type: pa.DataType,
        frozen: ObjectColumn,
        part_of: Callable[[Any], list[Any]],
        unexpired: Callable[[Any, int], Any],
        limit_ms: int | None,
    ) -> None:
        self._type = arrow_type
        self._frozen = frozen
        self._part_of = part_of
        self._unexpired = unexpired
        self._limit_ms = limit_ms

    def get(self, slots: SomeSlots) -> pa.Array:
        """Return the entries of slots, in order."""
        held = [self._frozen.get_one(slot) for slot in slots.tolist()]
        if self._limit_ms is not None:
            held = [self._unexpired(each, self._limit_ms) for each in held]
        return pa.array(map(self._part_of, held), self._type, size=len(held))

    def settle(self) -> None:
        """Do nothing: the column was copied."""
