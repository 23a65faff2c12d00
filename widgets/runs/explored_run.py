"""One run that the explorer shows: its source, its picture, the user's actions, and the cursor."""

from __future__ import annotations

from typing import Any

from kit.hosts.lab import Lab
from kit.hosts.lab.scenarios.scenario import Scenario
from kit.run.durations import duration
from kit.run.moments.job_state import Moment
from kit.run.run import run_of
from kit.run.subject import Folds, Subject
from widgets.pictures.stepper import Stepper
from widgets.runs.action_history import ActionHistory


class ExploredRun:
    """A run with its stage. `thing` is a Lab, a SparkJob, a Trace or a scenario; `made` is the code that makes a
    lab.
    """

    def __init__(self, name: str, thing: Any, made: str = "", history: ActionHistory | None = None) -> None:
        self.name = name
        self.thing = thing
        self.stepper = Stepper(thing)
        self.history = history or (None if self.lab is None else ActionHistory(self.lab, made))
        self.asked: dict[int, str] = {}
        """What was asked of its job, by the number of the request."""
        self._there: tuple[object, Lab] | None = None
        self._folds = Folds(self._moment_of)
        self._subject: tuple[object, Subject] | None = None

    @property
    def lab(self) -> Lab | None:
        """The lab, if the run can continue; else None."""
        if isinstance(self.thing, Lab):
            return self.thing
        return self.thing.lab if isinstance(self.thing, Scenario) else None

    @property
    def n(self) -> int:
        """The number of records up to the cursor."""
        return int(self.stepper.n)

    @property
    def is_present(self) -> bool:
        """True if the cursor is at the end of the run so far."""
        return self.stepper.value == len(self.stepper.film["frames"]) - 1

    @property
    def position(self) -> int:
        """The step of the lab at the cursor; the number of records if there is no lab."""
        if self.lab is None:
            return self.n
        return self.lab.position if self.is_present else max(1, self.lab.past.position_of(self.n))

    @property
    def at(self) -> str:
        """The time at the cursor since the run began, in words."""
        return duration(self.stepper.moment.elapsed_ms)

    @property
    def end(self) -> str:
        """The time at the end of the run so far, in words."""
        return duration(self.stepper.film["frames"][-1]["at"])

    @property
    def there(self) -> Lab | None:
        """The lab as it was at the cursor: the lab itself, or, for the past, a copy that went back."""
        lab = self.lab
        if lab is None or self.is_present:
            return lab
        key = (lab.position, lab.past.last_action, self.position)
        if self._there is None or self._there[0] != key:
            self._there = key, lab.fork().goto(self.position)
        return self._there[1]

    @property
    def subject(self) -> Subject:
        """The run at the cursor, for views, with the selected checkpoint, if any."""
        trace = run_of(self.thing).trace
        n = None if self.is_present else self.n
        kind, _, name = self.stepper.picked.partition(":")
        chosen = int(name) if kind == "checkpoint" else None
        key = (n, chosen, len(trace), trace[-1] if trace else None)
        if self._subject is None or self._subject[0] != key:
            self._subject = key, Subject(self.thing, n, chosen, folds=self._folds)
        return self._subject[1]

    def _moment_of(self, n: int) -> Moment | None:
        """Return the moment after `n` records, if the stage shows the run's present state."""
        shown, trace = self.stepper.shown.trace, run_of(self.thing).trace
        is_same = len(shown) == len(trace) and (not trace or shown[-1] == trace[-1])
        return self.stepper.moment_at(n) if is_same else None

    @property
    def job_code(self) -> list[str]:
        """The lines that make the job, if it was made here; [] if the reader has it as `env`."""
        lines = [] if self.history is None else self.history.made.splitlines()
        return [line for line in lines if line.startswith(("env = ", "from "))]

    def fork(self, name: str) -> ExploredRun:
        """Return a separate run that begins with the history up to the cursor."""
        lab = self.there
        assert lab is not None
        assert self.history is not None
        lab = lab.fork()
        self._there = None
        fork = ExploredRun(name, lab, history=self.history.again(lab))
        fork.asked = {number: label for number, label in self.asked.items() if number <= lab.position}
        return fork

    @property
    def headline(self) -> tuple[str, str]:
        """The job's name and its current state, in words."""
        alive = self.lab or self.thing
        job = getattr(alive, "job", None)
        if job is not None:
            there = self.at if self.is_present else f"{self.at} of {self.end}"
            return job.name, f"{there}, {alive.status.lower()}"
        return "A recorded run", f"{len(run_of(self.thing).trace):,} records"

    def close(self) -> None:
        """Remove the run's widget from the page."""
        self.stepper.close()

    def __repr__(self) -> str:
        return f"ExploredRun({self.name}: {self.thing!r})"
