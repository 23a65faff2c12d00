"""The subject of a view: a run up to one moment, at one checkpoint."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kit.core.trace.trace import Trace
from kit.run.journeys import Follower, Journeys
from kit.run.moments.job_state import Moment
from kit.run.reading import Reading, reading_of
from kit.run.run import Run, run_of
from kit.run.stage import Stage, stage_for


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
    follower: Follower = field(default_factory=Follower, compare=False, repr=False)
    """Finds the journeys; repeated views of a run share it, and each extends the previous result."""

    @cached_property
    def whole(self) -> Run:
        """The whole run, causes before effects."""
        run = run_of(self.thing)
        if run.trace.detailed:
            return run
        return Run(Trace(self.reading.records, stages=run.trace.stages), run.known, run.notes)

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
        return self.reading.moment_at(len(self.trace))

    @property
    def reading(self) -> Reading:
        """The reading of the whole run."""
        return reading_of(self.thing)

    @cached_property
    def journeys(self) -> Journeys:
        """Everything that had travelled by then; valid until the shared follower is used for another moment."""
        return self.follower.follow(self.thing, len(self.trace))

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
