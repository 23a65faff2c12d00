"""Reads of one source task beside its slot's main thread, and the watch over splits that have nothing now.

A read that waits, for a disk or a queue, must not hold up checkpoints. Handing each read to a thread would slow down
sources that are quick. So the fetcher goes by how long reads take. The first reads are done on its own thread; after
`QUICK_READS` quick ones in a row the main thread does them at once. One slow read there, and they are done beside it
again, for twice as many quick ones as before.

The same thread asks the source from time to time which of its empty splits have rows, and tells the slot of some. A
task has one read under way at a time, so a source is never read by two threads at once.

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
"""A read that takes longer is slow."""


class Fetcher:
    """The thread `name`. `carry_out` does what a job asks, and says whether there is an answer; `put` takes jobs that
    are answered, and what `failed` makes of an error.
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
        """Return True if the next read is quick, to all appearances, so that the main thread may do it."""
        return self._quick_in_a_row >= self._needed

    def note_read(self, took_s: float) -> None:
        """Take note of how long a read took."""
        if took_s < SLOW_S:
            self._quick_in_a_row += 1
            return
        if self.reads_at_once:
            self._needed *= 2
        self._quick_in_a_row = 0

    def read(self, job: Any) -> None:
        """Carry out a read after what was asked for before."""
        self._jobs.put((job, 0.0))

    def watch(self, job: Any, every_s: float) -> None:
        """Carry this out every `every_s` until it has an answer, instead of what was watched before; a job of None
        ends that.
        """
        self._jobs.put((job, every_s))

    def close(self, timeout_s: float) -> bool:
        """Begin nothing more; wait until what is being done is done. False when it is not in time."""
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
