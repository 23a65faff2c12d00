"""Changed rows: which entries of a state have changed since an earlier snapshot, and which were removed.

Time between snapshots is divided into intervals, which are numbered. A snapshot ends its interval. For each slot the
number of the interval is kept in which its entry was added, and in which it last changed. So the rows for a snapshot
that builds on any earlier one are found in one pass, whether or not the snapshots between them were completed.

A removed entry is remembered by its key if a snapshot may contain it: it was added before the current interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kit.stream.backend.keys.slot_index import SlotIndex, extended

Slots = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Columns = tuple[pa.Array, ...]
"""The columns of removed entries: keys and namespaces, with the times of timers before them."""


@dataclass(slots=True)
class Intervals:
    """The number of the current interval, which all states of a backend share."""

    now: int = 0


class ChangedRows:
    """The intervals in which the entries of one index were added, changed and removed."""

    without_effect: ClassVar = frozenset({"_latest", "_latest_in"})

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._added = np.zeros(0, np.int32)
        self._changed = np.zeros(0, np.int32)
        self._removed: list[tuple[int, Columns]] = []
        self._latest: Slots | None = None  # the slots that were marked last, and when
        self._latest_in = 0

    def __repr__(self) -> str:
        return f"ChangedRows(interval {self._intervals.now}, {sum(map(_rows, self._removed))} removed)"

    @property
    def interval(self) -> int:
        """The number of the present interval."""
        return self._intervals.now

    def add(self, slots: Slots, capacity: int) -> None:
        """Note new entries of an index with this capacity."""
        if capacity > len(self._added):
            self._added, self._changed = extended(self._added, capacity), extended(self._changed, capacity)
        self._added[slots] = self._changed[slots] = self._intervals.now
        self._latest = None

    def change(self, slots: Slots | int) -> None:
        """Note that entries are written. The same array again, as each field of a struct passes it, costs nothing."""
        if slots is self._latest and self._latest_in == self._intervals.now:
            return
        self._mark(slots)
        self._latest, self._latest_in = slots if isinstance(slots, np.ndarray) else None, self._intervals.now

    def _mark(self, slots: Slots | int) -> None:
        if self._intervals.now:  # in interval 0 there is nothing else
            self._changed[slots] = self._intervals.now

    def put_intervals(self, slots: Slots, added: npt.NDArray[np.int32], changed: npt.NDArray[np.int32]) -> None:
        """Set the intervals of entries that come back as they were."""
        self._added[slots], self._changed[slots] = added, changed
        self._latest = None

    def intervals_of(self, slots: Slots) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the interval in which each entry was added, and that in which it last changed."""
        return self._added.take(slots), self._changed.take(slots)

    def remove(self, slots: Slots, columns: Callable[[Slots], Columns]) -> None:
        """Note that entries are about to be removed, whose keys `columns` returns."""
        known = slots[self._is_known(slots)]
        if len(known):
            self._removed.append((self._intervals.now, columns(known)))

    def remove_keys(self, columns: Columns) -> None:
        """Note that entries were removed that an earlier snapshot has, and the index does not."""
        if self._intervals.now:
            self._removed.append((self._intervals.now, columns))

    def after(self, interval: int, index: SlotIndex, unset: Mask | None = None) -> tuple[Slots, Slots]:
        """Return the slots of entries that changed after an interval, and of those that are unset since.

        `unset` is True for slots without an entry.
        """
        slots = np.flatnonzero(self._changed[: index.size] > interval)
        slots = slots[index.live[slots]]
        if unset is None:
            return slots, slots[:0]
        is_unset = unset[slots]
        gone = slots[is_unset]
        return slots[~is_unset], gone[self._is_known(gone)]

    def removed_after(self, interval: int) -> list[Columns]:
        """Return the keys of entries that were removed after an interval; an entry may have come back since."""
        return [columns for number, columns in self._removed if number > interval]

    def forget_removed(self, until: int) -> None:
        """Forget what was removed up to an interval, since no later snapshot builds on an earlier one."""
        self._removed = [each for each in self._removed if each[0] > until]

    def _is_known(self, slots: Slots) -> Mask:
        """Return True for entries that a snapshot may contain."""
        return self._added[slots] < self._intervals.now


def _rows(removed: tuple[int, Sequence[Any]]) -> int:
    return len(removed[1][0])
