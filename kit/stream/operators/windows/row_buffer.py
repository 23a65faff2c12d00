"""Rows kept until event time has passed them, found by key and a range of times.

The rows are kept in keyed state, one entry per row, under their key and a number that separates rows of one key;
columns of numbers stay columns. A `KeyTimeIndex` of the rows is kept next to the state, and rebuilt after a
restore. Numbers continue from the highest one restored, so rows of one key keep their order however often the job is
rescaled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.states.descriptors import ValueStateDescriptor
from kit.stream.backend.states.tables import one_array
from kit.stream.operators.functions.function_operator import FunctionInput
from kit.stream.operators.spec import as_rows, row_type
from kit.stream.operators.watermarks import event_times_ms
from kit.stream.operators.windows.key_time_index import KeyTimeIndex, Numbers

_NUMBERS, _SLOTS, _UNTIL = 2, 3, 4
"""Columns of the index, after keys and times. Slots are valid if all rows are in memory."""


class RowBuffer:
    """The rows of one input that may still be joined; `kept_until` maps event times to the watermark that ends them."""

    def __init__(
        self,
        backend: HeapKeyedStateBackend,
        name: str,
        given: FunctionInput,
        operator: str,
        kept_until: Callable[[Numbers], Numbers],
    ) -> None:
        self._given = given
        self._kept_until = kept_until
        self._key_type = backend.key_type
        self._table = backend.table(
            ValueStateDescriptor(name, row_type(given.schema, operator, in_columns=True)), pa.int64()
        )
        self.index = KeyTimeIndex(backend.key_type, 3)
        self._next = 0
        self._keeps_slots = self._table.resident is None
        for rows in backend.rows(self._table):
            keys, numbers = one_array(rows["key"]), rows["namespace"].to_numpy()
            times = event_times_ms(as_rows(one_array(rows["value"]), given.schema), given.timed, operator)
            self._next = max(self._next, int(numbers.max()) + 1)
            slots = self._table.slots(keys, numbers) if self._keeps_slots else numbers
            order = np.argsort(numbers, kind="stable")
            columns = (self.index.codes(keys, create=True), times, numbers, slots, kept_until(times))
            self.index.add(*(column[order] for column in columns))

    def __len__(self) -> int:
        return len(self.index)

    def add(self, batch: pa.RecordBatch, times: Numbers) -> None:
        """Add rows."""
        if not batch.num_rows:
            return
        keys = self._given.keys_of(batch, self._key_type)
        numbers = np.arange(self._next, self._next + batch.num_rows)
        self._next += batch.num_rows
        slots = self._table.slots(keys, numbers)
        self._table.put(slots, batch.to_struct_array())
        self.index.add(self.index.codes(keys, create=True), times, numbers, slots, self._kept_until(times))

    def between(self, keys: pa.Array, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
        """Return each key's positions of rows from time `low` to `high`, both included: from, to (excluded)."""
        return self.index.between(self.index.codes(keys), low, high)

    def rows(self, positions: Numbers) -> pa.RecordBatch:
        """Return the rows at positions."""
        return as_rows(self._table.get(self._slots_at(positions)), self._given.schema)

    def expire(self, watermark_ms: int) -> None:
        """Remove the rows that this watermark ends."""
        expired = self.index.columns[_UNTIL] <= watermark_ms
        if expired.any():
            self._table.clear(self._slots_at(np.flatnonzero(expired)))
            self.index.remove(expired)

    def _slots_at(self, positions: Numbers) -> Numbers:
        if self._keeps_slots:
            return self.index.columns[_SLOTS][positions]
        keys = self.index.codec.decode(self.index.columns[0][positions])
        return self._table.slots(keys, self.index.columns[_NUMBERS][positions], create=False)
