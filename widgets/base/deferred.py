"""Deferred calls on the kernel's own loop, because widgets must be used from one thread only, and after its cells.

Outside a kernel, in a script or a test, no loop runs later: deferred calls are performed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from IPython.core.getipython import get_ipython


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the kernel's loop, or None outside a kernel, where a running loop is unrelated to widgets."""
    if getattr(get_ipython(), "kernel", None) is None:
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Deferred:
    """A call that is made once, when it has not been requested again for `after_s`."""

    def __init__(self, act: Callable[[], None], after_s: float) -> None:
        self._act = act
        self._after_s = after_s
        self._handle: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Request the call soon; another request before then postpones it."""
        self.cancel()
        loop = running_loop()
        if loop is None:
            self._act()
        else:
            self._handle = loop.call_later(self._after_s, self._act)

    def cancel(self) -> None:
        """Cancel the call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class AfterEachCell:
    """A call after each cell of the notebook, until it is stopped."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._shell = get_ipython()
        if self._shell is not None:
            self._shell.events.register("post_run_cell", self._cell_ran)

    def _cell_ran(self, _: object) -> None:
        self._act()

    def stop(self) -> None:
        """Stop the calls."""
        if self._shell is not None:
            self._shell.events.unregister("post_run_cell", self._cell_ran)
            self._shell = None


class Ticker:
    """A repeated call, `every_s` seconds after the last one, until it returns False."""

    def __init__(self, act: Callable[[], bool], every_s: float) -> None:
        self._act = act
        self.every_s = every_s
        self.is_running = False
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start; outside a kernel the caller must call `tick`."""
        if not self.is_running:
            self.is_running = True
            self._next()

    def stop(self) -> None:
        """Stop the calls."""
        self.is_running = False
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def tick(self) -> None:
        """Make the call once."""
        if not self.is_running:
            return
        if self._act():
            self._next()
        else:
            self.stop()

    def _next(self) -> None:
        loop = running_loop()
        if loop is not None:
            self._handle = loop.call_later(self.every_s, self.tick)
