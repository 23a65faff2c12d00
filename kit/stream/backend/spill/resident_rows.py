"""Resident rows: what is known of the rows that a table has in memory, while others of it are on disk."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kit.stream.backend.keys.changed_rows import ChangedRows, Columns, Intervals, Slots
from kit.stream.backend.keys.slot_index import extended
from kit.stream.backend.spill.cold_rows import ColdRows

BYTES_PER_ROW = 14
"""Two intervals, the last use and two marks."""


class ResidentRows(ChangedRows):
    """The intervals of each slot, whether its key has a row on disk, and when it was used; and the rows on disk."""

    def __init__(self, intervals: Intervals, cold: ColdRows) -> None:
        super().__init__(intervals)
        self.cold = cold
        """The rows on disk."""
        self.is_behind = np.zeros(0, np.bool_)
        """True where runs have a row of the key, which this one hides."""
        self.is_written = np.zeros(0, np.bool_)
        """True where the row differs from that in the runs."""
        self.used = np.zeros(0, np.int32)
        """The number of the last event that used the row."""
        self.event = 0
        self.notes_use = False
        """True once so much memory is in use that some rows may have to go."""

    def add(self, slots: Slots, capacity: int) -> None:
        """Note new entries of an index with this capacity."""
        super().add(slots, capacity)
        if capacity > len(self.used):
            self.is_behind, self.is_written = extended(self.is_behind, capacity), extended(self.is_written, capacity)
            self.used = extended(self.used, capacity)
        self.is_behind[slots] = False
        self.is_written[slots] = True
        self.used[slots] = self.event

    def _mark(self, slots: Slots | int) -> None:
        super()._mark(slots)
        if self.cold.runs:  # until then it is true of all
            self.is_written[slots] = True

    def fetched(self, slots: Slots, added: npt.NDArray[np.int32], changed: npt.NDArray[np.int32]) -> None:
        """Note that entries came from disk, with their intervals."""
        self.put_intervals(slots, added, changed)
        self.is_behind[slots] = True
        self.is_written[slots] = False

    def use(self, slots: Slots | int) -> None:
        """Note that entries are used now."""
        if self.notes_use:
            self.used[slots] = self.event

    def oldest(self, slots: Slots, rows: int) -> Slots:
        """Return this number of slots, those that were not used for longest."""
        return slots if rows >= len(slots) else slots[np.argpartition(self.used[slots], rows)[:rows]]

    def remove(self, slots: Slots, columns: Callable[[Slots], Columns]) -> None:
        """Note that entries are about to be removed. Those with a row on disk keep their slots, to hide it."""
        super().remove(slots, columns)
        hiding = slots[self.is_behind[slots]]
        if len(hiding):
            self.change(hiding)
