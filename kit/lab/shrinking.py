"""Making a trial that violates something smaller, as long as it violates the same.

In turns: fewer deeds (delta debugging: halves first, then ever smaller parts), earlier and plainer deeds, a simpler
job, and fewer choices left to chance: where the order of things does not matter, the first of what may happen does.
Each attempt is one run, so `most_runs` bounds what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kit.lab.trials import Deed, Telling, Trial

T = TypeVar("T")
MOST_RUNS = 150
"""So many attempts for one trial."""


class Shrinking:
    """Makes one trial smaller; `smallest` is the smallest telling so far that ends in the same kind of violation."""

    def __init__(self, telling: Telling, most_runs: int = MOST_RUNS) -> None:
        assert telling.violation is not None
        self.smallest = telling
        self.kind = telling.violation.kind
        self.runs_left = most_runs

    def run(self) -> Telling:
        """Go on until nothing helps any more, or there were too many runs."""
        before = None
        while self.runs_left and self.smallest.trial != before:
            before = self.smallest.trial
            self._fewer_deeds()
            self._any_of(self._simpler_jobs)
            self._any_of(self._simpler_deeds)
        self._calmer()
        return self.smallest

    def _holds(self, trial: Trial) -> bool:
        """Whether this trial violates the same; then it is the smallest now."""
        if not self.runs_left:
            return False
        self.runs_left -= 1
        telling = trial.run()
        if telling.violation is None or telling.violation.kind != self.kind:
            return False
        self.smallest = telling
        return True

    def _fewer_deeds(self) -> None:
        trial = self.smallest.trial
        least_of(trial.deeds, lambda deeds: self._holds(replace(trial, deeds=tuple(deeds))))

    def _any_of(self, attempts: Callable[[Trial], Iterator[Trial]]) -> None:
        """Take the first attempt that helps, and begin again from there, until none does."""
        helped = True
        while helped and self.runs_left:
            helped = any(self._holds(trial) for trial in attempts(self.smallest.trial))

    def _simpler_jobs(self, trial: Trial) -> Iterator[Trial]:
        if any(trial.slow):
            yield replace(trial, slow=())
        for job in trial.job.simpler():
            yield replace(trial, job=job)

    def _simpler_deeds(self, trial: Trial) -> Iterator[Trial]:
        for number, deed in enumerate(trial.deeds):
            for simpler in (
                replace(deed, awaits=""),
                replace(deed, argument=0),
                replace(deed, after=0),
                replace(deed, after=deed.after // 2),
            ):
                if simpler != deed:
                    yield replace(trial, deeds=_with(trial.deeds, number, simpler))

    def _calmer(self) -> None:
        """Leave as few stretches to chance as possible."""
        steps = self.smallest.steps
        if self._holds(replace(self.smallest.trial, calm=((0, steps * 2),))):
            return
        trial = self.smallest.trial
        pieces = list(range(0, steps + 1, max(1, steps // 16)))
        size = max(1, steps // 16)
        least_of(
            pieces,
            lambda wild: self._holds(
                replace(trial, calm=tuple((at, at + size - 1) for at in pieces if at not in wild))
            ),
        )


def _with(deeds: tuple[Deed, ...], number: int, deed: Deed) -> tuple[Deed, ...]:
    return (*deeds[:number], deed, *deeds[number + 1 :])


def least_of(things: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The fewest of these things with which it still holds, as far as leaving out parts finds them: first halves, then
    smaller and smaller parts (Zeller's delta debugging, without its tests of the parts themselves).
    """
    parts = 2
    while things:
        size = max(1, len(things) // parts)
        for start in range(0, len(things), size):
            rest = [*things[:start], *things[start + size :]]
            if holds(rest):
                things = rest
                break
        else:
            if size == 1:
                break
            parts *= 2
    return things
