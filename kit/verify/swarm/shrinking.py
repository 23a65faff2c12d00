"""Shrinking a failing trial to a smaller one that violates the same property.

The first attempts are small jobs with other seeds, because most violations also occur there. After that, shrinking
repeats these reductions:

1. no random choices;
2. fewer interventions (delta debugging: halves first, then smaller and smaller parts);
3. a simpler job;
4. earlier and simpler interventions;
5. fewer steps that choose another action than the first.

In another job the same seed gives another order of actions, so the plain order and some other seeds are tried there as
well. The cost of all attempts is limited by a number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kit.verify.swarm.trials import Trial, TrialRun

T = TypeVar("T")
MOST_RUNS = 400
"""The most attempts for one trial of the usual length."""
STEPS_OF_A_RUN, STEPS_TO_BEGIN = 500, 100
SMALL_SEEDS, OTHER_SEEDS = 25, 3
SMALLER = 6
"""The factor by which interventions are earlier in a small job."""
CALM: frozenset[int] = frozenset()


class Shrinking:
    """The shrinking of one trial; `smallest` is the smallest run so far with the same kind of violation."""

    def __init__(self, run: TrialRun, most_runs: int = MOST_RUNS) -> None:
        assert run.violation is not None
        self.smallest = run
        self.kind = run.violation.kind
        self.steps_left = most_runs * STEPS_OF_A_RUN

    def run(self) -> TrialRun:
        """Shrink until no reduction helps, or until there were too many runs."""
        before = None
        any(self._holds(trial) for trial in self._small_trials(self.smallest.trial))
        while self.steps_left > 0 and self.smallest.trial != before:
            before = self.smallest.trial
            if before.wild != CALM:
                self._holds(replace(before, wild=CALM))
            self._fewer_interventions()
            self._any_of(self._simpler_jobs)
            self._any_of(self._simpler_interventions)
            self._calmer()
        return self.smallest

    def _holds(self, trial: Trial) -> bool:
        """Return True if this trial violates the same property; it is the smallest then."""
        if self.steps_left <= 0:
            return False
        run = trial.run()
        self.steps_left -= STEPS_TO_BEGIN + run.steps
        if run.violation is None or run.violation.kind != self.kind:
            return False
        self.smallest = run
        return True

    def _fewer_interventions(self) -> None:
        trial = self.smallest.trial
        least_of(
            trial.interventions, lambda interventions: self._holds(replace(trial, interventions=tuple(interventions)))
        )

    def _any_of(self, attempts: Callable[[Trial], Iterator[Trial]]) -> None:
        """Take the first attempt that helps, and start again from there, until none does."""
        helped = True
        while helped and self.steps_left > 0:
            helped = any(self._holds(trial) for trial in attempts(self.smallest.trial))

    def _small_trials(self, trial: Trial) -> Iterator[Trial]:
        interventions = tuple(
            replace(intervention, after=intervention.after // SMALLER) for intervention in trial.interventions
        )
        for job in trial.job.small():
            for seed in range(SMALL_SEEDS):
                yield replace(
                    trial, job=job, seed=seed, interventions=interventions, slow=(), wild=None if seed else CALM
                )

    def _simpler_jobs(self, trial: Trial) -> Iterator[Trial]:
        if any(trial.slow):
            yield replace(trial, slow=())
        for job in trial.job.simpler():
            yield from _in_other_orders(replace(trial, job=job))

    def _simpler_interventions(self, trial: Trial) -> Iterator[Trial]:
        for number, intervention in enumerate(trial.interventions):
            for simpler in (
                replace(intervention, awaits=""),
                replace(intervention, argument=0),
                replace(intervention, after=0),
                replace(intervention, after=intervention.after // 2),
            ):
                if simpler != intervention:
                    yield replace(
                        trial,
                        interventions=(*trial.interventions[:number], simpler, *trial.interventions[number + 1 :]),
                    )

    def _calmer(self) -> None:
        """Make as few random choices as possible."""
        trial = self.smallest.trial
        least_of(self.smallest.wild, lambda steps: self._holds(replace(trial, wild=frozenset(steps))))


def _in_other_orders(trial: Trial) -> Iterator[Trial]:
    yield trial
    if trial.wild != CALM:
        yield replace(trial, wild=CALM)
        for other in range(OTHER_SEEDS):
            yield replace(trial, seed=trial.seed + 1 + other, wild=None)


def least_of(things: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return a small subsequence for which `holds` is still True.

    It leaves out halves first, then smaller and smaller parts (Zeller's delta debugging, without its tests of the parts
    themselves).
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
