"""Durations as people read them, in one format everywhere.

`durations.js` beside this file does the same in a page.
"""

from __future__ import annotations

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
MILLISECONDS_UNTIL_MS = 10_000
"""The duration below which milliseconds are shown, because checkpoints are compared in them."""


def duration(ms: float | None) -> str:
    """Format a duration, or a time since the run began: `153 ms`, `9,300 ms`, `12.5 s`, `10 min 0.102 s`, `2 h 5 min`.

    Only fractions of a millisecond are rounded away, and only from ten seconds on. None, for what has not ended yet,
    becomes `…`.
    """
    if ms is None:
        return "…"
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < MILLISECONDS_UNTIL_MS:
        return f"{ms:,g} ms"
    hours, rest = divmod(round(ms), HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    parts = [(hours, "h"), (minutes, "min"), (rest / SECOND_MS, "s")]
    return " ".join(f"{many:,g} {unit}" for many, unit in parts if many)
