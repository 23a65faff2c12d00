"""Snapshot run: restored rows of a state as a run, while they are still where the restore put them.

To sort the rows of a large state takes long, and a job need not wait for it: a merge does so while the job runs. Until
then a key is found in the snapshot's own order, in which the rows of each key group ascend by key and namespace.

An incremental snapshot has several such runs for a state, and runs of notes for the keys that were removed in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.keys.key_codec import codec_for
from kit.stream.backend.keys.key_order import ascend, rows_of, sort_columns
from kit.stream.backend.picking import rows_at
from kit.stream.backend.spill.places import Places, Rows, first_place, group_of, places_of
from kit.stream.backend.spill.rows import FIXED, key_columns, made_rows

_BLOCK_BYTES = 1 << 14


class SnapshotRun:
    """The rows of a snapshot by key group, in its columns; they count as changed in one interval.

    They are entries, or, without the columns of values, notes that a key has none.
    """

    is_in_order = False

    def __init__(
        self,
        schema: pa.Schema,
        key_groups: Mapping[int, pa.RecordBatch],
        max_parallelism: int,
        interval: int,
        *,
        are_entries: bool = True,
    ) -> None:
        """Raises ValueError if the rows of a key group do not ascend."""
        if not all(ascend(sort_columns(key_columns(rows))) for rows in key_groups.values()):
            raise ValueError("the keys of a key group do not ascend")
        self.rows = sum(rows.num_rows for rows in key_groups.values())
        self.size = sum(rows.nbytes for rows in key_groups.values())
        self.latest_change = interval
        self.are_entries = are_entries
        self._schema = schema
        self._key_groups = dict(key_groups)
        self._max_parallelism = max_parallelism
        self._sorted: tuple[int, Places, Rows] | None = None

    def __repr__(self) -> str:
        return f"SnapshotRun({self.rows} rows in {len(self._key_groups)} key groups, {self.size} B)"

    def __deepcopy__(self, memo: dict[int, object]) -> SnapshotRun:
        """Return the run itself: it is immutable, so copies of a world share it."""
        return self

    @property
    def fences(self) -> Places:
        """Places with about as many bytes between them as in the blocks of a run: hashes spread evenly."""
        found: list[Places] = []
        for group, rows in self._key_groups.items():
            first, behind = first_place(group), first_place(group + 1)
            blocks = max(1, rows.nbytes // _BLOCK_BYTES)
            found.append(np.arange(blocks).astype(np.uint64) * np.uint64((behind - first) // blocks) + np.uint64(first))
        return np.concatenate([np.empty(0, np.uint64), *found])

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of the order of one key group."""
        found = self._sorted
        return 0 if found is None else found[1].nbytes + found[2].nbytes

    def keys(self, group: int) -> list[pa.Array] | None:
        """Return the columns of the keys in a key group, None if it has no rows here."""
        rows = self._key_groups.get(group)
        return None if rows is None else key_columns(rows)

    @property
    def key_groups(self) -> list[int]:
        """The key groups that have rows here."""
        return list(self._key_groups)

    def find(self, wanted: Places, keys: Sequence[pa.Array]) -> tuple[Rows, list[pa.Table]]:
        """Return which of some distinct keys, whose places ascend, have a row here, and these rows in that order."""
        numbers, found = [np.empty(0, np.int64)], []
        groups = group_of(wanted)
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])) if len(groups) else groups
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(groups)]):
            rows = self._key_groups.get(int(groups[begin]))
            if rows is None:
                continue
            some = sort_columns([column.slice(begin, end - begin) for column in keys])
            at = rows_of(some, sort_columns(key_columns(rows)))
            there = np.flatnonzero(at >= 0)
            if len(there):
                numbers.append(begin + there)
                found.append(self._made(rows_at(rows, at[there]), wanted[begin + there]))
        return np.concatenate(numbers), found

    def between(self, low: int, behind: int, after: int | None = None) -> pa.Table:
        """Return the rows with places from `low` to below `behind`, in their order; none if nothing changed after
        `after`.
        """
        parts = []
        last = int(group_of(np.array([behind - 1], np.uint64))[0])
        first = int(group_of(np.array([low], np.uint64))[0])
        wanted = range(first, last + 1) if after is None or self.latest_change > after else range(0)
        for group in wanted:
            rows = self._key_groups.get(group)
            if rows is not None:
                at, order = self._in_order(group, rows)
                begin, end = np.searchsorted(at, np.uint64(low)), np.searchsorted(at, np.uint64(behind - 1), "right")
                parts.append(self._made(rows_at(rows, order[begin:end]), at[begin:end]))
        return pa.concat_tables([self._schema.empty_table(), *parts])

    def _in_order(self, group: int, rows: pa.RecordBatch) -> tuple[Places, Rows]:
        """Return the places of a key group's rows in their order, and the rows; the last result is remembered."""
        remembered = self._sorted
        if remembered is not None and remembered[0] == group:
            return remembered[1:]
        at = places_of(key_columns(rows), self._max_parallelism)
        order = np.argsort(at, kind="stable")
        at = at.take(order)
        self._sorted = group, at, order
        return at, order

    def _made(self, rows: pa.RecordBatch, at: Places) -> pa.Table:
        changed: npt.NDArray[np.int32] = np.full(len(at), self.latest_change, np.int32)
        added = np.zeros(len(at), np.int32)  # an older run may have the key: its removal has to be noted
        keys = key_columns(rows)
        values = rows.columns[len(keys) :]
        if not self.are_entries:
            values = [pa.nulls(0, field.type) for field in list(self._schema)[len(FIXED) + len(keys) :]]
        is_entry = np.full(len(at), self.are_entries)
        return made_rows(self._schema, at, added, changed, is_entry, keys, values)


def hidden_rows(runs: Sequence[SnapshotRun]) -> list[int]:
    """Return how many rows of each run newer ones hide. The runs begin with the newest; the last is the largest."""
    counts = np.zeros(len(runs), np.int64)
    *newer, oldest = runs
    for group in sorted({group for run in newer for group in run.key_groups}):
        parts = [(number, keys) for number, run in enumerate(newer) if (keys := run.keys(group)) is not None]
        columns = [pa.concat_arrays(part) for part in zip(*(keys for _, keys in parts), strict=True)]
        of_run = np.repeat([number for number, _ in parts], [len(keys[0]) for _, keys in parts])
        numbers = _numbered(columns)
        order = np.argsort(numbers, kind="stable")
        is_newest = np.append(True, numbers[order][1:] != numbers[order][:-1])
        counts += np.bincount(of_run[order[~is_newest]], minlength=len(runs))
        there = oldest.keys(group)
        if there is not None:
            distinct = [rows_at(column, order[is_newest]) for column in columns]
            counts[-1] += np.count_nonzero(rows_of(sort_columns(distinct), sort_columns(there)) >= 0)
    return counts.tolist()


def _numbered(keys: Sequence[pa.Array]) -> Rows:
    """Return a number for each key, equal where the keys are."""
    numbers: Rows = codec_for(keys[0].type).encode(keys[0], create=True)
    for column in keys[1:]:
        further = codec_for(column.type).encode(column, create=True)
        (_, first), (distinct, second) = (np.unique(each, return_inverse=True) for each in (numbers, further))
        numbers = first * len(distinct) + second
    return numbers
