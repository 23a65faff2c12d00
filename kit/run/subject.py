"""A run as it is looked at: up to one moment, at one checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from kit.core.protocol.trace import Trace
from kit.run.job_state import Moment
from kit.run.journeys import Follower, Journeys
from kit.run.moment import moment_at
from kit.run.reading import Reading
from kit.run.run import Run, run_of
from kit.run.stage import Stage, stage_for
from kit.run.steps import steps


class Folds:
    """What was folded of a run, for who looks at it again and again: it is gone on with, not done anew.

    `moment_of` gives the moment after so many records, where somebody keeps those; None for others.
    """

    def __init__(self, moment_of: Callable[[int], Moment | None] | None = None) -> None:
        self.moment_of = moment_of
        self.follower = Follower()
        self.reading = Reading()


@dataclass(frozen=True)
class Subject:
    """A run as it is looked at: after its first `n` records (None: all), and at one checkpoint, if one was chosen.

    `thing` is the Lab, the SparkJob or the Trace. A lab knows more than its trace, its present state for instance;
    a view that shows such things says so where there is none.
    """

    thing: Any
    n: int | None = None
    checkpoint: int | None = None
    asked: str = ""
    """What was typed in, for a view that `asks`."""
    folds: Folds = field(default_factory=Folds, compare=False, repr=False)

    @cached_property
    def whole(self) -> Run:
        """All of the run, causes before effects."""
        run = run_of(self.thing)
        if run.trace.detailed:
            return run
        ordered = Trace(chain.from_iterable(steps(run.trace)), stages=run.trace.stages)
        return Run(ordered, run.known, run.notes)

    @cached_property
    def run(self) -> Run:
        """The run up to the moment."""
        return Run(self.trace, self.whole.known, self.whole.notes)

    @cached_property
    def trace(self) -> Trace:
        """What had happened by then."""
        trace = self.whole.trace
        return trace if self.is_present else trace[: self.n]

    @property
    def is_present(self) -> bool:
        """Whether nothing happened since."""
        return self.n is None or self.n >= len(self.whole.trace)

    @cached_property
    def moment(self) -> Moment:
        """How everything stood then."""
        known = None if self.folds.moment_of is None else self.folds.moment_of(len(self.trace))
        return moment_at(self.run) if known is None else known

    @property
    def reading(self) -> Reading:
        """All that was read of the whole run."""
        return self.folds.reading.follow(self.thing)

    @cached_property
    def journeys(self) -> Journeys:
        """What had travelled by then: valid until who shares the folds asks for those of another moment."""
        return self.folds.follower.follow(self.run)

    def asking(self, text: str) -> Subject:
        """The same with this typed in; what was worked out of it is kept."""
        other = copy.copy(self)
        object.__setattr__(other, "asked", text)
        return other

    @property
    def stage(self) -> Stage:
        """The shape of the epoch that ran then."""
        return stage_for(self.whole.stages, self.moment.epoch)

    @property
    def checkpoint_id(self) -> int | None:
        """The checkpoint chosen, or else the newest there was; None before the first."""
        return self.checkpoint if self.checkpoint is not None else max(self.moment.checkpoints, default=None)
