"""Reads of one source task on a thread beside the slot's main thread, and the polling of empty splits.

A read that waits for a disk or a queue must not delay checkpoints, but using a thread for every read would slow down
fast sources. So the fetcher decides by how long reads take. The first reads run on its own thread. After `QUICK_READS`
quick reads in a row, the main thread reads directly. After one slow read on the main thread, reads move back to the
fetcher's thread, and twice as many quick reads as before are required.

The same thread periodically asks the source which of its empty splits have rows, and reports them to the slot. A task
has one read in flight at a time, so two threads never read a source at the same time.

Follows Flink's `SplitFetcherManager` and `SplitFetcher`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

QUICK_READS = 8
SLOW_S = 0.01
"""The duration above which a read is slow."""
LONGEST_WATCH_S = 0.4
"""The interval at which empty splits are asked for rows once they have been empty for long."""
SLOWER = 1.25
"""The factor by which the interval grows with each question in vain."""


class Fetcher:
    """The thread `name`. `carry_out` performs a job and returns whether it has an answer; `put` receives answered jobs,
    and what `failed` makes of an error.
    """

    def __init__(
        self,
        name: str,
        carry_out: Callable[[Any], bool],
        put: Callable[[Any], None],
        failed: Callable[[Exception], Any],
    ) -> None:
        self._carry_out = carry_out
        self._put = put
        self._failed = failed
        self._jobs: queue.SimpleQueue[tuple[Any, float] | None] = queue.SimpleQueue()
        self._closed = False
        self._quick_in_a_row = 0
        self._needed = QUICK_READS
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def reads_at_once(self) -> bool:
        """Return True if the next read is expected to be quick, so that the main thread may perform it."""
        return self._quick_in_a_row >= self._needed

    def note_read(self, took_s: float) -> None:
        """Record how long a read took."""
        if took_s < SLOW_S:
            self._quick_in_a_row += 1
            return
        if self.reads_at_once:
            self._needed *= 2
        self._quick_in_a_row = 0

    def read(self, job: Any) -> None:
        """Perform a read after the jobs that were submitted earlier."""
        self._jobs.put((job, 0.0))

    def watch(self, job: Any, every_s: float) -> None:
        """Perform a job until it has an answer, instead of the previous one; None ends this.

        It is performed every `every_s` seconds at first, and the interval grows up to `LONGEST_WATCH_S`.
        """
        self._jobs.put((job, every_s))

    def close(self, timeout_s: float) -> bool:
        """Stop after the current job and wait for it; return False if it does not finish in time."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        watched: Any = None
        every_s, due_s = 0.0, float("inf")
        while not self._closed:
            try:
                wait_s = due_s - time.monotonic()
                item = self._jobs.get(timeout=max(0.0, wait_s)) if watched is not None else self._jobs.get()
            except queue.Empty:
                item = (None, 0.0)
            if item is None:
                return
            job, interval_s = item
            if interval_s:
                watched, every_s = job, interval_s
                due_s = min(due_s, time.monotonic() + every_s) if watched is not None else float("inf")
            elif job is not None:
                started_s = time.monotonic()
                self._do(job)
                self.note_read(time.monotonic() - started_s)
            if watched is not None and time.monotonic() >= due_s:
                answered = self._do(watched)
                every_s = max(every_s, min(every_s * SLOWER, LONGEST_WATCH_S))
                watched, due_s = (None, float("inf")) if answered else (watched, time.monotonic() + every_s)

    def _do(self, job: Any) -> bool:
        try:
            answered = self._carry_out(job)
        except Exception as error:
            job, answered = self._failed(error), True
        if answered and not self._closed:
            self._put(job)
        return answered

    def __repr__(self) -> str:
        where = "at once" if self.reads_at_once else "beside"
        return f"Fetcher({self._thread.name}, reads {where})"
