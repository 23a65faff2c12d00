"""Merges of spilled runs: which are due, and one that proceeds step by step.

A merge has no thread. Whenever rows are written, the one that is due proceeds by a multiple of their bytes. So it keeps
up, and no batch waits for all of it. It goes through ranges of places, so its memory does not depend on the size
of the runs.

A merge of a state with TTL leaves out what had expired when it began. Until it ends, the ranges that it is through with
are read without these entries (`CleanedRun`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kit.stream.backend.spill.places import Places
from kit.stream.backend.spill.rows import Unexpired, are_entries, newest, with_notes
from kit.stream.backend.spill.run import CleanedRun, Run
from kit.stream.backend.spill.spill_space import SpillSpace
from kit.stream.backend.spill.spilled_run import RunWriter, SpilledRun

RANGE_BYTES = 1 << 22
"""Bytes of all inputs together that are merged at once."""
FEWEST_TO_MERGE, MOST_RUNS = 4, 16
_GROWTH = 1.5
"""A merge takes in the next older run if it has at most this many times the rows of the newer ones together."""


def to_merge(sizes: Sequence[int]) -> slice | None:
    """Return which runs to merge, given the rows of each, newest first; None if no merge is due.

    They are neighbours of a similar size, or all of them once half of the rows may be obsolete.
    """
    if len(sizes) > 1 and sum(sizes[:-1]) >= sizes[-1]:
        return slice(0, len(sizes))
    for start in range(len(sizes) - FEWEST_TO_MERGE + 1):
        end, total = start + 1, sizes[start]
        while end < len(sizes) and sizes[end] <= _GROWTH * total:
            total += sizes[end]
            end += 1
        if end - start >= FEWEST_TO_MERGE:
            return slice(start, end)
    return slice(0, MOST_RUNS // 2) if len(sizes) > MOST_RUNS else None


def ranges(runs: Sequence[Run], first: int, behind: int) -> list[int]:
    """Return the bounds of ranges of places in which the runs have about `RANGE_BYTES` together."""
    of_runs = [run.fences for run in runs]
    blocks = sum(map(len, of_runs))
    step = max(1, RANGE_BYTES * blocks // max(1, sum(run.size for run in runs)))
    fences: Places = np.sort(np.concatenate([np.empty(0, np.uint64), *of_runs]))
    inner = np.unique(fences[step::step])
    return [first, *inner[inner > np.uint64(first)].tolist(), behind]


class Merge:
    """A merge of neighbouring runs into one, the newest first. There are `older` runs; `unexpired` leaves out what has
    expired.
    """

    def __init__(
        self,
        inputs: Sequence[Run],
        space: SpillSpace,
        schema: pa.Schema,
        span: tuple[int, int],
        older: int,
        unexpired: Unexpired | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.older = older
        self._unexpired = unexpired
        self._expired: list[pa.Table] = []
        self._expired_bytes = 0
        self._bounds = ranges(inputs, *span)
        self._done = 0
        self._writer = RunWriter(space, schema, sum(run.rows for run in inputs), *span)

    def __repr__(self) -> str:
        return f"Merge({len(self.inputs)} runs, {self._done} of {len(self._bounds) - 1} ranges)"

    def proceed(self, most_bytes: int) -> SpilledRun | None:
        """Merge ranges until about this many bytes were written or left out. Return the run once it is finished."""
        until = self._writer.size + self._expired_bytes + most_bytes
        while self._done < len(self._bounds) - 1:
            if self._writer.size + self._expired_bytes >= until:
                return None
            low, behind = self._bounds[self._done : self._done + 2]
            rows = newest([run.between(low, behind) for run in self.inputs])
            if self._unexpired is not None:
                rows = self._cleaned(rows, self._unexpired)
            if not self.older:
                rows = rows.filter(pa.array(are_entries(rows)))
            self._writer.add(rows)
            self._done += 1
        return self._writer.finish()

    def _cleaned(self, rows: pa.Table, unexpired: Unexpired) -> pa.Table:
        cleaned = with_notes(rows, unexpired)
        expired = are_entries(rows) & ~are_entries(cleaned)
        if expired.any():
            gone = rows.filter(pa.array(expired))
            self._expired.append(gone)
            self._expired_bytes += gone.nbytes
        return cleaned

    def take_expired(self) -> list[pa.Table]:
        """Return the entries that were left out since the last call, in the order of their places."""
        expired, self._expired = self._expired, []
        return expired

    def inputs_now(self) -> tuple[Run, ...]:
        """Return the inputs as they are to be read until the merge ends: without what it has left out so far."""
        if self._unexpired is None:
            return self.inputs
        return tuple(CleanedRun(run, self._unexpired, self._bounds[self._done]) for run in self.inputs)
