"""The timers of a driver's thread: several, due in another order than they were set in."""

from __future__ import annotations

from kit.hosts.spark.driver.driver_timers import DriverTimers


class Clock:
    """A clock that a test sets."""

    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def test_due_timers_act_in_the_order_of_their_times_and_the_others_wait() -> None:
    clock, acted = Clock(), list[str]()
    timers = DriverTimers(clock)
    for name, delay_ms in (("third", 30), ("first", 10), ("late", 500), ("second", 20), ("twice", 5)):
        timers.after(name, delay_ms, lambda name=name: acted.append(name))  # type: ignore[misc]
    timers.at("twice", 1_600, lambda: acted.append("twice"))
    assert timers.wait_s == 0.01
    clock.now_ms = 1_030
    assert timers.wait_s == 0.0
    timers.fire()
    assert acted == ["first", "second", "third"]
    assert timers.wait_s == 0.47
    assert repr(timers) == "DriverTimers(late, twice)"
    timers.fire()
    assert acted == ["first", "second", "third"], "each acts once"


def test_a_timer_may_set_and_cancel_others() -> None:
    clock, acted = Clock(), list[str]()
    timers = DriverTimers(clock)

    def first() -> None:
        acted.append("first")
        timers.cancel("second", "fourth", "unknown")
        timers.after("new", 0, lambda: acted.append("new"))

    for name, delay_ms in (("fourth", 9), ("second", 2), ("third", 3)):
        timers.after(name, delay_ms, lambda name=name: acted.append(name))  # type: ignore[misc]
    timers.after("first", 1, first)
    clock.now_ms = 1_020
    timers.fire()
    assert acted == ["first", "third"]
    timers.fire()
    assert acted == ["first", "third", "new"]
    assert timers.wait_s is None
    assert repr(timers) == "DriverTimers(none)"
