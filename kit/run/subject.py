"""The subject of a view: a run up to one moment, at one checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from kit.core.trace.trace import Trace
from kit.run.journeys import Follower, Journeys
from kit.run.moments.job_state import Moment
from kit.run.moments.moment import moment_at
from kit.run.reading import Reading
from kit.run.run import Run, run_of
from kit.run.stage import Stage, stage_for
from kit.run.steps import steps


class Folds:
    """The results of reading a run, for repeated views: each view extends the previous result instead of recomputing
    it.

    `moment_of` returns the moment after n records if that is kept, and None otherwise.
    """

    def __init__(self, moment_of: Callable[[int], Moment | None] | None = None) -> None:
        self.moment_of = moment_of
        self.follower = Follower()
        self.reading = Reading()


@dataclass(frozen=True)
class Subject:
    """The subject of a view: a run after its first `n` records (None: all), and at one checkpoint, if one was chosen.

    `thing` is the Lab, the SparkJob or the Trace. A lab knows more than its trace, for example its present state. A
    view that shows such things says so if they are not available.
    """

    thing: Any
    n: int | None = None
    checkpoint: int | None = None
    asked: str = ""
    """The text that was typed in, for a view that `asks`."""
    folds: Folds = field(default_factory=Folds, compare=False, repr=False)

    @cached_property
    def whole(self) -> Run:
        """The whole run, causes before effects."""
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
        """The trace up to the moment."""
        trace = self.whole.trace
        return trace if self.is_present else trace[: self.n]

    @property
    def is_present(self) -> bool:
        """True if nothing has happened since the moment."""
        return self.n is None or self.n >= len(self.whole.trace)

    @cached_property
    def moment(self) -> Moment:
        """The state of the job at that moment."""
        known = None if self.folds.moment_of is None else self.folds.moment_of(len(self.trace))
        return moment_at(self.run) if known is None else known

    @property
    def reading(self) -> Reading:
        """The reading of the whole run."""
        return self.folds.reading.follow(self.thing)

    @cached_property
    def journeys(self) -> Journeys:
        """Everything that had travelled by then; valid until the shared folds are used for another moment."""
        return self.folds.follower.follow(self.run)

    def asking(self, text: str) -> Subject:
        """Return the same subject with this text typed in; results computed so far are kept."""
        other = copy.copy(self)
        object.__setattr__(other, "asked", text)
        return other

    @property
    def stage(self) -> Stage:
        """The shape of the epoch that ran then."""
        return stage_for(self.whole.stages, self.moment.epoch)

    @property
    def checkpoint_id(self) -> int | None:
        """The chosen checkpoint, or else the newest one; None before the first."""
        return self.checkpoint if self.checkpoint is not None else max(self.moment.checkpoints, default=None)
