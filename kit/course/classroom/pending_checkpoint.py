"""Checks of the lab "the pending checkpoint": a coordinator's record of a checkpoint until all have acknowledged.

Single rules are checked by hand. In the lab the student's part is part of the job's coordinator: each acknowledgement
comes twice, a worker dies, and the job goes back to a checkpoint with the states that the part kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kit.core.trace.record_kinds import RecordKind
from kit.course.classroom.checking import NotYet, check
from kit.course.classroom.running import compared, letters, output, walked
from kit.hosts.lab.lab import Lab
from kit.stream.settings.parts import Parts

Pending = Callable[[list[str]], Any]
TASKS = ["letters/0", "letters/1", "totals/0", "totals/1"]
ORDERS = range(5)


class Bench:
    """A pending checkpoint driven by hand, with a record of what was done to it."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending(list(TASKS[:3]))
        self.done: list[str] = []

    def acknowledge(self, task: str, state: str, wanted: str, why: str) -> None:
        """Raise NotYet unless the acknowledgement gets this answer."""
        found = self.pending.acknowledge(task, state)
        self.done.append(f"{task} acknowledged with {state}")
        if found != wanted:
            raise NotYet(f"{self._so_far}: the answer was {found!r}. Expected {wanted!r}. {why}")

    def expect(self, what: str, found: Any, wanted: Any, why: str) -> None:
        """Raise NotYet unless both are equal."""
        if found != wanted:
            raise NotYet(f"{self._so_far}: {what} is {found!r}. Expected {wanted!r}. {why}")

    @property
    def _so_far(self) -> str:
        tasks = ", ".join(TASKS[:3])
        return f"Waiting for {tasks}" + "".join(f"; {each}" for each in self.done)


@check
def is_complete_with_the_last(pending: Pending) -> str:
    """Check that it is complete when all tasks have acknowledged, and not before."""
    bench = Bench(pending)
    for number, task in enumerate(TASKS[:3]):
        bench.expect("is_complete", bool(bench.pending.is_complete), False, "Somebody has not acknowledged yet.")
        bench.acknowledge(task, f"state {number}", "SUCCESS", "It was waited for.")
    bench.expect("is_complete", bool(bench.pending.is_complete), True, "All three have acknowledged.")
    wanted = {task: f"state {number}" for number, task in enumerate(TASKS[:3])}
    bench.expect("states", dict(bench.pending.states), wanted, "A restore needs the state of each task.")
    return "three tasks, one after another"


@check
def tells_a_duplicate(pending: Pending) -> str:
    """Check that the same task counts once."""
    bench = Bench(pending)
    bench.acknowledge(TASKS[0], "state 0", "SUCCESS", "It was waited for.")
    why = "It has acknowledged already: messages may arrive twice."
    bench.acknowledge(TASKS[0], "state 0", "DUPLICATE", why)
    bench.acknowledge(TASKS[1], "state 1", "SUCCESS", "It was waited for.")
    bench.expect("is_complete", bool(bench.pending.is_complete), False, f"{TASKS[2]} has not acknowledged.")
    bench.expect(
        "to_delete", list(bench.pending.to_delete), [], "The duplicate's state is the very state that is kept."
    )
    return "an acknowledgement that came twice"


@check
def tells_a_stranger(pending: Pending) -> str:
    """Check that a task outside the plan is unknown, and its state deleted."""
    bench = Bench(pending)
    bench.acknowledge("others/0", "a stranger's state", "UNKNOWN", "Nobody waits for this task.")
    bench.expect("is_complete", bool(bench.pending.is_complete), False, "None of the three has acknowledged.")
    why = "Nobody else knows of the state that it wrote: it would lie there for ever."
    bench.expect("to_delete", list(bench.pending.to_delete), ["a stranger's state"], why)
    return "a task that nobody waits for"


@check
def lets_go_when_aborted(pending: Pending) -> str:
    """Check that an abort deletes what was acknowledged, and what comes later."""
    bench = Bench(pending)
    bench.acknowledge(TASKS[0], "state 0", "SUCCESS", "It was waited for.")
    bench.pending.abort()
    bench.done.append("then it was aborted")
    why = "The checkpoint will never complete: the state of those that acknowledged is of no use."
    bench.expect("to_delete", list(bench.pending.to_delete), ["state 0"], why)
    bench.acknowledge(TASKS[1], "state 1", "DISCARDED", "The checkpoint is over.")
    why = "The late task did not know and wrote its state: only this acknowledgement tells of it."
    bench.expect("to_delete", list(bench.pending.to_delete), ["state 0", "state 1"], why)
    bench.expect("is_complete", bool(bench.pending.is_complete), False, "What was aborted does not complete.")
    return "an abort, and an acknowledgement that came too late"


@check
def runs_a_job(pending: Pending) -> str:
    """Check in the lab: each acknowledgement comes twice, and a worker dies."""
    last = {row[0]: row for row in sorted(set(output(walked(Lab(letters())))))}
    twice = 0
    for seed in ORDERS:
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
    died = f"{len(ORDERS)} orders, in each a worker was killed"
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
            if record.kind == RecordKind.ACKNOWLEDGE_CHECKPOINT and record.machine != "job":
                lab.faults.duplicate(f"AcknowledgeCheckpoint of chk-{record.checkpoint_id} from {record.machine}")
                self.twice += 1
            if record.kind == RecordKind.CHECKPOINT_COMPLETED and not self._killed:
                self._killed = True
                lab.faults.kill(0)
