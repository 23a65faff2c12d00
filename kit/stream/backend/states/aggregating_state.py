"""Aggregating state: one accumulator per key, to which an `AggregateFunction` adds values.

Follows `AggregatingState`.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from kit.stream.backend.states.descriptors import AggregateFunction, AggregatingStateDescriptor, StateKind
from kit.stream.backend.states.tables import KeyedState, Slots, StateTable, Values


class AggregatingState(KeyedState):
    """The accumulator of the current key."""

    __slots__ = ()
    _table: AggregatingTable

    def get(self) -> Any:
        """Return the aggregate's result, or None if nothing was added."""
        accumulator = self._read()
        return None if accumulator is None else self._table.aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add one value to the accumulator."""
        self._write(self._table.added(self._read(), value))


class AggregatingTable(StateTable):
    """The accumulators of all keys."""

    kind = StateKind.AGGREGATING
    view = AggregatingState
    in_batches = False

    @property
    def aggregate(self) -> AggregateFunction:
        """The descriptor's function."""
        return cast(AggregatingStateDescriptor, self.descriptor).aggregate

    def add(self, slots: Slots, values: Values = None) -> None:
        """Add a value to each row's accumulator, in row order."""
        self.check_slots(slots)
        rows = values.to_pylist() if isinstance(values, (pa.Array, pa.ChunkedArray)) else list(values)
        for slot, value in zip(slots.tolist(), rows, strict=True):
            self.write(slot, self.converted(self.added(self.read(slot), value), self.convert))

    def merge(self, into: Slots, slots: Slots) -> None:
        """Merge the accumulator of each of `slots` into that of `into`, in row order, and remove it."""
        self.check_slots(into)
        for slot, other in zip(into.tolist(), self.get(slots).to_pylist(), strict=True):
            before = self.read(slot)
            after = other if before is None else self.aggregate.merge(before, other)
            self.write(slot, self.converted(after, self.convert))
        self.clear(slots)

    def added(self, accumulator: Any, value: Any) -> Any:
        """Return the accumulator (None: none yet) with one value added."""
        return self.aggregate.add(value, self.aggregate.create_accumulator() if accumulator is None else accumulator)
