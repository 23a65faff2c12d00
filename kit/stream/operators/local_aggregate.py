"""The first of two phases of an aggregation: rows are folded where they are read, and only totals are sent.

A `LocalAggregate` runs in the chain before the exchange. It folds rows into *partial totals*, which the aggregation
behind the exchange folds into its own. Ten thousand rows of one key so cross the exchange as one. Partial totals are
sent before each barrier, so they are in no snapshot, and a job may be restored with one phase or with two.

Follows Flink SQL's `LocalGroupAggFunction` in a `MapBundleOperator`, which sends its bundle at barriers, watermarks and
the end of the input, after a number of rows, and after a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.operators.aggregates import Aggregate, AggregateSet, as_tuple
from kit.stream.operators.base import Operator
from kit.stream.operators.spec import ResolvedSpec, key_columns, key_type_of, keys_of

MOST_PARTIALS = 1 << 17
"""The number of partial totals that a subtask keeps before it sends them."""
SENT_AFTER_MS = 100
"""The time, in ms, for which partial totals are kept if something waits for the new totals."""


class LocalSpec(Protocol):
    """What both specs of a first phase have."""

    @property
    def name(self) -> str: ...
    @property
    def input_schema(self) -> pa.Schema: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def aggregates(self) -> tuple[Aggregate, ...]: ...


class PartialTotals:
    """The totals of rows that were not sent on yet, by key or by key and window."""

    def __init__(self, spec: LocalSpec, window_type: pa.DataType | None = None) -> None:
        self._keys = spec.keys
        self._key_types = [spec.input_schema.field(key).type for key in spec.keys]
        self._totals = AggregateSet(spec.aggregates, spec.input_schema, spec.name)
        # State of its own, without key groups: no snapshot takes it.
        key_type = key_type_of(spec.input_schema, spec.keys, spec.name)
        backend = HeapKeyedStateBackend(key_type, KeyGroupRange(0, 0), max_parallelism=1)
        self._table = backend.table(self._totals.descriptor("partial-totals"), window_type)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"PartialTotals({len(self)})"

    def add(self, batch: pa.RecordBatch, windows: npt.NDArray[np.int64] | None = None) -> None:
        """Fold rows in."""
        self._totals.add(self._table, self._table.slots(keys_of(batch, self._keys), windows), batch)

    def take(self) -> tuple[list[pa.Array], pa.Array | None, list[pa.Array]]:
        """Return columns of keys, windows and partial totals, in the order of their first rows, and forget them."""
        slots = self._table.entries()
        keys = key_columns(self._table.keys(slots), self._key_types)
        windows, partials = self._table.namespaces(slots), self._table.get_fields(slots)
        self._table.clear(slots)
        return keys, windows, partials


@dataclass(frozen=True, eq=False, repr=False)
class LocalAggregate(ResolvedSpec):
    """Partial totals of `aggregates` for each key: columns of the key, and the numbers that the aggregates keep.

    `sent_after_ms` is the time for which a subtask keeps partial totals; None if nothing waits for them.
    """

    input_schema: pa.Schema
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    sent_after_ms: int | None = SENT_AFTER_MS

    def _resolve(self) -> None:
        self._set(keys=as_tuple(self.keys), aggregates=as_tuple(self.aggregates))
        key_type_of(self.input_schema, self.keys, self.name)
        totals = AggregateSet(self.aggregates, self.input_schema, self.name)
        schema = totals.partial_schema([self.input_schema.field(key) for key in self.keys])
        self._set(input_schemas=(self.input_schema,), output_schema=schema)

    def create(self) -> LocalAggregateOperator:
        """Create one subtask's operator."""
        return LocalAggregateOperator(self)


class LocalOperator(Operator):
    """The common base of both operators of a first phase: they send what must not come later."""

    def send(self) -> None:
        """Send the partial totals."""
        raise NotImplementedError

    def process_watermark_status(self, *, idle: bool) -> None:
        """Send what an idle input must not hold back, then the change."""
        self.send()
        self.context.output.emit_watermark_status(idle=idle)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Send what the snapshot must cover."""
        self.send()

    def finish(self) -> None:
        """Send the rest."""
        self.send()


class LocalAggregateOperator(LocalOperator):
    """The operator that keeps partial totals, and sends them before anything that must come after them."""

    def __init__(self, spec: LocalAggregate) -> None:
        self._spec = spec
        self._partials = PartialTotals(spec)
        self._due_ms: int | None = None

    def process_batch(self, batch: pa.RecordBatch, input_index: int = 0) -> None:
        """Fold the rows in; send the partial totals if there are many."""
        self._partials.add(batch)
        if len(self._partials) >= MOST_PARTIALS:
            self.send()
        elif self._due_ms is None and self._spec.sent_after_ms is not None:
            self._due_ms = self.context.processing_time_ms + self._spec.sent_after_ms

    def process_watermark(self, timestamp_ms: int) -> None:
        """Send what came before the watermark, then the watermark."""
        self.send()
        self.context.output.emit_watermark(timestamp_ms)

    def on_processing_time(self, now_ms: int) -> None:
        """Send partial totals that were kept long enough."""
        if self._due_ms is not None and self._due_ms <= now_ms:
            self.send()

    def next_processing_time_ms(self) -> int | None:
        """Return when the partial totals are sent at the latest."""
        return self._due_ms

    def send(self) -> None:
        """Send the partial totals."""
        self._due_ms = None
        if len(self._partials):
            keys, _, partials = self._partials.take()
            self.context.output.emit(pa.RecordBatch.from_arrays(keys + partials, schema=self._spec.output_schema))
