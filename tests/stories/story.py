"""A story: a small job that is stopped, suspended or drained while things fail, until all its input is in its output.

A life is one job from its start, or from the savepoint of the life before, to its end. Whatever happens in it, it ends
in one of three ways: FINISHED, with or without a savepoint; FAILED, naming the savepoint to go on from; or with its
driver, and then the next life is that of another driver of the same job. The last life is left in peace. What was
published by then must be the batch result: every row, and none twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kit.core.protocol.commands import CompleteRequest
from kit.hosts.lab.lab import Lab, LabError
from kit.hosts.lab.named_hook import named_hooks
from kit.machines.job.status import JobStatus
from tests.hosts.lab.jobs import CHECKPOINTS, Shape, environment, settle, wrong
from tests.stories.faults import break_disk, break_publication, break_store

MOST_STEPS = 10_000
"""A life that has not ended after so many will not; the longest of these takes about 1,500."""
GO_ON = re.compile(r"go on from this savepoint, restore_path='([^']+)', and from no older checkpoint")

FAULTS: dict[str, Callable[[Lab], object]] = {
    **{f"kill {worker}": lambda lab, worker=worker: lab.faults.kill(worker) for worker in range(3)},
    "publication fails": lambda lab: break_publication(lab, after=False),
    "publication fails late": lambda lab: break_publication(lab, after=True),
    "metadata fails": lambda lab: break_disk(lab, "/_metadata"),
    "savepoint fails": lambda lab: break_disk(lab, "/savepoints/"),
    "checkpoint fails": lambda lab: break_disk(lab, f"{CHECKPOINTS}/"),
    "store fails": lambda lab: break_store(lab, unknown=False, written=False),
    "store unknown": lambda lab: break_store(lab, unknown=True, written=False),
    "store unknown, written": lambda lab: break_store(lab, unknown=True, written=True),
    "cancel": lambda lab: lab.cancel(),
    "checkpoint": lambda lab: lab.trigger_checkpoint(),
    "savepoint": lambda lab: lab.savepoint(),
    "rescale": lambda lab: lab.rescale(3),
    "rescale twice": lambda lab: (lab.rescale(1), lab.rescale(3)),
}
"""What may be done to a job, beside `DRIVER_DIES` and `STOP`, which asks for another stop."""
DRIVER_DIES, STOP = "driver dies", "stop"
NEEDS_STORE = frozenset({DRIVER_DIES, "store fails", "store unknown", "store unknown, written"})


@dataclass(frozen=True)
class Fault:
    """`what` happens `steps` steps after the stop was requested or, with `stands`, after its savepoint is complete."""

    what: str
    steps: int
    stands: bool = False


@dataclass(frozen=True)
class Life:
    """One run of a job: `steps` steps, then `ending` ("suspend", "drain", or "" for none), and the faults after it."""

    steps: int
    ending: str
    faults: tuple[Fault, ...] = ()
    parallelism: int = 2


@dataclass(frozen=True)
class Story:
    """A job and its lives; `settings` are of its checkpoints."""

    shape: Shape
    lives: tuple[Life, ...]
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    hooks: int = 0
    """The number of master hooks, whose names differ in case only. A hook fails that gets the state of another."""

    @property
    def in_event_time(self) -> bool:
        """True if the results depend on event time: a drain would end windows early."""
        return self.shape.way in ("windows", "sessions")

    @property
    def is_durable(self) -> bool:
        """True if another driver can resume the job."""
        return self.settings.get("store") == "filesystem"


class Teller:
    """Runs one story; `happened` counts the events in it."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.happened: Counter[str] = Counter()
        self.lab: Lab
        self._path: str | None = None
        self._count = 0

    def tell(self) -> Lab:
        """Live through all lives, and the last one in peace; returns the lab with all output."""
        over = False
        for life in self.story.lives:
            over = over or self._live(life)
        if not over:
            self._live(Life(0, "", parallelism=2))
        return self.lab

    def _begin(self, life: Life, *, recover: bool = False) -> None:
        """Start a job; resume one whose end could not be stored, as the rejection says."""
        self._start(life, recover=recover)
        while self.lab.look.master.status is JobStatus.CREATED and self.story.is_durable:
            self.lab.step()
        if "start with recover=True to resume it" in self.lab.look.master.error:
            self.happened["end was not noted"] += 1
            self._start(life, recover=True)

    def _start(self, life: Life, *, recover: bool) -> None:
        shape = replace(self.story.shape, parallelism=life.parallelism)
        self._count += 1
        self._stops: list[int] = []
        self.lab = Lab(
            environment(shape, **self.story.settings),
            seed=self.story.seed + self._count,
            restore_path=self._path,
            hooks=named_hooks(self.story.hooks),
            after=getattr(self, "lab", None),
            recover=recover,
        )

    def _live(self, life: Life) -> bool:
        """Run one life; return True if the job has reached the end of its input."""
        self._begin(life)
        self._steps(life.steps)
        if life.ending and not self.lab.ended:
            self._stops.append(self.lab.stop(drain=life.ending == "drain" and not self.story.in_event_time))
        for fault in life.faults:
            self._suffer(fault, life)
        self._steps(MOST_STEPS)
        assert self.lab.ended, f"{self.lab!r} does not end"
        settle(self.lab)
        self.lab.look.validate()
        return self._is_over()

    def _steps(self, number: int, until: Callable[[], bool] = lambda: False) -> None:
        for _ in range(number):
            if self.lab.ended or until():
                return
            self.lab.step()

    @property
    def _stands(self) -> bool:
        return self.lab.look.master.stopping.stands

    def _suffer(self, fault: Fault, life: Life) -> None:
        if fault.what in NEEDS_STORE and not self.story.is_durable:
            return
        if fault.stands:
            self._steps(MOST_STEPS, lambda: self._stands)
        self._steps(fault.steps)
        if self.lab.ended:
            return
        self.happened[f"{fault.what}{', savepoint stands' if self._stands else ''}"] += 1
        if fault.what == DRIVER_DIES:
            self._begin(life, recover=True)
        elif fault.what == STOP:
            self._stops.append(self.lab.stop())
        else:
            with suppress(LabError):  # that worker does not run at present
                FAULTS[fault.what](self.lab)

    def _is_over(self) -> bool:
        status, error = self.lab.look.master.status, self.lab.look.master.error
        if status is JobStatus.FAILED:
            found = GO_ON.search(error)
            assert found, f"it failed and names no savepoint: {error}"
            self._path = found[1]
            self.happened["failed, goes on from its savepoint"] += 1
            assert not self._stops or error in [answer.error for answer in self._answers]
            return False
        if status is JobStatus.CANCELED:
            return not self._goes_on_after_cancel()
        assert status is JobStatus.FINISHED, error
        return not self._goes_on_after_stop()

    @property
    def _answers(self) -> list[CompleteRequest]:
        """The answers to the stops that this life's driver was asked for."""
        answers = self.lab._world.answers
        return [answers[request] for request in self._stops if request in answers]

    def _goes_on_after_stop(self) -> bool:
        """Return True if the job has stopped with a savepoint, from which the next run resumes."""
        found = [str(answer.path) for answer in self._answers if not answer.error]
        if found:
            self._path = found[0]
            self.happened["stopped with a savepoint"] += 1
        return bool(found)

    def _goes_on_after_cancel(self) -> bool:
        """Return True if the cancelled job left a savepoint, from which the next run resumes; else the story ends."""
        found = [path[1] for answer in self._answers if (path := GO_ON.search(answer.error))]
        if found:
            self._path = found[0]
            self.happened["cancelled, goes on from its savepoint"] += 1
        return bool(found)


def tell(story: Story) -> Counter[str]:
    """Tell a story to its end and compare; returns what happened in it."""
    teller = Teller(story)
    lab = teller.tell()
    if lab.look.master.status is JobStatus.CANCELED:
        teller.happened["cancelled"] += 1
        assert not lab.output("rows").duplicated().any(), story
        return teller.happened
    assert lab.look.master.status is JobStatus.FINISHED, lab.look.master.error
    assert wrong(lab, story.shape) == {}, story
    return teller.happened
