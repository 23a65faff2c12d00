"""A background thread that performs jobs in order and puts their results into an inbox."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any


class HostClock:
    """The host's time in ms: wall-clock time at its creation, monotonic from then on."""

    def __init__(self) -> None:
        self._start_s = time.time() - time.monotonic()

    def __call__(self) -> int:
        """Return the current time."""
        return int((self._start_s + time.monotonic()) * 1000)


class Background:
    """A thread named `name`; `put` receives the results. A job that raises leads to `put(failed(error))`."""

    def __init__(self, name: str, put: Callable[[Any], None], failed: Callable[[Exception], Any]) -> None:
        self._put = put
        self._failed = failed
        self._jobs: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], Any]) -> None:
        """Perform a job after those submitted earlier; put its result into the inbox unless it is None."""
        self._jobs.put(job)

    def close(self, timeout_s: float) -> bool:
        """Stop after the current job and wait for it; return False if it does not finish in time."""
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
