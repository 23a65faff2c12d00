"""The memory budget of a keyed backend, and the space for what exceeds it."""

from __future__ import annotations

from dataclasses import dataclass

from kit.stream.backend.spill.spill_space import SpillSpace

KEPT = 0.75
"""The share of the budget that entries take after some were moved to disk: room for the next batches."""

BYTES_PER_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """At most `most_bytes` of memory for the entries of a backend between two events; the rest is in `space`."""

    space: SpillSpace
    most_bytes: int

    def kept(self, bytes_of_rows: float, bytes_of_runs: int) -> float:
        """Return the share of the rows in memory that may stay there, given what they take, and what runs take."""
        if not bytes_of_rows or bytes_of_rows + bytes_of_runs <= self.most_bytes:
            return 1
        return max(0.0, KEPT * self.most_bytes - bytes_of_runs) / bytes_of_rows
