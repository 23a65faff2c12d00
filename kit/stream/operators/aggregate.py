"""Running totals per key, a batch at a time.

The totals are kept in columns, one row per key. A batch is folded in with one look-up of its keys and one pass for each
aggregate. The output is the new totals of the keys in the batch, in order of their first row.

Follows Flink's `KeyedStream.reduce` (`StreamGroupedReduceOperator`) and the SQL runtime's `GroupAggFunction`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from kit.stream.backend.picking import rows_at
from kit.stream.backend.states.state_definition import Aspects
from kit.stream.backend.states.tables import one_array
from kit.stream.backend.types.decimals import sortable
from kit.stream.operators.aggregates import Aggregate, AggregateSet, FirstRows, aggregate_aspects, as_tuple
from kit.stream.operators.base import Operator
from kit.stream.operators.spec import ResolvedSpec, key_columns, key_type_of, keys_of, unique_names

Emit = Literal["updates", "final", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class KeyedAggregate(ResolvedSpec):
    """Totals of `aggregates` for each key, which is one or more columns.

    With `emit` "updates", the new totals of the keys of each batch are emitted; with "final", all totals once, by key,
    when the input has ended; with "none", nothing. With `two_phase` the input is partial totals of rows of
    `input_schema` (`kit.stream.operators.local_aggregate`).
    """

    input_schema: pa.Schema
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    emit: Emit = "updates"
    two_phase: bool = False

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys), aggregates=as_tuple(self.aggregates))
        if self.emit not in get_args(Emit):
            raise ValueError(f"{self.name}: emit is {self.emit!r}, but must be one of {', '.join(get_args(Emit))}")
        key_type = key_type_of(self.input_schema, self.keys, self.name)
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        of_key = [self.input_schema.field(key) for key in self.keys]
        fields = of_key + totals.fields
        unique_names((field.name for field in fields), self.name)
        taken = totals.partial_schema(of_key) if self.two_phase else self.input_schema
        self._set(input_schemas=(taken,), output_schema=pa.schema(fields), key_type=key_type)

    def state_aspects(self) -> Aspects:
        """Return the key and the aggregates."""
        return {"key_by": list(self.keys), "aggregates": aggregate_aspects(self.aggregates)}

    def create(self) -> KeyedAggregateOperator:
        """Create one subtask's operator."""
        return KeyedAggregateOperator(self)


class KeyedAggregateOperator(Operator):
    """The operator that keeps the totals, and emits those that change."""

    def __init__(self, spec: KeyedAggregate) -> None:
        self._spec = spec
        self._totals = AggregateSet(spec.aggregates, spec.input_schema, spec.name)
        self._fold = self._totals.add_partials if spec.two_phase else self._totals.add
        self._first_rows = FirstRows()
        schema = cast(pa.Schema, spec.output_schema)
        self._key_types = tuple(schema.types[: len(spec.keys)])

    def initialize_state(self) -> None:
        """Register the totals."""
        self._table = self.context.keyed_state.table(self._totals.descriptor("totals"))

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Fold the rows in; emit the new totals of their keys."""
        keys = keys_of(batch, self._spec.keys)
        slots = self._table.slots(keys)
        self._fold(self._table, slots, batch)
        if self._spec.emit == "updates" and batch.num_rows:
            first = self._first_rows.of(slots)
            if len(first) == len(slots):
                self._emit(keys, self._table.get_fields(slots))
            else:
                self._emit(rows_at(keys, first), self._table.get_fields(slots[first]))

    def finish(self) -> None:
        """Emit all totals by key, if `emit` is "final", and clear them.

        A task that resumes from the checkpoint after the end of the data finishes once more, and must have nothing left
        to emit.
        """
        if self._spec.emit != "final":
            return
        if self._table.has_cold:
            backend = self.context.keyed_state
            rows = backend.all_rows(self._table)
            keys = one_array(rows["key"])
            order = self._order(keys)
            self._emit(keys.take(order), one_array(rows["value"]).take(order).flatten())
            for piece in backend.pieces(len(keys)):
                self._table.clear(self._table.slots(keys[piece], create=False))
            return
        slots = self._table.entries()
        keys = self._table.keys(slots)
        order = self._order(keys)
        self._emit(keys.take(order), self._table.get_fields(slots[order.to_numpy()]))
        self._table.clear(slots)

    def _order(self, keys: pa.Array) -> pa.Array:
        columns = [keys] if len(self._spec.keys) == 1 else keys.flatten()
        return pc.sort_indices(
            pa.table([sortable(column) for column in columns], names=list(self._spec.keys)),
            sort_keys=[(key, "ascending") for key in self._spec.keys],
        )

    def _emit(self, keys: pa.Array, totals: list[pa.Array]) -> None:
        columns = key_columns(keys, self._key_types) + self._totals.results(totals)
        self.context.output.emit(pa.RecordBatch.from_arrays(columns, schema=self._spec.output_schema))
