"""A clock that stands still while this process does.

Theory of operation. Whether a peer is silent is judged by whoever listens, and a machine that was stopped, a process
that got no core and a thread that waited for Python's lock did not listen. By a usual clock all its peers were silent
meanwhile; the first thing it did on waking was to lose them. Who listens looks at this clock at each turn of its loop,
and knows how long a turn takes at most. What a turn took beyond that was nobody's silence and is not counted.

Flink judges by its own clock alone (`HeartbeatMonitorImpl`) and gives a limit of 50 s against such pauses. Ours is 3 s.
"""

from __future__ import annotations

import time


class WakingClock:
    """Seconds of waking time. `most_s`: so long a turn of its owner's loop takes, waiting included, while it runs."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._looked_s = time.monotonic()
        self._slept_s = 0.0

    def __repr__(self) -> str:
        return f"WakingClock(slept {self._slept_s:.3f} s)"

    def look(self) -> float:
        """What it shows now. For the thread of its owner."""
        now_s = time.monotonic()
        self._slept_s += max(0.0, now_s - self._looked_s - self._most_s)
        self._looked_s = now_s
        return now_s - self._slept_s
