"""Interrupts (Ctrl-C, the stop button of a notebook) that wait until a step of a lab is complete.

    with interrupts_deferred() as interrupts:
        for action in actions:
            interrupts.deliver()      # raises KeyboardInterrupt if one is pending
            perform(action)           # is not interrupted

While such a block runs, the first interrupt is only noted. It is delivered at the next call of `deliver`, or at the end
of the block, by calling the handler that was installed before; usually that raises KeyboardInterrupt. A step that
hangs, for instance in a user function, must not hold an interrupt back forever. So at a second interrupt, or `GRACE_S`
after the first one, the handler is called at once. Code in such a block must therefore still be able to recover from an
exception at any point; deferral only makes that rare.

Blocks nest: only the outermost one installs a handler, and each of them delivers. Python calls signal handlers in the
main thread only, so in other threads a block does nothing. The same is true where SIGINT is ignored, or ends the
process without asking Python.
"""

from __future__ import annotations

import signal
import sys
from _signal import getsignal  # type: ignore[import-not-found]  # `signal` wraps it, at ten times the cost
from _signal import signal as set_handler
from _thread import allocate_lock, get_ident, start_new_thread
from threading import main_thread
from types import FrameType
from typing import Any

GRACE_S = 2.0
"""A pending interrupt waits for the end of a step no longer than this."""


class Interrupts:
    """The interrupts of the main thread while they are deferred; `pending` is True if one waits."""

    __slots__ = ("_before", "_delivering", "_depth", "_grace", "_handler", "_owner", "pending")

    def __init__(self) -> None:
        self.pending = False
        self._depth = 0
        self._before: Any = None
        self._owner: FrameType | None = None
        self._grace: _Grace | None = None
        self._delivering = False
        self._handler = self._note  # keep one object, because the installed handler is compared with it

    def __enter__(self) -> Interrupts:
        if self._depth == 0:
            self._owner = sys._getframe(1)
            before = getsignal(signal.SIGINT)
            if callable(before) and before is not self._handler:
                self._before = before
                set_handler(signal.SIGINT, self._handler)
        self._depth += 1
        return self

    def __exit__(self, *_: object) -> None:
        if self._depth > 1:
            self._depth -= 1
        else:
            self._depth = 0
            self._uninstall()
        if self.pending:
            self._deliver()

    def deliver(self) -> None:
        """Raise the pending interrupt, if any. Call this only when the state is consistent."""
        if self.pending:
            self._deliver()

    def _uninstall(self) -> None:
        self._owner = None
        if getsignal(signal.SIGINT) is self._handler:
            set_handler(signal.SIGINT, self._before)

    def _deliver(self) -> None:
        self._delivering = True
        try:
            if self._grace is not None:
                self._grace.call_off()
        finally:
            self._grace, self.pending, self._delivering = None, False, False
        self._before(signal.SIGINT, sys._getframe(1))

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT: note the first one, and deliver the second one at once."""
        if self._delivering:
            return
        if not self._is_in_owner(frame):  # an exception from outside left the block without calling `__exit__`
            self._depth = 0
            self._uninstall()
            self._deliver()
        elif not self.pending:
            self._grace = _Grace()
            self.pending = True
        elif frame is None or frame.f_globals is not globals():  # this module delivers it when it is done
            self._deliver()

    def _is_in_owner(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame is self._owner:
                return True
            frame = frame.f_back
        return False


class _Grace:
    """A thread that sends SIGINT again after `GRACE_S`.

    A signal handler starts it, so it must take no lock that the interrupted code may hold, as `threading.Thread` does.
    """

    def __init__(self) -> None:
        self._called_off, self._over = allocate_lock(), allocate_lock()
        self._called_off.acquire()
        self._over.acquire()
        start_new_thread(self._wait, ())

    def _wait(self) -> None:
        if not self._called_off.acquire(timeout=GRACE_S):
            signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
        self._over.release()

    def call_off(self) -> None:
        """Stop the thread; no signal is sent after this returns."""
        self._called_off.release()
        self._over.acquire()


class _NotInterrupted:
    """The interrupts of a thread that receives no signals."""

    pending = False

    def __enter__(self) -> _NotInterrupted:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the block; no handler was installed."""

    def deliver(self) -> None:
        """Do nothing; no interrupt is ever pending."""


_of_main_thread = Interrupts()
_of_others = _NotInterrupted()


def interrupts_deferred() -> Interrupts | _NotInterrupted:
    """Return the interrupts of this thread, as a context manager that defers them."""
    return _of_main_thread if get_ident() == main_thread().ident else _of_others
