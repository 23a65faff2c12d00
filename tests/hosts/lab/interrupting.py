"""Interrupts at moments that a test chooses: real signals at random times, and exceptions at every line in turn."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from kit.hosts.lab.lab import Lab

SPARED = ("get_type_name", "uncollected", "garbage_among_new_objects_only")
"""The first is called from C++, which cannot pass an exception on. The others end with a single call that restores the
garbage collector: Python itself raises nothing before that, only a tracer does.
"""
KIT = str(Path(sys.modules["kit"].__file__ or "").parent)
Act = Callable[[], object]


@contextmanager
def interruptible() -> Iterator[None]:
    """Install Python's own handlers, and restore the earlier ones; the kit must have left nothing in their place."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    profiler = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, profiler)
        signal.signal(signal.SIGINT, before)


class Interrupter:
    """Interrupts an action repeatedly after random times, `mean_s` on average; `count` is the number of interrupts.
    Times are processor times, so the load of the machine makes no difference.
    """

    def __init__(self, seed: int, mean_s: float, most: int = 30) -> None:
        self.chance = Random(seed)
        self.mean_s = mean_s
        self.most = most
        self.count = 0

    def rounds(self, fewest: int, more_than: int, most_each: int = 12) -> Iterator[None]:
        """Yield `fewest` rounds with `most_each` interrupts at most in each, and others until there were more than
        `more_than` interrupts. After a round with few of them they come twice as soon, since runs differ in length.

        Raises AssertionError if there are too few.
        """
        for number in range(fewest + more_than + 20):
            before = self.count
            if number >= fewest and self.count > more_than:
                return
            self.most = self.count + most_each
            yield
            if self.count - before < min(most_each, 3):
                self.mean_s /= 2
        raise AssertionError(f"{self.count} interrupts came, but should be more than {more_than}")

    def tried(self, act: Act) -> bool:
        """Do it once; returns False if it was interrupted."""
        try:
            if self.count < self.most:
                signal.setitimer(signal.ITIMER_PROF, self.chance.uniform(1e-6, 2 * self.mean_s))
            act()
            signal.setitimer(signal.ITIMER_PROF, 0)
        except KeyboardInterrupt:
            self.count += 1
            return False
        return True

    def until(self, is_so: Callable[[], bool], act: Act) -> None:
        """Repeat `act` until the condition holds."""
        while not is_so():
            try:
                self.tried(act)
            except KeyboardInterrupt:  # between the end of the act and that of the clock
                self.count += 1


class Lines:
    """Raises KeyboardInterrupt when `act` first comes to a line of the kit, at a `share` of all lines; in files whose
    names end in one of `closely` at every bytecode. `count` counts them.
    """

    def __init__(self, *closely: str, share: float = 1.0, seed: int = 0) -> None:
        self.closely = closely
        self.share = share
        self.count = 0
        self._chance = Random(seed)
        self._seen: set[tuple[CodeType, int]] = set()

    def until(self, is_so: Callable[[], bool], act: Act) -> None:
        """Repeat `act` until the condition holds."""
        while not is_so():
            try:
                sys.settrace(self._call)
                act()
            except KeyboardInterrupt:
                self.count += 1
            finally:
                sys.settrace(None)

    def _call(self, frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(KIT) or frame.f_code.co_name in SPARED:
            return None
        if file.endswith(self.closely):
            frame.f_trace_opcodes = True
            return self._opcode
        return self._line

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._visit(frame.f_code, frame.f_lineno, self.share)
        return self._line

    def _opcode(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self._visit(frame.f_code, frame.f_lasti, 1.0)
        return self._opcode

    def _visit(self, code: CodeType, place: int, share: float) -> None:
        if (code, place) not in self._seen:
            self._seen.add((code, place))
            if self._chance.random() < share:
                raise KeyboardInterrupt


def seconds(act: Act) -> float:
    """Return the processor time of `act` without interrupts, in seconds."""
    began_s = time.process_time()
    act()
    return time.process_time() - began_s


def same_run(lab: Lab, other: Lab) -> bool:
    """Return True if both labs took the same actions with the same results."""
    return (
        lab.past.actions == other.past.actions
        and list(lab.trace) == list(other.trace)
        and lab.look.files.contents == other.look.files.contents
        and repr(lab) == repr(other)
    )
