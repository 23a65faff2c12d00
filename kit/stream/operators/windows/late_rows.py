"""What is said of rows that came too late and were dropped (Flink: the metric `numLateRecordsDropped`).

A window or a join drops a row when the watermark has passed all that the row belongs to, unless a side output takes it.
The job goes on and finishes, so whoever runs it has to be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


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
        "side_output_late_data keeps them apart"
    )
