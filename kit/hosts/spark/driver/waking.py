"""A clock that stops while this process is stopped.

Theory of operation. The listening process decides whether a peer is silent. It does not listen while its machine is
stopped, while it gets no core, or while its thread waits for Python's lock. By an ordinary clock, all its peers would
seem silent meanwhile, and on waking it would lose them all. So the listener reads this clock once in each iteration of
its loop, and knows the longest time that an iteration takes. Any time beyond that is not silence and is not counted.

Flink judges by its own clock alone (`HeartbeatMonitorImpl`) and gives a limit of 50 s against such pauses. Ours is 3 s.
"""

from __future__ import annotations

import time


class WakingClock:
    """Seconds of waking time. `most_s`: the longest iteration of its owner's loop, with waiting, while it runs."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._looked_s = time.monotonic()
        self._slept_s = 0.0

    def __repr__(self) -> str:
        return f"WakingClock(slept {self._slept_s:.3f} s)"

    def read(self) -> float:
        """Return the current reading. Only the owner's thread may call this."""
        now_s = time.monotonic()
        self._slept_s += max(0.0, now_s - self._looked_s - self._most_s)
        self._looked_s = now_s
        return now_s - self._slept_s
