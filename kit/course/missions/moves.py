"""Moves: the lines of a mission's solution, each as Python code and as the function that carries it out."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from kit.hosts.lab import Adversarial, Lab


class Move(NamedTuple):
    """One line of Python about `lab`, and the function that does the same."""

    code: str
    act: Callable[[Lab], object]


def call(method: str, *arguments: Any, **named: Any) -> Move:
    """Return the call of a lab's method, such as `call("faults.kill", 1)`."""
    listed = ", ".join([*map(repr, arguments), *(f"{name}={value!r}" for name, value in named.items())])
    return Move(f"lab.{method}({listed})", lambda lab: attrgetter(method)(lab)(*arguments, **named))


def until(condition: str, is_met: Callable[[Lab], bool]) -> Move:
    """Return a run until a condition holds; `condition` is its code, in which the lab is `lab`."""
    return Move(f"lab.run_until(lambda lab: {condition})", lambda lab: lab.run_until(is_met))


def hold_back(words: str) -> Move:
    """Return the change to a scheduler that takes these actions last."""

    def act(lab: Lab) -> None:
        lab.scheduler = Adversarial(words)

    return Move(f"lab.scheduler = Adversarial({words!r})", act)


def wait(by_ms: int) -> Move:
    """Return a run for this time, in milliseconds."""
    code = f"lab.run_until(at_ms=lab.look.at_ms + {by_ms})"
    return Move(code, lambda lab: lab.run_until(at_ms=lab.look.at_ms + by_ms))
