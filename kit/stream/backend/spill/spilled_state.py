"""The rows of a state at one moment, those in memory and those in runs together, in the order of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.files.row_order import SPAN_ROWS
from kit.stream.backend.files.snapshot import Layout
from kit.stream.backend.files.sorting import order_of_rows
from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.slot_index import FrozenIndex
from kit.stream.backend.spill.merging import ranges
from kit.stream.backend.spill.places import Places, first_place, group_of, places_of
from kit.stream.backend.spill.rows import (
    Unexpired,
    are_entries,
    intervals,
    key_columns,
    made_rows,
    newest,
    places,
    taken,
)
from kit.stream.backend.spill.run import Run
from kit.stream.backend.types.value_columns import FrozenColumn

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class SpilledState:
    """The entries of one state at one moment: all, or those that changed after an interval.

    `index` has the slots of all rows in memory, also of those that only hide a row on disk; of each `is_entry` and
    `changed` say more. `unexpired` leaves expired entries out of rows of values and last accesses.
    """

    layout: Layout
    index: FrozenIndex
    is_entry: npt.NDArray[np.bool_]
    changed: npt.NDArray[np.int32]
    values: tuple[FrozenColumn, ...]
    runs: tuple[Run, ...]
    span: tuple[int, int]
    schema: pa.Schema
    rows: int
    after: int | None
    unexpired: Unexpired | None

    @property
    def is_large(self) -> bool:
        """True if it should be written piece by piece."""
        return self.rows > SPAN_ROWS

    def settle(self) -> None:
        """Copy what the columns would otherwise have to keep."""
        for column in self.values:
            column.settle()

    def messages(self, schema: pa.Schema, max_parallelism: int) -> Iterator[tuple[int, pa.Buffer]]:
        """Yield a record batch message for each key group that has rows, in order, its rows by key and namespace."""
        for rows in self.tables(max_parallelism):
            groups = group_of(places(rows))
            begins = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(groups)]
            (batch,) = rows.select(schema.names).cast(schema).to_batches()
            for begin, end in pairwise(begins):
                yield int(groups[begin]), batch.slice(begin, end - begin).serialize()

    def tables(self, max_parallelism: int) -> Iterator[pa.Table]:
        """Yield the rows, a range of whole key groups at a time, by key group, key and namespace. None is empty."""
        at, slots = self._in_memory(max_parallelism)
        first, behind = self.span
        of_rows = ranges(self.runs, first, behind)
        of_memory = at[_ROWS_AT_ONCE::_ROWS_AT_ONCE].tolist()
        inner = {int(group) for group in group_of(np.array([*of_rows[1:-1], *of_memory], np.uint64))}
        bounds = [first, *(place for group in sorted(inner) if (place := first_place(group)) > first), behind]
        ends = np.append(0, np.searchsorted(at, np.array([each - 1 for each in bounds[1:]], np.uint64), side="right"))
        for low, high, begin, end in zip(bounds, bounds[1:], ends, ends[1:]):
            on_disk = [run.between(low, high, self.after) for run in self.runs]
            found = newest([self._rows(at[begin:end], slots[begin:end]), *on_disk])
            wanted = are_entries(found)
            if self.after is not None:
                wanted &= intervals(found, "changed") > self.after
            found = found.filter(pa.array(wanted))
            if self.unexpired is not None:
                found = self.unexpired(found)
            if found.num_rows:
                yield taken(found, _order(found)).combine_chunks()

    def _in_memory(self, max_parallelism: int) -> tuple[Places, npt.NDArray[np.int64]]:
        """Return the slots in the order of their places, and these."""
        slots = self.index.slots
        if not self.runs:  # nothing to hide
            wanted = self.is_entry[slots]
            if self.after is not None:
                wanted &= self.changed[slots] > self.after
            slots = slots[wanted]
        pieces = [slots[begin : begin + _ROWS_AT_ONCE] for begin in range(0, len(slots), _ROWS_AT_ONCE)]
        at = np.concatenate(
            [np.empty(0, np.uint64), *(places_of(self._keys(some), max_parallelism) for some in pieces)]
        )
        order = np.argsort(at, kind="stable")
        return at[order], slots[order]

    def _keys(self, slots: npt.NDArray[np.int64]) -> list[pa.Array]:
        decoders = zip(self.layout.decoders, self.index.columns, strict=True)
        return [decoder.decode(column.take(slots)) for decoder, column in decoders]

    def _rows(self, at: Places, slots: npt.NDArray[np.int64]) -> pa.Table:
        is_entry = self.is_entry[slots]
        changed = self.changed[slots]
        values = [column.get(slots[is_entry]) for column in self.values]
        return made_rows(self.schema, at, changed, changed, is_entry, self._keys(slots), values)


def _order(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the order of a checkpoint: by key group, key and namespace."""
    ranks = [group_of(places(rows))]
    for column in key_columns(rows):
        codec = codec_for(column.type)
        codes = codec.encode(column, create=True)
        ranks.append(codec.ranks(codes, column))
    return order_of_rows(ranks)
