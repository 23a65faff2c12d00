"""Cold rows: those rows of one state that are not in its table, in runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.core.state.handles import KeyGroupRange
from kit.stream.backend.picking import rows_at
from kit.stream.backend.spill.merging import Merge, to_merge
from kit.stream.backend.spill.places import Rows, first_place, places_of
from kit.stream.backend.spill.rows import Unexpired, are_entries, key_columns, places, taken
from kit.stream.backend.spill.run import Run
from kit.stream.backend.spill.snapshot_run import SnapshotRun, hidden_rows
from kit.stream.backend.spill.spill_space import SpillSpace
from kit.stream.backend.spill.spilled_run import RunWriter

_MERGED_FOR_WRITTEN = 4
"""The bytes that a merge may write for each byte that was spilled: a row is merged some three times in its life."""
_PUT_IN_ORDER_FOR_WRITTEN = 8
"""The same for a merge that puts restored rows in order: until it ends, each new run is one more to search."""


class ColdRows:
    """The rows of one state outside its table. A row in the table hides that of its key here.

    `schema` has the columns of `kit.stream.backend.spill.rows`.
    """

    def __init__(
        self, space: SpillSpace, schema: pa.Schema, key_group_range: KeyGroupRange, max_parallelism: int
    ) -> None:
        self.schema = schema
        self.runs: tuple[Run, ...] = ()
        """The runs, the newest first."""
        self.max_parallelism = max_parallelism
        self.span = first_place(key_group_range.start), first_place(key_group_range.end + 1)
        """The lowest place, and the one above all."""
        self._space = space
        self._merge: Merge | None = None
        self._count: Counter[int] = Counter()
        self._floor = 0
        self._uncounted: tuple[SnapshotRun, ...] = ()
        self.bytes_spilled = self.bytes_merged = self.merges = 0
        """Counts since the start: the bytes that were written because a table had no room, and in merges."""

    def __len__(self) -> int:
        self._count_adopted()
        return self._count.total()

    def __repr__(self) -> str:
        return f"ColdRows({len(self)} entries, {len(self.runs)} runs, {self.size} B)"

    @property
    def size(self) -> int:
        """The size of all runs in bytes."""
        return sum(run.size for run in self.runs)

    @property
    def bytes_in_memory(self) -> int:
        """The memory that the runs take, in bytes."""
        return sum(run.bytes_in_memory for run in self.runs)

    def changed_after(self, interval: int) -> int:
        """Return the number of entries that changed after an interval."""
        self._count_adopted()
        return sum(count for changed, count in self._count.items() if changed > interval)

    def count(self, changed: npt.NDArray[np.int32], times: int) -> None:
        """Count entries, given by the intervals of their last changes, as cold (1) or as no longer cold (-1)."""
        self._count_adopted()
        changed = np.maximum(changed, self._floor)
        for interval, rows in zip(*(part.tolist() for part in np.unique(changed, return_counts=True)), strict=True):
            self._count[interval] += times * rows
            if not self._count[interval]:
                del self._count[interval]

    def forget_intervals(self, until: int) -> None:
        """Count what changed until an interval as changed then: nobody asks for what changed after an earlier one."""
        self._count_adopted()
        self._floor = max(self._floor, until)
        for interval in [each for each in self._count if each < self._floor]:
            self._count[self._floor] += self._count.pop(interval)

    def find(self, keys: Sequence[pa.Array]) -> tuple[Rows, pa.Table]:
        """Return which of some distinct keys have an entry, and these entries in that order.

        `keys` are the columns of keys and namespaces.
        """
        at = places_of(keys, self.max_parallelism)
        order = np.argsort(at)
        at, keys = at[order], [rows_at(column, order) for column in keys]
        left, numbers, found = np.arange(len(at)), [order[:0]], [self.schema.empty_table()]
        for run in self.runs:
            if not len(left):
                break
            which, rows = run.find(at.take(left), [rows_at(column, left) for column in keys])
            if len(which):
                numbers.append(order[left[which]])
                found += rows
                left = np.delete(left, which)
        rows = pa.concat_tables(found)
        entries = are_entries(rows)
        return np.concatenate(numbers)[entries], taken(rows, np.flatnonzero(entries))

    def write(self, chunks: Iterable[pa.Table], most_rows: int, unexpired: Unexpired | None = None) -> list[pa.Table]:
        """Add a run of rows, whose places ascend, and let the merge that is due proceed.

        A merge that begins now will leave out what `unexpired` leaves out. Return such entries, as far as the merge has
        left them out and no newer run has a row of their keys. They still count.
        """
        self._count_adopted()
        self._uncounted = ()  # its runs go once they are merged, with their space on the disk
        writer = RunWriter(self._space, self.schema, most_rows, *self.span)
        for chunk in chunks:
            writer.add(chunk)
        run = writer.finish()
        self.bytes_spilled += run.size
        self.runs = (run, *self.runs)
        return self._proceed(run.size, unexpired)

    def adopt(self, run: SnapshotRun) -> None:
        """Add restored rows, newer than all that were adopted before. `adopted` says whether that is possible."""
        if run.are_entries:
            self._count[run.latest_change] += run.rows
        self.runs = (run, *self.runs)
        self._uncounted = (run, *self._uncounted)

    @property
    def adopted(self) -> int:
        """The number of runs if all were adopted, and more can be; else 0."""
        return len(self.runs) if self.runs == self._uncounted else 0

    def _count_adopted(self) -> None:
        """Subtract the restored entries that newer restored rows hide, all at once: later nothing may be adopted."""
        if len(self._uncounted) > 1:
            runs, self._uncounted = self._uncounted, ()
            for run, rows in zip(runs, hidden_rows(runs), strict=True):
                if run.are_entries:
                    self._count[run.latest_change] -= rows

    def _proceed(self, written_bytes: int, unexpired: Unexpired | None) -> list[pa.Table]:
        if self._merge is None:
            chosen = to_merge([run.rows for run in self.runs])
            if not self.runs[-1].is_in_order:
                chosen = slice(0, len(self.runs))
            if chosen is None:
                return []
            older = len(self.runs[chosen.stop :])
            self._merge = Merge(self.runs[chosen], self._space, self.schema, self.span, older, unexpired)
        merge = self._merge
        puts_in_order = not merge.inputs[-1].is_in_order
        output = merge.proceed(written_bytes * (_PUT_IN_ORDER_FOR_WRITTEN if puts_in_order else _MERGED_FOR_WRITTEN))
        behind = len(self.runs) - merge.older
        newer, older_runs = self.runs[: behind - len(merge.inputs)], self.runs[behind:]
        if output is None:
            merged: tuple[Run, ...] = merge.inputs_now()
        else:
            merged = (output,) if output.rows else ()
            self.bytes_merged += output.size
            self.merges += 1
            self._merge = None
        self.runs = (*newer, *merged, *older_runs)
        return [_not_in(newer, rows) for rows in merge.take_expired()]


def _not_in(runs: Sequence[Run], rows: pa.Table) -> pa.Table:
    """Return those of some rows, in the order of their places, of whose keys the runs have none."""
    for run in runs:
        which, _ = run.find(places(rows), key_columns(rows))
        rows = taken(rows, np.delete(np.arange(rows.num_rows), which))
    return rows
