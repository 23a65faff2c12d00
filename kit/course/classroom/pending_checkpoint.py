"""Checks of the lab "the pending checkpoint": a coordinator's record of a checkpoint until all have acknowledged.

By hand, acknowledgements and aborts come in every order. In the lab the student's part is part of the job's
coordinator: each acknowledgement comes twice, a worker dies, and the job goes back to a checkpoint with the states that
the part kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit.core.protocol.messages import AcknowledgeCheckpoint
from kit.core.protocol.notes import CheckpointCompleted
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import compared, letters, output, walked
from kit.course.classroom.searching import orders, searched
from kit.hosts.lab.lab import Lab
from kit.stream.settings.parts import Parts

Pending = Callable[[list[str]], Any]
TASKS = ["letters/0", "letters/1", "totals/0", "totals/1", "out/0"]


class Compared:
    """A pending checkpoint driven by hand, and what the table in the lab says of each step.

    With `repeats` a task may acknowledge twice; `aborts` is the most aborts.
    """

    def __init__(
        self, pending: Pending, number: int, *, repeats: bool = True, strangers: bool = False, aborts: int = 0
    ) -> None:
        self._tasks = TASKS[:number]
        self.pending = pending(list(self._tasks))
        self._strangers, self._aborts = strangers, aborts
        self._acknowledged: dict[str, str] = {}
        self._useless: set[str] = set()
        self._aborted = 0
        self._again = False
        self._unknown = 0
        self._repeats = repeats

    def choices(self) -> list[str]:
        """Return what may happen next."""
        tasks = [task for task in self._tasks if self._repeats or task not in self._acknowledged]
        found = [f"{task} acknowledges" for task in tasks]
        found += ["others/0 acknowledges"] if self._strangers else []
        return found + (["abort"] if self._aborted < self._aborts else [])

    def do(self, step: str) -> None:
        """Do it, and compare."""
        task = step.partition(" ")[0]
        if step == "abort":
            self.pending.abort()
            self._aborted += 1
            self._useless |= set(self._acknowledged.values())
        else:
            self._compare_answer(task)
        self._compare_state(step)

    def _compare_answer(self, task: str) -> None:
        known = task in self._tasks
        state = f"state of {task}" if known else f"state {self._unknown} of a stranger"
        self._unknown += not known
        if self._aborted:
            wanted, why = "DISCARDED", "The checkpoint was aborted before."
            self._again |= state in self._useless
        elif task in self._acknowledged:
            wanted, why = "DUPLICATE", "It has acknowledged already: messages may arrive twice."
        elif known:
            wanted, why = "SUCCESS", "It was waited for."
        else:
            wanted, why = "UNKNOWN", "Nobody waits for this task."
        if wanted in ("DISCARDED", "UNKNOWN"):
            self._useless.add(state)
        else:
            self._acknowledged[task] = state
        found = self.pending.acknowledge(task, state)
        if found != wanted:
            raise NotYet(f"the answer was {found!r}. Expected {wanted!r}. {why}")

    def _compare_state(self, step: str) -> None:
        missing = [task for task in self._tasks if task not in self._acknowledged]
        wanted = not missing and not self._aborted
        found = self.pending.is_complete
        if bool(found) != wanted:
            why = "All tasks have acknowledged."
            if not wanted:
                why = "It was aborted." if self._aborted else f"{missing[0]} has not acknowledged."
            raise NotYet(f"is_complete is {found!r}. Expected {wanted}. {why} It waits for {', '.join(self._tasks)}.")
        if not self._aborted and dict(self.pending.states) != self._acknowledged:
            raise NotYet(
                f"states is {dict(self.pending.states)!r}. Expected {self._acknowledged!r}: a restore needs the state "
                "of each task that was waited for, and of no other."
            )
        self._compare_to_delete(step)

    def _compare_to_delete(self, step: str) -> None:
        found = list(self.pending.to_delete)
        lists = f"to_delete is {found!r}. Expected, in any order: {sorted(self._useless)!r}."
        if kept := sorted(self._useless - set(found)):
            why = "it will never complete" if step == "abort" else "only this acknowledgement says where it is"
            raise NotYet(f"{lists} Nobody needs {kept[0]!r}, because {why}: its files would stay on the disk.")
        if gone := [each for each in found if each not in self._useless]:
            raise NotYet(f"{lists} {gone[0]!r} is needed: a duplicate brings the very state that is kept.")
        if len(found) > len(set(found)) and not self._again:
            raise NotYet(f"{lists} The second abort has nothing to delete.")


@check
def is_complete_with_the_last(pending: Pending) -> str:
    """Check that it is complete when all tasks have acknowledged, and not before."""
    numbers = range(1, 6)
    return "; ".join(searched(partial(Compared, pending, each, repeats=False), runs=60, walks=5) for each in numbers)


@check
def tells_a_duplicate(pending: Pending) -> str:
    """Check that the same task counts once."""
    return "; ".join(searched(partial(Compared, pending, number), runs=150, walks=10) for number in (2, 3))


@check
def tells_a_stranger(pending: Pending) -> str:
    """Check that a task outside the plan is unknown, and its state deleted."""
    return "; ".join(searched(partial(Compared, pending, number, strangers=True), runs=150) for number in (1, 3))


@check
def lets_go_when_aborted(pending: Pending) -> str:
    """Check that an abort deletes what was acknowledged, and what comes later."""
    return "; ".join(
        searched(partial(Compared, pending, number, strangers=True, aborts=2), runs=250) for number in (1, 2, 4)
    )


@check
def runs_a_job(pending: Pending) -> str:
    """Check in the lab: each acknowledgement comes twice, and a worker dies."""
    last = {row[0]: row for row in sorted(set(output(walked(Lab(letters())))))}
    twice = 0
    seeds = orders(5)
    for seed in seeds:
        disturbed = _Disturbed()
        lab = Lab(letters(memory_threshold_bytes=0), parts=Parts(pending_checkpoint=pending), seed=seed)
        try:
            compared(walked(lab, disturbed), last)
        except NotYet as found:
            if "cannot be read" not in str(found):
                raise
            gone = "A file of the checkpoint that the job went back to is gone: what did yours put into `to_delete`?"
            raise NotYet(f"{gone} {found}", lab) from None
        except AssertionError as broken:
            raise NotYet(f"The coordinator was asked to complete what is not complete: {broken}.", lab) from broken
        twice += disturbed.twice
    died = f"{len(seeds)} orders, in each a worker was killed"
    return f"{died}; {twice} acknowledgements came twice: every row counted once"


class _Disturbed:
    """A lab that doubles each acknowledgement, and kills a worker when the first checkpoint is complete."""

    def __init__(self) -> None:
        self.twice = 0
        self._seen = 0
        self._killed = False

    def __call__(self, lab: Lab) -> None:
        new, self._seen = lab.trace[self._seen :], len(lab.trace)
        for record in new:
            if record.is_a(AcknowledgeCheckpoint) and record.machine != "job":
                lab.faults.duplicate(f"AcknowledgeCheckpoint of chk-{record.checkpoint_id} from {record.machine}")
                self.twice += 1
            if record.is_a(CheckpointCompleted) and not self._killed:
                self._killed = True
                lab.faults.kill(0)
