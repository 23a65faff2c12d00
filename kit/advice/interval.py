"""The checkpoint interval that loses least time: to checkpoints when it is short, to repeated work when it is long.

With an interval of t, checkpoints cost C/t of the time, and a failure every M costs half an interval and a restart. The
sum is least at about sqrt(2 C M).

Source: Young, "A first order approximation to the optimum checkpoint interval", 1974; Daly, "A higher order estimate of
the optimum checkpoint interval for restart dumps", 2006. Both are written for jobs that stop while a checkpoint is
taken. A Flink job goes on, so C is only the time that processing stands still: alignment and the synchronous part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


SHOWN = (1 / 10, 1 / 3, 1, 3, 10)
"""The table has the optimum, and these multiples of it."""


def checkpoint_interval(
    cost_ms: float, mean_time_between_failures_ms: float, *, restart_ms: float = 0.0
) -> pd.DataFrame:
    """Return intervals around the best one, with the share of time that each loses; the best is the row `best`.

    `cost_ms` is how long processing stands still for a checkpoint, `restart_ms` how long a recovery takes before rows
    are processed again. Columns: interval_ms, checkpoints (share of time), repeated (work that is done twice),
    restarts, lost (their sum), best. Raises ValueError for a cost or a time between failures that is not above 0.
    """
    import pandas as pd

    for name, value in {"cost_ms": cost_ms, "mean_time_between_failures_ms": mean_time_between_failures_ms}.items():
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"{name} is {value}, but must be a number above 0")
    if restart_ms < 0:
        raise ValueError(f"restart_ms is {restart_ms}, but must not be negative")
    best = _daly(cost_ms, mean_time_between_failures_ms)
    rows = []
    for multiple in SHOWN:
        interval = best * multiple
        parts = (
            cost_ms / (interval + cost_ms),
            (interval + cost_ms) / 2 / mean_time_between_failures_ms,
            restart_ms / mean_time_between_failures_ms,
        )
        rows.append((round(interval), *(min(part, 1.0) for part in parts), min(sum(parts), 1.0), multiple == 1))
    return pd.DataFrame(rows, columns=["interval_ms", "checkpoints", "repeated", "restarts", "lost", "best"])


def _daly(cost_ms: float, between_ms: float) -> float:
    if cost_ms >= 2 * between_ms:
        return between_ms
    ratio = cost_ms / (2 * between_ms)
    return max(math.sqrt(2 * cost_ms * between_ms) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost_ms, cost_ms)
