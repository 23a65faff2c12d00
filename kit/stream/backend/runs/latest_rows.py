"""The rows that runs leave together: of each key the youngest one, unless a younger run removes the key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from kit.stream.backend.files.sorting import order_of_rows
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.slot_index import SlotIndex, extended

_NOWHERE = -1


class LatestRows:
    """The rows of one state, to which runs are added in order, oldest first."""

    def __init__(self, schema: pa.Schema, key_columns: Sequence[str]) -> None:
        self._schema = schema
        self._names = list(key_columns)
        self._codecs = [codec_for(schema.field(name).type) for name in key_columns]
        self._index = SlotIndex(len(self._names))
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._row_of = np.empty(0, np.int64)
        """For each slot the row among all that were set; `_NOWHERE` if the last run removed it."""

    def add(self, removed: Iterable[pa.RecordBatch], rows: Iterable[pa.RecordBatch]) -> None:
        """Add a run: the keys that it removes, then the rows that it sets."""
        for batch in removed:
            slots = self._slots(batch)
            self._row_of[slots] = _NOWHERE
        for batch in rows:
            slots = self._slots(batch)
            self._row_of[slots] = np.arange(self._rows, self._rows + batch.num_rows)
            self._rows += batch.num_rows
            self._batches.append(batch)

    def table(self) -> pa.Table:
        """Return the rows that are left, in the order of a checkpoint."""
        kept = np.flatnonzero(self._row_of[: self._index.size] != _NOWHERE)
        codes = [column.take(kept) for column in self._index.columns]
        order = order_of_rows([codec.ranks(column) for codec, column in zip(self._codecs, codes, strict=True)])
        return pa.Table.from_batches(self._batches, self._schema).take(pa.array(self._row_of[kept[order]]))

    def _slots(self, batch: pa.RecordBatch) -> np.ndarray:
        columns = zip(self._codecs, map(batch.column, self._names), strict=True)
        codes = [codec.encode(column, create=True) for codec, column in columns]
        for codec, column in zip(self._codecs, codes, strict=True):
            codec.retain(column)
        slots, _ = self._index.find_or_add(codes)
        if self._index.capacity > len(self._row_of):
            self._row_of = extended(self._row_of, self._index.capacity)
        return slots
