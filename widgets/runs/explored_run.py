"""One run that a session shows: its source, the cursor, the selected item, and the user's actions."""

from __future__ import annotations

from typing import Any

from kit.hosts.lab import Lab
from kit.hosts.lab.scenarios.scenario import Scenario
from kit.machines.job.errors import JobFailedError
from kit.run.durations import duration
from kit.run.journeys import Follower
from kit.run.moments.job_state import Moment
from kit.run.reading import moment_at
from kit.run.run import run_of
from kit.run.subject import Subject
from widgets.runs.action_history import ActionHistory


class ExploredRun:
    """A run with a cursor. `thing` is a Lab, a SparkJob, a Trace or a scenario; `setup_code` creates a lab.

    Raises TypeError for anything but a run.
    """

    def __init__(self, name: str, thing: Any, setup_code: str = "", history: ActionHistory | None = None) -> None:
        run_of(thing)
        self.name = name
        self.thing = thing
        self.cursor: int | None = None
        """The number of records up to the moment that is shown; None: the end of the run, also when the run grows."""
        self.selected = ""
        """The item that was clicked, named as in the stepper; "" for none."""
        self.changes = 0
        """The number of times that the session changed the run, or found that it has grown."""
        self.history = history or (None if self.lab is None else ActionHistory(self.lab, setup_code))
        self.asked: dict[int, str] = {}
        """What was asked of its job, by the number of the request."""
        self._lab_at_cursor: tuple[object, Lab] | None = None
        self._follower = Follower()
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
        return len(run_of(self.thing).trace) if self.cursor is None else self.cursor

    @property
    def is_present(self) -> bool:
        """True if the cursor is at the end of the run so far."""
        return self.cursor is None

    @property
    def position(self) -> int:
        """The step of the lab at the cursor; the number of records if there is no lab."""
        if self.lab is None:
            return self.n
        return self.lab.position if self.is_present else max(1, self.lab.past.position_of(self.n))

    @property
    def moment(self) -> Moment:
        """The state of the job at the cursor."""
        return self.subject.moment

    @property
    def at(self) -> str:
        """The time at the cursor since the run began, in words."""
        return duration(self.moment.elapsed_ms)

    @property
    def end(self) -> str:
        """The time at the end of the run so far, in words."""
        return duration(moment_at(self.thing).elapsed_ms)

    @property
    def lab_at_cursor(self) -> Lab | None:
        """The lab as it was at the cursor: the lab itself, or, for the past, a copy that went back."""
        lab = self.lab
        if lab is None or self.is_present:
            return lab
        key = (lab.position, lab.past.last_action, self.position)
        if self._lab_at_cursor is None or self._lab_at_cursor[0] != key:
            self._lab_at_cursor = key, lab.fork().goto(self.position)
        return self._lab_at_cursor[1]

    @property
    def subject(self) -> Subject:
        """The run at the cursor, for views, with the selected checkpoint, if any."""
        trace = run_of(self.thing).trace
        kind, _, name = self.selected.partition(":")
        chosen = int(name) if kind == "checkpoint" else None
        key = (self.cursor, chosen, len(trace), trace[-1] if trace else None)
        if self._subject is None or self._subject[0] != key:
            self._subject = key, Subject(self.thing, self.cursor, chosen, follower=self._follower)
        return self._subject[1]

    @property
    def job_code(self) -> list[str]:
        """The lines that make the job, if it was made here; [] if the reader has it as `env`."""
        lines = [] if self.history is None else self.history.setup_code.splitlines()
        return [line for line in lines if line.startswith(("env = ", "from "))]

    def note_request(self, number: int, label: str) -> None:
        """Note a request to the job. Requests of this step and of later ones were undone when the run went back."""
        self.asked = {each: asked for each, asked in self.asked.items() if each < number} | {number: label}

    @property
    def answer(self) -> str:
        """The outcome of the last request to the job; "" if there was none."""
        lab = self.lab
        if lab is None or not self.asked:
            return ""
        number, label = list(self.asked.items())[-1]
        if number > lab.position or getattr(lab.past.actions[number - 1], "request_id", None) != number:
            return ""  # the run went back to a step before the request
        try:
            path = lab.look.answer(number)
        except JobFailedError as error:
            return f"{label}: {error}"
        return f"{label}: requested, not done yet" if path is None else f"{label}: {path or 'done'}"

    def fork(self, name: str) -> ExploredRun:
        """Return a separate run that begins with the history up to the cursor."""
        lab = self.lab_at_cursor
        assert lab is not None
        assert self.history is not None
        lab = lab.fork()
        self._lab_at_cursor = None
        fork = ExploredRun(name, lab, history=self.history.again(lab))
        fork.asked = {number: label for number, label in self.asked.items() if number <= lab.position}
        return fork

    @property
    def headline(self) -> tuple[str, str]:
        """The job's name and its current state, in words."""
        alive = self.lab or self.thing
        job = getattr(alive, "job", None)
        if job is not None:
            position = self.at if self.is_present else f"{self.at} of {self.end}"
            return job.name, f"{position}, {alive.status.lower()}"
        return "A recorded run", f"{len(run_of(self.thing).trace):,} records"

    def __repr__(self) -> str:
        return f"ExploredRun({self.name}: {self.thing!r})"
