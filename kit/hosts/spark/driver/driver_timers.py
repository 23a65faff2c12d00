"""Timers of a driver's thread: named actions at given times, which can be cancelled."""

from __future__ import annotations

from collections.abc import Callable


class DriverTimers:
    """The timers by name. `now` is the clock, in ms. Setting a name again replaces its earlier time."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._due: dict[str, tuple[int, Callable[[], None]]] = {}

    def at(self, name: str, due_ms: int, act: Callable[[], None]) -> None:
        """Perform an action at a given time."""
        self._due[name] = (due_ms, act)

    def after(self, name: str, delay_ms: int, act: Callable[[], None]) -> None:
        """Perform an action after a delay."""
        self.at(name, self._now() + delay_ms, act)

    def cancel(self, *names: str) -> None:
        """Cancel those of these timers that are pending."""
        for name in names:
            self._due.pop(name, None)

    @property
    def wait_s(self) -> float | None:
        """Return the time until the next timer is due; None if there is none."""
        due_ms = min((due for due, _ in self._due.values()), default=None)
        return None if due_ms is None else max(0.0, (due_ms - self._now()) / 1000)

    def fire(self) -> None:
        """Perform the actions that are due, earliest first; one may cancel another."""
        now_ms = self._now()
        for name, (due, act) in sorted(self._due.items(), key=lambda timer: timer[1][0]):
            if due <= now_ms and name in self._due:
                del self._due[name]
                act()

    def __repr__(self) -> str:
        return f"DriverTimers({', '.join(self._due) or 'none'})"
