"""Work beside a main loop: one thread that does what it is given, in order, and hands the results to an inbox."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class HostClock:
    """The host's time in ms: wall-clock time when it was made, and steady from then on."""

    def __init__(self) -> None:
        self._start_s = time.time() - time.monotonic()

    def __call__(self) -> int:
        """The time now."""
        return int((self._start_s + time.monotonic()) * 1000)


class Background:
    """A thread named `name`; `put` takes the results. A job that raises ends in `put(failed(error))`."""

    def __init__(self, name: str, put: Callable[[Any], None], failed: Callable[[Exception], Any]) -> None:
        self._put = put
        self._failed = failed
        self._jobs: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any]) -> None:
        """Do this after what was submitted before; its result goes to the inbox, unless it is None."""
        self._jobs.put(job)

    def close(self, timeout_s: float) -> bool:
        """Begin nothing more; wait until what is being done is done. False when it is not in time."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            try:
                result = job()
            except Exception as error:
                result = self._failed(error)
            if result is not None:
                self._put(result)

    def __repr__(self) -> str:
        return f"Background({self._thread.name}, {self._jobs.qsize()} waiting)"
