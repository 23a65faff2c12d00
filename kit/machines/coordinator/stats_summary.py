"""Figures over all completed checkpoints: minimum, mean, maximum and percentiles.

Minimum, mean and maximum are over all of them, percentiles over the last `QUANTILE_WINDOW`. Percentile p of n values is
at position p (n + 1), interpolated between two values (Flink's `DescriptiveStatisticsHistogram`).

Follows Flink's `CompletedCheckpointStatsSummary` and `StatsSummary`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

QUANTILE_WINDOW = 10_000
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(slots=True)
class StatsSummary:
    """One figure: its count, minimum, sum and maximum, and its latest values."""

    count: int = 0
    least: int = 0
    most: int = 0
    sum: int = 0
    window: deque[int] = field(default_factory=lambda: deque(maxlen=QUANTILE_WINDOW))

    def add(self, value: int) -> None:
        """Add a value; negative values mean "not known" and are ignored."""
        if value < 0:
            return
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = max(self.most, value)
        self.count += 1
        self.sum += value
        self.window.append(value)

    @property
    def average(self) -> int:
        """The mean, rounded down; 0 before the first value."""
        return self.sum // self.count if self.count else 0

    def percentiles(self) -> list[float]:
        """Return the values of `PERCENTILES`; not a number before the first value."""
        if not self.window:
            return [float("nan")] * len(PERCENTILES)
        return [float(value) for value in np.percentile(list(self.window), PERCENTILES, method="weibull")]

    def copy(self) -> StatsSummary:
        """Return a copy that does not change any more."""
        return StatsSummary(self.count, self.least, self.most, self.sum, self.window.copy())


@dataclass(frozen=True, slots=True)
class CompletedCheckpointStatsSummary:
    """The figures of all completed checkpoints and savepoints: time in ms, sizes in bytes."""

    end_to_end_ms: StatsSummary = field(default_factory=StatsSummary)
    checkpointed_bytes: StatsSummary = field(default_factory=StatsSummary)
    full_bytes: StatsSummary = field(default_factory=StatsSummary)
    processed_bytes: StatsSummary = field(default_factory=StatsSummary)
    persisted_bytes: StatsSummary = field(default_factory=StatsSummary)

    def add(self, *, end_to_end: int, checkpointed: int, full: int, processed: int, persisted: int) -> None:
        """Add the figures of one checkpoint."""
        self.end_to_end_ms.add(end_to_end)
        self.checkpointed_bytes.add(checkpointed)
        self.full_bytes.add(full)
        self.processed_bytes.add(processed)
        self.persisted_bytes.add(persisted)

    def copy(self) -> CompletedCheckpointStatsSummary:
        """Return a copy that does not change any more."""
        return CompletedCheckpointStatsSummary(
            self.end_to_end_ms.copy(),
            self.checkpointed_bytes.copy(),
            self.full_bytes.copy(),
            self.processed_bytes.copy(),
            self.persisted_bytes.copy(),
        )
