"""The time that a thread takes for its own work: it runs, or it waits for what its work needs.

The time in which the thread could run and had no processor is left out. On a busy machine that is most of the time by
the clock; a function would look slow, and get so few rows in a turn that the turns themselves would be the work. Linux
counts this time for each thread. Elsewhere it is unknown, and nothing is left out.
"""

from __future__ import annotations

import os
import time

SCHEDULER_STATISTICS = "/proc/thread-self/schedstat"
"""Linux: the time on a processor and the time on a run queue, in ns, and the number of time slices."""
_LONGEST_LINE = 80


class RunningTime:
    """A stopwatch for the thread that makes it: each call returns seconds, whose differences are the time taken."""

    def __init__(self, path: str = SCHEDULER_STATISTICS) -> None:
        try:
            self._file: int | None = os.open(path, os.O_RDONLY)
        except OSError:
            self._file = None

    def __call__(self) -> float:
        """Return a number of seconds."""
        now_s = time.perf_counter()
        if self._file is None:
            return now_s
        _, waited_ns, _ = os.pread(self._file, _LONGEST_LINE, 0).split()
        return now_s - int(waited_ns) / 1e9

    def close(self) -> None:
        """Close the file; from now on, nothing is left out."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __repr__(self) -> str:
        return f"RunningTime({'by the clock' if self._file is None else 'without waits for a processor'})"
