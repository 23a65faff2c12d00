"""Value, reducing and aggregating state with TTL: an entry expires as a whole.

The times are in a column of their own beside the values. Follows `TtlValueState`, `TtlReducingState` with
`TtlReduceFunction`, and `TtlAggregatingState` with `TtlAggregateFunction`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.files.sorting import distinct
from kit.stream.backend.keys.changed_rows import ChangedRows
from kit.stream.backend.keys.key_run import KeyRun
from kit.stream.backend.keys.slot_index import FEW_ROWS
from kit.stream.backend.states.aggregating_state import AggregatingState, AggregatingTable
from kit.stream.backend.states.last_access import COLUMN, TIME
from kit.stream.backend.states.reducing_state import ReducingState, ReducingTable
from kit.stream.backend.states.tables import KeyedState, Slots, Values, Within, fresh, one_array
from kit.stream.backend.states.ttl_table import TtlTable
from kit.stream.backend.states.value_state import ValueState, ValueTable
from kit.stream.backend.types.value_columns import FrozenColumn, FrozenParts, NumberColumn

_UNUSED = (1 << 63) - 1
"""The time in a slot without an entry: it never expires."""


class _TtlEntryState(KeyedState):
    """The entry of the current key."""

    __slots__ = ()
    _table: TtlEntryTable

    def _found(self) -> Any:
        """Return what a read returns, None if nothing; remove an expired entry, or renew it."""
        table = self._table
        run = table.context.run
        if run is not None and table.in_runs:
            return table.found_in(run)
        table.accessed()
        slot = self._slot()
        value = table.read(slot)
        if value is None:
            return None
        if table.accesses.values.item(slot) <= table.limit_ms():
            table.clear_current(self._namespace)
            return value if table.returns_expired else None
        if table.renews_on_read:
            table.accesses.put_one(slot, table.now_ms())
        return value

    def _read(self) -> Any:
        """Return the entry to which a value is added, None if there is none."""
        table = self._table
        run = table.context.run
        if run is not None and table.in_runs:
            within = table.run if table.run.of is run else table.begin(run)
            value, access_ms = within.entries[run.position], within.accesses[run.position]
            if access_ms <= within.limit_ms and not table.returns_expired:
                return None
            return fresh(value) if table.nested else value
        slot = self._slot()
        value = table.read(slot)
        if value is None or table.returns_expired or table.accesses.values.item(slot) > table.limit_ms():
            return value
        return None

    def _set(self, value: Any) -> None:
        super()._set(value)
        table = self._table
        run = table.context.run
        if run is not None and table.in_runs:
            table.run.accesses[run.position] = table.run.now_ms


class TtlEntryTable(TtlTable):
    """Entries that expire as a whole."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.accesses = NumberColumn(pa.int64())
        self.accesses.initial = _UNUSED

    def track(self, changes: ChangedRows) -> None:
        """Note all later changes there, those of the times too."""
        super().track(changes)
        self.accesses.track(changes)

    def get_accesses(self, slots: Slots) -> pa.Array:
        """Return the time of each entry."""
        return self.accesses.get(slots).view(TIME)

    def put_accesses(self, slots: Slots, accesses: pa.Array) -> None:
        """Set the time of each entry."""
        self.accesses.put(slots, accesses.view(pa.int64()))

    def look_at(self, slots: Slots) -> pa.Array:
        """Return each entry that has not expired, or that is returned nevertheless."""
        expired = self._have_expired(slots)
        gone = distinct(slots[expired], self.index.size)
        seen = slots if self.returns_expired or not len(gone) else np.where(expired, -1, slots)
        entries = self.get(seen)
        if self.renews_on_read:
            self._renew(slots[self._are_entries(slots) & ~expired])
        self.clear(gone)
        return entries

    def remove_expired(self, begin: int, end: int) -> None:
        """Remove the expired entries in a range of slots."""
        times, limit_ms = self.accesses.values[begin:end], self.limit_ms()
        if len(times) <= FEW_ROWS and min(times.tolist(), default=_UNUSED) > limit_ms:
            return
        expired = times <= limit_ms
        if expired.any():
            self.clear(begin + np.flatnonzero(expired))

    def expired_entries(self) -> Slots:
        """Return the slots of expired entries."""
        return np.flatnonzero(self.accesses.values[: self.index.size] <= self.limit_ms())

    def without_expired(self, rows: pa.Table, limit_ms: int) -> pa.Table:
        """Return the rows that were accessed after `limit_ms`."""
        return rows.filter(pa.array(one_array(rows[COLUMN]).cast(pa.int64()).to_numpy() > limit_ms))

    def freeze_columns(self, size: int, *, without_expired: bool) -> tuple[FrozenColumn, ...]:
        """Return the values and their times; expired entries are left out by their slots."""
        return self.column.freeze(size), FrozenParts(TIME, [self.accesses.freeze(size)], _as_times)

    def load(self, keys: pa.ChunkedArray, namespaces: pa.ChunkedArray | None, values: pa.ChunkedArray) -> bool:
        """Set all entries of an empty table at once, accessed now."""
        if not super().load(keys, namespaces, values):
            return False
        self.accesses.ensure(self.index.capacity)
        self._renew(np.arange(len(values)))
        return True

    def begin(self, run: KeyRun) -> Within:
        """Check other entries, then read the entries of all keys of a run, and their times."""
        self.check_others(len(run.keys))
        return super().begin(run)

    def _begin(self, run: KeyRun, slots: Slots) -> Within:
        within = super()._begin(run, slots)
        times = np.full(len(slots), _UNUSED)
        times[slots >= 0] = self.accesses.values[slots[slots >= 0]]
        within.accesses = times.tolist()
        within.now_ms, within.limit_ms = self.now_ms(), self.limit_ms()
        return within

    def found_in(self, run: KeyRun) -> Any:
        """Return what a read in a run returns. All times that change there become those of the present event."""
        within = self.run if self.run.of is run else self.begin(run)
        position = run.position
        value = within.entries[position]
        if value is None:
            return None
        if within.accesses[position] <= within.limit_ms:
            within.entries[position], within.changed[position] = None, 1
            return value if self.returns_expired else None
        if self.renews_on_read:
            within.accesses[position], within.changed[position] = within.now_ms, 1
        return fresh(value) if self.nested else value

    def write(self, slot: int, value: Any) -> None:
        """Set the entry of a slot, accessed now."""
        super().write(slot, value)
        self.accesses.put_one(slot, self.now_ms())

    def start_again(self, slots: Slots) -> None:
        """Let expired entries begin again, without what was added to them."""
        if self.returns_expired:
            return
        expired = distinct(slots[self._have_expired(slots)], self.index.size)
        if len(expired):
            self.column.clear(expired)
            self.accesses.clear(expired)
            self.mark_unset(expired)

    def renew_entries(self, slots: Slots) -> None:
        """Let entries live on from now."""
        self._renew(slots[self._are_entries(slots)])

    def _take_in(self, added: Slots) -> None:
        self.accesses.ensure(self.index.capacity)
        super()._take_in(added)

    def _put(self, slots: Slots, column: pa.Array) -> None:
        super()._put(slots, column)
        self._renew(slots)

    def _reset(self, slots: Slots) -> None:
        super()._reset(slots)
        self.accesses.clear(slots)

    def _value_bytes(self, sample: Slots) -> float:
        return super()._value_bytes(sample) + self.index.growth * self.accesses.bytes_per_row(sample)

    def _renew(self, slots: Slots) -> None:
        if len(slots):
            self.accesses.put(slots, pa.array(np.full(len(slots), self.now_ms())))

    def _have_expired(self, slots: Slots) -> npt.NDArray[np.bool_]:
        there = slots >= 0
        expired = np.zeros(len(slots), np.bool_)
        expired[there] = self.accesses.values[slots[there]] <= self.limit_ms()
        return expired

    def _are_entries(self, slots: Slots) -> npt.NDArray[np.bool_]:
        return (slots >= 0) & self.is_entry(slots)


