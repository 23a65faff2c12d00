"""Short searches of a student's part that is driven by hand: all short runs, then long random ones.

A `Trial` does one step at a time with the student's part, and raises `NotYet` where the part breaks a rule. `searched`
tries every run of a few steps, the shortest first, so the first failure is a shortest one. Then it takes long random
walks, and shortens the walk that fails. A failure lists the steps with their numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from kit.course.classroom.checking import NotYet

MOST_RUNS = 400
"""The number of short runs to try."""
WALKS = 40
LENGTH = 14
"""The number of random walks, and the most steps of each."""

HIDDEN = 1_000
"""The least seed of an order that students do not know."""

_seeds: list[int] = [0]
"""The seed of the random choices: 0 for everybody, or the one that a grader sets for a student."""


class Trial(Protocol):
    """A part of the student's, with the steps that are possible now."""

    def choices(self) -> list[str]:
        """Return the steps that may come next."""

    def do(self, step: str) -> None:
        """Do a step. Raises NotYet if the part does not follow the rules."""


def use_seed(seed: int) -> None:
    """Use other random choices from now on; a grader passes one seed for each student."""
    _seeds[0] = seed


def seed() -> int:
    """Return the seed of the random choices; 0 without a grader."""
    return _seeds[0]


def chance(*names: object) -> Random:
    """Return the random choices for one purpose."""
    return Random(f"{_seeds[0]} {names}")


def orders(number: int) -> list[int]:
    """Return the seeds of the orders in which a check runs a job; a grader adds as many that students do not know."""
    hidden = [Random(f"{_seeds[0]} order {each}").randrange(HIDDEN, 1_000_000) for each in range(number)]
    return [*range(number), *(hidden if _seeds[0] else [])]


def searched(make: Callable[[], Trial], *, runs: int = MOST_RUNS, walks: int = WALKS, length: int = LENGTH) -> str:
    """Search the runs of a trial, and return what was tried. Raises NotYet with the steps of a shortest failure."""
    longest = 0
    tried = 0
    waiting: deque[tuple[str, ...]] = deque([()])
    while waiting and tried < runs:
        steps = waiting.popleft()
        trial = _done(make, steps)
        longest, tried = max(longest, len(steps)), tried + 1
        waiting.extend((*steps, step) for step in trial.choices())
    for number in range(walks):
        _walk(make, chance(number), length)
    return f"all {tried} shortest runs of up to {longest} steps, and {walks} random ones of up to {length}"


def _done(make: Callable[[], Trial], steps: Sequence[str]) -> Trial:
    """Do the steps. Raises NotYet, with the run, at the step that fails."""
    trial = make()
    for number, step in enumerate(steps, 1):
        try:
            trial.do(step)
        except NotYet as found:
            raise NotYet(told(found, steps[:number])) from None
    return trial


def told(found: NotYet, steps: Sequence[str]) -> str:
    """Return a message with the numbered steps that lead to it."""
    run = "\n".join(f"  {number} {step}" for number, step in enumerate(steps, 1))
    return f"Step {len(steps)}, {steps[-1]}: {found.text}\nThe run:\n{run}"


def _walk(make: Callable[[], Trial], chance: Random, length: int) -> None:
    trial = make()
    steps: list[str] = []
    for _ in range(length):
        choices = trial.choices()
        if not choices:
            return
        steps.append(chance.choice(choices))
        try:
            trial.do(steps[-1])
        except NotYet:
            _done(make, _shortened(make, steps))
            _done(make, steps)
            raise


def _shortened(make: Callable[[], Trial], steps: list[str]) -> list[str]:
    """Return fewer of the steps, in the same order, that still fail."""
    shortest = steps
    again = True
    while again:
        again = False
        for place in range(len(shortest)):
            fewer = _until_failure(make, shortest[:place] + shortest[place + 1 :])
            if fewer is not None:
                shortest, again = fewer, True
                break
    return shortest


def _until_failure(make: Callable[[], Trial], steps: list[str]) -> list[str] | None:
    """Return the steps up to the one that fails; None if none does, or if one is impossible."""
    trial = make()
    for number, step in enumerate(steps, 1):
        if step not in trial.choices():
            return None
        try:
            trial.do(step)
        except NotYet:
            return steps[:number]
    return None
