"""What is said of rows that came too late and were dropped (Flink: the metric `numLateRecordsDropped`).

A window or a join drops a row when the watermark has passed all that the row belongs to, unless a side output takes it.
The job goes on and finishes, so whoever runs it has to be told.

An operator counts such rows with `OperatorContext.count_late`, and the trace has how many there were. Every single row
would be too much for a trace: a count is noted again when it has grown by an eighth, with each snapshot, and at the end
of the data. So up to fifteen rows are noted one by one, a million in about a hundred records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

GROWTH = 8
"""A count is noted again when it has grown by one in so many."""


@dataclass(slots=True)
class LateCount:
    """The late rows of one operator since its task began."""

    rows: int = 0
    behind_ms: int = 0
    """By how much a watermark that passes no row would have to be less: what out_of_orderness_ms lacks."""
    watermark_ms: int = 0
    """The watermark when the last of them came."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """What the inputs of the task said of event time then."""
    noted: int = 0
    """The number of rows that the trace has."""

    def add(self, times_ms: npt.NDArray[np.int64], watermark_ms: int) -> bool:
        """Count rows with these event times; return True if the trace should have the new count now."""
        self.rows += len(times_ms)
        self.watermark_ms = watermark_ms
        self.behind_ms = max(self.behind_ms, watermark_ms + 1 - int(times_ms.min()))
        return self.rows - self.noted >= max(1, self.noted // GROWTH)

    def note(self) -> dict[str, Any]:
        """Return the count as JSON-like data, for the trace."""
        self.noted = self.rows
        told = {"rows": self.rows, "behind_ms": self.behind_ms, "watermark_ms": self.watermark_ms}
        return told | self.inputs


def late_rows_of(tasks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Rows dropped by each operator that dropped some, of what each task says of its operators."""
    dropped: Counter[str] = Counter()
    for operators in tasks:
        dropped.update(operators)
    return dict(dropped)


def late_rows_counted(rows: int) -> str:
    """So many late rows, in words."""
    return f"{rows:,} late row{'s' * (rows != 1)} dropped"


def late_rows_said(operator: str, rows: int) -> str:
    """What happened, and what to do about it."""
    return (
        f"{operator!r} has dropped {rows:,} row{'s' * (rows != 1)} that came after the watermark had passed their time."
        " To keep such rows, give assign_timestamps a larger out_of_orderness_ms, or windows an allowed_lateness; "
        "side_output_late_data keeps them apart; why('late rows') names the inputs that drove the watermark"
    )