def _as_times(arrow_type: pa.DataType, parts: list[pa.Array]) -> pa.Array:
    return parts[0].view(arrow_type)


class TtlValueState(_TtlEntryState, ValueState):
    """The value of the current key, None if it has none or it has expired."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value of the current key, or None."""
        return self._found()

    def update(self, value: Any) -> None:
        """Set the value; None removes it."""
        self._table.accessed()
        self._set(None if value is None else self._table.converted(value, self._table.convert))

    def clear(self) -> None:
        """Remove the value of the current key."""
        super().clear()
        self._table.accessed()


class TtlValueTable(TtlEntryTable, ValueTable):
    """The values of all keys."""

    view = TtlValueState


class TtlReducingState(_TtlEntryState, ReducingState):
    """The folded value of the current key, None if it has none or it has expired."""

    __slots__ = ()
    _table: TtlReducingTable

    def get(self) -> Any:
        """Return the folded value, or None."""
        return self._found()

    def add(self, value: Any) -> None:
        """Fold one value in."""
        self._table.accessed()
        super().add(value)


class TtlReducingTable(TtlEntryTable, ReducingTable):
    """The folded values of all keys."""

    view = TtlReducingState

    def reduce(self, slots: Slots, values: Values = None, validity: Values = None) -> None:
        """Fold a value into each row's entry, which begins again if it has expired."""
        self.check_slots(slots)
        self.start_again(slots)
        super().reduce(slots, values, validity)
        self.renew_entries(slots)


class TtlAggregatingState(_TtlEntryState, AggregatingState):
    """The accumulator of the current key, which begins again when it has expired."""

    __slots__ = ()
    _table: TtlAggregatingTable

    def get(self) -> Any:
        """Return the aggregate's result, or None if nothing was added or it has expired."""
        accumulator = self._found()
        return None if accumulator is None else self._table.aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator."""
        self._table.accessed()
        super().add(value)


class TtlAggregatingTable(TtlEntryTable, AggregatingTable):
    """The accumulators of all keys."""

    view = TtlAggregatingState

    def add(self, slots: Slots, values: Values = None) -> None:
        """Add a value to each row's accumulator, which begins again if it has expired."""
        self.check_slots(slots)
        self.start_again(slots)
        super().add(slots, values)
