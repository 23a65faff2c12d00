"""The reduction of all rows of a key so far to one, by a function of two rows.

The reduced row of each key is kept in keyed state, one column per field. The function is called row by row; the state
is read and written once per batch for each key in it.

Follows Flink's `StreamGroupedReduceOperator`: the row reduced so far is emitted for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kit.stream.backend.states.descriptors import ValueStateDescriptor
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.operators.aggregates import as_tuple
from kit.stream.operators.base import Operator
from kit.stream.operators.rows import AS_REDUCED, Row, RowMaker, rows_of
from kit.stream.operators.spec import ResolvedSpec, UserFunctionError, check_function, key_type_of, keys_of, row_type
from kit.stream.operators.windows.window_contents import ReduceFunction


@dataclass(frozen=True, eq=False, repr=False)
class KeyedReduce(ResolvedSpec):
    """A reduction by `function`, which takes the key's row reduced so far and the next row, and returns the new one."""

    input_schema: pa.Schema
    keys: tuple[str, ...]
    function: ReduceFunction

    def _resolve(self) -> None:
        check_function(self.function, self.name, "a function of two rows (dicts)")
        self._set(keys=as_tuple(self.keys))
        key_type = key_type_of(self.input_schema, self.keys, self.name)
        row_type(self.input_schema, self.name)
        self._set(input_schemas=(self.input_schema,), output_schema=self.input_schema, key_type=key_type)

    def state_aspects(self) -> Aspects:
        """Return the key."""
        return {"key_by": list(self.keys)}

    def create(self) -> KeyedReduceOperator:
        """Create one subtask's operator."""
        return KeyedReduceOperator(self)


class KeyedReduceOperator(Operator):
    """The operator that keeps the reduced row of each key."""

    def __init__(self, spec: KeyedReduce) -> None:
        self._spec = spec
        self._maker = RowMaker(spec.name, spec.function, AS_REDUCED)

    def initialize_state(self) -> None:
        """Register the reduced rows."""
        descriptor = ValueStateDescriptor("reduced", row_type(self._spec.input_schema, self._spec.name))
        self._table = self.context.keyed_state.table(descriptor)

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Reduce row by row; emit the result of each row."""
        spec = self._spec
        slots = self._table.slots(keys_of(batch, spec.keys))
        distinct, number_of = np.unique(slots, return_inverse=True)
        reduced = self._table.get(distinct).to_pylist()
        given, emitted = rows_of(batch), []
        for row, number in zip(given, number_of.tolist(), strict=True):
            before = reduced[number]
            reduced[number] = row if before is None else self._reduce(before, row)
            emitted.append(reduced[number])
        result = self._maker.batch(emitted, spec.input_schema, given)
        last = np.empty(len(distinct), np.int64)
        last[number_of] = np.arange(len(number_of))
        self._table.put(distinct, result.take(pa.array(last)).to_struct_array())
        self.context.output.emit(result)

    def _reduce(self, before: Row, row: Row) -> Any:
        try:
            return self._spec.function(before, row)
        except Exception as error:
            raise UserFunctionError.of(
                self._spec.name, self._spec.function, f"rows {before} and {row}", error
            ) from error
