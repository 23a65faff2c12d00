"""Timers of a driver's thread: what it does at which time, by name, unless it is cancelled before."""

from __future__ import annotations

from collections.abc import Callable


class DriverTimers:
    """`now` is the clock, in ms. A name that is set again is due at the new time only."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._due: dict[str, tuple[int, Callable[[], None]]] = {}

    def at(self, name: str, due_ms: int, act: Callable[[], None]) -> None:
        """Do this then."""
        self._due[name] = (due_ms, act)

    def after(self, name: str, delay_ms: int, act: Callable[[], None]) -> None:
        """Do this in so long."""
        self.at(name, self._now() + delay_ms, act)

    def cancel(self, *names: str) -> None:
        """Do not do these, where they are still to be done."""
        for name in names:
            self._due.pop(name, None)

    @property
    def wait_s(self) -> float | None:
        """How long nothing is due; None: for ever."""
        due_ms = min((due for due, _ in self._due.values()), default=None)
        return None if due_ms is None else max(0.0, (due_ms - self._now()) / 1000)

    def fire(self) -> None:
        """Do what is due, the first first; one may cancel another."""
        now_ms = self._now()
        for name, (due, act) in sorted(self._due.items(), key=lambda timer: timer[1][0]):
            if due <= now_ms and name in self._due:
                del self._due[name]
                act()

    def __repr__(self) -> str:
        return f"DriverTimers({', '.join(self._due) or 'none'})"
