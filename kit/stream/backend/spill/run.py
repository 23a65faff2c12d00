"""Runs: immutable rows on disk, one for each key, which are found by key and read in the order of their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from kit.stream.backend.spill.places import Places, Rows
from kit.stream.backend.spill.rows import Unexpired, places, with_notes


class Run(Protocol):
    """The rows of one state that were written together."""

    @property
    def rows(self) -> int:
        """Their number."""

    @property
    def size(self) -> int:
        """Their size in bytes."""

    @property
    def bytes_in_memory(self) -> int:
        """The memory that is in use to find them."""

    @property
    def fences(self) -> Places:
        """Ascending places, with about as many bytes between each two."""

    @property
    def latest_change(self) -> int:
        """The latest interval in which one of the rows changed, -1 without rows."""

    @property
    def is_in_order(self) -> bool:
        """True if they are in the order of their places. If not, a merge is due that puts them in order."""

    def find(self, wanted: Places, keys: Sequence[pa.Array]) -> tuple[Rows, list[pa.Table]]:
        """Return which of some distinct keys, whose places ascend, have a row here, and these rows in that order."""

    def between(self, low: int, behind: int, after: int | None = None) -> pa.Table:
        """Return the rows with places from `low` to below `behind`, in their order; those in which nothing changed
        after an interval `after` may be left out.
        """


class CleanedRun:
    """A run without its expired entries in places below `below`."""

    def __init__(self, run: Run, unexpired: Unexpired, below: int) -> None:
        self._run = run
        self._unexpired = unexpired
        self._below = below

    def __repr__(self) -> str:
        return f"CleanedRun({self._run!r})"

    def __deepcopy__(self, memo: dict[int, object]) -> CleanedRun:
        """Return the run itself: it is immutable, so copies of a world share it."""
        return self

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self._run.rows

    @property
    def size(self) -> int:
        """The size of all rows."""
        return self._run.size

    @property
    def bytes_in_memory(self) -> int:
        """Those of the run."""
        return self._run.bytes_in_memory

    @property
    def fences(self) -> Places:
        """Those of the run."""
        return self._run.fences

    @property
    def latest_change(self) -> int:
        """That of the run."""
        return self._run.latest_change

    @property
    def is_in_order(self) -> bool:
        """True if the run is."""
        return self._run.is_in_order

    def find(self, wanted: Places, keys: Sequence[pa.Array]) -> tuple[Rows, list[pa.Table]]:
        """Return what the run has, expired entries as notes that their keys have none."""
        numbers, found = self._run.find(wanted, keys)
        return numbers, [self._clean(rows) for rows in found]

    def between(self, low: int, behind: int, after: int | None = None) -> pa.Table:
        """Return what the run has, expired entries as notes that their keys have none."""
        return self._clean(self._run.between(low, behind, after))

    def _clean(self, rows: pa.Table) -> pa.Table:
        behind = int(np.searchsorted(places(rows), np.uint64(self._below)))
        if not behind:
            return rows
        return pa.concat_tables([with_notes(rows.slice(0, behind), self._unexpired), rows.slice(behind)])
