"""Reports about rows that were dropped because they arrived late (Flink: the metric `numLateRecordsDropped`).

A window or a join drops a row when the watermark has passed all windows of the row, unless a side output takes it. The
job continues and finishes, so its user must be warned.

An operator counts such rows with `OperatorContext.count_late`, and the trace has the counts. A record for every row
would be too much. So a count is recorded when it has grown by an eighth, with each snapshot, and at the end of the
data. The first fifteen rows are recorded one by one, a million rows in about a hundred records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.protocol.notes import LateRows

GROWTH = 8
"""A count is recorded again when it has grown by one part in this many."""


@dataclass(slots=True)
class LateCount:
    """The late rows of one operator since its task began."""

    rows: int = 0
    behind_ms: int = 0
    """The amount, in ms, by which `out_of_orderness_ms` is too small."""
    watermark_ms: int = 0
    """The watermark at the arrival of the last late row."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """The event time of the task's inputs at that moment."""
    noted: int = 0
    """The count that the trace has."""

    def add(self, times_ms: npt.NDArray[np.int64], watermark_ms: int) -> bool:
        """Count rows with these event times; return True if the trace should have the new count now."""
        self.rows += len(times_ms)
        self.watermark_ms = watermark_ms
        self.behind_ms = max(self.behind_ms, watermark_ms + 1 - int(times_ms.min()))
        return self.rows - self.noted >= max(1, self.noted // GROWTH)

    def note(self, kind: type[LateRows], operator: str, split: str) -> LateRows:
        """Return a note of the count, which the trace then has."""
        self.noted = self.rows
        return kind(
            operator=operator,
            split=split,
            rows=self.rows,
            behind_ms=self.behind_ms,
            watermark_ms=self.watermark_ms,
            **self.inputs,
        )


def late_rows_of(tasks: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the rows dropped by each operator that dropped some, summed over the tasks."""
    dropped: Counter[str] = Counter()
    for operators in tasks:
        dropped.update(operators)
    return dict(dropped)


def late_rows_counted(rows: int) -> str:
    """Return the number of late rows in words."""
    return f"{rows:,} late row{'s' * (rows != 1)} dropped"


def late_rows_said(operator: str, rows: int) -> str:
    """Return a message about the dropped rows, and what to do."""
    return (
        f"{operator!r} has dropped {rows:,} row{'s' * (rows != 1)} that came after the watermark had passed their time."
        " why('late rows') names the inputs that drove the watermark. If the rows came out of order, give "
        "assign_timestamps a larger out_of_orderness_ms, or windows an allowed_lateness; if their source was idle, "
        "give with_idleness a longer time; side_output_late_data keeps them apart"
    )
